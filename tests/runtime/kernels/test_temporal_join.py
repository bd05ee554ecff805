"""Temporal join kernels against Flink's operators row by row."""

from __future__ import annotations

import pickle
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND
from stateplan.common.types import BIGINT, BOOLEAN, INT, STRING, LogicalType, row_type
from stateplan.execnodes.specs import JoinSpec
from stateplan.functions.rex import Call, InputRef
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.temporal_join import ProcessingTimeJoinKernel, TemporalJoinKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tests.runtime.kernels.support import CLOCK, changes_of, fewer, split
from tests.runtime.memory_state import MemoryState, ttls

ROWTIME = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3, kind="ROWTIME")
LEFT = row_type([("k", STRING), ("v", INT), ("t", ROWTIME)])
RIGHT = row_type([("t", ROWTIME), ("k", STRING), ("w", INT)])
LARGER = Call(BOOLEAN, (InputRef(INT, 1), InputRef(INT, 5)), "$>$1", "BINARY")

KEYS = st.sampled_from([None, "", "a", "b"])
TIMES = st.integers(0, 20)
LEFTS = st.tuples(st.just(0), st.tuples(KEYS, st.integers(0, 3), TIMES))
LEFT_CHANGES = st.tuples(st.integers(0, 3), st.tuples(KEYS, st.integers(0, 3), TIMES))
RIGHTS = st.tuples(
    st.sampled_from([INSERT, UPDATE_AFTER, DELETE, UPDATE_BEFORE]), st.tuples(TIMES, KEYS, st.integers(0, 3))
)


def spec(join_type: str, condition: bool) -> JoinSpec:
    return JoinSpec(
        join_type=join_type,
        left_keys=(0,),
        right_keys=(1,),
        filter_nulls=(True,),
        non_equi_condition=LARGER if condition else None,
    )


def frame(row, changes, kind=None):
    schema = {f"c{i}": f.type.polars() for i, f in enumerate(row.fields)}
    out = pl.DataFrame([r for _, r in changes], schema=schema, orient="row")
    if kind if kind is not None else any(k for k, _ in changes):
        out = out.with_columns(pl.Series(KIND, [k for k, _ in changes], dtype=pl.Int8))
    return out


def plain(changes):
    """Times as numbers."""

    def value(v):
        return round((v - v.__class__(1970, 1, 1)).total_seconds() * 1000) if hasattr(v, "year") else v

    return [(k, tuple(map(value, r))) for k, r in changes]


class TemporalRowTimeJoin:
    """Flink's operator, one row at a time: state of a key lives while the key is used."""

    def __init__(self, join_type, condition):
        self.outer, self.condition = join_type == "LEFT", condition
        self.left, self.right, self.count = [], {}, 0

    def play(self, lefts, rights, now, watermark, ttl):
        self.left = [e for e in self.left if not ttl[0] or e[3] + ttl[0] > now]
        for versions in self.right.values():
            for time in [t for t, (_, _, at) in versions.items() if ttl[1] and at + ttl[1] <= now]:
                del versions[time]
        touched = set()
        for kind, row in rights:
            touched.add(row[1])
            self.right.setdefault(row[1], {})[row[0]] = (kind, row, now)
        for kind, row in lefts:
            touched.add(row[0])
            self.left.append((self.count, kind, row, now))
            self.count += 1
        out = []
        if watermark.now > watermark.before:
            for entry in [e for e in self.left if e[2][2] <= watermark.now]:
                self.left.remove(entry)
                _, kind, row, _ = entry
                touched.add(row[0])
                out += self.meet(kind, row)
        for key in touched:
            versions = self.right.get(key, {})
            past = max((t for t in versions if t <= watermark.now > watermark.before), default=None)
            for time in [t for t in versions if past is not None and t < past]:
                del versions[time]
            for time, (kind, row, at) in versions.items():
                versions[time] = (kind, row, now if ttl[1] else at)
        return out

    def meet(self, kind, row):
        versions = self.right.get(row[0], {})
        time = max((t for t in versions if t <= row[2]), default=None)
        if time is not None and versions[time][0] in (INSERT, UPDATE_AFTER):
            version = versions[time][1]
            if not self.condition or row[1] > version[2]:
                return [(kind, (*row, *version))]
        return [(kind, (*row, None, None, None))] if self.outer else []


