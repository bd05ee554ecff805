"""The master of a Spark cluster, when Spark starts: one that is not there is told at once, one that is silent in time.

Code: RUN093.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stateplan.execnodes.errors import RunError
from stateplan.execnodes.settings import value
from stateplan.execnodes.unreached import OTHER, REASONS, REFUSED, SILENT, kind_of

_PLACES = re.compile(r"(?:spark|k8s)://(?:https?://)?([^/]+)")
_CONNECT = 10.0
"""Seconds for a connection to a master."""
_TIMEOUT = "slot.request.timeout"
_GIVEN_UP = "masters are unresponsive"
"""What Spark says when a standalone master has not taken the application within a minute."""


def check_master(master: str) -> None:
    """Connects to the master that an address names, to one of several.

    Raises:
        RunError: RUN093, there is none.
    """
    found = _PLACES.match(master)
    if found is None:
        return
    failed: Exception | None = None
    for place in found[1].split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal():
            return  # Spark knows other forms, and says what is wrong with the rest
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT).close()
        except (OSError, OverflowError, UnicodeError) as cause:
            failed = cause
        else:
            return
    if failed is not None:
        raise unreached(master, kind_of(failed) or REFUSED, str(failed)) from failed


def unreached(master: str, kind: str, what: str) -> RunError:
    """RUN093 for a master."""
    return RunError("RUN093", master=master, why=REASONS[kind], what=what[:300])


@contextmanager
def watched(master: str, options: Mapping[str, str], log: Path) -> Iterator[None]:
    """Ends a start of Spark that waits for its master: Spark waits for long after it has given up.

    Args:
        master: its address.
        options: of the session, for ``slot.request.timeout``.
        log: what Spark prints.

    Raises:
        RunError: RUN093, the master does not answer within the time, or not as one.
    """
    over = threading.Event()
    limit = value(options, _TIMEOUT) / 1000
    given_up: list[RunError] = []

    def watch() -> None:
        since: float | None = None
        while not over.wait(0.5):
            process = _process()
            if process is None:
                continue
            since = since or time.monotonic()
            said = log.read_text(errors="replace")
            late = time.monotonic() - since > limit
            if late or _GIVEN_UP in said:
                strange = "TransportChannelHandler" in said or "frame length" in said
                what = f"no answer within {time.monotonic() - since:.0f} s"
                given_up.append(unreached(master, OTHER if strange and not late else SILENT, what))
                process.kill()
                return

    watching = threading.Thread(target=watch, name="stateplan-master", daemon=True)
    watching.start()
    try:
        yield
    except Exception as cause:
        if given_up:
            raise given_up[0] from cause
        raise
    finally:
        over.set()
        watching.join()


def _process() -> Any:
    """The process of Spark that this process has started; None before it runs, and of one that somebody else did."""
    from pyspark import SparkContext

    with contextlib.suppress(AttributeError):
        return SparkContext._gateway.proc  # noqa: SLF001 - PySpark tells nobody
    return None
