"""Reading a table: the scan, and the projection that computes its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from stateplan.common.changelog import INSERT_ONLY, RowKind
from stateplan.common.errors import CatalogError, Place, SqlError, nearest, one_of
from stateplan.common.types import LogicalType
from stateplan.connectors.registry import metadata_columns, source_changelog_mode, validate_table
from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Project, ProjectAbility, Rel, Scan
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.expressions.ops import cast, substitute


def _normalized(table: CatalogTable, place: Place, duplicates: bool) -> Literal["upserts", "duplicates"] | None:
    """Why the changes of a source have to be put in order by primary key (``DynamicSourceUtils``)."""
    mode = source_changelog_mode(table.options)
    upserts = RowKind.UPDATE_AFTER in mode and RowKind.UPDATE_BEFORE not in mode
    if mode == INSERT_ONLY or not (upserts or duplicates):
        return None
    if table.schema.primary_key:
        return "upserts" if upserts else "duplicates"
    summary = table.identifier.summary
    if upserts:
        raise SqlError("SQL142", summary=summary, problem="sends updates without the old rows", place=place)
    raise SqlError("SQL142", summary=summary, problem="may send changes twice", place=place)


def scan_of(
    table: CatalogTable, place: Place, hints: tuple[tuple[str, str], ...] = (), duplicates: bool = False
) -> Rel:
    """All columns of ``table``: its physical and metadata columns scanned, the others computed from them, and its
    watermarks.

    Args:
        table: the table.
        place: where it is named.
        hints: options of its hint.
        duplicates: whether change events may come twice (``table.exec.source.cdc-events-duplicate``).

    Raises:
        OptionError, CatalogError: the table's options do not make a source.
        CatalogError: CAT102, a metadata column that the connector does not have.
        SqlError: SQL142, changes that need a primary key the table does not have.
    """
    schema = table.schema
    physical_fields = [(c.name, c.type) for c in schema.physical]
    validate_table(table.options, "source", place, physical_fields, table.option_places, schema.primary_key)
    read = _metadata_read(table, place)
    physical = list(schema.physical)
    names = [c.name for c in physical] + [n for _, n, _ in read]
    types = [_stored_type(c.type) for c in physical] + [t for _, _, t in read]
    scan_fields = tuple(zip(names, types, strict=True))
    everything = ProjectAbility(tuple(range(len(physical))), tuple(k for k, _, _ in read), scan_fields, projects=False)
    normalized = _normalized(table, place, duplicates)
    scan = Scan(table, tuple(names), tuple(types), (everything,) if read else (), hints, place, normalized)
    if len(physical) == len(schema.columns):
        return _with_watermark(scan, table)
    columns = _columns(table, [k for k, _, _ in read], types)
    return _with_watermark(Project(scan, tuple(columns), schema.names), table)


_Metadata: TypeAlias = tuple[str, str, LogicalType]
"""Key of a metadata column, name of the first column of that key, and the type that the connector assigns to it."""


def _metadata_read(table: CatalogTable, place: Place) -> list[_Metadata]:
    """The metadata that a table reads, in the order of its connector. Raises CatalogError CAT102."""
    metadata = [c for c in table.schema.columns if c.is_metadata]
    available = metadata_columns(table.options) if metadata else {}
    keys: dict[str, _Metadata] = {}
    for column in metadata:
        key = column.metadata_key or column.name
        if key not in available:
            raise CatalogError(
                "CAT102.no_metadata",
                options=table.options.get("connector"),
                key=key,
                place=place,
                expected=one_of(available) or "no metadata column",
                hint=nearest(key, available),
            )
        keys.setdefault(key, (key, column.name, available[key]))
    return [keys[key] for key in available if key in keys]


def _columns(table: CatalogTable, metadata: Sequence[str], types: Sequence[LogicalType]) -> list[Rex]:
    """The columns of a table over the fields of its scan: physical columns, then metadata by these keys."""
    physical = {c.name: i for i, c in enumerate(table.schema.physical)}
    place = {key: len(physical) + i for i, key in enumerate(metadata)}
    base: list[Rex] = []
    for column in table.schema.columns:
        if column.is_physical:
            base.append(InputRef(_stored_type(column.type), physical[column.name]))
        elif column.is_metadata:
            i = place[column.metadata_key or column.name]
            base.append(cast(InputRef(types[i], i), column.type))
    stored_columns = iter(base)
    columns: list[Rex] = []
    for column in table.schema.columns:
        if not column.is_computed:
            columns.append(next(stored_columns))
        elif column.rex is None:
            raise AssertionError(f"the computed column {column.name} was not bound")
        else:
            columns.append(substitute(column.rex, base))
    return columns


def _stored_type(column_type: LogicalType) -> LogicalType:
    """The type a source gives a column: what makes it a time attribute comes behind the source."""
    return replace(column_type, kind=None)


def _with_watermark(rel: Rel, table: CatalogTable) -> Rel:
    """All columns of ``table``, its time attribute among them (``SqlToRelConverter``, ``CatalogSourceTable``)."""
    for mark in table.schema.watermarks:
        if mark.rex is None:
            raise AssertionError(f"the watermark of {table.identifier.summary} was not bound")
        rel = WatermarkAssigner(rel, table.schema.names.index(mark.column), mark.rex)
    return rel
