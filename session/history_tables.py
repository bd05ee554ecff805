"""The tables that the option ``backfill.table`` names: which columns have the rows of a topic, and their positions.

Codes: OPT176.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.errors import OptionError, StateplanError, nearest
from stateplan.common.types import LogicalType
from stateplan.connectors.history import BACKFILL_TABLE, IGNORE_GAPS, PositionedSource
from stateplan.connectors.history_table import HistoryTable
from stateplan.connectors.registry import known_connector, source_changelog_mode
from stateplan.execnodes.node_tables import with_table
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import ContextResolvedTable, DynamicTableSource, ResolvedTable, split_identifier
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable, ObjectIdentifier
from stateplan.planner.catalog.resolved_tables import plan_schema

_MICROSECONDS = 6
"""Digits of the seconds of a time of arrival, at most."""


def history_tables(
    nodes: Sequence[ExecNode],
    catalog: CatalogManager,
    options: Mapping[str, str],
    check: Callable[[ExecNode], None],
) -> dict[int, HistoryTable]:
    """By node, the tables that hold rows of sources.

    Args:
        nodes: the sources, with the options of their tables.
        catalog: the catalog of the session.
        options: the options of the session.
        check: raises a StateplanError when the session must not read the table of a node.

    Raises:
        OptionError: OPT176, a table does not hold what the plan reads.
        StateplanError: as ``check``, and when a table cannot be used.
    """
    tables: dict[int, HistoryTable] = {}
    for node in nodes:
        table = node.scan_table_source.table.resolved_table if isinstance(node, TableSourceScan) else None
        name = None if table is None else (table.options or {}).get(BACKFILL_TABLE.key)
        if name is not None and isinstance(node, TableSourceScan):
            tables[node.id] = _Search(node, name, catalog).table(options, check)
    return tables


class _Search:
    """Looks for the history of a table.

    Args:
        scan: reads the table.
        name: the name of the history. Parts that it lacks are those of the table.
        catalog: the catalog of the session.
    """

    def __init__(self, scan: TableSourceScan, name: str, catalog: CatalogManager) -> None:
        self.scan, self.spec = scan, scan.scan_table_source
        path, parts = self.spec.table.path, split_identifier(name)
        self.identifier = ObjectIdentifier(*(*path[: max(0, 3 - len(parts))], *parts)[:3])
        self.catalog = catalog

    def error(self, why: str, hint: str | None = None) -> OptionError:
        return OptionError("OPT176", name=self.identifier.summary, table=self.spec.table.summary, why=why, hint=hint)

    def table(self, options: Mapping[str, str], check: Callable[[ExecNode], None]) -> HistoryTable:
        """The history. Arguments and errors as :func:`history_tables`."""
        from stateplan.runtime.plan_tables import source_table, with_abilities

        context = self._resolve()
        assert context.resolved_table is not None
        own_options = context.resolved_table.options or {}
        check(with_table(self.scan, context))
        table = source_table(DynamicTableSource(table=context), options)
        connector = known_connector(own_options)
        if connector is None or not connector.is_bounded(own_options):
            raise self.error("it does not end by itself")
        if connector.history_gap is not None:  # it is read twice
            raise self.error(connector.history_gap)
        read, _ = with_abilities(self.spec, source_table(self.spec, options))
        for name, some in ((table.name, own_options), (read.name, read.options)):
            if source_changelog_mode(some) != INSERT_ONLY:
                raise self.error(f"'{name}' has changes, and not only new rows")
        columns = [read.fields[place] for place in read.projection]
        columns += [self._metadata_column(key) for key in read.metadata]
        reader, types = read.connector.source(read), dict(table.fields)
        assert isinstance(reader, PositionedSource)
        keys = self._keys(reader, types)
        for name, data_type in columns:
            if name not in keys.values():
                self._require(name, types, _fits(data_type), _regular(data_type).summary())
        ignores_gaps = read.value(IGNORE_GAPS.key)
        return HistoryTable(table, tuple(name for name, _ in columns), keys, ignores_gaps)

    def _resolve(self) -> ContextResolvedTable:
        """The history as the catalog has it, with options by which it ends. Raises OptionError OPT176."""
        identifier = self.identifier
        try:
            table = self.catalog.resolve(identifier.parts)
        except StateplanError as cause:
            raise self.error(cause.message, cause.hint) from cause
        if not isinstance(table, CatalogTable):
            raise self.error("it is a view")
        connector = known_connector(table.options)
        return ContextResolvedTable(
            identifier=str(identifier),
            resolved_table=ResolvedTable(
                table_schema=plan_schema(table),
                partition_keys=table.partition_keys,
                options=dict(table.options if connector is None else connector.until_now(table.options)),
            ),
        )

    def _declared_metadata(self) -> Iterator[tuple[str, str, LogicalType]]:
        """Key, name and type of the columns of metadata."""
        assert self.spec.table.resolved_table is not None
        for column in self.spec.table.resolved_table.table_schema.columns:
            if column.kind == "METADATA":
                yield column.metadata_key or column.name, column.name, column.type

    def _metadata_column(self, key: str) -> tuple[str, LogicalType]:
        return next((name, data_type) for own, name, data_type in self._declared_metadata() if own == key)

    def _keys(self, source: PositionedSource[Any], types: Mapping[str, LogicalType]) -> dict[str, str]:
        """By metadata key, the columns that identify a row of the source."""
        names = {key: name for key, name, _ in self._declared_metadata()}
        position, time = source.position_key, source.time_key
        for key in (source.part_keys[-1], position):
            if key not in names:
                raise self.error(f"'{self.spec.table.summary}' has no column METADATA FROM '{key}'")
            self._require(names[key], types, lambda t: t.is_integer, "a whole number")
        if time in names:
            self._require(names[time], types, _is_time, "TIMESTAMP_LTZ(3)")
        if source.part_keys[0] in names:
            self._require(names[source.part_keys[0]], types, lambda t: t.is_string, "STRING")
        keys = (*source.part_keys, position, time)
        return {key: names[key] for key in keys if key in names}

    def _require(
        self, name: str, types: Mapping[str, LogicalType], fits: Callable[[LogicalType], bool], expected: str
    ) -> None:
        """Raises OptionError OPT176 when the history has no such column."""
        if name not in types:
            raise self.error(f"it has no column '{name}' of type {expected}", nearest(name, types))
        if not fits(types[name]):
            raise self.error(f"its column '{name}' is of type {types[name].summary()}, and not {expected}")


def _is_time(data_type: LogicalType) -> bool:
    return data_type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" and (data_type.precision or 0) <= _MICROSECONDS


def _regular(data_type: LogicalType) -> LogicalType:
    """A type without being a time attribute."""
    return replace(data_type, kind=None)


def _fits(data_type: LogicalType) -> Callable[[LogicalType], bool]:
    """Whether all values of a type are values of this one."""
    own = _regular(data_type)
    return lambda other: _regular(other).as_nullable(own.nullable) == own and (own.nullable or not other.nullable)
