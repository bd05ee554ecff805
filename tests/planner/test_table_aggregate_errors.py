"""Calls of table aggregate functions that cannot be compiled: a code, the place in the SQL, and what would be right."""

from __future__ import annotations

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment
from tests.support import plan_functions

CASES = [
    ("a, v, r FROM top2(TABLE t PARTITION BY aa, DESCRIPTOR(b))", "SQL100", "aa", "column 'aa' not found"),
    ("a, v, r FROM top2(TABLE t PARTITION BY a, DESCRIPTOR(bb))", "SQL100", "bb", "column 'bb' not found"),
    ("a, v, r FROM top2(TABLE tt PARTITION BY a, DESCRIPTOR(b))", "CAT002", "tt", "not found"),
    ("a, v, r FROM top2(t, DESCRIPTOR(b))", "SQL119", "t", "must be a table"),
    ("a, v, r FROM top2(DESCRIPTOR(b))", "SQL119", "DESCRIPTOR", "must be a table"),
    ("a, v, r FROM top2(TABLE t PARTITION BY a, b)", "SQL119", "b", "as a descriptor"),
    ("a, v, r FROM top2(TABLE t PARTITION BY a + 1, DESCRIPTOR(b))", "SQL119", "a + 1", "takes columns"),
    ("a, v, r FROM top2(TABLE t PARTITION BY a, DESCRIPTOR(b), 3)", "SQL119", "3", "too many arguments"),
    ("a, v, r FROM top2(TABLE t, input => TABLE t)", "SQL119", "input => TABLE t", "'input' comes twice"),
    ("a, v, r FROM top2(inputs => TABLE t)", "SQL119", "inputs => TABLE t", "no argument 'inputs'"),
    ("a, v, r FROM top2(TABLE t PARTITION BY a)", "SQL202", "top2", "cannot take 0 arguments"),
    ("a, v, r FROM top2(TABLE t PARTITION BY a, DESCRIPTOR(c))", "SQL203", "top2", "argument 1 is STRING"),
    ("a, v, r FROM cnt(TABLE t PARTITION BY a, DESCRIPTOR(c))", "SQL212", "cnt", "is an aggregate function"),
    ("a, v, r FROM t, LATERAL TABLE(top2(b))", "SQL212", "top2", "cannot be used in FROM"),
    ("a, top2(b), 1 FROM t GROUP BY a", "SQL212", "top2", "cannot be used in"),
    ("/*+ STATE_TTL('u' = '1 d') */ a, v, r FROM top2(TABLE t PARTITION BY a, DESCRIPTOR(b))", "SQL123", "'u'", "'u'"),
]


@pytest.mark.parametrize(("query", "code", "at", "message"), CASES)
def test_a_call_that_is_none_is_refused_at_its_place(
    env: TableEnvironment, query: str, code: str, at: str, message: str
) -> None:
    env.create_temporary_function("top2", plan_functions.top2)
    env.create_temporary_function("cnt", plan_functions.cnt)
    env.execute_sql("CREATE TABLE three (k INT, v BIGINT, r INT) WITH ('connector' = 'print')")
    sql = f"INSERT INTO three SELECT {query}"
    with pytest.raises(StateplanError) as caught:
        env.compile_plan_sql(sql)
    error = caught.value
    assert error.code == code
    assert message in error.message
    assert error.place is not None
    assert error.place.column is not None
    assert sql[error.place.column - 1 :].startswith(at)
