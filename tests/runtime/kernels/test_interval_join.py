"""Interval joins against Flink's operator row by row."""

from __future__ import annotations

import pickle
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND
from stateplan.common.types import BOOLEAN, INT, STRING, LogicalType, row_type
from stateplan.execnodes.specs import JoinSpec
from stateplan.functions.rex import Call, InputRef
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.interval_join import IntervalJoinKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.runtime.kernels.support import CLOCK, changes_of, fewer, split
from tests.runtime.memory_state import MemoryState
from tests.runtime.memory_state import ttls as ttl_configs

ROWTIME = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3, kind="ROWTIME")
LEFT = row_type([("k", STRING), ("v", INT), ("t", ROWTIME)])
RIGHT = row_type([("t", ROWTIME), ("k", STRING), ("w", INT)])
LARGER = Call(BOOLEAN, (InputRef(INT, 1), InputRef(INT, 5)), "$>$1", "BINARY")

KEYS = st.sampled_from([None, "", "a", "b"])
TIMES = st.integers(0, 25)
TYPES = st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL"])
BOUNDS = st.sampled_from([(0, 0), (-5, 0), (-3, 4), (2, 6), (-6, -2), (3, 1)])
LEFTS = st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 3)), TIMES).map(lambda row: (0, row))
RIGHTS = st.tuples(TIMES, KEYS, st.integers(0, 3)).map(lambda row: (1, row))


def kernel_of(
    join_type: str, keyed: bool, nulls: bool, condition: bool, bounds: tuple[int, int], event_time: bool = True
) -> IntervalJoinKernel:
    spec = JoinSpec(
        join_type=join_type,
        left_keys=(0,) if keyed else (),
        right_keys=(1,) if keyed else (),
        filter_nulls=(not nulls,) if keyed else (),
        non_equi_condition=LARGER if condition else None,
    )
    return IntervalJoinKernel(LEFT, RIGHT, spec, event_time, *bounds, 2, 0)


