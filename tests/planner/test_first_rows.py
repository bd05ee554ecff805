"""The first row of each key, in another order than by time: a row that another one replaces is taken back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment
from tests.planner.changelog_rows import rows_left

FIRST = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS n FROM t) WHERE n = 1"
ROWS = [(1, 5, "b"), (1, 3, "c"), (2, 4, "a"), (1, 3, "a"), (2, 4, None)]


def session(folder: Path, **options: str) -> TableEnvironment:
    """A session with a table of :data:`ROWS`, in that order."""
    rows = [{"k": k, "v": v, "s": s, "et": "2026-01-01 00:00:00", "@at": 1000 * n} for n, (k, v, s) in enumerate(ROWS)]
    (folder / "t.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = TableEnvironment.create({f"table.optimizer.{key}": text for key, text in options.items()})
    env.execute_sql(
        "CREATE TABLE t (k INT, v INT, s STRING, et TIMESTAMP(3), pt AS PROCTIME(), "
        "WATERMARK FOR et AS et - INTERVAL '1' MINUTE) "
        f"WITH ('connector' = 'replay', 'path' = '{folder / 't.json'}', 'format' = 'json')"
    )
    return env


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT k, v, s FROM {FIRST.format('v, s')}", [(1, 3, "a"), (2, 4, None)]),
        (f"SELECT k, v, s FROM {FIRST.format('et, v, s')}", [(1, 3, "a"), (2, 4, None)]),
        (f"SELECT k, v FROM {FIRST.format('v')}", [(1, 3), (2, 4)]),
        (f"SELECT SUM(v), COUNT(*) FROM {FIRST.format('v')}", [(7, 2)]),
        (f"SELECT v, COUNT(*) FROM {FIRST.format('v, s DESC')} GROUP BY v", [(3, 1), (4, 1)]),
        (f"SELECT COUNT(*) FROM t JOIN (SELECT k, v FROM {FIRST.format('v')}) AS x ON t.v = x.v", [(4,)]),
        (f"SELECT v FROM {FIRST.format('v')} ORDER BY v DESC LIMIT 1", [(4,)]),
    ],
)
def test_a_row_that_is_replaced_is_taken_back(query: str, expected: list[tuple[object, ...]], tmp_path: Path) -> None:
    assert rows_left(session(tmp_path), query) == expected


def test_as_flink_it_stays(tmp_path: Path) -> None:
    env = session(tmp_path, **{"flink-faults": "as-flink"})
    assert rows_left(env, f"SELECT SUM(v), COUNT(*) FROM {FIRST.format('v')}") == [(12, 3)]


def test_over_does_not_take_rows_that_are_replaced(tmp_path: Path) -> None:
    query = f"SELECT SUM(v) OVER (ORDER BY et) FROM {FIRST.format('v')}"
    with pytest.raises(StateplanError, match="update") as refused:
        session(tmp_path).execute_sql(query)
    assert refused.value.code == "SQL140"
    assert "'as-flink' does too" in str(refused.value)


@pytest.mark.parametrize("order", ["et", "pt"])
def test_the_first_row_by_time_stays(order: str, tmp_path: Path) -> None:
    query = f"SELECT COUNT(*) FROM {FIRST.format(order)} GROUP BY TUMBLE(et, INTERVAL '1' MINUTE)"
    assert rows_left(session(tmp_path), query) == [(2,)]


def test_a_partition_by_an_expression_of_what_it_is_ordered_by() -> None:
    query = (
        "SELECT x, u FROM (SELECT x, u, ROW_NUMBER() OVER (PARTITION BY u ORDER BY x) AS n "
        "FROM (SELECT x, UPPER(x) AS u FROM (VALUES ('b'), ('a'), ('B')) AS t(x))) WHERE n = 1"
    )
    rows = TableEnvironment.create().sql_query(query).to_polars().rows()
    assert sorted(rows) == [("B", "B"), ("a", "A")]
