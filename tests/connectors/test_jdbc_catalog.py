"""The catalog of a PostgreSQL server: names with dots."""

from __future__ import annotations

import pytest

from stateplan.connectors.jdbc.catalog import JdbcCatalog
from tests.support.postgres import PASSWORD, USER, Database


def catalog(database: Database) -> JdbcCatalog:
    url = f"jdbc:postgresql://{database.server.host}:{database.server.port}"
    given = {"base-url": url, "default-database": database.name, "username": USER, "password": PASSWORD}
    return JdbcCatalog("pg", given)


@pytest.mark.parametrize(
    ("schema", "table", "written"),
    [
        ("a.b", "t", '"a.b".t'),
        ("a.b", "c.d", '"a.b"."c.d"'),
        ("a", "b.c", 'a."b.c"'),
        ("a.", "t", '"a.".t'),
        ("a", ".t", 'a.".t"'),
        ("a.b", 'c."d', '"a.b"."c.""d"'),
    ],
)
def test_every_table_that_is_listed_can_be_named(database: Database, schema: str, table: str, written: str) -> None:
    quoted = table.replace('"', '""')
    database.execute(f'CREATE SCHEMA "{schema}"', f'CREATE TABLE "{schema}"."{quoted}" (x int)')
    found = catalog(database)
    assert found.tables(database.name) == [f"{schema}.{table}"]
    described = found.table(database.name, f"{schema}.{table}")
    assert described is not None and described.options["table-name"] == written
    assert found.table(database.name, f"{schema}.{table}x") is None


def test_the_first_of_two_tables_with_one_name(database: Database) -> None:
    for schema, table, column in (("a.b", "c", "later"), ("a", "b.c", "first")):
        database.execute(f'CREATE SCHEMA "{schema}"', f'CREATE TABLE "{schema}"."{table}" ({column} int)')
    described = catalog(database).table(database.name, "a.b.c")
    assert described is not None and [column.name for column in described.columns] == ["first"]
