"""The tables of a plan, as their connectors want them, with what was pushed into their scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, RowKind
from stateplan.common.errors import CatalogError, Place, PlanError, RunError, nearest, one_of
from stateplan.common.files import has_scheme
from stateplan.common.options import PATHS, Role
from stateplan.common.readable import amount
from stateplan.common.types import BOOLEAN, STRING, LogicalType
from stateplan.common.zone import local_time_zone
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.protocol import Partition, SinkTable, SourceTable
from stateplan.connectors.registry import (
    find_connector,
    find_format,
    find_key_format,
    metadata_columns,
    sink_changelog_mode,
    validate_table,
)
from stateplan.execnodes.graph import ExecGraph, error_at
from stateplan.execnodes.model import PlanModel
from stateplan.execnodes.nodes.base import own_values
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import (
    DynamicTableSink,
    DynamicTableSource,
    FilterPushDown,
    LimitPushDown,
    Overwrite,
    PartitionPushDown,
    ProjectPushDown,
    ReadingMetadata,
    ResolvedTable,
    WatermarkPushDown,
    WritingMetadata,
)
from stateplan.functions.rex import Call, InputRef, Literal, Rex, input_refs

PushedFilter: TypeAlias = tuple[Rex, list[int | str]]
"""A predicate, and the fields of the row it is over: physical ones by position, metadata by key."""


def source_table(spec: DynamicTableSource, session: Mapping[str, str], start_time: int = 0) -> SourceTable:
    """A table that is read, all its physical columns and no metadata.

    Args:
        spec: the specification in the plan.
        session: options of the session.
        start_time: when the job began, ms.

    Raises:
        RunError: RUN021, a table without its options.
        StateplanError: as :func:`connectors.registry.validate_table`.
    """
    table, options = _resolve(spec)
    fields = tuple((c.name, c.type) for c in table.table_schema.columns if c.kind == "PHYSICAL")
    validate_table(options, Role.SOURCE, schema=fields, primary_key=_primary_key(table))
    return SourceTable(
        spec.table.summary,
        find_connector(options),
        options,
        fields,
        find_format(options, Role.SOURCE),
        tuple(table.partition_keys),
        _primary_key(table),
        tuple(range(len(fields))),
        start_time=start_time,
        key_format=find_key_format(options, Role.SOURCE),
        time_zone=local_time_zone(session),
    )


def sink_table(spec: DynamicTableSink, session: Mapping[str, str], fields: Fields, uid: str) -> SinkTable:
    """A table that is written.

    Args:
        spec: the specification in the plan.
        session: options of the session.
        fields: the fields that are written: the physical columns, then the metadata.
        uid: the uid of the sink in this checkpoint.

    Raises:
        StateplanError: as :func:`source_table`.
    """
    table, options = _resolve(spec)
    keys = next((a.metadata_keys for a in spec.abilities if isinstance(a, WritingMetadata)), ())
    physical, metadata = fields[: len(fields) - len(keys)], fields[len(fields) - len(keys) :]
    validate_table(options, Role.SINK, schema=physical, primary_key=_primary_key(table))
    return SinkTable(
        spec.table.summary,
        find_connector(options),
        options,
        tuple(physical),
        find_format(options, Role.SINK),
        tuple(table.partition_keys),
        _primary_key(table),
        uid,
        any(isinstance(ability, Overwrite) for ability in spec.abilities),
        tuple((key, data_type) for key, (_, data_type) in zip(keys, metadata, strict=True)),
        key_format=find_key_format(options, Role.SINK),
        time_zone=local_time_zone(session),
    )


def corrected_kinds(sink: Sink) -> ChangelogMode:
    """The row kinds of corrections that the table of a sink takes: only insertions where its writer knows no others."""
    _, options = _resolve(sink.dynamic_table_sink)
    mode = sink_changelog_mode(options)
    connector = find_connector(options)
    writes_changes = sink.input_changelog_mode != ("INSERT",)
    has_format = find_format(options, Role.SINK) is not None and not connector.own_changes
    return mode if RowKind.DELETE in mode and (writes_changes or has_format) else INSERT_ONLY


def with_places(graph: ExecGraph, place: Callable[[str], str]) -> ExecGraph:
    """A plan whose tables have other paths.

    Args:
        graph: the plan.
        place: gives the path for one without a scheme.
    """

    def resolve(value: Any) -> Any:
        if isinstance(value, ResolvedTable):
            options = value.options or {}
            new = {key: place(options[key]) for key in PATHS if key in options and not has_scheme(options[key])}
            return value.model_copy(update={"options": {**options, **new}}) if new else value
        if isinstance(value, PlanModel):
            before = dict(value)
            new_values = {name: resolve(part) for name, part in before.items()}
            replacements = {name: new for name, new in new_values.items() if new is not before[name]}
            return value.model_copy(update=replacements) if replacements else value
        if isinstance(value, tuple):
            items = tuple(map(resolve, value))
            return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        return value

    replacements = []
    for node in graph.nodes:
        before = own_values(node)
        after = {name: resolve(value) for name, value in before.items()}
        if any(after[name] is not value for name, value in before.items()):
            replacements.append(node.replace(**after))
    return graph.replace(replacements) if replacements else graph


def _resolve(spec: DynamicTableSource | DynamicTableSink) -> tuple[ResolvedTable, dict[str, str]]:
    table = spec.table.resolved_table
    if table is None or table.options is None:
        raise RunError("RUN021", name=spec.table.summary)
    return table, dict(table.options)


def _primary_key(table: ResolvedTable) -> tuple[str, ...]:
    key = table.table_schema.primary_key
    return tuple(key.columns) if key is not None else ()


def with_abilities(spec: DynamicTableSource, table: SourceTable) -> tuple[SourceTable, list[PushedFilter]]:
    """The table with what the abilities of its scan say, and the predicates that were pushed into it.

    Args:
        spec: the specification in the plan.
        table: all its physical columns.
    """
    filters: list[PushedFilter] = []
    table = replace(table, metadata=_metadata_keys(spec, table), metadata_types=_metadata_types(spec))
    for ability in spec.abilities:
        if isinstance(ability, ProjectPushDown):
            table = replace(table, projection=tuple(path[0] for path in ability.projected_fields))
        elif isinstance(ability, ReadingMetadata):
            table = replace(table, metadata=tuple(ability.metadata_keys))
        elif isinstance(ability, PartitionPushDown):
            table = replace(table, partitions=ability.partitions)
            if "PartitionPushDown" not in table.connector.abilities:
                filters.append((_in_partitions(ability.partitions, table.fields), list(range(len(table.fields)))))
        elif isinstance(ability, FilterPushDown):
            filters.extend((p, [*table.projection, *table.metadata]) for p in ability.predicates)
        elif isinstance(ability, LimitPushDown):
            table = replace(table, limit=ability.limit)
    return table, filters


def _metadata_keys(spec: DynamicTableSource, table: SourceTable) -> tuple[str, ...]:
    """The metadata that a scan reads before an ability says which: what the columns name, in the connector's order.

    Source: Flink's ``DynamicSourceUtils.createRequiredMetadataColumns``.
    """
    resolved_table = spec.table.resolved_table
    columns = resolved_table.table_schema.columns if resolved_table is not None else ()
    metadata_names = [c.metadata_key or c.name for c in columns if c.kind == "METADATA"]
    metadata_order = list(metadata_columns(table.options)) if metadata_names else []
    return tuple(
        sorted(
            dict.fromkeys(metadata_names),
            key=lambda key: metadata_order.index(key) if key in metadata_order else len(metadata_order),
        )
    )


def _metadata_types(spec: DynamicTableSource) -> dict[str, LogicalType]:
    """The types of the metadata that a scan may read: what its source produces, else what the columns declare."""
    resolved_table = spec.table.resolved_table
    columns = resolved_table.table_schema.columns if resolved_table is not None else ()
    types = {c.metadata_key or c.name: c.type for c in columns if c.kind == "METADATA"}
    for ability in spec.abilities:
        if isinstance(ability, ReadingMetadata) and ability.metadata_keys:
            produced_fields = ability.produced_type.fields[-len(ability.metadata_keys) :]
            types |= {key: f.type for key, f in zip(ability.metadata_keys, produced_fields, strict=True)}
    return types


def _in_partitions(partitions: Sequence[Partition], fields: Sequence[tuple[str, LogicalType]]) -> Rex:
    """Whether a row of ``fields`` lies in one of the partitions."""
    refs = {name: InputRef(kind, i) for i, (name, kind) in enumerate(fields)}

    def is_value(key: str, value: str | None) -> Rex:
        if value is None:
            return Call(BOOLEAN.not_null(), (refs[key],), internal_name="$IS NULL$1", syntax="POSTFIX")
        text = Literal(STRING.not_null(), value)
        constant = Call(refs[key].type, (text,), internal_name="$CAST$1", syntax="SPECIAL")
        return Call(BOOLEAN, (refs[key], constant), internal_name="$=$1", syntax="BINARY")

    def combine(name: str, terms: list[Rex]) -> Rex:
        return terms[0] if len(terms) == 1 else Call(BOOLEAN, tuple(terms), internal_name=name, syntax="BINARY")

    return combine("$OR$1", [combine("$AND$1", [is_value(k, v) for k, v in p.items()]) for p in partitions])


def check_scan(node: TableSourceScan, pointer: str) -> None:
    """Checks the abilities of a scan, whose table the plan holds.

    Args:
        node: the scan.
        pointer: JSON pointer of the node.

    Raises:
        PlanError: PLAN049 (a column or field that is not there), PLAN064 (an output of the wrong width), PLAN035 (a
            part of a column is read), with the JSON pointer.
        CatalogError: CAT102, metadata that the connector does not have.
    """
    spec = node.scan_table_source
    table = spec.table.resolved_table
    assert table is not None
    columns = table.table_schema.columns
    at = f"{pointer}/scanTableSource"
    schema = f"{at}/table/resolvedTable"
    _check_names(table.partition_keys, [c.name for c in columns], f"{schema}/partitionKeys")
    width = physical = sum(c.kind == "PHYSICAL" for c in columns)
    metadata = len({c.metadata_key or c.name for c in columns if c.kind == "METADATA"})
    for position, ability in enumerate(spec.abilities):
        own = f"{at}/abilities/{position}"
        if isinstance(ability, ProjectPushDown):
            for i, path in enumerate(ability.projected_fields):
                _check_path(path, physical, f"{own}/projectedFields/{i}")
            width = len(ability.projected_fields)
        elif isinstance(ability, ReadingMetadata):
            metadata = len(ability.metadata_keys)
            _check_metadata(ability.metadata_keys, table, f"{own}/metadataKeys")
        elif isinstance(ability, FilterPushDown):
            for i, predicate in enumerate(ability.predicates):
                _check_refs(predicate, width + metadata, f"{own}/predicates/{i}")
        elif isinstance(ability, WatermarkPushDown):
            fields = node.output_type.fields
            _check_refs(ability.watermark_expr, len(fields), f"{own}/watermarkExpr")
    if len(node.output_type.fields) != width + metadata:
        raise PlanError(
            "PLAN064",
            what=f"the outputType of node {node.id} ({node.title}) has",
            count=amount(len(node.output_type.fields), "field"),
            place=Place(pointer=f"{pointer}/outputType"),
            expected=f"{width + metadata}, the columns that the scan reads",
        )


def _check_metadata(keys: Sequence[str], table: ResolvedTable, pointer: str) -> None:
    options = table.options or {}
    if not options or find_connector(options).records_metadata:
        return
    available = metadata_columns(options)
    for position, key in enumerate(keys):
        if key not in available:
            raise CatalogError(
                "CAT102.no_metadata",
                options=options.get("connector"),
                key=key,
                place=Place(pointer=f"{pointer}/{position}"),
                expected=one_of(available) or "no metadata column",
                hint=nearest(key, available),
            )


def _check_names(names: Sequence[str], columns: Sequence[str], pointer: str) -> None:
    for position, name in enumerate(names):
        if name not in columns:
            raise error_at("PLAN049.column", f"{pointer}/{position}", name=name, columns=", ".join(columns))


def _check_path(path: Sequence[int], width: int, pointer: str) -> None:
    if not path or path[0] >= width:
        name = f"column {path[0]}" if path else "no column"
        expectation = f"a number from 0 to {width - 1}" if width else "no field, as the table has no physical columns"
        raise error_at("PLAN049.column_of_scan", pointer, what=name, width=width, expected=expectation)
    if len(path) > 1:
        raise error_at("PLAN035.part_of_column", pointer)


def _check_refs(rex: Rex, width: int, pointer: str) -> None:
    for index in input_refs(rex):
        if index >= width:
            raise error_at("PLAN049.field_of_scan", pointer, index=index, width=width)
