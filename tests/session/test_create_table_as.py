"""CREATE TABLE ... AS: the table and its INSERT as Flink has them; a catalog stays as it was after an error."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stateplan.common.errors import RunError, StateplanError
from stateplan.common.secrets import Secrets
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import table_of
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import JobRecord

PRINT = "WITH ('connector' = 'print')"
SOURCE = (
    "CREATE TABLE src (k INT NOT NULL, v BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
    "WITH ('connector' = 'datagen')"
)


class Session(TableEnvironment):
    """A session that starts no job, and notes what it would have started; or fails to."""

    started: list[ExecGraph]
    fails = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.started = []
        self.session.starter._start = self._start  # type: ignore[assignment]

    def _start(
        self, document: PlanDocument, graph: ExecGraph, notes: list[str], record: JobRecord, secrets: Secrets
    ) -> Any:
        if self.fails:
            raise RunError("RUN010")
        self.started.append(graph)
        return SimpleNamespace(wait=lambda timeout=None: True, job_id="1", when_over=lambda call: None)


@pytest.fixture
def env() -> Session:
    made = Session()
    made.execute_sql(SOURCE)
    return made


def columns(env: TableEnvironment, name: str) -> list[str]:
    """Of SHOW CREATE TABLE, without its first line and its options."""
    text = str(env.execute_sql(f"SHOW CREATE TABLE {name}").rows[0][0])
    return [line.strip() for line in text.partition(" (\n")[2].partition("\n)")[0].splitlines()]


def connector(graph: ExecGraph, node: int) -> str:
    table = table_of(graph.nodes[node])
    assert table is not None and table.resolved_table is not None
    return table.resolved_table.options["connector"]


def fails(env: TableEnvironment, statement: str) -> str:
    before = {name: columns(env, name) for name in env.list_tables() if name not in env.list_views()}
    with pytest.raises(StateplanError) as raised:
        env.execute_sql(statement)
    after = {name: columns(env, name) for name in env.list_tables() if name not in env.list_views()}
    assert after == before
    assert raised.value.place is not None
    return str(raised.value)


# The columns and the sinks are those that Flink 2.3 shows of the same statements.
@pytest.mark.parametrize(
    ("head", "query", "table", "fields"),
    [
        ("", "SELECT k, v, s FROM src", ["`k` INT NOT NULL,", "`v` BIGINT,", "`s` VARCHAR(2147483647)"], "k, v, s"),
        ("(s, k)", "SELECT k, s FROM src", ["`s` VARCHAR(2147483647),", "`k` INT NOT NULL"], "s, k"),
        ("(extra DATE)", "SELECT k FROM src", ["`extra` DATE,", "`k` INT NOT NULL"], "EXPR$0, k"),
        ("(k BIGINT COMMENT 'x')", "SELECT v, k FROM src", ["`v` BIGINT,", "`k` BIGINT COMMENT 'x'"], "v, k"),
        (
            "(v BIGINT, x INT, y AS x + 1)",
            "SELECT k, v FROM src",
            ["`x` INT,", "`y` AS `x` + 1,", "`k` INT NOT NULL,", "`v` BIGINT"],
            "EXPR$0, k, v",
        ),
        (
            "(x AS k + 1, PRIMARY KEY (k) NOT ENFORCED)",
            "SELECT k, v FROM src",
            [
                "`x` AS `k` + 1,",
                "`k` INT NOT NULL,",
                "`v` BIGINT,",
                "CONSTRAINT `PK_k` PRIMARY KEY (`k`) NOT ENFORCED",
            ],
            "k, v",
        ),
        (
            "(WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)",
            "SELECT ts FROM src",
            ["`ts` TIMESTAMP(3),", "WATERMARK FOR `ts` AS `ts` - INTERVAL '5' SECOND"],
            "ts",
        ),
        ("", "SELECT ts, k, k FROM src", ["`ts` TIMESTAMP(3),", "`k` INT NOT NULL,", "`k0` INT NOT NULL"], "ts, k, k0"),
        (
            "",
            "SELECT k + 1, PROCTIME() AS p FROM src",
            ["`EXPR$0` INT NOT NULL,", "`p` TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"],
            "EXPR$0, p",
        ),
        ("", "VALUES (1, 'a')", ["`EXPR$0` INT NOT NULL,", "`EXPR$1` CHAR(1) NOT NULL"], "EXPR$0, EXPR$1"),
        ("", "WITH q AS (SELECT k FROM src) SELECT * FROM q", ["`k` INT NOT NULL"], "k"),
    ],
)
def test_table_and_sink_are_flinks(env: Session, head: str, query: str, table: list[str], fields: str) -> None:
    explained = str(env.execute_sql(f"EXPLAIN CREATE TABLE made {head} {PRINT} AS {query}").rows[0][0])
    assert f"Sink(table=[default_catalog.default_database.made], fields=[{fields}])" in explained
    assert env.list_tables() == ["src"] and not env.started
    result = env.execute_sql(f"CREATE TABLE made {head} {PRINT} AS {query}")
    assert result.columns == ("default_catalog.default_database.made",)
    assert columns(env, "made") == table
    assert f"fields=[{fields}]" in env.started[0].sinks[0].description


@pytest.mark.parametrize(
    ("statement", "code", "at"),
    [
        (f"CREATE TABLE t (a, b) {PRINT} AS SELECT k, s FROM src", "CAT038", "a,"),
        (f"CREATE TABLE t (k) {PRINT} AS SELECT k, s FROM src", "CAT038", "k)"),
        (f"CREATE TABLE t (s, s) {PRINT} AS SELECT k, s FROM src", "CAT030", "s)"),
        (f"CREATE TABLE t (k AS 1) {PRINT} AS SELECT k FROM src", "CAT030", "k AS"),
        (f"CREATE TABLE t (k INT METADATA VIRTUAL) {PRINT} AS SELECT k FROM src", "CAT030", "k INT"),
        (f"CREATE TABLE t (v BIGINT NOT NULL) {PRINT} AS SELECT v FROM src", "CAT038", "v BIGINT"),
        (f"CREATE TABLE t (x INT NOT NULL) {PRINT} AS SELECT v FROM src", "SQL133", "t ("),
        (f"CREATE TABLE t (k DATE) {PRINT} AS SELECT k FROM src", "SQL134", "k FROM"),
        (f"CREATE TABLE t (PRIMARY KEY (v) NOT ENFORCED) {PRINT} AS SELECT v FROM src", "CAT034", "v) NOT"),
        (f"CREATE TABLE t {PRINT} AS SELECT k, NULL AS n FROM src", "SQL109", "NULL AS n"),
        (f"CREATE TABLE t {PRINT} AS SELECT nope FROM src", "SQL100", "nope"),
        ("CREATE TABLE t WITH ('connector' = 'nope') AS SELECT k FROM src", "OPT102", "'connector'"),
        ("CREATE TABLE t AS SELECT k FROM src", "OPT101", "t AS"),
        (f"CREATE TABLE nope.t {PRINT} AS SELECT k FROM src", "CAT004", "nope.t"),
        (f"CREATE TABLE src {PRINT} AS SELECT k FROM src", "CAT010", "src WITH"),
        (f"CREATE TABLE w {PRINT} AS SELECT k FROM src", "CAT010", "w WITH"),
        (f"CREATE TABLE IF NOT EXISTS w {PRINT} AS SELECT k FROM src", "CAT103", "w WITH"),
        (f"CREATE OR REPLACE TABLE w {PRINT} AS SELECT k FROM src", "CAT011", "w WITH"),
        (f"REPLACE TABLE t {PRINT} AS SELECT k FROM src", "CAT002", "t WITH"),
        (f"CREATE OR REPLACE TABLE src {PRINT} AS SELECT nope FROM src", "SQL100", "nope"),
        (
            "CREATE OR REPLACE TABLE src WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json') "
            "AS SELECT k, COUNT(*) AS n FROM src GROUP BY k",
            "SQL140",
            "src WITH",
        ),
        (f"CREATE TABLE IF NOT EXISTS src {PRINT} AS SELECT k FROM src", "CAT101", "src WITH"),
        (f"CREATE TABLE IF NOT EXISTS p {PRINT} AS SELECT k, v FROM src", "SQL130", "p WITH"),
    ],
)
def test_an_error_leaves_the_catalog_as_it_was(env: Session, statement: str, code: str, at: str) -> None:
    env.execute_sql("CREATE VIEW w AS SELECT 1 AS a")
    env.execute_sql(f"CREATE TABLE p (a INT) {PRINT}")
    message = fails(env, statement)
    assert message.startswith(f"[{code}]")
    assert f"column {statement.index(at) + 1}\n" in message
    assert not env.started


@pytest.mark.parametrize("how", ["CREATE TABLE t", "CREATE OR REPLACE TABLE t", "CREATE OR REPLACE TABLE src"])
def test_a_job_that_does_not_start_leaves_the_catalog_as_it_was(env: Session, how: str) -> None:
    env.fails = True
    before = columns(env, "src")
    with pytest.raises(RunError):
        env.execute_sql(f"{how} {PRINT} AS SELECT k FROM src")
    assert env.list_tables() == ["src"] and columns(env, "src") == before


def test_replaced_tables_may_be_read_by_the_query(env: Session) -> None:
    env.execute_sql(f"CREATE OR REPLACE TABLE src {PRINT} AS SELECT s FROM src")
    assert columns(env, "src") == ["`s` VARCHAR(2147483647)"]
    assert connector(env.started[0], 0) == "datagen"
    env.execute_sql(f"REPLACE TABLE src {PRINT} AS VALUES (1)")
    assert columns(env, "src") == ["`EXPR$0` INT NOT NULL"]


def test_a_table_that_is_there_gets_the_rows_by_position(env: Session) -> None:
    env.execute_sql(f"CREATE TABLE t (a INT, b STRING) {PRINT}")
    result = env.execute_sql(
        "CREATE TABLE IF NOT EXISTS t (x INT) WITH ('connector' = 'blackhole') AS SELECT s FROM src"
    )
    assert "already exists" in result.notes[0]
    assert columns(env, "t") == ["`a` INT,", "`b` VARCHAR(2147483647)"]
    assert connector(env.started[0], -1) == "print"


def test_it_is_no_plan_and_no_part_of_a_statement_set(env: Session, tmp_path: Path) -> None:
    statement = f"CREATE TABLE t {PRINT} AS SELECT k FROM src"
    assert fails(env, f"COMPILE PLAN '{tmp_path}/p.json' FOR {statement}").startswith("[SQL007]")
    assert fails(env, f"EXECUTE STATEMENT SET BEGIN {statement}; END").startswith("[SQL007]")
    assert fails(env, "EXPLAIN CREATE TABLE t (a INT)").startswith("[SQL007]")
    with pytest.raises(StateplanError, match="SQL012"):
        env.compile_plan_sql(statement)
    env.execute_sql("BEGIN STATEMENT SET")
    with pytest.raises(StateplanError, match="SQL007"):
        env.execute_sql(statement)
