"""MIN, MAX and top-N let go of rows that are gone: those that a table of upserts deletes, of its key too, those that an
outer join had filled with NULL, and those that OVER had before another row arrived."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from tests.planner.changelog_rows import rows_left

CHANGES = [
    *(("+I", k, r) for k, r in [(1, "a"), (1, "b"), (2, "b"), (2, "c"), (2, "d")]),
    *(("-D", k, r) for k, r in [(1, "a"), (2, "d"), (2, "c")]),
]
"""What is left is (1, b) and (2, b)."""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, COUNT(*), MIN(r), MAX(r) FROM t GROUP BY k", [(1, 1, "b", "b"), (2, 1, "b", "b")]),
        ("SELECT MAX(n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)", [(1,)]),
        ("SELECT MIN(x.r) FROM t AS x JOIN t AS y ON x.k = y.k", [("b",)]),
        ("SELECT r, k FROM t ORDER BY r DESC, k LIMIT 1", [("b", 1)]),
        (
            "SELECT k, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY r DESC) AS n FROM t) WHERE n = 1",
            [(1, "b"), (2, "b")],
        ),
        (
            "SELECT k, c FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY c DESC, k) AS n "
            "FROM (SELECT k, COUNT(*) AS c FROM t GROUP BY k)) WHERE n = 1",
            [(1, 1)],
        ),
    ],
)
@pytest.mark.parametrize("mini_batch", [False, True])
@pytest.mark.parametrize("mode", ["upsert", "upsert-key-delete", "retract"])
def test_what_is_gone_counts_no_more(
    query: str, expected: list[object], mode: str, mini_batch: bool, tmp_path: Path
) -> None:
    lines = [{"_op": op, "k": k, "r": r, "@at": 1000 * n} for n, (op, k, r) in enumerate(CHANGES)]
    (tmp_path / "t.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = {"enabled": "true", "allow-latency": "1 s", "size": "100"} if mini_batch else {}
    env = TableEnvironment.create({f"table.exec.mini-batch.{key}": text for key, text in options.items()})
    env.execute_sql(
        "CREATE TABLE t (k INT, r STRING, PRIMARY KEY (k, r) NOT ENFORCED) WITH ('connector' = 'replay', "
        f"'path' = '{tmp_path / 't.json'}', 'format' = 'op-json', 'op-json.mode' = '{mode}')"
    )
    assert rows_left(env, query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT k, MIN(COALESCE(v, -1)), MAX(COALESCE(v, 99)) FROM a LEFT JOIN b ON a.id = b.id GROUP BY k",
            (1, 5, 7),
        ),
        ("SELECT k, MAX(CASE WHEN v IS NULL THEN 9 ELSE 0 END) FROM b RIGHT JOIN a ON a.id = b.id GROUP BY k", (1, 0)),
        ("SELECT MAX(COALESCE(v, 99)) FROM b FULL JOIN a ON a.id = b.id", (7,)),
        ("SELECT MAX(n) FROM (SELECT v, COUNT(*) AS n FROM a LEFT JOIN b ON a.id = b.id GROUP BY v)", (1,)),
    ],
)
def test_what_an_outer_join_filled_in_counts_no_more(query: str, expected: tuple[int, ...], tmp_path: Path) -> None:
    env = TableEnvironment.create()
    for name, column, values in (("a", "k", (1, 1)), ("b", "v", (5, 7))):
        rows = [{"id": i, column: v, "@at": (1 if name == "a" else 9) * 1000 + i} for i, v in enumerate(values)]
        (tmp_path / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        env.execute_sql(
            f"CREATE TABLE {name} (id INT, {column} INT) WITH ('connector' = 'replay', "
            f"'path' = '{tmp_path / f'{name}.json'}', 'format' = 'json')"
        )
    assert rows_left(env, query) == [expected]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT name, MAX(s) FROM {over} GROUP BY name", [("a", 2), ("b", 1)]),
        ("SELECT name, MIN(s) FILTER (WHERE k > 0) FROM {over} GROUP BY name", [("a", 2), ("b", 1)]),
        ("SELECT s FROM {over} ORDER BY s DESC LIMIT 1", [(2,)]),
    ],
)
@pytest.mark.parametrize("frame", ["ROWS", "RANGE"])
def test_what_over_had_before_another_row_counts_no_more(
    query: str, expected: list[object], frame: str, tmp_path: Path
) -> None:
    """The sum of the row with 5 is 5 at first, and 2 when the row with -3 is there. Flink's MAX is 5."""
    rows = [{"k": k, "name": name, "@at": 1000 * n} for n, (k, name) in enumerate([(5, "a"), (-3, "a"), (1, "b")], 1)]
    (tmp_path / "n.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = TableEnvironment.create()
    env.execute_sql(
        f"CREATE TABLE n (k INT, name STRING) WITH ('connector' = 'replay', 'path' = '{tmp_path / 'n.json'}', "
        "'format' = 'json')"
    )
    window = f"PARTITION BY name ORDER BY k {frame} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    assert rows_left(env, query.format(over=f"(SELECT k, name, SUM(k) OVER ({window}) AS s FROM n)")) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a, (SELECT MAX(v) FROM u) FROM t", [(1, None), (2, None), (3, None)]),
        ("SELECT a, (SELECT v FROM u) FROM t", [(1, None), (2, None), (3, None)]),
        ("SELECT a FROM t WHERE a < (SELECT SUM(v) FROM u)", []),
        ("SELECT a, n FROM t FULL JOIN (SELECT SUM(v) AS n FROM u) ON TRUE", [(1, None), (2, None), (3, None)]),
    ],
)
def test_the_only_row_of_a_side_goes_and_comes(query: str, expected: list[object], tmp_path: Path) -> None:
    changes = [{"_op": op, "v": 5, "@at": 2000 * n} for n, op in enumerate(("+I", "-D", "+I", "-D"), 1)]
    (tmp_path / "u.json").write_text("".join(json.dumps(change) + "\n" for change in changes))
    rows = [{"a": a, "@at": at} for a, at in ((1, 1000), (2, 3000), (3, 9000))]
    (tmp_path / "t.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = TableEnvironment.create()
    for name, column, form in (("t", "a", "json"), ("u", "v", "op-json', 'op-json.mode' = 'retract")):
        env.execute_sql(
            f"CREATE TABLE {name} ({column} INT) WITH ('connector' = 'replay', "
            f"'path' = '{tmp_path / f'{name}.json'}', 'format' = '{form}')"
        )
    assert rows_left(env, query) == expected


@pytest.mark.parametrize(
    ("call", "retracts"),
    [
        ("MAX(b.v)", False),
        ("MIN(CAST(b.v AS BIGINT) + k)", False),
        ("MAX(c.w)", False),
        ("MAX(COALESCE(k, 1))", False),
        ("MAX(COALESCE(b.v, 1))", True),
        ("MAX(c.w + COALESCE(b.v, 1))", True),
    ],
)
def test_columns_that_are_null_at_first_are_taken_back_only_where_it_shows(call: str, retracts: bool) -> None:
    """MIN and MAX leave NULL out, so Flink's plan is right for the columns themselves."""
    env = TableEnvironment.create()
    for name, columns in (("a", "id INT, k INT"), ("b", "id INT, v INT"), ("c", "v INT, w INT")):
        env.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'datagen')")
    plan = env.explain_sql(f"SELECT k, {call} FROM a LEFT JOIN b ON a.id = b.id LEFT JOIN c ON b.v = c.v GROUP BY k")
    assert ("_RETRACT(" in plan) == retracts


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
def test_a_join_may_have_a_column_in_its_key_twice(kind: str, tmp_path: Path) -> None:
    env = TableEnvironment.create()
    for name, columns in (("a", "xy"), ("b", "zu")):
        rows = [{"_op": "+I", **dict.fromkeys(columns, i), "@at": at} for at in (1000, 3000) for i in range(3)]
        (tmp_path / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        env.execute_sql(
            f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)}) WITH ('connector' = 'replay', "
            f"'path' = '{tmp_path / f'{name}.json'}', 'format' = 'op-json', 'op-json.mode' = 'retract')"
        )
    query = f"SELECT x, u FROM a {kind} b ON a.x = b.z AND a.y = b.z"
    assert rows_left(env, query) == [(i, i) for i in range(3) for _ in range(4)]
