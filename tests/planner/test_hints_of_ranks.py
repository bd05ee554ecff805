"""STATE_TTL on what numbers or limits rows: in its own SELECT, or in the one around it."""

from __future__ import annotations

import pytest

from stateplan.common.errors import SqlError
from stateplan.session.environment import TableEnvironment

NUMBERED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS n FROM t)"


def environment() -> TableEnvironment:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE t (k INT, v INT, p AS PROCTIME()) WITH ('connector' = 'datagen')")
    env.execute_sql(f"CREATE VIEW firsts AS SELECT k, v FROM {NUMBERED} WHERE n = 1")
    return env


def ttls(query: str) -> list[str]:
    shown = environment().explain_sql(query).split("== State ==\n")[1]
    return [line.split("[")[0] + " " + line.split("ttl ")[-1].split("  ")[0] for line in shown.splitlines() if line]


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        (f"SELECT /*+ STATE_TTL('t' = '1 d') */ k, v FROM {NUMBERED} WHERE n = 1", "deduplicate"),
        (f"SELECT /*+ STATE_TTL('q' = '1 d') */ k, v FROM {NUMBERED} AS q WHERE n = 1", "deduplicate"),
        (f"SELECT /*+ STATE_TTL('q' = '1 d') */ k, n FROM {NUMBERED} AS q WHERE n <= 3", "rank"),
        (f"SELECT /*+ STATE_TTL('t' = '1 d') */ k FROM (SELECT k, n FROM {NUMBERED} WHERE k > 1) WHERE n <= 3", "rank"),
        ("SELECT /*+ STATE_TTL('firsts' = '1 d') */ k FROM firsts", "deduplicate"),
        (f"WITH q AS {NUMBERED} SELECT /*+ STATE_TTL('q' = '1 d') */ k FROM q WHERE n = 1", "deduplicate"),
        (
            "SELECT /*+ STATE_TTL('t' = '1 d') */ k FROM t "
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) = 1",
            "rank",
        ),
        ("SELECT /*+ STATE_TTL('t' = '1 d') */ k FROM t ORDER BY v LIMIT 3", "sort-limit"),
        ("SELECT /*+ STATE_TTL('t' = '1 d') */ k FROM t LIMIT 3", "limit"),
        ("SELECT /*+ STATE_TTL('t' = '1 d') */ k, SUM(v) OVER (PARTITION BY k ORDER BY p) FROM t", "over-aggregate"),
    ],
)
def test_the_operator_below_takes_the_hint(query: str, operator: str) -> None:
    assert ttls(query) == [f"{operator} 1 d"]


def test_a_hint_for_a_table_of_its_own_select_goes_no_further() -> None:
    query = f"SELECT /*+ STATE_TTL('t' = '1 d') */ a.k FROM {NUMBERED} AS a JOIN t ON a.k = t.k WHERE n = 1"
    assert ttls(query)[0].startswith("deduplicate") and "1 d" not in ttls(query)[0]
    assert "join 1 d" in ttls(query)


def test_a_query_with_state_takes_its_hint_itself() -> None:
    query = f"SELECT /*+ STATE_TTL('q' = '1 d') */ v, COUNT(*) FROM {NUMBERED} AS q WHERE n = 1 GROUP BY v"
    assert [t for t in ttls(query) if t.endswith("1 d")] == ["group-aggregate 1 d"]


@pytest.mark.parametrize(
    ("query", "selector"),
    [
        ("SELECT /*+ STATE_TTL('t' = '1 d') */ k FROM (SELECT k, COUNT(*) FROM t GROUP BY k) AS q", "group-aggregate"),
        ("SELECT /*+ STATE_TTL('t' = '1 d') */ a.k FROM t AS a JOIN t AS b ON a.k = b.k", "join.left"),
        (f"SELECT /*+ STATE_TTL('x' = '1 d') */ k FROM {NUMBERED} WHERE n = 1", "deduplicate"),
    ],
)
def test_where_no_operator_takes_it_the_refusal_shows_how_to_set_it_in_the_plan(query: str, selector: str) -> None:
    with pytest.raises(SqlError) as refused:
        environment().explain_sql(query)
    assert refused.value.code == "SQL123"
    assert str(refused.value.hint).endswith(f"ALTER PLAN 'plan.json' SET TTL '1 d' FOR {selector}")
    assert ("alias" in str(refused.value.hint)) == (selector != "deduplicate")
