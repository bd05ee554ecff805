"""Each statement is parsed once, bound once and planned once, and nothing is rendered to SQL to be parsed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from stateplan.planner import compile as compiling
from stateplan.planner.dialect.parser import FlinkParser
from stateplan.session.environment import TableEnvironment

Counts = Callable[..., Counter[str]]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """What running statements calls, how often."""
    made: Counter[str] = Counter()

    def counted(owner: Any, name: str, called: str) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            made[called] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    environment = TableEnvironment.create()
    environment.execute_sql("CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'datagen')")
    environment.execute_sql("CREATE TABLE s (a INT, b STRING) WITH ('connector' = 'blackhole')")
    started = SimpleNamespace(job_id="1", when_over=lambda call: None)
    monkeypatch.setattr(environment.session.starter, "_start", lambda *args, **options: started)
    counted(FlinkParser, "_run", "parsed")
    counted(compiling, "bind_insert", "bound")
    counted(compiling, "bind_results", "bound")
    counted(compiling, "optimize", "optimized")
    counted(compiling, "lower", "lowered")

    def run(*statements: str | Callable[[TableEnvironment], object]) -> Counter[str]:
        made.clear()
        for statement in statements:
            environment.execute_sql(statement) if isinstance(statement, str) else statement(environment)
        return made

    return run


ONCE = Counter(parsed=1, bound=1, optimized=1, lowered=1)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a, COUNT(*) FROM t GROUP BY a",
        "INSERT INTO s SELECT * FROM t",
        "EXPLAIN CHANGELOG_MODE, PLAN_ADVICE, JSON_EXECUTION_PLAN SELECT a FROM t",
        "EXPLAIN CHANGELOG_MODE INSERT INTO s SELECT * FROM t",
        "COMPILE PLAN FOR INSERT INTO s SELECT * FROM t",
    ],
)
def test_a_statement(statement: str, counts: Counts) -> None:
    assert counts(statement) == ONCE


def test_an_open_statement_set(counts: Counts) -> None:
    """END parses its own word; what the INSERTs were parsed and planned to is used."""
    insert = "INSERT INTO s SELECT * FROM t"
    assert counts("BEGIN STATEMENT SET", insert, insert, "END") == Counter(parsed=4, bound=2, optimized=2, lowered=1)


def test_options_set_while_a_statement_set_is_open_hold_for_all_of_it(counts: Counts) -> None:
    insert = "INSERT INTO s SELECT * FROM t"
    made = counts("BEGIN STATEMENT SET", insert, "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'", "END")
    assert made == Counter(parsed=4, bound=2, optimized=2, lowered=1)


def test_a_table_that_python_adds_to_a_statement_set(counts: Counts) -> None:
    """The query is parsed, and the name of the target."""
    database = "`default_catalog`.`default_database`"
    written = f"INSERT INTO {database}.`s` SELECT * FROM {database}.`UnnamedTable$0`"
    plans = []

    def add_table(environment: TableEnvironment) -> None:
        statements = environment.create_statement_set()
        plans.append(statements.add_insert("s", environment.sql_query("SELECT a + 1, b FROM t")).compile_plan())

    def add_text(environment: TableEnvironment) -> None:
        plans.append(environment.create_statement_set().add_insert_sql(written).compile_plan())

    assert counts(add_table)["parsed"] == 2
    assert counts(add_text)["parsed"] == 1
    by_table, by_text = ([node.to_json() for node in plan.document.graph.nodes] for plan in plans)
    assert by_table == by_text
