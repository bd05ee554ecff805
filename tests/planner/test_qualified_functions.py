"""User-defined functions called by their catalog and database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stateplan import TableEnvironment, udf, udtf
from stateplan.common.errors import SqlError
from stateplan.planner.dialect import parse, to_sql


@udtf(result_types=["INT"], input_types=["INT"])
def twice(n: int) -> Iterator[int]:
    yield n
    yield n


@pytest.fixture
def env() -> TableEnvironment:
    env = TableEnvironment.create()
    env.create_temporary_function("f", udf(lambda n: n + 1, result_type="INT", input_types=["INT"]))
    env.create_temporary_function("twice", twice)
    return env


def _plan(env: TableEnvironment, query: str) -> str:
    return env.explain_sql(query).partition("== State ==")[0]


@pytest.mark.parametrize("name", ["default_database.f", "default_catalog.default_database.f", "`default_database`.`f`"])
def test_scalar_function(env: TableEnvironment, name: str) -> None:
    query = "SELECT {}(a) AS b FROM (VALUES (1)) AS t(a)"
    assert _plan(env, query.format(name)) == _plan(env, query.format("f"))


def test_table_function(env: TableEnvironment) -> None:
    query = "SELECT a, x FROM (VALUES (1)) AS t(a), LATERAL TABLE({}(a)) AS u(x)"
    assert _plan(env, query.format("default_database.twice")) == _plan(env, query.format("twice"))


def test_views_keep_the_name(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TEMPORARY VIEW v AS SELECT default_database.f(a) AS b FROM (VALUES (1)) AS t(a)")
    assert "PythonCalc(select=[f(a) AS b])" in _plan(env, "SELECT b FROM v")
    assert to_sql(parse("SELECT `a b`.db.f(x) FROM t")[0]) == "SELECT `a b`.db.f(x) FROM t"


@pytest.mark.parametrize("name", ["other.f", "Default_Database.f", "a.b.default_database.f"])
def test_another_database_has_none(env: TableEnvironment, name: str) -> None:
    with pytest.raises(SqlError):
        env.sql_query(f"SELECT {name}(1)")
