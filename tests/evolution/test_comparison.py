"""Groups that are made from history are compared with those of the old state, in the calls that both have."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError, find_encoded
from stateplan.runtime.worker import WorkerError
from tests.support.evolving import Play, Tables, goes_on, replayed, sink

DDL = replayed("orders", "product STRING, amount BIGINT, price DOUBLE") + sink()
COLUMNS = "@at, product, amount, price"
ORDERS = [(1, "apple", 3, 0.5), (1, "pear", 4, None), (2, "apple", None, 1.5), (2, None, 7, 2.5), (3, "plum", 1, 0.1)]
OLD = "INSERT INTO out1 SELECT product, COUNT(*), SUM(amount), 0 FROM orders GROUP BY product"
NEW = "INSERT INTO out1 SELECT product, MAX(amount), COUNT(*), SUM(amount) FROM orders GROUP BY product"


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Tables(tmp_path, DDL)
    tables.arrive_in("orders", COLUMNS, ORDERS)
    return tables


def evolved(tables: Tables, history: list[tuple[object, ...]], accept: str = "none", old: str = OLD) -> Play:
    """The new plan, over another history than the old one has read."""
    before = Play(tables.plan(old))
    before.run(0, 2)
    tables.arrive_in("orders", COLUMNS, history)
    return before.evolve(tables.plan(NEW), accept)[0]


def test_equal_groups_continue(tables: Tables) -> None:
    assert goes_on(tables, OLD, NEW, stops=(1, 2, 3)) == "backfill"


@pytest.mark.parametrize(
    ("history", "example"),
    [
        (
            [(1, "apple", 5, 0.5), *ORDERS[1:]],
            "{product: apple, COUNT(*): 2, SUM(amount) sum: 3, SUM(amount) count: 1} became "
            "{product: apple, COUNT(*): 2, SUM(amount) sum: 5, SUM(amount) count: 1}",
        ),
        (
            [ORDERS[0], *ORDERS[2:]],
            "{product: pear, COUNT(*): 1, SUM(amount) sum: 4, SUM(amount) count: 1} became nothing",
        ),
        (
            [*ORDERS[:3], (2, "fig", None, None), *ORDERS[3:]],
            "nothing became {product: fig, COUNT(*): 1, SUM(amount) sum: 0, SUM(amount) count: 0}",
        ),
        (
            [*ORDERS[:3], ORDERS[4]],
            "{product: NULL, COUNT(*): 1, SUM(amount) sum: 7, SUM(amount) count: 1} became nothing",
        ),
    ],
)
def test_another_history_is_refused_with_examples(
    history: list[tuple[object, ...]], example: str, tables: Tables
) -> None:
    with pytest.raises(WorkerError) as failure:
        evolved(tables, history)
    error = find_encoded(str(failure.value))
    assert isinstance(error, CheckpointError) and error.code == "CKPT056"
    assert error.message.endswith(f"in 1 group or more: {example}")
    assert evolved(tables, history, "reset").states(), "the user accepts other values"


def test_calls_that_depend_on_the_order_of_rows_are_not_compared(tables: Tables) -> None:
    old = "INSERT INTO out1 SELECT product, CAST(SUM(price) AS BIGINT), 0, 0 FROM orders GROUP BY product"
    assert evolved(tables, [(1, "kiwi", 1, 9.5), *ORDERS[1:]], old=old).states()


def test_rows_that_expire_are_not_compared(tables: Tables) -> None:
    expiring = Tables(tables.folder, "SET 'table.exec.state.ttl' = '1 h';" + DDL)
    assert evolved(expiring, [(1, "kiwi", 1, 9.5), *ORDERS[1:]]).states()
