"""Rows with their session against an operator that merges one window after another."""

from __future__ import annotations

import pickle
from datetime import timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND, column, columns
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.common.sessions import LocalTimeTransform, Sessions
from stateplan.runtime.kernels.session_rows import SessionRowsKernel
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Change, Row
from tests.runtime.kernels.session_reference import GAP, Session, rows
from tests.runtime.kernels.session_reference import Sessions as MergingSessions
from tests.runtime.kernels.support import CUTS, anything, changes_of, fewer, frame, inserting, retracting, split
from tests.runtime.kernels.window_rows import EPOCH, GROUPING, ROW, TIME, TIMED, WATERMARKS
from tests.runtime.memory_state import MemoryState


class Reference(MergingSessions):
    """Flink's operator, without an aggregate."""

    def __init__(self, grouping: tuple[int, ...]) -> None:
        super().__init__((), grouping, False)

    def fired(self, session: Session) -> list[tuple[int, Row]]:
        told = [EPOCH + timedelta(milliseconds=m) for m in (session.start, session.end, session.end - 1)]
        return [(session.end, (*row, *told, kind)) for kind, row in session.rows]


class Operator:
    """The operator; its rows have their kinds behind their fields."""

    def __init__(self, grouping: tuple[int, ...], event_time: bool = True) -> None:
        sessions = Sessions(grouping, columns(grouping), "@start", column(TIME + 1), GAP, "UTC")
        kernel = SessionRowsKernel(sessions, event_time, ROW, pl.Datetime("ms"))
        self.timed = LocalTimeTransform(TIME if event_time else None, TIME + 1, "UTC")
        self.state = MemoryState(pickle.loads(pickle.dumps(kernel)))

    def step(self, batch: list[Change], now: int, mark: Watermark, ttl: int = 0) -> list[Row]:
        out = self.state.step([self.timed(frame(ROW, batch), now)], now, [ttl], mark)
        return [(*row, kind) for kind, row in changes_of(out)]


KINDS = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)


def in_arrival_order(found: list[Row], grouping: tuple[int, ...]) -> dict[Row, list[Row]]:
    """The rows by key and session."""
    out: dict[Row, list[Row]] = {}
    for row in found:
        out.setdefault((*(row[g] for g in grouping), *row[-4:-2]), []).append(row)
    return out


def numbers(found: list[Row]) -> list[tuple[int, int, int]]:
    """Start and end of the session, and time, of each row."""
    return [tuple(int((at - EPOCH) / timedelta(milliseconds=1)) for at in (*r[-4:-2], r[TIME])) for r in found]


def test_rows_less_than_the_gap_apart_are_one_session() -> None:
    """The gap is 3 ms. Rows at 0 and 2 are the session from 0 to 5, which the watermark 4 closes."""
    mine = Operator((0,))
    assert mine.step(rows(0, 2), 0, Watermark(NO_WATERMARK, 3)) == []
    assert numbers(mine.step(rows(8), 1, Watermark(3, 4))) == [(0, 5, 0), (0, 5, 2)]
    assert numbers(mine.step([], 2, Watermark(4, 10))) == [(8, 11, 8)]
    assert not any(mine.state.tables)


@fewer(0.5)
@given(st.data(), GROUPING, CUTS, WATERMARKS, st.sampled_from([inserting, retracting, anything]))
def test_rows_come_and_some_are_late(data, grouping, cuts, marks, drawn) -> None:
    flink, mine = Reference(grouping), Operator(grouping)
    before = NO_WATERMARK
    batches = split(data.draw(drawn(TIMED, 40)), cuts)
    for now, batch in enumerate([*batches, []]):
        step = marks[now % len(marks)]
        after = END_OF_TIME if now == len(batches) else before if not step else max(before, -4) + step
        got = mine.step(batch, now, Watermark(before, after))
        expected = flink.step(batch, before, after)
        assert sorted(got, key=repr) == sorted(expected, key=repr)
        assert [r[-3] for r in got] == sorted(r[-3] for r in got), "sessions close in order"
        assert {r[-1] for r in got} <= set(KINDS)
        before = after
    assert not any(mine.state.tables), "nothing is left when all sessions are closed"


