"""The master of a Spark cluster, when Spark starts: a missing one is reported at once, a silent one after a timeout.

Code: RUN093.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import getproxies, proxy_bypass
from xml.etree import ElementTree

from stateplan.common.errors import RunError, nearest
from stateplan.common.failure_reasons import NO_LISTENER, OTHER, REASONS, SILENT, kind_of
from stateplan.common.settings import value

_FORMS = re.compile(
    r"local(\[\s*([1-9]\d*|\*)\s*(,\s*[1-9]\d*\s*)?\])?"
    r"|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^/?#@,:\s]+:\d+(,[^/?#@,:\s]+:\d+)*"
    r"|spark://\[[\da-fA-F:.]+\]:\d+"
    r"|k8s://.+"
    r"|yarn"
)
"""The addresses of masters that Spark starts with (SparkSubmit, SparkContext.createTaskScheduler)."""
_KINDS = ("local", "spark", "k8s", "yarn")
_PLACES = re.compile(r"(?:spark|k8s)://(?:(https?)://)?([^/]+)")
_PORTS = {"https": 443, "http": 80}
"""The ports of Kubernetes where its address names none."""
_YARN = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
"""The variables that Spark wants one of for YARN, the first one first."""
_MANAGER = "yarn.resourcemanager."
_MANAGER_PORT = 8032
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable that ``spark-submit`` sets: it has started the JVM of this process."""
_CONNECT = 10.0
"""Seconds for a connection to a master."""
_ANSWER = 20.0
"""Seconds for its first answer: as long as Spark waits before it repeats its registration."""
_STREAM_REQUEST = 6
"""The type of the message that requests a file, ``StreamRequest``."""
_FIRST_BYTES = (b"", b"\0", b"\x15")
"""What an answer of Spark begins with: the length of a message, or a message of TLS; nothing where it breaks off."""
_TIMEOUT = "slot.request.timeout"
_GIVEN_UP = "masters are unresponsive"
"""What Spark says when a standalone master has not taken the application within a minute."""


def check_form(master: str) -> None:
    """Raises RunError RUN093 for a text that is not the address of a master. Spark would notice it only in the JVM."""
    if _FORMS.fullmatch(master) is None:
        kind = re.split(r"\W", master)[0]
        raise RunError("RUN093.no_address", master=master, hint=None if kind in _KINDS else nearest(kind, _KINDS))


def check_master(master: str) -> None:
    """Connects to the master that an address names, or to one of several, and waits until it sends something. Spark
    itself waits for a minute.

    Raises:
        RunError: RUN093, it does not exist.
    """
    last_failure: Exception | None = None
    connections = []
    with contextlib.ExitStack() as stack:
        for host, port in _places(master):
            try:
                connection = socket.create_connection((host.strip("[]"), port), timeout=_CONNECT)
            except (OSError, OverflowError, UnicodeError) as cause:
                last_failure = cause
            else:
                connections.append(stack.enter_context(connection))
                with contextlib.suppress(OSError):  # a broken connection can be read, too
                    connection.sendall(_question(master))
        if connections:
            _await_answer(master, connections)
        elif last_failure is not None:
            raise master_error(master, kind_of(last_failure) or NO_LISTENER, str(last_failure)) from last_failure


def _question(master: str) -> bytes:
    """The beginning of a conversation that every master answers, and none writes to its log.

    Source: Spark's ``StreamRequest`` in ``org.apache.spark.network.protocol``; Hadoop's ``Server`` for YARN, which
    answers HTTP with an error.
    """
    if master.startswith("spark:"):
        file = b"/files/stateplan"
        return struct.pack(">QBI", 8 + 1 + 4 + len(file), _STREAM_REQUEST, len(file)) + file
    if master == "yarn" or master.startswith("k8s://http://"):
        return b"GET /version HTTP/1.0\r\n\r\n"
    hello = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="kubernetes").do_handshake()
    return hello.read()


def _await_answer(master: str, connections: Sequence[socket.socket]) -> None:
    """Waits until one of several masters sends something, or closes its connection, for which Spark has a reason.
    Raises RunError RUN093: none does in time, or all send something else than a master."""
    silent = list(connections)
    deadline = time.monotonic() + _ANSWER
    while silent:
        readable, _, _ = select.select(silent, [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise master_error(master, SILENT, f"no answer within {_ANSWER:.0f} s")
        for connection in readable:
            first_byte = b""
            with contextlib.suppress(OSError):
                first_byte = connection.recv(4096)[:1]
            if not master.startswith("spark:") or first_byte in _FIRST_BYTES:
                return
            silent.remove(connection)
    raise master_error(master, OTHER, "the answer is none of Spark")


def _places(master: str) -> list[tuple[str, int]]:
    """The hosts and ports that an address of a master stands for; none where Spark has to say what is wrong with it.
    Raises RunError RUN093, YARN without its configuration."""
    if master == "yarn":
        return _managers()
    match = _PLACES.match(master)
    if match is None:
        return []
    scheme = (match[1] or "https") if master.startswith("k8s:") else None
    places = []
    for place in match[2].split(","):
        host, colon, port = place.rpartition(":")
        if scheme is not None and (not colon or place.endswith("]")):
            host, port = place, str(_PORTS[scheme])
        if scheme in getproxies() and not proxy_bypass(host.strip("[]")):
            return []  # Spark reaches Kubernetes through a proxy, as these variables say
        if not host or not port.isdecimal():
            return []  # Spark knows other forms
        places.append((host, int(port)))
    return places


def _managers() -> list[tuple[str, int]]:
    """The addresses of YARN's resource managers, as its configuration has them. Raises RunError RUN093."""
    if SUBMITTED in os.environ:
        return []  # Spark runs already
    folder = next((os.environ[name] for name in _YARN if os.environ.get(name)), None)
    if folder is None:
        raise RunError("RUN093.yarn")
    options = site(Path(folder, "yarn-site.xml"))
    managers = []
    for name in options.get(_MANAGER + "ha.rm-ids", "").split(","):
        end = f".{name.strip()}" if name.strip() else ""
        text = options.get(f"{_MANAGER}address{end}") or options.get(f"{_MANAGER}hostname{end}")
        if text and "$" not in text:
            host, colon, port = text.rpartition(":")
            managers.append((host, int(port)) if colon and port.isdecimal() else (text, _MANAGER_PORT))
    return managers


def site(file: Path) -> dict[str, str]:
    """The options in a file of Hadoop's configuration; none where it cannot be read."""
    try:
        pairs = [(p.findtext("name", ""), p.findtext("value", "")) for p in ElementTree.parse(file).iter("property")]
    except (OSError, ElementTree.ParseError):
        return {}
    return {name.strip(): value.strip() for name, value in pairs}


def master_error(master: str, kind: str, problem: str) -> RunError:
    """RUN093 for a master."""
    return RunError("RUN093", master=master, why=REASONS[kind], what=problem[:300])


@contextmanager
def watch_log(master: str, options: Mapping[str, str], log: Path) -> Iterator[None]:
    """Ends a start of Spark that waits for its master: Spark waits for long after it has given up.

    Args:
        master: its address.
        options: the options of the session, for ``slot.request.timeout``.
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
            log_text = log.read_text(errors="replace")
            late = time.monotonic() - since > limit
            if late or _GIVEN_UP in log_text:
                strange = "TransportChannelHandler" in log_text or "frame length" in log_text
                problem = f"no answer within {time.monotonic() - since:.0f} s"
                given_up.append(master_error(master, OTHER if strange and not late else SILENT, problem))
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
        return SparkContext._gateway.proc  # noqa: SLF001 - PySpark does not publish it
    return None
