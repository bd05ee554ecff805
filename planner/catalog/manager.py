"""Catalogs and databases, and how a name in SQL finds a table or a view.

Flink's ``CatalogManager`` over ``GenericInMemoryCatalog``: names are case-sensitive, a temporary object hides
the permanent one of the same name, and a session starts in ``default_catalog.default_database``. Nothing here
outlives the session.

Codes: CAT001 to CAT029.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from stateplan.execnodes.errors import CatalogError, Place, nearest
from stateplan.planner.catalog.functions import FoundFunction, FunctionCatalog
from stateplan.planner.catalog.objects import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogObject,
    CatalogView,
    ObjectIdentifier,
)

IN_MEMORY = "generic_in_memory"
"""The type of all catalogs."""


@dataclass
class Database:
    """One database of a catalog: permanent objects by name."""

    name: str
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    objects: dict[str, CatalogObject] = field(default_factory=dict)


@dataclass(frozen=True)
class CatalogDescriptor:
    """What CREATE CATALOG said of a catalog: its options, ``type`` among them, and its comment."""

    options: Mapping[str, str]
    comment: str | None = None


class CatalogManager:
    """All catalogs of a session with their functions, what is current, and the session's temporary objects.

    Attributes:
        check_table: raises StateplanError when a statement must not use a table with these options, which it gives
            in a hint: to plan a query is to look at the folders of its tables.
    """

    check_table: Callable[[Mapping[str, str], Place | None], None]

    def __init__(self, catalog: str = DEFAULT_CATALOG, database: str = DEFAULT_DATABASE) -> None:
        self._catalogs: dict[str, dict[str, Database]] = {catalog: {database: Database(database)}}
        self._defaults: dict[str, str] = {catalog: database}
        self._descriptors = {catalog: CatalogDescriptor({"default-database": database, "type": IN_MEMORY})}
        self._temporary: dict[ObjectIdentifier, CatalogObject] = {}
        self.current_catalog = catalog
        self.current_database: str = database
        self.functions = FunctionCatalog()
        self.check_table = lambda options, place: None

    def as_permanent(self) -> CatalogManager:
        """A view of this catalog, for reading, in which temporary objects are not marked as such: a plan made from it
        holds their definitions too."""
        other = copy.copy(self)
        vars(other)["_temporary"] = {key: replace(item, temporary=False) for key, item in self._temporary.items()}
        return other

    def function(self, parts: Sequence[str], place: Place | None, built_in: bool) -> FoundFunction | None:
        """The user-defined function that a call names; see :meth:`FunctionCatalog.called`."""
        return self.functions.called(parts, (self.current_catalog, self.current_database), place, built_in)

    # names

    def qualify(self, parts: Sequence[str], place: Place | None = None) -> ObjectIdentifier:
        """The full name that ``parts`` (one to three of them) mean now; nothing is looked up.

        Raises:
            CatalogError: CAT001, for none or more than three parts.
        """
        if not 1 <= len(parts) <= 3:
            raise CatalogError("CAT001", count=len(parts), place=place)
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
            summary=identifier.summary,
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
                name=name,
                place=place,
                expected=_one_of("a catalog", self._catalogs),
                hint=nearest(name, self._catalogs),
            )

    def describe_catalog(self, name: str, place: Place | None = None) -> CatalogDescriptor:
        """What a catalog was created with. Raises CatalogError CAT003 when there is no such catalog."""
        self.require_catalog(name, place)
        return self._descriptors[name]

    def require_database(self, catalog: str, name: str, place: Place | None = None) -> Database:
        """The database. Raises CatalogError CAT003 or CAT004 when it is not there."""
        self.require_catalog(catalog, place)
        databases = self._catalogs[catalog]
        if name not in databases:
            raise CatalogError(
                "CAT004",
                catalog=catalog,
                name=name,
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
        descriptor: CatalogDescriptor | None = None,
        if_not_exists: bool = False,
        place: Place | None = None,
    ) -> None:
        """Adds an in-memory catalog. Raises CatalogError CAT005 when the name is taken."""
        if name in self._catalogs:
            if if_not_exists:
                return
            raise CatalogError("CAT005", name=name, place=place)
        self._catalogs[name] = {default_database: Database(default_database)}
        self._defaults[name] = default_database
        self._descriptors[name] = descriptor or CatalogDescriptor({"type": IN_MEMORY})

    def drop_catalog(self, name: str, *, if_exists: bool = False, place: Place | None = None) -> None:
        """Removes a catalog with all its databases.

        Raises CatalogError CAT003; CAT006 for the current one.
        """
        if name not in self._catalogs and if_exists:
            return
        self.require_catalog(name, place)
        if name == self.current_catalog:
            raise CatalogError("CAT006", name=name, place=place)
        del self._catalogs[name]
        del self._defaults[name]
        del self._descriptors[name]

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
            raise CatalogError("CAT007", catalog=catalog, name=name, place=place)
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
            raise CatalogError("CAT009", catalog=catalog, name=name, place=place)
        if database.objects and not cascade:
            raise CatalogError("CAT008", catalog=catalog, name=name, listed=_listed(database.objects), place=place)
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
            raise CatalogError("CAT001.use_database", count=len(parts), place=place)
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

    def objects(self, catalog: str | None = None, database: str | None = None) -> list[CatalogObject]:
        """The tables and views visible in a database, by name; temporary ones hide permanent ones. Anonymous tables,
        whose names begin with ``*``, are not among them."""
        catalog = self.current_catalog if catalog is None else catalog
        database = self.current_database if database is None else database
        permanent = self._catalogs.get(catalog, {}).get(database)
        found = dict(permanent.objects) if permanent else {}
        for identifier, item in self._temporary.items():
            if (identifier.catalog, identifier.database) == (catalog, database) and identifier.name[:1] != "*":
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
            raise CatalogError("CAT010", sort=sort, kind=taken.kind.lower(), summary=identifier.summary, place=place)
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
                "CAT012.hides" if item else "CAT012.temporary",
                kind=hidden.kind.lower(),
                summary=identifier.summary,
                drop=f"DROP TEMPORARY {hidden.kind} {identifier.name}",
                place=place,
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
                "CAT002.drop",
                sort=sort,
                kind=kind.lower(),
                summary=identifier.summary,
                place=place,
                expected=_one_of(f"a {sort}{kind.lower()}", names),
                hint=nearest(identifier.name, names),
            )
        if item.kind != kind:
            raise CatalogError(
                "CAT011",
                summary=identifier.summary,
                item=item.kind.lower(),
                kind=kind.lower(),
                suffix="TEMPORARY " if temporary else "",
                other=other,
                name=identifier.name,
                place=place,
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
            raise CatalogError("CAT012", summary=identifier.summary, kind=item.kind.lower(), place=place)
        new = ObjectIdentifier(identifier.catalog, identifier.database, new.name)
        if self._permanent(new) is not None:
            raise CatalogError("CAT010.rename", kind=item.kind.lower(), summary=new.summary, place=place)
        del self._catalogs[identifier.catalog][identifier.database].objects[identifier.name]
        self._store(replace(item, identifier=new))


def _listed(names: Iterable[str], most: int = 8) -> str:
    shown = sorted(names)
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def _one_of(what: str, names: Iterable[str]) -> str:
    listed = _listed(names)
    return f"{what}: {listed}" if listed else f"{what}; there is none yet"
