"""What an aggregate call keeps per group, how a batch changes it, and its result: counts, sums, extremes, one value.

Source of the semantics: Flink's ``CountAggFunction``, ``SumAggFunction``,
``SumWithRetractAggFunction``, ``Sum0AggFunction``, ``AvgAggFunction``, ``MinAggFunction``, ``MaxAggFunction``,
``MinWithRetractAggFunction`` and ``SingleValueAggFunction``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar

import numpy as np
import polars as pl

from stateplan.common.errors import DataError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, firsts, nulls, positions, truth

_DECIMAL_LIMIT = 10**38


@dataclass(frozen=True)
class Changes:
    """The values a call sees in a batch: not NULL, past its filter, and for DISTINCT those that come or go.

    Attributes:
        groups: number of groups.
        codes: the group of each value.
        values: the values; None for COUNT(*).
        signs: +1 to accumulate, -1 to retract; None when all accumulate.
        second: the second argument of each value; None for calls with one.
        third: the third argument of each value; None for calls with less.
        now: time of the batch, ms.
        ttl: the TTL of the state, ms; 0 is never.
    """

    groups: int
    codes: Ints
    values: pl.Series | None
    signs: Ints | None
    second: pl.Series | None = None
    third: pl.Series | None = None
    now: int = 0
    ttl: int = 0

    @property
    def column(self) -> pl.Series:
        assert self.values is not None
        return self.values

    def counts(self) -> Ints:
        """Per group, values accumulated less values retracted."""
        if self.signs is None:
            return np.bincount(self.codes, minlength=self.groups)
        out = np.zeros(self.groups, np.int64)
        np.add.at(out, self.codes, self.signs)
        return out


def align(values: pl.Series, rows: Ints) -> pl.Series:
    """``values`` at ``rows``, NULL if a row is -1."""
    if not (rows < 0).any():
        return values[rows]
    return pl.concat([values, nulls(values.name, values.dtype, 1)])[np.where(rows < 0, len(values), rows)]


def best_of_each(codes: Ints, values: pl.Series, groups: int, largest: bool) -> pl.Series:
    """Per group the smallest or largest value, NULL for a group without values; NaN is larger than all."""
    place = np.full(groups, -1, np.int64)
    dtype = values.dtype
    if (dtype.is_integer() and dtype != pl.Int128) or dtype.is_temporal():
        physical = values.to_physical().to_numpy().astype(np.int64, copy=False)
        best = np.full(groups, np.iinfo(np.int64).min if largest else np.iinfo(np.int64).max)
        (np.maximum if largest else np.minimum).at(best, codes, physical)
        hits = np.flatnonzero(best[codes] == physical)
        place[codes[hits]] = hits
        return align(values, place)
    value = pl.col("v")
    largest_value = value.nan_max() if dtype.is_float() else value.max()
    frame = pl.DataFrame([pl.Series("g", codes), values.alias("v")])
    best_rows = frame.group_by("g").agg(largest_value if largest else value.min())
    return align(best_rows["v"], positions(best_rows["g"].to_numpy(), groups))


class Accumulator(ABC):
    """The state of one call.

    Attributes:
        columns: its columns in the state table of the groups.
        initial: their values for a new group.
        sees_nulls: whether NULL is a value to it.
        needs_order: whether the order of values within a batch counts.
        arguments: the most arguments it takes.
    """

    sees_nulls: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False
    arguments: ClassVar[int] = 1
    columns: Mapping[str, pl.DataType]
    initial: Mapping[str, object]

    @abstractmethod
    def value(self, state: pl.DataFrame) -> pl.Series:
        """The call's result per group."""


class Fold(Accumulator):
    """An accumulator that a batch of values changes without a look at the values before."""

    @property
    def parts(self) -> Mapping[str, pl.DataType]:
        """The columns of a partial result."""
        return self.columns

    def partial(self, changes: Changes) -> list[pl.Series]:
        """The partial result of a batch per group: the columns :attr:`parts`."""
        start = [
            pl.Series(n, [self.initial[n]], dtype=t).new_from_index(0, changes.groups) for n, t in self.columns.items()
        ]
        return self.update(pl.DataFrame(start), changes)

    @abstractmethod
    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        """The columns after a batch.

        Args:
            before: the columns before, one row per group.
        """


