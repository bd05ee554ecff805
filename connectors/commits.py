"""Commits of micro-batches to a table that several writers change at once, without locks: each commit names the
version that it follows, and fails where another writer was faster."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from stateplan.common.changelog import KIND
from stateplan.common.errors import StateplanError

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

_PATIENCE = 60.0
"""Seconds for which a commit that others overtake is tried again."""


def commit_once(
    open_table: Callable[[], T],
    is_done: Callable[[T], bool],
    change: Callable[[T], None],
    overtaken: tuple[type[Exception], ...],
    refusal: Callable[[Exception], StateplanError],
    is_released: Callable[[], bool],
) -> bool:
    """Makes a change in one commit. Where another writer was faster, looks again at what the table has now.

    Args:
        open_table: opens the table as it is now.
        is_done: whether it has the micro-batch.
        change: makes the change.
        overtaken: the errors of a commit that another writer overtook, or whose outcome nobody knows.
        refusal: the error when others are always faster.
        is_released: whether the job is about to be stopped.

    Returns:
        False if the micro-batch was there before. A commit that seems to have failed may have been made: the store took
        it, and its answer was lost.

    Raises:
        StateplanError: what ``refusal`` returns.
    """
    until = time.monotonic() + _PATIENCE
    pause = 0.05
    is_retry = False
    while True:
        table = open_table()
        if is_done(table):
            return is_retry
        is_retry = True
        try:
            change(table)
            return True
        except overtaken as error:
            if is_released() or time.monotonic() > until:
                raise refusal(error) from None
            time.sleep(pause * (1 + random.random()))
            pause = min(2 * pause, 2.0)


def rows_as_part(frame: pl.DataFrame) -> bytes:
    """The part of a sink whose driver needs the rows."""
    out = io.BytesIO()
    frame.write_ipc(out)
    return out.getvalue()


def last_changes(parts: Sequence[bytes], key: Sequence[str]) -> pl.DataFrame | None:
    """The last change of each key, with its ``kind``; None without any.

    Args:
        parts: what :func:`rows_as_part` has made, in the order of the rows.
        key: names of columns of the frames.
    """
    import polars as pl

    frames = [pl.read_ipc(io.BytesIO(part)) for part in parts]
    frames = [f if KIND in f.columns else f.with_columns(pl.lit(0, pl.Int8).alias(KIND)) for f in frames]
    # A row that moves to another key ends with its -U under the old one: there it is gone.
    return pl.concat(frames).unique(key, keep="last", maintain_order=True) if frames else None
