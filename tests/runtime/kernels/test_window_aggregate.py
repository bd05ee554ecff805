"""Aggregates of windows against the rows of each window, aggregated one by one when the watermark closes it."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.types import BIGINT, LogicalType, RowField
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.common.partials import LocalTransform, Partials
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
from stateplan.runtime.kernels.window_aggregate import WindowAggregateKernel
from stateplan.runtime.kernels.window_slices import SliceAlarms, SliceTransform, Slicing
from tests.runtime.kernels.aggregate_calls import CALLS, PARTS, Reference, plain
from tests.runtime.kernels.aggregate_calls import ROW as FIELDS
from tests.runtime.kernels.aggregate_reference import ArrayAgg, ListAgg
from tests.runtime.kernels.reference import INSERT, Change, Row
from tests.runtime.kernels.support import CUTS, call, changes_of, fewer, frame, inserting, retracting, split
from tests.runtime.kernels.window_rows import EPOCH, GROUPING, PROPERTIES, ROW, TIME, TIMED, WATERMARKS, windows_of
from tests.runtime.memory_state import MemoryState

SLICINGS = st.sampled_from(
    [
        Slicing("TUMBLE", 5, 5),
        Slicing("TUMBLE", 4, 4, 1),
        Slicing("TUMBLE", 1, 1),
        Slicing("HOP", 6, 2),
        Slicing("HOP", 9, 3, -1),
        Slicing("HOP", 4, 4),
        Slicing("HOP", 9, 6, 1),
        Slicing("HOP", 3, 2),
        Slicing("HOP", 2, 5, -1),
        Slicing("HOP", 4, 6),
        Slicing("CUMULATE", 6, 2),
        Slicing("CUMULATE", 8, 4, 3),
    ]
)
CLOCK = st.lists(st.integers(1, 9), min_size=1, max_size=6)
CHOSEN = st.lists(st.sampled_from(range(len(CALLS))), min_size=1, max_size=4, unique=True)


class Windows:
    """Flink's operator with all rows kept."""

    def __init__(
        self,
        slicing: Slicing,
        chosen: Sequence[int],
        grouping: tuple[int, ...],
        retract: bool,
        in_order: bool = False,
    ) -> None:
        self.slicing, self.chosen, self.grouping, self.retract = slicing, chosen, grouping, retract
        self.backwards = slicing.kind == "HOP" and not in_order
        self.rows: list[tuple[int, Change]] = []

    def _slice(self, time: int) -> int:
        slicing = self.slicing
        if slicing.kind == "TUMBLE":
            return 0
        length = math.gcd(slicing.size, slicing.step) if slicing.kind == "HOP" else slicing.step
        return (time - slicing.offset) // length

    def step(self, batch: list[Change], before: int, now: int) -> list[Row]:
        for change in batch:
            time = int((change[1][TIME] - EPOCH) / timedelta(milliseconds=1))
            if any(end - 1 > before for _, end in windows_of(self.slicing, time)):
                self.rows.append((time, change))
        if now <= before:
            return []
        out: list[Row] = []
        every = {w for time, _ in self.rows for w in windows_of(self.slicing, time)}
        for begin, end in sorted(every, key=lambda w: w[1]):
            if before < end - 1 <= now:
                out += self.fired(begin, end)
        return out

    def fired(self, begin: int, end: int) -> list[Row]:
        mine = [(t, c) for t, c in self.rows if begin <= t < end]
        mine.sort(key=lambda r: -self._slice(r[0]) if self.backwards else self._slice(r[0]))
        found = Reference(self.chosen, self.grouping, self.retract)
        lists: dict[tuple[Row, int], list[Any]] = {}
        for _, rows in groupby(mine, lambda r: self._slice(r[0])):
            part = Reference(self.chosen, self.grouping, self.retract)
            for _, (kind, row) in rows:
                found.add((kind, row[:TIME]), 0)
                part.add((kind, row[:TIME]), 0)
            for key, calls in part.slow.items():
                for i, slow in enumerate(calls):
                    lists.setdefault((key, i), []).extend(getattr(slow.function, "items", ()))
        for (key, i), items in lists.items():  # a slice has its own list, out of which its retractions take
            if isinstance(found.slow[key][i].function, (ArrayAgg, ListAgg)):
                found.slow[key][i].function.items = items
        told = [EPOCH + timedelta(milliseconds=m) for m in (begin, end, end - 1)]
        return [(*map(plain, row), *told) for row in found.rows().values()]