class MergeableFold(Fold):
    """An accumulator whose partial results can be merged."""

    def as_partial(self, state: pl.DataFrame) -> list[pl.Series]:
        """What is kept per group as a partial result: the columns :attr:`parts`."""
        return [state[n] for n in self.columns]

    @abstractmethod
    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        """The columns after partial results.

        Args:
            before: the columns before, one row per group.
            parts: the columns :attr:`parts` of partial results.
            changes: without values: whose ``codes`` are the groups of the partial results.
        """


class KeepsSecond(ABC):
    """A function that keeps its second argument per group: LISTAGG its separator, PERCENTILE its percentages."""

    @abstractmethod
    def second_of(self, state: pl.DataFrame) -> pl.Series:
        """The second arguments in rows of the state."""


class Count(MergeableFold):
    """COUNT: the number of values."""

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        self._count = f"count{number}"
        self.columns = {self._count: pl.Int64()}
        self.initial = {self._count: 0}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        return [pl.Series(self._count, before[self._count].to_numpy() + changes.counts())]

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        return [add_up(before[self._count], parts[self._count], changes.codes)]

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self._count]


class Total(MergeableFold):
    """SUM, $SUM0 and AVG: the sum and the number of values.

    Whole numbers wrap around in the type of the sum (BIGINT for AVG). Floating-point numbers are added in order of
    arrival. A DECIMAL sum that overflows is NULL; SUM starts over with the next value, AVG stays NULL. (As in Flink.)
    """

    _average = False
    _zero = False

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        assert argument is not None
        self._sum, self._count = f"sum{number}", f"count{number}"
        self._result = result.polars()
        self._dtype = self._sum_type(argument)
        self.columns = {self._sum: self._dtype, self._count: pl.Int64()}
        self.initial = {self._sum: Decimal(0) if isinstance(self._dtype, pl.Decimal) else 0, self._count: 0}

    def _sum_type(self, argument: LogicalType) -> pl.DataType:
        if isinstance(argument.polars(), pl.Decimal):
            return pl.Decimal(38, argument.scale or 0)
        if not self._average:
            return self._result
        return pl.Int64() if argument.is_integer else pl.Float64()

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        count = pl.Series(self._count, before[self._count].to_numpy() + changes.counts())
        old = before[self._sum]
        if len(changes.codes) == 0:
            return [old, count]
        if isinstance(self._dtype, pl.Decimal):
            return [self._decimal(old, changes).alias(self._sum), count]
        with np.errstate(all="ignore"):
            if self._dtype.is_float():
                kind = np.float32 if self._dtype == pl.Float32 else np.float64
                total = old.to_numpy().astype(kind)
                step = changes.column.cast(self._dtype).to_numpy()
            else:
                total = old.cast(pl.Int64).to_numpy().copy()
                step = changes.column.cast(pl.Int64).to_numpy()
            if changes.signs is not None:
                step = step * changes.signs.astype(step.dtype)
            np.add.at(total, changes.codes, step)
        new = pl.Series(self._sum, total)
        return [new if new.dtype == self._dtype else new.cast(self._dtype, wrap_numerical=True), count]

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        rows = np.flatnonzero(parts[self._sum].is_not_null().to_numpy())
        some = replace(changes, codes=changes.codes[rows], values=parts[self._sum][rows])
        return [self.update(before, some)[0], add_up(before[self._count], parts[self._count], changes.codes)]

    def _decimal(self, old: pl.Series, changes: Changes) -> pl.Series:
        scale = self._dtype.scale if isinstance(self._dtype, pl.Decimal) else 0
        step = changes.column.cast(self._dtype)
        limit = float(step.cast(pl.Float64).abs().sum()) + float(old.cast(pl.Float64).abs().max() or 0)  # type: ignore[arg-type] # a number
        if limit * 10.0**scale > 0.99 * _DECIMAL_LIMIT:
            return self._decimal_by_row(old, step, changes, scale)
        if changes.signs is not None:
            step = pl.select(pl.when(pl.Series(changes.signs < 0)).then(-step).otherwise(step)).to_series()
        sums = pl.DataFrame([pl.Series("g", changes.codes), step.alias("v")]).group_by("g").agg(pl.col("v").sum())
        place = positions(sums["g"].to_numpy(), changes.groups)
        total = align(sums["v"], place)
        start = (
            old
            if self._average
            else pl.select(pl.when(pl.Series(place >= 0)).then(old.fill_null(Decimal(0))).otherwise(old)).to_series()
        )
        return (start + total.fill_null(Decimal(0))).cast(self._dtype)

    def _decimal_by_row(self, old: pl.Series, step: pl.Series, changes: Changes, scale: int) -> pl.Series:
        """Value by value, because a sum may overflow on the way."""
        totals: list[int | None] = old.to_physical().to_list()
        signs = [1] * len(step) if changes.signs is None else changes.signs.tolist()
        for group, value, sign in zip(changes.codes.tolist(), step.to_physical().to_list(), signs, strict=True):
            total = totals[group]
            if total is None:
                if self._average:
                    continue
                total = 0
            total += sign * value
            totals[group] = total if abs(total) < _DECIMAL_LIMIT else None
        return unscaled_decimals(pl.Series(totals, dtype=pl.Int128), scale)

    def value(self, state: pl.DataFrame) -> pl.Series:
        total, count = state[self._sum], state[self._count].to_numpy()
        if self._zero:
            return total
        none = count == 0
        if self._average:
            total = self._quotient(total, np.where(none, 1, count))
        return _with_nulls(total, none)

    def _quotient(self, total: pl.Series, count: Ints) -> pl.Series:
        if isinstance(self._dtype, pl.Decimal) and isinstance(self._result, pl.Decimal):
            return _decimal_average(total, count, self._dtype.scale, self._result.scale)
        with np.errstate(all="ignore"):
            if self._dtype.is_float():
                return pl.Series(total.to_numpy() / count).cast(self._result)
            dividend = total.to_numpy()
            quotient = dividend // count
            quotient += (quotient * count != dividend) & ((dividend < 0) != (count < 0))
        return pl.Series(quotient).cast(self._result, wrap_numerical=True)


