"""A clock that tests set in the JVM of Flink, through libfaketime.

Flink counts TTLs by the clock of its processes. With ``libfaketimeMT`` loaded into the JVM, the clock is the time in a
file, and stands still in between. What waits, such as the timers of checkpoints, waits as long as ever.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from stateplan.runtime.scratch import scratch

LIBRARY = "LIBFAKETIME"
"""The environment variable with the path of the library, where it is not in a usual place."""

_NAME = "libfaketimeMT.so.1"
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
_HALF_MS = 500
"""Microseconds above a millisecond, so that no rounding comes to the one before it."""


def find_library() -> str | None:
    """The path of ``libfaketimeMT``; None if it is not installed."""
    named_path = os.environ.get(LIBRARY)
    if named_path:
        return named_path if Path(named_path).is_file() else None
    places = (
        path for folder in _FOLDERS for pattern in ("faketime", "*/faketime") for path in Path(folder).glob(pattern)
    )
    return next((str(place / _NAME) for place in sorted(places) if (place / _NAME).is_file()), None)


class FlinkClock:
    """The clock of Flink's JVM.

    Args:
        path: the file with the time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def set(self, at: int) -> None:
        """Sets the clock, to ms since 1970."""
        text = f"{at // 1000}.{at % 1000:03d}{_HALF_MS:03d}\n"
        draft = self._path.with_suffix(".draft")
        draft.write_text(text, "ascii")
        draft.replace(self._path)


@cache
def clock_of_jvm() -> FlinkClock | None:
    """The clock of the JVM of PyFlink, which starts here; None without the library."""
    library = find_library()
    if library is None:
        return None
    path = scratch("flink-clock") / "clock"
    clock = FlinkClock(path)
    clock.set(1_000_000_000_000)
    variables = {
        "LD_PRELOAD": " ".join(filter(None, (os.environ.get("LD_PRELOAD"), library))),
        "FAKETIME_TIMESTAMP_FILE": str(path),
        "FAKETIME_FMT": "%s",
        "FAKETIME_NO_CACHE": "1",
        # What waits does so by another clock, which the library would take for the one that it sets.
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    # Flink of this process has no plugins: the reporter of metrics is on the path of its classes.
    package = find_spec("pyflink")
    homes = [] if package is None else package.submodule_search_locations or []
    reporters = [path for home in homes for path in sorted(Path(home).glob("plugins/metrics-prometheus/*.jar"))]
    classes = [*map(str, reporters), os.environ.get("HADOOP_CLASSPATH", "")]
    variables["HADOOP_CLASSPATH"] = ":".join(filter(None, classes))
    with _environment(variables):
        from pyflink.java_gateway import get_gateway  # type: ignore[import-not-found] # not required

        get_gateway()
    return clock


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables of the processes that start here."""
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, text in previous.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text


def free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
