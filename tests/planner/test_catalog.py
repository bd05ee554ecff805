"""Names, catalogs, databases, temporary objects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stateplan.common.errors import CatalogError
from stateplan.common.types import BIGINT, STRING
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable, CatalogView, Column, ObjectIdentifier, TableSchema
from stateplan.planner.dialect import parse_query

SCHEMA = TableSchema((Column("a", BIGINT), Column("b", STRING)), ("a",), "PK_a")


def table(manager: CatalogManager, *parts: str, temporary: bool = False) -> CatalogTable:
    made = CatalogTable(manager.qualify(parts), SCHEMA, {"connector": "print"}, temporary=temporary)
    manager.create(made)
    return made


def view(manager: CatalogManager, *parts: str, temporary: bool = False) -> CatalogView:
    made = CatalogView(manager.qualify(parts), parse_query("SELECT 1"), "SELECT 1", SCHEMA, temporary)
    manager.create(made)
    return made


@pytest.fixture
def manager() -> CatalogManager:
    manager = CatalogManager()
    manager.create_database("default_catalog", "sales")
    manager.create_catalog("other")
    table(manager, "orders")
    table(manager, "sales", "orders")
    table(manager, "other", "default", "lines")
    view(manager, "recent")
    return manager


def fails(action: Callable[[], object]) -> str:
    with pytest.raises(CatalogError) as raised:
        action()
    return str(raised.value)


def test_names_of_one_two_and_three_parts(manager: CatalogManager) -> None:
    assert str(manager.resolve(["orders"]).identifier) == "`default_catalog`.`default_database`.`orders`"
    assert manager.resolve(["sales", "orders"]).identifier.database == "sales"
    assert manager.resolve(["other", "default", "lines"]).identifier.catalog == "other"
    manager.use_database(["sales"])
    assert manager.resolve(["orders"]).identifier.database == "sales"
    manager.use_catalog("other")
    assert (manager.current_catalog, manager.current_database) == ("other", "default")
    assert manager.resolve(["lines"]).identifier.name == "lines"


def test_names_that_are_not_there(manager: CatalogManager) -> None:
    assert fails(lambda: manager.resolve(["ordres"])) == (
        "[CAT002] table or view 'default_catalog.default_database.ordres' not found\n"
        "  expected: a table or view: orders, recent\n  hint: did you mean 'orders'?"
    )
    assert fails(lambda: manager.resolve(["lines"])) == (
        "[CAT002] table or view 'default_catalog.default_database.lines' not found\n"
        "  expected: a table or view: orders, recent\n  hint: there is a 'other.default.lines'"
    )
    assert fails(lambda: manager.resolve(["sale", "orders"])) == (
        "[CAT004] database 'default_catalog.sale' not found\n"
        "  expected: a database: default_database, sales\n  hint: did you mean 'sales'?"
    )
    assert fails(lambda: manager.resolve(["othr", "default", "lines"])) == (
        "[CAT003] catalog 'othr' not found\n"
        "  expected: a catalog: default_catalog, other\n  hint: did you mean 'other'?"
    )
    assert fails(lambda: manager.resolve(["a", "b", "c", "d"])).startswith("[CAT001] a name with 4 parts")
    assert fails(lambda: manager.resolve(["Orders"])).startswith("[CAT002]")


def test_a_temporary_object_hides_the_permanent_one(manager: CatalogManager) -> None:
    permanent = manager.resolve(["orders"])
    hiding = table(manager, "orders", temporary=True)
    assert manager.resolve(["orders"]) is hiding
    assert manager.list_tables() == ["orders", "recent"]
    assert fails(lambda: manager.drop(["orders"], kind="TABLE")) == (
        "[CAT012] 'default_catalog.default_database.orders' is a temporary table, which hides the permanent one\n"
        "  hint: DROP TEMPORARY TABLE orders"
    )
    assert manager.drop(["orders"], kind="TABLE", temporary=True)
    assert manager.resolve(["orders"]) is permanent
    assert manager.drop(["orders"], kind="TABLE")
    assert manager.find(["orders"]) is None


def test_names_that_are_taken(manager: CatalogManager) -> None:
    assert fails(lambda: table(manager, "orders")) == (
        "[CAT010] table 'default_catalog.default_database.orders' already exists\n"
        "  hint: use IF NOT EXISTS, another name, or drop it first"
    )
    assert fails(lambda: view(manager, "orders")).startswith("[CAT010] table 'default_catalog.default_database.orders'")
    assert not manager.create(CatalogTable(manager.qualify(["orders"]), SCHEMA, {}), if_not_exists=True)
    assert fails(lambda: manager.create_database("default_catalog", "sales")).startswith("[CAT007]")
    manager.create_database("default_catalog", "sales", if_not_exists=True)
    assert fails(lambda: manager.create_catalog("other")).startswith("[CAT005]")
    assert fails(lambda: table(manager, "nowhere", "t")).startswith("[CAT004]")


def test_dropping(manager: CatalogManager) -> None:
    assert fails(lambda: manager.drop(["recent"], kind="TABLE")) == (
        "[CAT011] 'default_catalog.default_database.recent' is a view, not a table\n  hint: DROP VIEW recent"
    )
    assert fails(lambda: manager.drop(["orders"], kind="VIEW")).startswith("[CAT011]")
    assert fails(lambda: manager.drop(["ordrs"], kind="TABLE")) == (
        "[CAT002] table 'default_catalog.default_database.ordrs' not found\n"
        "  expected: a table: orders\n  hint: did you mean 'orders'?"
    )
    assert fails(lambda: manager.drop(["orders"], kind="TABLE", temporary=True)) == (
        "[CAT002] temporary table 'default_catalog.default_database.orders' not found\n"
        "  expected: a temporary table; there is none yet"
    )
    assert not manager.drop(["ordrs"], kind="TABLE", if_exists=True)
    table(manager, "tmp", temporary=True)
    assert fails(lambda: manager.drop(["tmp"], kind="TABLE")) == (
        "[CAT012] 'default_catalog.default_database.tmp' is a temporary table, which needs DROP TEMPORARY\n"
        "  hint: DROP TEMPORARY TABLE tmp"
    )


def test_dropping_databases_and_catalogs(manager: CatalogManager) -> None:
    assert fails(lambda: manager.drop_database("default_catalog", "sales")) == (
        "[CAT008] database 'default_catalog.sales' is not empty\n"
        "  expected: no tables or views, or CASCADE; it has orders"
    )
    manager.drop_database("default_catalog", "sales", cascade=True)
    assert fails(lambda: manager.drop_database("default_catalog", "sales")).startswith("[CAT004]")
    manager.drop_database("default_catalog", "sales", if_exists=True)
    assert fails(lambda: manager.drop_database("default_catalog", "default_database")) == (
        "[CAT009] database 'default_catalog.default_database' is in use and cannot be dropped\n"
        "  hint: USE another one first"
    )
    assert fails(lambda: manager.drop_catalog("default_catalog")).startswith("[CAT006]")
    manager.drop_catalog("other")
    assert manager.list_catalogs() == ["default_catalog"]
    assert fails(lambda: manager.use_catalog("other")).startswith("[CAT003]")


def test_renaming(manager: CatalogManager) -> None:
    manager.rename(["orders"], ["bestellungen"])
    assert manager.list_tables() == ["bestellungen", "recent"]
    assert manager.resolve(["bestellungen"]).identifier == ObjectIdentifier(
        "default_catalog", "default_database", "bestellungen"
    )
    assert fails(lambda: manager.rename(["bestellungen"], ["recent"])).startswith("[CAT010]")
    table(manager, "tmp", temporary=True)
    assert fails(lambda: manager.rename(["tmp"], ["other_name"])).startswith("[CAT012]")


def test_listing(manager: CatalogManager) -> None:
    assert manager.list_tables() == ["orders", "recent"]
    assert manager.list_views() == ["recent"]
    assert manager.list_tables("default_catalog", "sales") == ["orders"]
    assert manager.list_databases() == ["default_database", "sales"]
    assert manager.list_databases("other") == ["default"]


def test_schema_helpers() -> None:
    schema = TableSchema(
        (
            Column("a", BIGINT),
            Column("m", BIGINT, "METADATA", virtual=True),
            Column("n", BIGINT, "METADATA"),
            Column("c", BIGINT, "COMPUTED"),
        ),
        ("a",),
    )
    assert [c.name for c in schema.physical] == ["a"]
    assert [c.name for c in schema.persisted] == ["a", "n"]
    assert [schema.index(name) for name in schema.primary_key] == [0]
    assert schema.column("x") is None
    assert str(TableSchema(tuple(schema.physical)).row_type) == "ROW<`a` BIGINT> NOT NULL"
    assert str(ObjectIdentifier("c", "d", "a`b")) == "`c`.`d`.`a``b`"