class Operator:
    """The operator, in one phase or in two."""

    def __init__(
        self,
        slicing: Slicing,
        chosen: Sequence[int],
        grouping: tuple[int, ...],
        retract: bool,
        two: bool,
        event_time: bool = True,
        in_order: bool = False,
    ) -> None:
        calls = tuple(CALLS[i] for i in chosen)
        flags = (retract,) * len(calls)
        self.sliced = SliceTransform(slicing, TIME if event_time else None, TIME + 1)
        self.local: LocalTransform | None = None
        inner: GlobalGroupAggregateKernel | GroupAggregateKernel
        if two or slicing.shares:
            keys = [ROW.fields[g].type for g in grouping]
            partials = Partials.of(ROW, [*keys, BIGINT], calls, flags, retract, state_name="window-aggs")
            self.local = LocalTransform(partials, (*grouping, TIME + 1))
            inner = GlobalGroupAggregateKernel(partials)
        else:
            row = LogicalType("ROW", fields=(*ROW.fields, RowField("end", BIGINT)))
            inner = GroupAggregateKernel(row, (*grouping, TIME + 1), calls, flags, False, retract, "window-aggs")
        kernel = WindowAggregateKernel(inner, slicing, PROPERTIES, event_time, in_order)
        self.state = MemoryState(pickle.loads(pickle.dumps(kernel)))
        self.retract = retract

    def step(self, parts: list[list[Change]], now: int, mark: Watermark) -> list[Row]:
        found = []
        for part in parts or [[]]:
            made = self.sliced(frame(ROW, part, self.retract), now)
            found.append(made if self.local is None else self.local(made, now))
        out = self.state.step([pl.concat(found)], now, [0], mark)
        changes = changes_of(out)
        assert all(kind == INSERT for kind, _ in changes)
        return [(*map(plain, row[:-3]), *row[-3:]) for _, row in changes]


def check(
    slicing: Slicing,
    changes: list[Change],
    chosen: Sequence[int],
    grouping: tuple[int, ...],
    retract: bool,
    two: bool,
    cuts: list[int],
    parts: list[int],
    marks: list[int],
    in_order: bool = False,
) -> None:
    flink = Windows(slicing, chosen, grouping, retract, in_order)
    mine = Operator(slicing, chosen, grouping, retract, two, in_order=in_order)
    before = NO_WATERMARK
    batches = split(changes, cuts)
    for now, batch in enumerate([*batches, []]):
        step = marks[now % len(marks)]
        after = END_OF_TIME if now == len(batches) else before if not step else max(before, -4) + step
        got = mine.step(split(batch, parts), now, Watermark(before, after))
        assert sorted(got, key=repr) == sorted(flink.step(batch, before, after), key=repr)
        assert [r[-2] for r in got] == sorted(r[-2] for r in got), "windows close in order"
        before = after
    assert not any(mine.state.tables), "nothing is left when all windows are closed"


