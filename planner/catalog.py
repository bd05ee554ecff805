"""Catalogs, databases, tables and views, and how a name in SQL finds one of them.

Flink's ``CatalogManager`` over ``GenericInMemoryCatalog``: names are case-sensitive, a temporary object hides
the permanent one of the same name, and a session starts in ``default_catalog.default_database``. Nothing here
outlives the session.

Codes: CAT001 to CAT029.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from execnodes.errors import CatalogError, Place, nearest
from execnodes.rex import Rex
from execnodes.specs import Distribution
from execnodes.types import LogicalType, RowField

__all__ = [
    "DEFAULT_CATALOG",
    "DEFAULT_DATABASE",
    "CatalogManager",
    "CatalogObject",
    "CatalogTable",
    "CatalogView",
    "Column",
    "Database",
    "ObjectIdentifier",
    "TableSchema",
    "WatermarkSpec",
    "quote",
]

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"
PHYSICAL, COMPUTED, METADATA = "PHYSICAL", "COMPUTED", "METADATA"


def quote(name: str) -> str:
    """``name`` in backquotes, as Flink writes identifiers."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, order=True)
class ObjectIdentifier:
    """The full name of a table or view."""

    catalog: str
    database: str
    name: str

    def __str__(self) -> str:
        return f"{quote(self.catalog)}.{quote(self.database)}.{quote(self.name)}"

    @property
    def summary(self) -> str:
        """The name as Flink's messages show it: without backquotes."""
        return f"{self.catalog}.{self.database}.{self.name}"

    @property
    def parts(self) -> tuple[str, str, str]:
        return (self.catalog, self.database, self.name)


@dataclass(frozen=True)
class Column:
    """A column of a resolved schema.

    Attributes:
        name: as declared; case matters.
        type: of the column in the table's full row (for COMPUTED the type of its expression).
        kind: ``PHYSICAL``, ``COMPUTED`` or ``METADATA``.
        expression: of a COMPUTED column, as parsed; positions point into the DDL's script.
        rex: of a COMPUTED column, over the table's physical and metadata columns, in their order.
        expression_sql: of a COMPUTED column, Flink's ``serializableString`` (every name backquoted).
        metadata_key: of a METADATA column whose key is not its name (``FROM 'key'``).
        virtual: of a METADATA column: read only, left out when writing.
        comment: COMMENT text.
    """

    name: str
    type: LogicalType
    kind: str = PHYSICAL
    expression: exp.Expression | None = field(default=None, compare=False, repr=False)
    rex: Rex | None = field(default=None, compare=False, repr=False)
    expression_sql: str | None = None
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None

    @property
    def is_physical(self) -> bool:
        return self.kind == PHYSICAL

    @property
    def is_computed(self) -> bool:
        return self.kind == COMPUTED

    @property
    def is_metadata(self) -> bool:
        return self.kind == METADATA

    @property
    def is_persisted(self) -> bool:
        """Whether INSERT writes it."""
        return self.kind == PHYSICAL or (self.kind == METADATA and not self.virtual)


@dataclass(frozen=True)
class WatermarkSpec:
    """``WATERMARK FOR column AS expression``; ``rex`` is over all columns of the table, in order."""

    column: str
    expression: exp.Expression | None = field(default=None, compare=False, repr=False)
    rex: Rex | None = field(default=None, compare=False, repr=False)
    expression_sql: str = ""


