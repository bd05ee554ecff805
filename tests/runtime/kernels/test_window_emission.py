"""Windows that are emitted early and late, against their results looked up one window at a time."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.types import BIGINT, INT, STRING, LogicalType, RowField
from stateplan.execnodes.emission import Emission
from stateplan.execnodes.specs import AggCall
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.window_emission import WindowEmissionKernel
from stateplan.runtime.kernels.window_slices import SliceTransform, Slicing
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.runtime.kernels.reference import (
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Call,
    Change,
    GroupAggregate,
    Row,
    fold,
    retracts,
)
from tests.runtime.kernels.support import CUTS, call, changes_of, fewer, frame, inserting, legal, retracting, split
from tests.runtime.memory_state import MemoryState, ttls

EPOCH = datetime(1970, 1, 1)
TIMESTAMP = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3)
ROW = LogicalType("ROW", fields=(RowField("k", STRING), RowField("v", INT), RowField("ts", TIMESTAMP)))
WHOLE = LogicalType("ROW", fields=(*ROW.fields, RowField("slice_end", BIGINT.not_null())))
CALLS = [
    (Call("COUNT", None), call("COUNT", None, BIGINT)),
    (Call("SUM", 1), call("SUM", 1, INT)),
    (Call("COUNT", 1, distinct=True), call("COUNT", 1, BIGINT, distinct=True)),
    (Call("MAX", 1), call("MAX", 1, INT)),
]
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, "a"]), st.sampled_from([None, 1, 1, 2]), st.integers(0, 24)
).map(lambda r: (r[0], r[1], EPOCH + timedelta(milliseconds=r[2])))
SLICINGS = st.sampled_from(
    [
        Slicing("TUMBLE", 5, 5),
        Slicing("HOP", 6, 2),
        Slicing("HOP", 4, 4, 1),
        Slicing("HOP", 6, 4),
        Slicing("HOP", 3, 2, -1),
        Slicing("HOP", 2, 5),
    ]
)
DELAYS = st.sampled_from([None, 0, 4, 7])
EMISSIONS = st.builds(Emission, DELAYS, DELAYS, st.sampled_from([1, 6]), st.booleans()).filter(lambda e: e.updates)
STEPS = st.lists(st.integers(0, 6), min_size=1, max_size=8)
CLOCK = st.lists(st.integers(1, 6), min_size=1, max_size=8)
PROPERTIES = (("WindowStart", pl.Datetime("ms")), ("WindowEnd", pl.Datetime("ms")))


def calls(emission: Emission, retract: bool) -> list[tuple[Call, AggCall]]:
    """By processing time a row may be retracted in a window that it is not in: MAX is of rows that are there."""
    return CALLS[:3] if retract and not emission.event_time else CALLS


def normal(emission: Emission) -> Emission:
    """Without lateness where nothing is late."""
    kept = emission.lateness if emission.event_time and emission.late is not None else 0
    return Emission(emission.early, emission.late, kept, emission.event_time)


@dataclass
class Window:
    """What is known of a key and window."""

    emitted: Row | None = None
    rings: int | None = None


class Flink:
    """WindowOperator with the triggers of Flink's emit strategy, looked at between micro-batches."""

    def __init__(self, slicing: Slicing, emission: Emission, grouping: tuple[int, ...], retract: bool) -> None:
        self.slicing, self.emission, self.grouping = slicing, emission, grouping
        found = [c for c, _ in calls(emission, retract)]
        self.groups = GroupAggregate((*grouping, 3), found, True, retract, 0)
        self.results: dict[Row, Row] = {}
        self.windows: dict[Row, Window] = {}

    def ends(self, time: int) -> list[int]:
        slicing = self.slicing
        return [
            begin + slicing.size
            for begin in range(time - slicing.size + 1, time + 1)
            if not (begin - slicing.offset) % slicing.step
        ]

    def forgotten(self, end: int, watermark: int) -> bool:
        return end - 1 + self.emission.lateness <= watermark

    def step(self, batch: Sequence[Change], now: int, before: int, after: int) -> dict[Row, Row]:
        """The rows that have been emitted, by key and window."""
        touched: set[Row] = set()
        for kind, row in batch:
            time = now if not self.emission.event_time else int((row[2] - EPOCH) / timedelta(milliseconds=1))
            for end in self.ends(time):
                if self.forgotten(end, before):
                    continue
                key = (*(row[g] for g in self.grouping), end)
                touched.add(key)
                self.windows.setdefault(key, Window())
                for made, out in self.groups.add((kind, (*row, end)), now):
                    if retracts(made):
                        self.results.pop(key, None)
                    else:
                        self.results[key] = out[len(key) :]
        for key, window in list(self.windows.items()):
            end = key[-1] - 1
            delay = self.emission.late if end <= before else self.emission.early
            if key in touched and delay is not None:
                at = now if delay == 0 else now - now % delay + delay
                window.rings = at if window.rings is None else min(window.rings, at)
            ends = before < end <= after
            gone = self.forgotten(key[-1], after)
            if ends or (window.rings is not None and (gone or window.rings <= now)):
                window.emitted, window.rings = self.results.get(key), None
            if gone:
                self.done(key, window)
        self.seen |= {k: w.emitted for k, w in self.windows.items()}
        return {k: v for k, v in self.seen.items() if v is not None}

    seen: dict[Row, Any]

    def done(self, key: Row, window: Window) -> None:
        self.seen[key] = window.emitted
        del self.windows[key]
        self.results.pop(key, None)
        self.groups.state.remove(key)


