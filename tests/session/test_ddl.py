"""CREATE, ALTER, DROP, SHOW and DESCRIBE: the same as Flink."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stateplan.common.errors import StateplanError
from stateplan.common.readable import render
from stateplan.common.settings import OPTIONS
from stateplan.functions.rex import input_refs
from stateplan.planner.catalog.objects import CatalogTable, CatalogView
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.session.flink_ddl import FLINK, shown


def test_a_session_of_ddl_as_flink_ran_it() -> None:
    """Each statement of flink_ddl.txt with what Flink 2.3 answered; ERROR where it refused. The text of a view is as it
    was written, where Flink shows it with all names in full."""
    env = TableEnvironment.create()
    blocks = [block.split("\n") for block in ("\n" + FLINK.read_text()).split("\n>>> ")[1:]]
    wrong = []
    for lines in blocks:
        statement, n = lines[0], 1
        while not lines[n].startswith(("ERROR", "OK", "+I[", "CREATE")) and statement.startswith("CREATE"):
            statement, n = statement + "\n" + lines[n], n + 1
        expected = "\n".join(lines[n:]).strip("\n")
        try:
            found = shown(env.execute_sql(statement))
        except StateplanError as error:
            assert error.place is not None, statement
            found = "ERROR"
        if found != expected:
            wrong.append((statement, expected, found))
    assert wrong == []
    assert len(blocks) > 80


def table(env: TableEnvironment, name: str = "t") -> CatalogTable:
    found = env.catalog.resolve([name])
    assert isinstance(found, CatalogTable)
    return found


def run(text: str, env: TableEnvironment | None = None) -> TableEnvironment:
    env = env or TableEnvironment.create()
    for statement in read_script(text):
        env.execute_statement(statement)
    return env


def fails(text: str, before: str = "") -> str:
    env = run(before)
    tables = env.list_tables()
    with pytest.raises(StateplanError) as raised:
        run(text, env)
    assert env.list_tables() == tables
    return str(raised.value)


WITH = "WITH ('connector' = 'print')"


@pytest.mark.parametrize(
    ("declaration", "types"),
    [
        ("a INT, b STRING", {"a": "INT", "b": "VARCHAR(2147483647)"}),
        ("a INT PRIMARY KEY NOT ENFORCED, b INT NULL", {"a": "INT NOT NULL", "b": "INT"}),
        (
            "a INT, b BYTES, PRIMARY KEY (b, a) NOT ENFORCED",
            {"a": "INT NOT NULL", "b": "VARBINARY(2147483647) NOT NULL"},
        ),
        (
            "a TIMESTAMP_LTZ(3), b TIMESTAMP, c TIME",
            {"a": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "b": "TIMESTAMP(6)", "c": "TIME(0)"},
        ),
        ("a DECIMAL, b DEC(5), c NUMERIC(7, 2)", {"a": "DECIMAL(10, 0)", "b": "DECIMAL(5, 0)", "c": "DECIMAL(7, 2)"}),
        ("a ROW<x INT NOT NULL, y ARRAY<STRING>>", {"a": "ROW<`x` INT NOT NULL, `y` ARRAY<VARCHAR(2147483647)>>"}),
        ("a INT, b AS a + 1, c AS a", {"a": "INT", "b": "INT", "c": "INT"}),
    ],
)
def test_types_of_columns(declaration: str, types: Mapping[str, str]) -> None:
    schema = table(run(f"CREATE TABLE t ({declaration}) {WITH}")).schema
    assert {c.name: str(c.type) for c in schema.columns} == types


def test_computed_columns_see_physical_and_metadata_columns_in_order() -> None:
    schema = table(run(f"CREATE TABLE t (a INT, c AS m + b, m BIGINT METADATA, p AS PROCTIME(), b INT) {WITH}")).schema
    computed, proctime = schema.column("c"), schema.column("p")
    assert computed is not None and computed.rex is not None
    assert list(input_refs(computed.rex)) == [1, 2]
    assert (computed.expression_sql, str(computed.type)) == ("`m` + `b`", "BIGINT")
    assert proctime is not None
    assert (proctime.type.kind, proctime.type.nullable, proctime.type.precision) == ("PROCTIME", False, 3)


def test_the_watermark_sees_all_columns_and_marks_its_own() -> None:
    schema = table(
        run(f"CREATE TABLE t (s STRING, ts AS TO_TIMESTAMP(s), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) {WITH}")
    ).schema
    [mark] = schema.watermarks
    assert mark.rex is not None
    assert (mark.column, mark.expression_sql, list(input_refs(mark.rex))) == ("ts", "`ts` - INTERVAL '5' SECOND", [1])
    column = schema.column("ts")
    assert column is not None
    assert column.type.kind == "ROWTIME"


def test_like_binds_the_base_tables_expressions_over_the_new_columns() -> None:
    env = run(
        f"CREATE TABLE b (x INT, y AS x + 1, PRIMARY KEY (x) NOT ENFORCED) {WITH};"
        f"CREATE TABLE t (z INT, PRIMARY KEY (z) NOT ENFORCED) LIKE b (EXCLUDING CONSTRAINTS)"
    )
    schema = table(env).schema
    assert (schema.names, schema.primary_key, schema.primary_key_name) == (("x", "y", "z"), ("z",), "PK_z")
    column = schema.column("y")
    assert column is not None and column.rex is not None
    assert list(input_refs(column.rex)) == [0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"CREATE TABLE t (a INT, b STRING, a BIGINT) {WITH}",
            "[CAT030] there is a column 'a' in the table already\n  --> line 1, column 34\n"
            "  CREATE TABLE t (a INT, b STRING, a BIGINT) WITH ('connector' = 'print')\n"
            "                                   ^",
        ),
        (
            f"CREATE TABLE t (order_id INT, PRIMARY KEY (ordr_id) NOT ENFORCED) {WITH}",
            "[CAT034] the primary key's 'ordr_id' is not a column of the table\n  --> line 1, column 44\n"
            "  CREATE TABLE t (order_id INT, PRIMARY KEY (ordr_id) NOT ENFORCED) WITH ('connector' = 'print')\n"
            "                                             ^^^^^^^\n"
            "  expected: a physical column: order_id\n  hint: did you mean 'order_id'?",
        ),
        (
            f"CREATE TABLE t (a INT, b AS a, PRIMARY KEY (b) NOT ENFORCED) {WITH}",
            "[CAT034] the primary key's 'b' is a computed column",
        ),
        (
            f"CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED) {WITH}",
            "[CAT034] the table has two primary keys",
        ),
        (
            f"CREATE TABLE t (a INT, PRIMARY KEY (a, a) NOT ENFORCED) {WITH}",
            "[CAT034] column 'a' is in the primary key twice",
        ),
        (
            f"CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR tss AS ts) {WITH}",
            "[CAT035] the watermark's column 'tss' is not a column of the table\n  --> line 1, column 48\n"
            "  CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR tss AS ts) WITH ('connector' = 'print')\n"
            "                                                 ^^^\n"
            "  expected: one of ts\n  hint: did you mean 'ts'?",
        ),
        (
            f"CREATE TABLE t (ts TIMESTAMP(6), WATERMARK FOR ts AS ts) {WITH}",
            "[CAT035] the watermark's column is of type TIMESTAMP(6)",
        ),
        (
            f"CREATE TABLE t (ts TIMESTAMP(3), s STRING, WATERMARK FOR ts AS s) {WITH}",
            "[CAT035] the watermark is of type STRING",
        ),
        (
            f"CREATE TABLE t (p AS PROCTIME(), WATERMARK FOR p AS p) {WITH}",
            "[CAT035] the watermark's column is of type TIMESTAMP_LTZ(3) NOT NULL *PROCTIME*",
        ),
        (
            f"CREATE TABLE t (r ROW<ts TIMESTAMP(3)>, WATERMARK FOR r.ts AS r.ts) {WITH}",
            "[SQL004] a watermark for a field of a row is not supported",
        ),
        (
            f"CREATE TABLE t (a INT) PARTITIONED BY (b) {WITH}",
            "[CAT033] the partition key 'b' is not a column of the table",
        ),
        ("CREATE TABLE t LIKE u", "[CAT002] table or view 'default_catalog.default_database.u' not found"),
        ("CREATE TABLE d.t (a INT)", "[CAT004] database 'default_catalog.d' not found"),
        ("CREATE CATALOG c", "[OPT004] the catalog has no option 'type'"),
        ("CREATE CATALOG c WITH ('type' = 'hive')", "[OPT004] unknown type of catalog 'hive'"),
        ("DESCRIBE t", "[CAT002]"),
        ("SHOW TABLES FROM nowhere", "[CAT004]"),
    ],
)
def test_messages(text: str, message: str) -> None:
    assert fails(text).startswith(message)


def test_errors_in_a_computed_column_point_at_it() -> None:
    message = fails(f"SET 'pipeline.name' = 'x';\nCREATE TABLE t (a INT,\n  b AS nope + 1) {WITH}")
    assert "line 3, column 8" in message
    assert "nope + 1" in message


def test_if_not_exists_says_what_it_left_alone() -> None:
    env = run(f"CREATE TABLE t (a INT) {WITH}")
    result = env.execute_sql(f"CREATE TABLE IF NOT EXISTS t (b INT) {WITH}")
    assert result.notes == ("'default_catalog.default_database.t' already exists; kept unchanged",)
    assert table(env).schema.names == ("a",)
    env.execute_sql(f"CREATE TEMPORARY TABLE IF NOT EXISTS t (b INT) {WITH}")
    assert table(env).schema.names == ("b",)


def test_show_create_runs_again() -> None:
    text = (
        "CREATE TABLE t (a INT COMMENT 'it''s', `b c` STRING, d AS a + 1, m BIGINT METADATA FROM 'k' VIRTUAL, "
        "ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND, CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED) "
        "COMMENT 'x' DISTRIBUTED BY HASH (a) INTO 3 BUCKETS PARTITIONED BY (`b c`) WITH ('connector' = 'print', "
        "'k' = 'it''s')"
    )
    env = run(text)
    [(first,)] = env.execute_sql("SHOW CREATE TABLE t").rows
    again = run(str(first))
    [(second,)] = again.execute_sql("SHOW CREATE TABLE t").rows
    assert first == second


def test_set_lists_what_is_set_and_reset_forgets() -> None:
    env = run("SET 'table.exec.state.ttl' = '1 d'; SET 'spark.driver.memory' = '4g'")
    found = env.execute_sql("SET")
    assert (found.columns, found.notes) == (("key", "value"), ())
    assert found.rows == [("spark.driver.memory", "4g"), ("table.exec.state.ttl", "1 d")]
    run("RESET 'table.exec.state.ttl'", env)
    assert env.execute_sql("SET").rows == [("spark.driver.memory", "4g")]
    run("RESET", env)
    assert env.execute_sql("SET").notes == ("no option is set; SHOW OPTIONS lists all",)
    assert fails("SET 'table.exec.state.tt' = '1 d'").startswith(
        "[OPT001] unknown option 'table.exec.state.tt'\n  --> line 1, column 1\n"
    )
    assert env.execute_sql("SET 'state.backend.type' = 'rocksdb'").notes == (
        "the option 'state.backend.type' has no effect: state is kept in Spark's state store",
    )


def test_set_with_a_key_shows_the_option() -> None:
    env = run("SET 'table.exec.state.ttl' = '1 d'")
    found = env.execute_sql("SET table.exec.state.ttl")
    assert found.rows == [("table.exec.state.ttl", "1 d")]
    assert found.notes[0].startswith("Default TTL of state")
    assert env.execute_sql("SET 'table.plan.force-recompile'").rows == [("table.plan.force-recompile", "false")]
    assert env.execute_sql("SET 'pipeline.name'").rows == [("pipeline.name", None)]
    assert env.execute_sql("SET 'spark.driver.memory'").rows == [("spark.driver.memory", None)]
    assert fails("SET 'table.exec.state.tt'").startswith("[OPT001] unknown option 'table.exec.state.tt'\n  --> line 1")


def test_show_options_fits_a_terminal() -> None:
    env = run("SET 'table.exec.state.ttl' = '1 d'; SET 'spark.driver.memory' = '4g'")
    found = env.execute_sql("SHOW OPTIONS")
    rows = {row[0]: row[1:] for row in found.rows}
    assert set(rows) == {*OPTIONS, "spark.driver.memory"} and list(rows) == sorted(rows)
    assert rows["table.exec.state.ttl"] == ("1 d", True)
    assert rows["table.plan.force-recompile"] == ("false", False)
    assert max(map(len, render(found.columns, found.rows).splitlines())) <= 100
    keys = [row[0] for row in env.execute_sql("SHOW OPTIONS LIKE '%plan%compile%'").rows]
    assert keys == ["table.plan.compile.catalog-objects", "table.plan.force-recompile"]


def test_show_functions() -> None:
    env = TableEnvironment.create()
    names = [row[0] for row in env.execute_sql("SHOW FUNCTIONS").rows]
    assert {"upper", "coalesce"} <= set(names)
    assert env.execute_sql("SHOW FUNCTIONS LIKE 'uppe_'").rows == [("upper",)]
    assert env.execute_sql("SHOW USER FUNCTIONS").rows == []


def test_views_remember_where_they_were_made() -> None:
    source = "WITH ('connector' = 'datagen')"
    env = run(
        f"CREATE DATABASE d; USE d; CREATE TABLE t (a INT) {source}; CREATE VIEW v (x) AS "
        "SELECT a FROM t; USE default_database"
    )
    view = env.catalog.resolve(["d", "v"])
    assert isinstance(view, CatalogView)
    assert (view.catalog, view.database, view.sql, view.schema.names) == (
        "default_catalog",
        "d",
        "SELECT a FROM t",
        ("x",),
    )
    env.execute_sql("CREATE VIEW w AS SELECT x FROM d.v")
    assert env.execute_sql("DESCRIBE w").rows[0][:2] == ("x", "INT")