@dataclass(frozen=True)
class TableSchema:
    """Columns in declared order, with keys and watermarks.

    ``primary_key_name`` is the constraint's name; Flink invents ``PK_<columns joined by _>`` when none is
    given.
    """

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    primary_key_name: str | None = None
    watermarks: tuple[WatermarkSpec, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def physical(self) -> tuple[Column, ...]:
        """The columns the connector reads from its format."""
        return tuple(c for c in self.columns if c.is_physical)

    @property
    def persisted(self) -> tuple[Column, ...]:
        """The columns INSERT writes: physical and non-virtual metadata ones."""
        return tuple(c for c in self.columns if c.is_persisted)

    @property
    def fields(self) -> list[tuple[str, LogicalType]]:
        """All columns as (name, type)."""
        return [(c.name, c.type) for c in self.columns]

    @property
    def row_type(self) -> LogicalType:
        """All columns as a ROW type."""
        return _row(self.columns)

    @property
    def physical_row_type(self) -> LogicalType:
        return _row(self.physical)

    def column(self, name: str) -> Column | None:
        """The column of this exact name, or None."""
        return next((c for c in self.columns if c.name == name), None)

    def index(self, name: str) -> int:
        """Position of the column in :attr:`columns`.

        Raises:
            KeyError: there is none.
        """
        for i, column in enumerate(self.columns):
            if column.name == name:
                return i
        raise KeyError(name)

    def primary_key_indexes(self) -> tuple[int, ...]:
        """Positions of the primary key's columns."""
        return tuple(self.index(name) for name in self.primary_key)


def _row(columns: Iterable[Column]) -> LogicalType:
    return LogicalType("ROW", nullable=False, fields=tuple(RowField(c.name, c.type) for c in columns))


@dataclass(frozen=True)
class CatalogTable:
    """A table as CREATE TABLE declared it. ``options`` keeps the order of the WITH clause."""

    identifier: ObjectIdentifier
    schema: TableSchema
    options: Mapping[str, str]
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    temporary: bool = False
    distribution: Distribution | None = None

    kind = "TABLE"

    def with_options(self, changes: Mapping[str, str]) -> CatalogTable:
        """The same table with ``changes`` laid over its options (an OPTIONS hint, ALTER TABLE SET)."""
        return replace(self, options={**self.options, **changes})


@dataclass(frozen=True)
class CatalogView:
    """A view: its query as parsed (positions point into the script that made it) and the schema of its rows.

    ``source`` is the whole text that the positions in ``query`` point into. ``catalog`` and ``database`` are
    what was current when the view was made: names inside ``query`` are resolved there.
    """

    identifier: ObjectIdentifier
    query: exp.Expression = field(compare=False, repr=False)
    sql: str
    schema: TableSchema
    temporary: bool = False
    comment: str | None = None
    source: str = field(default="", compare=False, repr=False)
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE

    kind = "VIEW"


CatalogObject: TypeAlias = CatalogTable | CatalogView


@dataclass
class Database:
    """One database of a catalog: permanent objects by name."""

    name: str
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    objects: dict[str, CatalogObject] = field(default_factory=dict)


class CatalogManager:
    """All catalogs of a session, what is current, and the session's temporary objects."""

    def __init__(self, catalog: str = DEFAULT_CATALOG, database: str = DEFAULT_DATABASE) -> None:
        self._catalogs: dict[str, dict[str, Database]] = {catalog: {database: Database(database)}}
        self._defaults: dict[str, str] = {catalog: database}
        self._temporary: dict[ObjectIdentifier, CatalogObject] = {}
        self.current_catalog = catalog
        self.current_database: str = database

    def as_permanent(self) -> CatalogManager:
        """A view of this catalog, for reading, in which temporary objects are not marked as such: a plan made from it
        holds their definitions too."""
        other = copy.copy(self)
        vars(other)["_temporary"] = {key: replace(item, temporary=False) for key, item in self._temporary.items()}
        return other

    # names

    def qualify(self, parts: Sequence[str], place: Place | None = None) -> ObjectIdentifier:
        """The full name that ``parts`` (one to three of them) mean now; nothing is looked up.

        Raises:
            CatalogError: CAT001, for none or more than three parts.
        """
        if not 1 <= len(parts) <= 3:
            raise CatalogError(
                "CAT001",
                f"a name with {len(parts)} parts",
                place=place,
                expected="table, database.table or catalog.database.table",
            )
        full = [self.current_catalog, self.current_database][: 3 - len(parts)] + list(parts)
        return ObjectIdentifier(*full)

    def find(self, parts: Sequence[str], place: Place | None = None) -> CatalogObject | None:
        """The table or view that ``parts`` name, a temporary one first; None when there is none."""
        identifier = self.qualify(parts, place)
        return self._temporary.get(identifier) or self._permanent(identifier)

    def lookup(self, identifier: ObjectIdentifier, temporary: bool) -> CatalogObject | None:
        """The temporary or the permanent object of this name, hidden or not; None when there is none."""
        return self._temporary.get(identifier) if temporary else self._permanent(identifier)

    def resolve(self, parts: Sequence[str], place: Place | None = None) -> CatalogObject:
        """The table or view that ``parts`` name.

        Raises:
            CatalogError: CAT002 no such table or view, CAT003 no such catalog, CAT004 no such database; each
                with the nearest name.
        """
        identifier = self.qualify(parts, place)
        found = self._temporary.get(identifier) or self._permanent(identifier)
        if found is not None:
            return found
        if len(parts) == 3 or identifier.catalog not in self._catalogs:
            self.require_catalog(identifier.catalog, place)
        self.require_database(identifier.catalog, identifier.database, place)
        raise CatalogError(
            "CAT002",
            f"table or view '{identifier.summary}' not found",
            place=place,
            expected=_one_of("a table or view", self._names(identifier)),
            hint=nearest(identifier.name, self._names(identifier)) or self._elsewhere(identifier),
        )

    def _permanent(self, identifier: ObjectIdentifier) -> CatalogObject | None:
        database = self._catalogs.get(identifier.catalog, {}).get(identifier.database)
        return database.objects.get(identifier.name) if database else None

    def _names(self, identifier: ObjectIdentifier) -> list[str]:
        return sorted(o.identifier.name for o in self.objects(identifier.catalog, identifier.database))

    def _elsewhere(self, identifier: ObjectIdentifier) -> str | None:
        for catalog in self._catalogs:
            for database in self._catalogs[catalog]:
                for found in self.objects(catalog, database):
                    if found.identifier.name == identifier.name:
                        return f"there is a '{found.identifier.summary}'"
        return None

    # catalogs and databases

    def require_catalog(self, name: str, place: Place | None = None) -> None:
        """Raises CatalogError CAT003 when there is no such catalog."""
        if name not in self._catalogs:
            raise CatalogError(
                "CAT003",
                f"catalog '{name}' not found",
                place=place,
                expected=_one_of("a catalog", self._catalogs),
                hint=nearest(name, self._catalogs),
            )

    def require_database(self, catalog: str, name: str, place: Place | None = None) -> Database:
        """The database. Raises CatalogError CAT003 or CAT004 when it is not there."""
        self.require_catalog(catalog, place)
        databases = self._catalogs[catalog]
        if name not in databases:
            raise CatalogError(
                "CAT004",
                f"database '{catalog}.{name}' not found",
                place=place,
                expected=_one_of("a database", databases),
                hint=nearest(name, databases),
            )
        return databases[name]

    def list_catalogs(self) -> list[str]:
        return sorted(self._catalogs)

    def list_databases(self, catalog: str | None = None, place: Place | None = None) -> list[str]:
        catalog = self.current_catalog if catalog is None else catalog
        self.require_catalog(catalog, place)
        return sorted(self._catalogs[catalog])

    def create_catalog(
        self,
        name: str,
        *,
        default_database: str = "default",
        if_not_exists: bool = False,
        place: Place | None = None,
    ) -> None:
        """Adds an in-memory catalog. Raises CatalogError CAT005 when the name is taken."""
        if name in self._catalogs:
            if if_not_exists:
                return
            raise CatalogError("CAT005", f"catalog '{name}' already exists", place=place)
        self._catalogs[name] = {default_database: Database(default_database)}
        self._defaults[name] = default_database

    def drop_catalog(self, name: str, *, if_exists: bool = False, place: Place | None = None) -> None:
        """Removes a catalog with all its databases.

        Raises CatalogError CAT003; CAT006 for the current one.
        """
        if name not in self._catalogs and if_exists:
            return
        self.require_catalog(name, place)
        if name == self.current_catalog:
            raise CatalogError(
                "CAT006",
                f"catalog '{name}' is in use and cannot be dropped",
                place=place,
                hint="USE CATALOG another one first",
            )
        del self._catalogs[name]
        del self._defaults[name]

    def create_database(
        self,
        catalog: str,
        name: str,
        *,
        comment: str | None = None,
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        place: Place | None = None,
    ) -> None:
        """Adds a database. Raises CatalogError CAT003, or CAT007 when the name is taken."""
        self.require_catalog(catalog, place)
        if name in self._catalogs[catalog]:
            if if_not_exists:
                return
            raise CatalogError("CAT007", f"database '{catalog}.{name}' already exists", place=place)
        self._catalogs[catalog][name] = Database(name, comment, dict(options or {}))

    def drop_database(
        self,
        catalog: str,
        name: str,
        *,
        if_exists: bool = False,
        cascade: bool = False,
        place: Place | None = None,
    ) -> None:
        """Removes a database.

        Raises:
            CatalogError: CAT004 not found, CAT008 not empty and not CASCADE, CAT009 it is the current one.
        """
        if if_exists and name not in self._catalogs.get(catalog, {}):
            return
        database = self.require_database(catalog, name, place)
        if (catalog, name) == (self.current_catalog, self.current_database):
            raise CatalogError(
                "CAT009",
                f"database '{catalog}.{name}' is in use and cannot be dropped",
                place=place,
                hint="USE another one first",
            )
        if database.objects and not cascade:
            raise CatalogError(
                "CAT008",
                f"database '{catalog}.{name}' is not empty",
                place=place,
                expected=f"no tables or views, or CASCADE; it has {_listed(database.objects)}",
            )
        del self._catalogs[catalog][name]

    def use_catalog(self, name: str, place: Place | None = None) -> None:
        """Makes the catalog current, and its default database. Raises CatalogError CAT003."""
        self.require_catalog(name, place)
        if name != self.current_catalog:
            self.current_catalog = name
            self.current_database = self._defaults[name]

    def use_database(self, parts: Sequence[str], place: Place | None = None) -> None:
        """Makes ``[catalog.]database`` current. Raises CatalogError CAT001, CAT003, CAT004."""
        if not 1 <= len(parts) <= 2:
            raise CatalogError(
                "CAT001",
                f"a database name with {len(parts)} parts",
                place=place,
                expected="database or catalog.database",
            )
        catalog, name = [self.current_catalog, *parts][-2:]
        self.require_database(catalog, name, place)
        self.current_catalog, self.current_database = catalog, name

    # tables and views

    def objects(self, catalog: str | None = None, database: str | None = None) -> list[CatalogObject]:
        """The tables and views visible in a database, by name; temporary ones hide permanent ones."""
        catalog = self.current_catalog if catalog is None else catalog
        database = self.current_database if database is None else database
        permanent = self._catalogs.get(catalog, {}).get(database)
        found = dict(permanent.objects) if permanent else {}
        for identifier, item in self._temporary.items():
            if (identifier.catalog, identifier.database) == (catalog, database):
                found[identifier.name] = item
        return [found[name] for name in sorted(found)]

    def list_tables(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        """Names of tables and views, as SHOW TABLES lists them."""
        return [o.identifier.name for o in self.objects(catalog, database)]

    def list_views(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        return [o.identifier.name for o in self.objects(catalog, database) if isinstance(o, CatalogView)]

    def create(self, item: CatalogObject, *, if_not_exists: bool = False, place: Place | None = None) -> bool:
        """Adds a table or view; returns whether it was added.

        Raises:
            CatalogError: CAT003, CAT004 (no such catalog or database); CAT010 (the name is taken).
        """
        identifier = item.identifier
        database = self.require_database(identifier.catalog, identifier.database, place)
        taken = self._temporary.get(identifier) if item.temporary else database.objects.get(identifier.name)
        if taken is not None:
            if if_not_exists:
                return False
            sort = "temporary " if item.temporary else ""
            raise CatalogError(
                "CAT010",
                f"{sort}{taken.kind.lower()} '{identifier.summary}' already exists",
                place=place,
                hint="use IF NOT EXISTS, another name, or drop it first",
            )
        self._store(item)
        return True

    def replace(self, item: CatalogObject) -> None:
        """Puts ``item`` in the place of the object of the same name and sort (ALTER)."""
        self._store(item)

    def _store(self, item: CatalogObject) -> None:
        if item.temporary:
            self._temporary[item.identifier] = item
        else:
            self._catalogs[item.identifier.catalog][item.identifier.database].objects[item.identifier.name] = item

    def drop(
        self,
        parts: Sequence[str],
        *,
        kind: str,
        temporary: bool = False,
        if_exists: bool = False,
        place: Place | None = None,
    ) -> bool:
        """Removes a table (``kind`` TABLE) or view (VIEW); returns whether something was removed.

        Raises:
            CatalogError: CAT002 no such table or view, CAT011 it is of the other kind, CAT012 a temporary
                object hides the permanent one.
        """
        identifier = self.qualify(parts, place)
        hidden = self._temporary.get(identifier)
        item = hidden if temporary else self._permanent(identifier)
        other = {"TABLE": "VIEW", "VIEW": "TABLE"}[kind]
        if hidden is not None and not temporary:
            raise CatalogError(
                "CAT012",
                f"a temporary {hidden.kind.lower()} named '{identifier.summary}' hides the permanent one"
                if item
                else f"'{identifier.summary}' is a temporary {hidden.kind.lower()}",
                place=place,
                hint=f"DROP TEMPORARY {hidden.kind} {identifier.name}",
            )
        if item is None:
            if if_exists:
                return False
            names = sorted(
                o.identifier.name
                for o in self.objects(identifier.catalog, identifier.database)
                if o.kind == kind and o.temporary == temporary
            )
            sort = "temporary " if temporary else ""
            raise CatalogError(
                "CAT002",
                f"{sort}{kind.lower()} '{identifier.summary}' not found",
                place=place,
                expected=_one_of(f"a {sort}{kind.lower()}", names),
                hint=nearest(identifier.name, names),
            )
        if item.kind != kind:
            raise CatalogError(
                "CAT011",
                f"'{identifier.summary}' is a {item.kind.lower()}, not a {kind.lower()}",
                place=place,
                hint=f"DROP {'TEMPORARY ' if temporary else ''}{other} {identifier.name}",
            )
        if temporary:
            del self._temporary[identifier]
        else:
            del self._catalogs[identifier.catalog][identifier.database].objects[identifier.name]
        return True

    def rename(self, parts: Sequence[str], new_parts: Sequence[str], place: Place | None = None) -> None:
        """Renames a permanent table or view within its database.

        Raises CatalogError CAT002, CAT010, CAT012.
        """
        identifier, new = self.qualify(parts, place), self.qualify(new_parts, place)
        item = self.resolve(parts, place)
        if item.temporary:
            raise CatalogError(
                "CAT012",
                f"'{identifier.summary}' is a temporary {item.kind.lower()}, which cannot be renamed",
                place=place,
                hint="drop it and create it under the new name",
            )
        new = ObjectIdentifier(identifier.catalog, identifier.database, new.name)
        if self._permanent(new) is not None:
            raise CatalogError("CAT010", f"{item.kind.lower()} '{new.summary}' already exists", place=place)
        del self._catalogs[identifier.catalog][identifier.database].objects[identifier.name]
        self._store(replace(item, identifier=new))


def _listed(names: Iterable[str], most: int = 8) -> str:
    shown = sorted(names)
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def _one_of(what: str, names: Iterable[str]) -> str:
    listed = _listed(names)
    return f"{what}: {listed}" if listed else f"{what}; there is none yet"
