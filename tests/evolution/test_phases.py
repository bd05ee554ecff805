"""Aggregates go on from their state when they get two phases instead of one, or one instead of two."""

from __future__ import annotations

import pytest

from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink

MINI_BATCH = (
    "SET 'table.exec.mini-batch.enabled' = 'true';\nSET 'table.exec.mini-batch.allow-latency' = '1 s';\n"
    "SET 'table.exec.mini-batch.size' = '100';\n"
)
TTL = "SET 'table.exec.state.ttl' = '1 h';\n"
DDL = (
    replayed("orders", "id INT, product STRING, shop STRING, amount INT, big BIGINT, price DOUBLE")
    + replayed("stock", "id INT, product STRING, amount INT, big BIGINT, PRIMARY KEY (id) NOT ENFORCED", "retract")
    + sink()
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("phases"), DDL)
    orders = [
        (1, 1, "apple", "north", 3, 10, 0.5),
        (1, 2, "apple", "south", 4, 20, 0.25),
        (1, 3, "pear", "north", None, None, None),
        (2, 4, "apple", "north", 3, 30, 0.125),
        (3, 5, "pear", "south", 7, 2**62, 1.5),
        (3, 6, "apple", "south", 4, 20, 2.5),
        (4, 7, None, "south", 9, 1, 3.5),
    ]
    tables.arrive_in("orders", "@at, id, product, shop, amount, big, price", orders)
    stock = [
        (1, "+I", 1, "apple", 3, 10),
        (1, "+I", 2, "apple", 5, 20),
        (2, "-U", 1, "apple", 3, 10),
        (2, "+U", 1, "pear", 4, 10),
        (3, "-D", 2, "apple", 5, 20),
        (3, "+I", 3, "apple", 1, 7),
        (4, "-D", 3, "apple", 1, 7),
        (4, "+I", 4, "apple", 2, 9),
    ]
    tables.arrive_in("stock", "@at, op, id, product, amount, big", stock)
    return tables


def insert(query: str, *settings: str) -> str:
    return f"{''.join(settings)}INSERT INTO out1 SELECT {query}"


def test_a_count_is_taken_over(tables: Tables) -> None:
    query = "product, COUNT(*), 0, 0 FROM orders GROUP BY product"
    old = Play(tables.plan(insert(query)))
    assert old.run(0, 1) == [["0 +I ('apple', 2, 0, 0)", "0 +I ('pear', 1, 0, 0)"]]
    new, _ = old.evolve(tables.plan(insert(query, MINI_BATCH)))
    assert new.states() == {"global-group-aggregate[5].globalGroupAggregateState": ["('apple', 2)", "('pear', 1)"]}
    assert new.run(1, 2) == [["0 +U ('apple', 3, 0, 0)", "0 -U ('apple', 2, 0, 0)"]]


CALLS = (
    "COUNT(*), SUM(big), MAX(amount)",
    "COUNT(DISTINCT amount), MIN(big), 0",
    "AVG(big), SUM(DISTINCT amount), COUNT(amount) FILTER (WHERE amount > 3)",
    "COUNT(DISTINCT amount) FILTER (WHERE big > 10), COUNT(DISTINCT amount), CAST(SUM(amount) AS BIGINT)",
)


@pytest.mark.parametrize("table", ["orders", "stock"])
@pytest.mark.parametrize("calls", CALLS)
def test_the_phases_change(calls: str, table: str, tables: Tables) -> None:
    query = f"product, {calls} FROM {table} GROUP BY product"
    for before, after in (("", MINI_BATCH), (MINI_BATCH, "")):
        assert goes_on(tables, insert(query, before), insert(query, after)) == "derive"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("product, COUNT(*), SUM(big), 0", "product, SUM(big), 0, 0"),
        ("product, AVG(big), COUNT(*), 0", "product, COUNT(*), SUM(big), COUNT(big)"),
        ("product, COUNT(DISTINCT amount), SUM(big), 0", "product, COUNT(DISTINCT amount), 0, 0"),
    ],
)
def test_calls_change_too(before: str, after: str, tables: Tables) -> None:
    for settings in (("", MINI_BATCH), (MINI_BATCH, "")):
        old, new = (
            insert(f"{calls} FROM orders GROUP BY product", setting)
            for calls, setting in zip((before, after), settings, strict=True)
        )
        assert goes_on(tables, old, new) == "derive"


def test_groups_are_left_out(tables: Tables) -> None:
    query = "product, COUNT(*), SUM(big), 0 FROM orders {}GROUP BY product"
    old, new = insert(query.format("")), insert(query.format("WHERE product <> 'pear' "), MINI_BATCH)
    assert goes_on(tables, old, new) == "derive"


def test_groups_of_two_phases_are_left_out(tables: Tables) -> None:
    query = "product, COUNT(*), SUM(big), 0 FROM orders {}GROUP BY product"
    old, new = insert(query.format(""), MINI_BATCH), insert(query.format("WHERE product <> 'pear' "))
    assert goes_on(tables, old, new) == "derive"
    assert goes_on(tables, old, insert(query.format("WHERE product <> 'pear' "), MINI_BATCH)) == "derive"


def test_calls_and_keys_of_an_aggregate_in_two_phases_change(tables: Tables) -> None:
    old = insert("product, COUNT(*), SUM(big), 0 FROM orders GROUP BY product, shop", MINI_BATCH)
    new = insert("product, SUM(big), COUNT(*), 0 FROM orders GROUP BY product", MINI_BATCH)
    assert goes_on(tables, old, new) == "derive"
    less = insert("product, SUM(big), 0, 0 FROM orders GROUP BY product, shop", MINI_BATCH)
    assert goes_on(tables, old, less) == "rewrite"
    more = insert("product, SUM(big), MAX(big), 0 FROM orders GROUP BY product, shop", MINI_BATCH)
    is_refused(tables, old, more, "MAX(big) would not have seen the earlier rows")


def test_a_join_of_an_aggregate_keeps_its_rows(tables: Tables) -> None:
    query = (
        "a.product, n, amount, 0 FROM (SELECT product, COUNT(*) AS n FROM orders GROUP BY product) AS a "
        "JOIN stock AS s ON a.product = s.product"
    )
    assert goes_on(tables, insert(query), insert(query, MINI_BATCH)) == "derive"


def test_with_a_ttl_single_values_are_made_from_history(tables: Tables) -> None:
    query = "product, COUNT(*), SUM(big), 0 FROM orders GROUP BY product"
    assert goes_on(tables, insert(query, TTL), insert(query, TTL, MINI_BATCH)) == "derive"
    query = "product, COUNT(DISTINCT amount), 0, 0 FROM orders GROUP BY product"
    assert goes_on(tables, insert(query, TTL), insert(query, TTL, MINI_BATCH)) == "backfill"


def test_groups_are_not_merged_into_other_phases(tables: Tables) -> None:
    old = insert("product, COUNT(*), 0, 0 FROM orders GROUP BY product, shop")
    new = insert("product, COUNT(*), 0, 0 FROM orders GROUP BY product", MINI_BATCH)
    assert goes_on(tables, old, new) == "backfill"