def test_rows_are_counted_by_window() -> None:
    """``COUNT(*)`` of tumbling windows of 5 ms: one comes out when the watermark is at its last millisecond."""
    mine = Operator(Slicing("TUMBLE", 5, 5), [0], (0,), retract=False, two=True)
    at = [EPOCH + timedelta(milliseconds=n) for n in range(10)]
    arriving = [
        (INSERT, (1, "a", 0, True, 0.5, "", None, 0.5, at[0])),
        (INSERT, (1, "a", 0, True, 0.5, "", None, 0.5, at[4])),
        (INSERT, (1, "a", 0, True, 0.5, "", None, 0.5, at[5])),
        (INSERT, (2, "b", 0, True, 0.5, "", None, 0.5, at[3])),
    ]
    assert mine.step([arriving], 0, Watermark(before=-1, now=3)) == []
    assert sorted(mine.step([], 1, Watermark(before=3, now=4))) == [
        # key, count, window_start, window_end, window_time
        (1, 2, at[0], at[5], at[4]),
        (2, 1, at[0], at[5], at[4]),
    ]
    (open_window,) = mine.state.tables[0].values()
    assert (open_window["c9"], open_window["c10"], open_window["count0"]) == (1, 10, 1), "key, end and count"


@given(st.data(), SLICINGS, CHOSEN, GROUPING, st.booleans(), st.booleans(), CUTS, PARTS, WATERMARKS, st.booleans())
def test_windows(data, slicing, chosen, grouping, retract, two, cuts, parts, marks, in_order) -> None:
    changes = data.draw(retracting(TIMED, 40) if retract else inserting(TIMED, 40))
    check(slicing, changes, chosen, grouping, retract, two, cuts, parts, marks, in_order)


@given(SLICINGS, st.lists(st.integers(-30, 60), min_size=1), st.integers(-40, 70))
def test_windows_of_slices(slicing, times, mark) -> None:
    slices = slicing.slice_ends(np.array(times))
    rows, ends = slicing.windows_of(slices)
    found = [sorted(ends[rows == i].tolist()) for i in range(len(times))]
    assert found == [sorted(end for _, end in windows_of(slicing, time)) for time in times]
    assert slicing.between(slices).tolist() == [not f for f in found]
    following = slicing.next_ends(slices, mark).tolist()
    assert all(n == min([e for e in f if e - 1 > mark] or f[-1:]) for n, f in zip(following, found, strict=True) if f)


def test_rows_between_windows_are_not_late_while_the_window_before_is_open() -> None:
    slicing = Slicing("HOP", 2, 5)
    mine = Operator(slicing, [0], (), False, True)

    def late(time: int, mark: int) -> int:
        row = (1, None, 1, None, None, "", None, 0.5, EPOCH + timedelta(milliseconds=time))
        assert mine.local is not None
        frames = [mine.local(mine.sliced(frame(ROW, [(INSERT, row)]), 0), 0)]
        kernel = mine.state.kernel
        empty = [pl.DataFrame(schema={**t.schema, "@t": pl.Int64()}) for t in kernel.tables]
        return kernel.advance(frames, empty, 0, [0], Watermark(mark, mark)).late

    assert [late(time, 0) for time in (1, 3, 4, 5)] == [0, 0, 0, 0]
    assert [late(time, 1) for time in (1, 3, 4, 5)] == [1, 1, 1, 0]


@given(SLICINGS, inserting(TIMED, 40), CHOSEN, GROUPING, st.booleans(), CUTS, PARTS, CLOCK)
def test_processing_time(slicing, changes, chosen, grouping, two, cuts, parts, steps) -> None:
    flink = Windows(slicing, chosen, grouping, False)
    mine = Operator(slicing, chosen, grouping, False, two, event_time=False)
    before = now = 1_000
    batches = split(changes, cuts)
    for number, batch in enumerate([*batches, []]):
        now += 100 if number == len(batches) else steps[number % len(steps)]
        clocked = [(kind, (*row[:TIME], EPOCH + timedelta(milliseconds=now))) for kind, row in batch]
        got = mine.step(split(batch, parts), now, Watermark(NO_WATERMARK, now))
        assert sorted(got, key=repr) == sorted(flink.step(clocked, before, now), key=repr)
        before = now
    assert not any(mine.state.tables), "nothing is left when all windows are closed"