TTLS = st.sampled_from([(0, 0), (10, 0), (0, 10), (10, 10)])
SEGMENTS = st.lists(
    st.tuples(
        st.lists(st.one_of(LEFTS.map(lambda c: (0, c)), RIGHTS.map(lambda c: (1, c))), max_size=8), st.integers(-1, 6)
    ),
    max_size=8,
)


def test_a_row_meets_the_version_of_its_time() -> None:
    """``LEFT JOIN ... FOR SYSTEM_TIME AS OF l.t``: the key ``a`` is 50 from time 5, and 90 from time 9."""
    state = MemoryState(TemporalJoinKernel(LEFT, RIGHT, spec("LEFT", False), 2, 0))
    left = frame(LEFT, [(INSERT, ("a", 1, 7)), (INSERT, ("b", 2, 8))])
    right = frame(RIGHT, [(INSERT, (5, "a", 50)), (UPDATE_AFTER, (9, "a", 90))])
    assert plain(changes_of(state.step([left, right], 0, [0, 0], Watermark(before=-1, now=6)))) == []
    out = state.step([frame(LEFT, []), frame(RIGHT, [])], 1, [0, 0], Watermark(before=6, now=10))
    assert plain(changes_of(out)) == [
        (INSERT, ("a", 1, 7, 5, "a", 50)),
        (INSERT, ("b", 2, 8, None, None, None)),
    ]
    assert not state.tables[0]
    assert [row["c2"] for row in state.tables[2].values()] == [90], "older versions are no longer needed"


@fewer(0.2)
@given(
    SEGMENTS,
    st.sampled_from(["INNER", "LEFT"]),
    st.booleans(),
    TTLS,
    CLOCK,
    st.lists(st.integers(0, 50), max_size=3),
)
def test_row_by_row(segments, join_type, condition, ttl, clock, cuts) -> None:
    kernel = TemporalJoinKernel(LEFT, RIGHT, spec(join_type, condition), 2, 0)
    state, store, cache = MemoryState(kernel), MemoryRunStore(), RunCache(None)
    flink = TemporalRowTimeJoin(join_type, condition)
    now, mark, n = 1000, NO_WATERMARK, 0
    ends = [*segments, ([], None)]
    for rows, step in ends:
        parts = split(rows, cuts) or [[]]
        for i, part in enumerate(parts):
            now += clock[n % len(clock)]
            n += 1
            after = mark
            if i == len(parts) - 1:
                after = (
                    END_OF_TIME if step is None else max(mark, (0 if mark < 0 else mark) + step) if step >= 0 else mark
                )
            watermark = Watermark(mark, after)
            mark = after
            lefts, rights = ([c for s, c in part if s == side] for side in (0, 1))
            inputs = [frame(LEFT, lefts), frame(RIGHT, rights, True)]
            expected = flink.play(lefts, rights, now, watermark, ttl)
            assert plain(changes_of(state.step(inputs, now, ttl, watermark))) == expected
            runs = KeyedState(store, cache, kernel.tables, "here")
            assert plain(changes_of(runs.step(kernel, inputs, now, ttls(ttl), watermark))) == expected


@fewer(0.5)
@given(st.lists(LEFT_CHANGES, max_size=20), st.lists(RIGHTS, max_size=10))
def test_changes_of_the_left_input_keep_their_kind(lefts, rights) -> None:
    kernel = TemporalJoinKernel(LEFT, RIGHT, spec("LEFT", False), 2, 0)
    state, flink = MemoryState(kernel), TemporalRowTimeJoin("LEFT", False)
    end = Watermark(5, END_OF_TIME)
    out = state.step([frame(LEFT, lefts, True), frame(RIGHT, rights, True)], 1, (0, 0), end)
    assert plain(changes_of(out)) == flink.play(lefts, rights, 1, end, (0, 0))


