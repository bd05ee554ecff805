"""Text to tree to text gives the text again."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from stateplan.planner.dialect import logical_type, nodes, parse, parse_expression, parse_query, to_sql

LINES = Path(__file__).with_name("identity.sql").read_text().splitlines()

# What is read in more than one way is written in one.
CANONICAL = [
    ("select a from t", "SELECT a FROM t"),
    ("SELECT ALL a FROM t;", "SELECT a FROM t"),
    ("SELECT a x FROM t y", "SELECT a AS x FROM t AS y"),
    ("SELECT a FROM t -- comment", "SELECT a FROM t"),
    ("SELECT a /* c */ FROM t // d", "SELECT a FROM t"),
    ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
    ("SELECT a FROM t LIMIT ALL OFFSET 2 ROWS", "SELECT a FROM t OFFSET 2"),
    ("TABLE t", "SELECT * FROM t"),
    ("SELECT SUBSTRING(a FROM 2 FOR 3) FROM t", "SELECT SUBSTRING(a, 2, 3) FROM t"),
    ("SELECT TRIM(BOTH FROM a) FROM t", "SELECT TRIM(BOTH ' ' FROM a) FROM t"),
    ("SELECT +a, .5, 1. FROM t", "SELECT a, 0.5, 1 FROM t"),
    ("SELECT 'a' 'b', U&'\\00fc', N'x'", "SELECT 'ab', 'ü', 'x'"),
    ("SELECT DATE '2024-1-2', TIMESTAMP '2024-01-02'", "SELECT DATE '2024-01-02', TIMESTAMP '2024-01-02 00:00:00'"),
    ("SELECT INTERVAL 5 SECONDS", "SELECT INTERVAL '5' SECOND"),
    ("SELECT a FROM t ORDER BY a ASC NULLS FIRST", "SELECT a FROM t ORDER BY a"),
    ("SELECT CAST(a AS DOUBLE PRECISION)", "SELECT CAST(a AS DOUBLE)"),
    (
        "SELECT CAST(a AS STRING), CAST(a AS BYTES)",
        "SELECT CAST(a AS VARCHAR(2147483647)), CAST(a AS VARBINARY(2147483647))",
    ),
    ("SELECT CAST(a AS INT ARRAY)", "SELECT CAST(a AS ARRAY<INT>)"),
    ("SELECT * FROM f(a => 1)", "SELECT * FROM TABLE(f(a => 1))"),
    ("SET table.exec.state.ttl=1d", "SET 'table.exec.state.ttl' = '1d'"),
    ("SET 'k' = 'a;b'", "SET 'k' = 'a;b'"),
    ("RESET pipeline.name;", "RESET 'pipeline.name'"),
    ("DESC t", "DESCRIBE t"),
    ("CREATE TABLE t (a INT) WITH () LIKE u", "CREATE TABLE t (a INT) WITH () LIKE u"),
    ("SHOW TABLES FROM d LIKE 'x'", "SHOW TABLES FROM d LIKE 'x'"),
    ("DESC JOB 'a1'", "DESCRIBE JOB 'a1'"),
    ("alter job 'a1' using plan 'p.json'", "ALTER JOB 'a1' USING PLAN 'p.json'"),
    ("alter job 'a1' commit", "ALTER JOB 'a1' COMMIT"),
    ("STOP JOB 'a1' WITH SAVEPOINT WITH DRAIN", "STOP JOB 'a1' WITH SAVEPOINT WITH DRAIN"),
    (
        "EXPLAIN EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT 1; END",
        "EXPLAIN STATEMENT SET BEGIN INSERT INTO s SELECT 1; END",
    ),
    ("SELECT a IS JSON, a IS NOT JSON VALUE FROM t", "SELECT a IS JSON VALUE, a IS NOT JSON VALUE FROM t"),
    (
        "SELECT JSON_OBJECT(key VALUE 1, 'b', 2, 'c' : 3, key 'd' value 4) FROM t",
        "SELECT JSON_OBJECT(KEY key VALUE 1, KEY 'b' VALUE 2, KEY 'c' VALUE 3, KEY 'd' VALUE 4) FROM t",
    ),
    (
        "SELECT JSON_QUERY(a, '$' WITH ARRAY WRAPPER), JSON_QUERY(a, '$' WITHOUT ARRAY WRAPPER) FROM t",
        "SELECT JSON_QUERY(a, '$' WITH UNCONDITIONAL WRAPPER), JSON_QUERY(a, '$' WITHOUT WRAPPER) FROM t",
    ),
    ("SELECT a MINUTE FROM t".replace("MINUTE", "minutes"), "SELECT a AS minutes FROM t"),
]


@pytest.mark.parametrize("line", LINES)
def test_text_survives(line: str) -> None:
    [tree] = parse(line)
    assert to_sql(tree) == line


@pytest.mark.parametrize("line", LINES)
def test_copies_are_equal_and_survive_pickling(line: str) -> None:
    import pickle

    [tree] = parse(line)
    assert tree.copy() == tree
    assert to_sql(pickle.loads(pickle.dumps(tree))) == line


@pytest.mark.parametrize(("text", "written"), CANONICAL)
def test_one_way_of_writing(text: str, written: str) -> None:
    [tree] = parse(text)
    assert to_sql(tree) == written
    [again] = parse(written)
    assert to_sql(again) == written


def test_every_statement_class_is_in_the_identity_file() -> None:
    found = {type(node) for line in LINES for node in parse(line)[0].walk()}
    ours = set(nodes.CLASSES)
    assert ours - found == set()


def test_the_dialect_is_registered_with_sqlglot() -> None:
    tree = sqlglot.parse_one("SELECT `a` FROM t WHERE b = 'x'", read="flink")
    assert tree.sql(dialect="flink") == "SELECT `a` FROM t WHERE b = 'x'"
    assert [s.sql("flink") for s in sqlglot.parse("SELECT 1; SELECT 2", read="flink") if s] == ["SELECT 1", "SELECT 2"]


def test_case_of_names_is_kept() -> None:
    query = parse_query("SELECT Order_Id FROM Orders")
    assert [c.name for c in query.find_all(exp.Column)] == ["Order_Id"]
    assert [t.name for t in query.find_all(exp.Table)] == ["Orders"]


def test_types_become_flink_types() -> None:
    cast = parse_expression("CAST(a AS ROW<x INT, `Y y` DECIMAL(5) NOT NULL, z TIMESTAMP_LTZ(3)>)")
    assert str(logical_type(cast.args["to"])) == (
        "ROW<`x` INT, `Y y` DECIMAL(5, 0) NOT NULL, `z` TIMESTAMP(3) WITH LOCAL TIME ZONE>"
    )
    assert str(logical_type(parse_expression("CAST(a AS TIMESTAMP)").args["to"])) == "TIMESTAMP(6)"
    assert str(logical_type(parse_expression("CAST(a AS TIME)").args["to"])) == "TIME(0)"
    assert str(logical_type(parse_expression("CAST(a AS CHAR VARYING(7))").args["to"])) == "VARCHAR(7)"
    assert str(logical_type(parse_expression("CAST(a AS VARCHAR)").args["to"])) == "VARCHAR(2147483647)"
