"""Joins of several inputs and joins of two go on from the rows that the others have kept."""

from __future__ import annotations

import pytest

from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink

MULTI = "SET 'table.optimizer.multi-join.enabled' = 'true';\n"
DDL = (
    replayed("orders", "k INT, v BIGINT, g STRING", "retract")
    + replayed("paid", "k INT, w BIGINT, h STRING", "retract")
    + replayed("bills", "k INT NOT NULL, v BIGINT, g STRING", "retract")
    + replayed("sent", "k INT, z BIGINT, i STRING", "retract")
    + sink("a INT, b BIGINT, c BIGINT, d STRING")
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("multi_joins"), DDL)
    orders = [
        (1, "+I", 1, 5, "x"),
        (1, "+I", 2, 3, "x"),
        (1, "+I", None, 3, "x"),
        (2, "+I", 1, 5, "x"),
        (3, "-D", 2, 3, "x"),
        (4, "-D", 1, 5, "x"),
        (4, "-D", None, 3, "x"),
        (4, "+I", 3, 7, "y"),
    ]
    tables.arrive_in("orders", "@at, _op, k, v, g", orders)
    tables.arrive_in("bills", "@at, _op, k, v, g", [row for row in orders if row[2] is not None])
    paid = [
        (1, "+I", 1, 4, "p"),
        (2, "+I", 2, 6, "p"),
        (2, "+I", None, 6, "p"),
        (3, "-D", 1, 4, "p"),
        (4, "+I", 3, 1, "q"),
        (4, "+I", 1, 9, "q"),
    ]
    tables.arrive_in("paid", "@at, _op, k, w, h", paid)
    sent = [
        (1, "+I", 1, 8, "s"),
        (1, "+I", None, 8, "s"),
        (2, "+I", 2, 8, "s"),
        (3, "+I", 1, 9, "t"),
        (4, "-D", 1, 8, "s"),
        (4, "+I", 3, 2, "t"),
    ]
    tables.arrive_in("sent", "@at, _op, k, z, i", sent)
    return tables


def joined(columns: str, kinds: str = "JOIN JOIN", more: str = "", orders: str = "orders", multi: bool = False) -> str:
    first, second = kinds.replace("LEFT JOIN", "LEFT").replace("JOIN", "INNER").split()
    rest = f"{first} JOIN paid AS p ON o.k = p.k {second} JOIN sent AS s ON o.k = s.k{more}"
    return f"{MULTI if multi else ''}INSERT INTO out1 SELECT {columns} FROM {orders} AS o {rest}"


ALL = "o.k, v, w + z, g || h || i"


def test_rows_of_two_joins_become_those_of_one(tables: Tables) -> None:
    old = Play(tables.plan(joined(ALL)))
    assert old.run(0, 1) == [["0 +I (1, 5, 12, 'xps')"]]
    new, notes = old.evolve(tables.plan(joined(ALL, multi=True)))
    assert notes[-1].endswith("is derived: the rows that join[5] and join[10] kept pass through it")
    assert new.run(1, 2) == [["0 +I (1, 5, 12, 'xps')", "0 +I (2, 3, 14, 'xps')"]]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (joined(ALL), joined(ALL, multi=True), "derive"),
        (joined(ALL), joined("o.k, w, 0, g || h", multi=True), "derive"),
        (joined(ALL), joined(ALL, "JOIN LEFT JOIN", multi=True), "derive"),
        (joined(ALL, "LEFT JOIN JOIN"), joined(ALL, multi=True), "derive"),
        (joined(ALL, multi=True), joined(ALL), "derive"),
        (joined(ALL, multi=True), joined(ALL, "JOIN LEFT JOIN"), "derive"),
        (
            joined("o.k, v, w, h"),
            "INSERT INTO out1 SELECT 0, COUNT(*), MAX(z), 'all' FROM sent WHERE k IS NOT NULL",
            "backfill",
        ),
        (joined(ALL, multi=True), joined(ALL, "JOIN LEFT JOIN", multi=True), "derive"),
        (joined(ALL, multi=True), joined("s.k, z, v, h", multi=True), "derive"),
        (joined(ALL, multi=True), joined(ALL, more=" AND w > z - 5", multi=True), "derive"),
        (joined(ALL, multi=True), joined(ALL, orders="(SELECT * FROM orders WHERE v > 3)", multi=True), "derive"),
        (
            joined(ALL, multi=True),
            "INSERT INTO out1 SELECT o.k, v, w, h FROM orders AS o JOIN paid AS p ON o.k = p.k",
            "derive",
        ),
        (
            joined(ALL),
            "INSERT INTO out1 SELECT o.k, v, z, i FROM orders AS o JOIN sent AS s ON o.k = s.k",
            "derive",
        ),
    ],
)
def test_joins_take_over_rows_wherever_they_are_kept(before: str, after: str, verdict: str, tables: Tables) -> None:
    assert goes_on(tables, before, after) == verdict


def test_an_aggregate_is_computed_from_the_rows_that_a_join_beside_it_has_kept(tables: Tables) -> None:
    before = "INSERT INTO out1 SELECT o.k, v, w, g FROM bills AS o LEFT JOIN paid AS p ON o.k = p.k"
    after = "INSERT INTO out1 SELECT 0, COUNT(*), MAX(v), g FROM bills GROUP BY g"
    assert goes_on(tables, before, after) == "derive"
    assert goes_on(tables, before, after.replace("GROUP", "WHERE v > 3 GROUP")) == "derive"
    assert goes_on(tables, before.replace("v, w", "w, w"), after) == "backfill"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (joined(ALL, "LEFT JOIN LEFT JOIN"), joined(ALL, "LEFT JOIN LEFT JOIN", multi=True)),
        (joined(ALL, multi=True), joined(ALL, "LEFT JOIN LEFT JOIN", multi=True)),
        ("SET 'table.exec.state.ttl' = '1 h';\n" + joined(ALL), joined(ALL, multi=True)),
    ],
)
def test_rows_that_were_not_kept_are_made_from_history(before: str, after: str, tables: Tables) -> None:
    is_refused(tables, before, after, "")
    if "ttl" not in before:
        assert goes_on(tables, before, after) == "backfill"
