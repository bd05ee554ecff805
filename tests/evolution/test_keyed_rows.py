"""Deduplications, rankings and normalizations go on from their state with other keys, conditions, columns and numbers
of rows, as if they had always been so."""

from __future__ import annotations

import pytest

from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink

DDL = (
    replayed("orders", "product STRING, shop STRING, id BIGINT, amount INT, arrived AS PROCTIME()")
    + replayed(
        "prices", "product STRING, shop STRING, price INT, cost INT, PRIMARY KEY (product, shop) NOT ENFORCED", "upsert"
    )
    + sink()
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("keyed_rows"), DDL)
    orders = [
        (1, "apple", "north", 1, 5),
        (1, "apple", "south", 2, 3),
        (1, "pear", "north", 3, 7),
        (1, "apple", "north", 4, 3),
        (2, "apple", "north", 5, 1),
        (2, "pear", "north", 6, 7),
        (2, None, "south", 7, None),
        (3, "apple", "south", 8, 3),
        (3, "pear", "north", 9, 2),
        (3, "apple", "north", 10, 4),
        (4, "pear", "south", 11, 2),
        (4, "apple", "north", 12, 2),
    ]
    tables.arrive_in("orders", "@at, product, shop, id, amount", orders)
    prices = [
        (1, "+I", "apple", "north", 5, 1),
        (1, "+U", "apple", "south", 6, 2),
        (1, "+I", "pear", "north", 7, 3),
        (2, "+U", "apple", "north", 2, 4),
        (2, "-D", "pear", "north", None, None),
        (3, "+U", "apple", "south", 8, 5),
        (3, "+I", "pear", "north", 1, 6),
        (4, "-D", "apple", "south", None, None),
        (4, "+U", "apple", "north", 9, 7),
    ]
    tables.arrive_in("prices", "@at, op, product, shop, price, cost", prices)
    return tables


NUMBERED = (
    "INSERT INTO out1 SELECT product, id, amount, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product "
    "ORDER BY amount) AS n FROM orders) WHERE n <= 3"
)
SWAPPED = "(SELECT shop, product, id, amount, arrived FROM orders)"


def first(by: str, keys: str, where: str = "", columns: str = "product, id, amount, 0", n: str = "n = 1") -> str:
    """The rows of each partition with the first numbers."""
    rank = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {by}) AS n"
    return f"INSERT INTO out1 SELECT {columns} FROM (SELECT *, {rank} FROM orders {where}) WHERE {n}"


def swapped(sql: str) -> str:
    """The same rows, with their keys the other way round."""
    return sql.replace("FROM orders", f"FROM {SWAPPED}")


TOTALS = "(SELECT product, shop, SUM(amount) AS amount, MAX(id) AS id FROM orders GROUP BY product, shop)"


def totals(by: str, keys: str, where: str = "", n: str = "n <= 2", columns: str = "product, id, amount, 0") -> str:
    """The first rows of each partition of sums, which may rise and fall."""
    rank = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {by}) AS n"
    return f"INSERT INTO out1 SELECT {columns} FROM (SELECT *, {rank} FROM {TOTALS} {where}) WHERE {n}"


@pytest.mark.parametrize("limit", [2, 3])
def test_a_top_n_without_its_numbers_keeps_the_first_rows(limit: int, tables: Tables) -> None:
    before = first("amount", "product", columns="product, id, amount, n", n="n <= 3")
    after = first("amount", "product", n=f"n <= {limit}")
    assert goes_on(tables, before, after, stops=(1, 2, 3)) == "derive"
    shown = after.replace(", 0 FROM", ", n FROM")
    is_refused(tables, after, shown, "rows of equal order behind the last one were not kept")


