"""The catalog of a PostgreSQL server: its databases, and their tables without CREATE TABLE.

A table is called ``schema.table``, in backquotes; without a schema it is one of ``public``. Like Flink's, the catalog
shows tables, and no views, and changes nothing. The tables are those of the connector ``jdbc``.

Source: Flink's ``JdbcCatalogFactory``, ``AbstractJdbcCatalog`` and ``PostgresCatalog``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import quote

from stateplan.common.errors import CatalogError, OptionError, RunError
from stateplan.common.options import Option, OptionType
from stateplan.connectors.catalogs import CatalogType, ExternalCatalog, ExternalColumn, ExternalTable
from stateplan.connectors.jdbc.address import places_of, properties_of, server_of
from stateplan.connectors.jdbc.columns import find_table, flink_type, primary_key_of
from stateplan.connectors.jdbc.postgres import Server, execute, literal, quote_name, rows

_SECONDS = 15
"""After which an attempt to connect, or a query of the catalog, is cancelled: somebody waits for it."""

_DATABASES = "SELECT datname::text FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1"
_TABLES = (
    "SELECT table_schema::text, table_name::text FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
    "AND table_schema <> 'information_schema' AND table_schema NOT LIKE 'pg\\_%'"
)
_TYPES = (
    *("boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric of at most 38 digits", "text"),
    *("varchar", "char", "bytea", "date", "time", "timestamp", "timestamptz", "uuid", "arrays of these"),
)
_STRING = OptionType.STRING


class JdbcCatalogType(CatalogType):
    """``'type' = 'jdbc'``."""

    name = "jdbc"
    options = (
        Option("base-url", _STRING, "URL of the server without a database: `jdbc:postgresql://host:port`.",
               is_required=True),
        Option("default-database", _STRING, "The database that is current after USE CATALOG.", is_required=True),
        Option("username", _STRING, "User of the server."),
        Option("password", _STRING, "Password of the user. A reference such as `${env:PGPASSWORD}` keeps it out of "
               "files."),
        Option("properties.*", _STRING, "Property of the connections, named as in the JDBC driver."),
        Option("compatible-mode", _STRING, "How the server behaves, for OceanBase.",
               no_effect="the server is PostgreSQL"),
    )  # fmt: skip

    def open(self, name: str, options: Mapping[str, str]) -> ExternalCatalog:
        return JdbcCatalog(name, options)

    def places(self, options: Mapping[str, str]) -> Iterator[str]:
        return places_of(options.get("base-url", ""), properties_of(options))


class JdbcCatalog(ExternalCatalog):
    """The databases of a server.

    Args:
        name: under which a session knows it.
        options: the options of CREATE CATALOG; references to secrets stay in them.

    Raises:
        OptionError: OPT166, the base URL names a database; OPT145 to OPT147, it cannot be used.
    """

    kind: ClassVar[str] = JdbcCatalogType.name

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name, options["default-database"])
        self._options = options
        self._server(self.default_database)

    def __repr__(self) -> str:
        return f"JdbcCatalog({self.name!r})"

    def _url(self, database: str) -> str:
        """The URL of a database. Raises OptionError OPT166."""
        base, mark, parameters = self._options["base-url"].partition("?")
        base = base.rstrip("/")
        if "/" in base.partition("://")[2]:
            raise OptionError("OPT166", url=base)
        return f"{base}/{quote(database, safe='')}{mark}{parameters}"

    def _server(self, database: str) -> Server:
        options = self._options
        owner = f"the catalog '{self.name}' of type 'jdbc'"
        user, password = options.get("username"), options.get("password")
        return server_of(self._url(database), user, password, properties_of(options), _SECONDS * 1000, owner)

    @contextmanager
    def _connection(self, database: str) -> Iterator[Any]:
        with self._server(database).connection(autocommit=True) as connection:
            execute(connection, f"SET statement_timeout = '{_SECONDS}s'")
            yield connection

    def connect(self) -> None:
        with self._connection(self.default_database):
            return

    def databases(self) -> list[str]:
        with self._connection(self.default_database) as connection:
            return [str(row[0]) for row in rows(connection, _DATABASES)]

    def tables(self, database: str) -> list[str]:
        try:
            with self._connection(database) as connection:
                return [f"{schema}.{table}" for schema, table in rows(connection, _TABLES)]
        except RunError as error:
            if error.code == "RUN142":
                return []
            raise

    def table(self, database: str, name: str) -> ExternalTable | None:
        try:
            with self._connection(database) as connection:
                names = _readings(name)
                pairs = ", ".join(f"({literal(schema)}, {literal(own)})" for schema, own in names)
                matches = rows(connection, f"{_TABLES} AND (table_schema, table_name) IN ({pairs})")
                schema_and_name = next((pair for pair in names if pair in matches), None)
                return None if schema_and_name is None else self._describe_table(connection, database, *schema_and_name)
        except RunError as error:
            if error.code in ("RUN142", "RUN143"):  # or it went away meanwhile
                return None
            raise

    def _describe_table(self, connection: Any, database: str, schema: str, name: str) -> ExternalTable:
        table_info = find_table(connection, self._server(database), f"{quote_name(schema)}.{quote_name(name)}")
        key_name, key = primary_key_of(connection, table_info.oid)
        columns = []
        for column in table_info.columns:
            kind = flink_type(column.type, column.modifier)
            if kind is None:
                raise CatalogError(
                    "CAT117.type_of_column",
                    column=column.name,
                    table=f"{self.name}.{database}.{table_info.path}",
                    type=column.sql_type,
                    types=_TYPES,
                    connector=self.kind,
                )
            columns.append(ExternalColumn(column.name, kind.as_nullable(not column.not_null)))
        own = {key: text for key, text in self._options.items() if key in ("username", "password")}
        own |= {key: text for key, text in self._options.items() if key.startswith("properties.")}
        options = {
            "connector": "jdbc",
            "url": self._url(database),
            "table-name": f"{_part(table_info.schema)}.{_part(table_info.name)}",
            **own,
        }
        return ExternalTable(tuple(columns), options, key, key_name)


def _readings(name: str) -> list[tuple[str, str]]:
    """What a name can mean, the most likely first: schema and table, either of which may have dots in its name."""
    dots = [at for at, character in enumerate(name) if character == "."]
    return [(name[:at], name[at + 1 :]) for at in dots] or [("public", name)]


def _part(name: str) -> str:
    """A part of the option ``table-name``: in double quotes where it could be taken for several."""
    return quote_name(name) if "." in name or '"' in name else name
