"""Lists inside of state rows: split into rows and put together again, all groups at once."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from stateplan.common.values.nanoseconds import portable
from stateplan.runtime.kernels.common.key_ids import Ints, key_ids, ranks, replay, stable_order

VALUE, WRITE_TIME, STEP = "v", "t", "n"
"""Fields of an element: the value, when it was written (ms), and in partial results +1 or -1."""


def explode_lists(lists: pl.Series) -> tuple[Ints, pl.DataFrame]:
    """The elements (structs) of all lists in order, as columns, and the row that each is of; NULL is an empty list."""
    lengths = lists.list.len().fill_null(0).cast(pl.Int64).to_numpy()
    owners = np.repeat(np.arange(len(lists)), lengths)
    return owners, lists.filter(pl.Series(lengths > 0)).explode().struct.unnest()


def pack_lists(owners: Ints, frame: pl.DataFrame, count: int, name: str, dtype: pl.DataType) -> pl.Series:
    """Lists of structs of the rows of ``frame``, one per number 0 .. count - 1, in the rows' order; empty ones NULL."""
    if not len(owners):
        return pl.Series(name, [None], dtype=dtype).new_from_index(0, count)
    lengths = np.bincount(owners, minlength=count)
    if (owners[1:] < owners[:-1]).any():
        frame = frame[stable_order(owners)]
    # A list, which the types of a schema do not say.
    inner: pl.DataType = dtype.inner  # type: ignore[attr-defined] # see above
    values = portable(frame.to_struct().cast(inner)).rechunk().to_arrow()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    bits = np.packbits(np.append(lengths > 0, True), bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(offsets)]
    # pa.array(offsets) would import pandas, which takes a second.
    lists = pa.LargeListArray.from_arrays(pa.Array.from_buffers(pa.int64(), count + 1, buffers), values)
    return pl.Series(name, lists).cast(dtype)


def elements(values: pl.Series, now: int) -> pl.DataFrame:
    """Elements of lists that are written ``now``."""
    return pl.DataFrame([values.alias(VALUE), pl.Series(WRITE_TIME, np.full(len(values), now, np.int64))])


def play_changes(owners: Ints, values: pl.Series, change: Ints) -> Ints:
    """Which rows are left of lists that are added to and removed from, in order of arrival: removing takes the first
    equal element, and does nothing if there is none.

    Args:
        change: +1 to add the value to the owner's list, -1 to remove it.
    """
    ids = key_ids(pl.DataFrame([pl.Series("o", owners), values.alias("v")]), ["o", "v"])
    _, left = replay(ids.codes, change, np.zeros(ids.count, np.int64))
    additions = np.flatnonzero(change > 0)
    return additions[ranks(ids.codes[additions], backwards=True) < left[ids.codes[additions]]]


def live_entries(owners: Ints, frame: pl.DataFrame, now: int, ttl: int) -> tuple[Ints, pl.DataFrame]:
    """The elements that are alive."""
    if ttl <= 0 or not frame.height:
        return owners, frame
    alive = frame[WRITE_TIME].to_numpy() + ttl > now
    if alive.all():
        return owners, frame
    rows = np.flatnonzero(alive)
    return owners[rows], frame[rows]
