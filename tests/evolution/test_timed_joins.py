"""Joins of rows that wait for a time go on from these rows when columns, conditions, types or bounds change."""

from __future__ import annotations

import pytest

from tests.support.evolving import Tables, goes_on, is_refused, replayed, sink

RATES = (
    "CREATE TABLE rates (k INT, rate BIGINT, x STRING, rt TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED, "
    "WATERMARK FOR rt AS rt) WITH ('connector' = 'replay', 'path' = '{folder}/rates.json', 'format' = 'debezium-json');"
)
DDL = (
    replayed("orders", "k INT, g STRING, v BIGINT, et TIMESTAMP(3), WATERMARK FOR et AS et - INTERVAL '1' SECOND")
    + replayed("paid", "k INT, h STRING, w BIGINT, pt TIMESTAMP(3), WATERMARK FOR pt AS pt - INTERVAL '1' SECOND")
    + RATES
    + sink("a INT, b BIGINT, c BIGINT, d STRING")
)


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("timed_joins"), DDL)
    orders = [
        (1, 1, "x", 5, 1),
        (1, 2, "x", 3, 2),
        (1, None, "y", 9, 2),
        (2, 1, "y", None, 4),
        (2, 3, "x", 7, 5),
        (3, 1, "z", 1, 5),
        (3, 2, "z", 4, 4),
        (3, 2, "z", 8, 8),
        (4, 3, "x", 6, 9),
        (4, 1, "x", 6, 12),
    ]
    tables.arrive_in("orders", "@at, k, g, v, et", [(t, k, g, v, at(s)) for t, k, g, v, s in orders])
    paid = [
        (1, 1, "p", 4, 1),
        (1, 2, "p", 6, 4),
        (2, 1, "q", 2, 5),
        (2, None, "q", 2, 5),
        (3, 2, "q", 3, 6),
        (3, 3, "p", 8, 9),
        (4, 1, "p", 3, 9),
        (4, 2, "p", 3, 12),
    ]
    tables.arrive_in("paid", "@at, k, h, w, pt", [(t, k, h, w, at(s)) for t, k, h, w, s in paid])
    rates = [(1, 1, 10, "a", 1), (1, 2, 20, "b", 1), (2, 1, 11, "c", 4), (3, 2, 21, "d", 6), (4, 1, 12, "e", 9)]
    lines = [(t, {"k": k, "rate": r, "x": x, "rt": at(s)}) for t, k, r, x, s in rates]
    tables.arrive("rates", [{"@at": t, "before": None, "after": row, "op": "c"} for t, row in lines])
    return tables


def near(columns: str, join: str, bounds: tuple[int, int], more: str = "", orders: str = "orders") -> str:
    low, high = (f"{'-' if s < 0 else '+'} INTERVAL '{abs(s)}' SECOND" for s in bounds)
    between = f"o.et BETWEEN p.pt {low} AND p.pt {high}"
    return f"INSERT INTO out1 SELECT {columns} FROM {orders} AS o {join} paid AS p ON o.k = p.k AND {between}{more}"


def versioned(columns: str, join: str, more: str = "", orders: str = "orders") -> str:
    return (
        f"INSERT INTO out1 SELECT {columns} FROM {orders} AS o {join} rates FOR SYSTEM_TIME AS OF o.et AS r "
        f"ON o.k = r.k{more}"
    )


def within(columns: str, join: str, more: str = "", orders: str = "orders") -> str:
    sides = [
        f"(SELECT * FROM TABLE(TUMBLE(TABLE {name}, DESCRIPTOR({time}), INTERVAL '4' SECOND)))"
        for name, time in ((orders, "et"), ("paid", "pt"))
    ]
    windows = "o.window_start = p.window_start AND o.window_end = p.window_end"
    tables = f"{sides[0]} AS o {join} {sides[1]} AS p"
    return f"INSERT INTO out1 SELECT {columns} FROM {tables} ON o.k = p.k AND {windows}{more}"


ALL = "o.k, v, w, g || h"
WIDE, NARROW = (-4, 4), (-1, 2)
USED = ("identical", "stateless", "rewrite")


@pytest.mark.halved
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "FULL JOIN"])
@pytest.mark.parametrize("columns", ["o.k, v, w, h", "o.k, v, 0, g", "0, w, v, g || h || 'x'"])
def test_columns_are_removed_and_reordered(columns: str, join: str, tables: Tables) -> None:
    assert goes_on(tables, near(ALL, join, WIDE), near(columns, join, WIDE)) in USED
    assert goes_on(tables, within(ALL, join), within(columns, join)) in USED
    if join != "FULL JOIN":
        new = columns.replace("w", "rate").replace("h", "x")
        assert goes_on(tables, versioned("o.k, v, rate, g || x", join), versioned(new, join)) in USED