def frame(row, rows):
    schema = {f"c{i}": f.type.polars() for i, f in enumerate(row.fields)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def plain(changes):
    """Times as numbers."""

    def value(v):
        return round((v - v.__class__(1970, 1, 1)).total_seconds() * 1000) if hasattr(v, "year") else v

    return Counter(tuple(map(value, r)) for _, r in changes)


class TimeIntervalJoin:
    """Flink's operator, one row at a time, its timers run as soon as they are due."""

    def __init__(self, join_type, keyed, nulls, condition, bounds):
        self.keeps = join_type in ("LEFT", "FULL"), join_type in ("RIGHT", "FULL")
        self.keyed, self.nulls, self.condition = keyed, nulls, condition
        self.reach = -bounds[0], bounds[1]
        self.caches = [], []
        self.now = 0

    def matches(self, left, right):
        if self.keyed and (left[0] != right[1] or (left[0] is None and not self.nulls)):
            return False
        return not self.condition or (left[1] is not None and left[1] > right[2])

    def padded(self, side, row):
        return (*row, None, None, None) if side == 0 else (None, None, None, *row)

    def row(self, side, row, time, clock):
        out, met = [], False
        own, other = self.reach[side], self.reach[1 - side]
        if sum(self.reach) >= 0:
            for entry in self.caches[1 - side]:
                near = time - other <= entry[1] <= time + own
                pair = (row, entry[0]) if side == 0 else (entry[0], row)
                if near and self.matches(*pair):
                    met = True
                    if self.keeps[1 - side] and not entry[2]:
                        entry[3] = self.now
                    entry[2] = True
                    out.append((*pair[0], *pair[1]))
            if clock < time + own:
                self.caches[side].append([row, time, met, self.now])
                return out
        if not met and self.keeps[side]:
            out.append(self.padded(side, row))
        return out

    def batch(self, lefts, rights, before, after):
        """The rows of a micro-batch, left ones first, and the watermarks before and after it."""
        clock = max(before, 0)
        out = [r for row in lefts for r in self.row(0, row, row[2], clock)]
        out += [r for row in rights for r in self.row(1, row, row[0], clock)]
        return out + self.expire(after) if after > before else out

    def forget(self, ttls):
        """Rows whose TTL has passed since they were written; ours alone."""
        for cache, ttl in zip(self.caches, ttls, strict=True):
            cache[:] = [entry for entry in cache if not ttl or entry[3] + ttl > self.now]

    def expire(self, clock):
        out = []
        for side in (0, 1):
            for entry in list(self.caches[side]):
                if entry[1] + self.reach[side] + 1 <= clock:
                    self.caches[side].remove(entry)
                    if not entry[2] and self.keeps[side]:
                        out.append(self.padded(side, entry[0]))
        return out


SEGMENTS = st.lists(st.tuples(st.lists(st.one_of(LEFTS, RIGHTS), max_size=8), st.integers(-1, 6)), max_size=8)


def test_rows_meet_within_five_milliseconds() -> None:
    """``LEFT JOIN`` where ``l.t`` is between ``r.t - 5`` and ``r.t``. The event time is the last field of a left row
    and the first of a right one."""
    state = MemoryState(kernel_of("LEFT", True, False, False, (-5, 0)))
    left = frame(LEFT, [("a", 1, 10), ("b", 2, 10)])
    right = frame(RIGHT, [(12, "a", 70), (16, "a", 30)])
    out = state.step([left, right], 0, [0, 0], Watermark(before=-1, now=0))
    assert plain(changes_of(out)) == {("a", 1, 10, 12, "a", 70): 1}
    assert [(row["c0"], row["@matched"]) for row in state.tables[0].values()] == [("a", True), ("b", False)]
    assert [row["c2"] for row in state.tables[1].values()] == [70, 30]
    out = state.step([frame(LEFT, []), frame(RIGHT, [])], 1, [0, 0], Watermark(before=0, now=30))
    assert plain(changes_of(out)) == {("b", 2, 10, None, None, None): 1}
    assert not state.tables[0]
    assert not state.tables[1]


@fewer(0.25)
@given(SEGMENTS, TYPES, st.booleans(), st.booleans(), st.booleans(), BOUNDS, st.lists(st.integers(0, 50), max_size=3))
def test_row_by_row(segments, join_type, keyed, nulls, condition, bounds, cuts) -> None:
    kernel = kernel_of(join_type, keyed, nulls, condition, bounds)
    state, store, cache = MemoryState(kernel), MemoryRunStore(), RunCache(None)
    flink = TimeIntervalJoin(join_type, keyed, nulls, condition, bounds)
    mark = NO_WATERMARK
    for rows, step in [*segments, ([], None)]:
        parts = split(rows, cuts) or [[]]
        for i, part in enumerate(parts):
            after = mark
            if i == len(parts) - 1 and step is None:
                after = END_OF_TIME
            elif i == len(parts) - 1 and step is not None and step >= 0:
                after = max(mark, 0) + step
            lefts, rights = ([row for s, row in part if s == side] for side in (0, 1))
            expected = flink.batch(lefts, rights, mark, after)
            inputs, watermark = [frame(LEFT, lefts), frame(RIGHT, rights)], Watermark(mark, after)
            mark = after
            out = state.step(inputs, 1, (0, 0), watermark)
            assert KIND not in out.columns
            assert plain(changes_of(out)) == Counter(expected)
            runs = KeyedState(store, cache, kernel.tables, "here")
            assert plain(changes_of(runs.step(kernel, inputs, 1, ttl_configs((0, 0)), watermark))) == Counter(expected)
    assert not state.tables[0] and not state.tables[1]


TTLS = st.tuples(st.sampled_from([0, 3, 9]), st.sampled_from([0, 3, 9]))


@fewer(0.25)
@given(SEGMENTS, TYPES, st.booleans(), BOUNDS, TTLS, CLOCK)
def test_with_a_ttl_for_each_side(segments, join_type, keyed, bounds, ttls, clock) -> None:
    kernel = kernel_of(join_type, keyed, False, False, bounds)
    state, store, cache = MemoryState(kernel), MemoryRunStore(), RunCache(None)
    flink = TimeIntervalJoin(join_type, keyed, False, False, bounds)
    mark = NO_WATERMARK
    for n, (rows, step) in enumerate([*segments, ([], 10**6)]):
        flink.now += clock[n % len(clock)]
        flink.forget(ttls)
        after = mark if step < 0 else max(mark, 0) + step
        lefts, rights = ([row for s, row in rows if s == side] for side in (0, 1))
        expected = flink.batch(lefts, rights, mark, after)
        inputs, watermark = [frame(LEFT, lefts), frame(RIGHT, rights)], Watermark(mark, after)
        mark = after
        assert plain(changes_of(state.step(inputs, flink.now, ttls, watermark))) == Counter(expected)
        runs = KeyedState(store, cache, kernel.tables, "here")
        theirs = changes_of(runs.step(kernel, inputs, flink.now, ttl_configs(ttls), watermark))
        assert plain(theirs) == Counter(expected)


@fewer(0.25)
@given(
    st.lists(st.lists(st.one_of(LEFTS, RIGHTS), max_size=8), max_size=8),
    TYPES,
    st.booleans(),
    st.booleans(),
    BOUNDS,
    CLOCK,
)
def test_by_processing_time(batches, join_type, keyed, condition, bounds, clock) -> None:
    kernel = kernel_of(join_type, keyed, False, condition, bounds, event_time=False)
    state = MemoryState(kernel)
    flink = TimeIntervalJoin(join_type, keyed, False, condition, bounds)
    now = 1000
    for n, part in enumerate(batches):
        now += clock[n % len(clock)]
        expected = flink.expire(now)
        lefts, rights = ([row for s, row in part if s == side] for side in (0, 1))
        for side, rows in ((0, lefts), (1, rights)):
            expected += [r for row in rows for r in flink.row(side, row, now, now)]
        out = state.step([frame(LEFT, lefts), frame(RIGHT, rights)], now, (0, 0), Watermark(NO_WATERMARK, now))
        assert plain(changes_of(out)) == Counter(expected)


def test_rows_leave_the_state_when_nothing_can_meet_them() -> None:
    kernel = kernel_of("INNER", True, False, False, (-5, 2))
    state = MemoryState(kernel)
    inputs = [frame(LEFT, [("a", 1, t) for t in (1, 5, 9)]), frame(RIGHT, [(t, "a", 1) for t in (3, 8, 30)])]
    state.step(inputs, 1, (0, 0), Watermark(0, 10))
    assert sorted(r["@time"] for r in state.tables[0].values()) == [5, 9]
    assert sorted(r["@time"] for r in state.tables[1].values()) == [8, 30]
    state.step([i.clear() for i in inputs], 2, (0, 0), Watermark(10, 11))
    assert sorted(r["@time"] for r in state.tables[0].values()) == [9]
    assert sorted(r["@time"] for r in state.tables[1].values()) == [30]


def test_rows_that_can_never_match_are_not_kept() -> None:
    state = MemoryState(kernel_of("INNER", True, False, False, (-5, 2)))
    state.step([frame(LEFT, [(None, 1, 9)]), frame(RIGHT, [(9, None, 1)])], 1, (0, 0), Watermark(0, 5))
    assert not state.tables[0] and not state.tables[1]


def test_two_left_columns_for_one_right_column() -> None:
    left = row_type([("a", STRING), ("b", STRING), ("t", ROWTIME)])
    two = JoinSpec(join_type="LEFT", left_keys=(0, 1), right_keys=(1, 1), filter_nulls=(True, True))
    for first in (0, 1):
        state = MemoryState(IntervalJoinKernel(left, RIGHT, two, True, -1, 1, 2, 0))
        frames = [frame(left, [("a", "a", 5), ("a", "b", 5)]), frame(RIGHT, [(5, "a", 7)])]
        out = []
        for side in (first, 1 - first):
            inputs = [f if s == side else f.clear() for s, f in enumerate(frames)]
            out += state.step(inputs, 1, (0, 0), Watermark(0, 2)).rows()
        out += state.step([f.clear() for f in frames], 1, (0, 0), Watermark(2, 9)).rows()
        assert [(r[1], r[5]) for r in out] == [("a", 7), ("b", None)]


@pytest.mark.parametrize(("bounds", "delay"), [((-5, 2), 5), ((-1, 7), 7), ((2, 6), 6), ((3, 1), 0)])
def test_output_may_be_later_than_the_watermark(bounds, delay) -> None:
    assert kernel_of("LEFT", True, False, False, bounds).watermark_delay == delay


def test_kernels_travel() -> None:
    kernel = kernel_of("LEFT", True, False, True, (-5, 2))
    assert pickle.loads(pickle.dumps(kernel)) == kernel