def kernel(slicing: Slicing, emission: Emission, grouping: tuple[int, ...], retract: bool) -> WindowEmissionKernel:
    found = tuple(c for _, c in calls(emission, retract))
    inner = GroupAggregateKernel(WHOLE, (*grouping, 3), found, (retract,) * len(found), False, retract, "window-aggs")
    return WindowEmissionKernel(inner, slicing, PROPERTIES, emission)


def play(
    changes: Sequence[Change],
    slicing: Slicing,
    emission: Emission,
    grouping: tuple[int, ...],
    retract: bool,
    cuts: Sequence[int],
    clock: Sequence[int],
    steps: Sequence[int],
) -> None:
    emission = normal(emission)
    made = kernel(slicing, emission, grouping, retract)
    state = MemoryState(pickle.loads(pickle.dumps(made)))
    flink = Flink(slicing, emission, grouping, retract)
    flink.seen = {}
    sliced = SliceTransform(slicing, 2 if emission.event_time else None, 3)
    out: list[Change] = []
    now, mark = 1000, NO_WATERMARK
    batches: list[list[Change]] = [*split(changes, cuts), [], []]
    for n, batch in enumerate(batches):
        now += clock[n % len(clock)]
        last = n == len(batches) - 1
        if emission.event_time:
            before, mark = mark, END_OF_TIME if last else max(mark, -2) + steps[n % len(steps)]
        else:
            now += 100 if last else 0
            before, mark = NO_WATERMARK, now
        rows = sliced(frame(ROW, batch, retract), now)
        out += changes_of(state.step([rows], now, [0], Watermark(before, mark)))
        expected = flink.step(batch, now, before, mark)
        width = len(grouping)
        told: dict[Row, Row] = {}
        for row, count in fold(out).items():
            assert count == 1
            start, end = (int((t - EPOCH) / timedelta(milliseconds=1)) for t in row[-2:])
            assert end - start == slicing.size
            told[(*row[:width], end)] = row[width:-2]
        assert told == expected
    assert legal(out)
    assert not any(state.tables), "nothing is kept of windows that are over"


GROUPING = st.sampled_from([(0,), ()])


