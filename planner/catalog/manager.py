"""Catalogs and databases, and how a name in SQL finds a table or a view.

Flink's ``CatalogManager``: names are case-sensitive, a temporary object hides the permanent one of the same name, and a
session starts in ``default_catalog.default_database``, which is in memory. What other catalogs there are and where
they keep what they have, :mod:`planner.catalog.kinds` knows. A catalog store knows catalogs of earlier sessions.

Codes: CAT001 to CAT029.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from stateplan.common.errors import CatalogError, Place, StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.planner.catalog.catalogs import IN_MEMORY, Catalog, CatalogFunctions, Database, MemoryCatalog
from stateplan.planner.catalog.correlations import Correlations
from stateplan.planner.catalog.functions import CatalogFunction, FoundFunction, FunctionCatalog
from stateplan.planner.catalog.objects import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogObject,
    CatalogTable,
    ObjectIdentifier,
)

if TYPE_CHECKING:
    from stateplan.common.types import LogicalType


@dataclass(frozen=True)
class CatalogDescriptor:
    """What CREATE CATALOG said of a catalog: its options, ``type`` among them, and its comment."""

    options: Mapping[str, str]
    comment: str | None = None


class CatalogStore(Protocol):
    """Where definitions of catalogs outlive a session."""

    def names(self) -> list[str]:
        """Of the catalogs. Raises CatalogError."""

    def read(self, name: str) -> CatalogDescriptor | None:
        """The definition of a catalog; None if there is none. Raises CatalogError."""

    def write(self, name: str, descriptor: CatalogDescriptor) -> bool:
        """Keeps a definition; False if there is one of this name. Raises CatalogError."""

    def remove(self, name: str) -> None:
        """Forgets a definition. Raises CatalogError."""


class CatalogManager:
    """All catalogs of a session with their functions, what is current, and the session's temporary objects.

    Attributes:
        correlations: the names of rows around.
        check_table: raises StateplanError when a statement must not use a table with these options, which it gives
            in a hint: to plan a query is to look at the folders of its tables.
        check_function: raises StateplanError when a session must not import a function of Python.
        open_catalog: makes the catalog of a name and a definition; raises StateplanError.
        query_fields: name and type of the columns of a query, from the tables of a view of this catalog and the text
            that it was read from; raises StateplanError.
        store: the catalog store; None without one. Raises OptionError.
        time_zone: the time zone of the session.
    """

    check_table: Callable[[Mapping[str, str], Place | None], None]
    check_function: Callable[[CatalogFunction, Place | None], None]
    open_catalog: Callable[[str, CatalogDescriptor], Catalog]
    query_fields: Callable[[exp.Expr, CatalogManager, str], list[tuple[str, LogicalType]]]
    store: Callable[[], CatalogStore | None]
    time_zone: Callable[[], str]

    def __init__(self, catalog: str = DEFAULT_CATALOG, database: str = DEFAULT_DATABASE) -> None:
        self._catalogs: dict[str, Catalog] = {catalog: MemoryCatalog(catalog, database)}
        self._descriptors = {catalog: CatalogDescriptor({"default-database": database, "type": IN_MEMORY})}
        self._from_store: dict[str, tuple[CatalogDescriptor, Catalog]] = {}
        self._temporary: dict[ObjectIdentifier, CatalogObject] = {}
        self._stray: dict[str, CatalogFunctions] = {}
        self.creation: tuple[CatalogTable, CatalogTable] | None = None
        self.current_catalog = catalog
        self.current_database: str = database
        self.functions = FunctionCatalog(self)
        self.correlations = Correlations()
        self.check_table = lambda options, place: None
        self.check_function = lambda function, place: None
        self.open_catalog = lambda name, descriptor: MemoryCatalog(name)
        self.query_fields = lambda query, catalog, source: []
        self.store = lambda: None
        self.time_zone = lambda: "UTC"

    def as_permanent(self) -> CatalogManager:
        """A view of this catalog, for reading, in which temporary objects are not marked as such: a plan made from it
        holds their definitions too."""
        other = copy.copy(self)
        vars(other)["_temporary"] = {key: replace(item, temporary=False) for key, item in self._temporary.items()}
        return other

    @contextmanager
    def creating(self, declared_table: CatalogTable, sink: CatalogTable) -> Iterator[None]:
        """Within the block an INSERT is that of CREATE TABLE ... AS: its rows have the columns of ``declared_table``,
        in their order, and go into ``sink``, which need not be in the catalog. Queries do not see it."""
        self.creation = (declared_table, sink)
        try:
            yield
        finally:
            self.creation = None

    def seen_from(self, catalog: str, database: str) -> CatalogManager:
        """A view of this catalog, for reading, in which another catalog and database are current."""
        other = copy.copy(self)
        other.current_catalog, other.current_database = catalog, database
        return other

    def refresh(self) -> None:
        """Called before each statement. Cached answers of catalogs are no longer used."""
        for catalog in [*self._catalogs.values(), *(catalog for _, catalog in self._from_store.values())]:
            catalog.refresh()

    # functions

    def functions_of(self, catalog: str) -> CatalogFunctions:
        """The functions of a catalog, by database and name in small letters. Those of a catalog that is not there are
        known to this session alone. Raises CatalogError."""
        owner = self._catalog(catalog)
        return self._stray.setdefault(catalog, {}) if owner is None else owner.functions

    def nearby_functions(self) -> Iterable[CatalogFunction]:
        """The functions of catalogs that ask nobody."""
        for catalog in self._nearby():
            for key in catalog.functions:
                with suppress(StateplanError):  # the error is raised when the function is used
                    yield catalog.functions[key]
        for functions in self._stray.values():
            yield from functions.values()

    def function(self, parts: Sequence[str], place: Place | None, built_in: bool) -> FoundFunction | None:
        """The user-defined function that a call names; see :meth:`FunctionCatalog.resolve_call`."""
        return self.functions.resolve_call(parts, (self.current_catalog, self.current_database), place, built_in)

    # names

    def qualify(self, parts: Sequence[str], place: Place | None = None) -> ObjectIdentifier:
        """The full name that ``parts`` (one to three of them) mean now; nothing is looked up.

        Raises:
            CatalogError: CAT001, for none or more than three parts.
        """
        if not 1 <= len(parts) <= 3:
            raise CatalogError("CAT001", count=len(parts), what="name", place=place)
        full = [self.current_catalog, self.current_database][: 3 - len(parts)] + list(parts)
        return ObjectIdentifier(*full)

    def find(self, parts: Sequence[str], place: Place | None = None) -> CatalogObject | None:
        """The table or view that ``parts`` name, a temporary one first; None if there is none."""
        identifier = self.qualify(parts, place)
        return self._temporary.get(identifier) or self._permanent(identifier)

    def is_temporary(self, parts: Sequence[str]) -> bool:
        """Whether ``parts`` name a temporary table or view. It queries no catalog."""
        return self.qualify(parts) in self._temporary

    def is_there(self, identifier: ObjectIdentifier, temporary: bool) -> bool:
        """Whether there is a temporary or a permanent object of this name, hidden or not, whatever it is."""
        return identifier in self._temporary if temporary else self._kind(identifier) is not None

    def lookup(self, identifier: ObjectIdentifier, temporary: bool) -> CatalogObject | None:
        """The temporary or the permanent object of this name, hidden or not; None if there is none."""
        return self._temporary.get(identifier) if temporary else self._permanent(identifier)

    def resolve(self, parts: Sequence[str], place: Place | None = None) -> CatalogObject:
        """The table or view that ``parts`` name.

        Raises:
            CatalogError: CAT002 no such table or view, CAT003 no such catalog, CAT004 no such database; each
                with the nearest name.
        """
        identifier = self.qualify(parts, place)
        try:
            item = self._temporary.get(identifier) or self._permanent(identifier)
        except StateplanError as error:
            error.place = error.place or place
            raise
        if item is not None:
            return item
        self.require_database(identifier.catalog, identifier.database, place)
        raise CatalogError(
            "CAT002",
            summary=identifier.summary,
            kind="table or view",
            place=place,
            expected=_one_of("a table or view", self._names(identifier)),
            hint=nearest(identifier.name, self._names(identifier)) or self._elsewhere(identifier),
        )

    def _catalog(self, name: str) -> Catalog | None:
        """The catalog; one of the store is opened when it is first used, and again when its definition changes."""
        catalog = self._catalogs.get(name)
        if catalog is not None:
            return catalog
        store = self.store()
        descriptor = None if store is None else store.read(name)
        if descriptor is None:
            self._from_store.pop(name, None)
            return None
        cached_descriptor, catalog = self._from_store.get(name, (None, None))
        if catalog is None or cached_descriptor != descriptor:
            catalog = self.open_catalog(name, descriptor)
            self._from_store[name] = (descriptor, catalog)
        return catalog

    def _nearby(self) -> Iterator[Catalog]:
        for name in self.list_catalogs():
            try:
                catalog = self._catalog(name)
            except StateplanError:  # the error is raised when the catalog is used
                continue
            if catalog is not None and catalog.is_local:
                yield catalog

    def _permanent(self, identifier: ObjectIdentifier) -> CatalogObject | None:
        catalog = self._catalog(identifier.catalog)
        return None if catalog is None else catalog.find(identifier)

    def _kind(self, identifier: ObjectIdentifier) -> str | None:
        catalog = self._catalog(identifier.catalog)
        return None if catalog is None else catalog.kind(identifier)

    def _names(self, identifier: ObjectIdentifier) -> list[str]:
        return self.list_tables(identifier.catalog, identifier.database)

    def _elsewhere(self, identifier: ObjectIdentifier) -> str | None:
        for catalog in self._nearby():
            for database in sorted(catalog.databases()):
                if identifier.name in self.kinds(catalog.name, database):
                    return f"there is a '{catalog.name}.{database}.{identifier.name}'"
        return None

    # catalogs and databases

    def require_catalog(self, name: str, place: Place | None = None) -> Catalog:
        """The catalog. Raises CatalogError CAT003, none has this name."""
        catalog = self._catalog(name)
        if catalog is None:
            names = self.list_catalogs()
            hint = nearest(name, names)
            raise CatalogError("CAT003", name=name, place=place, expected=_one_of("a catalog", names), hint=hint)
        return catalog

    def is_local(self, name: str) -> bool:
        """Whether there is such a catalog, and it asks nobody for what it has."""
        return any(catalog.name == name for catalog in self._nearby())

    def describe_catalog(self, name: str, place: Place | None = None) -> CatalogDescriptor:
        """What a catalog was created with; it is not opened. Raises CatalogError CAT003 when there is no such
        catalog."""
        store = self.store()
        descriptor = self._descriptors.get(name) or (None if store is None else store.read(name))
        if descriptor is None:
            self.require_catalog(name, place)
            raise AssertionError("a catalog without a descriptor")
        return descriptor

    def require_database(self, catalog: str, name: str, place: Place | None = None) -> Database:
        """The database. Raises CatalogError CAT003 or CAT004 when it is not there."""
        owner = self.require_catalog(catalog, place)
        database = owner.database(name)
        if database is None:
            names = owner.databases()
            raise CatalogError(
                "CAT004",
                catalog=catalog,
                name=name,
                place=place,
                expected=_one_of("a database", names),
                hint=nearest(name, names),
            )
        return database

    def list_catalogs(self) -> list[str]:
        """Names of the session's catalogs, and those of the catalog store."""
        store = self.store()
        return sorted({*self._catalogs, *(() if store is None else store.names())})

    def list_databases(self, catalog: str | None = None, place: Place | None = None) -> list[str]:
        catalog = self.current_catalog if catalog is None else catalog
        return sorted(self.require_catalog(catalog, place).databases())

    def create_catalog(
        self,
        name: str,
        *,
        default_database: str = "default",
        descriptor: CatalogDescriptor | None = None,
        if_not_exists: bool = False,
        place: Place | None = None,
    ) -> bool:
        """Adds a catalog, to the catalog store if there is one; returns whether it was added.

        Args:
            name: the name of the catalog.
            default_database: the default database of a catalog in memory, without a descriptor.
            descriptor: what it is.
            if_not_exists: whether one of this name is not an error.
            place: the place of the name.

        Raises:
            CatalogError: CAT005 when the name is taken.
            StateplanError: the catalog cannot be opened.
        """
        store = self.store()
        if name in self._catalogs or (store is not None and name in store.names()):
            if if_not_exists:
                return False
            raise CatalogError("CAT005", name=name, place=place)
        if descriptor is None:
            descriptor = CatalogDescriptor({"type": IN_MEMORY})
            catalog: Catalog = MemoryCatalog(name, default_database)
        else:
            catalog = self.open_catalog(name, descriptor)
            catalog.connect()
        if store is None:
            self._catalogs[name], self._descriptors[name] = catalog, descriptor
        elif store.write(name, descriptor):
            self._from_store[name] = (descriptor, catalog)
        elif not if_not_exists:
            raise CatalogError("CAT005", name=name, place=place)
        return True

    def drop_catalog(self, name: str, *, if_exists: bool = False, place: Place | None = None) -> None:
        """Forgets a catalog. One in memory is gone with all its databases; what others have stays where it is.

        Raises CatalogError CAT003; CAT006 for the current one.
        """
        store = self.store()
        is_stored = store is not None and name in store.names()
        if name not in self._catalogs and not is_stored:
            if if_exists:
                return
            self.require_catalog(name, place)
        if name == self.current_catalog:
            raise CatalogError("CAT006", name=name, place=place)
        if name in self._catalogs:
            del self._catalogs[name], self._descriptors[name]
        elif store is not None:
            store.remove(name)
            self._from_store.pop(name, None)

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
        """Adds a database. Raises CatalogError CAT003; CAT007 when the name is taken; CAT110."""
        owner = self.require_catalog(catalog, place)
        if if_not_exists and owner.database(name) is not None:
            return
        if not owner.create_database(Database(name, comment, dict(options or {}))) and not if_not_exists:
            raise CatalogError("CAT007", catalog=catalog, name=name, place=place)

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
            CatalogError: CAT004 not found, CAT008 not empty and not CASCADE, CAT009 it is the current one, CAT110.
        """
        owner = self._catalog(catalog)
        if if_exists and (owner is None or owner.database(name) is None):
            return
        self.require_database(catalog, name, place)
        assert owner is not None
        if (catalog, name) == (self.current_catalog, self.current_database):
            raise CatalogError("CAT009", catalog=catalog, name=name, place=place)
        contents = [*owner.kinds(name), *(function for database, function in owner.functions if database == name)]
        if contents and not cascade:
            raise CatalogError("CAT008", catalog=catalog, name=name, listed=_name_list(contents), place=place)
        owner.drop_database(name)

    def use_catalog(self, name: str, place: Place | None = None) -> None:
        """Makes the catalog current, and its default database. Raises CatalogError CAT003."""
        catalog = self.require_catalog(name, place)
        if name != self.current_catalog:
            catalog.connect()
            self.current_catalog = name
            self.current_database = catalog.default_database

    def use_database(self, parts: Sequence[str], place: Place | None = None) -> None:
        """Makes ``[catalog.]database`` current. Raises CatalogError CAT001, CAT003, CAT004."""
        if not 1 <= len(parts) <= 2:
            raise CatalogError("CAT001", count=len(parts), what="database name", place=place)
        catalog, name = [self.current_catalog, *parts][-2:]
        self.require_database(catalog, name, place)
        self.current_catalog, self.current_database = catalog, name

    @contextmanager
    def at(self, catalog: str, database: str) -> Iterator[None]:
        """Within the block another catalog and database are current, as when a view was made."""
        current = self.current_catalog, self.current_database
        self.current_catalog, self.current_database = catalog, database
        try:
            yield
        finally:
            self.current_catalog, self.current_database = current

    # tables and views

    def temporary(self, catalog: str | None = None, database: str | None = None) -> dict[str, CatalogObject]:
        """The temporary tables and views of a database. Anonymous tables, whose names begin with ``*``, are not among
        them."""
        namespace = (catalog or self.current_catalog, database or self.current_database)
        return {
            identifier.name: item
            for identifier, item in self._temporary.items()
            if (identifier.catalog, identifier.database) == namespace and identifier.name[:1] != "*"
        }

    def kinds(self, catalog: str | None = None, database: str | None = None) -> dict[str, str]:
        """The names that are visible in a database, sorted, and whether each is a TABLE or a VIEW; temporary objects
        hide permanent ones. Raises CatalogError."""
        catalog = self.current_catalog if catalog is None else catalog
        database = self.current_database if database is None else database
        owner = self._catalog(catalog)
        kinds_by_name = {} if owner is None else owner.kinds(database)
        kinds_by_name |= {name: item.kind for name, item in self.temporary(catalog, database).items()}
        return dict(sorted(kinds_by_name.items()))

    def list_tables(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        """Names of tables and views, as SHOW TABLES lists them."""
        return list(self.kinds(catalog, database))

    def list_views(self, catalog: str | None = None, database: str | None = None) -> list[str]:
        return [name for name, kind in self.kinds(catalog, database).items() if kind == "VIEW"]

    def create(self, item: CatalogObject, *, if_not_exists: bool = False, place: Place | None = None) -> bool:
        """Adds a table or view; returns whether it was added.

        Raises:
            CatalogError: CAT003, CAT004 (no such catalog or database); CAT010 (the name is taken); CAT110.
        """
        identifier = item.identifier
        self.require_database(identifier.catalog, identifier.database, place)
        if self._add(item):
            return True
        if if_not_exists:
            return False
        kind_in_use = self._temporary[identifier].kind if item.temporary else self._kind(identifier) or item.kind
        sort = "temporary " if item.temporary else ""
        raise CatalogError("CAT010", sort=sort, kind=kind_in_use.lower(), summary=identifier.summary, place=place)

    def _add(self, item: CatalogObject) -> bool:
        if not item.temporary:
            return self.require_catalog(item.identifier.catalog).create(item)
        if item.identifier in self._temporary:
            return False
        self._temporary[item.identifier] = item
        return True

    def replace(self, item: CatalogObject) -> None:
        """Puts ``item`` in the place of the object of the same name and sort (ALTER). Raises CatalogError CAT110."""
        if item.temporary:
            self._temporary[item.identifier] = item
        else:
            self.require_catalog(item.identifier.catalog).replace(item)

    def remove(self, item: CatalogObject) -> None:
        """Removes a permanent object, hidden or not."""
        self.require_catalog(item.identifier.catalog).drop(item.identifier)

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

        Raises CatalogError, as :meth:`require_droppable`; CAT110.
        """
        if not self.require_droppable(parts, kind=kind, temporary=temporary, if_exists=if_exists, place=place):
            return False
        identifier = self.qualify(parts, place)
        if temporary:
            del self._temporary[identifier]
        else:
            self.require_catalog(identifier.catalog, place).drop(identifier)
        return True

    def require_droppable(
        self,
        parts: Sequence[str],
        *,
        kind: str,
        temporary: bool = False,
        if_exists: bool = False,
        place: Place | None = None,
    ) -> bool:
        """Whether there is a table (``kind`` TABLE) or view (VIEW) of the name, which DROP may remove.

        Raises:
            CatalogError: CAT002 no such table or view, CAT011 it is of the other kind, CAT012 a temporary
                object hides the permanent one.
        """
        identifier = self.qualify(parts, place)
        temporary_object = self._temporary.get(identifier)
        actual_kind = (
            temporary_object.kind if temporary and temporary_object else None if temporary else self._kind(identifier)
        )
        other = {"TABLE": "VIEW", "VIEW": "TABLE"}[kind]
        if temporary_object is not None and not temporary:
            raise CatalogError(
                "CAT012",
                kind=temporary_object.kind.lower(),
                problem="hides the permanent one" if actual_kind else "needs DROP TEMPORARY",
                summary=identifier.summary,
                drop=f"DROP TEMPORARY {temporary_object.kind} {identifier.name}",
                place=place,
            )
        if actual_kind is None:
            if if_exists:
                return False
            hiding = self.temporary(identifier.catalog, identifier.database)
            kinds = self.kinds(identifier.catalog, identifier.database)
            names = [n for n, kind_of_name in kinds.items() if kind_of_name == kind and (n in hiding) == temporary]
            sort = "temporary " if temporary else ""
            raise CatalogError(
                "CAT002",
                kind=sort + kind.lower(),
                summary=identifier.summary,
                place=place,
                expected=_one_of(f"a {sort}{kind.lower()}", names),
                hint=nearest(identifier.name, names),
            )
        if actual_kind != kind:
            raise CatalogError(
                "CAT011",
                summary=identifier.summary,
                item=actual_kind.lower(),
                kind=kind.lower(),
                place=place,
                hint=f"DROP {'TEMPORARY ' if temporary else ''}{other} {identifier.name}",
            )
        return True

    def rename(self, parts: Sequence[str], new_parts: Sequence[str], place: Place | None = None) -> None:
        """Renames a permanent table or view within its database.

        Raises CatalogError CAT002, CAT010, CAT012.
        """
        identifier, new = self.qualify(parts, place), self.qualify(new_parts, place)
        item = self.resolve(parts, place)
        if item.temporary:
            raise CatalogError(
                "CAT012", summary=identifier.summary, kind=item.kind.lower(), problem="cannot be renamed", place=place
            )
        if not self.require_catalog(identifier.catalog, place).rename(identifier, new.name):
            name_in_use = ObjectIdentifier(identifier.catalog, identifier.database, new.name)
            hint = "choose another name, or drop it first"
            raise CatalogError(
                "CAT010", kind=item.kind.lower(), sort="", summary=name_in_use.summary, place=place, hint=hint
            )


def _name_list(names: Iterable[str], most: int = 8) -> str:
    sorted_names = sorted(names)
    return ", ".join(sorted_names[:most]) + (
        f" and {len(sorted_names) - most} more" if len(sorted_names) > most else ""
    )


def _one_of(subject: str, names: Iterable[str]) -> str:
    list_text = _name_list(names)
    return f"{subject}: {list_text}" if list_text else f"{subject}; there is none yet"