def test_versions_that_no_row_can_meet_are_forgotten() -> None:
    state = MemoryState(TemporalJoinKernel(LEFT, RIGHT, spec("INNER", False), 2, 0))
    versions = [(INSERT, (t, "a", t)) for t in (1, 5, 9, 30)]
    state.step([frame(LEFT, []), frame(RIGHT, versions, True)], 1, (0, 0), Watermark(0, 10))
    assert sorted(r["@time"] for r in state.tables[2].values()) == [9, 30]


def test_two_left_columns_for_one_right_column() -> None:
    left = row_type([("a", STRING), ("b", STRING), ("t", ROWTIME)])
    two = JoinSpec(join_type="LEFT", left_keys=(0, 1), right_keys=(1, 1), filter_nulls=(True, True))
    state = MemoryState(TemporalJoinKernel(left, RIGHT, two, 2, 0))
    lefts = [(0, ("a", "a", 5)), (0, ("a", "b", 5))]
    out = state.step([frame(left, lefts), frame(RIGHT, [(0, (1, "a", 7))])], 1, (0, 0), Watermark(0, 9))
    assert [r[-1] for _, r in changes_of(out)] == [7, None]


def test_times_as_numbers_and_empty_input() -> None:
    left = row_type([("k", INT), ("t", BIGINT)])
    right = row_type([("k", INT), ("t", BIGINT)])
    one = JoinSpec(join_type="INNER", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
    kernel = pickle.loads(pickle.dumps(TemporalJoinKernel(left, right, one, 1, 1)))
    state = MemoryState(kernel)
    assert state.step([frame(left, []), frame(right, [])], 1, (0, 0), Watermark(0, 9)).height == 0
    out = state.step([frame(left, [(0, (1, 12))]), frame(right, [(0, (1, 11))])], 2, (0, 0), Watermark(9, 20))
    assert changes_of(out) == [(0, (1, 12, 1, 11))]


PROC_RIGHTS = st.tuples(st.sampled_from([INSERT, UPDATE_AFTER, DELETE]), st.tuples(TIMES, KEYS, st.integers(0, 3)))


@fewer(0.2)
@given(
    st.lists(st.tuples(st.lists(LEFTS, max_size=4), st.lists(PROC_RIGHTS, max_size=4)), max_size=10),
    st.sampled_from(["INNER", "LEFT"]),
    st.booleans(),
    st.sampled_from([0, 10]),
    CLOCK,
)
def test_by_processing_time(batches, join_type, condition, ttl, clock) -> None:
    state = MemoryState(ProcessingTimeJoinKernel(LEFT, RIGHT, spec(join_type, condition)))
    rows: dict[object, tuple] = {}
    now = 1000
    for n, (lefts, rights) in enumerate(batches):
        now += clock[n % len(clock)]
        rows = {k: v for k, v in rows.items() if not ttl or v[1] + ttl > now}
        for kind, row in rights:
            if kind == DELETE:
                rows.pop(row[1], None)
            else:
                rows[row[1]] = (row, now)
        expected = []
        for kind, row in lefts:
            version = rows.get(row[0])
            if version is not None:
                rows[row[0]] = (version[0], now if ttl else version[1])
            if version is not None and (not condition or row[1] > version[0][2]):
                expected.append((kind, (*row, *version[0])))
            elif join_type == "LEFT":
                expected.append((kind, (*row, None, None, None)))
        out = state.step([frame(LEFT, lefts), frame(RIGHT, rights, True)], now, (0, ttl))
        assert Counter(plain(changes_of(out))) == Counter(expected)


@pytest.mark.parametrize(
    "kernel",
    [
        TemporalJoinKernel(LEFT, RIGHT, spec("LEFT", True), 2, 0),
        ProcessingTimeJoinKernel(LEFT, RIGHT, spec("LEFT", True)),
    ],
)
def test_kernels_travel(kernel) -> None:
    assert pickle.loads(pickle.dumps(kernel)) == kernel