def test_a_window_is_emitted_with_each_row_until_it_ends() -> None:
    """A window of 10 ms, emitted early without delay: COUNT(*), SUM(v), COUNT(DISTINCT v) and MAX(v) of key a."""
    slicing = Slicing("TUMBLE", 10, 10)
    state = MemoryState(kernel(slicing, Emission(0, None, 0), (0,), False))
    window = (EPOCH, EPOCH + timedelta(milliseconds=10))

    def step(now: int, before: int, after: int, *rows: tuple[int, int]) -> list[Change]:
        changes = [(INSERT, ("a", v, EPOCH + timedelta(milliseconds=t))) for v, t in rows]
        arriving = SliceTransform(slicing, 2, 3)(frame(ROW, changes), now)
        return changes_of(state.step([arriving], now, [0], Watermark(before, after)))

    assert step(0, -1, 2, (5, 1)) == [(INSERT, ("a", 1, 5, 1, 5, *window))]
    assert step(1, 2, 6, (2, 4)) == [
        (UPDATE_BEFORE, ("a", 1, 5, 1, 5, *window)),
        (UPDATE_AFTER, ("a", 2, 7, 2, 5, *window)),
    ]
    assert step(2, 6, 9) == [] and not any(state.tables), "the window has ended, and its result is known"
    assert step(3, 9, 9, (8, 3)) == [], "the row is late"


@given(inserting(ROWS, 25), SLICINGS, EMISSIONS, GROUPING, CUTS, CLOCK, STEPS)
def test_insertions(changes, slicing, emission, grouping, cuts, clock, steps) -> None:
    play(changes, slicing, emission, grouping, False, cuts, clock, steps)


@given(retracting(ROWS, 25), SLICINGS, EMISSIONS, GROUPING, CUTS, CLOCK, STEPS)
def test_retractions(changes, slicing, emission, grouping, cuts, clock, steps) -> None:
    play(changes, slicing, emission, grouping, True, cuts, clock, steps)


@fewer(0.5)
@given(inserting(ROWS, 25), SLICINGS, EMISSIONS, CUTS, CLOCK, STEPS)
def test_over_sorted_runs(changes, slicing, emission, cuts, clock, steps) -> None:
    emission = normal(emission)
    made = kernel(slicing, emission, (0,), False)
    memory, store = MemoryState(made), MemoryRunStore()
    sliced = SliceTransform(slicing, 2 if emission.event_time else None, 3)
    now, mark = 1000, -2
    for n, batch in enumerate([*split(changes, cuts), [], []]):
        now += clock[n % len(clock)]
        before, mark = (mark, mark + steps[n % len(steps)]) if emission.event_time else (NO_WATERMARK, now)
        rows = sliced(frame(ROW, batch), now)
        runs = KeyedState(store, RunCache(None), made.tables, "test")
        mine = changes_of(memory.step([rows], now, [0], Watermark(before, mark)))
        theirs = changes_of(runs.step(made, [rows], now, ttls([0]), Watermark(before, mark)))
        assert sorted(mine, key=repr) == sorted(theirs, key=repr)


@pytest.mark.parametrize(
    ("emission", "slicing", "instants"),
    [
        (Emission(None, 4, 5), Slicing("TUMBLE", 10, 10), {7: 4, 8: 8, 23: 20}),
        (Emission(4, 6, 5), Slicing("TUMBLE", 10, 10), {7: 6, 8: 8, 23: 20}),
        (Emission(4, None, 0, event_time=False), Slicing("TUMBLE", 10, 10), {7: 4, 8: 8, 11: 9, 22: 20}),
        (Emission(0, None, 0, event_time=False), Slicing("TUMBLE", 10, 10), {11: 9, 22: 19}),
    ],
)
def test_instants_that_wake_it(emission: Emission, slicing: Slicing, instants: dict[int, int]) -> None:
    alarms = kernel(slicing, emission, (0,), False).alarms
    assert alarms is not None
    assert {now: alarms.last(now) for now in instants} == instants


def test_without_delays_nothing_wakes_it() -> None:
    assert kernel(Slicing("TUMBLE", 10, 10), Emission(0, 0, 5), (0,), False).alarms is None


def test_late_rows_are_counted_once() -> None:
    made = kernel(Slicing("HOP", 6, 2), Emission(None, 0, 1), (0,), False)
    rows = SliceTransform(made.slicing, 2, 3)(
        frame(ROW, [(0, ("a", 1, EPOCH + timedelta(milliseconds=t))) for t in (1, 9)]), 0
    )
    empty = [pl.DataFrame(schema={**t.schema, "@t": pl.Int64()}) for t in made.tables]
    step = made.advance([rows], empty, 0, [0], Watermark(6, 6))
    assert step.late == 1
