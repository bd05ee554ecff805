"""Reading a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from stateplan.common.changelog import ChangelogMode
from stateplan.common.errors import StateplanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.node_text import field_names
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import (
    Ability,
    DynamicTableSource,
    FilterPushDown,
    LimitPushDown,
    ProjectPushDown,
    ReadingMetadata,
)
from stateplan.functions.rex_text import rex_text


@exec_node("table-source-scan", 2, inputs=0)
class TableSourceScan(ExecNode):
    """Reads a table through its connector, with the projections, filters and limits pushed into it.

    .. code-block:: sql

        CREATE TABLE orders (id BIGINT, product STRING)
        WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json');
        INSERT INTO copies SELECT id FROM orders
    """

    scan_table_source: DynamicTableSource

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        table = self.scan_table_source.table.resolved_table
        if table is None or table.options is None:
            return None
        from stateplan.connectors.registry import source_changelog_mode

        try:
            return source_changelog_mode(table.options)
        except StateplanError:  # a connector of Flink's that is not known here
            return None

    def meaning(self) -> dict[str, Any]:
        spec = self.scan_table_source
        columns = spec.table.resolved_table.table_schema.columns if spec.table.resolved_table else ()
        physical = tuple(column.name for column in columns if column.kind == "PHYSICAL")
        metadata = [
            key for ability in spec.abilities if isinstance(ability, ReadingMetadata) for key in ability.metadata_keys
        ]
        return {
            "table": list(spec.table.path),
            "fields": list(field_names(self.output_type)),
            "metadata": metadata,
            "abilities": ability_meaning(spec.abilities, physical),
        }

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = field_names(self.output_type)
        text = f"reads {', '.join(names) or 'no fields'} of {self.scan_table_source.table.summary}"
        for ability in self.scan_table_source.abilities:
            if isinstance(ability, FilterPushDown) and ability.predicates:
                text += " where " + " and ".join(rex_text(p, names) for p in ability.predicates)
            elif isinstance(ability, LimitPushDown):
                text += f", at most {ability.limit} rows"
        return text


@exec_node("table-source-scan")
class TableSourceScanV1(TableSourceScan):
    """Reads a table, as plans made before Flink 2.3 write it. The fields are those of version 2.

    .. code-block:: sql

        INSERT INTO copies SELECT id FROM orders
    """

    VERSION: ClassVar[int] = 1


def ability_meaning(abilities: Sequence[Ability], names: tuple[str, ...]) -> list[Any]:
    """What was pushed into a source or sink, with fields by name.

    Projections are omitted, as the output fields say the same and do not move when a table gets a column.

    Args:
        abilities: in the order they were applied.
        names: the table's physical fields.
    """
    meanings = []
    for ability in abilities:
        if isinstance(ability, (ProjectPushDown, ReadingMetadata)):
            names = field_names(ability.produced_type)
        else:
            meanings.append(
                {key: _by_name(value, names) for key, value in ability.to_json().items() if not key.endswith("Type")}
            )
    return meanings


def _by_name(value: Any, names: tuple[str, ...]) -> Any:
    """The JSON of expressions with field names for positions."""
    if isinstance(value, list):
        return [_by_name(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    index = value.get("inputIndex")
    if isinstance(index, int) and index < len(names):
        return {**value, "inputIndex": names[index]}
    return {key: _by_name(item, names) for key, item in value.items()}
