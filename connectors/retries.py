"""Looking rows up again that were not found, and waiting until then.

Source: Flink's ``RetryableLookupFunctionDelegator`` and ``FixedDelayRetryStrategy`` (FLIP-234).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

_SLICE = 0.1
"""Seconds of a wait after which it is checked whether it is still wanted."""

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Within, waits of this thread call ``check`` now and then. It raises an error when nobody needs the result."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def pause(ms: float) -> None:
    """Waits. Raises what the check of :func:`interruptible` raises."""
    end, check = time.monotonic() + ms / 1000, _check.get()
    while True:
        if check is not None:
            check()
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, _SLICE))


@dataclass(frozen=True)
class KeyRetries:
    """How keys without rows are looked up again. Picklable.

    All keys without rows wait together, so that a look-up takes ``attempts`` waits at most, however many keys it has.

    Attributes:
        attempts: how often, at most.
        delay: before each, ms.
        accepted: the rows of a frame that count, at a time (ms).
    """

    attempts: int
    delay: int
    accepted: Callable[[pl.DataFrame, int], pl.DataFrame]

    def rows(self, now: int, keys: pl.DataFrame, read: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
        """The rows of ``keys``.

        Args:
            now: the time of the micro-batch, ms.
            keys: distinct, named as the columns of the rows that they are values of. One with NULL has no rows.
            read: returns the rows of some keys as they are now, and maybe more.
        """
        import polars as pl

        matches = read(keys)
        missing_keys = keys.filter(pl.all_horizontal(pl.all().is_not_null())) if keys.columns else keys
        for _ in range(self.attempts):
            missing_keys = self._without_rows(missing_keys, matches, now)
            if not missing_keys.height:
                break
            pause(self.delay)
            more = read(missing_keys).join(missing_keys, on=missing_keys.columns, how="semi")
            matches = pl.concat([matches.join(missing_keys, on=missing_keys.columns, how="anti"), more])
        return matches

    def _without_rows(self, keys: pl.DataFrame, rows: pl.DataFrame, now: int) -> pl.DataFrame:
        return keys.join(self.accepted(rows, now), on=keys.columns, how="anti") if keys.columns else keys.clear()
