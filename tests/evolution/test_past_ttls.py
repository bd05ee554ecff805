"""State that had a TTL once may lack rows, whatever the plan says now: it is made from history, not derived."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evolving import Play, Tables, replayed, sink

DDL = replayed("orders", "id BIGINT, product STRING, shop STRING, amount BIGINT") + sink("a STRING, b BIGINT")
GROUPS = "SELECT product, COUNT(*) FROM orders GROUP BY product, shop"
JOINED = "SELECT a.product, b.amount FROM orders AS a JOIN orders AS b ON a.id = b.amount"
RANKED = (
    "SELECT product, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY amount) AS n FROM orders)"
    " WHERE n <= 3"
)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Tables(tmp_path, DDL)
    tables.arrive(
        "orders",
        [
            {"@at": at, "id": at, "product": "ab"[n % 2], "shop": "xyz"[n % 3], "amount": n % 4}
            for n, at in enumerate((1, 1, 1, 2, 2, 3, 3, 4, 4))
        ],
    )
    return tables


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (GROUPS, GROUPS.replace(", shop", ""), "groups that have expired after 1 s are missing in larger groups"),
        (JOINED, JOINED.replace("JOIN", "LEFT JOIN"), "rows that have expired after 1 s may have matched"),
        (RANKED, RANKED.replace("3", "2"), "which rows have expired after 1 s depends on the number of rows kept"),
    ],
)
def test_rows_that_may_have_expired_are_read_again(before: str, after: str, reason: str, tables: Tables) -> None:
    old, new_plan = Play(tables.plan(f"INSERT INTO out1 {before}")), tables.plan(f"INSERT INTO out1 {after}")
    old.run(0, 2)
    _, notes = old.evolve(new_plan)
    assert " is derived: " in notes[-1]
    past_ttls = {node.id: [1_000] * len(node.state_names) for node in old.document.graph.nodes}
    new, notes = old.evolve(new_plan, past_ttls=past_ttls)
    assert f"is made from the history of its inputs: {reason}" in notes[-1]
    whole = Play(new_plan)
    whole.run(0, 2)
    assert new.states() == whole.states()
