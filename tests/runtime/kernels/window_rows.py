"""Rows with a time, watermarks, and the windows of a time."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
from hypothesis import strategies as st

from stateplan.common.types import LogicalType, RowField
from stateplan.runtime.kernels.window_slices import Slicing
from tests.runtime.kernels.aggregate_calls import ROW as FIELDS
from tests.runtime.kernels.aggregate_calls import ROWS
from tests.runtime.kernels.reference import Row

EPOCH = datetime(1970, 1, 1)
TIMESTAMP = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3)
TIME = len(FIELDS.fields)
ROW = LogicalType("ROW", fields=(*FIELDS.fields, RowField("ts", TIMESTAMP)))
TIMED: st.SearchStrategy[Row] = st.tuples(ROWS, st.integers(-3, 24)).map(
    lambda r: (*r[0], EPOCH + timedelta(milliseconds=r[1]))
)

PROPERTIES = (("WindowStart", pl.Datetime("ms")), ("WindowEnd", pl.Datetime("ms")), ("Rowtime", pl.Datetime("ms")))
WATERMARKS = st.lists(st.integers(0, 8), min_size=1, max_size=6)

GROUPING = st.sampled_from([(0,), (0, 1), ()])


def windows_of(slicing: Slicing, time: int) -> list[tuple[int, int]]:
    """Start and end of the windows of a time, by trying all."""
    found = []
    for begin in range(time - 2 * slicing.size, time + 2 * slicing.size):
        period = slicing.size if slicing.kind == "CUMULATE" else slicing.step
        if (begin - slicing.offset) % period:
            continue
        sizes = range(slicing.step, slicing.size + 1, slicing.step) if slicing.kind == "CUMULATE" else [slicing.size]
        found += [(begin, begin + s) for s in sizes if begin <= time < begin + s]
    return found
