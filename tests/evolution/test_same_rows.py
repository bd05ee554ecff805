"""Changes that leave the rows of an aggregate as they are: branches of UNION ALL in another order, and mini-batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evolving import Tables, goes_on, replayed, sink

DDL = (
    replayed("web", "product STRING, amount BIGINT")
    + replayed("shops", "amount BIGINT, product STRING")
    + sink("a STRING, b BIGINT")
)
TOTALS = "INSERT INTO out1 SELECT product, SUM(amount) FROM ({} UNION ALL {}) GROUP BY product"
WEB, SHOPS = "SELECT product, amount FROM web", "SELECT product, amount FROM shops WHERE amount > 1"
MINI_BATCH = """SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '100';
SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
"""


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Tables(tmp_path, DDL)
    for name in ("web", "shops"):
        tables.arrive(name, [{"@at": at, "product": "ab"[at % 2], "amount": at} for at in (1, 1, 2, 3, 4)])
    return tables


def test_branches_in_another_order_give_the_same_rows(tables: Tables) -> None:
    assert goes_on(tables, TOTALS.format(WEB, SHOPS), TOTALS.format(SHOPS, WEB)) in ("identical", "stateless")


def test_mini_batches_do_not_change_the_state_of_one_phase(tables: Tables) -> None:
    one_phase = TOTALS.format(WEB, SHOPS)
    assert goes_on(tables, one_phase, MINI_BATCH + one_phase) == "stateless"
    assert goes_on(tables, MINI_BATCH + one_phase, one_phase) == "stateless"
