"""GROUP BY in phases: local, global and incremental."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import model_validator

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import COSMETIC, Flag, Index, RowTypeField, custom_error
from stateplan.execnodes.node_text import call_texts, groups_text, joined_names
from stateplan.execnodes.nodes.base import StatefulNode, StateList, field_types
from stateplan.execnodes.nodes.group_aggregate import Aggregation, check_flags
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import AggCall


def check_arguments(title: str, calls: Sequence[AggCall], row: LogicalType, key: str) -> None:
    """Whether the calls of a global phase fit the row in front of the local one. Raises PydanticCustomError PLAN044."""
    for position, call in enumerate(calls):
        for index in (*call.arg_list, *([call.filter_arg] if call.filter_arg >= 0 else [])):
            if index >= len(row.fields):
                raise custom_error(
                    PlanError("PLAN044.no_argument", title=title, index=index, count=len(row.fields) - 1),
                    f"/{key}/{position}",
                )


@exec_node("local-group-aggregate")
class LocalGroupAggregate(Aggregation):
    """Aggregates the rows of each group within a mini-batch, in front of the shuffle: partial results.

    .. code-block:: sql

        SET 'table.exec.mini-batch.enabled' = 'true';
        INSERT INTO totals SELECT product, SUM(amount) FROM orders GROUP BY product
    """

    EMITS: ClassVar[ChangelogMode | None] = INSERT_ONLY
    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True

    need_retraction: Flag

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType | None] | None:
        types, partial = field_types(inputs[0]), len(self.output_type.fields) - len(self.grouping)
        return (*(types[key] for key in self.grouping), *[None] * partial)

    def takes(self, position: int) -> ChangelogMode | None:
        return None if self.need_retraction else INSERT_ONLY

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        groups = groups_text(self.grouping, names)
        return f"computes {call_texts(self.agg_calls, names)} of {groups} within a mini-batch"


@exec_node("global-group-aggregate", states=("globalGroupAggregateState",))
class GlobalGroupAggregate(Aggregation, StatefulNode):
    """Merges partial results of each group and emits the group's new result whenever it changes.

    .. code-block:: sql

        SET 'table.exec.mini-batch.enabled' = 'true';
        INSERT INTO totals SELECT product, SUM(amount) FROM orders GROUP BY product
    """

    COUNTS_ROWS: ClassVar[bool] = True
    RESTARTS: ClassVar[bool] = True

    agg_calls: tuple[AggCall, ...]
    local_agg_input_row_type: RowTypeField
    generate_update_before: Annotated[Flag, COSMETIC]
    need_retraction: Flag
    index_of_count_star: int | None = None
    state: StateList = ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_arguments(self.title, self.agg_calls, self.local_agg_input_row_type, "aggCalls")
        return self

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return updating(self.generate_update_before, deletes=self.need_retraction)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = [f.name for f in self.local_agg_input_row_type.fields]
        groups = groups_text(self.grouping, joined_names(inputs))
        return f"keeps {call_texts(self.agg_calls, names)} of {groups}, from partial results"


@exec_node("incremental-group-aggregate", states=("incrementalGroupAggregateState",))
class IncrementalGroupAggregate(StatefulNode):
    """Between the levels of a split DISTINCT aggregate: counts the values that a bucket has not seen before.

    .. code-block:: sql

        SET 'table.exec.mini-batch.enabled' = 'true';
        SET 'table.optimizer.distinct-agg.split.enabled' = 'true';
        INSERT INTO buyers SELECT product, COUNT(DISTINCT customer) FROM orders GROUP BY product
    """

    EMITS: ClassVar[ChangelogMode | None] = INSERT_ONLY
    RESTARTS: ClassVar[bool] = True

    partial_agg_grouping: Annotated[tuple[Index, ...], Ref()]
    final_agg_grouping: Annotated[tuple[Index, ...], Ref()]
    partial_original_agg_calls: tuple[AggCall, ...]
    partial_agg_call_need_retractions: tuple[Flag, ...]
    partial_local_agg_input_row_type: RowTypeField
    partial_agg_need_retraction: Flag
    state: StateList = ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        calls = self.partial_original_agg_calls
        names = ("partialOriginalAggCalls", "partialAggCallNeedRetractions")
        check_flags(self.title, calls, self.partial_agg_call_need_retractions, names)
        check_arguments(self.title, calls, self.partial_local_agg_input_row_type, names[0])
        for position, key in enumerate(self.final_agg_grouping):
            if key not in self.partial_agg_grouping:
                raise custom_error(
                    PlanError("PLAN044.no_partial_key", key=key, title=self.title),
                    f"/finalAggGrouping/{position}",
                )
        return self

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = [f.name for f in self.partial_local_agg_input_row_type.fields]
        groups = groups_text(self.final_agg_grouping, joined_names(inputs))
        return f"merges {call_texts(self.partial_original_agg_calls, names)} of {groups}, keeping the distinct values"
