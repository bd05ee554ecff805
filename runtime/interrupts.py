"""Ctrl-C and SIGTERM, kept off calls of Spark's that are half done.

PySpark's handler of SIGINT calls Spark itself, and py4j has one connection per thread: a signal that comes while the
thread waits for an answer mixes two conversations up, and what is raised then is an error of py4j's instead of
KeyboardInterrupt.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def between_calls() -> Iterator[None]:
    """Holds Ctrl-C and SIGTERM back while the block runs; the block should take a fraction of a second.

    Raises:
        KeyboardInterrupt: after the block, when Ctrl-C was pressed meanwhile. For SIGTERM the handler of the process is
            called then; one that has none, and any thread but the main one, is left as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        signals.append(number)

    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    handlers = {n: handler for n, handler in before.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in reversed(handlers.items()):  # SIGINT last: from then on, it may end this function
            signal.signal(number, handler)
        for signal_number in signals:
            if signal_number == signal.SIGINT:
                raise KeyboardInterrupt
            handlers[signal.SIGTERM](signal_number, None)
