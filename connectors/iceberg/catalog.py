"""An Iceberg catalog as a catalog of a session: its namespaces are databases, and its tables need no CREATE TABLE.

CREATE TABLE makes an empty table. The primary key becomes the identifier fields of the table. Data is never removed:
tables are not dropped here.

Source: ``FlinkCatalog`` and ``FlinkCatalogFactory`` of Iceberg's Flink module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from stateplan.common.errors import CatalogError, DataError, StateplanError
from stateplan.common.options import Option, OptionType
from stateplan.common.secrets import resolve_references
from stateplan.connectors.catalogs import CatalogType, ExternalCatalog, ExternalColumn, ExternalTable
from stateplan.connectors.extras import require
from stateplan.connectors.iceberg import DATABASE, TABLE, Iceberg
from stateplan.connectors.iceberg.access import (
    CATALOG_OPTIONS,
    CODE_KEYS,
    MERGES,
    CatalogAccess,
    TableAccess,
    catalog_options_of,
    check_catalog,
    check_name,
    places_of,
    programs_of,
)
from stateplan.connectors.iceberg.alter import alter_columns, alter_order, alter_partitions, alter_properties
from stateplan.connectors.iceberg.layout import (
    ORDERING,
    PARTITIONING,
    Term,
    order_of,
    order_text,
    partition_terms,
    partitioning_of,
    sort_terms,
    spec_of,
    terms_of,
)
from stateplan.connectors.iceberg.properties import properties_of
from stateplan.connectors.iceberg.schema import check_columns, columns_of, schema_of

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction


class IcebergCatalogType(CatalogType):
    """``'type' = 'iceberg'``."""

    name = "iceberg"
    options = (
        *CATALOG_OPTIONS,
        Option(
            "default-database",
            OptionType.STRING,
            "The database that is current after USE CATALOG.",
            default="default",
        ),
    )
    paths = ("warehouse",)

    def places(self, options: Mapping[str, str]) -> Iterator[str]:
        return places_of(options)

    def programs(self, options: Mapping[str, str]) -> Iterator[str]:
        return programs_of(options)

    def open(self, name: str, options: Mapping[str, str]) -> ExternalCatalog:
        return IcebergCatalog(name, options, self.value(options, "default-database"))


class IcebergCatalog(ExternalCatalog):
    """The tables of an Iceberg catalog.

    Args:
        name: under which a session knows it.
        options: the options of CREATE CATALOG; references to secrets stay in them.
        default_database: a database that exists even without a table.

    Raises:
        OptionError: OPT175, the options lead to no catalog.
    """

    kind: ClassVar[str] = IcebergCatalogType.name

    def __init__(self, name: str, options: Mapping[str, str], default_database: str) -> None:
        super().__init__(name, default_database)
        self._options = catalog_options_of(options)
        check_catalog(self._options)

    def __repr__(self) -> str:
        return f"IcebergCatalog({self.name!r})"

    @property
    def _access(self) -> CatalogAccess:
        return CatalogAccess({key: resolve_references(text, key) for key, text in self._options.items()})

    def _table(self, database: str, name: str) -> TableAccess:
        return TableAccess(".".join([self.name, database, name]), self._access, database, name)

    def connect(self) -> None:
        require("iceberg", "pyiceberg.catalog", f"the catalog '{self.name}' of type 'iceberg'")
        self.databases()

    def _library(self) -> tuple[CatalogAccess, Any]:
        """The catalog of the library; None where its file has not been made. Raises as :meth:`CatalogAccess.open`."""
        access = self._access
        try:
            return access, access.open()
        except DataError as error:
            if error.code != "DATA474":
                raise
            return access, None

    def databases(self) -> list[str]:
        access, catalog = self._library()
        if catalog is None:
            return [self.default_database]
        with access.reaching():
            return list(dict.fromkeys([self.default_database, *(".".join(n) for n in catalog.list_namespaces())]))

    def tables(self, database: str) -> list[str]:
        access, catalog = self._library()
        if catalog is None or not all(database.split(".")):
            return []
        try:
            with access.reaching(database):
                return [identifier[-1] for identifier in catalog.list_tables(tuple(database.split(".")))]
        except DataError as error:
            if error.code == "DATA474":
                return []
            raise

    def _open_table(self, database: str, name: str) -> Table | None:
        if not all([*database.split("."), name]):
            return None
        try:
            return self._table(database, name).open()
        except DataError as error:
            if error.code == "DATA474":
                return None
            raise

    def table(self, database: str, name: str) -> ExternalTable | None:
        handle = self._open_table(database, name)
        if handle is None:
            return None
        schema = handle.schema()
        columns = []
        for column in columns_of(schema):
            data_type = column.declared_type
            if data_type is None:
                raise CatalogError(
                    "CAT117.type_of_column",
                    column=column.name,
                    table=self._table(database, name).name,
                    type=column.type,
                    types="a type of Iceberg that SQL has too",
                    connector=self.kind,
                )
            columns.append(ExternalColumn(column.name, data_type, column.comment))
        key = tuple(c.name for c in columns_of(schema) if c.field_id in schema.identifier_field_ids)
        terms = partition_terms(schema, handle.spec())
        plain = all(term.transform == "identity" for term in terms)
        options = {**self._location_options(database, name), **_shown_properties(handle)}
        if terms and not plain:
            options[PARTITIONING] = ", ".join(term.text for term in terms)
        order = order_text(sort_terms(schema, handle.sort_order()))
        if order:
            options[ORDERING] = order
        return ExternalTable(
            tuple(columns),
            options,
            key,
            "PK_" + "_".join(key) if key else None,
            tuple(term.column for term in terms) if plain else (),
            handle.properties.get("comment"),
        )

    # what is made here

    def _location_options(self, database: str, name: str) -> dict[str, str]:
        """The options of a table that follow from where it is."""
        return {"connector": "iceberg", **self._options, DATABASE: database, TABLE: name}

    def inherited_options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {key: text for key, text in options.items() if key in (PARTITIONING, ORDERING)}

    def options_of_new(self, database: str, name: str, table: ExternalTable) -> Mapping[str, str]:
        """The options that the table will have.

        Raises:
            CatalogError: CAT102, a type that Iceberg does not have; CAT117, an option that is not a property of an
                Iceberg table; CAT118, a name that it cannot have.
            OptionError: OPT174, a layout that cannot be; OPT175, a property that names code.
        """
        properties = properties_of(table.options)
        layout = {key: table.options[key] for key in (PARTITIONING, ORDERING) if key in table.options}
        for key, text in table.options.items():
            if key not in properties and key not in layout and (key, text) != ("connector", "iceberg"):
                problem = f"the option '{key}'" if key != "connector" else f"the connector '{text}'"
                raise CatalogError("CAT117", name=self.name, kind=self.kind, what=problem)
        check_name(name)
        for key, text in properties.items():
            Iceberg().value({key: text}, key)
        check_columns([(column.name, column.type) for column in table.columns])
        self._layout(table)
        return {**self._location_options(database, name), **layout, **properties}

    def _layout(self, table: ExternalTable) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        names = [column.name for column in table.columns]
        return (
            partitioning_of(table.partition_keys, table.options.get(PARTITIONING), names),
            terms_of(table.options.get(ORDERING, ""), ORDERING, names),
        )

    def create_table(self, database: str, name: str, table: ExternalTable) -> bool:
        """Makes an empty table.

        Raises:
            CatalogError, OptionError: as :meth:`options_of_new`.
            DataError: DATA475, the catalog or the store does not answer.
        """
        properties = properties_of(self.options_of_new(database, name, table))
        if table.comment is not None:
            properties["comment"] = table.comment
        partitions, order = self._layout(table)
        fields = [(column.name, column.type) for column in table.columns]
        schema = schema_of(fields, table.primary_key, [column.comment for column in table.columns])
        return self._table(database, name).create(
            schema, spec_of(partitions, schema), order_of(order, schema), properties
        )

    def drop_table(self, database: str, name: str) -> None:
        raise self.refusal("drop tables, which would remove their data", "drop it with the engine that has made it")

    def alter_columns(self, database: str, name: str, table: ExternalTable) -> None:
        """Changes columns by their ids: a column that is renamed keeps its values.

        Raises:
            CatalogError: CAT102, a type that Iceberg does not have; CAT110, a change that Iceberg does not allow.
        """
        check_columns([(column.name, column.type) for column in table.columns])
        with self._change(database, name) as (transaction, handle):
            alter_columns(transaction, handle, table.columns, table.primary_key)

    def alter_table(self, database: str, name: str, options: Mapping[str, str]) -> None:
        """Changes properties, partitions and the order of rows.

        Raises:
            CatalogError: CAT110, a change that Iceberg does not allow; CAT117, an option that is no property.
            OptionError: OPT174, OPT175, as :meth:`options_of_new`.
        """
        table = self.table(database, name)
        assert table is not None
        location_options = self._location_options(database, name)
        changes = {key: text for key, text in options.items() if location_options.get(key) != text}
        self.options_of_new(database, name, replace(table, options=changes))
        partitions, order = self._layout(replace(table, options=options))
        with self._change(database, name) as (transaction, handle):
            if options.get(PARTITIONING) != table.options.get(PARTITIONING):
                alter_partitions(transaction, handle, partitions)
            if options.get(ORDERING) != table.options.get(ORDERING):
                alter_order(transaction, order)
            alter_properties(transaction, _shown_properties(handle), properties_of(options))

    @contextmanager
    def _change(self, database: str, name: str) -> Iterator[tuple[Transaction, Table]]:
        """A change of a table, in one commit. Raises CatalogError CAT110, with what the library says."""
        access = self._table(database, name)
        handle = access.open()
        transaction = handle.transaction()
        try:
            yield transaction, handle
            transaction.commit_transaction()
        except StateplanError:
            raise
        except Exception as error:  # whatever the library says of a change that it does not make
            raise self.refusal("make this change", access.error_text(error)) from None

    def rename_table(self, database: str, name: str, new_name: str) -> bool:
        check_name(new_name)
        if self._open_table(database, new_name) is not None:
            return False
        access = self._access
        catalog = access.open()
        with access.reaching():
            catalog.rename_table(self._table(database, name).identifier, self._table(database, new_name).identifier)
        return True

    def create_database(self, name: str) -> bool:
        for part in name.split("."):
            check_name(part)
        if name in self.databases():
            return False
        access = self._access
        catalog = access.open(create=True)
        with access.reaching():
            catalog.create_namespace(tuple(name.split(".")))
        return True

    def drop_database(self, name: str) -> None:
        if self.tables(name):
            raise self.refusal("drop tables, which would remove their data", "drop them with the engine that made them")
        access, catalog = self._library()
        if catalog is not None:
            with access.reaching():
                catalog.drop_namespace(tuple(name.split(".")))


def _shown_properties(handle: Table) -> dict[str, str]:
    """The properties that are options of the table, but what each table that is created here has."""
    properties = {key: text for key, text in handle.properties.items() if key not in CODE_KEYS}
    return {key: text for key, text in properties_of(properties).items() if (key, text) != (MERGES, "true")}
