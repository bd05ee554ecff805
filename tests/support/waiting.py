"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float, what: str = "it does not happen") -> None:
    """Waits until something holds. Raises AssertionError with ``what`` when it does not in time.

    It asks less often the longer it takes: who asks takes the processor from those that it waits for.
    """
    began = time.monotonic()
    while not holds():
        waited = time.monotonic() - began
        assert waited < seconds, what
        time.sleep(min(0.2, max(0.01, waited / 10)))
