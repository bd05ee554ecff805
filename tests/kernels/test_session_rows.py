"""Rows with their session against an operator that merges one window after another."""

from __future__ import annotations

import pickle
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.execnodes.changelog import column, columns
from stateplan.execnodes.errors import RunError
from stateplan.execnodes.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.execnodes.runtime.kernels.common.sessions import LocalTimeTransform, Sessions
from stateplan.execnodes.runtime.kernels.session_rows import SessionRowsKernel
from tests.kernels.reference import DELETE, INSERT, Change, Row
from tests.kernels.support import CUTS, changes_of, frame, inserting, split
from tests.kernels.test_session_aggregate import GAP, Session, rows
from tests.kernels.test_session_aggregate import Sessions as MergingSessions
from tests.kernels.test_window_aggregate import EPOCH, GROUPING, ROW, TIME, TIMED, WATERMARKS
from tests.support.examples import fewer
from tests.support.memory_state import MemoryState


class Reference(MergingSessions):
    """Flink's operator, without an aggregate."""

    def __init__(self, grouping: tuple[int, ...]) -> None:
        super().__init__((), grouping, False)

    def fired(self, session: Session) -> list[tuple[int, Row]]:
        told = [EPOCH + timedelta(milliseconds=m) for m in (session.start, session.end, session.end - 1)]
        return [(session.end, (*row, *told)) for _, row in session.rows]


class Operator:
    def __init__(self, grouping: tuple[int, ...], event_time: bool = True) -> None:
        sessions = Sessions(grouping, columns(grouping), "@start", column(TIME + 1), GAP, "UTC")
        kernel = SessionRowsKernel(sessions, event_time, ROW, pl.Datetime("ms"))
        self.timed = LocalTimeTransform(TIME if event_time else None, TIME + 1, "UTC")
        self.state = MemoryState(pickle.loads(pickle.dumps(kernel)))

    def step(self, batch: list[Change], now: int, mark: Watermark, ttl: int = 0) -> list[Row]:
        out = self.state.step([self.timed(frame(ROW, batch), now)], now, [ttl], mark)
        changes = changes_of(out)
        assert all(kind == INSERT for kind, _ in changes)
        return [row for _, row in changes]


@fewer(0.5)
@given(st.data(), GROUPING, CUTS, WATERMARKS)
def test_rows_come_and_some_are_late(data, grouping, cuts, marks) -> None:
    flink, mine = Reference(grouping), Operator(grouping)
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
@given(inserting(TIMED, 40), GROUPING, CUTS)
def test_splits_of_rows_in_time_give_the_same_rows(changes, grouping, cuts) -> None:
    every = []
    for parts in (split(changes, cuts), [changes], [[change] for change in changes]):
        mine, found, before = Operator(grouping), [], NO_WATERMARK
        for now, batch in enumerate([*parts, []]):
            rest = [row[TIME] for later in parts[now + 1 :] for _, row in later]
            # a row that is exactly the gap away is in the same session, which the watermark just before it closes
            after = int((min(rest) - EPOCH) / timedelta(milliseconds=1)) - 2 if rest else END_OF_TIME
            after = max(before, after)
            found += mine.step(batch, now, Watermark(before, after))
            before = after
        every.append(sorted(found, key=repr))
    assert every[0] == every[1] == every[2]


@fewer(0.5)
@given(inserting(TIMED, 40), GROUPING, CUTS, st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_processing_time(changes, grouping, cuts, steps) -> None:
    flink, mine = Reference(grouping), Operator(grouping, event_time=False)
    now = 1_000
    batches = split(changes, cuts)
    for number, batch in enumerate([*batches, []]):
        now += 100 if number == len(batches) else steps[number % len(steps)]
        clocked = [(kind, (*row[:TIME], EPOCH + timedelta(milliseconds=now))) for kind, row in batch]
        got = mine.step(batch, now, Watermark(NO_WATERMARK, now))
        expected = [(*r[:TIME], *r[TIME + 1 : -1]) for r in flink.step(clocked, NO_WATERMARK, now)]
        assert sorted(((*r[:TIME], *r[TIME + 1 : -1]) for r in got), key=repr) == sorted(expected, key=repr)
        assert all(r[-1] is None for r in got), "who reads the time asks the clock"
    assert not any(mine.state.tables), "nothing is left when all sessions are closed"


def numbers(found: list[Row]) -> list[tuple[int, int, int]]:
    """Start and end of the session, and time, of each row."""
    return [tuple(int((at - EPOCH) / timedelta(milliseconds=1)) for at in (*r[-3:-1], r[TIME])) for r in found]


def test_a_row_waits_as_long_as_its_session_grows() -> None:
    mine, found = Operator((0,)), []
    for now, time in enumerate((0, 2, 4, 6)):
        found += mine.step(rows(time), now, Watermark(max(0, time - 1), time + 1))
        written = [row["@due"] for row in mine.state.tables[1].values()]
        assert max(written) == time + GAP - 1
        assert all(due > time + 1 for due in written), "no row is asked for before it can be due"
    assert found == []
    found = mine.step([], 4, Watermark(7, END_OF_TIME))
    assert numbers(found) == [(0, 9, 0), (0, 9, 2), (0, 9, 4), (0, 9, 6)]


def test_numbers_go_on_while_a_session_is_open() -> None:
    mine = Operator((0,))
    mine.step(rows(0), 0, Watermark())
    mine.step(rows(20), 1, Watermark())
    assert numbers(mine.step(rows(21), 2, Watermark(NO_WATERMARK, 5))) == [(0, 3, 0)]
    mine.step(rows(40), 3, Watermark(5, 5))
    mine.step(rows(22), 4, Watermark(5, 5))
    assert numbers(mine.step([], 5, Watermark(5, END_OF_TIME))) == [
        (20, 25, 20),
        (20, 25, 21),
        (20, 25, 22),
        (40, 43, 40),
    ]


def test_a_row_whose_ttl_ends_before_its_session_is_not_emitted() -> None:
    mine = Operator((0,))
    mine.step(rows(0), 0, Watermark(), ttl=10)
    mine.step(rows(2), 6, Watermark(), ttl=10)
    mine.step(rows(4), 12, Watermark(), ttl=10)
    assert numbers(mine.step([], 13, Watermark(NO_WATERMARK, END_OF_TIME), ttl=10)) == [(0, 7, 2), (0, 7, 4)]


def test_a_change_is_refused() -> None:
    with pytest.raises(RunError) as error:
        Operator((0,)).step(rows(0, kind=DELETE), 0, Watermark())
    assert error.value.code == "RUN061"
