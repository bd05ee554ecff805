"""OVER windows against Flink's functions row by row."""

from __future__ import annotations

import pickle
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.common.types import BIGINT, DOUBLE, FLOAT, INT, STRING, LogicalType, parse_type, row_type
from stateplan.execnodes.nodes.over_aggregate import range_ttl
from stateplan.execnodes.specs import AggCall
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.udf import AggregateFunction, udaf
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.common.over_frames import Frame
from stateplan.runtime.kernels.over_aggregate import ProctimeOverKernel, RowtimeOverKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.runtime.kernels.over_functions import ANY_FRAME, Function, there
from tests.runtime.kernels.reference import UPDATE_AFTER
from tests.runtime.kernels.support import CLOCK, CUTS, fewer, split
from tests.runtime.memory_state import MemoryState, ttls

ROWTIME = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3, kind="ROWTIME")
ROW = row_type([("k", STRING), ("ts", ROWTIME), ("v", INT), ("d", DOUBLE)])
Event = tuple[str | None, int, int | None, float | None]


def lag(values: list[Any]) -> Any:
    return values[-2] if len(values) > 1 else None


def lag_or_seven(values: list[Any]) -> Any:
    return values[-3] if len(values) > 2 else 7


WHOLE_FRAME = [
    Function("LAG", INT, 2, lag),
    Function("LAG", INT, 2, lag_or_seven, more=(4, 5)),
    Function("ROW_NUMBER", BIGINT, None, len),
]
CONSTANTS: tuple[dict[str, Any], tuple[LogicalType, ...]] = (
    {"c4": 2, "c5": 7, "c6": 0.5, "c7": 3},
    (INT, INT, DOUBLE, INT),
)


def median(values: list[Any]) -> float | None:
    known = there(values)
    return float(statistics.median(known)) if known else None


@dataclass
class OfColumns(Function):
    """A function of Python on the columns of a frame."""

    function: UserFunction | None = None

    @property
    def call(self) -> AggCall:
        assert self.function is not None
        arguments = () if self.argument is None else (self.argument, *self.more)
        call = AggCall(name="x", system_name=self.name, arg_list=arguments, type=self.result)
        return call.with_user_function(self.function)


class Spread(AggregateFunction):
    """The range of a column: an object, as PyFlink has them."""

    def create_accumulator(self) -> list[Any]:
        return []

    def accumulate(self, accumulator: list[Any], *args: Any) -> None:
        (column,) = args
        known = column.drop_null()
        accumulator.append(pc.max(known).as_py() - pc.min(known).as_py() if len(known) else None)

    def get_value(self, accumulator: list[Any]) -> Any:
        return accumulator[0]


def spread(values: list[Any]) -> int | None:
    known = there(values)
    return max(known) - min(known) if known else None


def weighed(column: pd.Series, weights: pd.Series) -> float:
    assert len(column) == len(weights)
    return float((column.fillna(0) * weights).sum())


COLUMNS = [
    OfColumns("length", BIGINT, 2, len, function=udaf(len, ["INT"], "BIGINT", func_type="pandas")),
    OfColumns("spread", INT, 2, spread, function=udaf(Spread(), ["INT"], "INT", func_type="arrow")),
    OfColumns(
        "weighed",
        DOUBLE,
        2,
        lambda vs: 3.0 * sum(there(vs)),
        more=(7,),
        function=udaf(weighed, ["INT", "INT"], "DOUBLE", func_type="pandas"),
    ),
]
MEDIANS = [Function("PERCENTILE", DOUBLE, 2, median, more=(6,))]


@dataclass
class Partition:
    rows: list[Event] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    waiting: list[Event] = field(default_factory=list)
    last: int = 0
    until: int | None = None

    def values(self, functions: Sequence[Function]) -> tuple[Any, ...]:
        return tuple(f.value([None if f.argument is None else r[f.argument] for r in self.rows]) for f in functions)


