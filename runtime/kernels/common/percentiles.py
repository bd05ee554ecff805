"""PERCENTILE: exact percentiles of the values of a group.

Source of the semantics: Flink's ``PercentileAggFunction``.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.errors import DataError
from stateplan.common.types import LogicalType
from stateplan.runtime.kernels.common.accumulators import Changes, KeepsSecond, MergeableFold, align
from stateplan.runtime.kernels.common.key_ids import Ints, firsts, positions
from stateplan.runtime.kernels.common.lists import VALUE, WRITE_TIME, explode_lists, live_entries, pack_lists
from stateplan.runtime.kernels.common.over_frames import first_after

Floats = npt.NDArray[np.float64]

_COUNT = "n"
_PERCENTAGES = pl.List(pl.Float64())


class Percentiles(MergeableFold, KeepsSecond):
    """The values as DOUBLE, each with the number of its rows, in their order, and the percentages of the first row.

    A percentile is that of the values written out one by one: at ``p * (n - 1)`` between the first and the last, and
    between two of them linearly. NULL values, and frequencies that are NULL or not positive, count for nothing. Without
    values it is NULL. In the order of values, as in Java's, ``-0.0`` is before ``0.0``, and NaN is last.
    """

    sees_nulls: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    arguments: ClassVar[int] = 3

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        self._values, self._percentages = f"values{number}", f"percentages{number}"
        self._single = result.root != "ARRAY"
        fields = pl.Struct({VALUE: pl.Float64(), _COUNT: pl.Int64(), WRITE_TIME: pl.Int64()})
        self.columns = {self._values: pl.List(fields), self._percentages: _PERCENTAGES}
        self.initial = {self._values: None, self._percentages: None}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        if not len(changes.codes):
            return [before[n] for n in self.columns]
        steps = np.ones(len(changes.codes), np.int64) if changes.signs is None else changes.signs
        percentages = self._first(before[self._percentages], changes, steps)
        counts = pl.Series(np.ones(len(steps), np.int64))
        if changes.third is not None:
            counts = changes.third.cast(pl.Int64).fill_null(0).clip(lower_bound=0)
        rows = np.flatnonzero(changes.column.is_not_null().to_numpy() & (counts > 0).to_numpy())
        values = changes.column[rows].cast(pl.Float64).to_numpy()
        return [
            self._value_counts(
                before[self._values], changes.codes[rows], values, (counts.to_numpy() * steps)[rows], changes
            ),
            percentages,
        ]

    def _first(self, old_percentages: pl.Series, changes: Changes, steps: Ints) -> pl.Series:
        """The percentages of each group: those of the first row that came to it.

        Raises:
            DataError: DATA303, for one that is not between 0 and 1.
        """
        second = changes.second
        assert second is not None
        is_null = old_percentages.is_null().to_numpy()
        if not is_null.any():
            return old_percentages
        came = np.flatnonzero((steps > 0) & is_null[changes.codes])
        place = firsts(changes.codes[came], changes.groups)
        first_rows = np.where(place >= 0, came[place], -1) if len(came) else place
        if not isinstance(second.dtype, pl.List):
            second = second.cast(pl.Float64).reshape((-1, 1)).arr.to_list()
        percentages = align(second.cast(_PERCENTAGES), first_rows)
        numbers = percentages.drop_nulls().explode().drop_nulls()
        wrong = numbers.filter((numbers < 0) | (numbers.is_not_nan() & (numbers > 1)))
        if len(wrong):
            raise DataError("DATA303", value=wrong[0])
        return percentages.zip_with(pl.Series(is_null), old_percentages).alias(old_percentages.name)

    def _value_counts(self, old: pl.Series, codes: Ints, values: Floats, steps: Ints, changes: Changes) -> pl.Series:
        """The lists of values after ``steps`` rows more of each of ``values``."""
        if not len(codes):
            return old
        owners, frame = explode_lists(old)
        owners, frame = live_entries(owners, frame, changes.now, changes.ttl)
        write_times = np.full(len(codes), changes.now, np.int64)
        if frame.height:
            codes = np.concatenate([owners, codes])
            values = np.concatenate([frame[VALUE].to_numpy(), values])
            steps = np.concatenate([frame[_COUNT].to_numpy(), steps])
            write_times = np.concatenate([frame[WRITE_TIME].to_numpy(), write_times])
        ranks = _in_order(values)
        order = np.lexsort((ranks, codes))
        codes, ranks = codes[order], ranks[order]
        begins = np.flatnonzero(np.r_[True, (np.diff(codes) != 0) | (np.diff(ranks) != 0)])
        counts = np.add.reduceat(steps[order], begins)
        latest = np.maximum.reduceat(write_times[order], begins)
        remaining = np.flatnonzero(counts != 0)
        places = begins[remaining]
        rows = pl.DataFrame(
            {VALUE: values[order[places]], _COUNT: counts[remaining], WRITE_TIME: latest[remaining]},
            schema={VALUE: pl.Float64, _COUNT: pl.Int64, WRITE_TIME: pl.Int64},
        )
        return pack_lists(codes[places], rows, changes.groups, old.name, old.dtype)

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        owners, frame = explode_lists(parts[self._values])
        percentages = before[self._percentages]
        has_percentages = np.flatnonzero(parts[self._percentages].is_not_null().to_numpy())
        if len(has_percentages):
            place = firsts(changes.codes[has_percentages], changes.groups)
            part_percentages = align(parts[self._percentages][has_percentages], place)
            percentages = percentages.zip_with(percentages.is_not_null(), part_percentages).alias(percentages.name)
        if not len(owners):
            return [before[self._values], percentages]
        values, steps = frame[VALUE].to_numpy(), frame[_COUNT].to_numpy()
        return [self._value_counts(before[self._values], changes.codes[owners], values, steps, changes), percentages]

    def second_of(self, state: pl.DataFrame) -> pl.Series:
        return state[self._percentages].list.first() if self._single else state[self._percentages]

    def value(self, state: pl.DataFrame) -> pl.Series:
        owners, frame = explode_lists(state[self._values])
        percentages = state[self._percentages]
        lengths = percentages.list.len().fill_null(0).cast(pl.Int64).to_numpy()
        value_counts = pl.DataFrame([pl.Series("g", owners), frame[_COUNT]]) if len(owners) else _NOTHING
        sums = value_counts.group_by("g").agg(pl.col(_COUNT).sum())
        totals = np.zeros(state.height, np.int64)
        totals[sums["g"].to_numpy()] = sums[_COUNT].to_numpy()
        has_result = (totals > 0) & percentages.is_not_null().to_numpy()
        rows = np.repeat(np.arange(state.height), lengths)
        fractions = percentages.filter(pl.Series(lengths > 0)).explode().cast(pl.Float64).to_numpy()
        mine = np.flatnonzero(has_result[rows])
        results = np.full(len(rows), np.nan)
        if len(mine):
            results[mine] = _interpolate(value_counts, frame[VALUE].to_numpy(), totals, rows[mine], fractions[mine])
        lists = pl.DataFrame([pl.Series("g", rows), pl.Series("v", results)]).group_by("g", maintain_order=True)
        result_lists = lists.agg(pl.col("v"))
        out = align(result_lists["v"], positions(result_lists["g"].to_numpy(), state.height))
        empty = has_result & (lengths == 0)
        if empty.any():
            out = pl.Series([[]], dtype=_PERCENTAGES).new_from_index(0, len(out)).zip_with(pl.Series(empty), out)
        out = pl.select(pl.when(pl.Series(has_result)).then(out)).to_series()
        return out.list.first() if self._single else out


_NOTHING = pl.DataFrame(schema={"g": pl.Int64, _COUNT: pl.Int64})


def _in_order(values: Floats) -> Ints:
    """Whole numbers in the order of ``Double.compare``; all NaN are one."""
    bits: Ints = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)


def _interpolate(value_counts: pl.DataFrame, values: Floats, totals: Ints, groups: Ints, fractions: Floats) -> Floats:
    """The percentiles asked for.

    Args:
        value_counts: the group ``g`` and the number of rows of each value, both sorted.
        values: the values.
        totals: rows per group.
        groups, fractions: per question its group and percentage.
    """
    so_far = value_counts.select(sum=pl.col(_COUNT).cum_sum().over("g"), g=pl.col("g"))
    # A value that was retracted more often than it arrived has less than no rows, as in Flink.
    running_counts = so_far.select(pl.col("sum").cum_max().over("g"))["sum"].to_numpy()
    level = so_far["sum"].to_numpy()
    at = fractions * (totals[groups] - 1) + 1.0
    low, high = np.floor(np.nan_to_num(at)).astype(np.int64), np.ceil(np.nan_to_num(at)).astype(np.int64)
    first = first_after(value_counts["g"].to_numpy(), running_counts, groups, low - 1)
    on_value = level[first] >= high
    after = values[np.minimum(first + 1, len(values) - 1)]
    with np.errstate(all="ignore"):
        between = (high - at) * values[first] + (at - low) * after
    return np.where(on_value, values[first], between)
