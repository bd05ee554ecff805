"""Where an aggregate finds the single values that it keeps (DISTINCT, MIN and MAX over updates) in the state of another
one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.base import field_types
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.execnodes.specs import AggCall
from stateplan.plans.derivation import CallSource, StateMove, TableSource, ValueOrigin, keeps_values
from stateplan.plans.meanings import Lineage
from stateplan.plans.sums import linear_form

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
    def is_readable(self) -> bool:
        """Whether it is known what all of its calls keep. A user-defined function is not at hand."""
        try:
            return bool(self.kernel.tables)
        except RunError:
            return False

    @cached_property
    def kernel(self) -> GroupAggregateKernel:
        """What keeps its state. Raises RunError where it is not known."""
        from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel  # the engine, for these states alone

        node = self.node
        flags = tuple(node.agg_call_need_retractions)
        return GroupAggregateKernel(
            self.row, node.grouping, node.agg_calls, flags, False, node.need_retraction, self.state_name
        )

    def argument(self, values: Values) -> str:
        """What a table of values holds."""
        return self._field(values.argument)

    def filters(self, values: Values) -> list[str | None]:
        """The filters of a table of values, in the order of its columns."""
        return [None if f is None else self._field(f) for f in values.filters]

    def call_field(self, number: int) -> str:
        """The first argument of a call."""
        return self.rows.fields[self.node.agg_calls[number].arg_list[0]]

    def call_filter(self, number: int) -> str | None:
        """The filter of a call."""
        place = self.node.agg_calls[number].filter_arg
        return None if place < 0 else self.rows.fields[place]

    def _field(self, name: str) -> str:
        return self.rows.fields[int(name[1:])]


def call_from_values(new: Grouped, number: int, old: Grouped) -> CallSource | None:
    """How what a call keeps is computed from the single values of an old aggregate of the same rows; None where these
    were not kept, or it does not follow from them.

    Values of what is only accumulated are kept without the number of their rows. Sums of floating-point numbers depend
    on the order of the rows, and so do MIN and MAX of these with NaN, where values cannot be retracted.
    """
    call = new.node.agg_calls[number]
    if not call.arg_list or call.function not in _FROM_VALUES:
        return None
    kind = field_types(new.row)[call.arg_list[0]]
    is_extreme = call.function in ("MIN", "MAX")
    if is_extreme and kind.root in ("FLOAT", "DOUBLE"):
        return None
    form = linear_form(new.call_field(number), new.rows.meanings)
    is_exact = form is not None and (kind.is_integer or form.never_overflows)
    if not is_extreme and call.function != "COUNT" and not is_exact:
        return None
    needs_counts = not is_extreme and not call.distinct
    for values in old.kernel.values:
        filters = old.filters(values)
        if old.argument(values) != new.call_field(number) or new.call_filter(number) not in filters:
            continue
        count = f"count{filters.index(new.call_filter(number))}"
        if not needs_counts or values.retract:
            return CallSource(
                None,
                converts=True,
                values=ValueOrigin(values.table.name, values.keys, count if count in values.table.schema else None),
            )
    return None


_FROM_VALUES = frozenset({"COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX"})
"""Functions whose state follows from single values."""


def has_values(node: GroupAggregate) -> bool:
    """Whether an aggregate keeps single values."""
    pairs = zip(node.agg_calls, node.agg_call_need_retractions, strict=True)
    return any(keeps_values(call, retracts) for call, retracts in pairs)


def uncountable_calls(grouped: Grouped) -> list[AggCall]:
    """The calls that keep single values, and more that does not follow from these."""
    pairs = enumerate(zip(grouped.node.agg_calls, grouped.node.agg_call_need_retractions, strict=True))
    return [c for i, (c, r) in pairs if keeps_values(c, r) and call_from_values(grouped, i, grouped) is None]


def table_sources(old: Grouped, new: Grouped, move: StateMove, expires: bool) -> tuple[TableSource, ...] | None:
    """Where an aggregate finds the rows of its tables; None where the old one has not kept some of the values.

    Args:
        old, new: the aggregate before and now.
        move: where its fields and its calls are.
        expires: whether values may expire. Then rows of a table with more filters have another age.
    """
    from stateplan.runtime.checkpoint.slots import is_computed, name_before

    old_kernel, new_kernel = old.kernel, new.kernel
    columns = new_kernel.tables[0].columns.items()
    groups = {name: name_before(name, column, move) for name, column in columns if not is_computed(column, move)}
    sources = [TableSource(old_kernel.tables[0].name, groups)]
    orders: list[TableSource] = []
    for values in new_kernel.values:
        origin = _origin(old, old_kernel.values, new, values, expires)
        if origin is None:
            return None
        filters = old.filters(origin), new.filters(values)
        key_columns = {key: values.table.columns[key] for key in values.keys}
        keys = {
            key: name_before(key, column, move) for key, column in key_columns.items() if not is_computed(column, move)
        }
        places = [filters[0].index(f) for f in filters[1]]
        own_columns = [name for name in values.table.schema if name not in values.table.identity]
        counts = {name: f"count{place}" for name, place in zip(own_columns, places, strict=False)}
        pair = {**keys, "v": "v"}
        has_others = len(filters[0]) > len(filters[1])
        kept_rows = (
            tuple(f"count{place}" for place in places) if has_others else (),
            "v" if origin.nulls and not values.nulls else None,
        )
        sources.append(TableSource(origin.table.name, {**pair, **counts}, *kept_rows))
        if values.order is not None:  # with retractions both tables have the same values
            orders.append(TableSource(origin.table.name, pair, *kept_rows))
    return (*sources, *orders)


def _origin(old: Grouped, candidates: Sequence[Values], new: Grouped, values: Values, expires: bool) -> Values | None:
    """The old table that has the values of a new one; None where there is none."""
    argument, filters = new.argument(values), frozenset(new.filters(values))
    for origin in candidates:
        old_filters = frozenset(old.filters(origin))
        has_others = old_filters != filters or origin.nulls != values.nulls
        if old.argument(origin) != argument or origin.retract != values.retract or (has_others and expires):
            continue
        if filters <= old_filters and values.nulls <= origin.nulls:
            return origin
    return None
