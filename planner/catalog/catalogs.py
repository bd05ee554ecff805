"""What a catalog is to a session, and the catalog in memory.

Source: Flink's ``Catalog`` and ``GenericInMemoryCatalog``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from dataclasses import field, replace
from typing import TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.planner.catalog.functions import CatalogFunction
from stateplan.planner.catalog.objects import CatalogObject, CatalogTable, ObjectIdentifier

IN_MEMORY = "generic_in_memory"
"""The type of catalogs that end with their session."""

CatalogFunctions: TypeAlias = MutableMapping[tuple[str, str], CatalogFunction]
"""The functions of a catalog by database and name in small letters."""


@dataclass(frozen=True)
class Database:
    """One database of a catalog."""

    name: str
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)


class Catalog(ABC):
    """Databases with their tables, views and functions. A session asks it for what it needs, each time anew.

    Every method raises CatalogError, CAT110 when the catalog does not implement it.

    Attributes:
        name: under which the session knows it.
        default_database: the one that is current after USE CATALOG.
        is_local: whether its names are at hand, so that it may be searched for what a user may have meant.
        functions: the functions of all databases.
    """

    name: str
    default_database: str
    is_local: bool = True
    functions: CatalogFunctions

    def connect(self) -> None:  # noqa: B027 - nothing by default
        """Finds out whether it answers: when it is created, and when it becomes the current catalog."""

    @abstractmethod
    def databases(self) -> list[str]:
        """Names of databases, in no order."""

    @abstractmethod
    def database(self, name: str) -> Database | None:
        """The database; None if there is none."""

    @abstractmethod
    def create_database(self, database: Database) -> bool:
        """Adds a database; False if there is one of this name."""

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Removes a database with all that is in it."""

    @abstractmethod
    def kinds(self, database: str) -> dict[str, str]:
        """The names in a database, and whether each is a ``TABLE`` or a ``VIEW``; none if there is no such database."""

    def kind(self, identifier: ObjectIdentifier) -> str | None:
        """Whether the name is a ``TABLE`` or a ``VIEW``; None if there is none."""
        return self.kinds(identifier.database).get(identifier.name)

    @abstractmethod
    def find(self, identifier: ObjectIdentifier) -> CatalogObject | None:
        """The table or view; None if there is none."""

    @abstractmethod
    def create(self, item: CatalogObject) -> bool:
        """Adds a table or view to a database that is there; False if there is one of this name."""

    def complete_table(self, item: CatalogTable) -> CatalogTable:
        """A table that is about to be created here, with the options that the catalog will add. Raises as
        :meth:`create`."""
        return item

    def inherited_options(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options of a table of this catalog that a table made here by LIKE takes over."""
        return dict(options)

    @abstractmethod
    def replace(self, item: CatalogObject) -> None:
        """Puts a table or view in the place of the one of this name and kind."""

    @abstractmethod
    def drop(self, identifier: ObjectIdentifier) -> None:
        """Removes a table or view."""

    @abstractmethod
    def rename(self, identifier: ObjectIdentifier, name: str) -> bool:
        """Renames a table or view within its database; False if the new name is in use."""

    def refresh(self) -> None:  # noqa: B027 - nothing by default
        """Called before each statement. Cached answers of the external system are no longer used."""


class MemoryCatalog(Catalog):
    """A catalog that ends with its session.

    Args:
        name: the name of the catalog.
        default_database: its first database.
    """

    def __init__(self, name: str, default_database: str = "default") -> None:
        self.name = name
        self.default_database = default_database
        self.functions = {}
        self._databases: dict[str, Database] = {default_database: Database(default_database)}
        self._objects: dict[str, dict[str, CatalogObject]] = {default_database: {}}

    def databases(self) -> list[str]:
        return list(self._databases)

    def database(self, name: str) -> Database | None:
        return self._databases.get(name)

    def create_database(self, database: Database) -> bool:
        if database.name in self._databases:
            return False
        self._databases[database.name] = database
        self._objects[database.name] = {}
        return True

    def drop_database(self, name: str) -> None:
        del self._databases[name], self._objects[name]
        for key in [key for key in self.functions if key[0] == name]:
            del self.functions[key]

    def kinds(self, database: str) -> dict[str, str]:
        return {name: item.kind for name, item in self._objects.get(database, {}).items()}

    def find(self, identifier: ObjectIdentifier) -> CatalogObject | None:
        return self._objects.get(identifier.database, {}).get(identifier.name)

    def create(self, item: CatalogObject) -> bool:
        objects = self._objects[item.identifier.database]
        if item.identifier.name in objects:
            return False
        objects[item.identifier.name] = item
        return True

    def replace(self, item: CatalogObject) -> None:
        self._objects[item.identifier.database][item.identifier.name] = item

    def drop(self, identifier: ObjectIdentifier) -> None:
        del self._objects[identifier.database][identifier.name]

    def rename(self, identifier: ObjectIdentifier, name: str) -> bool:
        objects = self._objects[identifier.database]
        if name in objects:
            return False
        item = objects.pop(identifier.name)
        objects[name] = replace(item, identifier=ObjectIdentifier(identifier.catalog, identifier.database, name))
        return True
