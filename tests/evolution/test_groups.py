"""Aggregates whose calls, keys or conditions change go on from their state as if they had always been so."""

from __future__ import annotations

import pytest

from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink

DDL = (
    replayed(
        "orders",
        "product STRING, shop STRING, amount INT, big BIGINT, price DOUBLE, cost DECIMAL(10, 2), n INT NOT NULL",
    )
    + sink()
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("groups"), DDL)
    rows = [
        (1, "apple", "north", 3, 10, 0.5, 1.25),
        (1, "apple", "south", 4, 20, 0.25, 2.5),
        (1, "pear", "north", None, None, None, None),
        (2, "apple", "north", 5, 2**62, 0.125, 3.75),
        (3, "pear", "north", 7, 2**62, 1.5, 0.01),
        (3, "apple", "south", -4, 2**62, 2.5, 9.99),
        (4, None, "south", 9, 1, 3.5, 1.0),
    ]
    tables.arrive_in("orders", "@at, product, shop, amount, big, price, cost, n", [(*row, 1) for row in rows])
    return tables


def test_the_groups_of_shops_become_those_of_products(tables: Tables) -> None:
    old = Play(tables.plan("INSERT INTO out1 SELECT product, COUNT(*), SUM(big), 0 FROM orders GROUP BY product, shop"))
    assert old.run(0, 1) == [["0 +I ('apple', 1, 10, 0)", "0 +I ('apple', 1, 20, 0)", "0 +I ('pear', 1, None, 0)"]]
    new, notes = old.evolve(
        tables.plan("INSERT INTO out1 SELECT product, COUNT(*), SUM(big), 0 FROM orders GROUP BY product")
    )
    assert notes[1:] == ["the state of group-aggregate[3] is derived: its groups are merged into larger ones"]
    assert new.run(1, 2) == [[f"0 +U ('apple', 3, {30 + 2**62}, 0)", "0 -U ('apple', 2, 30, 0)"]]


