"""What operators make of the rows that are sent to them: state to begin with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import ACCESS_TIME, Kernel
from stateplan.runtime.kernels.common.accumulators import Changes, MergeableFold
from stateplan.runtime.kernels.common.key_ids import Ints, key_ids
from stateplan.runtime.kernels.common.topn import TopN
from stateplan.runtime.kernels.group_aggregate import BORN, ROWS, GroupAggregateKernel
from stateplan.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
from stateplan.runtime.kernels.window_aggregate import DUE, NEXT, WindowAggregateKernel
from stateplan.runtime.state.runs import WRITE_TIME


@dataclass(frozen=True)
class FirstRows:
    """Of each partition of a ranking the first rows, as many as the new one keeps.

    Attributes:
        kernel: the kernel of the new operator.
    """

    kernel: TopN

    def __call__(self, tables: Sequence[pl.DataFrame | None]) -> Sequence[pl.DataFrame | None]:
        return [None if rows is None else self.kernel.within_range(rows) for rows in tables]


@dataclass(frozen=True)
class MergeGroups:
    """Merges groups with the same key, by the rule that merges partial results of an aggregation in two phases.

    Attributes:
        kernel: the kernel of the new operator.
        marks: columns that are the same in these groups.
    """

    kernel: GroupAggregateKernel
    marks: tuple[str, ...] = ()

    @staticmethod
    def of(kernel: GroupAggregateKernel | GlobalGroupAggregateKernel) -> MergeGroups:
        """For an aggregate in one phase or in two."""
        return MergeGroups(group_kernel(kernel))

    @staticmethod
    def of_windows(kernel: WindowAggregateKernel) -> MergeGroups:
        """For the slices of an aggregate of windows."""
        return replace(MergeGroups.of(kernel.inner), marks=(NEXT, DUE))

    def __call__(self, tables: Sequence[pl.DataFrame | None]) -> Sequence[pl.DataFrame | None]:
        rows, *rest = tables
        return [None if rows is None else merge_rows(self.kernel, rows, self.marks), *rest]


def group_kernel(kernel: Kernel) -> GroupAggregateKernel:
    """The kernel of a group aggregate, which keeps the same in one phase and in two."""
    own = kernel.partials.kernel if isinstance(kernel, GlobalGroupAggregateKernel) else kernel
    assert isinstance(own, GroupAggregateKernel)
    return own


def merge_rows(
    kernel: GroupAggregateKernel, rows: pl.DataFrame, marks: Sequence[str] = (), without: Collection[int] = ()
) -> pl.DataFrame:
    """State rows of the table of groups, those with the same key as one: it was last accessed when any of them was.
    They agree in the columns ``marks``. Calls with the numbers ``without`` begin empty."""
    keys = list(kernel.tables[0].lookup)
    ids = key_ids(rows, keys)
    if ids.count == rows.height:
        return rows
    before, changes = kernel.initial_rows(ids.count), Changes(ids.count, ids.codes, None, None)
    columns: list[pl.Series] = list(rows[keys][ids.first].get_columns()) if keys else []
    for number, function in enumerate(kernel.accumulators):
        if number in without:
            columns += before[list(function.columns)].get_columns()
            continue
        assert isinstance(function, MergeableFold)  # else they are not merged
        parts = pl.DataFrame([s.alias(n) for n, s in zip(function.parts, function.as_partial(rows), strict=True)])
        columns += function.merge(before, parts, changes)
    rules = [(ACCESS_TIME, "max"), (WRITE_TIME, "max"), (ROWS, "sum"), (BORN, "min")]
    rules += [(name, "max") for name in marks]
    columns += [_each(rows[name], ids.codes, ids.count, rule) for name, rule in rules if name in rows.columns]
    return pl.DataFrame(columns)


def _each(values: pl.Series, codes: Ints, groups: int, rule: str) -> pl.Series:
    """The sum, or the extreme, of whole numbers of each group."""
    numbers = values.to_numpy()
    if rule == "sum":
        out = np.zeros(groups, np.int64)
        np.add.at(out, codes, numbers)
    else:
        limits = np.iinfo(np.int64)
        out = np.full(groups, limits.min if rule == "max" else limits.max)
        (np.maximum if rule == "max" else np.minimum).at(out, codes, numbers)
    return pl.Series(values.name, out)