class Flink:
    """Flink's functions, told the time between micro-batches."""

    def __init__(self, frame: Frame, functions: Sequence[Function], keys: tuple[int, ...], ttl: int) -> None:
        self.frame, self.functions, self.keys, self.ttl = frame, functions, keys, ttl
        self.parts: dict[Hashable, Partition] = {}
        self.watermark = NO_WATERMARK
        self.now = 0

    @property
    def is_range(self) -> bool:
        return self.frame.bounded and not self.frame.rows

    def key(self, row: Event) -> Hashable:
        return tuple(row[i] for i in self.keys)

    def part(self, row: Event) -> Partition:
        return self.parts.setdefault(self.key(row), Partition())

    def accept(self, part: Partition, rows: Sequence[Event], time: int) -> list[tuple[Any, ...]]:
        """Rows of one time enter the frames of a partition."""
        if self.is_range or not (self.frame.rows or self.by_row):
            if self.frame.preceding is not None:
                stays = [i for i, t in enumerate(part.times) if t >= time - self.frame.preceding]
                part.rows, part.times = [part.rows[i] for i in stays], [part.times[i] for i in stays]
            part.rows += rows
            part.times += [time] * len(rows)
            values = part.values(self.functions)
            return [(*r, *values) for r in rows]
        out = []
        for row in rows:
            part.rows.append(row)
            part.times.append(time)
            if self.frame.preceding is not None and len(part.rows) > self.frame.preceding + 1:
                del part.rows[0], part.times[0]
            out.append((*row, *part.values(self.functions)))
        return out

    by_row = True


class Proctime(Flink):
    def batch(self, rows: Sequence[Event], now: int) -> list[tuple[Any, ...]]:
        for key, part in list(self.parts.items()):
            if part.until is not None and part.until <= now:
                del self.parts[key]
        if self.is_range:
            groups: dict[Hashable, list[tuple[int, Event]]] = {}
            for n, row in enumerate(rows):
                groups.setdefault(self.key(row), []).append((n, row))
            out: list[tuple[int, tuple[Any, ...]]] = []
            for group in groups.values():
                found = self.accept(self.part(group[0][1]), [r for _, r in group], now)
                out += [(n, r) for (n, _), r in zip(group, found, strict=True)]
            return [r for _, r in sorted(out, key=lambda o: o[0])]
        flat = []
        for row in rows:
            part = self.part(row)
            flat += self.accept(part, [row], now)
            if self.ttl and not self.frame.bounded:
                part.until = now + self.ttl
            elif self.ttl and (part.until is None or now + self.ttl > part.until):
                part.until = now + self.ttl * 3 // 2
        return flat


class Rowtime(Flink):
    by_row = False

    def touch(self, part: Partition, now: int) -> None:
        if self.ttl and not self.is_range and (part.until is None or now + self.ttl > part.until):
            part.until = now + self.ttl * 3 // 2

    def batch(self, rows: Sequence[Event], now: int, watermark: int) -> list[tuple[Any, ...]]:
        for key, part in list(self.parts.items()):
            while not self.is_range and part.until is not None and part.until <= now:
                if part.waiting:
                    part.until += self.ttl * 3 // 2
                else:
                    del self.parts[key]
                    break
        for row in rows:
            known = self.parts.get(self.key(row))
            late = row[1] <= (self.watermark if not self.frame.bounded else known.last if known else 0)
            if late and known is None:
                continue
            part = self.part(row)
            self.touch(part, now)
            if late:
                continue
            part.waiting.append(row)
            if self.is_range:
                bound = self.frame.preceding or 0
                if part.until is None or part.until < row[1] + bound + 1:
                    part.until = row[1] + bound * 3 // 2 + 1
        if watermark <= self.watermark:
            return []
        self.watermark = watermark
        out: list[tuple[Any, ...]] = []
        for key, part in list(self.parts.items()):
            for time in sorted({r[1] for r in part.waiting if r[1] <= watermark}):
                out += self.accept(part, [r for r in part.waiting if r[1] == time], time)
                part.waiting = [r for r in part.waiting if r[1] != time]
                part.last = time
                self.touch(part, now)
            if self.is_range and part.until is not None and part.until <= watermark:
                del self.parts[key]
        return out


def frame(rows: list[Event]) -> pl.DataFrame:
    schema = {"c0": pl.String(), "c1": pl.Int64(), "c2": pl.Int32(), "c3": pl.Float64()}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("c1").cast(pl.Datetime("ms")))


