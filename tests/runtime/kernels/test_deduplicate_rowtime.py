"""Deduplication by event time against Flink's functions row by row."""

from __future__ import annotations

import pickle
from collections.abc import Hashable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.common.types import LogicalType, row_type
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.deduplicate_rowtime import RowtimeDeduplicateKernel, RowtimeFirstRowKernel
from tests.runtime.kernels.reference import INSERT, UPDATE_AFTER, UPDATE_BEFORE, Change, fold
from tests.runtime.kernels.support import CLOCK, CUTS, TYPES, changes_of, split
from tests.runtime.memory_state import MemoryState

ROWTIME = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3, kind="ROWTIME")
ROW = row_type([("k", TYPES["s"]), ("ts", ROWTIME), ("v", TYPES["i"])])
Event = tuple[str | None, int, int]
EVENTS: st.SearchStrategy[list[Event]] = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.integers(0, 12), st.integers(0, 3)), max_size=40
)
KEYS = st.sampled_from([(0,), (2,), (0, 2), ()])


def frame(rows: list[Event]) -> pl.DataFrame:
    schema = {"c0": pl.String(), "c1": pl.Int64(), "c2": pl.Int32()}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("c1").cast(pl.Datetime("ms")))


def changes(out: pl.DataFrame) -> list[Change]:
    """The changes of a frame, times as numbers again."""
    return changes_of(out.with_columns(pl.col("c1").cast(pl.Datetime("ms")).to_physical()))


class Updating:
    """Flink's ``RowTimeDeduplicateFunction``."""

    def __init__(self, keys: tuple[int, ...], last: bool, update_before: bool, ttl: int) -> None:
        self.keys, self.last, self.update_before, self.ttl = keys, last, update_before, ttl
        self.state: dict[Hashable, tuple[Event, int]] = {}

    def add(self, row: Event, now: int) -> list[Change]:
        key = tuple(row[i] for i in self.keys)
        before, at = self.state.get(key, (None, 0))
        if before is not None and self.ttl and at + self.ttl <= now:
            before = None
        if before is not None and not (before[1] <= row[1] if self.last else row[1] < before[1]):
            return []
        self.state[key] = (row, now)
        if before is None:
            return [(INSERT, row)]
        return [*([(UPDATE_BEFORE, before)] if self.update_before else []), (UPDATE_AFTER, row)]


class FirstRow:
    """Flink's ``RowTimeDeduplicateKeepFirstRowFunction``, told the watermark between micro-batches."""

    def __init__(self, keys: tuple[int, ...], ttl: int) -> None:
        self.keys, self.ttl = keys, ttl
        self.waiting: dict[Hashable, Event] = {}
        self.emitted: dict[Hashable, int] = {}
        self.watermark = NO_WATERMARK

    def add(self, row: Event, now: int) -> None:
        key = tuple(row[i] for i in self.keys)
        known = key in self.emitted and (not self.ttl or self.emitted[key] + self.ttl > now)
        if row[1] < self.watermark or known:
            return
        if key not in self.waiting or row[1] < self.waiting[key][1]:
            self.waiting[key] = row

    def advance(self, watermark: int, now: int) -> list[Change]:
        if watermark <= self.watermark:
            return []
        self.watermark = watermark
        due = [(k, r) for k, r in self.waiting.items() if r[1] <= watermark]
        for key, _ in due:
            del self.waiting[key]
            self.emitted[key] = now
        return [(INSERT, r) for _, r in due]


def test_the_latest_row_of_each_key_remains() -> None:
    """The second field is the event time. The row of time 4 comes after that of time 5, and loses."""
    state = MemoryState(RowtimeDeduplicateKernel(ROW, (0,), 1, True, True))
    out = state.step([frame([("a", 5, 1), ("b", 6, 2), ("a", 4, 3)])], now=1000, ttl=[0])
    assert changes(out) == [
        (INSERT, ("a", 5, 1)),
        (INSERT, ("b", 6, 2)),
    ]
    out = state.step([frame([("a", 7, 4)])], now=1001, ttl=[0])
    assert changes(out) == [
        (UPDATE_BEFORE, ("a", 5, 1)),
        (UPDATE_AFTER, ("a", 7, 4)),
    ]
    assert [(row["c0"], row["c2"], row["@t"]) for row in state.tables[0].values()] == [
        ("a", 4, 1001),
        ("b", 2, 1000),
    ]


