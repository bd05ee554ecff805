"""Table aggregates: rows per group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import model_validator

from stateplan.common.changelog import ChangelogMode, updating
from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.model import custom_error
from stateplan.execnodes.node_text import agg_text, groups_text, joined_names
from stateplan.execnodes.nodes.base import StateList, field_types
from stateplan.execnodes.nodes.group_aggregate import Grouping
from stateplan.execnodes.registry import exec_node


@exec_node("group-table-aggregate", states=("groupAggregateState",))
class GroupTableAggregate(Grouping):
    """Keeps an accumulator per group and emits the rows that a table aggregate function returns for it.

    The fields are those of Flink's ``StreamExecGroupTableAggregate``, which Flink cannot write into a plan.

    .. code-block:: sql

        CREATE FUNCTION top2 AS 'shop.top2' LANGUAGE PYTHON;
        INSERT INTO best SELECT product, price FROM top2(TABLE orders PARTITION BY product, DESCRIPTOR(price))
    """

    state: StateList = ()

    @model_validator(mode="after")
    def _one_call(self) -> Self:
        if len(self.agg_calls) != 1 or self.agg_calls[0].internal_name is not None:
            raise custom_error(
                PlanError(
                    "PLAN044.counts",
                    title=self.title,
                    counts=f"{len(self.agg_calls)} aggCalls",
                    expected="one call, of a user-defined table aggregate function",
                ),
                "/aggCalls",
            )
        return self

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        types = field_types(inputs[0])
        return (*(types[key] for key in self.grouping), *field_types(self.agg_calls[0].type))

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return updating(self.generate_update_before)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        return f"keeps the rows of {agg_text(self.agg_calls[0], names)} of {groups_text(self.grouping, names)}"
