"""Joins with rows looked up in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.changelog import ChangelogMode, kind_named
from stateplan.common.types import LogicalType, row_type
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import ALWAYS, COSMETIC, NULL_IS_EMPTY, AbsentMeans, Flag, Index, JsonObject, RexField
from stateplan.execnodes.node_text import field_names, joined_names, names_text
from stateplan.execnodes.nodes.base import StatefulNode, StateList, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import ChangelogKind, JoinType, LookupKey, RetryOptions, TemporalTable
from stateplan.functions.rex_text import rex_text


@exec_node("lookup-join", states=("lookupJoinState",))
class LookupJoin(StatefulNode):
    """Joins each row with the rows of a table that have its key at that moment.

    .. code-block:: sql

        INSERT INTO named SELECT o.id, c.name
        FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer_id = c.id
    """

    WRITTEN_LAST: ClassVar[tuple[str, ...]] = ("prefer_custom_shuffle",)

    join_type: JoinType
    pre_filter_condition: Annotated[RexField | None, Ref()] = None
    join_condition: Annotated[RexField | None, ALWAYS] = None
    temporal_table: TemporalTable
    lookup_keys: Annotated[dict[str, LookupKey], Ref()]
    projection_on_temporal_table: Annotated[tuple[RexField, ...] | None, ALWAYS] = None
    filter_on_temporal_table: Annotated[RexField | None, ALWAYS] = None
    lookup_key_contains_primary_key: Flag
    require_upsert_materialize: Flag = False
    async_options: Annotated[JsonObject | None, COSMETIC] = None
    retry_options: Annotated[RetryOptions | None, COSMETIC] = None
    input_changelog_mode: tuple[ChangelogKind, ...] = ()
    input_upsert_key: Annotated[tuple[Index, ...], NULL_IS_EMPTY, Ref()] = ()
    state: StateList = ()
    prefer_custom_shuffle: Annotated[Flag | None, COSMETIC, AbsentMeans(False)] = None

    @property
    def keeps_state(self) -> bool:
        return self.require_upsert_materialize

    def takes(self, position: int) -> ChangelogMode | None:
        return kind_named(self.input_changelog_mode) or None

    @property
    def state_names(self) -> tuple[str, ...]:
        return self.STATE_NAMES if self.require_upsert_materialize else ()

    @property
    def found_type(self) -> LogicalType:
        """ROW of what is found, filtered and projected."""
        table = self.temporal_table.output_type
        if self.projection_on_temporal_table is None:
            return table
        return row_type([(f"f{i}", rex.type) for i, rex in enumerate(self.projection_on_temporal_table)])

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return (*field_types(inputs[0]), *field_types(self.found_type))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        table, fields = field_names(self.temporal_table.output_type), field_names(inputs[0]) if inputs else ()
        keys = []
        for name, key in self.lookup_keys.items():
            constant = rex_text(key.literal, ()) if key.literal is not None else ""
            value = names_text([key.index], fields) if key.index is not None else constant
            keys.append(f"{names_text([int(name)], table)} = {value}")
        word = "left outer joins" if self.join_type == "LEFT" else "joins"
        table_name = self.temporal_table.lookup_table_source.table.summary
        condition = f", where {rex_text(self.filter_on_temporal_table, table)}" if self.filter_on_temporal_table else ""
        if self.retry_options is not None:
            condition += f" (again {self.retry_options.text})"
        rest = [] if self.join_condition is None else [rex_text(self.join_condition, joined_names(inputs))]
        return f"{word} with rows looked up in {table_name} by {', '.join(keys)}{condition}" + "".join(
            f" and {r}" for r in rest
        )