@given(EVENTS, KEYS, st.booleans(), st.booleans(), st.sampled_from([0, 10]), CLOCK)
def test_updates_row_by_row_with_a_clock(events, keys, last, update_before, ttl, clock) -> None:
    state = MemoryState(RowtimeDeduplicateKernel(ROW, keys, 1, last, update_before))
    flink = Updating(keys, last, update_before, ttl)
    now = 1000
    for n, event in enumerate(events):
        now += clock[n % len(clock)]
        assert changes(state.step([frame([event])], now, [ttl])) == flink.add(event, now)


@given(EVENTS, KEYS, st.booleans(), st.sampled_from([0, 10_000]), CUTS)
def test_updates_in_batches_give_the_same_rows(events, keys, last, ttl, cuts) -> None:
    state = MemoryState(RowtimeDeduplicateKernel(ROW, keys, 1, last))
    flink = Updating(keys, last, True, ttl)
    out: list[Change] = []
    expected: list[Change] = []
    for now, batch in enumerate(split(events, cuts)):
        mine = changes(state.step([frame(batch)], now, [ttl]))
        touched = [tuple(r[i] for i in keys) for k, r in mine if k != UPDATE_BEFORE]
        assert len(touched) == len(set(touched)), "a key changes once"
        out += mine
        expected += [c for event in batch for c in flink.add(event, now)]
        assert fold(out) == fold(expected)


@given(EVENTS, KEYS, st.booleans(), st.booleans(), st.sampled_from([0, 10_000]), CUTS)
def test_every_version_in_batches(events, keys, last, update_before, ttl, cuts) -> None:
    kernel = RowtimeDeduplicateKernel(ROW, keys, 1, last, update_before)
    state = MemoryState(kernel.with_every_version())
    flink = Updating(keys, last, update_before, ttl)
    for now, batch in enumerate(split(events, cuts)):
        expected = [c for event in batch for c in flink.add(event, now)]
        assert changes(state.step([frame(batch)], now, [ttl])) == expected


@given(EVENTS, KEYS, st.sampled_from([0, 10]), CUTS, CLOCK, st.lists(st.integers(-3, 5), min_size=1, max_size=8))
def test_first_rows_wait_for_the_watermark(events, keys, ttl, cuts, clock, steps) -> None:
    state: MemoryState = MemoryState(pickle.loads(pickle.dumps(RowtimeFirstRowKernel(ROW, keys, 1))))
    flink = FirstRow(keys, ttl)
    now, mark = 1000, 0
    batches: list[list[Event]] = [*split(events, cuts), [], []]
    for n, batch in enumerate(batches):
        now += clock[n % len(clock)]
        before = flink.watermark
        mark = END_OF_TIME if n == len(batches) - 1 else max(mark, mark + steps[n % len(steps)])
        for event in batch:
            flink.add(event, now)
        expected = flink.advance(max(mark, before), now)
        mine = changes(state.step([frame(batch)], now, [ttl], Watermark(before, max(mark, before))))
        assert sorted(mine, key=repr) == sorted(expected, key=repr)
        assert [r[1] for _, r in mine] == sorted(r[1] for _, r in mine), "in the order of their times"
    assert not state.tables[0], "nothing waits behind the end of time"


def test_a_first_row_that_waits_has_no_ttl() -> None:
    state = MemoryState(RowtimeFirstRowKernel(ROW, (0,), 1))
    assert state.step([frame([("a", 5, 1)])], 0, [10], Watermark(0, 4)).height == 0
    assert changes(state.step([frame([])], 10**9, [10], Watermark(4, 5))) == [(INSERT, ("a", 5, 1))]
    assert state.step([frame([("a", 6, 1)])], 10**9 + 1, [10], Watermark(5, 7)).height == 0
    assert changes(state.step([frame([("a", 8, 2)])], 10**9 + 10, [10], Watermark(7, 8))) == [(INSERT, ("a", 8, 2))]


@pytest.mark.parametrize("kernel", [RowtimeDeduplicateKernel(ROW, (0,), 1), RowtimeFirstRowKernel(ROW, (0,), 1)])
def test_only_insertions_are_taken(kernel: Any) -> None:
    rows = frame([("a", 1, 1)]).with_columns(pl.lit(UPDATE_AFTER, dtype=pl.Int8).alias("kind"))
    with pytest.raises(RunError, match="RUN061"):
        MemoryState(kernel).step([rows], 1, [0])


def test_local_time_zones() -> None:
    zoned = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3, kind="ROWTIME")
    row = row_type([("k", TYPES["s"]), ("ts", zoned), ("v", TYPES["i"])])
    rows = frame([("a", 2, 1), ("a", 1, 2)]).with_columns(pl.col("c1").cast(zoned.polars()))
    out = MemoryState(RowtimeFirstRowKernel(row, (0,), 1)).step([rows], 1, [0], Watermark(0, 9))
    assert out["c2"].to_list() == [2]
