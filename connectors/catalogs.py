"""What a catalog of a connector is: the tables that a database or a table format has, without CREATE TABLE.

A type of catalog is a class like a connector: it declares its options, and makes the object that answers. One of
another package is a class under the entry point group ``stateplan.catalogs``. Importing this loads no engine.

Source: Flink's ``Catalog`` and ``CatalogFactory``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from stateplan.common.errors import CatalogError, OptionError, Place, nearest, one_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, accepted_value, match, parse_value
from stateplan.common.types import LogicalType


@dataclass(frozen=True)
class ExternalColumn:
    """A column of a table: its name, its type, and what it is for."""

    name: str
    type: LogicalType
    comment: str | None = None


@dataclass(frozen=True)
class ExternalTable:
    """A table as its catalog has it.

    Attributes:
        columns: in order; those of the primary key are NOT NULL.
        options: the options of the WITH clause that would declare the table, ``connector`` among them. References to
            secrets stay references.
        primary_key: names of columns.
        primary_key_name: the name of the constraint.
        partition_keys: the columns of PARTITIONED BY.
        comment: the comment of the table.
    """

    columns: tuple[ExternalColumn, ...]
    options: Mapping[str, str] = field(repr=False)
    primary_key: tuple[str, ...] = ()
    primary_key_name: str | None = None
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None


class ExternalCatalog(ABC):
    """Databases and tables that are somewhere else. Its methods are called by one thread at a time, ask anew each
    time, and give up in bounded time.

    They raise a StateplanError when what they ask does not answer. Those that change something raise CatalogError
    CAT110 unless a subclass overrides them.

    Attributes:
        name: under which a session knows it.
        kind: the type of catalog.
        default_database: the one that is current after USE CATALOG.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, default_database: str) -> None:
        self.name = name
        self.default_database = default_database

    def connect(self) -> None:  # noqa: B027 - nothing by default
        """Finds out whether it answers: when it is created, and when it becomes the current catalog."""

    def refresh(self) -> None:  # noqa: B027 - nothing by default
        """Called before each statement: what it was told before may be old."""

    @abstractmethod
    def databases(self) -> list[str]:
        """Names of the databases."""

    @abstractmethod
    def tables(self, database: str) -> list[str]:
        """Names of the tables of a database; none if there is no such database."""

    @abstractmethod
    def table(self, database: str, name: str) -> ExternalTable | None:
        """A table; None if there is none of this name.

        Raises:
            CatalogError: CAT117, it has something that a table here cannot have, such as a type.
        """

    def create_table(self, database: str, name: str, table: ExternalTable) -> bool:
        """Makes a table; False if there is one of this name."""
        raise self.refusal("create tables")

    def options_of_new(self, database: str, name: str, table: ExternalTable) -> Mapping[str, str]:
        """The options that a table will have after :meth:`create_table`: those in the statement, and those that the
        catalog adds. CREATE TABLE AS plans its job with them, before it creates the table.

        Raises:
            CatalogError: CAT110, the catalog cannot create tables; and as :meth:`create_table`.
        """
        if type(self).create_table is ExternalCatalog.create_table:
            raise self.refusal("create tables")
        return table.options

    def inherited_options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Those of a table of this catalog that a table made here by LIKE takes over: not those that the catalog
        adds by itself."""
        return options

    def drop_table(self, database: str, name: str) -> None:
        """Removes a table that is there."""
        raise self.refusal("drop tables")

    def alter_table(self, database: str, name: str, options: Mapping[str, str]) -> None:
        """Replaces the options of an existing table."""
        raise self.refusal("change tables")

    def alter_columns(self, database: str, name: str, table: ExternalTable) -> None:
        """Replaces the columns and the primary key of an existing table.

        A statement adds columns, or changes some, removes some, or renames one: a column that comes in the place of
        another one, with its type, is that one under another name.

        Args:
            database: of the table.
            name: of the table.
            table: the table after the change.
        """
        raise self.refusal("change tables")

    def rename_table(self, database: str, name: str, new_name: str) -> bool:
        """Renames an existing table; False if the new name is in use."""
        raise self.refusal("rename tables")

    def create_database(self, name: str) -> bool:
        """Makes a database; False if there is one of this name."""
        raise self.refusal("create databases")

    def drop_database(self, name: str) -> None:
        """Removes a database that is there."""
        raise self.refusal("drop databases")

    def refusal(self, action: str, hint: str | None = None) -> CatalogError:
        """CAT110, for what the catalog does not do, such as ``create tables``."""
        return CatalogError("CAT110", name=self.name, kind=self.kind, what=action, hint=hint)


class CatalogType(ABC):
    """A type of catalog, as CREATE CATALOG names it.

    Attributes:
        name: the value of ``type``.
        options: besides ``type``.
        paths: keys of options that are paths or URLs of files.
    """

    name: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()
    paths: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def open(self, name: str, options: Mapping[str, str]) -> ExternalCatalog:
        """The catalog of a name.

        Args:
            name: under which a session knows it.
            options: as written, checked, without ``type``.

        Raises:
            OptionError: the options do not fit together.
        """

    def programs(self, options: Mapping[str, str]) -> Iterable[str]:
        """The options that run a program, as :meth:`Connector.programs` has them for a table."""
        return ()

    def places(self, options: Mapping[str, str]) -> Iterable[str]:
        """Servers and files that a catalog reaches, as :meth:`Connector.places` of a table."""
        return ()

    def value(self, options: Mapping[str, str], key: str) -> Any:
        """The parsed value of an option, or its default. References to secrets stay in it."""
        option = next(o for o in self.options if o.key == key)
        return parse_value(option, options[key], key) if key in options else option.default


def catalog_values(
    kind: str,
    catalog_options: Sequence[Option],
    options: Mapping[str, str],
    place: Place | None = None,
    places: Mapping[str, Place] | None = None,
) -> dict[str, Any]:
    """The values of the options of a catalog: those written, and the defaults of the others.

    Args:
        kind: the type of the catalog.
        catalog_options: its options.
        options: as written, without ``type``.
        place: the place of the statement.
        places: the places of its options, by key.

    Raises:
        OptionError: OPT004, an option that there is not, or that is missing; OPT105, a value that cannot be read;
            OPT107, one that cannot be honoured.
    """
    table, places = {option.key: option for option in catalog_options}, places or {}
    values = {option.key: option.default for option in catalog_options if not option.key.endswith("*")}
    for key, text in options.items():
        option, option_place = match(key, table), places.get(key, place)
        if option is None:
            problem, keys = f"a catalog of type '{kind}' has no option '{key}'", one_of(["type", *table])
            raise OptionError("OPT004", problem=problem, place=option_place, expected=keys, hint=nearest(key, table))
        values[key] = accepted_value(option, text, key, option_place)
    for option in catalog_options:
        if option.is_required and option.key not in options:
            near = nearest(option.key, [key for key in options if key not in table])
            problem = f"a catalog of type '{kind}' needs the option '{option.key}'"
            raise OptionError("OPT004", problem=problem, place=place, expected=option.description, hint=near)
    return values
