"""Table aggregates: a group emits any number of rows.

Source of the semantics: Flink's ``GroupTableAggFunction`` and PyFlink's class of the same name, which unlike Flink's
passes over retractions of groups that are not there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from stateplan.common.changelog import RowKind, column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.values import column_of, row_cells
from stateplan.runtime.kernels.common.group_batches import Batch
from stateplan.runtime.kernels.common.key_ids import Ints, frame_of, key_ids, net_rows, with_kind
from stateplan.runtime.kernels.common.user_aggregates import UserFold
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel

_GROUP = "group"


@dataclass(frozen=True)
class GroupTableAggregateKernel(GroupAggregateKernel):
    """The rows of each group: its key, then the fields of a row that the function's ``emit_value`` gave.

    Groups and their state are those of the group aggregate, with one call: the accumulator of a table aggregate
    function. Where rows of a group came or went, a micro-batch retracts the rows that ``emit_value`` gives for the
    accumulator as it was (-D), and emits those that it gives now (+I). With TTL 0 rows that are in both are omitted, as
    often as they are; with a TTL they are not, so that operators behind are refreshed too. A group all of whose rows
    went is only retracted; there is nothing on expiry.

    Old rows are always retracted, whatever ``generate_update_before``: nothing behind knows them by a key.
    """

    def output(
        self, batch: Batch, keys: pl.DataFrame, groups: pl.DataFrame, current: pl.DataFrame, ttl: int
    ) -> pl.DataFrame:
        old_groups, new_groups = np.flatnonzero(batch.state_rows >= 0), np.flatnonzero(batch.rows != 0)
        old = self._emitted_rows(groups[batch.state_rows[old_groups]], old_groups)
        new = self._emitted_rows(current[new_groups], new_groups)
        rows = pl.concat([old, new], rechunk=True)
        change = np.repeat(np.array([-1, 1]), [old.height, new.height])
        if ttl == 0 and rows.height:
            ids = key_ids(rows, rows.columns)
            net_places = net_rows(ids.codes, change, ids.count)
            if net_places is not None:
                rows, change = rows[net_places], change[net_places]
        owners = rows[_GROUP].to_numpy()
        order = np.argsort(owners, kind="stable")
        rows, owners, change = rows[order].drop(_GROUP), owners[order], change[order]
        series = [*keys[owners].get_columns(), *rows.get_columns()]
        out = frame_of([s.alias(column(i)) for i, s in enumerate(series)], len(owners))
        return with_kind(out, np.where(change < 0, np.int8(RowKind.DELETE), np.int8(RowKind.INSERT)))

    def _emitted_rows(self, state: pl.DataFrame, numbers: Ints) -> pl.DataFrame:
        """What ``emit_value`` gives for rows of state, which are those of the groups ``numbers``."""
        (call,) = self.agg_calls
        (fold,) = self.accumulators
        function = call.user_function
        assert function is not None and isinstance(fold, UserFold)
        owners: list[int] = []
        cells: Sequence[list[object]] = [[] for _ in call.type.fields]
        for number, accumulator in zip(numbers.tolist(), fold.load(state), strict=True):
            for emitted_row in function.rows((accumulator,), "emit_value"):
                owners.append(number)
                for column_cells, cell in zip(cells, row_cells(emitted_row, function, call.type), strict=True):
                    column_cells.append(cell)
        value_columns = [
            column_of(values, f.type, function).alias(column(i))
            for i, (values, f) in enumerate(zip(cells, call.type.fields, strict=True))
        ]
        return pl.DataFrame([pl.Series(_GROUP, owners, dtype=pl.Int64), *value_columns])
