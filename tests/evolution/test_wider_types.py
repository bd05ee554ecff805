"""Operators go on from their state as if the columns of their tables had always had wider types, and with columns that
follow from those that they keep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stateplan.plans.document import PlanDocument
from tests.support.evolving import Play, Tables, is_refused, plan_goes_on, replayed, sink

ORDERS = "id INT NOT NULL, product VARCHAR(5), code CHAR(2), amount SMALLINT, cost DECIMAL(8, 2), arrived AS PROCTIME()"
WIDER = "id BIGINT, product VARCHAR(9), code VARCHAR(2), amount INT, cost DECIMAL(8, 2), arrived AS PROCTIME()"
PRICES = "product VARCHAR(5), price INT, PRIMARY KEY (product) NOT ENFORCED"
OUT = sink("a STRING, b BIGINT, c BIGINT, d DECIMAL(20, 2)")


def ddl(orders: str, options: str = "") -> str:
    table = replayed("orders", orders).replace("'format' = 'json'", f"'format' = 'json'{options}")
    return table + replayed("prices", PRICES, "upsert") + OUT


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Tables(tmp_path, ddl(ORDERS))
    orders = [
        (1, 1, "apple", "de", 30000, 1.25),
        (1, 2, "pear", "fr", 30000, 2.5),
        (1, 1, "Apple", "de", None, None),
        (2, 2147483647, "apple", None, 3, 0.01),
        (3, 1, None, "fr", -5, 3.75),
        (4, 2, "pear", "de", 7, 9.99),
        (4, 1, "apple", "x", -30000, 1.0),
    ]
    tables.arrive_in("orders", "@at, id, product, code, amount, cost", orders)
    prices = [(1, "+I", "apple", 5), (2, "+U", "apple", 7), (3, "+I", "pear", 1), (4, "-D", "pear", None)]
    tables.arrive_in("prices", "@at, op, product, price", prices)
    return tables


def first(columns: str, by: str, limit: int) -> str:
    rank = f"ROW_NUMBER() OVER (PARTITION BY id ORDER BY {by}) AS rn"
    return f"SELECT {columns} FROM (SELECT *, {rank} FROM orders) WHERE rn <= {limit}"


JOIN = "SELECT o.product, o.id, price + amount, cost FROM orders AS o {} JOIN prices AS p ON o.product = p.product"
QUERIES = {
    "SELECT product, COUNT(*), COUNT(amount), 0 FROM orders GROUP BY product": "stateless",
    "SELECT code, COUNT(*), 0, MIN(cost) FROM orders GROUP BY code": "stateless",
    "SELECT code, id, COUNT(*), SUM(cost) FROM orders GROUP BY code, id": "derive",
    "SELECT MAX(product), MIN(amount), AVG(id), MAX(cost) FROM orders": "derive",
    "SELECT DISTINCT product, id, amount, cost FROM orders": "derive",
    JOIN.format(""): "derive",
    JOIN.format("LEFT"): "derive",
    "SELECT o.product, o.id, p.id, o.cost FROM orders AS o JOIN orders AS p ON o.id = p.amount": "derive",
    first("product, id, amount, cost", "arrived DESC", 1): "derive",
    first("product, id, amount, cost", "arrived", 1): "derive",
    first("product, id, amount, cost", "amount DESC, cost", 2): "derive",
    first("product, id, amount, cost", "amount DESC, cost", 2) + " AND amount < 100": "derive",
}


def plans(tables: Tables, before: str, after: str, wider: str = WIDER) -> Iterator[PlanDocument]:
    for columns, query in ((ORDERS, before), (wider, after)):
        yield Tables(tables.folder, ddl(columns)).plan(f"INSERT INTO out1 {query}")


@pytest.mark.parametrize("query", QUERIES)
def test_columns_get_wider(query: str, tables: Tables) -> None:
    assert plan_goes_on(*plans(tables, query, query)) == QUERIES[query]


def test_a_number_is_found_by_its_wider_key(tables: Tables) -> None:
    query = "SELECT 'all', id, COUNT(*), SUM(cost) FROM orders GROUP BY id"
    old_plan, new_plan = plans(tables, query, query)
    old = Play(old_plan)
    old.run(0, 1)
    new, notes = old.evolve(new_plan)
    assert notes[-1] == "the state of group-aggregate[3] is derived: its keys have other types"
    assert new.run(2, 3) == [["0 +U ('all', 1, 3, Decimal('5.00'))", "0 -U ('all', 1, 2, Decimal('1.25'))"]]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "SELECT product, COUNT(*), MAX(id), 0 FROM orders GROUP BY product",
            "SELECT UPPER(product), COUNT(*), MAX(id), 0 FROM orders GROUP BY UPPER(product)",
        ),
        (
            "SELECT product, amount, COUNT(*), 0 FROM orders GROUP BY product, amount",
            "SELECT product, amount / 100, COUNT(*), 0 FROM orders GROUP BY product, amount / 100",
        ),
        (
            "SELECT product, MIN(amount), COUNT(cost), 0 FROM orders GROUP BY product",
            "SELECT product, MIN(CAST(amount AS BIGINT)), COUNT(cost), 0 FROM orders GROUP BY product",
        ),
        (
            JOIN.format("LEFT").replace("o.product, o.id", "o.product || 'x', o.id"),
            "SELECT u, id, price, cost FROM (SELECT id, product, amount, UPPER(product) AS u, cost + amount AS cost "
            "FROM orders WHERE amount > 0) AS o LEFT JOIN prices AS p ON o.product = p.product AND u <> 'PEAR'",
        ),
        (
            first("product, id, amount, cost", "arrived DESC", 1),
            first("u, id, amount, cost", "arrived DESC", 1).replace(
                "FROM orders", "FROM (SELECT id, amount + 1 AS amount, LOWER(product) AS u, cost, arrived FROM orders)"
            ),
        ),
    ],
)
def test_columns_and_keys_follow_from_what_is_kept(before: str, after: str, tables: Tables) -> None:
    assert plan_goes_on(*plans(tables, before, after, ORDERS)) == "derive"


@pytest.mark.parametrize(
    ("query", "wider", "reason"),
    [
        (
            "SELECT product, SUM(amount), 0, 0 FROM orders GROUP BY product",
            WIDER,
            "SUM(amount) would not have seen the earlier rows",
        ),
        (
            "SELECT product, 0, 0, cost FROM orders GROUP BY product, cost",
            ORDERS.replace("DECIMAL(8, 2)", "DECIMAL(12, 2)"),
            "`cost` DECIMAL(8, 2)> NOT NULL -> ROW<`product` VARCHAR(5), `cost` DECIMAL(12, 2)>",
        ),
        (
            "SELECT code, COUNT(DISTINCT amount), 0, 0 FROM orders GROUP BY code",
            WIDER,
            "single values (DISTINCT, MIN or MAX over updates) were not kept",
        ),
    ],
)
def test_what_does_not_follow_from_narrower_values_is_refused(
    query: str, wider: str, reason: str, tables: Tables
) -> None:
    query = f"INSERT INTO out1 {query}"
    with pytest.raises(Exception, match="CKPT003") as error:
        plan_goes_on(tables.plan(query), Tables(tables.folder, ddl(wider)).plan(query), accept="derive")
    assert reason in str(error.value)


def test_a_number_that_was_no_value_of_the_narrow_type_may_be_one_of_the_wide_type(tables: Tables) -> None:
    skips = ", 'json.ignore-parse-errors' = 'true'"
    query = "INSERT INTO out1 SELECT 'x', id, COUNT(*), 0 FROM orders GROUP BY id"
    with pytest.raises(Exception, match="CKPT003"):
        plan_goes_on(*(Tables(tables.folder, ddl(columns, skips)).plan(query) for columns in (ORDERS, WIDER)), "derive")


def test_a_clock_is_not_read_again(tables: Tables) -> None:
    before = "INSERT INTO out1 SELECT product, COUNT(*), 0, 0 FROM orders GROUP BY product"
    after = before.replace("product", "product || CAST(RAND(1) AS STRING)")
    is_refused(tables, before, after, "its keys or values changed")
