"""The first rows of each window are no key of all windows; with the faults of Flink they are taken for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from tests.planner.changelog_rows import rows_left

FIRST = """SELECT k, v{more} FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v) AS n
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '10' SECOND))) WHERE n {which}"""
ROWS = [
    {"k": 1, "v": 5, "et": "2026-01-01 00:00:01", "@at": 1000},
    {"k": 1, "v": 7, "et": "2026-01-01 00:00:11", "@at": 2000},
    {"k": 2, "v": 7, "et": "2026-01-01 00:00:41", "@at": 3000},
]


def session(folder: Path, faults: str) -> TableEnvironment:
    """A session with a table of :data:`ROWS`, and one whose row comes later."""
    (folder / "t.json").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (folder / "c.json").write_text('{"k": 1, "name": "ann", "@at": 4000}\n')
    env = TableEnvironment.create({"table.optimizer.flink-faults": faults})
    env.execute_sql(
        "CREATE TABLE t (k INT, v INT, et TIMESTAMP(3), WATERMARK FOR et AS et) "
        f"WITH ('connector' = 'replay', 'path' = '{folder / 't.json'}', 'format' = 'json')"
    )
    env.execute_sql(
        "CREATE TABLE c (k INT, name STRING) "
        f"WITH ('connector' = 'replay', 'path' = '{folder / 'c.json'}', 'format' = 'json')"
    )
    return env


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ("corrected", [(1, 5, "ann"), (1, 7, "ann"), (2, 7, None)]),
        ("as-flink", [(1, 5, None), (1, 7, "ann"), (2, 7, None)]),
    ],
)
def test_a_join_keeps_the_rows_of_earlier_windows(
    faults: str, expected: list[tuple[object, ...]], tmp_path: Path
) -> None:
    query = f"SELECT w.k, w.v, c.name FROM ({FIRST.format(more='', which='= 1')}) AS w LEFT JOIN c ON w.k = c.k"
    assert rows_left(session(tmp_path, faults), query) == expected


@pytest.mark.parametrize(("faults", "spec"), [("corrected", "NoUniqueKey"), ("as-flink", "HasUniqueKey")])
def test_numbers_of_rows_are_keys_for_flink_only(faults: str, spec: str, tmp_path: Path) -> None:
    query = f"SELECT w.k, w.n, c.name FROM ({FIRST.format(more=', n', which='<= 2')}) AS w JOIN c ON w.k = c.k"
    assert f"leftInputSpec=[{spec}]" in session(tmp_path, faults).explain_sql(query)


def test_rows_are_ordered_by_an_expression_and_its_field(tmp_path: Path) -> None:
    env = session(tmp_path, "CORRECTED")
    env.execute_sql("CREATE TABLE out1 (a INT) WITH ('connector' = 'print')")
    numbered_rows = "SELECT a, ROW_NUMBER() OVER (ORDER BY a, v) AS n FROM (SELECT v, -v AS a FROM t)"
    plan = env.compile_plan_sql(f"INSERT INTO out1 SELECT a FROM ({numbered_rows}) WHERE n <= 1").document
    (rank,) = (node for node in plan.graph.nodes if node.title in ("rank", "sort-limit"))
    assert rank.describe(plan.graph.input_types(rank)) == "keeps the first row by $1 ASC, v ASC"
