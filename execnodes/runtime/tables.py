"""The tables of a plan, as their connectors want them."""

from __future__ import annotations

from stateplan.execnodes.connectors.formats.base import Fields
from stateplan.execnodes.connectors.options import Role
from stateplan.execnodes.connectors.protocol import SinkTable, SourceTable
from stateplan.execnodes.connectors.registry import find_connector, find_format, validate_table
from stateplan.execnodes.errors import RunError
from stateplan.execnodes.specs import DynamicTableSink, DynamicTableSource, Overwrite, ResolvedTable


def source_table(spec: DynamicTableSource, started: int = 0) -> SourceTable:
    """A table that is read, all its physical columns and no metadata.

    Args:
        spec: of the plan.
        started: when the job began, ms.

    Raises:
        RunError: RUN021, a table without its options.
        StateplanError: as :func:`execnodes.connectors.registry.validate_table`.
    """
    table, options = _resolved(spec)
    fields = tuple((c.name, c.type) for c in table.table_schema.columns if c.kind == "PHYSICAL")
    validate_table(options, Role.SOURCE, schema=fields)
    return SourceTable(
        spec.table.summary,
        find_connector(options),
        options,
        fields,
        find_format(options, Role.SOURCE),
        tuple(table.partition_keys),
        tuple(range(len(fields))),
        started=started,
    )


def sink_table(spec: DynamicTableSink, fields: Fields, uid: str) -> SinkTable:
    """A table that is written.

    Args:
        spec: of the plan.
        fields: that are written.
        uid: of the sink in this checkpoint.

    Raises:
        StateplanError: as :func:`source_table`.
    """
    table, options = _resolved(spec)
    validate_table(options, Role.SINK, schema=fields)
    return SinkTable(
        spec.table.summary,
        find_connector(options),
        options,
        tuple(fields),
        find_format(options, Role.SINK),
        tuple(table.partition_keys),
        uid,
        any(isinstance(ability, Overwrite) for ability in spec.abilities),
    )


def _resolved(spec: DynamicTableSource | DynamicTableSink) -> tuple[ResolvedTable, dict[str, str]]:
    table = spec.table.resolved_table
    if table is None or table.options is None:
        raise RunError("RUN021", name=spec.table.summary)
    return table, dict(table.options)