def rows_of(out: pl.DataFrame) -> list[tuple[Any, ...]]:
    return out.with_columns(pl.col("c1").cast(pl.Datetime("ms")).to_physical()).rows()


EVENTS: st.SearchStrategy[list[Event]] = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.integers(-1, 14),
        st.sampled_from([None, -2, 0, 1, 1, 5]),
        st.just(None),
    ),
    max_size=30,
)
KEYS = st.sampled_from([(0,), (2,), (0, 2), ()])
FRAMES = st.builds(Frame, st.booleans(), st.sampled_from([None, 0, 1, 2, 5]))


def functions_of(given: Frame) -> list[Function]:
    return [*ANY_FRAME, *MEDIANS, *(COLUMNS if given.bounded else WHOLE_FRAME)]


def calls_of(functions: Sequence[Function]) -> tuple[AggCall, ...]:
    return tuple(f.call for f in functions)


def test_a_running_sum_of_each_key() -> None:
    """``SUM(v) OVER (PARTITION BY k ORDER BY pt ROWS UNBOUNDED PRECEDING)``: the sum is the last field."""
    row = row_type([("k", STRING), ("v", INT)])
    schema = {"c0": pl.String(), "c1": pl.Int32()}
    total = AggCall(name="x", internal_name="$SUM$1", arg_list=(1,), type=INT)
    state = MemoryState(ProctimeOverKernel(row, (0,), (total,), Frame(True)))
    out = state.step([pl.DataFrame({"c0": ["a", "b", "a"], "c1": [1, 5, 2]}, schema)], 0, [0])
    assert out.rows() == [
        ("a", 1, 1),
        ("b", 5, 5),
        ("a", 2, 3),
    ]
    assert state.step([pl.DataFrame({"c0": ["a"], "c1": [4]}, schema)], 1, [0]).rows() == [("a", 4, 7)]
    assert list(state.tables[0].values()) == [
        {"c0": "a", "sum0": 7, "count0": 3, "@t": 1},
        {"c0": "b", "sum0": 5, "count0": 1, "@t": 0},
    ]


@given(EVENTS, KEYS, FRAMES, st.sampled_from([0, 10]), CUTS, CLOCK)
def test_processing_time(events, keys, given_frame, ttl, cuts, clock) -> None:
    functions = [f for f in functions_of(given_frame) if not (f.distinct and ttl and not given_frame.bounded)]
    kernel = ProctimeOverKernel(ROW, keys, calls_of(functions), given_frame, *CONSTANTS)
    state = MemoryState(pickle.loads(pickle.dumps(kernel)))
    flink = Proctime(given_frame, functions, keys, ttl)
    life = range_ttl(given_frame.preceding) if flink.is_range else ttl
    now = 1000
    for n, batch in enumerate(split(events, cuts)):
        now += clock[n % len(clock)]
        out = state.step([frame(batch)], now, [life])
        assert rows_of(out) == flink.batch(batch, now)
        state.expire(now, [life])


@given(
    EVENTS, KEYS, FRAMES, st.sampled_from([0, 10]), CUTS, CLOCK, st.lists(st.integers(-3, 6), min_size=1, max_size=8)
)
@example(
    events=[*[(None, 0, None, None)] * 11, (None, 1, None, None), (None, 4, None, None)],
    keys=(0,),
    given_frame=Frame(True, 0),
    ttl=10,
    cuts=[1, 2, 12],
    clock=[5],
    steps=[1],
)
@example(events=[(None, 2, None, None)], keys=(0,), given_frame=Frame(False, 0), ttl=10, cuts=[], clock=[10], steps=[2])
def test_event_time(events, keys, given_frame, ttl, cuts, clock, steps) -> None:
    functions = functions_of(given_frame)
    kernel = RowtimeOverKernel(ROW, keys, calls_of(functions), given_frame, *CONSTANTS, 1)
    state = MemoryState(pickle.loads(pickle.dumps(kernel)))
    flink = Rowtime(given_frame, functions, keys, ttl)
    now, mark = 1000, -2
    batches: list[list[Event]] = [*split(events, cuts), [], []]
    for n, batch in enumerate(batches):
        now += clock[n % len(clock)]
        before = flink.watermark
        mark = END_OF_TIME if n == len(batches) - 1 else max(mark, mark + steps[n % len(steps)])
        expected = flink.batch(batch, now, max(mark, before))
        out = state.step([frame(batch)], now, [ttl], Watermark(before, max(mark, before)))
        assert sorted(rows_of(out), key=repr) == sorted(expected, key=repr)
        times = [r[1] for r in rows_of(out)]
        assert times == sorted(times), "in the order of their times"
    state.expire(now, [ttl] * len(state.tables))
    assert not state.tables[0], "nothing waits behind the end of time"
    if flink.is_range:
        assert not any(state.tables), "nothing is kept that no frame can reach"


