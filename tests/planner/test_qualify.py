"""QUALIFY: what Flink does not compile, and what is refused. Its plans are among the golden cases."""

from __future__ import annotations

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.planner.conftest import TABLES, compiled, plain
from tests.planner.error_places import underlined

FIRST = "ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC)"
LAST = "ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt DESC)"


def test_the_groups_of_a_query_are_filtered() -> None:
    """Flink 2.3 compiles no such query."""
    qualify = (
        "SELECT a, SUM(b) AS s FROM t GROUP BY a, c HAVING SUM(b) > 1 "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY SUM(b) DESC) <= 2 AND s < 9"
    )
    where = (
        "SELECT a, s FROM (SELECT a, SUM(b) AS s, ROW_NUMBER() OVER (PARTITION BY a ORDER BY SUM(b) DESC) AS n "
        "FROM t GROUP BY a, c HAVING SUM(b) > 1) WHERE n <= 2 AND s < 9"
    )
    plans = [compiled(f"{TABLES}INSERT INTO snk {query};") for query in (qualify, where)]
    kinds = [[node["type"] for node in plain(plan)["nodes"]] for plan in plans]
    assert kinds[0] == kinds[1]
    assert any("rank" in kind for kind in kinds[0])


def test_it_plans_in_a_view() -> None:
    view = f"CREATE VIEW latest AS SELECT a, b FROM p QUALIFY {LAST} = 1;"
    plans = [
        compiled(f"{TABLES}{view}INSERT INTO snk SELECT * FROM latest;"),
        compiled(f"{TABLES}INSERT INTO snk SELECT a, b FROM p QUALIFY {LAST} = 1;"),
    ]
    assert plain(plans[0]) == plain(plans[1])


@pytest.mark.parametrize(
    ("query", "code", "where", "words"),
    [
        ("SELECT a, b FROM t QUALIFY b > 1", "SQL105", "b > 1", "needs a window function"),
        (f"SELECT a, b FROM t QUALIFY {FIRST}", "SQL103", FIRST, "the condition of QUALIFY has the type BIGINT"),
        (f"SELECT a, b FROM t QUALIFY {FIRST} = 1 AND a IN (SELECT a FROM u)", "SQL150",
         f"{FIRST} = 1 AND a IN (SELECT a FROM u)", "a query in QUALIFY"),
        ("SELECT a, b FROM t QUALIFY SUM(b) > 1", "SQL104", "SUM", "cannot be used in QUALIFY"),
        (f"SELECT a, b AS a FROM t QUALIFY {FIRST} = a", "SQL101", "a", "'a' is ambiguous"),
        (f"SELECT a, b FROM t QUALIFY {FIRST} = zz", "SQL100", "zz", "column 'zz'"),
        ("SELECT a, b FROM t QUALIFY", "SQL001", "", "ends too early"),
        (f"SELECT a, b FROM t QUALIFY {FIRST} = 1 HAVING a > 1", "SQL001", "HAVING", "unexpected 'HAVING'"),
        (f"SELECT a, b FROM t WHERE {FIRST} = 1", "SQL105", FIRST, "OVER cannot be used in WHERE"),
    ],
)  # fmt: skip
def test_what_is_refused(query: str, code: str, where: str, words: str) -> None:
    env = TableEnvironment.create()
    for statement in read_script(TABLES):
        env.execute_statement(statement)
    with pytest.raises(StateplanError) as caught:
        env.compile_plan_sql(f"INSERT INTO snk {query}")
    assert caught.value.code == code
    assert words in str(caught.value)
    if where:
        assert underlined(caught.value).startswith(where)
