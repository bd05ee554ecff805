"""Catalogs of others whose changes stay in a session, for those who declare tables only to compile queries.

A test or a review runs the declarations of a script. What these create, change and drop in a catalog of files or
of another system has to be there for the queries behind them, and must not be there afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import TypeVar

from stateplan.planner.catalog.catalogs import Catalog, Database, MemoryCatalog
from stateplan.planner.catalog.manager import CatalogDescriptor, CatalogManager, CatalogStore
from stateplan.planner.catalog.objects import CatalogObject, CatalogTable, ObjectIdentifier

K = TypeVar("K")
V = TypeVar("V")


def hold_changes(catalog: CatalogManager) -> None:
    """From now on, what a session changes in catalogs of others, and in the catalog store, stays in the session."""
    open_catalog, store = catalog.open_catalog, catalog.store
    descriptors: dict[str, CatalogDescriptor | None] = {}

    def open_overlay(name: str, descriptor: CatalogDescriptor) -> Catalog:
        base = open_catalog(name, descriptor)
        return base if isinstance(base, MemoryCatalog) else OverlayCatalog(base)

    def overlay_store() -> CatalogStore | None:
        base = store()
        return None if base is None else _OverlayStore(base, descriptors)

    catalog.open_catalog, catalog.store = open_overlay, overlay_store


class _Overlay(MutableMapping[K, V]):
    """A mapping with the changes of another one, which stays as it is."""

    def __init__(self, base: MutableMapping[K, V]) -> None:
        self._base = base
        self._changes: dict[K, V | None] = {}

    def __getitem__(self, key: K) -> V:
        if key not in self._changes:
            return self._base[key]
        value = self._changes[key]
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._changes[key] = value

    def __delitem__(self, key: K) -> None:
        self[key]
        self._changes[key] = None

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self._base if key not in self._changes)
        yield from (key for key, value in self._changes.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class OverlayCatalog(Catalog):
    """A catalog with the changes of a session, which the catalog itself does not get.

    Args:
        base: the catalog.
    """

    def __init__(self, base: Catalog) -> None:
        self.name, self.default_database, self.is_local = base.name, base.default_database, base.is_local
        self.functions = _Overlay(base.functions)
        self._base = base
        self._databases: dict[str, Database | None] = {}
        self._objects: dict[tuple[str, str], CatalogObject | None] = {}

    def connect(self) -> None:
        self._base.connect()

    def refresh(self) -> None:
        self._base.refresh()

    def databases(self) -> list[str]:
        own = [name for name, database in self._databases.items() if database is not None]
        return [*(name for name in self._base.databases() if name not in self._databases), *own]

    def database(self, name: str) -> Database | None:
        return self._databases[name] if name in self._databases else self._base.database(name)

    def create_database(self, database: Database) -> bool:
        if self.database(database.name) is not None:
            return False
        self._databases[database.name] = database
        return True

    def drop_database(self, name: str) -> None:
        self._databases[name] = None
        self._objects = {key: item for key, item in self._objects.items() if key[0] != name}
        for key in [key for key in self.functions if key[0] == name]:
            del self.functions[key]

    def kinds(self, database: str) -> dict[str, str]:
        base_kinds = {} if database in self._databases else self._base.kinds(database)
        own = {name: item for (of, name), item in self._objects.items() if of == database}
        changed_kinds = {name: item.kind for name, item in own.items() if item is not None}
        return {name: kind for name, kind in base_kinds.items() if name not in own} | changed_kinds

    def kind(self, identifier: ObjectIdentifier) -> str | None:
        key = (identifier.database, identifier.name)
        if key in self._objects:
            item = self._objects[key]
            return None if item is None else item.kind
        return None if identifier.database in self._databases else self._base.kind(identifier)

    def find(self, identifier: ObjectIdentifier) -> CatalogObject | None:
        key = (identifier.database, identifier.name)
        if key in self._objects:
            return self._objects[key]
        return None if identifier.database in self._databases else self._base.find(identifier)

    def create(self, item: CatalogObject) -> bool:
        """Raises as the catalog, for a table that it cannot have."""
        if self.kind(item.identifier) is not None:
            return False
        self._put(self._base.complete_table(item) if isinstance(item, CatalogTable) else item)
        return True

    def complete_table(self, item: CatalogTable) -> CatalogTable:
        return self._base.complete_table(item)

    def inherited_options(self, options: Mapping[str, str]) -> dict[str, str]:
        return self._base.inherited_options(options)

    def replace(self, item: CatalogObject) -> None:
        self._put(item)

    def drop(self, identifier: ObjectIdentifier) -> None:
        self._objects[identifier.database, identifier.name] = None

    def rename(self, identifier: ObjectIdentifier, name: str) -> bool:
        target = ObjectIdentifier(identifier.catalog, identifier.database, name)
        item = self.find(identifier)
        if item is None or self.kind(target) is not None:
            return False
        self.drop(identifier)
        self._put(replace(item, identifier=target))
        return True

    def _put(self, item: CatalogObject) -> None:
        self._objects[item.identifier.database, item.identifier.name] = item


class _OverlayStore:
    """A catalog store with the changes of a session.

    Args:
        base: the store.
        descriptors: the changes; None for a catalog that was dropped.
    """

    def __init__(self, base: CatalogStore, descriptors: dict[str, CatalogDescriptor | None]) -> None:
        self._base, self._descriptors = base, descriptors

    def names(self) -> list[str]:
        own = [name for name, descriptor in self._descriptors.items() if descriptor is not None]
        return [*(name for name in self._base.names() if name not in self._descriptors), *own]

    def read(self, name: str) -> CatalogDescriptor | None:
        return self._descriptors[name] if name in self._descriptors else self._base.read(name)

    def write(self, name: str, descriptor: CatalogDescriptor) -> bool:
        if self.read(name) is not None:
            return False
        self._descriptors[name] = descriptor
        return True

    def remove(self, name: str) -> None:
        self._descriptors[name] = None
