"""Operators behind a source that is new to the plan begin empty, also where an operator of the old plan is alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evolving import Play, Tables, plan_goes_on, replayed

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


UNION = "(SELECT product, id FROM orders UNION ALL SELECT product, id FROM returned)"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT product, COUNT(*) FROM {} GROUP BY product",
        "SELECT product, SUM(id) FROM {} WHERE id > 0 GROUP BY product",
        "SELECT product, MAX(n) FROM (SELECT product, id, COUNT(*) AS n FROM {} GROUP BY product, id) GROUP BY product",
        "SELECT o.product, o.id FROM {} AS o LEFT JOIN orders AS p ON o.id = p.id",
    ],
)
def test_a_branch_of_a_new_source_leaves_the_state_behind_it(query: str, tmp_path: Path) -> None:
    tables = Tables(tmp_path, DDL)
    for name, first in (("orders", 1), ("returned", 3)):
        rows = [{"@at": at, "id": at % 3, "product": "apple", "amount": 1} for at in range(first, 5)]
        tables.arrive(name, rows)
    before, after = (
        tables.plan(f"INSERT INTO out1 {query.format(x)}") for x in ("(SELECT product, id FROM orders)", UNION)
    )
    assert plan_goes_on(before, after, accept="derive", stops=(1, 2)) in ("identical", "stateless", "rewrite")


def test_a_branch_with_an_event_time_holds_up_windows(tmp_path: Path) -> None:
    time = "ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    tables = Tables(tmp_path, replayed("orders", time) + replayed("returned", time) + DDL.rpartition(";")[2])
    tables.arrive("orders", [{"@at": at, "ts": f"2026-01-01 00:00:0{at}"} for at in range(1, 5)])
    tables.arrive("returned", [{"@at": at, "ts": f"2026-01-01 00:00:0{at}"} for at in range(3, 5)])
    window = (
        "INSERT INTO out1 WITH u AS (SELECT ts FROM {}) SELECT CAST(window_start AS STRING), COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end"
    )
    views = ("orders", "(SELECT ts FROM orders UNION ALL SELECT ts FROM returned)")
    before, after = (tables.plan(window.format(view)) for view in views)
    assert plan_goes_on(before, after, stops=(1, 2)) == "backfill"