BY_SHOP = "FROM orders GROUP BY product, shop"
BY_PRODUCT = "FROM orders GROUP BY product"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (f"product, COUNT(*), SUM(big), 0 {BY_PRODUCT}", f"product, SUM(big), COUNT(*), 0 {BY_PRODUCT}", "rewrite"),
        (f"product, COUNT(*), SUM(big), 0 {BY_PRODUCT}", f"product, COUNT(*), 0, 0 {BY_PRODUCT}", "rewrite"),
        (f"product, COUNT(*), SUM(big), 0 {BY_PRODUCT}", f"product, COUNT(*), COUNT(big), 0 {BY_PRODUCT}", "rewrite"),
        (f"product, SUM(big), 0, 0 {BY_PRODUCT}", f"product, AVG(big), SUM(big), COUNT(big) {BY_PRODUCT}", "rewrite"),
        (f"product, AVG(big), 0, 0 {BY_PRODUCT}", f"product, SUM(big), 0, 0 {BY_PRODUCT}", "rewrite"),
        (
            f"product, 0, 0, CAST(SUM(price) AS BIGINT) {BY_PRODUCT}",
            f"product, 0, 0, CAST(AVG(price) AS BIGINT) {BY_PRODUCT}",
            "rewrite",
        ),
        (f"product, SUM(n), 0, 0 {BY_PRODUCT}", f"product, COUNT(*), 0, 0 {BY_PRODUCT}", "rewrite"),
        (
            f"product, COUNT(*), SUM(big), 0 {BY_SHOP}",
            "product, COUNT(*), SUM(big), 0 FROM orders GROUP BY shop, product",
            "derive",
        ),
        (
            f"product, COUNT(*), AVG(big), MAX(amount) {BY_SHOP}",
            f"product, COUNT(*), AVG(big), MAX(amount) {BY_PRODUCT}",
            "derive",
        ),
        (
            f"product, COUNT(*), SUM(amount), MIN(big) {BY_SHOP}",
            "shop, SUM(amount), COUNT(amount), MIN(big) FROM orders GROUP BY shop",
            "derive",
        ),
        (f"product, COUNT(*), SUM(big), 0 {BY_SHOP}", "'all', COUNT(*), SUM(big), 0 FROM orders", "derive"),
        (
            f"product, COUNT(*), CAST(SUM(cost) AS BIGINT), 0 {BY_SHOP}",
            f"product, COUNT(*), CAST(SUM(cost) AS BIGINT), 0 {BY_PRODUCT}",
            "derive",
        ),
        (
            f"product, COUNT(*), SUM(big), 0 {BY_PRODUCT}",
            "product, COUNT(*), SUM(big), 0 FROM orders WHERE product <> 'pear' GROUP BY product",
            "derive",
        ),
        (
            f"product, COUNT(*), SUM(big), 0 {BY_SHOP}",
            "product, COUNT(*), SUM(big), 0 FROM orders WHERE shop = 'north' GROUP BY product",
            "derive",
        ),
        (
            f"product, COUNT(*), SUM(big), 0 {BY_PRODUCT}",
            f"product, COUNT(*), SUM(big), 0 {BY_PRODUCT} HAVING COUNT(*) > 1",
            "identical",
        ),
        (
            "product, COUNT(*), 0, 0 FROM orders WHERE amount > 3 GROUP BY product, shop",
            "product, COUNT(*), 0, 0 FROM orders WHERE amount > 3 AND shop <> 'east' GROUP BY product",
            "derive",
        ),
    ],
)
def test_aggregates_go_on_as_if_they_had_always_been_so(before: str, after: str, verdict: str, tables: Tables) -> None:
    assert goes_on(tables, f"INSERT INTO out1 SELECT {before}", f"INSERT INTO out1 SELECT {after}") == verdict


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            f"product, COUNT(*), 0, 0 {BY_PRODUCT}",
            f"product, COUNT(*), SUM(big), 0 {BY_PRODUCT}",
            "would not have seen",
        ),
        (f"product, SUM(amount), 0, 0 {BY_PRODUCT}", f"product, AVG(amount), 0, 0 {BY_PRODUCT}", "would not have seen"),
        (
            f"product, COUNT(*), 0, CAST(SUM(price) AS BIGINT) {BY_SHOP}",
            f"product, COUNT(*), 0, CAST(SUM(price) AS BIGINT) {BY_PRODUCT}",
            "cannot be merged exactly",
        ),
        (f"product, COUNT(*), 0, 0 {BY_PRODUCT}", f"product, COUNT(*), 0, 0 {BY_SHOP}", "grouping"),
        (
            f"product, COUNT(*), 0, 0 {BY_PRODUCT}",
            "product, COUNT(*), 0, 0 FROM orders WHERE amount > 3 GROUP BY product",
            "its input changed",
        ),
        (
            "product, COUNT(*), 0, 0 FROM orders WHERE amount > 3 GROUP BY product",
            f"product, COUNT(*), 0, 0 {BY_PRODUCT}",
            "its input changed",
        ),
        (
            f"product, COUNT(*), 0, 0 {BY_PRODUCT}",
            "product, COUNT(*), 0, 0 FROM orders WHERE product <> UUID() GROUP BY product",
            "its input changed",
        ),
    ],
)
def test_what_does_not_follow_from_the_old_groups_is_refused(
    before: str, after: str, reason: str, tables: Tables
) -> None:
    is_refused(tables, f"INSERT INTO out1 SELECT {before}", f"INSERT INTO out1 SELECT {after}", reason)
    if "UUID" not in after:
        assert goes_on(tables, f"INSERT INTO out1 SELECT {before}", f"INSERT INTO out1 SELECT {after}") == "backfill"


def test_groups_of_other_data_begin_empty(tables: Tables) -> None:
    other = Tables(tables.folder / "other", DDL)
    other.arrive("orders", [{"@at": 1, "product": "apple"}])
    query = f"INSERT INTO out1 SELECT product, COUNT(*), 0, 0 {BY_PRODUCT}"
    old = Play(tables.plan(query))
    old.run(0, 2)
    new, notes = old.evolve(other.plan(query))
    assert new.states() == {}
    assert "it reads new sources only" in notes[-1]


def test_groups_that_may_have_expired_are_not_merged(tables: Tables) -> None:
    ttl = "SET 'table.exec.state.ttl' = '1 h';\n"
    before, after = (
        f"{ttl}INSERT INTO out1 SELECT product, COUNT(*), SUM(big), 0 {by}" for by in (BY_SHOP, BY_PRODUCT)
    )
    is_refused(tables, before, after, "groups that have expired after 1 h are missing in larger groups")
