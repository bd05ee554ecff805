"""Joins of another type, by other keys and conditions, or with other columns go on from the rows that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.evolution.origins import Origins
from stateplan.session.restart import evolve_from
from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink

DDL = (
    replayed("orders", "id BIGINT NOT NULL, shop BIGINT NOT NULL, product STRING, amount INT")
    + replayed(
        "shipped", "id BIGINT NOT NULL, shop BIGINT NOT NULL, target STRING, days INT, PRIMARY KEY (id) NOT ENFORCED"
    )
    + sink("a BIGINT, b STRING, c STRING, d INT")
)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Tables(tmp_path, DDL)
    orders = [
        (1, 1, 1, "apple", 3),
        (1, 2, 1, "pear", 4),
        (1, 2, 1, "pear", 4),
        (2, 3, 2, None, 5),
        (2, 1, 2, "plum", 9),
        (3, 2, 1, "pear", 4),
        (4, 4, 2, "fig", 1),
    ]
    shipped = [(1, 2, 1, "north", 2), (2, 1, 2, "south", 5), (3, 5, 1, "west", None), (4, 3, 2, None, 1)]
    tables.arrive_in("orders", "@at, id, shop, product, amount", orders)
    tables.arrive_in("shipped", "@at, id, shop, target, days", shipped)
    return tables


ALL = "o.id, product, target, days + amount"
INNER = f"{ALL} FROM orders AS o JOIN shipped AS s ON o.id = s.id AND o.shop = s.shop"


def test_an_inner_join_becomes_a_left_one(tables: Tables) -> None:
    old = Play(tables.plan(f"INSERT INTO out1 SELECT {INNER}"))
    assert old.run(0, 1) == [["0 +I (2, 'pear', 'north', 6)", "0 +I (2, 'pear', 'north', 6)"]]
    new, _ = old.evolve(tables.plan(f"INSERT INTO out1 SELECT {INNER.replace('JOIN', 'LEFT JOIN')}"))
    assert new.run(1, 2) == [["0 +I (1, 'plum', 'south', 14)", "0 +I (3, None, None, None)"]]


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("kind_before", ["INNER", "LEFT", "RIGHT", "FULL"])
def test_join_types_follow_from_each_other(kind_before: str, kind: str, tables: Tables) -> None:
    before, after = (f"INSERT INTO out1 SELECT {INNER.replace('JOIN', k + ' JOIN')}" for k in (kind_before, kind))
    assert goes_on(tables, before, after) == ("identical" if kind_before == kind else "derive")


MATCH = "(SELECT * FROM shipped AS s WHERE o.id = s.id AND o.shop = s.shop)"
KEYS = "o.id = s.id AND o.shop = s.shop"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (INNER, f"{ALL} FROM shipped AS s JOIN orders AS o ON {KEYS}", "derive"),
        (INNER.replace("JOIN", "LEFT JOIN"), f"{ALL} FROM shipped AS s RIGHT JOIN orders AS o ON {KEYS}", "derive"),
        (INNER, f"{ALL} FROM orders AS o JOIN shipped AS s ON o.id = s.id", "derive"),
        (INNER, f"{ALL} FROM orders AS o JOIN shipped AS s ON o.shop = s.shop", "derive"),
        (INNER, f"{ALL} FROM orders AS o JOIN shipped AS s ON o.id = s.id AND o.amount > s.days", "derive"),
        (INNER, f"{INNER} AND product <> 'pear'", "derive"),
        (INNER, f"{INNER} AND days > 2", "derive"),
        (INNER, f"o.id, product, target, 1 FROM orders AS o JOIN shipped AS s ON {KEYS}", "rewrite"),
        (
            INNER.replace("JOIN", "LEFT JOIN"),
            f"o.id, 'x', target, 1 FROM orders AS o LEFT JOIN shipped AS s ON {KEYS}",
            "derive",
        ),
        (INNER, f"id, product, 'x', amount FROM orders AS o WHERE EXISTS {MATCH}", "derive"),
        (
            f"id, product, 'x', amount FROM orders AS o WHERE NOT EXISTS {MATCH}",
            f"id, product, 'x', amount FROM orders AS o WHERE EXISTS {MATCH}",
            "derive",
        ),
    ],
)
def test_joins_go_on_as_if_they_had_always_been_so(before: str, after: str, verdict: str, tables: Tables) -> None:
    assert goes_on(tables, f"INSERT INTO out1 SELECT {before}", f"INSERT INTO out1 SELECT {after}") == verdict


TTL = "SET 'table.exec.state.ttl' = '1 s';\n"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (INNER, f"{INNER} AND product <> UUID()", "its input changed"),
        (
            "o.id, product, target, 1 FROM orders AS o JOIN shipped AS s ON o.id = s.id",
            f"{ALL} FROM orders AS o JOIN shipped AS s ON o.id = s.id",
            "earlier rows in state lack amount",
        ),
        (
            f"{ALL} FROM orders AS o JOIN shipped AS s ON product = target",
            f"{ALL} FROM orders AS o JOIN shipped AS s ON amount = days",
            "rows whose key was NULL were not kept",
        ),
        (f"{INNER} AND product <> 'pear'", INNER, "its input changed"),
    ],
)
def test_what_does_not_follow_from_the_kept_rows_is_refused(
    before: str, after: str, reason: str, tables: Tables
) -> None:
    is_refused(tables, f"INSERT INTO out1 SELECT {before}", f"INSERT INTO out1 SELECT {after}", reason)
    if "UUID" not in after:
        assert goes_on(tables, f"INSERT INTO out1 SELECT {before}", f"INSERT INTO out1 SELECT {after}") == "backfill"


@pytest.mark.parametrize(("before", "after"), [("=", "IS NOT DISTINCT FROM"), ("IS NOT DISTINCT FROM", "=")])
def test_null_keys_begin_or_cease_to_match(before: str, after: str, tables: Tables) -> None:
    sql = f"INSERT INTO out1 SELECT {ALL} FROM orders AS o JOIN shipped AS s ON o.id = s.id AND product {{}} target"
    rows = [(1, 1, "pear"), (1, 2, None), (2, 1, None), (3, 2, None), (4, 1, None)]
    for name, column, shift in (("orders", "product", 0), ("shipped", "target", 1)):
        tables.arrive(name, [{"@at": at, "id": (i + shift) % 3, "shop": 1, column: text} for at, i, text in rows])
    verdict = goes_on(tables, sql.format(before), sql.format(after))
    assert verdict == ("backfill" if before == "=" else "derive")


@pytest.mark.parametrize(("more", "verdict"), [("", "rewrite"), (", product", "derive")])
def test_a_join_by_another_field_with_the_same_values(more: str, verdict: str, tables: Tables) -> None:
    """The average of a key is the key. With a further field, its rows are identified by the key and the other field."""
    ids = "SELECT id, AVG(id) AS mean, MAX(product) AS product FROM orders GROUP BY id"
    product = more.strip(", ") or "MAX(product)"
    groups = f"SELECT id, mean, {product} AS product, COUNT(*) AS n FROM ({ids}) GROUP BY id, mean{more}"
    before = f"INSERT INTO out1 SELECT o.id, product, target, CAST(n AS INT) FROM ({groups}) AS o JOIN shipped AS s "
    before += "ON o.mean = s.id AND o.id + s.days > 0"
    assert goes_on(tables, before, before.replace("id, mean", "mean, id")) == verdict


def test_matches_with_expired_rows_are_not_counted_anew(tables: Tables) -> None:
    before = f"{TTL}INSERT INTO out1 SELECT {INNER}"
    after = before.replace("JOIN", "LEFT JOIN")
    is_refused(tables, before, after, "rows that have expired after 1 s may have matched")


def test_kept_rows_keep_their_age(tables: Tables) -> None:
    swapped = f"{ALL} FROM shipped AS s JOIN orders AS o ON o.id = s.id AND o.shop = s.shop"
    ttl = TTL.replace("1 s", "2 ms")
    assert (
        goes_on(tables, f"{ttl}INSERT INTO out1 SELECT {INNER}", f"{ttl}INSERT INTO out1 SELECT {swapped}") == "derive"
    )


def test_each_side_keeps_its_ttl_when_the_sides_are_swapped(tables: Tables) -> None:
    old = Play(tables.plan(f"INSERT INTO out1 SELECT {INNER}"))
    plan = tables.plan(f"INSERT INTO out1 SELECT {ALL} FROM shipped AS s JOIN orders AS o ON {KEYS}")
    origins = Origins(evolve_from(old.document.text, plan, {}, "memory", []), old.layout.operators, "memory")
    (join,) = Play(plan).job.operators
    uid = old.job.operators[0].uid
    assert [origins.old_state(join, side) for side in (0, 1)] == [(uid, 1), (uid, 0)]
