"""What MATCH_RECOGNIZE refuses: what Flink does not run either, and what would have no effect."""

from __future__ import annotations

import pytest

from stateplan.common.errors import SqlError
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script

TABLES = """
CREATE TABLE t (k INT, id INT, v INT, w STRING, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = 'json');
CREATE TABLE s (a INT) WITH ('connector' = 'print');
"""


def compiled(query: str) -> None:
    session = TableEnvironment.create()
    for statement in read_script(TABLES):
        session.execute_statement(statement)
    session.compile_plan_sql(f"INSERT INTO s {query}")


def refused(query: str) -> SqlError:
    with pytest.raises(SqlError) as caught:
        compiled(query)
    assert caught.value.place is not None
    assert caught.value.place.line is not None
    return caught.value


def clause(
    pattern: str = "A B",
    define: str = "A AS A.v > 1",
    measures: str = "A.id AS a",
    order: str = "ORDER BY ts",
    after: str = "",
    rest: str = "",
) -> str:
    parts = f"{order} MEASURES {measures} {after} PATTERN ({pattern}) {rest} DEFINE {define}"
    return f"SELECT m.a FROM t MATCH_RECOGNIZE ({parts}) AS m"


def test_what_is_refused_below_is_right_otherwise() -> None:
    compiled(clause())
    compiled(clause(order="PARTITION BY k ORDER BY pt, id DESC NULLS LAST"))


@pytest.mark.parametrize(
    ("pattern", "code", "words"),
    [
        ("A B A", "SQL182", "'A' is in the pattern twice"),
        ("A B*", "SQL182", "ends with 'B*'"),
        ("A B{2,3}", "SQL182", "ends with 'B{2,3}'"),
        ("A+ B? C", "SQL182", "optional 'B?' follows the greedy 'A+'"),
        ("A{1,2} B*? C", "SQL182", "optional 'B*?' follows the greedy 'A{1,2}'"),
        ("A? B", "SQL183", "'C'"),
        ("A*?", "SQL182", "matches no rows at all"),
        ("A? B{0,2}?", "SQL182", "matches no rows at all"),
        ("A{3,2} B", "SQL182", "bounds of 'A{3,2}'"),
        ("A{0} B", "SQL182", "bounds of 'A{0}'"),
        ("A{5,99999999999} B", "SQL182", "bounds of 'A{5,99999999999}'"),
        ("A?? B", "SQL150", "'A??', a reluctant optional variable"),
        ("A{0,1}? B", "SQL150", "reluctant optional variable"),
    ],
)
def test_patterns(pattern: str, code: str, words: str) -> None:
    define = "C AS C.v > 1" if code == "SQL183" else "A AS A.v > 1"
    error = refused(clause(pattern, define))
    assert (error.code, words in error.message) == (code, True), error.message


@pytest.mark.parametrize(
    ("order", "code", "words"),
    [
        ("", "SQL181", "no ORDER BY"),
        ("ORDER BY id, ts", "SQL181", "'id', is no time attribute"),
        ("ORDER BY ts DESC", "SQL181", "descends"),
        ("ORDER BY ts, id + 1", "SQL180", "ORDER BY of MATCH_RECOGNIZE is not a column"),
        ("PARTITION BY k + 1 ORDER BY ts", "SQL180", "PARTITION BY of MATCH_RECOGNIZE is not a column"),
        ("PARTITION BY t.k ORDER BY ts", "SQL180", "not a column"),
        ("PARTITION BY kk ORDER BY ts", "SQL100", "'kk'"),
    ],
)
def test_partition_and_order(order: str, code: str, words: str) -> None:
    error = refused(clause(order=order))
    assert (error.code, words in error.message) == (code, True), error.message


