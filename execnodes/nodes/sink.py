"""Writing a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from stateplan.common.changelog import ChangelogMode, kind_named
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import Flag, Index, to_json
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.nodes.base import StatefulNode, StateList
from stateplan.execnodes.nodes.table_source_scan import ability_meaning
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import ChangelogKind, ConflictStrategy, DynamicTableSink, WritingMetadata

_KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D", "~DELETE": "-D"}


@exec_node("sink", 2, states=("sinkMaterializeState",))
class Sink(StatefulNode):
    """Writes the changes of a query to a table through its connector.

    With ``requireUpsertMaterialize`` the rows of each primary key are kept in state, so that the table
    always shows the row that arrived last and has not been deleted.

    .. code-block:: sql

        CREATE TABLE totals (product STRING PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('connector' = 'print');
        INSERT INTO totals SELECT product, COUNT(*) FROM orders GROUP BY product
    """

    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True
    FOLLOWS_HINTS: ClassVar[bool] = True

    dynamic_table_sink: DynamicTableSink
    input_changelog_mode: tuple[ChangelogKind, ...]
    require_upsert_materialize: Flag = False
    upsert_materialize_strategy: Literal["LEGACY", "MAP", "VALUE", "ADAPTIVE"] | None = None
    state: StateList = ()
    input_upsert_key: Annotated[tuple[Index, ...] | None, Ref()] = None
    conflict_strategy: ConflictStrategy | None = None

    @property
    def keeps_state(self) -> bool:
        return self.require_upsert_materialize

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        """A sink emits nothing: the kinds of changes that it gets."""
        return self.takes(0)

    def needs_update_before(self, position: int, update_before: bool) -> bool:
        return "UPDATE_BEFORE" in self.input_changelog_mode

    def takes(self, position: int) -> ChangelogMode | None:
        return kind_named(self.input_changelog_mode)

    @property
    def state_names(self) -> tuple[str, ...]:
        """The materializer's state, when the sink has one."""
        return self.STATE_NAMES if self.require_upsert_materialize else ()

    def meaning(self) -> dict[str, Any]:
        spec = self.dynamic_table_sink
        table = spec.table.resolved_table
        key = table.table_schema.primary_key if table else None
        columns = [column.name for column in table.table_schema.columns] if table else []
        return {
            "table": list(spec.table.path),
            "columns": columns,
            "primaryKey": list(key.columns) if key else [],
            "targetColumns": to_json(spec.target_columns),
            "abilities": ability_meaning(spec.abilities, tuple(columns)),
            "materialize": self.require_upsert_materialize,
        }

    @property
    def written_fields(self) -> tuple[tuple[str, LogicalType], ...]:
        """Name and type of the fields of a row, as the table declares them; empty when the plan does not say.

        The physical columns come first, then the metadata that is written.
        """
        spec = self.dynamic_table_sink
        table = spec.table.resolved_table
        if table is None:
            return ()
        fields = [(c.name, c.type) for c in table.table_schema.columns if c.kind == "PHYSICAL"]
        for ability in spec.abilities:
            if isinstance(ability, WritingMetadata):
                fields += [(f.name, f.type) for f in ability.consumed_type.fields[len(fields) :]]
        return tuple(fields)

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that distinguish rows: the primary key of the table, else the upsert key of the query."""
        table = self.dynamic_table_sink.table.resolved_table
        if table is not None and table.table_schema.primary_key is not None:
            return tuple(table.table_schema.primary_key.columns)
        return tuple(name for i, (name, _) in enumerate(self.written_fields) if i in (self.input_upsert_key or ()))

    @property
    def gets_upserts(self) -> bool:
        """Whether it gets updates without the rows that they replace."""
        return "UPDATE_AFTER" in self.input_changelog_mode and "UPDATE_BEFORE" not in self.input_changelog_mode

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        kinds = ", ".join(_KINDS[kind] for kind in self.input_changelog_mode)
        fields, table = ", ".join(names) or "rows", self.dynamic_table_sink.table.summary
        side = (self.stateplan or {}).get("sideOutput")
        if side is not None:
            late = side.startswith("late-rows")
            rows = "rows that operators drop because they come late" if late else f"the {side}"
            return f"writes {rows} to {table}"
        text = f"writes {fields} to {table} as {kinds}"
        return text + (", keeping the rows of each primary key" if self.require_upsert_materialize else "")


@exec_node("sink")
class SinkV1(Sink):
    """Writes a table, as plans made before Flink 2.3 write it. The fields are those of version 2.

    .. code-block:: sql

        INSERT INTO totals SELECT product, COUNT(*) FROM orders GROUP BY product
    """
