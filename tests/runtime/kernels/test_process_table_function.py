"""Process table functions against a driver that calls them row by row, with all that is kept in dictionaries."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateplan.common.changelog import KIND, RowKind, columns
from stateplan.common.errors import DataError
from stateplan.common.ttl import TtlConfig, TtlTimeCharacteristic
from stateplan.common.types import BIGINT, INT, LogicalType, row_type
from stateplan.common.values.row import Row
from stateplan.functions.process import StateRow
from stateplan.functions.rex import Literal, Rex
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.udptf import ArgumentHint, ProcessTableFunction, StateHint, udptf
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.process_table_function import ProcessTableKernel, TimedProcessTableKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.ttl_access import InputFields
from stateplan.runtime.transforms.process_calls import BoundTable, ProcessCall, ProcessRowsTransform
from stateplan.runtime.user_functions import Shipped
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Cells
from tests.runtime.kernels.support import CLOCK, CUTS, split
from tests.runtime.memory_state import MemoryState
from tests.runtime.memory_state import ttls as ttl_configs

STAMP = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3, kind="ROWTIME")
ROW = row_type([("k", BIGINT), ("op", INT), ("arg", INT), ("ts", STAMP)])
SET, ONE = ArgumentHint("SET_SEMANTIC_TABLE"), ArgumentHint("ROW_SEMANTIC_TABLE")
Told = tuple[Any, ...]
ROWS: st.SearchStrategy[list[Told]] = st.lists(
    st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 8), st.integers(0, 30), st.integers(0, 30)), max_size=14
)
WATERMARKS = st.lists(st.integers(0, 9), min_size=1, max_size=40)
"""By how much each micro-batch moves the watermark."""


class Chaos(ProcessTableFunction):
    """Does what a row says, and yields what it sees of its states."""

    def eval(self, ctx: Any, counts: StateRow, seen: list[Any], named: dict[str, Any], input: Row, step: int) -> Any:  # noqa: A002
        time = ctx.time_context(int)
        counts.n = (counts.n or 0) + step
        if input.op == 1:
            time.register_on_time("x", input.arg)
        elif input.op == 2:
            time.register_on_time(input.arg)
        elif input.op == 3:
            time.clear_timer("x")
            time.clear_timer(input.arg)
        elif input.op == 4:
            ctx.clear_state("counts")
        elif input.op == 5:
            ctx.clear_all()
        elif input.op == 6:
            seen.append(input.arg)
        elif input.op == 7:
            named[str(input.arg % 3)] = input.arg
        else:
            counts.n -= step
        yield "row", input.arg, counts.n, len(seen) + 100 * len(named)

    def on_timer(self, ctx: Any, counts: StateRow, seen: list[Any], named: dict[str, Any]) -> Any:
        time = ctx.time_context(int)
        yield ctx.current_timer(), time.time(), counts.n, len(seen) + 100 * len(named)
        if ctx.current_timer() == "x":
            time.register_on_time("y", time.time() - 1)
            time.register_on_time(time.time() + 5)
        elif ctx.current_timer() is None:
            seen.clear()


CHAOS: UserFunction = udptf(
    Chaos(),
    arguments={"input": SET, "step": ArgumentHint(type="INT", default=1)},
    states={
        "counts": StateHint("ROW<n BIGINT, unused STRING>"),
        "seen": StateHint("ARRAY<INT>"),
        "named": StateHint("MAP<STRING, INT>"),
    },
    result_type="ROW<what STRING, due BIGINT, n BIGINT, kept INT>",
)


def call_of(
    function: UserFunction,
    rows: Sequence[LogicalType] = (ROW,),
    partition: tuple[int, ...] = (0,),
    order: tuple[tuple[int, bool, bool], ...] = (),
    time: int | None = 3,
    scalars: tuple[Rex | None, ...] = (),
) -> ProcessCall:
    """A call whose tables are all alike, with the function as a worker has it."""
    assert function.process is not None
    shipped = replace(function, body=pickle.loads(pickle.dumps(Shipped(function.name, function.body))))
    tables = tuple(
        BoundTable(a.name, row, partition, order, time) for a, row in zip(function.process.tables, rows, strict=True)
    )
    return ProcessCall(shipped, tables, scalars, None if time is None else STAMP.not_null())


def frame_of(rows: Sequence[Told], row: LogicalType = ROW, kinds: Sequence[int] | None = None) -> pl.DataFrame:
    schema = {n: pl.Int64 if f.type.kind else f.type.polars() for n, f in zip(columns(9), row.fields, strict=False)}
    out = pl.DataFrame(rows, schema=schema, orient="row")
    out = out.with_columns(
        pl.col(n).cast(pl.Datetime("ms")) for n, f in zip(columns(9), row.fields, strict=False) if f.type.kind
    )
    return out if kinds is None else out.with_columns(pl.Series(KIND, kinds, dtype=pl.Int8))


def rows_of(out: pl.DataFrame) -> list[Told]:
    times = [c for c, t in out.schema.items() if t == pl.Datetime("ms")]
    return out.with_columns(pl.col(times).dt.epoch("ms")).rows()


class Driver:
    """Calls :class:`Chaos` for one row, or one timer, after the other. It is the context of the calls."""

    def __init__(self, ttls: Sequence[int], ordered: bool) -> None:
        self.states: list[Cells[Any]] = [Cells(ttl) for ttl in ttls]
        self.named: dict[Hashable, dict[str, int]] = defaultdict(dict)
        self.unnamed: dict[Hashable, set[int]] = defaultdict(set)
        self.waiting: list[Told] = []
        self.ordered = ordered
        self.function = Chaos()
        self.out: list[Told] = []

    def step(self, rows: Sequence[Told], now: int, before: int, after: int) -> list[Told]:
        self.out, self.now = [], now
        self.values: dict[Hashable, list[Any]] = {}
        ready = list(rows)
        if self.ordered:
            self.waiting += [r for r in rows if r[3] > before]
            due = [r for r in self.waiting if r[3] <= after] if after > before else []
            ready = sorted(due, key=lambda r: (r[3], -r[2]))
            self.waiting = [r for r in self.waiting if after <= before or r[3] > after]
        for row in ready:
            named = Row.of([f.name for f in ROW.fields], row)
            self.call(row[0], self.function.eval, row[3], None, named, 1)
        if after > before:
            for key in set(self.named) | set(self.unnamed):
                self.fire(key, after)
        for key, values in self.values.items():
            for state, begin, value in zip(self.states, self.begin(), values, strict=True):
                if value == begin:
                    state.remove(key)
                elif value != state.get(key, now):
                    state.put(key, value, now)
        return self.out

    def fire(self, key: Hashable, upto: int) -> None:
        again = True
        while again:
            again = False
            while due := sorted(t for t in self.unnamed[key] if t <= upto):
                again = True
                self.unnamed[key].remove(due[0])
                self.call(key, self.function.on_timer, due[0], None)
            while found := sorted((t, n) for n, t in self.named[key].items() if t <= upto):
                again = True
                del self.named[key][found[0][1]]
                self.call(key, self.function.on_timer, *found[0])

    @staticmethod
    def begin() -> list[Any]:
        return [StateRow({"n": None, "unused": None}), [], {}]

    def call(self, key: Hashable, method: Any, time: int, name: str | None, *arguments: Any) -> None:
        kept = [s.get(key, self.now) for s in self.states]
        begin = [b if v is None else v for b, v in zip(self.begin(), kept, strict=True)]
        values = self.values.setdefault(key, deepcopy(begin))
        self.key, self.at, self.name, self.cleared = key, time, name, set[int]()
        self.out += [(key, *row, time) for row in method(self, *values, *arguments)]
        for n in self.cleared:
            values[n] = self.begin()[n]

    # the context

    def time_context(self, _: type) -> Driver:
        return self

    def time(self) -> int:
        return self.at

    def current_timer(self) -> str | None:
        return self.name

    def register_on_time(self, *timer: Any) -> None:
        if len(timer) == 2:
            self.named[self.key][timer[0]] = timer[1]
        else:
            self.unnamed[self.key].add(timer[0])

    def clear_timer(self, timer: Any) -> None:
        self.named[self.key].pop(timer, None)
        self.unnamed[self.key].discard(timer)

    def clear_state(self, name: str) -> None:
        self.cleared.add(["counts", "seen", "named"].index(name))

    def clear_all(self) -> None:
        self.cleared |= {0, 1, 2}
        self.named[self.key].clear()
        self.unnamed[self.key].clear()


def by_key(rows: Sequence[Told]) -> dict[Any, list[Told]]:
    """Rows of each partition, in order: how partitions alternate is left open."""
    out: dict[Any, list[Told]] = defaultdict(list)
    for row in rows:
        out[row[0]].append(row)
    return out


class Totals(ProcessTableFunction):
    def eval(self, ctx: Any, total: StateRow, input: Row) -> Iterator[Any]:  # noqa: A002
        total.n = (total.n or 0) + input.op
        yield total.n


TOTALS: UserFunction = udptf(Totals(), {"input": SET}, "ROW<n BIGINT>", {"total": StateHint("ROW<n BIGINT>")})


def test_a_function_has_a_state_per_partition() -> None:
    """The function adds the second field to a total of its partition, the first field. The TTL is 10 ms."""
    state = MemoryState(ProcessTableKernel(call_of(TOTALS, time=None)))

    def step(now: int, *rows: Told) -> dict[Any, list[Told]]:
        return by_key(rows_of(state.step([frame_of(rows)], now, [10])))

    assert step(0, (1, 3, 0, 0), (2, 10, 0, 0), (1, 4, 0, 0)) == {1: [(1, 3), (1, 7)], 2: [(2, 10)]}
    assert step(9, (1, 5, 0, 0)) == {1: [(1, 12)]}
    assert step(12, (2, 1, 0, 0), (1, 1, 0, 0)) == {2: [(2, 1)], 1: [(1, 13)]}, "the total of 2 expired at 10"


@pytest.mark.parametrize("ordered", [False, True])
@settings(deadline=None)
@given(ROWS, CUTS, CLOCK, WATERMARKS, st.sampled_from([(0, 0, 0), (10, 0, 25)]))
def test_states_and_timers(
    ordered: bool, rows: list[Told], cuts: list[int], clock: list[int], marks: list[int], ttls: tuple[int, ...]
) -> None:
    order = ((3, True, True), (2, False, False)) if ordered else ()
    kernel = TimedProcessTableKernel(call_of(CHAOS, order=order, scalars=(None,)))
    state, slow = MemoryState(kernel), Driver(ttls, ordered)
    now, before = 0, NO_WATERMARK
    for i, batch in enumerate([*split(rows, cuts), [], []]):
        now += clock[i % len(clock)]
        after = max(before, 0) + marks[i % len(marks)] if i else before
        wanted = slow.step(batch, now, before, after)
        step = state.step([frame_of(batch)], now, ttls, Watermark(before, after))
        assert by_key(rows_of(step)) == by_key(wanted)
        before = after
    assert by_key(rows_of(state.step([frame_of([])], now, ttls, Watermark(before, END_OF_TIME)))) == by_key(
        slow.step([], now, before, END_OF_TIME)
    )
    timers, waiting = state.tables[3], sum(map(len, state.tables[4:]))
    assert not timers and not waiting, "nothing waits for a time after the end"


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, CUTS, WATERMARKS, st.booleans())
def test_runs_hold_what_dictionaries_hold(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Told], cuts: list[int], marks: list[int], whole: bool
) -> None:
    """Also without a partition, whose tables have no key."""
    call = call_of(CHAOS, partition=() if whole else (0,), order=((3, True, True),), scalars=(None,))
    kernel = TimedProcessTableKernel(call)
    memory, store = MemoryState(kernel), MemoryRunStore()
    cache = RunCache(str(tmp_path_factory.getbasetemp() / "runs"))
    before = NO_WATERMARK
    for i, batch in enumerate([*split(rows, cuts), []]):
        after = max(before, 0) + marks[i % len(marks)]
        mark = Watermark(before, after)
        mine = memory.step([frame_of(batch)], i, [0, 5, 0], mark)
        theirs = KeyedState(store, cache, kernel.tables, "a test")
        runs = theirs.step(kernel, [frame_of(batch)], i, ttl_configs([0, 5, 0]), mark)
        assert by_key(rows_of(runs)) == by_key(rows_of(mine))
        before = after


@settings(deadline=None)
@given(ROWS, CUTS, CUTS)
def test_micro_batches_do_not_matter(rows: list[Told], cuts: list[int], others: list[int]) -> None:
    results = []
    for chosen in (cuts, others):
        state = MemoryState(ProcessTableKernel(call_of(TOTALS, time=None)))
        batches = [rows_of(state.step([frame_of(b)], 0, [0])) for b in split(rows, chosen)]
        results.append(by_key([r for b in batches for r in b]))
    assert results[0] == results[1]


def test_a_state_that_is_left_as_it_was_keeps_its_age() -> None:
    state = MemoryState(ProcessTableKernel(call_of(TOTALS, time=None)))
    add, look = (1, 5, 0, 0), (1, 0, 0, 0)

    def total(row: Told, now: int) -> Any:
        return rows_of(state.step([frame_of([row])], now, [10]))[0][1]

    assert [total(add, 0), total(look, 6), total(add, 9), total(look, 18), total(look, 19)] == [5, 5, 10, 10, 0]


def test_event_time_ages_state_by_the_rows_of_all_tables() -> None:
    function = udptf(_Both(), {"left": SET, "right": SET}, "ROW<n BIGINT>", {"total": StateHint("ROW<n BIGINT>")})
    kernel = TimedProcessTableKernel(call_of(function, rows=(ROW, ROW)))
    state = MemoryState(kernel)
    ages = [TtlConfig(10, time_characteristic=TtlTimeCharacteristic.EVENT_TIME)]
    fields = InputFields((("c0",), ("c0",)), ("c3", "c3"))

    def step(left: list[Told], right: list[Told], before: int, after: int) -> list[Told]:
        frames = [frame_of(left), frame_of(right)]
        return rows_of(state.step(frames, 0, ages, Watermark(before, after), fields))

    assert step([(1, 3, 0, 5)], [], 0, 4) == [(1, 1, 3, 5)]
    assert step([], [(1, 4, 0, 8)], 4, 16) == [(1, 1, 7, 8)]
    assert step([], [(1, 1, 0, 17)], 16, 18) == [(1, 1, 8, 17)], "its last row was at 8"
    assert step([(1, 2, 0, 40)], [], 39, 40) == [(1, 1, 2, 40)]


class _Both(ProcessTableFunction):
    def eval(self, ctx: Any, total: StateRow, left: Row | None, right: Row | None) -> Iterator[Any]:
        row = left or right
        assert row is not None and (left is None or right is None)
        total.n = (total.n or 0) + row.op
        yield total.n


class Changes(ProcessTableFunction):
    """The number of rows of a partition, as updates."""

    def eval(self, ctx: Any, kept: StateRow, input: Row) -> Iterator[Any]:  # noqa: A002
        before, kind = kept.n or 0, input.get_row_kind()
        kept.n = before + (-1 if kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE) else 1)
        if before:
            yield Row(before).of_kind(RowKind.UPDATE_BEFORE if kept.n else RowKind.DELETE)
        if kept.n:
            yield Row(kept.n).of_kind(RowKind.UPDATE_AFTER if before else RowKind.INSERT)


def changes(mode: Any) -> UserFunction:
    made: UserFunction = udptf(
        Changes(),
        {"input": ArgumentHint("SET_SEMANTIC_TABLE", "SUPPORT_UPDATES")},
        "ROW<n BIGINT>",
        {"kept": StateHint("ROW<n BIGINT>")},
        changelog_mode=mode,
    )
    return made


def test_changes_in_and_out() -> None:
    state = MemoryState(ProcessTableKernel(call_of(changes("retract"), time=None)))
    a, b = (1, 0, 0, 0), (2, 0, 0, 0)
    first = state.step([frame_of([a, b, a], kinds=[INSERT, INSERT, UPDATE_AFTER])], 0, [0])
    assert first.rows() == [(1, 1, INSERT), (1, 1, UPDATE_BEFORE), (1, 2, UPDATE_AFTER), (2, 1, INSERT)]
    assert state.step([frame_of([b], kinds=[DELETE])], 0, [0]).rows() == [(2, 1, DELETE)]
    assert len(state.tables[0]) == 2, "a total of 0 is a value, and not the state at the beginning"


def test_kinds_that_are_not_declared_are_refused() -> None:
    state = MemoryState(ProcessTableKernel(call_of(changes("append"), time=None)))
    with pytest.raises(DataError) as caught:
        state.step([frame_of([(1, 0, 0, 0)] * 2)], 0, [0])
    assert caught.value.code == "DATA313"
    assert "UPDATE_BEFORE" in str(caught.value)


class Frames(ProcessTableFunction):
    def eval(self, ctx: Any, total: StateRow, input: Any) -> Any:  # noqa: A002
        total.n = (total.n or 0) + len(input)
        if isinstance(input, pa.Table):
            return pa.table({"s": [sum(input["op"].to_pylist())], "n": [total.n]})
        return pd.DataFrame({"n": [total.n], "s": [input["op"].sum()]})


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_frames(kind: Any) -> None:
    function = udptf(
        Frames(), {"input": SET}, "ROW<n BIGINT, s BIGINT>", {"total": StateHint("ROW<n BIGINT>")}, func_type=kind
    )
    state = MemoryState(ProcessTableKernel(call_of(function)))
    rows = [(1, 4, 0, 7), (2, 1, 0, 3), (1, 5, 0, 6)]
    assert rows_of(state.step([frame_of(rows)], 0, [0])) == [(1, 2, 9, 7), (2, 1, 1, 3)]
    assert rows_of(state.step([frame_of(rows[:1])], 0, [0])) == [(1, 3, 4, 7)]


class Each(ProcessTableFunction):
    def eval(self, ctx: Any, input: Row, times: int) -> Iterator[Any]:  # noqa: A002
        yield from [input.arg] * times


def test_rows_by_themselves_with_their_columns() -> None:
    function = udptf(
        Each(),
        {"input": ArgumentHint("ROW_SEMANTIC_TABLE", "PASS_COLUMNS_THROUGH"), "times": ArgumentHint(type="INT")},
        "INT",
    )
    transform = ProcessRowsTransform(call_of(function, partition=(), scalars=(Literal(INT, 2),)))
    out = pickle.loads(pickle.dumps(transform))(frame_of([(1, 0, 7, 3), (None, 0, None, 4)]), 0)
    assert rows_of(out) == [(1, 0, 7, 3, 7, 3)] * 2 + [(None, 0, None, 4, None, 4)] * 2
    assert rows_of(transform(frame_of([]), 0)) == []


class Times(ProcessTableFunction):
    def eval(self, ctx: Any, input: Row) -> Iterator[Any]:  # noqa: A002
        time = ctx.time_context()
        yield f"{time.time()} {time.current_watermark()}"
        time.register_on_time("x", time.time())
        time.register_on_time("x", datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))

    def on_timer(self, ctx: Any) -> Iterator[Any]:
        yield f"{ctx.time_context().time()} {ctx.time_context().current_watermark()}"


@pytest.mark.parametrize(
    ("root", "zone"), [("TIMESTAMP_WITHOUT_TIME_ZONE", ""), ("TIMESTAMP_WITH_LOCAL_TIME_ZONE", "+00:00")]
)
def test_times_are_datetimes(root: str, zone: str) -> None:
    stamp = LogicalType(root, precision=3, kind="ROWTIME")
    row = row_type([*((f.name, f.type) for f in ROW.fields[:3]), ("ts", stamp)])
    call = replace(call_of(udptf(Times(), {"input": SET}, "STRING"), rows=(row,)), rowtime=stamp.not_null())
    state = MemoryState(TimedProcessTableKernel(call))
    out = state.step([frame_of([(1, 0, 0, 1500)], row).cast({"c3": stamp.polars()})], 0, [0], Watermark(1000, 2**62))
    assert out["c1"].to_list() == [
        f"1970-01-01 00:00:01.500000{zone} 1970-01-01 00:00:01{zone}",
        f"1970-01-01 00:00:00{zone} 9999-12-31 23:59:59.999999{zone}",
    ]
    assert out["c2"].dtype == stamp.polars()
    assert out["c2"].dt.epoch("ms").to_list() == [1500, 0]


class Broken(ProcessTableFunction):
    def eval(self, ctx: Any, kept: StateRow, input: Row) -> Iterator[Any]:  # noqa: A002
        if input.op == 1:
            raise KeyError("lost")
        if input.op == 2:
            kept.m = 1
        if input.op == 3:
            ctx.time_context().register_on_time(5)
        if input.op == 4:
            kept.n = "many"
        if input.op == 5:
            ctx.clear_state("other")
        yield {"m": 1} if input.op == 6 else "no number"


@pytest.mark.parametrize(
    ("op", "code", "told"),
    [
        (0, "DATA311", "'no number' (str)"),
        (1, "DATA310", "raised KeyError: 'lost'; it was called with (Row(k=1, op=1, arg=0, ts="),
        (2, "DATA310", "the state has no field 'm'"),
        (3, "DATA310", "the function has no on_timer to call"),
        (4, "DATA311", "'many' (str)"),
        (5, "DATA310", "the function has no state 'other'"),
        (6, "DATA311", "{'m': 1} (dict)"),
    ],
)
def test_what_goes_wrong_is_told_with_its_row(op: int, code: str, told: str) -> None:
    returns = "ROW<n BIGINT>" if op != 4 else "ROW<n STRING>"
    function = udptf(Broken(), {"input": SET}, returns, {"kept": StateHint("ROW<n BIGINT>")})
    state = MemoryState(ProcessTableKernel(call_of(function)))
    with pytest.raises(DataError) as caught:
        state.step([frame_of([(1, op, 0, 0)])], 0, [0])
    assert caught.value.code == code
    assert told in str(caught.value)


def test_labels_are_those_of_the_function(tmp_path: Path) -> None:
    kernel = TimedProcessTableKernel(call_of(CHAOS, scalars=(None,)))
    counts, seen, named, timers = kernel.tables
    assert list(kernel.labels(counts).values()) == ["k", "n", "unused"]
    assert list(kernel.labels(named).values()) == ["k", "named"]
    assert (seen.slot, named.slot, timers.due) == (1, 2, "@due")
