"""Imports of many modules in a process whose garbage collection is not ours to set."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Within, no garbage is collected. Modules are many objects that live as long as the process, and collections look
    at all of them again and again: a sixth of the time of a short program."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
