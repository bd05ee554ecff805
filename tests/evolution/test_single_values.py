"""Aggregates that keep single values (DISTINCT, MIN and MAX over updates) go on from their state when their calls, keys
or conditions change, as if they had always been so."""

from __future__ import annotations

import pytest

from stateplan.common.errors import CheckpointError
from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink

DDL = (
    replayed(
        "orders", "product STRING, shop STRING, id BIGINT, amount BIGINT, price DOUBLE, cost DECIMAL(10, 2)", "retract"
    )
    + replayed("arrivals", "product STRING, shop STRING, id BIGINT, amount BIGINT, price DOUBLE, cost DECIMAL(10, 2)")
    + sink()
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("single_values"), DDL)
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
        more = [(*row, row[5] and row[5] / 2, row[5] and row[5] / 4) for row in rows]
        tables.arrive_in(name, "@at, op, product, shop, id, amount, price, cost", more)
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


@pytest.mark.halved
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
        (
            f"product, {DISTINCT}, SUM(id), 0 {BY_PRODUCT}",
            f"product, {DISTINCT}, SUM(id * 2 + 1), COUNT(id) {BY_PRODUCT}",
        ),
        (
            f"product, {DISTINCT}, CHAR_LENGTH(LISTAGG(shop)), SUM(id) {BY_PRODUCT}",
            f"product, CHAR_LENGTH(LISTAGG(shop)), {DISTINCT}, 0 {BY_PRODUCT}",
        ),
    ],
)
def test_single_values_go_on_as_if_it_had_always_been_so(before: str, after: str, table: str, tables: Tables) -> None:
    statements = [f"INSERT INTO out1 SELECT {query}".replace("{table}", table) for query in (before, after)]
    assert goes_on(tables, statements[0], statements[1]) == "derive"
    ttl = "SET 'table.exec.state.ttl' = '2 ms';\n"
    assert goes_on(tables, ttl + statements[0], ttl + statements[1]) == "derive"


