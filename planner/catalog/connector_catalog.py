"""A catalog of a connector in a session: tables that others have, and temporary objects beside them.

Codes: CAT110, CAT117.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import replace

from stateplan.common.errors import CatalogError
from stateplan.connectors.catalogs import ExternalCatalog, ExternalColumn, ExternalTable
from stateplan.planner.catalog.catalogs import Catalog, Database
from stateplan.planner.catalog.functions import CatalogFunction
from stateplan.planner.catalog.objects import CatalogObject, CatalogTable, Column, ObjectIdentifier, TableSchema

_FRESH = 1.0
"""Seconds for which nothing is requested again: planning a statement looks at each of its tables several times."""


class ConnectedCatalog(Catalog):
    """A session's view of an :class:`ExternalCatalog`.

    Args:
        name: under which the session knows it.
        catalog: what answers.
    """

    is_local = False

    def __init__(self, name: str, catalog: ExternalCatalog) -> None:
        self.name = name
        self.default_database = catalog.default_database
        self.functions = _NoFunctions(catalog)
        self._catalog = catalog
        self._lock = threading.RLock()
        self._tables: dict[tuple[str, str], tuple[float, CatalogTable]] = {}
        self._databases: tuple[float, list[str]] | None = None

    def connect(self) -> None:
        with self._lock:
            self._catalog.connect()

    def refresh(self) -> None:
        self._tables.clear()
        self._databases = None
        self._catalog.refresh()

    def databases(self) -> list[str]:
        with self._lock:
            cached_databases = self._databases
            if cached_databases is None or time.monotonic() - cached_databases[0] > _FRESH:
                databases = self._catalog.databases()
                cached_databases = self._databases = (time.monotonic(), databases)
            return cached_databases[1]

    def database(self, name: str) -> Database | None:
        return Database(name) if name in self.databases() else None

    def create_database(self, database: Database) -> bool:
        if database.comment or database.options:
            raise self._catalog.refusal("keep comments and options of databases")
        with self._changing():
            return self._catalog.create_database(database.name)

    def drop_database(self, name: str) -> None:
        with self._changing():
            self._catalog.drop_database(name)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Within, one thread changes the catalog; afterwards nothing is known of it."""
        with self._lock:
            try:
                yield
            finally:
                self.refresh()

    def kinds(self, database: str) -> dict[str, str]:
        with self._lock:
            return dict.fromkeys(self._catalog.tables(database), "TABLE")

    def kind(self, identifier: ObjectIdentifier) -> str | None:
        return None if self.find(identifier) is None else "TABLE"

    def find(self, identifier: ObjectIdentifier) -> CatalogObject | None:
        key = (identifier.database, identifier.name)
        with self._lock:
            since, table = self._tables.get(key, (0.0, None))
            if table is None or time.monotonic() - since > _FRESH:
                external_table = self._catalog.table(*key)
                if external_table is None:
                    self._tables.pop(key, None)
                    return None
                table = _table(identifier, external_table)
                self._tables[key] = (time.monotonic(), table)
            return table

    def create(self, item: CatalogObject) -> bool:
        identifier, table = item.identifier, self._external(item)
        with self._changing():
            return self._catalog.create_table(identifier.database, identifier.name, table)

    def complete_table(self, item: CatalogTable) -> CatalogTable:
        identifier, table = item.identifier, self._external(item)
        with self._lock:
            options = self._catalog.options_of_new(identifier.database, identifier.name, table)
        return replace(item, options=dict(options))

    def inherited_options(self, options: Mapping[str, str]) -> dict[str, str]:
        return dict(self._catalog.inherited_options(options))

    def replace(self, item: CatalogObject) -> None:
        identifier = item.identifier
        if not isinstance(item, CatalogTable):
            raise self._catalog.refusal("keep views")
        key = identifier.database, identifier.name
        with self._changing():
            external_table = self._catalog.table(*key)
            before = None if external_table is None else self._external(_table(identifier, external_table))
            after = self._external(item)
            if before is not None and (before.columns, before.primary_key) != (after.columns, after.primary_key):
                self._catalog.alter_columns(*key, after)
            else:
                self._catalog.alter_table(*key, item.options)

    def drop(self, identifier: ObjectIdentifier) -> None:
        with self._changing():
            self._catalog.drop_table(identifier.database, identifier.name)

    def rename(self, identifier: ObjectIdentifier, name: str) -> bool:
        with self._changing():
            return self._catalog.rename_table(identifier.database, identifier.name, name)

    def _external(self, item: CatalogObject) -> ExternalTable:
        """A table to be made there.

        Raises:
            CatalogError: CAT110, it is a view; CAT117, it has what only a session can compute.
        """
        if not isinstance(item, CatalogTable):
            raise self._catalog.refusal("keep views", "CREATE TEMPORARY VIEW makes one of this session")
        schema = item.schema
        other = next((column for column in schema.columns if not column.is_physical), None)
        unsupported_part = None
        if other is not None:
            unsupported_part = f"the {'computed' if other.is_computed else 'metadata'} column '{other.name}'"
        elif schema.watermarks:
            unsupported_part = f"a watermark for '{schema.watermarks[0].column}'"
        elif item.distribution is not None:
            unsupported_part = "a distribution into buckets"
        if unsupported_part is not None:
            raise CatalogError("CAT117", name=self.name, kind=self._catalog.kind, what=unsupported_part)
        return ExternalTable(
            tuple(ExternalColumn(column.name, column.type, column.comment) for column in schema.columns),
            item.options,
            schema.primary_key,
            schema.primary_key_name,
            item.partition_keys,
            item.comment,
        )


def _table(identifier: ObjectIdentifier, external_table: ExternalTable) -> CatalogTable:
    key = set(external_table.primary_key)
    columns = tuple(
        Column(c.name, c.type.not_null() if c.name in key else c.type, comment=c.comment)
        for c in external_table.columns
    )
    schema = TableSchema(columns, external_table.primary_key, external_table.primary_key_name)
    return CatalogTable(
        identifier, schema, external_table.options, external_table.partition_keys, external_table.comment
    )


class _NoFunctions(MutableMapping[tuple[str, str], CatalogFunction]):
    """The functions of a catalog that cannot keep any."""

    def __init__(self, catalog: ExternalCatalog) -> None:
        self._catalog = catalog

    def __getitem__(self, key: tuple[str, str]) -> CatalogFunction:
        raise KeyError(key)

    def __setitem__(self, key: tuple[str, str], function: CatalogFunction) -> None:
        raise self._catalog.refusal("keep functions", "CREATE TEMPORARY FUNCTION makes one of this session")

    def __delitem__(self, key: tuple[str, str]) -> None:
        raise KeyError(key)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(())

    def __len__(self) -> int:
        return 0
