"""State that follows from rows that operators in front of it have kept is as if the new plan had read all input."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.plans.diff import compare
from tests.support.evolving import Play, Tables, is_refused, plan_goes_on, replayed, sink

DDL = (
    replayed("orders", "id BIGINT NOT NULL, product STRING, amount INT, price DOUBLE, arrived AS PROCTIME()")
    + replayed("prices", "product STRING, shop STRING, price INT, PRIMARY KEY (product, shop) NOT ENFORCED", "upsert")
    + replayed("shops", "shop STRING, town STRING")
    + sink()
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("kept_input"), DDL)
    orders = [
        (1, 1, "apple", 5, 0.5),
        (1, 2, "apple", 3, 0.25),
        (1, 3, "pear", 7, 1.5),
        (2, 1, "pear", 1, 2.5),
        (2, 4, None, 7, None),
        (3, 2, "apple", 3, 0.25),
        (3, 3, "apple", 2, 3.5),
        (4, 4, "pear", 4, 0.125),
    ]
    tables.arrive_in("orders", "@at, id, product, amount, price", orders)
    prices = [
        (1, "+I", "apple", "north", 5),
        (1, "+U", "apple", "south", 6),
        (1, "+I", "pear", "north", 7),
        (2, "+U", "apple", "north", 2),
        (2, "-D", "pear", "north", None),
        (3, "+U", "apple", "south", 8),
        (3, "+I", "pear", "north", 1),
        (4, "-D", "apple", "south", None),
        (4, "+U", "apple", "north", 9),
    ]
    tables.arrive_in("prices", "@at, op, product, shop, price", prices)
    shops = [(1, "north", "Oslo"), (2, "south", "Rome"), (2, None, "Bonn"), (4, "south", "Nice")]
    tables.arrive_in("shops", "@at, shop, town", shops)
    return tables


LAST = (
    "(SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY arrived DESC) AS n FROM orders) WHERE n = 1)"
)
JOINED = "prices AS p JOIN orders AS o ON p.product = o.product"
OUTER = "(SELECT o.product, o.amount, p.price FROM orders AS o LEFT JOIN prices AS p ON p.price = o.id)"
BY_PRODUCT = "FROM prices GROUP BY product"
TTL = "SET 'table.exec.state.ttl' = '1 h';\n"
OF_LAST = f"FROM {LAST} GROUP BY product"

CHANGES = [
    # behind a normalization: another call, another key, a condition that the normalization gets, and an aggregate more
    (f"product, COUNT(*), SUM(price), 0 {BY_PRODUCT}", f"product, COUNT(*), SUM(price), MAX(price) {BY_PRODUCT}"),
    (
        f"product, COUNT(*), SUM(price), 0 {BY_PRODUCT}",
        "shop, COUNT(DISTINCT product), MIN(price), 0 FROM prices GROUP BY shop",
    ),
    (
        f"product, COUNT(*), SUM(price), 0 {BY_PRODUCT}",
        "product, COUNT(*), SUM(price), 0 FROM prices WHERE price > 4 GROUP BY product",
    ),
    ("product, price, 0, 0 FROM prices", f"product, COUNT(*), SUM(price), 0 {BY_PRODUCT}"),
    # behind a deduplication
    (f"product, COUNT(*), SUM(amount), 0 {OF_LAST}", f"product, COUNT(*), SUM(amount), AVG(amount) {OF_LAST}"),
    (
        f"product, COUNT(*), SUM(amount), 0 {OF_LAST}",
        "product, COUNT(*), SUM(twice), 0 "
        "FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY arrived DESC) AS n "
        "FROM (SELECT *, amount * 2 AS twice FROM orders)) WHERE n = 1 GROUP BY product",
    ),
    # behind joins, and of two aggregates
    (
        f"o.product, COUNT(*), SUM(amount), MAX(p.price) FROM {JOINED} GROUP BY o.product",
        f"o.product, COUNT(*), COUNT(p.price), SUM(p.price) FROM {JOINED} GROUP BY o.product",
    ),
    (
        f"o.product, COUNT(*), SUM(amount), SUM(id) FROM {JOINED} GROUP BY o.product",
        f"'n', n, COUNT(*), 0 FROM (SELECT id, COUNT(*) AS n FROM {JOINED} GROUP BY id) GROUP BY n",
    ),
    (
        f"product, amount, COUNT(price), 0 FROM {OUTER} GROUP BY product, amount",
        f"product, COUNT(price), COUNT(*), SUM(price) FROM {OUTER} GROUP BY product",
    ),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_state_follows_from_rows_that_others_have_kept(before: str, after: str, tables: Tables) -> None:
    plans = [tables.plan(f"INSERT INTO out1 SELECT {query}") for query in (before, after)]
    assert plan_goes_on(*plans, accept="derive") == "derive"


def test_other_inputs_are_read_from_their_history(tables: Tables) -> None:
    old = tables.plan(f"INSERT INTO out1 SELECT product, COUNT(*), SUM(price), 0 {BY_PRODUCT}")
    new = tables.plan("INSERT INTO out1 SELECT town, price, 0, 0 FROM prices AS p JOIN shops AS s ON p.shop = s.shop")
    assert plan_goes_on(old, new, accept="reset") == "derive"  # a source that is new has no history
    both = (
        "INSERT INTO out1 SELECT p.shop, COUNT(*), SUM(price), 0 FROM prices AS p JOIN shops AS s ON p.shop = s.shop {}"
    )
    old, new = (tables.plan(both.format(f"{where} GROUP BY p.shop")) for where in ("", "AND s.town <> 'Nice'"))
    assert plan_goes_on(old, new) == "backfill"
    _, notes = Play(old).evolve(new)
    assert any("computed from the rows that join[" in note for note in notes)


@pytest.mark.parametrize(
    ("before", "after", "keeper"),
    [
        # rows may have expired
        (
            f"{TTL}INSERT INTO out1 SELECT product, COUNT(*), SUM(price), 0 {BY_PRODUCT}",
            f"{TTL}INSERT INTO out1 SELECT product, MIN(price), SUM(price), 0 {BY_PRODUCT}",
            "changelog-normalize",
        ),
        # the order of rows counts
        (
            f"INSERT INTO out1 SELECT product, 0, CAST(SUM(price) AS BIGINT), 0 {OF_LAST}",
            f"INSERT INTO out1 SELECT product, 0, CAST(MAX(price) AS BIGINT), 0 {OF_LAST}",
            "deduplicate",
        ),
    ],
)
def test_rows_that_are_not_all_that_counts_do_not_replace_history(
    before: str, after: str, keeper: str, tables: Tables
) -> None:
    is_refused(tables, before, after, "would not have seen the earlier rows")
    _, notes = Play(tables.plan(before)).evolve(tables.plan(after))
    assert not any(f"computed from the rows that {keeper}[" in note for note in notes)


def test_rows_whose_key_is_null_are_read_from_history(tables: Tables) -> None:
    query = (
        "INSERT INTO out1 SELECT s.town, COUNT(*), {}, 0 FROM shops AS s LEFT JOIN prices AS p ON s.shop = p.shop "
        "GROUP BY s.town"
    )
    old, new = (tables.plan(query.format(call)) for call in ("SUM(price)", "MIN(price)"))
    assert plan_goes_on(old, new, stops=(1, 2, 3)) == "backfill"


POSTGRES = (
    "CREATE TABLE changes (id BIGINT, town STRING, size INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = "
    "'postgres-cdc', 'hostname' = 'nowhere', 'username' = 'u', 'password' = '${{env:PW}}', 'database-name' = 'd', "
    "'schema-name' = 's', 'table-name' = 't', 'slot.name' = 'x', 'changelog-mode' = '{mode}');"
)


@pytest.mark.parametrize(("mode", "verdict"), [("upsert", "derive"), ("all", "reset")])
def test_a_database_that_forgets_its_log_is_not_asked_for_what_was_kept(
    mode: str, verdict: str, tmp_path: Path
) -> None:
    tables = Tables(tmp_path, POSTGRES.format(mode=mode) + sink())
    old, new = (
        tables.plan(f"INSERT INTO out1 SELECT town, {calls}, 0 FROM changes GROUP BY town")
        for calls in ("COUNT(*), SUM(size)", "MAX(size), SUM(size)")
    )
    diff = compare(old, new)
    assert diff.verdict == verdict
    reasons = [reason for o in diff.operators for reason in o.reasons]
    assert any("the server forgets its log" in reason for reason in reasons) is (verdict == "reset")
