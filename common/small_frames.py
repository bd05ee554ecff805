"""Rows and columns of small frames.

Polars hands what concerns a whole frame to its threads, even when there is only one: some 70 microseconds for any
number of rows. What concerns a column it does in the thread that asks. A micro-batch of a few rows asks dozens of times
for every key group it touches; so the rows of a small frame are taken column by column, and columns by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

_SMALL = 4096
"""Up to this number of rows a frame is taken column by column."""
_FEW = 8
"""Up to how many small frames are combined without moving their rows."""


def rows_at(frame: pl.DataFrame, rows: npt.NDArray[np.int64]) -> pl.DataFrame:
    """The rows with the given numbers (0 and up), in that order."""
    count = len(rows)
    if count == 1 and rows[0] < frame.height:
        return frame.slice(int(rows[0]), 1)
    if count == 0:
        return frame.clear()
    if frame.width == 0 or frame.height > _SMALL or count > _SMALL:
        return frame[rows]
    numbers = pl.Series(rows.astype(np.uint32))
    return pl.DataFrame([series[numbers] for series in frame.get_columns()])


def rows_where(frame: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """The rows where ``mask`` is true."""
    if frame.width == 0 or frame.height > _SMALL:
        return frame.filter(mask)
    return pl.DataFrame([series.filter(mask) for series in frame.get_columns()])


def stack(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all frames, one frame after the other; they have the same columns."""
    if len(frames) > _FEW or sum(frame.height for frame in frames) > _SMALL:
        return pl.concat(frames, rechunk=True)
    out = frames[0]
    for frame in frames[1:]:
        out = out.vstack(frame)
    return out


def without(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The frame without the columns with the given names; at least one other is left."""
    return frame[[name for name in frame.columns if name not in names]]


def first_rows(frames: Iterable[pl.DataFrame], count: int) -> Iterator[pl.DataFrame]:
    """The first rows of some frames, of which no more than needed are made."""
    for frame in frames:
        yield frame.head(count)
        count -= frame.height
        if count <= 0:
            return