class TotalOrZero(Total):
    """$SUM0: 0 without values."""

    _zero = True


class Average(Total):
    """AVG: for whole numbers truncated, for DECIMAL rounded half up to six digits behind the point or more."""

    _average = True


class Extreme(MergeableFold):
    """MIN or MAX of what is only accumulated. As in Flink a first value of NaN stays, and a later one is ignored."""

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType, largest: bool) -> None:
        assert argument is not None
        self._best = f"extreme{number}"
        self._largest = largest
        self.columns = {self._best: argument.polars()}
        self.initial = {self._best: None}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        old, codes, values = before[self._best], changes.codes, changes.column
        if changes.signs is not None:
            additions = np.flatnonzero(changes.signs > 0)
            codes, values = codes[additions], values[additions]
        if len(codes) == 0:
            return [old]
        if values.dtype.is_float() and (values.is_nan().any() or old.is_nan().any()):
            return [self._with_nan(old, codes, values, changes.groups)]
        return [better(old, best_of_each(codes, values, changes.groups, self._largest), self._largest)]

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        rows = np.flatnonzero(parts[self._best].is_not_null().to_numpy())
        return self.update(before, replace(changes, codes=changes.codes[rows], values=parts[self._best][rows]))

    def _with_nan(self, old: pl.Series, codes: Ints, values: pl.Series, groups: int) -> pl.Series:
        start = align(values, firsts(codes, groups))
        sticks = pl.Series(truth(old.is_nan()) | (old.is_null().to_numpy() & truth(start.is_nan())))
        numbers = np.flatnonzero(~values.is_nan().to_numpy())
        best = better(old, best_of_each(codes[numbers], values[numbers], groups, self._largest), self._largest)
        return pl.Series(self._best, np.full(groups, np.nan)).cast(best.dtype).zip_with(sticks, best)

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self._best]


class TrackedExtreme(Accumulator):
    """MIN or MAX of what may be retracted: the extreme value, and how many different values there are.

    The values themselves are rows of a table of their own, see :mod:`runtime.kernels.common.values`. As in
    Flink,
    the extreme is looked for anew only when it is retracted: it outlives its own row's TTL as long as its group lives.
    """

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType, largest: bool) -> None:
        assert argument is not None
        self.best, self._size = f"extreme{number}", f"count{number}"
        self.largest = largest
        self.columns = {self.best: argument.polars(), self._size: pl.Int64()}
        self.initial = {self.best: None, self._size: 0}

    def update(self, before: pl.DataFrame, best: pl.Series, growth: Ints) -> list[pl.Series]:
        """The columns after a batch.

        Args:
            before: the columns before, one row per group.
            best: the new extreme per group, NULL if no value is left.
            growth: per group, values that arrived less values that went.
        """
        size = np.where(best.is_null().to_numpy(), 0, before[self._size].to_numpy() + growth)
        return [_with_nulls(best, size <= 0).alias(self.best), pl.Series(self._size, size)]

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self.best]


