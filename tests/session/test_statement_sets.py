"""BEGIN STATEMENT SET, INSERTs, END: the statement set of a session that sends its statements one by one."""

from __future__ import annotations

from typing import Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment
from stateplan.session.results import ResultKind, ok
from stateplan.session.script import Inserts


class Session(TableEnvironment):
    """A session that only notes which statement sets it would run."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[list[str]] = []
        self.session.starter.inserts = self._inserts  # type: ignore[method-assign]

    def _inserts(self, inserts: Inserts, statement: str, around: object = None) -> Any:
        self.ran.append([insert.sql for insert in inserts.inserts])
        return ok(statement)


@pytest.fixture
def env() -> Session:
    made = Session()
    made.execute_sql("CREATE TABLE s (a INT, b STRING) WITH ('connector' = 'print')")
    return made


def fails(env: TableEnvironment, statement: str) -> str:
    with pytest.raises(StateplanError) as raised:
        env.execute_sql(statement)
    return str(raised.value)


def test_inserts_wait_for_end_and_run_as_one_job(env: Session) -> None:
    assert env.execute_sql("BEGIN STATEMENT SET;").kind is ResultKind.SUCCESS
    assert env.execute_sql("INSERT INTO s SELECT 1, 'x'").rows == [("OK",)]
    assert env.execute_sql("INSERT INTO s VALUES (2, 'it''s')").rows == [("OK",)]
    assert env.ran == []
    assert env.execute_sql("END;").statement == "STATEMENT SET"
    assert env.ran == [["INSERT INTO s SELECT 1, 'x'", "INSERT INTO s VALUES (2, 'it''s')"]]
    assert env.execute_sql("INSERT INTO s SELECT 3, 'y'").statement == "INSERT"


def test_nothing_that_starts_a_job_or_changes_a_table_is_allowed_meanwhile(env: Session) -> None:
    env.execute_sql("BEGIN STATEMENT SET")
    for statement in ("DROP TABLE s", "SELECT 1", "EXECUTE INSERT INTO s SELECT 1, 'x'"):
        refusal = fails(env, statement)
        assert refusal.startswith("[SQL007] this statement is not allowed while a statement set is open")
        assert "expected: INSERT, DESCRIBE, EXPLAIN, SHOW, SET or RESET; END starts the set" in refusal
    env.execute_sql("INSERT INTO s SELECT 1, 'x'")
    env.execute_sql("END")
    assert len(env.ran) == 1


def test_looking_and_options_are_allowed_meanwhile(env: Session) -> None:
    env.execute_sql("BEGIN STATEMENT SET")
    env.execute_sql("DESCRIBE s")
    assert ("s",) in env.execute_sql("SHOW TABLES").rows
    env.execute_sql("EXPLAIN INSERT INTO s SELECT 1, 'x'")
    env.execute_sql("SET 'pipeline.name' = 'two'")
    assert env.session.statement_set == []


def test_rollback_gives_the_set_up(env: Session) -> None:
    env.execute_sql("BEGIN STATEMENT SET")
    env.execute_sql("INSERT INTO s SELECT 1, 'x'")
    assert env.execute_sql("ROLLBACK").notes == ("the statement set with 1 INSERT is given up",)
    assert (env.ran, env.session.statement_set) == ([], None)
    assert "[SQL007] no statement set is open" in fails(env, "ROLLBACK")
    env.execute_sql("DROP TABLE s")


def test_a_wrong_insert_is_refused_at_once_and_the_set_stays_open(env: Session) -> None:
    env.execute_sql("BEGIN STATEMENT SET")
    assert fails(env, "INSERT INTO nosuch SELECT 1").startswith("[CAT002]")
    env.execute_sql("INSERT INTO s SELECT 1, 'x'")
    env.execute_sql("END")
    assert env.ran == [["INSERT INTO s SELECT 1, 'x'"]]


def test_an_empty_set_starts_nothing(env: Session) -> None:
    env.execute_sql("BEGIN STATEMENT SET")
    assert env.execute_sql("END").notes == ("the statement set is empty: nothing is started",)
    assert env.ran == []


def test_end_needs_a_beginning(env: Session) -> None:
    assert fails(env, "END") == (
        "[SQL007] no statement set is open\n  --> line 1, column 1\n  END\n  ^^^\n"
        "  expected: END after BEGIN STATEMENT SET"
    )


def test_tables_of_python_know_of_an_open_set(env: Session) -> None:
    table = env.sql_query("SELECT 1 AS a, 'x' AS b")
    env.execute_sql("BEGIN STATEMENT SET")
    assert table.execute_insert("s").rows == [("OK",)]
    for call in (table.execute, lambda: env.create_temporary_view("v", "SELECT 1")):
        with pytest.raises(StateplanError, match="SQL007"):
            call()
    assert env.ran == []
    env.execute_sql("END")
    assert len(env.ran[0]) == 1