@fewer(0.5)
@given(EVENTS, KEYS, FRAMES, st.sampled_from([0, 10]), CUTS, CLOCK, st.lists(st.integers(0, 6), min_size=1, max_size=8))
def test_event_time_over_sorted_runs(events, keys, given_frame, ttl, cuts, clock, steps) -> None:
    kernel = RowtimeOverKernel(ROW, keys, calls_of(ANY_FRAME), given_frame, *CONSTANTS, 1)
    memory, store = MemoryState(kernel), MemoryRunStore()
    now, mark = 1000, -2
    for n, batch in enumerate([*split(events, cuts), []]):
        now += clock[n % len(clock)]
        before, mark = mark, mark + steps[n % len(steps)]
        runs = KeyedState(store, RunCache(None), kernel.tables, "test")
        mine = memory.step([frame(batch)], now, [ttl], Watermark(before, mark))
        theirs = runs.step(kernel, [frame(batch)], now, ttls([ttl]), Watermark(before, mark))
        assert sorted(rows_of(mine), key=repr) == sorted(rows_of(theirs), key=repr)


NUMBERS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.just(1),
        st.just(None),
        st.one_of(st.none(), st.sampled_from([0.1, 1e16, -1e16, 3.3, -0.0, float("nan"), float("inf")])),
    ),
    max_size=25,
)


@given(NUMBERS, st.sampled_from([None, 0, 2]), CUTS)
def test_floating_point_sums_are_added_and_taken_away_in_order(events, preceding, cuts) -> None:
    call = AggCall(name="x", internal_name="$$SUM0$1", arg_list=(3,), type=DOUBLE.not_null())
    state = MemoryState(ProctimeOverKernel(ROW, (0,), (call,), Frame(True, preceding)))
    sums: dict[str | None, float] = {}
    rows: dict[str | None, list[float | None]] = {}
    for now, batch in enumerate(split(events, cuts)):
        expected = []
        for key, _, _, value in batch:
            kept = rows.setdefault(key, [])
            kept.append(value)
            if preceding is not None and len(kept) > preceding + 1:
                gone = kept.pop(0)
                sums[key] = sums.get(key, 0.0) - (0.0 if gone is None else gone)
            sums[key] = sums.get(key, 0.0) + (0.0 if value is None else value)
            expected.append(sums[key])
        assert repr(state.step([frame(batch)], now, [0])["c4"].to_list()) == repr(expected)


SINGLES = [0.1, 16777216.0, -16777216.0, 1.0, 3.3, 3e38, -0.0, float("nan"), float("inf"), float("-inf")]


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.one_of(st.none(), st.sampled_from(SINGLES))), max_size=60),
    st.sampled_from(["$SUM0", "SUM"]),
    st.sampled_from([None, 0, 2]),
    CUTS,
)
@example([*[("a", 1.0)] * 3, ("b", 0.1), ("a", 16777216.0), *[("a", 1.0)] * 7], "SUM", None, [5])
def test_sums_of_float_are_rounded_after_every_row(events, name, preceding, cuts) -> None:
    row = row_type([("k", STRING), ("f", FLOAT)])
    call = AggCall(name="x", internal_name=f"${name}$1", arg_list=(1,), type=FLOAT)
    state = MemoryState(ProctimeOverKernel(row, (0,), (call,), Frame(True, preceding)))
    zero = np.float32(0)
    sums: dict[str, np.float32] = {}
    rows: dict[str, list[np.float32 | None]] = {}
    schema = {"c0": pl.String(), "c1": pl.Float32()}
    for now, batch in enumerate(split(events, cuts)):
        expected = []
        for key, number in batch:
            value = None if number is None else np.float32(number)
            kept = rows.setdefault(key, [])
            kept.append(value)
            with np.errstate(all="ignore"):
                if preceding is not None and len(kept) > preceding + 1:
                    sums[key] = sums.get(key, zero) - (kept.pop(0) or zero)
                sums[key] = sums.get(key, zero) + (zero if value is None else value)
            some = name == "$SUM0" or any(v is not None for v in kept)
            expected.append(float(sums[key]) if some else None)
        found = state.step([pl.DataFrame(batch, schema=schema, orient="row")], now, [0])
        assert repr(found["c2"].to_list()) == repr(expected)