@fewer(0.5)
@given(st.data(), GROUPING, CUTS, st.sampled_from([inserting, retracting]))
def test_splits_of_rows_in_time_give_the_same_rows(data, grouping, cuts, drawn) -> None:
    every = []
    changes = data.draw(drawn(TIMED, 40))
    for parts in (split(changes, cuts), [changes], [[change] for change in changes]):
        mine, found, before = Operator(grouping), [], NO_WATERMARK
        for now, batch in enumerate([*parts, []]):
            rest = [row[TIME] for later in parts[now + 1 :] for _, row in later]
            # a row that is exactly the gap away is in the same session, which the watermark just before it closes
            after = int((min(rest) - EPOCH) / timedelta(milliseconds=1)) - 2 if rest else END_OF_TIME
            after = max(before, after)
            found += mine.step(batch, now, Watermark(before, after))
            before = after
        every.append(in_arrival_order(found, grouping))
    assert every[0] == every[1] == every[2]
    arrived = in_arrival_order([(*row, None, None, None, kind) for kind, row in changes], grouping)
    for key, rows_of_key in arrived.items():
        mine_of_key = [r for k, found in every[0].items() if k[: len(grouping)] == key[: len(grouping)] for r in found]
        assert sorted(map(repr, ((*r[: TIME + 1], r[-1]) for r in mine_of_key))) == sorted(
            map(repr, ((*r[: TIME + 1], r[-1]) for r in rows_of_key))
        )


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
        expected = [(*r[:TIME], *r[TIME + 1 : -2]) for r in flink.step(clocked, NO_WATERMARK, now)]
        assert sorted(((*r[:TIME], *r[TIME + 1 : -2]) for r in got), key=repr) == sorted(expected, key=repr)
        assert all(r[-2] is None for r in got), "who reads the time asks the clock"
    assert not any(mine.state.tables), "nothing is left when all sessions are closed"


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


def test_changes_come_out_in_their_order_with_their_kinds() -> None:
    mine = Operator((0,))
    mine.step([*rows(0), *rows(0, kind=UPDATE_BEFORE)], 0, Watermark())
    mine.step([*rows(2, kind=UPDATE_AFTER), *rows(4, kind=DELETE)], 1, Watermark())
    late = mine.step(rows(-9, kind=DELETE), 2, Watermark(0, 0))
    assert late == []
    found = mine.step([], 3, Watermark(0, END_OF_TIME))
    assert [r[-1] for r in found] == [INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]
    assert numbers(found) == [(0, 7, 0), (0, 7, 0), (0, 7, 2), (0, 7, 4)]


def test_a_late_change_is_dropped_and_counted() -> None:
    mine = Operator((0,))
    kernel = mine.state.kernel
    given = mine.timed(frame(ROW, [*rows(0, kind=UPDATE_BEFORE), *rows(9, kind=UPDATE_AFTER)]), 0)
    empty = [pl.DataFrame(schema={**t.schema, "@t": pl.Int64()}) for t in kernel.tables]
    assert kernel.advance([given], empty, 0, [0], Watermark(5, 5)).late == 1


def test_insertions_are_kept_under_their_numbers() -> None:
    """As they were before changes of other kinds were kept: the state of an insert-only input stays readable."""
    mine = Operator((0,))
    mine.step(rows(0, 1), 0, Watermark())
    assert sorted(row["@arrival"] for row in mine.state.tables[1].values()) == [0, 1]
    out = mine.state.step([mine.timed(frame(ROW, []), 1)], 1, [0], Watermark(NO_WATERMARK, END_OF_TIME))
    assert KIND not in out.columns


def test_every_version_of_a_row_counts() -> None:
    assert Operator((0,)).state.kernel.versioned_inputs == (0,)