def test_a_smaller_top_n_keeps_the_first_rows(tables: Tables) -> None:
    old = Play(tables.plan(first("amount", "product", n="n <= 3")))
    old.run(0, 1)
    new, notes = old.evolve(tables.plan(first("amount", "product", n="n <= 2")))
    assert notes[-1].endswith("is derived: only the first 2 of each partition are kept")
    assert new.states() == {"rank[4].rankState": ["('apple', 2, 3)", "('apple', 4, 3)", "('pear', 3, 7)"]}


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (first("arrived", "product, shop"), swapped(first("arrived", "product, shop")), "derive"),
        (first("arrived DESC", "product, shop"), swapped(first("arrived DESC", "product, shop")), "derive"),
        (first("arrived", "product"), first("arrived", "product", "WHERE product <> 'pear'"), "derive"),
        (first("arrived DESC", "product"), first("arrived DESC", "product", "WHERE product <> 'pear'"), "derive"),
        (
            first("arrived DESC", "product, shop"),
            swapped(first("arrived DESC", "product, shop", "WHERE product <> 'pear'", "product, id, 0, 0")),
            "derive",
        ),
        (first("arrived DESC", "product"), first("arrived DESC", "product", "", "product, 0, 0, 0"), "rewrite"),
        (
            first("amount", "product", n="n <= 2"),
            first("amount", "product", "WHERE product <> 'pear'", n="n <= 2"),
            "derive",
        ),
        (first("amount", "product", n="n <= 3"), first("amount", "product", n="n <= 2"), "derive"),
        (first("amount", "product", n="n <= 3"), first("amount", "product", n="n = 1"), "derive"),
        (
            first("amount", "product", n="n > 1 AND n <= 3"),
            first("amount", "product", n="n > 2 AND n <= 3"),
            "stateless",
        ),
        (first("amount", "product", n="n > 1 AND n <= 3"), first("amount", "product", n="n <= 3"), "derive"),
        (first("amount", "product", n="n > 1 AND n <= 3"), first("amount", "product", n="n <= 2"), "derive"),
        (first("amount", "product", n="n > 1 AND n <= 3"), NUMBERED, "stateless"),
        (
            first("amount", "product, shop", n="n <= 3"),
            swapped(first("amount", "product, shop", "WHERE product <> 'pear'", "product, 0, amount, 0", "n <= 2")),
            "derive",
        ),
        (
            first("amount", "product", n="n <= 3"),
            first("amount", "product", "", "'x', 0, amount, 0", "n <= 3"),
            "rewrite",
        ),
        (first("arrived", "product", n="n <= 3"), first("arrived", "product", n="n <= 2"), "derive"),
        (totals("amount", "product"), totals("amount", "product", n="n <= 1"), "stateless"),
        (totals("amount", "product"), totals("amount", "product", n="n <= 3"), "stateless"),
        (totals("amount", "product"), totals("id", "product"), "stateless"),
        (totals("amount", "product"), totals("amount", "product", columns="product, n, amount, id"), "stateless"),
        (totals("amount", "product"), totals("amount", "product", "WHERE amount > 3"), "derive"),
        (totals("amount", "product"), totals("amount", "product", "WHERE amount > 3", n="n <= 1"), "derive"),
    ],
)
def test_rows_go_on_as_if_it_had_always_been_so(before: str, after: str, verdict: str, tables: Tables) -> None:
    assert goes_on(tables, before, after) == verdict


PRICES = "INSERT INTO out1 SELECT product, price, cost, 0 FROM prices"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (PRICES, f"{PRICES} WHERE product <> 'pear'", "derive"),
        (PRICES, f"{PRICES} WHERE price > 5", "derive"),
        (f"{PRICES} WHERE price > 1", f"{PRICES} WHERE price > 1 AND cost < 5 AND shop = 'north'", "derive"),
        (PRICES, "INSERT INTO out1 SELECT product, price, 0, 0 FROM prices", "rewrite"),
    ],
)
def test_normalized_rows_go_on_as_if_it_had_always_been_so(
    before: str, after: str, verdict: str, tables: Tables
) -> None:
    assert goes_on(tables, before, after) == verdict
    assert goes_on(tables, f"{TTL}{before}", f"{TTL}{after}") == verdict


TTL = "SET 'table.exec.state.ttl' = '2 ms';\n"


def test_rows_keep_their_age(tables: Tables) -> None:
    for by, n in (("arrived", "n = 1"), ("arrived DESC", "n = 1"), ("amount", "n <= 2")):
        before, after = (first(by, "product, shop", where, n=n) for where in ("", "WHERE product <> 'pear'"))
        assert goes_on(tables, f"{TTL}{before}", f"{TTL}{swapped(after)}") == "derive"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (first("amount", "product", n="n <= 2"), first("amount", "product", n="n <= 3"), "were not kept"),
        (first("amount", "product", n="n <= 3"), first("amount", "product", n="n > 1 AND n <= 3"), "of equal order"),
        (first("amount", "product", n="n <= 2"), first("amount DESC", "product", n="n <= 2"), "orderBy"),
        (first("amount", "product", n="n <= 2"), first("amount", "shop", n="n <= 2"), "its keys or values changed"),
        (
            first("amount", "product", n="n <= 2"),
            first("amount", "product", "WHERE amount > 2", n="n <= 2"),
            "its input changed",
        ),
        (
            first("amount", "product", n="n <= 3", columns="product, n, amount, 0"),
            first("amount", "product", n="n <= 2", columns="product, n, amount, 0"),
            "are kept if they are of equal order",
        ),
        (
            f"{TTL}{first('amount', 'product', n='n <= 3')}",
            f"{TTL}{first('amount', 'product', n='n <= 2')}",
            "depends on the number of rows kept",
        ),
        (f"{TTL}{totals('amount', 'product')}", f"{TTL}{totals('id', 'product')}", "have refreshed each other"),
        (first("arrived", "product"), first("arrived", "product", "WHERE id > 3"), "its input changed"),
        (f"{PRICES} WHERE price > 5", PRICES, "filterCondition"),
    ],
)
def test_what_does_not_follow_from_the_rows_is_refused(before: str, after: str, reason: str, tables: Tables) -> None:
    is_refused(tables, before, after, reason)
