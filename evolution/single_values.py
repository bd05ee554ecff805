"""What aggregate calls keep, computed from the single values of their groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.evolution.gathers import group_kernel, merge_rows
from stateplan.runtime.kernel import ACCESS_TIME, Kernel, StateTable
from stateplan.runtime.kernels.common.accumulators import Changes, Fold, TrackedExtreme, best_of_each
from stateplan.runtime.kernels.common.functions import is_distinct
from stateplan.runtime.kernels.common.key_ids import ids_of, key_ids, positions
from stateplan.runtime.kernels.common.values import VALUE
from stateplan.runtime.kernels.group_aggregate import BORN, GroupAggregateKernel


@dataclass(frozen=True)
class CallFromValues:
    """What a call keeps, from a table of values.

    Attributes:
        kernel: the kernel of the new operator.
        call: the number of the call.
        table: the name of the table.
        keys: columns of the group key, in the table of groups and in that of values.
        count: the column with the number of rows of each value, or whether there are any; None for a row of each.
    """

    kernel: GroupAggregateKernel
    call: int
    table: str
    keys: tuple[str, ...]
    count: str | None

    @property
    def names(self) -> Sequence[str]:
        """The columns of the call."""
        return list(self.kernel.accumulators[self.call].columns)

    def __call__(self, groups: pl.DataFrame, values: pl.DataFrame | None) -> list[pl.Series]:
        """The columns of the call, a row for each group. ``values`` is None for an empty table."""
        function, start = self.kernel.accumulators[self.call], self.kernel.initial_rows(groups.height)
        if values is None or not groups.height:
            return list(start[self.names].get_columns())
        ids, (group_codes, value_codes) = ids_of((groups, values), self.keys)
        codes = positions(group_codes, ids.count)[value_codes]
        counts = np.ones(values.height, np.int64)
        if self.count is not None:
            counts = values[self.count].cast(pl.Int64).to_numpy()
        remaining = (codes >= 0) & values[VALUE].is_not_null().to_numpy() & (counts != 0)
        if BORN in groups.columns:  # what is older is of a group that was deleted
            born = groups[BORN].to_numpy()
            remaining[remaining] &= values[ACCESS_TIME].to_numpy()[remaining] >= born[codes[remaining]]
        if isinstance(function, TrackedExtreme) or is_distinct(self.kernel.agg_calls[self.call]):
            remaining &= counts > 0
            counts = np.ones(values.height, np.int64)
        rows = np.flatnonzero(remaining)
        codes, counts, column = codes[rows], counts[rows], values[VALUE][rows]
        if isinstance(function, TrackedExtreme):
            best = best_of_each(codes, column, groups.height, function.largest)
            return function.update(start, best, np.bincount(codes, minlength=groups.height))
        assert isinstance(function, Fold)  # else it does not follow from values
        if column.dtype.is_decimal():  # whose sums have no weights
            each = np.repeat(np.arange(len(rows)), np.abs(counts))
            codes, counts, column = codes[each], np.sign(counts)[each], column[each]
        return function.update(start, Changes(groups.height, codes, column, counts))


@dataclass(frozen=True)
class MergeValues:
    """Merges groups with the same key, and their single values.

    Attributes:
        kernel: the kernel of the new operator.
    """

    kernel: GroupAggregateKernel

    @staticmethod
    def of(kernel: Kernel) -> MergeValues:
        """For an aggregate in one phase or in two."""
        return MergeValues(group_kernel(kernel))

    def __call__(self, tables: Sequence[pl.DataFrame | None]) -> Sequence[pl.DataFrame | None]:
        """State frames by number of the table."""
        rows, *others = tables
        if rows is None:
            return tables
        calls = [i for _, users in self.kernel.value_plan for i, _ in users]
        group_rows = merge_rows(self.kernel, rows, without=calls)
        own_tables = self.kernel.tables[1:]
        frames = [None if o is None else _merge_values(t, o) for t, o in zip(own_tables, others, strict=True)]
        columns: dict[str, pl.Series] = {}
        for number, (values, users) in enumerate(self.kernel.value_plan):
            for call, position in users:
                count = f"count{position}" if f"count{position}" in values.table.schema else None
                fold = CallFromValues(self.kernel, call, values.table.name, values.keys, count)
                columns.update(zip(fold.names, fold(group_rows, frames[number]), strict=True))
        return [group_rows.with_columns(s.alias(n) for n, s in columns.items()).select(rows.columns), *frames]


def _merge_values(table: StateTable, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a table of values, those of the same key and value as one."""
    identity = list(table.identity)
    ids = key_ids(rows, identity)
    if ids.count == rows.height:
        return rows
    rows = rows.with_columns(pl.Series("@id", ids.codes))
    others = [n for n in rows.columns if n not in (*identity, "@id")]
    rules = [pl.col(n).sum() if table.schema.get(n) == pl.Int64() else pl.col(n).max() for n in others]
    value_rows = rows.group_by("@id", maintain_order=True).agg(*(pl.col(n).first() for n in identity), *rules)
    return value_rows.select(rows.columns[:-1])