class SingleValue(Fold):
    """SINGLE_VALUE: the value of a query inside an expression, which may have one row; and the number of rows.

    Within a micro-batch a row may come before the one that it replaces is retracted: only more than one row at its end
    is an error.
    """

    sees_nulls: ClassVar[bool] = True

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        assert argument is not None
        self._value, self._count = f"value{number}", f"count{number}"
        self.columns = {self._value: argument.polars(), self._count: pl.Int64()}
        self.initial = {self._value: None, self._count: 0}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        """Raises DataError DATA320, for more than one row."""
        count = np.maximum(before[self._count].to_numpy() + changes.counts(), 0)
        if (count > 1).any():
            raise DataError("DATA320")
        old = before[self._value]
        live = np.flatnonzero(before[self._count].to_numpy())
        signs = np.ones(len(changes.codes), np.int64) if changes.signs is None else changes.signs
        rows = pl.DataFrame(
            {
                "g": np.concatenate([live, changes.codes]),
                "v": pl.concat([old[live], changes.column.cast(old.dtype)]),
                "n": np.concatenate([np.ones(len(live), np.int64), signs]),
            }
        )
        left = rows.group_by("g", "v").agg(pl.col("n").sum()).filter(pl.col("n") > 0)
        place = positions(left["g"].to_numpy(), changes.groups)
        value = align(left["v"].alias(old.name), np.where(count == 1, place, -1))
        return [value, pl.Series(self._count, count)]

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self._value]


def add_up(old: pl.Series, parts: pl.Series, codes: Ints) -> pl.Series:
    """``old`` plus the whole numbers of its partial results."""
    total = old.to_numpy().copy()
    np.add.at(total, codes, parts.to_numpy())
    return pl.Series(old.name, total)


def better(old: pl.Series, new: pl.Series, largest: bool) -> pl.Series:
    """Pair by pair the better of the two, NULL being worst; ``old`` when they are equal."""
    wins = (new > old) if largest else (new < old)
    wins = wins & wins.is_not_null() | old.is_null()
    return new.zip_with(wins, old).alias(old.name)


def _with_nulls(values: pl.Series, none: Bools) -> pl.Series:
    """``values``, NULL where ``none``."""
    if not none.any():
        return values
    return align(values, np.where(none, -1, np.arange(len(values))))


def unscaled_decimals(values: pl.Series, scale: int) -> pl.Series:
    """DECIMAL(38, scale) of unscaled whole numbers (Int128)."""
    scaled = values.cast(pl.Decimal(38, 0))
    if scale == 0:
        return scaled
    return (scaled * pl.Series([Decimal((0, (1,), -scale))], dtype=pl.Decimal(38, scale))).cast(pl.Decimal(38, scale))


def _decimal_average(total: pl.Series, count: Ints, scale: int, result_scale: int) -> pl.Series:
    """The quotient rounded half up to ``result_scale`` digits; NULL if it has more than 38 digits."""
    shift = result_scale - scale
    sums, number = total.to_physical(), pl.Series(count).cast(pl.Int128)
    ten = pl.Series([10**shift], dtype=pl.Int128)
    size, parts = sums.abs(), number.abs()
    quotients, rest = size // parts, (size % parts) * ten
    fraction, left = rest // parts, rest % parts
    fraction = fraction + (left + left >= parts).cast(pl.Int128)
    fits = quotients < pl.Series([_DECIMAL_LIMIT // 10**shift], dtype=pl.Int128)
    quotient = quotients.zip_with(fits, nulls("", pl.Int128(), len(quotients))) * ten + fraction
    negative = (sums < 0) != (number < 0)
    return unscaled_decimals((quotient * pl.Series([-1], dtype=pl.Int128)).zip_with(negative, quotient), result_scale)
