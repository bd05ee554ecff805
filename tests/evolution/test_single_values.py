"""Aggregates that keep single values (DISTINCT, MIN and MAX over updates) go on from their state when their calls, keys
or conditions change, as if they had always been so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink

DDL = (
    replayed("orders", "product STRING, shop STRING, id BIGINT, amount BIGINT", "retract")
    + replayed("arrivals", "product STRING, shop STRING, id BIGINT, amount BIGINT")
    + sink()
)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Tables(tmp_path, DDL)
    rows = [
        (1, "+I", "apple", "north", 1, 5),
        (1, "+I", "apple", "south", 2, 5),
        (1, "+I", "pear", "north", 3, None),
        (1, "+I", None, "south", 3, 1),
        (2, "-D", "apple", "north", 1, 5),
        (2, "+I", "apple", "north", 4, 3),
        (3, "-D", "pear", "north", 3, None),
        (3, "+I", "apple", "south", 1, 9),
        (4, "-D", "apple", "north", 4, 3),
        (4, "+I", "pear", "north", 5, 5),
    ]
    for name in ("orders", "arrivals"):
        tables.arrive_in(name, "@at, op, product, shop, id, amount", rows)
    return tables


def test_the_values_of_a_distinct_call_are_taken_over(tables: Tables) -> None:
    sql = "INSERT INTO out1 SELECT product, COUNT(DISTINCT amount), {}, 0 FROM arrivals GROUP BY product"
    old = Play(tables.plan(sql.format("SUM(id)")))
    old.run(0, 1)
    new, notes = old.evolve(tables.plan(sql.format("0")))
    assert notes[-1].endswith("is derived: SUM(id) is no longer kept")
    assert new.run(1, 2) == [["0 +U ('apple', 2, 0, 0)", "0 -U ('apple', 1, 0, 0)"]]


BY_PRODUCT = "FROM {table} GROUP BY product"
BY_BOTH = "FROM {table} GROUP BY product, shop"
SWAPPED = "FROM (SELECT shop, product, id, amount FROM {table}) GROUP BY shop, product"
DISTINCT = "COUNT(DISTINCT amount)"


@pytest.mark.parametrize("table", ["orders", "arrivals"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"product, {DISTINCT}, SUM(id), 0 {BY_PRODUCT}", f"product, {DISTINCT}, 0, 0 {BY_PRODUCT}"),
        (f"product, {DISTINCT}, SUM(id), 0 {BY_PRODUCT}", f"product, SUM(id), {DISTINCT}, 0 {BY_PRODUCT}"),
        (
            f"product, {DISTINCT}, COUNT(DISTINCT id), 0 {BY_PRODUCT}",
            f"product, COUNT(DISTINCT id), 0, 0 {BY_PRODUCT}",
        ),
        (f"product, SUM(DISTINCT amount), 0, 0 {BY_PRODUCT}", f"product, {DISTINCT}, 0, 0 {BY_PRODUCT}"),
        (f"product, SUM(id), {DISTINCT}, 0 {BY_BOTH}", f"product, {DISTINCT}, 0, 0 {SWAPPED}"),
        (
            f"product, {DISTINCT}, SUM(id), 0 {BY_PRODUCT}",
            "product, SUM(id), COUNT(DISTINCT amount), 0 FROM {table} WHERE product <> 'pear' GROUP BY product",
        ),
        (
            f"product, MIN(amount), MAX(id), {DISTINCT} {BY_BOTH}",
            f"product, MAX(id), MIN(amount), {DISTINCT} {SWAPPED}",
        ),
        (
            f"product, {DISTINCT}, COUNT(DISTINCT amount) FILTER (WHERE id > 2), SUM(id) {BY_PRODUCT}",
            f"product, COUNT(DISTINCT amount) FILTER (WHERE id > 2), {DISTINCT}, 0 {BY_PRODUCT}",
        ),
    ],
)
def test_single_values_go_on_as_if_it_had_always_been_so(before: str, after: str, table: str, tables: Tables) -> None:
    statements = [f"INSERT INTO out1 SELECT {query}".replace("{table}", table) for query in (before, after)]
    assert goes_on(tables, statements[0], statements[1]) == "derive"
    ttl = "SET 'table.exec.state.ttl' = '2 ms';\n"
    assert goes_on(tables, ttl + statements[0], ttl + statements[1]) == "derive"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (f"product, {DISTINCT}, SUM(id), 0 {BY_BOTH}", f"product, {DISTINCT}, SUM(id), 0 {BY_PRODUCT}", "be merged"),
        (f"product, COUNT(amount), 0, 0 {BY_PRODUCT}", f"product, {DISTINCT}, 0, 0 {BY_PRODUCT}", "not have seen"),
        (
            f"product, {DISTINCT}, COUNT(DISTINCT amount) FILTER (WHERE id > 2), 0 {BY_PRODUCT}",
            f"product, {DISTINCT}, 0, 0 {BY_PRODUCT}",
            "were not kept",
        ),
        (
            f"product, CHAR_LENGTH(LISTAGG(shop)), COUNT(id), 0 {BY_PRODUCT}",
            f"product, CHAR_LENGTH(LISTAGG(shop)), 0, 0 {BY_PRODUCT}",
            "cannot be rewritten",
        ),
    ],
)
def test_single_values_that_were_not_kept_are_refused(before: str, after: str, reason: str, tables: Tables) -> None:
    statements = [f"INSERT INTO out1 SELECT {query}".replace("{table}", "orders") for query in (before, after)]
    is_refused(tables, statements[0], statements[1], reason)