@given(NUMBERS, st.sampled_from([None, 2]), st.sampled_from(["MIN", "MAX"]), CUTS)
def test_extremes_with_nan(events, preceding, name, cuts) -> None:
    call = AggCall(name="x", internal_name=f"${name}$1", arg_list=(3,), type=DOUBLE)
    state = MemoryState(ProctimeOverKernel(ROW, (0,), (call,), Frame(True, preceding)))
    best: dict[str | None, float] = {}
    rows: dict[str | None, list[float | None]] = {}
    nan = float("nan")
    for now, batch in enumerate(split(events, cuts)):
        expected: list[float | None] = []
        for key, _, _, value in batch:
            rows.setdefault(key, []).append(value)
            if preceding is not None:
                order = sorted(there(rows[key][-preceding - 1 :]), key=lambda v: (v != v, v if v == v else 0))
                expected.append(None if not order else order[0 if name == "MIN" else -1])
                continue
            if value is not None and (key not in best or (value < best[key] if name == "MIN" else value > best[key])):
                best[key] = value
            expected.append(best.get(key))
        got = state.step([frame(batch)], now, [0])["c4"].to_list()
        assert [nan if v is None else v for v in got] == pytest.approx(
            [nan if v is None else v for v in expected], nan_ok=True
        )
        assert [v is None for v in got] == [v is None for v in expected]


def test_a_sum_of_decimals_that_overflows_is_null() -> None:
    wide = parse_type("DECIMAL(38, 0)")
    row = row_type([("k", STRING), ("e", wide)])
    call = AggCall(name="x", internal_name="$$SUM0$1", arg_list=(1,), type=wide.not_null())
    big = pl.Series("c1", [6 * 10**37, 5, 3 * 10**37, 2 * 10**37, 1], dtype=pl.Int128).cast(pl.Decimal(38, 0))
    rows = pl.DataFrame([pl.Series("c0", ["a", "b", "a", "a", "a"]), big])
    state = MemoryState(ProctimeOverKernel(row, (0,), (call,), Frame(True)))
    found = state.step([rows], 0, [0])["c2"].to_list()
    assert [None if v is None else int(v) for v in found] == [6 * 10**37, 5, 9 * 10**37, None, 1]


@pytest.mark.parametrize("kernel", [ProctimeOverKernel, RowtimeOverKernel])
def test_only_insertions_are_taken(kernel: Any) -> None:
    rows = frame([("a", 1, 1, None)]).with_columns(pl.lit(UPDATE_AFTER, dtype=pl.Int8).alias("kind"))
    made = kernel(ROW, (0,), calls_of(ANY_FRAME[:1]), Frame(True))
    with pytest.raises(RunError, match="RUN061"):
        MemoryState(made).step([rows], 1, [0])


def test_functions_that_cannot_be_run() -> None:
    calls = (AggCall(name="x", internal_name="$NTILE$1", arg_list=(2,), type=BIGINT),)
    with pytest.raises(RunError, match="RUN063"):
        ProctimeOverKernel(ROW, (0,), calls, Frame(True))
    back = AggCall(name="x", internal_name="$LAG$1", arg_list=(2, 0), type=INT)
    with pytest.raises(RunError, match="RUN063"):
        ProctimeOverKernel(ROW, (0,), (back,), Frame(True))
