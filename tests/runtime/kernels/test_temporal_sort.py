"""Sorts by a time attribute."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.types import LogicalType, row_type
from stateplan.execnodes.ranking import SortField, SortSpec
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.sort import ProctimeSortKernel, RowtimeSortKernel
from tests.runtime.kernels.reference import INSERT, Row
from tests.runtime.kernels.support import CUTS, TYPES, changes_of, frame, inserting, row_of, split
from tests.runtime.memory_state import MemoryState

ROW = row_of("si")
ROWS: st.SearchStrategy[Row] = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
ORDERS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.booleans(), st.booleans()), min_size=1, max_size=2, unique_by=lambda o: o[0]
)


def ordered(rows: list[Row], order: list[tuple[int, bool, bool]]) -> list[Row]:
    """The rows sorted one field after another, the last one first."""
    for index, ascending, nulls_last in reversed(order):
        known = [r for r in rows if r[index] is not None]
        nulls = [r for r in rows if r[index] is None]
        known.sort(key=lambda r, i=index: r[i], reverse=not ascending)
        rows = known + nulls if nulls_last else nulls + known
    return rows


def test_rows_wait_for_the_watermark() -> None:
    """``ORDER BY ts``: rows up to the watermark 5 come out in order, the row of time 8 waits."""
    row = row_type([("ts", ROWTIME), ("v", TYPES["i"])])
    order = SortSpec(fields=(SortField(index=0, is_ascending=True, null_is_last=False),))
    state = MemoryState(RowtimeSortKernel(row, order))
    at = [datetime(1970, 1, 1) + timedelta(milliseconds=n) for n in range(9)]
    arriving = [(INSERT, (at[5], 50)), (INSERT, (at[8], 80)), (INSERT, (at[3], 30))]
    assert changes_of(state.step([frame(row, arriving)], 0, [0], Watermark(before=-1, now=5))) == [
        (INSERT, (at[3], 30)),
        (INSERT, (at[5], 50)),
    ]
    assert [(stored["c0"], stored["c1"]) for stored in state.tables[0].values()] == [(at[8], 80)]
    out = state.step([frame(row, [])], 1, [0], Watermark(before=5, now=9))
    assert changes_of(out) == [(INSERT, (at[8], 80))]
    assert not state.tables[0]


@given(inserting(ROWS, 30), CUTS, ORDERS)
def test_each_micro_batch_is_sorted(
    changes: list[tuple[int, Row]], cuts: list[int], order: list[tuple[int, bool, bool]]
) -> None:
    kernel = ProctimeSortKernel(
        ROW, SortSpec(fields=tuple(SortField(index=i, is_ascending=a, null_is_last=n) for i, a, n in order))
    )
    state = MemoryState(pickle.loads(pickle.dumps(kernel)))
    for now, batch in enumerate(split(changes, cuts)):
        got = changes_of(state.step([frame(ROW, batch)], now, []))
        assert got == [(INSERT, r) for r in ordered([r for _, r in batch], order)]


ROWTIME = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3, kind="ROWTIME")
EVENTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([None, 1, 2]), st.integers(0, 99)), max_size=40)


class RowTimeSort:
    """Flink's ``RowTimeSortOperator``, told the watermark between micro-batches."""

    def __init__(self, order: list[tuple[int, bool, bool]]) -> None:
        self.order, self.waiting, self.last = order, [], NO_WATERMARK

    def advance(self, rows: list[Row], before: int, watermark: int) -> list[Row]:
        self.waiting += [r for r in rows if r[0] > self.last]
        if watermark <= before:
            return []
        due = ordered([r for r in self.waiting if r[0] <= watermark], self.order)
        self.waiting = [r for r in self.waiting if r[0] > watermark]
        self.last = max([self.last, *(r[0] for r in due)])
        return due


@given(EVENTS, CUTS, st.booleans(), st.booleans(), st.booleans(), st.lists(st.integers(-2, 4), min_size=1, max_size=8))
def test_rows_come_out_in_event_time(
    events: list[Row], cuts: list[int], more: bool, ascending: bool, last: bool, steps: list[int]
) -> None:
    row = row_type([("ts", ROWTIME), ("v", TYPES["i"]), ("n", TYPES["i"])])
    order = [(0, True, False), *([(1, ascending, last)] if more else [])]
    spec = SortSpec(fields=tuple(SortField(index=i, is_ascending=a, null_is_last=n) for i, a, n in order))
    state = MemoryState(pickle.loads(pickle.dumps(RowtimeSortKernel(row, spec))))
    flink = RowTimeSort(order)
    mark = NO_WATERMARK
    batches: list[list[Row]] = [*split(events, cuts), [], []]
    for n, batch in enumerate(batches):
        before = mark
        mark = END_OF_TIME if n == len(batches) - 1 else max(mark, n + steps[n % len(steps)])
        rows = pl.DataFrame(batch, schema={"c0": pl.Int64(), "c1": pl.Int32(), "c2": pl.Int32()}, orient="row")
        out = state.step([rows.with_columns(pl.col("c0").cast(pl.Datetime("ms")))], n, [0], Watermark(before, mark))
        got = [r for _, r in changes_of(out.with_columns(pl.col("c0").cast(pl.Datetime("ms")).to_physical()))]
        assert got == flink.advance(batch, before, mark)
    assert not state.tables[0]
