"""Windows of the WINDOW clause, and windows that build on them: the plans of the windows written out.

Flink's plans are the same, except that Flink loses the frame of a window that builds on another, and the PARTITION BY
of the first of three windows.
"""

from __future__ import annotations

import pytest

from stateplan.common.errors import SqlError
from stateplan.session.environment import TableEnvironment

FRAME = "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"


@pytest.fixture(scope="module")
def environment() -> TableEnvironment:
    environment = TableEnvironment.create()
    environment.execute_sql(
        "CREATE TABLE t (k INT, v BIGINT, s STRING, pt AS PROCTIME()) WITH ('connector' = 'datagen')"
    )
    return environment


@pytest.mark.parametrize(
    ("call", "windows", "written_out"),
    [
        ("SUM(v) OVER w2", "w AS (PARTITION BY k), w2 AS (w ORDER BY pt)", "PARTITION BY k ORDER BY pt"),
        ("SUM(v) OVER w2", "w2 AS (w ORDER BY pt), w AS (PARTITION BY k)", "PARTITION BY k ORDER BY pt"),
        ("SUM(v) OVER (w ORDER BY pt)", "w AS (PARTITION BY k)", "PARTITION BY k ORDER BY pt"),
        ("SUM(v) OVER (w)", "w AS (PARTITION BY k ORDER BY pt)", "PARTITION BY k ORDER BY pt"),
        (f"SUM(v) OVER (w {FRAME})", "w AS (PARTITION BY k ORDER BY pt)", f"PARTITION BY k ORDER BY pt {FRAME}"),
        (
            "SUM(v) OVER w3",
            f"w AS (PARTITION BY k), w2 AS (w ORDER BY pt), w3 AS (w2 {FRAME})",
            f"PARTITION BY k ORDER BY pt {FRAME}",
        ),
        (
            "SUM(v) OVER w2 + SUM(v) OVER (w ORDER BY pt)",
            "w AS (PARTITION BY k), w2 AS (w ORDER BY pt)",
            "PARTITION BY k ORDER BY pt",
        ),
    ],
)
def test_the_plan_is_that_of_the_window_written_out(
    call: str, windows: str, written_out: str, environment: TableEnvironment
) -> None:
    total = f"SUM(v) OVER ({written_out})"
    other = f"{total} + {total}" if "+" in call else total
    assert environment.explain_sql(f"SELECT k, {call} FROM t WINDOW {windows}") == environment.explain_sql(
        f"SELECT k, {other} FROM t"
    )


def test_a_deduplication_by_a_window_that_builds_on_another(environment: TableEnvironment) -> None:
    numbered = "SELECT *, ROW_NUMBER() OVER (w ORDER BY pt) AS n FROM t WINDOW w AS (PARTITION BY k)"
    assert "Deduplicate(keep=[FirstRow], key=[k]" in environment.explain_sql(f"SELECT k FROM ({numbered}) WHERE n = 1")
    qualified = "SELECT k FROM t WINDOW w AS (PARTITION BY k) QUALIFY ROW_NUMBER() OVER (w ORDER BY pt) = 1"
    assert "Deduplicate(keep=[FirstRow], key=[k]" in environment.explain_sql(qualified)


def test_a_frame_over_a_named_window_counts() -> None:
    rows = "(SELECT v, PROCTIME() AS pt FROM (VALUES (1), (2), (4)) AS r(v))"
    query = f"SELECT SUM(v) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM {rows} WINDOW w AS (ORDER BY pt)"
    assert TableEnvironment.create().sql_query(query).to_polars().rows() == [(1,), (3,), (6,)]


@pytest.mark.parametrize(
    ("call", "windows", "problem"),
    [
        ("SUM(v) OVER (w ORDER BY pt)", "w AS (PARTITION BY k ORDER BY pt)", "cannot have a second ORDER BY"),
        ("SUM(v) OVER (w PARTITION BY s)", "w AS (ORDER BY pt)", "cannot have a PARTITION BY"),
        ("SUM(v) OVER (w ORDER BY pt)", f"w AS (PARTITION BY k {FRAME})", "because 'w' has ROWS or RANGE"),
        (f"SUM(v) OVER (w {FRAME})", f"w AS (ORDER BY pt {FRAME})", "because 'w' has ROWS or RANGE"),
        ("SUM(v) OVER w", "w AS (PARTITION BY k), w AS (ORDER BY pt)", "has 'w' twice"),
        ("SUM(v) OVER w", "w AS (w2), w2 AS (w)", "builds on itself"),
        ("SUM(v) OVER w2", "w AS (PARTITION BY k), w2 AS (nope ORDER BY pt)", "'nope' not found"),
    ],
)
def test_what_flink_refuses(call: str, windows: str, problem: str, environment: TableEnvironment) -> None:
    with pytest.raises(SqlError) as refused:
        environment.explain_sql(f"SELECT k, {call} FROM t WINDOW {windows}")
    assert refused.value.code == "SQL105"
    assert problem in str(refused.value)