@pytest.mark.parametrize("table", ["orders", "arrivals"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"product, {DISTINCT}, SUM(id), 0 {BY_PRODUCT}", f"product, SUM(DISTINCT amount), 0, 0 {BY_PRODUCT}"),
        (f"product, {DISTINCT}, 0, 0 {BY_PRODUCT}", f"product, {DISTINCT}, MIN(amount), MAX(amount) {BY_PRODUCT}"),
        (f"product, {DISTINCT}, 0, 0 {BY_PRODUCT}", f"product, MAX(amount), 0, 0 {BY_PRODUCT}"),
        (
            f"product, CHAR_LENGTH(LISTAGG(DISTINCT shop)), 0, 0 {BY_PRODUCT}",
            f"product, COUNT(DISTINCT shop), CHAR_LENGTH(MIN(shop)), 0 {BY_PRODUCT}",
        ),
        (
            f"product, {DISTINCT}, COUNT(DISTINCT amount) FILTER (WHERE id > 2), 0 {BY_PRODUCT}",
            f"product, 0, AVG(DISTINCT amount) FILTER (WHERE id > 2), 0 {BY_PRODUCT}",
        ),
        (
            f"product, {DISTINCT}, COUNT(DISTINCT amount) FILTER (WHERE id > 2), 0 {BY_PRODUCT}",
            f"product, MIN(amount), MAX(amount) FILTER (WHERE id > 2), 0 {BY_PRODUCT}",
        ),
        (f"product, {DISTINCT}, SUM(id), 0 {BY_BOTH}", f"product, {DISTINCT}, SUM(id), 0 {BY_PRODUCT}"),
        (f"product, SUM(DISTINCT amount), MIN(id), 0 {BY_BOTH}", f"product, {DISTINCT}, MIN(id), 0 {BY_PRODUCT}"),
        (f"'all', {DISTINCT}, MAX(amount), 0 {BY_BOTH}", f"'all', {DISTINCT}, MAX(amount), 0 FROM {{table}}"),
        (
            f"product, {DISTINCT}, MIN(amount), 0 {BY_PRODUCT}",
            f"UPPER(product), {DISTINCT}, MIN(amount), 0 FROM {{table}} GROUP BY UPPER(product)",
        ),
        (
            f"product, {DISTINCT}, COUNT(DISTINCT amount) FILTER (WHERE id > 2), 0 {BY_BOTH}",
            f"shop, {DISTINCT}, 0, MAX(amount) FROM {{table}} WHERE shop <> 'x' GROUP BY shop",
        ),
    ],
)
def test_calls_follow_from_single_values(before: str, after: str, table: str, tables: Tables) -> None:
    statements = [f"INSERT INTO out1 SELECT {query}".replace("{table}", table) for query in (before, after)]
    assert goes_on(tables, statements[0], statements[1]) == "derive"
    ttl = "SET 'table.exec.state.ttl' = '2 ms';\n"
    with pytest.raises(CheckpointError):
        goes_on(tables, ttl + statements[0], ttl + statements[1], accept="derive")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"product, MIN(amount), 0, 0 {BY_PRODUCT}", f"product, MAX(amount), 0, 0 {BY_PRODUCT}"),
        (f"product, MIN(amount), 0, 0 {BY_PRODUCT}", f"product, COUNT(amount), AVG(amount), SUM(amount) {BY_PRODUCT}"),
        (f"product, MAX(amount), MAX(id), 0 {BY_PRODUCT}", f"product, {DISTINCT}, SUM(DISTINCT id), 0 {BY_PRODUCT}"),
        (f"product, {DISTINCT}, 0, 0 {BY_PRODUCT}", f"product, COUNT(amount), SUM(amount), 0 {BY_PRODUCT}"),
        (f"product, MAX(amount), 0, 0 {BY_BOTH}", f"product, MIN(amount), COUNT(amount), SUM(amount) {BY_PRODUCT}"),
        (f"product, MAX(amount), 0, 0 {BY_BOTH}", f"product, SUM(amount), 0, 0 {BY_PRODUCT}"),
        (
            f"product, MAX(amount) FILTER (WHERE id > 2), 0, 0 {BY_PRODUCT}",
            f"product, SUM(amount) FILTER (WHERE id > 2), 0, 0 {BY_PRODUCT}",
        ),
        (
            f"product, CAST(MAX(cost) AS BIGINT), 0, 0 {BY_PRODUCT}",
            f"product, CAST(SUM(cost) AS BIGINT), CAST(AVG(cost) AS BIGINT), 0 {BY_PRODUCT}",
        ),
    ],
)
def test_calls_follow_from_the_values_of_updates(before: str, after: str, tables: Tables) -> None:
    statements = [f"INSERT INTO out1 SELECT {query}".replace("{table}", "orders") for query in (before, after)]
    assert goes_on(tables, statements[0], statements[1]) == "derive"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            f"product, COUNT(DISTINCT price), 0, 0 {BY_BOTH}",
            f"product, CAST(SUM(DISTINCT price) AS BIGINT), 0, 0 {BY_PRODUCT}",
            "not have seen",
        ),
        (
            f"product, MAX(amount) FILTER (WHERE id > 2), 0, 0 {BY_PRODUCT}",
            f"product, MIN(amount), 0, 0 {BY_PRODUCT}",
            "not have seen",
        ),
        (f"product, COUNT(amount), 0, 0 {BY_PRODUCT}", f"product, {DISTINCT}, 0, 0 {BY_PRODUCT}", "not have seen"),
        (
            f"product, {DISTINCT}, CHAR_LENGTH(LISTAGG(shop)), 0 {BY_BOTH}",
            f"product, {DISTINCT}, CHAR_LENGTH(LISTAGG(shop)), 0 {BY_PRODUCT}",
            "cannot be merged exactly",
        ),
    ],
)
def test_single_values_that_were_not_kept_are_refused(before: str, after: str, reason: str, tables: Tables) -> None:
    statements = [f"INSERT INTO out1 SELECT {query}".replace("{table}", "orders") for query in (before, after)]
    is_refused(tables, statements[0], statements[1], reason)
