"""Changes that a session holds: it sees them, and neither the catalog nor the catalog store has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.planner.catalog.overlay import hold_changes
from stateplan.session.environment import TableEnvironment

TABLE = "(x INT) WITH ('connector' = 'datagen')"


def names(environment: TableEnvironment, statement: str) -> list[str]:
    return sorted(row[0] for row in environment.execute_sql(statement).collect())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog of files with a table, a view, a function and a second database, and a catalog store."""
    environment = session(tmp_path)
    environment.execute_sql(f"CREATE CATALOG mine WITH ('type' = 'file', 'path' = '{tmp_path / 'catalog'}')")
    for statement in (
        f"CREATE TABLE mine.`default`.a {TABLE}",
        "CREATE VIEW mine.`default`.v AS SELECT x FROM mine.`default`.a",
        "CREATE FUNCTION mine.`default`.f AS 'tests.support.plan_functions.slug' LANGUAGE PYTHON",
        "CREATE DATABASE mine.other",
        f"CREATE TABLE mine.other.b {TABLE}",
    ):
        environment.execute_sql(statement)
    return tmp_path


def session(folder: Path) -> TableEnvironment:
    options = {"table.catalog-store.kind": "file", "table.catalog-store.file.path": str(folder / "store")}
    return TableEnvironment.create(options)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def test_a_session_sees_its_changes_and_nobody_else(folder: Path) -> None:
    before = files(folder)
    environment = session(folder)
    hold_changes(environment.catalog)
    for statement in (
        f"CREATE TABLE mine.`default`.c {TABLE}",
        "ALTER TABLE mine.`default`.a RENAME TO d",
        "ALTER TABLE mine.`default`.d ADD y STRING",
        "DROP VIEW mine.`default`.v",
        "DROP FUNCTION mine.`default`.f",
        "DROP DATABASE mine.other CASCADE",
        "CREATE DATABASE mine.third",
        "CREATE VIEW mine.third.w AS SELECT x FROM mine.`default`.c",
        f"CREATE CATALOG yours WITH ('type' = 'file', 'path' = '{folder / 'yours'}')",
        f"CREATE TABLE yours.`default`.e {TABLE}",
        "CREATE CATALOG memory WITH ('type' = 'generic_in_memory')",
        "DROP CATALOG memory",
    ):
        environment.execute_sql(statement)
    assert names(environment, "SHOW TABLES FROM mine.`default`") == ["c", "d"]
    assert names(environment, "DESCRIBE mine.`default`.d") == ["x", "y"]
    assert names(environment, "SHOW DATABASES FROM mine") == ["default", "third"]
    assert names(environment, "SHOW TABLES FROM mine.third") == ["w"]
    assert names(environment, "SHOW CATALOGS") == ["default_catalog", "mine", "yours"]
    assert environment.explain_sql("SELECT x FROM mine.third.w UNION ALL SELECT x FROM yours.`default`.e")
    for statement in (
        f"CREATE TABLE mine.`default`.c {TABLE}",
        "DROP TABLE mine.other.b",
        "SELECT * FROM mine.`default`.a",
    ):
        with pytest.raises(StateplanError) as refusal:
            environment.execute_sql(statement)
        assert refusal.value.code in ("CAT010", "CAT004", "CAT002")
    assert files(folder) == before
    assert names(session(folder), "SHOW TABLES FROM mine.`default`") == ["a", "v"]


def test_a_database_that_is_made_anew_is_empty(folder: Path) -> None:
    environment = session(folder)
    hold_changes(environment.catalog)
    environment.execute_sql("DROP DATABASE mine.other CASCADE")
    environment.execute_sql("CREATE DATABASE mine.other")
    assert names(environment, "SHOW TABLES FROM mine.other") == []
    environment.execute_sql("DROP CATALOG mine")
    assert names(environment, "SHOW CATALOGS") == ["default_catalog"]
    assert names(session(folder), "SHOW CATALOGS") == ["default_catalog", "mine"]
