"""Writing a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from execnodes.model import Flag, Index, to_json
from execnodes.nodes.base import FieldRef, StatefulNode, StateList, field_types
from execnodes.nodes.table_source_scan import ability_meaning
from execnodes.registry import exec_node
from execnodes.specs import ChangelogKind, ConflictStrategy, DynamicTableSink
from execnodes.support import joined_names
from execnodes.types import LogicalType

if TYPE_CHECKING:
    from execnodes.runtime.operators import Stateless

__all__ = ["Sink", "SinkV1"]

_KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}


@exec_node
class Sink(StatefulNode):
    """Writes the changes of a query to a table through its connector.

    With ``requireUpsertMaterialize`` the rows of each primary key are kept in state, so that the table
    always shows the row that arrived last and has not been deleted.

    .. code-block:: sql

        CREATE TABLE totals (product STRING PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('connector' = 'print');
        INSERT INTO totals SELECT product, COUNT(*) FROM orders GROUP BY product
    """

    NAME: ClassVar[str] = "stream-exec-sink"
    VERSION: ClassVar[int] = 2
    STATE_NAMES: ClassVar[tuple[str, ...]] = ("sinkMaterializeState",)

    dynamic_table_sink: DynamicTableSink
    input_changelog_mode: tuple[ChangelogKind, ...]
    require_upsert_materialize: Flag = False
    upsert_materialize_strategy: Literal["LEGACY", "MAP", "VALUE", "ADAPTIVE"] | None = None
    state: StateList = ()
    input_upsert_key: tuple[Index, ...] | None = None
    conflict_strategy: ConflictStrategy | None = None

    @property
    def state_names(self) -> tuple[str, ...]:
        """The materializer's state, when the sink has one."""
        return self.STATE_NAMES if self.require_upsert_materialize else ()

    def field_refs(self) -> Iterator[FieldRef]:
        yield from super().field_refs()
        yield from (FieldRef(f"/inputUpsertKey/{k}", key) for k, key in enumerate(self.input_upsert_key or ()))

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return field_types(inputs[0])

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

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateless:
        from execnodes.runtime.operators import Stateless

        if self.require_upsert_materialize:
            raise self.not_supported("a sink that materializes upserts")
        return Stateless()

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        kinds = ", ".join(_KINDS[kind] for kind in self.input_changelog_mode)
        fields, table = ", ".join(names) or "rows", self.dynamic_table_sink.table.summary
        text = f"writes {fields} to {table} as {kinds}"
        return text + (", keeping the rows of each primary key" if self.require_upsert_materialize else "")


@exec_node
class SinkV1(Sink):
    """Writes a table, as plans made before Flink 2.3 write it. The fields are those of version 2.

    .. code-block:: sql

        INSERT INTO totals SELECT product, COUNT(*) FROM orders GROUP BY product
    """

    VERSION: ClassVar[int] = 1
