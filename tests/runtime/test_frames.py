"""Rows of small frames, taken column by column, against what Polars does with the frame."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common import small_frames as frames
from stateplan.common.small_frames import rows_at, rows_where, stack, without

VALUES = st.tuples(
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.none(), st.text(max_size=3)),
    st.one_of(st.none(), st.lists(st.integers(0, 9), max_size=2)),
    st.one_of(st.none(), st.floats()),
)
SCHEMA = {"i": pl.Int64(), "s": pl.String(), "l": pl.List(pl.Int64()), "f": pl.Float64()}


def frame_of(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@given(st.lists(VALUES, max_size=12), st.data(), st.booleans())
def test_rows_at(rows: list[tuple[object, ...]], data: st.DataObject, small: bool) -> None:
    frame = frame_of(rows)
    numbers = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=12) if rows else st.just([]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "_SMALL", frames._SMALL if small else 0)
        taken = rows_at(frame, np.array(numbers, np.int64))
    assert taken.schema == frame.schema
    assert taken.equals(frame_of([rows[n] for n in numbers]))


@given(st.lists(VALUES, max_size=12), st.data(), st.booleans())
def test_rows_where(rows: list[tuple[object, ...]], data: st.DataObject, small: bool) -> None:
    size = len(rows)
    mask = data.draw(st.lists(st.sampled_from([True, False, None]), min_size=size, max_size=size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "_SMALL", frames._SMALL if small else 0)
        left = rows_where(frame_of(rows), pl.Series(mask, dtype=pl.Boolean))
    assert left.schema == frame_of(rows).schema
    assert left.equals(frame_of([row for row, passes in zip(rows, mask, strict=True) if passes]))


@given(st.lists(st.lists(VALUES, max_size=4), min_size=1, max_size=12))
def test_stacked(parts: list[list[tuple[object, ...]]]) -> None:
    assert stack([frame_of(rows) for rows in parts]).equals(frame_of([row for rows in parts for row in rows]))


def test_rows_of_a_frame_without_columns() -> None:
    assert rows_at(pl.DataFrame(height=3), np.array([2, 0])).height == 2
    assert rows_at(pl.DataFrame(height=3), np.array([1])).height == 1
    assert rows_at(pl.DataFrame(height=3), np.array([], np.int64)).height == 0


def test_a_row_that_is_not_there() -> None:
    with pytest.raises(pl.exceptions.OutOfBoundsError):
        rows_at(frame_of([(1, "a", None, 0.0)]), np.array([0, 1]))
    with pytest.raises(pl.exceptions.OutOfBoundsError):
        rows_at(frame_of([(1, "a", None, 0.0)]), np.array([1]))


def test_without() -> None:
    frame = frame_of([(1, "a", None, 0.0)])
    assert without(frame, "s", "f", "not there").columns == ["i", "l"]
