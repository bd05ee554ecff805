"""Aggregates of sessions against Flink's set of merging windows, with all rows kept."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import column
from stateplan.common.types import BIGINT
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.common.partials import Partials
from stateplan.runtime.kernels.common.sessions import LocalTimeTransform
from stateplan.runtime.kernels.common.sessions import Sessions as KernelSessions
from stateplan.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
from stateplan.runtime.kernels.session_aggregate import SessionAggregateKernel
from tests.runtime.kernels.aggregate_calls import CALLS, plain
from tests.runtime.kernels.reference import DELETE, INSERT, Change, Row
from tests.runtime.kernels.session_reference import GAP, Sessions, rows, time_of
from tests.runtime.kernels.support import CUTS, changes_of, fewer, frame, inserting, retracting, split
from tests.runtime.kernels.window_rows import EPOCH, GROUPING, PROPERTIES, ROW, TIME, TIMED, WATERMARKS
from tests.runtime.memory_state import MemoryState

ORDERED = {"ARRAY_AGG", "LISTAGG"}
"""Their result depends on the order in which Flink merges windows, which it does not promise."""
CHOSEN = st.lists(
    st.sampled_from([i for i, c in enumerate(CALLS) if c.function not in ORDERED]), min_size=1, max_size=4, unique=True
)


class Operator:
    def __init__(
        self, chosen: Sequence[int], grouping: tuple[int, ...], retract: bool, event_time: bool = True
    ) -> None:
        calls = tuple(CALLS[i] for i in chosen)
        keys = [ROW.fields[g].type for g in grouping]
        flags = (retract,) * len(calls)
        partials = Partials.of(ROW, [*keys, BIGINT.not_null()], calls, flags, retract, state_name="window-aggs")
        inner = GlobalGroupAggregateKernel(partials)
        sessions = KernelSessions(grouping, partials.keys[:-1], partials.keys[-1], column(TIME + 1), GAP, "UTC")
        kernel = SessionAggregateKernel(sessions, event_time, inner, PROPERTIES)
        self.timed = LocalTimeTransform(TIME if event_time else None, TIME + 1, "UTC")
        self.state = MemoryState(pickle.loads(pickle.dumps(kernel)))
        self.retract = retract
        self.late = 0

    def step(self, batch: list[Change], now: int, mark: Watermark) -> list[Row]:
        out = self.state.step([self.timed(frame(ROW, batch, self.retract), now)], now, [0], mark)
        changes = changes_of(out)
        assert all(kind == INSERT for kind, _ in changes)
        return [(*map(plain, row[:-3]), *row[-3:]) for _, row in changes]


def test_a_row_between_two_sessions_makes_them_one() -> None:
    """``COUNT(*)`` of sessions with a gap of 3 ms: 0 and 4 are apart, until 2 arrives."""
    mine = Operator([0], (0,), False)
    assert mine.step(rows(0, 4), 0, Watermark()) == []
    assert len(mine.state.tables[0]) == 2
    assert mine.step(rows(2), 1, Watermark()) == []
    assert len(mine.state.tables[0]) == 1
    # start, end, count
    assert sessions_of(mine.step([], 2, Watermark(NO_WATERMARK, END_OF_TIME))) == [(0, 7, 3)]
    assert not any(mine.state.tables)


@fewer(0.5)
@given(st.data(), CHOSEN, GROUPING, CUTS, WATERMARKS)
def test_rows_come_and_some_are_late(data, chosen, grouping, cuts, marks) -> None:
    flink, mine = Sessions(chosen, grouping, False), Operator(chosen, grouping, False)
    before = NO_WATERMARK
    batches = split(data.draw(inserting(TIMED, 40)), cuts)
    for now, batch in enumerate([*batches, []]):
        step = marks[now % len(marks)]
        after = END_OF_TIME if now == len(batches) else before if not step else max(before, -4) + step
        got = mine.step(batch, now, Watermark(before, after))
        assert sorted(got, key=repr) == sorted(flink.step(batch, before, after), key=repr)
        assert [r[-2] for r in got] == sorted(r[-2] for r in got), "sessions close in order"
        before = after
    assert not any(mine.state.tables), "nothing is left when all sessions are closed"


@fewer(0.5)
@given(st.data(), CHOSEN, GROUPING, CUTS)
def test_rows_are_retracted(data, chosen, grouping, cuts) -> None:
    """The watermark stays behind all rows to come: of a retraction that is late there is no row to compare."""
    flink, mine = Sessions(chosen, grouping, True), Operator(chosen, grouping, True)
    before = NO_WATERMARK
    batches = split(data.draw(retracting(TIMED, 40)), cuts)
    for now, batch in enumerate([*batches, []]):
        rest = [time_of(change) for later in batches[now + 1 :] for change in later]
        after = max(before, min(rest) - 1) if rest else END_OF_TIME
        got = mine.step(batch, now, Watermark(before, after))
        assert sorted(got, key=repr) == sorted(flink.step(batch, before, after), key=repr)
        before = after
    assert flink.late == 0
    assert not any(mine.state.tables)


@fewer(0.5)
@given(inserting(TIMED, 40), CHOSEN, GROUPING, CUTS, st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_processing_time(changes, chosen, grouping, cuts, steps) -> None:
    flink, mine = Sessions(chosen, grouping, False), Operator(chosen, grouping, False, event_time=False)
    now = 1_000
    batches = split(changes, cuts)
    for number, batch in enumerate([*batches, []]):
        now += 100 if number == len(batches) else steps[number % len(steps)]
        clocked = [(kind, (*row[:TIME], EPOCH + timedelta(milliseconds=now))) for kind, row in batch]
        got = mine.step(batch, now, Watermark(NO_WATERMARK, now))
        assert sorted(got, key=repr) == sorted(flink.step(clocked, NO_WATERMARK, now), key=repr)
    assert not any(mine.state.tables), "nothing is left when all sessions are closed"


@pytest.mark.parametrize(("gap", "step"), [(2_000, 1_000), (30_000, 3_000), (86_400_000, 60_000)])
def test_how_often_the_clock_is_looked_at(gap: int, step: int) -> None:
    kernel = Operator([0], (0,), False, event_time=False).state.kernel
    assert isinstance(kernel, SessionAggregateKernel)
    kernel = replace(kernel, sessions=replace(kernel.sessions, gap=gap))
    alarms = kernel.alarms
    assert alarms is not None
    assert {alarms.last(at) + 1 for at in range(10 * step, 12 * step, 500)} == {10 * step, 11 * step}


def sessions_of(found: list[Row]) -> list[tuple[int, ...]]:
    """Start, end and number of rows of what came out."""
    return [(*(int((at - EPOCH) / timedelta(milliseconds=1)) for at in row[-3:-1]), row[1]) for row in found]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([[0, 3]], [(0, 6, 2)]),  # windows that touch are one session
        ([[0, 4]], [(0, 3, 1), (4, 7, 1)]),
        ([[0], [6], [3]], [(0, 9, 3)]),  # a row between two sessions makes them one
        ([[5], [2]], [(2, 8, 2)]),  # an earlier row moves the start
        ([[6], [8], [3], [0]], [(0, 11, 4)]),
    ],
)
def test_sessions_merge(batches: list[list[int]], expected: list[tuple[int, ...]]) -> None:
    mine = Operator([0], (0,), False)
    for now, times in enumerate(batches):
        assert mine.step(rows(*times), now, Watermark()) == []
    assert sessions_of(mine.step([], len(batches), Watermark(NO_WATERMARK, END_OF_TIME))) == expected
    assert not any(mine.state.tables)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ([5, 9], [(9, 12, 1)]),  # the window of 5 is over, and meets no session
        ([9, 6, 5], [(5, 12, 3)]),  # it meets the session that 6 has moved
        ([9, 5, 6], [(6, 12, 2)]),  # and does not before that
    ],
)
def test_a_late_row_counts_if_it_meets_a_session(batch: list[int], expected: list[tuple[int, ...]]) -> None:
    mine = Operator([0], (0,), False)
    mine.step([], 0, Watermark(NO_WATERMARK, 8))
    assert mine.step(rows(*batch), 1, Watermark(8, 8)) == []
    assert sessions_of(mine.step([], 2, Watermark(8, END_OF_TIME))) == expected


def test_a_session_that_is_empty_again_keeps_its_place() -> None:
    mine = Operator([0], (0,), True)
    mine.step(rows(0), 0, Watermark())
    mine.step(rows(0, kind=DELETE), 1, Watermark())
    mine.step(rows(2), 2, Watermark())
    assert sessions_of(mine.step([], 3, Watermark(NO_WATERMARK, END_OF_TIME))) == [(0, 5, 1)]
