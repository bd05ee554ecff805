"""What window functions of tables refuse."""

from __future__ import annotations

import pytest

from stateplan.common.errors import SqlError
from stateplan.planner.catalog.udf import AggregateFunction, udaf
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script

WITH = "WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = 'json')"
TABLES = f"""
CREATE TABLE t (k STRING, v INT, ts TIMESTAMP(3), seen TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) {WITH};
CREATE TABLE s (k STRING, c BIGINT) WITH ('connector' = 'print');
"""
TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
BY_CLOCK = TUMBLE.replace("ts", "pt")
NUMBER = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end"


def refused(query: str) -> SqlError:
    session = TableEnvironment.create()
    for statement in read_script(TABLES):
        session.execute_statement(statement)
    with pytest.raises(SqlError) as caught:
        session.compile_plan_sql(f"INSERT INTO s {query}")
    assert caught.value.place is not None
    return caught.value


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("TUMBLE(TABLE t, DESCRIPTOR(v), INTERVAL '5' SECOND)", "SQL119", "time attribute"),
        ("TUMBLE(TABLE t, DESCRIPTOR(seen), INTERVAL '5' SECOND)", "SQL119", "time attribute"),
        ("TUMBLE(TABLE t, DESCRIPTOR(tz), INTERVAL '5' SECOND)", "SQL119", "no column 'tz'"),
        ("TUMBLE(TABLE t, ts, INTERVAL '5' SECOND)", "SQL119", "names a column"),
        ("TUMBLE(DESCRIPTOR(ts), TABLE t, INTERVAL '5' SECOND)", "SQL119", "must be a table"),
        ("TUMBLE(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)", "SQL119", "partitioned"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts))", "SQL119", "no SIZE"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH)", "SQL119", "months"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), 5)", "SQL119", "constant interval"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0' SECOND)", "SQL119", "is 0 ms"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '-5' SECOND)", "SQL119", "is -5000 ms"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '7' SECOND)", "SQL119", "offset"),
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '1' SECOND, INTERVAL '1' SECOND)",
            "SQL119",
            "too many",
        ),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), SIZE => INTERVAL '5' SECOND)", "SQL119", "with and without a name"),
        ("TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), size => INTERVAL '5' SECOND)", "SQL119", "'size'"),
        ("TUMBLE(DATA => TABLE t, DATA => TABLE t, SIZE => INTERVAL '5' SECOND)", "SQL119", "twice"),
        ("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '4' SECOND)", "SQL163", "4000 ms every 3000 ms"),
        ("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '8' SECOND, INTERVAL '4' SECOND)", "SQL163", "4000 ms every 8000 ms"),
        ("CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '6' SECOND)", "SQL119", "grow by 4000 ms"),
        ("SESSION(TABLE t PARTITION BY kk, DESCRIPTOR(ts), INTERVAL '4' SECOND)", "SQL119", "columns of its table"),
        ("SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0' SECOND)", "SQL119", "is 0 ms"),
        ("SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts))", "SQL119", "no GAP"),
    ],
)
def test_arguments(call: str, code: str, words: str) -> None:
    error = refused(f"SELECT k, COUNT(*) FROM TABLE({call}) GROUP BY k, window_start, window_end")
    assert error.code == code
    assert words in error.message
    assert error.expected or error.hint


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            f"SELECT k, rn FROM (SELECT k, v, {NUMBER} ORDER BY k) AS rn FROM {TUMBLE}) WHERE rn <= v",
            "top-N query of each window whose N is a field",
        ),
        (
            f"SELECT k, rn FROM (SELECT k, {NUMBER} ORDER BY v) AS rn FROM {BY_CLOCK}) WHERE rn <= 2",
            "a window of processing time without an aggregate",
        ),
        (
            f"SELECT k, COUNT(*) FROM {BY_CLOCK} GROUP BY k",
            "a window of processing time without an aggregate",
        ),
    ],
)
def test_operators_within_windows(query: str, words: str) -> None:
    error = refused(query)
    assert words in error.message
    assert error.code in ("SQL150", "SQL202", "SQL201")


def test_a_window_function_outside_of_from_and_group_by() -> None:
    error = refused("SELECT k, TUMBLE(ts, INTERVAL '1' SECOND) FROM t")
    assert error.message == (
        "the function TUMBLE cannot be used here: use TUMBLE in GROUP BY, or in FROM as TABLE(TUMBLE(TABLE t, ...))"
    )