def test_columns_follow_from_others(tables: Tables) -> None:
    before, after = "(SELECT k, g, v, et FROM orders)", "(SELECT k, UPPER(g) AS g, v + 1 AS v, et FROM orders)"
    assert (
        goes_on(tables, near(ALL, "LEFT JOIN", WIDE, "", before), near(ALL, "LEFT JOIN", WIDE, "", after)) == "derive"
    )


@pytest.mark.parametrize("kinds", [("JOIN", "LEFT JOIN"), ("LEFT JOIN", "JOIN")])
def test_joins_that_ask_late_have_any_type_and_condition(kinds: tuple[str, str], tables: Tables) -> None:
    before, after = kinds
    condition = " AND v > 4"
    assert goes_on(tables, versioned("o.k, v, rate, x", before), versioned("o.k, v, rate, x", after)) == "stateless"
    assert goes_on(tables, within(ALL, before), within(ALL, after)) == "stateless"
    assert goes_on(tables, within(ALL, before), within(ALL, after, " AND v > w")) == "stateless"
    assert (
        goes_on(tables, versioned("o.k, v, rate, x", before), versioned("o.k, v, rate, x", before, condition)) in USED
    )


def test_an_interval_join_may_get_another_condition(tables: Tables) -> None:
    assert goes_on(tables, near(ALL, "JOIN", WIDE, " AND v > w"), near(ALL, "JOIN", WIDE, " AND v <= w")) == "stateless"
    reason = "may have met others"
    is_refused(tables, near(ALL, "LEFT JOIN", WIDE), near(ALL, "LEFT JOIN", WIDE, " AND v > w"), reason)


ON_KEPT = "(SELECT * FROM orders WHERE v > 3)"
ON_PAID = " WHERE w > 2"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (near(ALL, "LEFT JOIN", WIDE), near(ALL, "JOIN", WIDE)),
        (near(ALL, "FULL JOIN", WIDE), near(ALL, "LEFT JOIN", WIDE)),
        (near(ALL, "FULL JOIN", WIDE), near(ALL, "RIGHT JOIN", WIDE)),
        (near(ALL, "LEFT JOIN", WIDE), near(ALL, "JOIN", WIDE, " AND v > w")),
        (near(ALL, "JOIN", WIDE), near(ALL, "JOIN", WIDE, "", ON_KEPT)),
        (near(ALL, "LEFT JOIN", WIDE), near(ALL, "LEFT JOIN", WIDE, "", ON_KEPT)),
        (near(ALL, "JOIN", WIDE), near(ALL, "JOIN", WIDE, ON_PAID)),
        (near(ALL, "FULL JOIN", WIDE), near("o.k, 0, w, h", "RIGHT JOIN", WIDE)),
        (versioned("o.k, v, rate, x", "JOIN"), versioned("o.k, v, rate, x", "LEFT JOIN", "", ON_KEPT)),
        (within(ALL, "JOIN"), within(ALL, "JOIN", ON_PAID)),
        (within(ALL, "FULL JOIN"), within("o.k, v, w, g", "JOIN", ON_PAID, ON_KEPT)),
    ],
)
def test_rows_that_wait_are_taken_over(before: str, after: str, tables: Tables) -> None:
    assert goes_on(tables, before, after, stops=(1, 2, 3)) == "derive"


@pytest.mark.halved
@pytest.mark.parametrize("bounds", [(-4, 2), (-2, 4), (-1, 1), (0, 0), (1, 3), (-3, -1)])
@pytest.mark.parametrize("more", ["", " AND v > w"])
def test_an_interval_join_may_get_narrower_bounds(bounds: tuple[int, int], more: str, tables: Tables) -> None:
    assert goes_on(tables, near(ALL, "JOIN", WIDE), near(ALL, "JOIN", bounds, more), stops=(1, 2, 3)) == "derive"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (near(ALL, "JOIN", WIDE), near(ALL, "LEFT JOIN", WIDE), "are not marked"),
        (near(ALL, "LEFT JOIN", WIDE), near(ALL, "LEFT JOIN", NARROW), "may have met others"),
        (near(ALL, "LEFT JOIN", WIDE), near(ALL, "JOIN", NARROW), "when rows arrived"),
        (near(ALL, "JOIN", NARROW), near(ALL, "JOIN", WIDE), "outside of the old bounds"),
        (near(ALL, "LEFT JOIN", WIDE), near(ALL, "LEFT JOIN", WIDE, " AND w > 2"), "may have met others"),
    ],
)
def test_what_timed_joins_have_not_kept_is_refused(before: str, after: str, reason: str, tables: Tables) -> None:
    is_refused(tables, before, after, reason)
