"""Aggregates over the frames of OVER windows: one value per row.

Source of the semantics: the functions that Flink's OVER operators call ``accumulate``, ``retract`` and ``getValue`` of
row by row; ``LagAggFunction``, ``RowNumberAggFunction``, ``RankLikeAggFunctionBase``, and those of
:mod:`runtime.kernels.common.accumulators`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.specs import AggCall
from stateplan.functions.user import UserFunction
from stateplan.functions.values import column_of, plain_value, vector_columns
from stateplan.runtime.kernels.common.accumulators import Changes, Fold, Total, TotalOrZero, align
from stateplan.runtime.kernels.common.functions import accumulator
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, positions, ranks, within
from stateplan.runtime.kernels.common.over_frames import Walk

Floats = npt.NDArray[np.float32]

_DECIMAL_ROOM = 0.99 * 10**38


@dataclass(frozen=True)
class FrameRows:
    """The rows of a walk, as one aggregate call reads them.

    Attributes:
        walk: the rows.
        values: its argument, per row; None for a call without arguments.
        live: which operations add a value to it or retract one from it.
        rows: which rows have a value for it. A NULL is a value only if the call :attr:`~RunningValue.sees_nulls`.
        second: its second argument, per row.
        third: its third argument, per row.
    """

    walk: Walk
    values: pl.Series | None
    live: Bools
    rows: Bools
    second: pl.Series | None = None
    third: pl.Series | None = None

    @property
    def column(self) -> pl.Series:
        assert self.values is not None
        return self.values


class RunningValue(ABC):
    """An aggregate call of OVER: it has a value for each row, of the rows in the frame of this row.

    Attributes:
        columns: the columns of state that it keeps for each partition between micro-batches.
        initial: the values of these columns for a new partition.
        sees_nulls: whether it counts NULL as a value; else it ignores rows whose argument is NULL.
    """

    columns: Mapping[str, pl.DataType]
    initial: Mapping[str, object]
    sees_nulls: bool = False

    @abstractmethod
    def run(self, before: pl.DataFrame, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        """The value of each output row, and the columns of state after the micro-batch.

        Args:
            before: the columns of state before the micro-batch, one row per partition.
        """


class RunningFold(RunningValue):
    """Any aggregate function. It proceeds row by row, in all partitions at once."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.columns, self.initial = fold.columns, fold.initial
        self.sees_nulls = fold.sees_nulls

    def run(self, before: pl.DataFrame, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        walk = frame_rows.walk
        stops, stop_numbers = np.unique(walk.outputs, return_inverse=True)
        owners = walk.codes[stops]
        turns = ranks(owners)
        places = np.flatnonzero(frame_rows.live)
        stop_of = np.searchsorted(stops, places)
        turn_of = turns[stop_of]
        by_turn = np.argsort(turn_of, kind="stable")
        cuts = np.searchsorted(turn_of[by_turn], np.arange(turns.max(initial=-1) + 2))
        state, names = before, list(self.columns)
        parts = np.arange(walk.parts)
        values: list[pl.Series] = []
        order: list[Ints] = []
        finals: list[pl.DataFrame] = []
        final_parts: list[Ints] = []
        stop_turns = np.argsort(turns, kind="stable")
        stop_cuts = np.searchsorted(turns[stop_turns], np.arange(len(cuts)))
        for turn in range(len(cuts) - 1):
            now = stop_turns[stop_cuts[turn] : stop_cuts[turn + 1]]
            goes_on = np.isin(parts, owners[now])
            finals.append(state[np.flatnonzero(~goes_on)])
            final_parts.append(parts[~goes_on])
            state, parts = state[np.flatnonzero(goes_on)], parts[goes_on]
            number = positions(parts, walk.parts)
            mine = places[by_turn[cuts[turn] : cuts[turn + 1]]]
            new = self.fold.update(state, self._changes(frame_rows, mine, number[walk.codes[mine]], len(parts)))
            state = pl.DataFrame([s.alias(n) for s, n in zip(new, names, strict=True)])
            values.append(self.fold.value(state))
            order.append(now[np.argsort(number[owners[now]])])
        finals.append(state)
        final_parts.append(parts)
        after = pl.concat(finals)[np.argsort(np.concatenate(final_parts))]
        results = pl.concat(values)[np.argsort(np.concatenate(order))]
        return results[stop_numbers], [after[n] for n in names]

    @staticmethod
    def _changes(frame_rows: FrameRows, operations: Ints, codes: Ints, groups: int) -> Changes:
        rows, signs = frame_rows.walk.rows[operations], frame_rows.walk.signs[operations]
        values = None if frame_rows.values is None else frame_rows.values[rows]
        second = None if frame_rows.second is None else frame_rows.second[rows]
        third = None if frame_rows.third is None else frame_rows.third[rows]
        return Changes(groups, codes, values, signs if (signs < 0).any() else None, second, third)


class RunningCount(RunningValue):
    """COUNT and ROW_NUMBER: the number of values.

    On a stream, RANK and DENSE_RANK are the same: Flink's functions do not know the order there, so to them no two rows
    are of equal order.
    """

    def __init__(self, number: int) -> None:
        self._count = f"count{number}"
        self.columns = {self._count: pl.Int64()}
        self.initial = {self._count: 0}

    def run(self, before: pl.DataFrame, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        walk = frame_rows.walk
        level = _sums_of_steps(walk, np.where(frame_rows.live, walk.signs, 0), before[self._count].to_numpy())
        return pl.Series(level[walk.outputs]), [pl.Series(self._count, level[walk.ends])]


class RunningSum(RunningValue):
    """SUM and $SUM0: the sum, and the number of values. Floating-point numbers are added and removed in order."""

    def __init__(self, number: int, argument: LogicalType, result: LogicalType, zero: bool) -> None:
        self._slow = RunningFold((TotalOrZero if zero else Total)(number, argument, result))
        self._zero = zero
        self.columns, self.initial = self._slow.columns, self._slow.initial
        self._sum, self._count = self.columns
        self._dtype = self.columns[self._sum]

    def run(self, before: pl.DataFrame, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        walk = frame_rows.walk
        start = before[self._sum]
        steps = frame_rows.column.cast(self._dtype)[walk.rows]
        signs = np.where(frame_rows.live, walk.signs, 0)
        if isinstance(self._dtype, pl.Decimal):
            size = float(steps.cast(pl.Float64).abs().sum()) + float(start.cast(pl.Float64).abs().max() or 0)  # type: ignore[arg-type] # a number
            if start.null_count() or size * 10.0**self._dtype.scale > _DECIMAL_ROOM:
                return self._slow.run(before, frame_rows)
            level = self._decimals(walk, steps, signs, start)
        elif self._dtype.is_float():
            level = self._floats(walk, steps, signs, start)
        else:
            increments = steps.cast(pl.Int64).fill_null(0).to_numpy() * signs
            total = pl.Series(_sums_of_steps(walk, increments, start.cast(pl.Int64).to_numpy()))
            level = total.cast(self._dtype, wrap_numerical=True) if total.dtype != self._dtype else total
        count = _sums_of_steps(walk, signs, before[self._count].to_numpy())
        value = level[walk.outputs]
        if not self._zero:
            value = align(value, np.where(count[walk.outputs] == 0, -1, np.arange(len(value))))
        return value, [level[walk.ends].alias(self._sum), pl.Series(self._count, count[walk.ends])]

    def _floats(self, walk: Walk, steps: pl.Series, signs: Ints, start: pl.Series) -> pl.Series:
        # Nothing is added as -0.0, which changes no sum.
        increments = pl.select(
            pl.when(pl.Series(signs > 0)).then(steps).when(pl.Series(signs < 0)).then(-steps).otherwise(-0.0)
        ).to_series()
        return self._running_total(walk, increments.cast(self._dtype), start)

    def _decimals(self, walk: Walk, steps: pl.Series, signs: Ints, start: pl.Series) -> pl.Series:
        nothing = pl.lit(Decimal(0), dtype=self._dtype)
        increments = pl.select(
            pl.when(pl.Series(signs > 0)).then(steps).when(pl.Series(signs < 0)).then(-steps).otherwise(nothing)
        ).to_series()
        return self._running_total(walk, increments.cast(self._dtype), start)

    def _running_total(self, walk: Walk, increments: pl.Series, start: pl.Series) -> pl.Series:
        increments = pl.concat([increments, start.cast(increments.dtype).alias(increments.name)])
        place = np.arange(len(walk.rows))
        place[walk.begins] = len(walk.rows) + np.arange(walk.parts)
        if increments.dtype == pl.Float32:  # Polars adds these up in double precision
            return pl.Series(_sums_in_order(increments[place].to_numpy(), walk.begins))
        table = pl.DataFrame([increments[place].alias("v"), pl.Series("g", walk.codes)])
        return table.select(pl.col("v").cum_sum().over("g").cast(self._dtype)).to_series()


class RunningExtreme(RunningValue):
    """MIN or MAX of a bounded frame, from its rows, or of an unbounded frame, from all rows so far.

    NaN is larger than all in a bounded frame; else a first value of NaN stays, and a later one is ignored, as in Flink.
    """

    def __init__(self, number: int, argument: LogicalType, largest: bool, is_bounded: bool) -> None:
        self._best, self._largest, self._dtype = f"extreme{number}", largest, argument.polars()
        self.columns = {} if is_bounded else {self._best: self._dtype}
        self.initial = {} if is_bounded else {self._best: None}

    def run(self, before: pl.DataFrame, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        if frame_rows.walk.bounded:
            return self._of_frames(frame_rows), []
        return self._of_all(before[self._best], frame_rows)

    def _value_ranks(self, values: pl.Series) -> tuple[Ints, Ints]:
        """(rank per value, value per rank); better values have smaller ranks."""
        order = values.arg_sort(descending=self._largest, nulls_last=True).to_numpy().astype(np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank, order

    def _of_frames(self, frame_rows: FrameRows) -> pl.Series:
        walk = frame_rows.walk
        rank, order = self._value_ranks(frame_rows.column)
        nothing = len(rank)
        levels = [np.where(frame_rows.rows, rank, nothing)]
        sizes = walk.highs - walk.lows
        while 2 ** len(levels) <= sizes.max(initial=0):
            half, below = 2 ** (len(levels) - 1), levels[-1]
            levels.append(np.minimum(below[: len(below) - half], below[half:]))
        power = np.zeros(len(sizes), np.int64)
        for k in range(1, len(levels)):
            power += sizes >= 2**k
        best = np.full(len(sizes), nothing)
        for k, level in enumerate(levels):
            rows = np.flatnonzero(power == k)
            best[rows] = np.minimum(level[walk.lows[rows]], level[walk.highs[rows] - 2**k])
        return align(frame_rows.column, np.append(order, -1)[best])

    def _of_all(self, start: pl.Series, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        walk = frame_rows.walk
        values = pl.concat([start.alias("v"), frame_rows.column.alias("v")])
        rank, order = self._value_ranks(values)
        nothing = len(rank)
        has_start = start.is_not_null().to_numpy()
        steps = np.where(frame_rows.live, rank[walk.parts + walk.rows], nothing)
        steps[walk.begins] = np.where(has_start, rank[: walk.parts], nothing)
        odd = values.is_nan().fill_null(False).to_numpy() if self._dtype.is_float() else np.zeros(len(values), bool)
        if odd.any():
            steps = np.where(np.append(odd[order], False)[steps], nothing, steps)
        shift = walk.codes * (nothing + 1)
        best = np.minimum.accumulate(steps - shift) + shift
        place = np.append(order, -1)[best]
        if odd.any():
            sticks = self._sticking(walk, frame_rows.live, odd, has_start)
            place = np.where(sticks >= 0, sticks, place)
        level = align(values, place)
        return level[walk.outputs], [level[walk.ends].alias(self._best)]

    @staticmethod
    def _sticking(walk: Walk, live: Bools, odd: Bools, has_start: Bools) -> Ints:
        """Per operation the place of the NaN that was the first value of its partition; -1 for none."""
        place = np.where(live, walk.parts + walk.rows, -1)
        place[walk.begins] = np.where(has_start, np.arange(walk.parts), -1)
        some = np.flatnonzero(place >= 0)
        first = np.full(walk.parts, -1, np.int64)
        first[walk.codes[some][::-1]] = some[::-1]
        is_odd = (first >= 0) & odd[place[first]]
        mine = first[walk.codes]
        return np.where(is_odd[walk.codes] & (np.arange(len(place)) >= mine), place[mine], -1)


class RunningEdge(RunningValue):
    """FIRST_VALUE or LAST_VALUE: the first or last value that is not NULL."""

    def __init__(self, number: int, argument: LogicalType, last: bool, is_bounded: bool) -> None:
        self._value, self._last = f"value{number}", last
        self.columns = {} if is_bounded else {self._value: argument.polars()}
        self.initial = {} if is_bounded else {self._value: None}

    def run(self, before: pl.DataFrame, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        walk = frame_rows.walk
        if walk.bounded:
            return align(frame_rows.column, self._of_frames(frame_rows)), []
        start = before[self._value]
        values = pl.concat([start.alias("v"), frame_rows.column.alias("v")])
        place = np.where(frame_rows.live, walk.parts + walk.rows, -1)
        place[walk.begins] = np.where(start.is_not_null().to_numpy(), np.arange(walk.parts), -1)
        operations = np.arange(len(place))
        if self._last:
            last_live = np.where(place >= 0, operations, 0)
            last_live[walk.begins] = walk.begins
            place = place[np.maximum.accumulate(last_live)]
        else:
            some = np.flatnonzero(place >= 0)
            first = np.full(walk.parts, len(place), np.int64)
            first[walk.codes[some][::-1]] = some[::-1]
            mine = first[walk.codes]
            place = np.where(operations >= mine, np.append(place, -1)[mine], -1)
        level = align(values, place)
        return level[walk.outputs], [level[walk.ends].alias(self._value)]

    def _of_frames(self, frame_rows: FrameRows) -> Ints:
        walk = frame_rows.walk
        live = np.flatnonzero(frame_rows.rows)
        if self._last:
            places = np.append(live, -1)[np.searchsorted(live, walk.highs) - 1]
            return np.where(places >= walk.lows, places, -1)
        places = np.append(live, np.iinfo(np.int64).max)[np.searchsorted(live, walk.lows)]
        return np.where(places < walk.highs, places, -1)


class RunningLag(RunningValue):
    """LAG: the value a number of rows before the last row of the frame, NULLs among them, or a default.

    Keeps the last values of the partition.
    """

    sees_nulls = True

    def __init__(self, number: int, argument: LogicalType, result: LogicalType, offset: int) -> None:
        self._list, self._offset, self._result = f"values{number}", offset, result.polars()
        self._dtype = argument.polars()
        self.columns = {self._list: pl.List(self._dtype)}
        self.initial = {self._list: []}

    def run(self, before: pl.DataFrame, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        walk, offset = frame_rows.walk, self._offset
        stored_lists = before[self._list]
        lengths = stored_lists.list.len().fill_null(0).to_numpy().astype(np.int64)
        old = stored_lists.filter(pl.Series(lengths > 0)).explode()
        values = pl.concat([old.alias("v"), frame_rows.column.alias("v")])
        count = np.bincount(walk.owners, minlength=walk.parts)
        # The values of each partition in order, the old ones first.
        owners = np.concatenate([np.repeat(np.arange(walk.parts), lengths), walk.owners])
        order = np.argsort(owners, kind="stable")
        begins = np.cumsum(lengths + count) - lengths - count
        rows = np.searchsorted(walk.owners, np.arange(walk.parts))
        owner = walk.owners[walk.output_rows]
        back = lengths[owner] + (walk.highs - 1 - rows[owner]) - offset
        place = np.where(back >= 0, order[np.maximum(begins[owner] + back, 0)], -1)
        results = align(values, place).cast(self._result)
        if frame_rows.third is not None:
            default = frame_rows.third[walk.highs - 1].cast(self._result)
            results = results.zip_with(pl.Series(place >= 0), default)
        size = np.minimum(lengths + count, offset)
        tails = order[np.repeat(begins + lengths + count - size, size) + within(size)]
        after = (
            pl.DataFrame([pl.Series("g", np.repeat(np.arange(walk.parts), size)), values[tails].alias("v")])
            .group_by("g", maintain_order=True)
            .agg(pl.col("v"))
        )
        lists = align(after["v"], positions(after["g"].to_numpy(), walk.parts)).cast(pl.List(self._dtype))
        return results, [lists.fill_null(pl.Series([[]], dtype=lists.dtype)).alias(self._list)]


class RunningUserFunction(RunningValue):
    """A user-defined function on pandas or Arrow, over frames with a bound: called once per frame with the columns of
    its rows, NULLs among them.

    Source: the ``StreamArrowPython...Operator`` classes of PyFlink. A function that is callable gives the value itself.
    """

    sees_nulls = True
    columns: Mapping[str, pl.DataType] = {}
    initial: Mapping[str, object] = {}

    def __init__(self, function: UserFunction, types: Sequence[LogicalType], result: LogicalType) -> None:
        self._function, self._types, self._result = function, types, result

    def run(self, before: pl.DataFrame, frame_rows: FrameRows) -> tuple[pl.Series, list[pl.Series]]:
        columns = [] if frame_rows.values is None else [frame_rows.values]
        if len(self._types) > 1:
            columns = frame_rows.column.struct.unnest().get_columns()
        frames = list(zip(frame_rows.walk.lows.tolist(), frame_rows.walk.highs.tolist(), strict=True))
        # Rows of one time have one frame.
        values_by_frame = {f: self._value([c[f[0] : f[1]] for c in columns]) for f in dict.fromkeys(frames)}
        return column_of([values_by_frame[f] for f in frames], self._result, self._function), []

    def _value(self, columns: Sequence[pl.Series]) -> Any:
        function, arguments = self._function, vector_columns(self._function, columns, self._types)
        if not hasattr(function.instance(), "accumulate"):
            return plain_value(function.call(function.caller(), arguments), self._result)
        accumulator = function.fresh_accumulator()
        new_accumulator = function.call(function.method("accumulate"), (accumulator, *arguments))
        accumulator = accumulator if new_accumulator is None else new_accumulator
        return plain_value(function.call(function.method("get_value"), (accumulator,)), self._result)


def _sums_in_order(values: Floats, begins: Ints) -> Floats:
    """Per value the sum of its segment so far, each step of it rounded to the type of the values.

    Args:
        values: the segments, one after another.
        begins: where each begins, the first at 0; none is empty.
    """
    lengths = np.diff(begins, append=len(values))
    sums = np.empty_like(values)
    # The sums of segments of similar lengths are one call of NumPy.
    magnitudes = np.frexp(lengths)[1]
    for magnitude in np.unique(magnitudes):
        mine = magnitudes == magnitude
        starts, sizes = begins[mine], lengths[mine]
        across = np.arange(sizes.max())
        # Places behind a short segment repeat its last value, and no sum of them is read.
        cells = starts[:, None] + np.minimum(across, sizes[:, None] - 1)
        inside = across < sizes[:, None]
        with np.errstate(all="ignore"):
            sums[cells[inside]] = np.cumsum(values[cells], axis=1)[inside]
    return sums


def _sums_of_steps(walk: Walk, steps: Ints, start: Ints) -> Ints:
    """Per operation the sum of ``steps`` so far, each partition from ``start`` on; wraps around."""
    steps = steps.copy()
    steps[walk.begins] = start
    with np.errstate(over="ignore"):
        total = np.cumsum(steps)
        return total - (total[walk.begins] - start)[walk.codes]


def running_value(
    number: int, call: AggCall, arguments: Sequence[LogicalType], constants: Mapping[str, Any], is_bounded: bool
) -> RunningValue:
    """How call ``number`` is kept.

    Args:
        arguments: types of its arguments.
        constants: the values of the arguments that are constants, by column.
        is_bounded: whether rows leave its frames.

    Raises:
        RunError: RUN063, for a function that cannot be run over frames.
    """
    name = call.function
    if call.user_function is None:
        if name == "COUNT" and len(arguments) < 2:
            return RunningCount(number)
        if name in ("ROW_NUMBER", "RANK", "DENSE_RANK") and not arguments and not is_bounded:
            return RunningCount(number)
        if name == "LAG" and arguments and not is_bounded:
            return RunningLag(number, arguments[0], call.type, _offset(call, constants))
        if len(arguments) == 1:
            if name in ("SUM", "$SUM0"):
                return RunningSum(number, arguments[0], call.type, name == "$SUM0")
            if name in ("MIN", "MAX"):
                return RunningExtreme(number, arguments[0], name == "MAX", is_bounded)
            if name in ("FIRST_VALUE", "LAST_VALUE"):
                return RunningEdge(number, arguments[0], name == "LAST_VALUE", is_bounded)
    elif is_bounded and call.user_function.vector != "general":
        return RunningUserFunction(call.user_function, arguments, call.type)
    fold = accumulator(number, call, arguments, is_bounded)
    assert isinstance(fold, Fold)
    return RunningFold(fold)


def _offset(call: AggCall, constants: Mapping[str, Any]) -> int:
    """How many rows a LAG goes back."""
    if len(call.arg_list) < 2:
        return 1
    value = constants.get(column(call.arg_list[1]))
    if not isinstance(value, int) or value < 0:
        raise RunError(
            "RUN063",
            what=f"LAG by {'an offset that is not a constant' if value is None else value}",
            expected="a number of rows from 0 on",
        )
    return value