@given(SLICINGS, st.integers(-50, 5_000), st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]))
def test_the_clock_comes_to_the_end_of_every_slice(slicing, now, zone) -> None:
    alarms = SliceAlarms(replace(slicing, zone=zone))
    last = alarms.last(now)
    assert last <= now and alarms.last(last) == last and alarms.last(last - 1) < last
    assert all((alarms.last(at) + 1 - slicing.offset) % slicing.slice == 0 for at in range(now - 20, now))


def test_the_clock_where_clocks_are_put_back() -> None:
    hours = SliceAlarms(Slicing("TUMBLE", 3_600_000, 3_600_000, zone="Europe/Berlin"))
    # On 25 October 2026 the hour from two to three comes twice: its window ends with the second one.
    times = {int(datetime(2026, 10, 25, h, m, tzinfo=UTC).timestamp() * 1000) for h in range(4) for m in (0, 30)}
    ends = sorted({hours.last(t) + 1 for t in times})
    assert [datetime.fromtimestamp(e / 1000, UTC).hour for e in ends] == [0, 2, 3]


@pytest.mark.parametrize("step", [1_000, 60_000, 1_200_000])
def test_short_windows_of_an_hour_that_comes_twice(step: int) -> None:
    clock = SliceAlarms(Slicing("TUMBLE", step, step, zone="Europe/Berlin"))
    second = int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp() * 1000)
    before = second - 3_600_000
    assert {clock.last(at) for at in range(before, second, 600_000)} == {before - 1}
    assert clock.last(second + step - 1) == second + step - 1


@pytest.mark.halved
@pytest.mark.parametrize("number", range(len(CALLS)))
@pytest.mark.parametrize("retract", [False, True])
def test_each_function(number: int, retract: bool) -> None:
    @fewer(0.4)
    @given(st.data(), SLICINGS, CUTS, PARTS, WATERMARKS)
    def run(data, slicing, cuts, parts, marks) -> None:
        changes = data.draw(retracting(TIMED, 30) if retract else inserting(TIMED, 30))
        check(slicing, changes, [number], (0,), retract, True, cuts, parts, marks)

    run()


def test_functions_that_cannot_be_merged_tumble() -> None:
    row = LogicalType("ROW", fields=(*ROW.fields, RowField("end", BIGINT)))
    calls = (call("FIRST_VALUE", 2, FIELDS.fields[2].type), call("LAST_VALUE", 2, FIELDS.fields[2].type))
    inner = GroupAggregateKernel(row, (0, TIME + 1), calls, (False, False), False, False, "window-aggs")
    slicing = Slicing("TUMBLE", 5, 5)
    state = MemoryState(WindowAggregateKernel(inner, slicing, PROPERTIES[:1]))

    def rows(*given: tuple[int, int, int]) -> pl.DataFrame:
        found = [
            (INSERT, (k, None, v, None, None, "", None, 0.5, EPOCH + timedelta(milliseconds=t))) for k, v, t in given
        ]
        return SliceTransform(slicing, TIME, TIME + 1)(frame(ROW, found), 0)

    assert changes_of(state.step([rows((1, 7, 0), (1, 8, 6))], 0, [0], Watermark())) == []
    got = changes_of(state.step([rows((1, 9, 4), (2, 3, 1))], 1, [0], Watermark(NO_WATERMARK, 4)))
    assert got == [(INSERT, (1, 7, 9, EPOCH)), (INSERT, (2, 3, 3, EPOCH))]
    assert changes_of(state.step([rows((1, 5, 4))], 2, [0], Watermark(4, 5))) == []
    second = EPOCH + timedelta(milliseconds=5)
    assert changes_of(state.step([rows()], 3, [0], Watermark(5, END_OF_TIME))) == [(INSERT, (1, 8, 8, second))]
