"""Where an aggregate finds the single values that it keeps (DISTINCT, MIN and MAX over updates) in the state of another
one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.plans.derivation import StateMove, TableSource
from stateplan.plans.lineage import Lineage

if TYPE_CHECKING:
    from stateplan.runtime.kernels.common.values import Values
    from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel


@dataclass(frozen=True)
class Grouped:
    """An aggregate with what it reads.

    Attributes:
        node: the aggregate.
        row: the type of its input.
        rows: the lineage of its input.
        state_name: by which its tables are named.
    """

    node: GroupAggregate
    row: LogicalType
    rows: Lineage
    state_name: str

    @property
    def kernel(self) -> GroupAggregateKernel:
        """What keeps its state."""
        from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel  # the engine, for these states alone

        node = self.node
        flags = tuple(node.agg_call_need_retractions)
        return GroupAggregateKernel(
            self.row, node.grouping, node.agg_calls, flags, False, node.need_retraction, self.state_name
        )

    def meaning(self, values: Values) -> tuple[str, frozenset[str | None], bool, bool]:
        """What a table of values holds, but for its group key."""
        return self._field(values.argument), frozenset(self.filters(values)), values.retract, values.nulls

    def filters(self, values: Values) -> list[str | None]:
        """The filters of a table of values, in the order of its columns."""
        return [None if f is None else self._field(f) for f in values.filters]

    def _field(self, name: str) -> str:
        return self.rows.fields[int(name[1:])]


def table_sources(old: Grouped, new: Grouped, move: StateMove) -> tuple[TableSource, ...] | None:
    """Where an aggregate finds the rows of its tables; None where the old one has not kept some of the values.

    Args:
        old, new: the aggregate before and now.
        move: where its fields and its calls are.
    """
    from stateplan.runtime.checkpoint.slots import name_before

    old_kernel, new_kernel = old.kernel, new.kernel
    values_by_meaning = {old.meaning(values): values for values in old_kernel.values}
    fields = move.fields[0]
    groups = {name: name_before(name, column, move) for name, column in new_kernel.tables[0].columns.items()}
    sources = [TableSource(old_kernel.tables[0].name, groups)]
    orders: list[TableSource] = []
    for values in new_kernel.values:
        origin = values_by_meaning.get(new.meaning(values))
        if origin is None:
            return None
        keys = {key: f"c{fields[int(key[1:])]}" for key in values.keys}
        places = [old.filters(origin).index(f) for f in new.filters(values)]
        own_columns = [name for name in values.table.schema if name not in values.table.identity]
        counts = {name: f"count{place}" for name, place in zip(own_columns, places, strict=False)}
        pair = {**keys, "v": "v"}
        sources.append(TableSource(origin.table.name, {**pair, **counts}))
        if values.order is not None:  # with retractions both tables have the same values
            orders.append(TableSource(origin.table.name, pair))
    return (*sources, *orders)