@pytest.mark.parametrize(
    ("measures", "code", "words"),
    [
        ("X.id AS a", "SQL183", "'X' is not a variable"),
        ("t.id AS a", "SQL183", "'t' is not a variable"),
        ("A.nope AS a", "SQL100", "'nope'"),
        ("A.id AS a, B.id AS a", "SQL184", "two columns with the name 'a'"),
        ("RUNNING LAST(A.id) AS a", "SQL150", "RUNNING"),
        ("PREV(A.id) AS a", "SQL150", "PREV in MEASURES"),
        ("NEXT(A.id) AS a", "SQL150", "NEXT in MEASURES"),
        ("CLASSIFIER() AS a", "SQL150", "CLASSIFIER"),
        ("MATCH_NUMBER() AS a", "SQL150", "MATCH_NUMBER"),
        ("LAST(A.id, -1) AS a", "SQL184", "number of rows"),
        ("LAST(A.id, B.id) AS a", "SQL184", "number of rows"),
        ("LAST(LAST(A.id)) AS a", "SQL184", "LAST is nested in another call"),
        ("LAST(A.id + B.id) AS a", "SQL184", "columns of A and B"),
        ("LAST(1 + A.id) AS a", "SQL184", "the constant '1' in front of"),
        ("LAST(SUBSTRING(A.w, 2, 3)) AS a", "SQL184", "the constant '2' in front of"),
        ("LAST(TRIM(A.w)) AS a", "SQL184", "the constant 'BOTH' in front of"),
        ("LAST(A.v + CASE WHEN A.v > 3 THEN 5 ELSE 6 END) AS a", "SQL184", "the constant '5' in front of"),
        ("LAST(NULL) AS a", "SQL184", "no column"),
        ("LAST(COALESCE(NULL, A.v)) AS a", "SQL109", ""),
        ("LAST(PI()) AS a", "SQL184", "no column"),
        ("LAST(CASE WHEN A.v > 3 THEN A.v END) AS a", "SQL150", "LAST around CASE"),
        ("FIRST(CAST(A.v AS STRING)) AS a", "SQL150", "FIRST around CAST"),
        ("LAST(A.v IN (1, 2)) AS a", "SQL150", "LAST around IN"),
        ("LAST(NULLIF(A.v, 2)) AS a", "SQL150", "LAST around NULLIF"),
        ("LAST(YEAR(A.ts)) AS a", "SQL150", "LAST around YEAR"),
        ("LAST(FLOOR(A.ts TO MINUTE)) AS a", "SQL150", "LAST around FLOOR"),
        ("LAST(A.id + SUM(A.v)) AS a", "SQL184", "SUM is nested in another call"),
        ("SUM(LAST(A.v + B.v)) AS a", "SQL184", "columns of A and B"),
        ("SUM(A.v * B.v) AS a", "SQL184", "columns of A and B"),
        ("SUM(1) AS a", "SQL184", "no column"),
        ("SUM(COUNT(A.v)) AS a", "SQL108", ""),
        ("SUM(*) AS a", "SQL106", ""),
        ("SUM(A.w) AS a", "SQL203", "SUM"),
        ("COUNT(A.*) AS a", "SQL106", ""),
        ("COUNT(DISTINCT A.v) AS a", "SQL150", "DISTINCT"),
        ("SUM(A.v) FILTER (WHERE A.v > 1) AS a", "SQL150", "FILTER"),
        ("STDDEV_POP(A.v + B.v) AS a", "SQL184", "columns of A and B"),
        ("FIRST_VALUE(1) AS a", "SQL184", "no column"),
        ("COUNT(A.v, A.id) AS a", "SQL202", "COUNT"),
        ("LISTAGG(A.w, A.w) AS a", "SQL203", ""),
        ("APPROX_COUNT_DISTINCT(A.v) AS a", "SQL150", "APPROX_COUNT_DISTINCT"),
        ("GROUPING(A.v) AS a", "SQL150", "GROUPING"),
        ("JSON_ARRAYAGG(A.v) AS a", "SQL203", "an argument of type INT"),
        ("JSON_OBJECTAGG(KEY A.v VALUE A.w) AS a", "SQL203", "an argument of type INT"),
        ("(SELECT MAX(v) FROM t) AS a", "SQL150", "a query"),
        ("MATCH_ROWTIME(id) AS a", "SQL184", "event time attribute"),
        ("NULL AS a", "SQL109", ""),
    ],
)
def test_measures(measures: str, code: str, words: str) -> None:
    error = refused(clause(measures=measures))
    assert (error.code, words in error.message) == (code, True), error.message


@pytest.mark.parametrize(
    ("define", "code", "words"),
    [
        ("X AS X.v > 1", "SQL183", "'X' is not a variable"),
        ("A AS A.v > 1, A AS A.v < 3", "SQL183", "defined twice"),
        ("A AS A.v", "SQL103", "DEFINE"),
        ("B AS B.v > PREV(B.v)", "SQL150", "PREV of another row"),
        ("B AS B.v > NEXT(B.v, 2)", "SQL150", "NEXT of another row"),
        ("B AS FINAL LAST(A.v) > 1", "SQL184", "FINAL cannot be used in DEFINE"),
        ("B AS MATCH_ROWTIME() > B.ts", "SQL150", "MATCH_ROWTIME in DEFINE"),
        ("B AS B.v IN (SELECT v FROM t)", "SQL150", ""),
        ("B AS SUM(PREV(B.v, 0)) > 1", "SQL184", "PREV is nested in another call"),
        ("B AS FIRST_VALUE(SUM(B.v)) > 1", "SQL108", ""),
        ("B AS EXISTS (SELECT v FROM t)", "SQL150", "a query"),
    ],
)
def test_conditions(define: str, code: str, words: str) -> None:
    error = refused(clause(define=define))
    assert (error.code, words in error.message) == (code, True), error.message


@pytest.mark.parametrize(
    ("after", "rest", "code", "words"),
    [
        ("AFTER MATCH SKIP TO LAST X", "", "SQL183", "'X' is not a variable"),
        ("", "WITHIN INTERVAL '1' MONTH", "SQL150", "WITHIN an interval"),
        ("", "WITHIN INTERVAL -'1' SECOND", "SQL184", "an interval above zero"),
        ("", "WITHIN INTERVAL '0' SECOND", "SQL184", "an interval above zero"),
        ("", "SUBSET U = (A, B)", "SQL150", "SUBSET"),
    ],
)
def test_other_clauses(after: str, rest: str, code: str, words: str) -> None:
    error = refused(clause(after=after, rest=rest))
    assert (error.code, words in error.message) == (code, True), error.message


def test_updates_cannot_be_matched() -> None:
    below = "(SELECT k, MAX(id) AS id, MAX(v) AS v, PROCTIME() AS pt FROM t GROUP BY k)"
    query = clause(order="ORDER BY pt").replace("FROM t ", f"FROM {below} ")
    error = refused(query)
    assert error.code == "SQL140"
    assert "MATCH_RECOGNIZE" in error.message
    assert "GroupAggregate" in error.message


@pytest.mark.parametrize(
    "rows",
    [
        "SELECT a.* FROM t AS a JOIN t AS b ON a.k = b.k",
        "SELECT * FROM t WHERE k IN (SELECT id FROM t)",
        "SELECT DISTINCT k, id, v, ts FROM t",
    ],
)
def test_a_time_that_an_operator_below_made_a_timestamp(rows: str) -> None:
    """Flink writes a plan of this that it cannot run."""
    query = clause().replace("FROM t", f"FROM ({rows})")
    error = refused(query)
    assert error.code == "SQL181"
    assert "'ts', which its ORDER BY begins with, is a plain TIMESTAMP(3) here" in str(error)
