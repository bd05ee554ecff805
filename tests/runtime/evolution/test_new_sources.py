"""Operators behind a source that is new to the plan begin empty, also where an operator of the old plan is alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evolving import Play, Tables, replayed

DDL = (
    replayed("orders", "id BIGINT, product STRING, amount BIGINT")
    + replayed("returned", "id BIGINT, product STRING, amount BIGINT")
    + "CREATE TABLE out1 (a STRING, b BIGINT) WITH ('connector' = 'print')"
)

TOP = "SELECT product, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY id) AS n FROM orders)"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT product, COUNT(*) FROM orders GROUP BY product",
        "SELECT product, COUNT(DISTINCT id) FROM orders GROUP BY product",
        f"{TOP} WHERE n <= 2",
        "SELECT o.product, o.id FROM orders AS o LEFT JOIN orders AS p ON o.id = p.id",
    ],
)
def test_the_state_of_another_table_is_not_used(query: str, tmp_path: Path) -> None:
    tables = Tables(tmp_path, DDL)
    tables.arrive("orders", [{"@at": at, "id": at, "product": "apple", "amount": 1} for at in (1, 2)])
    tables.arrive("returned", [{"@at": at, "id": at, "product": "apple", "amount": 2} for at in (1, 2)])
    old = Play(tables.plan(f"INSERT INTO out1 {query}"))
    old.run()
    assert any(old.states().values())
    new_plan = tables.plan(
        f"INSERT INTO out1 {query.replace('FROM orders', 'FROM returned').replace('JOIN orders', 'JOIN returned')}"
    )
    new, _ = old.evolve(new_plan)
    assert new.states() == Play(new_plan).states()
    assert new.run() == Play(new_plan).run()
