"""VALUES as a statement, and EXPLAIN in batch mode."""

from __future__ import annotations

import pytest

from stateplan.session.environment import TableEnvironment


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("VALUES (1, 'a'), (2, 'b')", [(1, "a"), (2, "b")]),
        ("VALUES 1, 2", [(1,), (2,)]),
        ("(VALUES (1))", [(1,)]),
        ("VALUES (1) UNION ALL VALUES (2)", [(1,), (2,)]),
        ("VALUES (2), (1) ORDER BY 1 LIMIT 1", [(1,)]),
        ("WITH a AS (SELECT 1) VALUES (3)", [(3,)]),
    ],
)
def test_values_is_a_query(statement: str, rows: list[tuple[object, ...]]) -> None:
    result = TableEnvironment.create().execute_sql(statement)
    assert sorted(map(tuple, result.collect())) == rows
    assert result.columns[0] == "EXPR$0"


def test_values_is_explained_and_a_table() -> None:
    env = TableEnvironment.create()
    assert "Values(tuples=[[{ 1 }]])" in env.explain_sql("VALUES (1)")
    assert [tuple(row) for row in env.sql_query("VALUES (1)").execute().collect()] == [(1,)]


def test_explain_in_batch_mode_has_no_state() -> None:
    env = TableEnvironment.create()
    query = "SELECT a, COUNT(*) FROM (VALUES (1), (2)) AS t (a) GROUP BY a"
    assert "never expires" in env.explain_sql(query)
    env.execute_sql("SET 'execution.runtime-mode' = 'batch'")
    said = env.explain_sql(query)
    assert "GroupAggregate" in said
    assert "State" not in said
    assert "never" not in said
