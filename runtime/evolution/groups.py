"""Groups of an aggregate, made of those of another one: by other keys, merged, or some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from stateplan.functions.rex import Rex
from stateplan.runtime.evolution.conversion import Conversion, Converted, with_columns
from stateplan.runtime.kernel import ACCESS_TIME
from stateplan.runtime.kernels.common.accumulators import Changes, Fold
from stateplan.runtime.kernels.common.key_ids import Ints, key_ids
from stateplan.runtime.kernels.group_aggregate import BORN, ROWS, GroupAggregateKernel
from stateplan.runtime.state.runs import WRITTEN
from stateplan.runtime.transforms.calc import CalcTransform


@dataclass(frozen=True)
class Groups(Conversion):
    """The groups, each for the key group of its new key.

    Attributes:
        table: the name of the old table.
        columns: for each new column the old one.
        keys: columns of the new key, in its order.
        filters: conditions on the old columns.
        time_zone: of the session.
    """

    table: str
    columns: Mapping[str, str]
    keys: tuple[str, ...]
    filters: tuple[Rex, ...] = ()
    time_zone: str = "UTC"

    def __call__(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[Converted]:
        rows = tables.get(self.table)
        if rows is not None:
            rows = with_columns(passing(rows, self.filters, self.time_zone), self.columns)
            if rows.height:
                yield Converted(0, rows, self.keys)


def passing(rows: pl.DataFrame, filters: Sequence[Rex], time_zone: str) -> pl.DataFrame:
    """The rows that meet all conditions on their columns."""
    if not filters or not rows.height:
        return rows
    values = CalcTransform(tuple(filters), None, time_zone)(rows, 0)
    meets = np.ones(rows.height, bool)
    for series in values.get_columns():
        meets &= series.fill_null(value=False).to_numpy()
    return rows.filter(pl.Series(meets))


@dataclass(frozen=True)
class MergeGroups:
    """Merges groups with the same key, by the rule that merges partial results of an aggregation in two phases.

    Attributes:
        kernel: of the new operator.
    """

    kernel: GroupAggregateKernel

    def __call__(self, tables: Sequence[pl.DataFrame | None]) -> Sequence[pl.DataFrame | None]:
        rows, *rest = tables
        return [None if rows is None else merged(self.kernel, rows), *rest]


def merged(kernel: GroupAggregateKernel, rows: pl.DataFrame) -> pl.DataFrame:
    """State rows of the table of groups, those with the same key as one: it was last accessed when any of them was."""
    keys = list(kernel.tables[0].lookup)
    ids = key_ids(rows, keys)
    if ids.count == rows.height:
        return rows
    before, changes = kernel.initial_rows(ids.count), Changes(ids.count, ids.codes, None, None)
    columns: list[pl.Series] = list(rows[keys][ids.first].get_columns()) if keys else []
    for function in kernel.accumulators:
        assert isinstance(function, Fold)  # else they are not merged
        parts = pl.DataFrame([s.alias(n) for n, s in zip(function.parts, function.as_partial(rows), strict=True)])
        columns += function.merge(before, parts, changes)
    times = [(ACCESS_TIME, "max"), (WRITTEN, "max"), (ROWS, "sum"), (BORN, "min")]
    columns += [_each(rows[name], ids.codes, ids.count, how) for name, how in times if name in rows.columns]
    return pl.DataFrame(columns)


def _each(values: pl.Series, codes: Ints, groups: int, how: str) -> pl.Series:
    """The sum, or the extreme, of whole numbers of each group."""
    numbers = values.to_numpy()
    if how == "sum":
        out = np.zeros(groups, np.int64)
        np.add.at(out, codes, numbers)
    else:
        limits = np.iinfo(np.int64)
        out = np.full(groups, limits.min if how == "max" else limits.max)
        (np.maximum if how == "max" else np.minimum).at(out, codes, numbers)
    return pl.Series(values.name, out)
