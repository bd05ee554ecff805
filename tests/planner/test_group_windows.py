"""GROUP BY TUMBLE, HOP and SESSION: rows without a time, and operators that read all that is told of a window."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from tests.planner.changelog_rows import rows_left


@pytest.fixture
def env(tmp_path: Path) -> TableEnvironment:
    """A session with the tables a, of times, and b, of keys."""
    env = TableEnvironment.create()
    tables = {
        "a": ("k INT, et TIMESTAMP(3), WATERMARK FOR et AS et", [(1, "00:00:01"), (1, "00:00:02"), (2, "00:00:11")]),
        "b": ("k INT, s STRING", [(1, "x"), (3, "y"), (4, "y")]),
    }
    for name, (columns, rows) in tables.items():
        second = "et" if name == "a" else "s"
        lines = [{"k": k, second: f"2026-01-01 {v}" if name == "a" else v, "@at": 1000} for k, v in rows]
        (tmp_path / f"{name}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'replay', "
            f"'path' = '{tmp_path / f'{name}.json'}', 'format' = 'json')"
        )
    return env


@pytest.mark.parametrize("window", ["TUMBLE(et, {ten})", "HOP(et, {ten}, {ten})", "SESSION(et, INTERVAL '5' SECOND)"])
def test_a_row_without_a_time_is_in_no_window(window: str, env: TableEnvironment) -> None:
    call = window.format(ten="INTERVAL '10' SECOND")
    query = f"SELECT s, COUNT(*) FROM (SELECT a.et, b.s FROM b LEFT JOIN a ON a.k = b.k) GROUP BY s, {call}"
    assert rows_left(env, query) == [("x", 2)]


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("SELECT w, n FROM windows ORDER BY n DESC, w LIMIT 1", [2]),
        ("SELECT w, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, w) AS r FROM windows) WHERE r <= 1", [2]),
        ("SELECT x.w, x.n FROM windows AS x JOIN windows AS y ON x.n = y.n", [1, 2]),
    ],
)
def test_what_is_told_of_windows_is_kept_in_state(above: str, expected: list[int], env: TableEnvironment) -> None:
    env.execute_sql(
        "CREATE TEMPORARY VIEW windows AS SELECT HOP_START(et, INTERVAL '10' SECOND, INTERVAL '10' SECOND) AS w, "
        "COUNT(*) AS n FROM a GROUP BY HOP(et, INTERVAL '10' SECOND, INTERVAL '10' SECOND)"
    )
    assert sorted(row[1] for row in rows_left(env, above)) == expected


def test_distinct_values_of_a_key_count_once_when_split(env: TableEnvironment) -> None:
    for key, text in (("mini-batch.enabled", "true"), ("mini-batch.allow-latency", "1 s"), ("mini-batch.size", "9")):
        env.execute_sql(f"SET 'table.exec.{key}' = '{text}'")
    env.execute_sql("SET 'table.optimizer.distinct-agg.split.enabled' = 'true'")
    query = "SELECT k, COUNT(DISTINCT k), COUNT(DISTINCT et), SUM(k) FROM a GROUP BY k"
    assert rows_left(env, query) == [(1, 1, 2, 2), (2, 1, 1, 2)]