@pytest.mark.parametrize(
    ("select", "group", "code", "words"),
    [
        ("COUNT(*)", "TUMBLE(v, INTERVAL '5' SECOND)", "SQL119", "needs a time attribute"),
        ("COUNT(*)", "TUMBLE(seen, INTERVAL '5' SECOND)", "SQL119", "needs a time attribute"),
        ("COUNT(*)", "TUMBLE(ts)", "SQL119", "has no size"),
        ("COUNT(*)", "TUMBLE(ts, INTERVAL '5' SECOND, TIME '00:00:01')", "SQL119", "too many"),
        ("COUNT(*)", "TUMBLE(ts, INTERVAL '1' MONTH)", "SQL119", "in months"),
        ("COUNT(*)", "TUMBLE(ts, v)", "SQL119", "constant interval"),
        ("COUNT(*)", "SESSION(ts, INTERVAL '0' SECOND)", "SQL119", "is 0 ms"),
        ("COUNT(*)", "TUMBLE(ts, INTERVAL '5' SECOND), TUMBLE(ts, INTERVAL '9' SECOND)", "SQL119", "second window"),
        ("COUNT(*)", "ROLLUP(TUMBLE(ts, INTERVAL '5' SECOND))", "SQL150", "GROUPING SETS"),
        (
            "COUNT(TUMBLE_START(ts, INTERVAL '5' SECOND))",
            "TUMBLE(ts, INTERVAL '5' SECOND)",
            "SQL201",
            "TUMBLE_START cannot be used here",
        ),
        ("UNIX_TIMESTAMP(CAST(TUMBLE_END(ts, INTERVAL '9' SECOND) AS STRING))", "k", "SQL119", "not in GROUP BY"),
        (
            "UNIX_TIMESTAMP(CAST(HOP_END(ts, INTERVAL '5' SECOND, INTERVAL '5' SECOND) AS STRING))",
            "TUMBLE(ts, INTERVAL '5' SECOND)",
            "SQL119",
            "the same HOP(...) in GROUP BY",
        ),
        (
            "UNIX_TIMESTAMP(CAST(TUMBLE_ROWTIME(pt, INTERVAL '5' SECOND) AS STRING))",
            "TUMBLE(pt, INTERVAL '5' SECOND)",
            "SQL119",
            "needs a window of event time",
        ),
        ("UNIX_TIMESTAMP(CAST(ts AS STRING))", "TUMBLE(ts, INTERVAL '5' SECOND)", "SQL107", "ts"),
    ],
)
def test_windows_in_group_by(select: str, group: str, code: str, words: str) -> None:
    error = refused(f"SELECT k, {select} FROM t GROUP BY k, {group}")
    assert (error.code, words in f"{error.message} {error.expected}") == (code, True), error


def test_python_aggregates_over_windows_in_group_by() -> None:
    session = TableEnvironment.create()
    for statement in read_script(TABLES):
        session.execute_statement(statement)
    session.create_temporary_function("total", udaf(Total(), input_types=["INT"], result_type="BIGINT"))
    with pytest.raises(SqlError, match="a Python aggregate function over a window in GROUP BY") as caught:
        session.compile_plan_sql("INSERT INTO s SELECT k, total(v) FROM t GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)")
    assert caught.value.code == "SQL150"
    assert caught.value.place is not None


class Total(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], value: int) -> None:
        accumulator[0] += value

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]


@pytest.mark.parametrize("word", ["UNION ALL", "UNION"])
@pytest.mark.parametrize("computed", ["ts + INTERVAL '1' SECOND", "CASE v WHEN 1 THEN ts END"])
def test_union_of_a_time_attribute_and_a_computed_time(word: str, computed: str) -> None:
    both = f"(SELECT k, ts FROM t {word} SELECT k, {computed} FROM t)"
    error = refused(f"SELECT k, COUNT(DISTINCT ts) FROM {both} GROUP BY k")
    assert error.code == "SQL112"
    assert "column 2 ('ts') of the UNION is a time attribute on one side" in str(error)
    assert "CAST what is computed to TIMESTAMP(3)" in str(error)


@pytest.mark.parametrize(
    "below",
    [
        "SELECT x.k, x.ts FROM t x JOIN t y ON x.k = y.k",
        "SELECT x.k, x.pt AS ts FROM t x JOIN t y ON x.k = y.k",
        "SELECT k, ts FROM t WHERE v IN (SELECT v FROM t)",
        "SELECT DISTINCT k, ts FROM t",
        "SELECT k, ts FROM t UNION SELECT k, ts FROM t",
    ],
)
def test_window_over_what_is_no_time_attribute_any_more(below: str) -> None:
    window = f"TABLE(TUMBLE(({below}), DESCRIPTOR(ts), INTERVAL '5' SECOND))"
    for query in (
        f"SELECT k, COUNT(*) FROM {window} GROUP BY k, window_start, window_end",
        f"SELECT k, 1 FROM {window}",
    ):
        error = refused(query)
        assert error.code == "SQL119"
        assert "TUMBLE needs a time attribute" in str(error)
        assert "plain TIMESTAMP" in str(error)


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("STRING", "declare a computed column, ts AS TO_TIMESTAMP(a), and a WATERMARK for it"),
        ("BIGINT", "declare a computed column, ts AS TO_TIMESTAMP_LTZ(a, 3), and a WATERMARK for it"),
        ("TIMESTAMP(3)", "a time attribute that was computed with is none any more"),
        ("BOOLEAN", None),
    ],
)
def test_how_a_column_becomes_a_time_attribute(kind: str, hint: str | None) -> None:
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE TABLE t (a {kind}) WITH ('connector' = 'datagen')")
    with pytest.raises(SqlError) as caught:
        env.explain_sql("SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(a), INTERVAL '1' HOUR))")
    assert (caught.value.code, caught.value.hint) == ("SQL119", hint)
