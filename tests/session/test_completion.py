"""What may be written next: candidates by position."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stateplan.session.completion import MAX_CANDIDATES, complete
from stateplan.session.environment import TableEnvironment
from stateplan.session.host import Host
from stateplan.session.jobs import Jobs

PLAN = Path(__file__).resolve().parent.parent / "cli" / "data" / "join_plan.json"
WHOLE = "default_catalog.default_database."


@pytest.fixture(scope="module")
def env() -> TableEnvironment:
    made = TableEnvironment(jobs=Jobs())
    made.execute_sql(
        "CREATE TABLE orders (order_id BIGINT, product_id BIGINT, `select` INT, placed AS PROCTIME()) "
        "WITH ('connector' = 'filesystem', 'path' = '/x', 'format' = 'json')"
    )
    made.execute_sql("CREATE VIEW order_ids AS SELECT order_id FROM orders")
    made.execute_sql("CREATE DATABASE sales")
    made.execute_sql("CREATE TABLE sales.parts (part STRING) WITH ('connector' = 'print')")
    return made


def at(env: TableEnvironment, text: str) -> list[str]:
    """The candidates where ``text`` has a ``|``."""
    return complete(env.session, text.replace("|", ""), text.index("|"))


def test_the_recorded_answer_of_flink(env: TableEnvironment) -> None:
    assert at(env, "SELECT * FROM orders|") == [f"{WHOLE}orders"]
    assert at(env, "SELECT * FROM ord|")[-1] == f"{WHOLE}orders"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SEL|", ["SELECT"]),
        ("sel|", ["SELECT"]),
        ("SHOW CREATE |", ["CATALOG", "TABLE", "VIEW"]),
        ("CREATE TEMPORARY V|", ["VIEW"]),
        ("SHOW JOBS; COMPILE |", ["AND", "PLAN"]),
        ("SELECT * FROM |", [f"{WHOLE}order_ids", f"{WHOLE}orders"]),
        ("SELECT * FROM orders o JOIN order_i|", [f"{WHOLE}order_ids"]),
        ("SELECT * FROM orders, order_i|", [f"{WHOLE}order_ids"]),
        ("SELECT * FROM (SELECT 1), order_i|", [f"{WHOLE}order_ids"]),
        ("SELECT * FROM sales.|", ["default_catalog.sales.parts"]),
        ("SELECT * FROM default_catalog.sales.p|", ["default_catalog.sales.parts"]),
        ("SELECT * FROM default_catalog.|", ["default_catalog.default_database", "default_catalog.sales"]),
        ("SELECT * FROM `sal|", ["sales"]),
        ("INSERT INTO sales.p|", ["default_catalog.sales.parts"]),
        ("DESCRIBE order_|", [f"{WHOLE}order_ids"]),
        ("DROP TABLE IF EXISTS orders|", [f"{WHOLE}orders"]),
        ("ALTER TABLE orders|", [f"{WHOLE}orders"]),
        ("SHOW PARTITIONS order_|", [f"{WHOLE}order_ids"]),
        ("SHOW COLUMNS FROM order_|", [f"{WHOLE}order_ids"]),
        ("CREATE TABLE order|", []),
        ("SELECT o.| FROM orders AS o", ["o.`select`", "o.order_id", "o.placed", "o.product_id"]),
        ("SELECT * FROM orders AS o WHERE o.pro|", ["o.product_id"]),
        ("SELECT o.pro| FROM orders o", ["o.product_id"]),
        ("SELECT order_|, product_id FROM orders", ["order_id"]),
        ("SELECT | FROM order_ids", ["order_id"]),
        ("SELECT * FROM orders WHERE prod|", ["product_id"]),
        ("USE |", ["CATALOG", "MODULES", "default_database", "sales"]),
        ("USE CATALOG |", ["default_catalog"]),
        ("SET 'table.exec.state.t|", ["table.exec.state.ttl"]),
        ("SET table.exec.state.t|", ["table.exec.state.ttl"]),
        ("RESET 'table.exec.state.t|", ["table.exec.state.ttl"]),
        ("SET 'execution.runtime-mode' = '|", ["BATCH", "STREAMING"]),
        ("SET 'table.dml-sync' = 't|", ["true"]),
        ("CREATE TABLE t (a INT) WITH ('|", ["connector"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'file|", ["filesystem"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'pat|", ["path"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'js|", ["json"]),
        ("CREATE TABLE t (a INT) WITH ('connector'='filesystem', 'format'='json', 'json.fail|",
         ["json.fail-on-missing-field"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'print', 'print-identifier' = '|", []),
        ("SELECT 'te|", []),
        ("STOP JOB '|", []),
        ("ALTER JOB 'a1' |", ["COMMIT", "ROLLBACK", "SET", "USING"]),
        ("ALTER JOB 'a1' SET |", ["TTL"]),
        ("ALTER JOB 'a1' COMMIT |", []),
        ("ALTER JOB 'a1' USING |", ["PLAN"]),
        ("ALTER JOB 'a1' USING PLAN 'p.json' |", ["WITH"]),
        ("ALTER JOB 'a1' USING PLAN 'p.json' WITH ('|", ["shadow"]),
        ("ALTER JOB 'a1' USING PLAN 'p.json' WITH ('shadow' = '|", ["false", "true"]),
        ("FROB |", []),
        ("|", []),
    ],
)  # fmt: skip
def test_candidates(env: TableEnvironment, text: str, found: list[str]) -> None:
    if text == "|":
        assert {"SELECT", "BEGIN", "SHOW"} <= set(at(env, text))
    else:
        assert at(env, text) == found


def test_columns_come_before_functions_and_keywords(env: TableEnvironment) -> None:
    found = at(env, "SELECT o| FROM orders")
    assert found[0] == "order_id"
    assert found.index("order_id") < found.index("OVERLAY") < found.index("ORDER")


def test_functions_of_the_session(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TEMPORARY FUNCTION cousin AS 'm.f' LANGUAGE PYTHON")
    assert [name for name in at(env, "SELECT cou| FROM orders") if name in ("COUNT", "cousin")] == ["COUNT", "cousin"]


def test_plan_files_and_selectors(env: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    shutil.copy(PLAN, tmp_path / "deep" / "join.json")
    (tmp_path / "deep" / "notes.txt").write_text("")
    assert at(env, f"EXECUTE PLAN '{tmp_path}/|") == [f"{tmp_path}/deep/"]
    assert at(env, f"EXPLAIN PLAN '{tmp_path}/deep/|") == [f"{tmp_path}/deep/join.json"]
    assert at(env, f"ALTER PLAN '{tmp_path}/deep/join.json' SET TTL '1 h' FOR '|") == ["join.left", "join.right"]
    assert at(env, f"ALTER PLAN '{tmp_path}/deep/join.json' SET TTL '1 h' FOR 'join.left', '|") == [
        "join.left",
        "join.right",
    ]
    alter = f"ALTER PLAN '{tmp_path}/deep/join.json'"
    assert at(env, f"{alter} |") == ["SET"]
    assert at(env, f"{alter} SET |") == ["TTL"]
    assert at(env, f"{alter} SET TTL |") == []
    assert at(env, f"{alter} SET TTL '1 h' |") == ["FOR"]
    assert at(env, f"SELECT 1; {alter} SET TTL '1 h' FOR |") == ["join.left", "join.right"]
    assert at(env, f"{alter} SET TTL '1 h' FOR join.l|") == ["join.left"]
    assert at(env, f"{alter} SET TTL '1 h' FOR join.left, |") == ["join.left", "join.right"]
    assert at(env, f"{alter} SET TTL '1 h' FOR join.left, TTL '2 h' FOR join.r|") == ["join.right"]
    assert at(env, "ALTER PLAN 'nosuch.json' SET TTL '1 h' FOR '|") == []
    assert at(env, "EXECUTE PLAN '/nosuch/|") == []


def test_plans_by_name() -> None:
    class Named(Host):
        def plan_names(self) -> list[str]:
            return ["daily", "hourly"]

    assert "plan://hourly" in complete(TableEnvironment(host=Named()).session, "EXECUTE PLAN 'plan://h", 22)


@pytest.mark.parametrize("text", ["SELECT * FROM orders WHERE a = 'x", "((((", "'", "`", "/*", "--", ";;;", "WITH ("])
def test_no_text_is_too_odd(env: TableEnvironment, text: str) -> None:
    for position in (-1, 0, 1, len(text), len(text) + 100):
        assert len(complete(env.session, text, position)) <= MAX_CANDIDATES
