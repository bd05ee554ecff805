"""ORDER BY a CAST with LIMIT: rows are sorted before the CAST where it keeps their order, and only there."""

from __future__ import annotations

import pytest

from stateplan.session.environment import TableEnvironment
from tests.planner.conftest import compiled

TABLES = """
CREATE TABLE t (id INT, n BIGINT, f FLOAT, d DECIMAL(10, 2), s STRING, ts TIMESTAMP(3), instant TIMESTAMP_LTZ(3))
  WITH ('connector' = 'datagen');
CREATE TABLE snk (id INT, x STRING) WITH ('connector' = 'blackhole');
"""


@pytest.mark.parametrize(
    ("key", "is_below"),
    [
        ("CAST(id AS BIGINT)", True),
        ("CAST(n AS DOUBLE)", True),
        ("CAST(ts AS STRING)", True),
        ("CAST(ts AS DATE)", True),
        ("CAST(n AS INT)", False),  # 2147483648 becomes the smallest number
        ("CAST(f AS INT)", True),  # what is too large becomes the largest number
        ("CAST(f AS SMALLINT)", False),
        ("CAST(d AS DECIMAL(6, 2))", False),
        ("CAST(n AS STRING)", False),
        ("CAST(s AS DATE)", False),
        ("CAST(instant AS TIMESTAMP(3))", False),  # an hour comes twice when summer time ends
        ("CAST(instant AS STRING)", False),
    ],
)
def test_rows_are_sorted_below_casts_that_keep_their_order(key: str, is_below: bool) -> None:
    query = f"INSERT INTO snk SELECT id, CAST(k AS STRING) FROM (SELECT id, {key} AS k FROM t ORDER BY k LIMIT 2)"
    nodes = [str(node["type"]) for node in compiled(f"{TABLES}{query};")["nodes"]]
    calcs_below = [n for n in nodes[: nodes.index("stream-exec-sort-limit_1")] if "calc" in n]
    assert (not calcs_below) == is_below


def test_numbers_that_do_not_fit_are_sorted_as_what_they_become() -> None:
    values = "(VALUES (CAST(1 AS BIGINT)), (2147483648)) AS t (v)"
    query = f"SELECT c FROM (SELECT CAST(v AS INT) AS c FROM {values}) ORDER BY c LIMIT 1"
    with TableEnvironment.create().execute_sql(query).collect() as rows:
        assert [row[0] for row in rows][-1] == -2147483648
