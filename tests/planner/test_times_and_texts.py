"""Time attributes in comparisons with texts, and in calls beside other times."""

from __future__ import annotations

import pytest

from stateplan.session.environment import TableEnvironment

LATE, EARLY = "9999-01-01 00:00:00", "2024-01-01 00:00:00"
ROWS = f"(SELECT PROCTIME() AS pt, s FROM (VALUES ('{LATE}')) AS r(s))"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (f"pt < '{LATE}'", True),
        (f"'{EARLY}' < pt", True),
        (f"pt > '{LATE}'", False),
        ("pt < s", True),
        ("pt >= s", False),
        (f"pt BETWEEN '{EARLY}' AND s", True),
        (f"pt IN ('{EARLY}', s)", False),
        (f"pt NOT IN ('{EARLY}', '{LATE}')", True),
        ("CASE WHEN pt < s THEN TRUE ELSE FALSE END", True),
    ],
)
def test_a_processing_time_is_compared_with_the_text_and_not_with_the_clock(condition: str, holds: bool) -> None:
    assert TableEnvironment.create().sql_query(f"SELECT {condition} FROM {ROWS}").to_polars().rows() == [(holds,)]


@pytest.mark.parametrize(
    "call",
    [
        "CASE WHEN s = '' THEN pt ELSE lt END",
        "IF(s = '', pt, lt)",
        "COALESCE(CASE WHEN s = '' THEN pt END, lt)",
        "COALESCE(NULLIF(lt, pt), pt)",
        f"COALESCE(NULLIF(pt, CASE WHEN s = '{LATE}' THEN pt END), lt)",
        "COALESCE(IF(s = '', pt, CAST(NULL AS TIMESTAMP_LTZ(3))), lt)",
    ],
)
def test_a_call_with_a_processing_time_is_not_the_clock(call: str) -> None:
    rows = f"(SELECT pt, s, CAST(s AS TIMESTAMP_LTZ(3)) AS lt FROM {ROWS})"
    query = f"SELECT CAST({call} AS STRING) FROM {rows}"
    assert TableEnvironment.create().sql_query(query).to_polars().rows() == [(f"{LATE}.000",)]


def test_a_constant_is_folded_as_in_flink() -> None:
    environment = TableEnvironment.create({"table.local-time-zone": "UTC"})
    columns = "s STRING, rt TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR rt AS rt"
    environment.execute_sql(f"CREATE TABLE t ({columns}) WITH ('connector' = 'datagen')")
    plan = environment.explain_sql(f"SELECT rt > '{EARLY}', pt > '{EARLY}', rt > s FROM t").partition("== Optimized P")[
        2
    ]
    assert ">(CAST(rt AS TIMESTAMP(3)), 2024-01-01 00:00:00:TIMESTAMP(3)) AS EXPR$0" in plan
    assert ">(PROCTIME_MATERIALIZE(pt), 2024-01-01 00:00:00:TIMESTAMP_WITH_LOCAL_TIME_ZONE(3)) AS EXPR$1" in plan
    assert ">(CAST(rt AS TIMESTAMP(3)), CAST(CAST(s AS TIMESTAMP(3) *ROWTIME*) AS TIMESTAMP(3))) AS EXPR$2" in plan
