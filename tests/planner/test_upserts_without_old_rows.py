"""Operators that get updates without their old rows leave the rows of SQL, where Flink's leave others."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.support.local import printed
from tests.support.long_runs import LONG

Row = tuple[int | None, ...]
Change = tuple[str, Row]

COLUMNS = {"a": ("i", "k", "v"), "b": ("k", "w"), "c": ("k", "w")}
"""Table ``a`` has the key (i, k), the others have the key k."""
KEYS = {"a": "i, k", "b": "k", "c": "k"}

SEEDS = range(6 if LONG else 3)
"""Of random changes; one, two or all of them come at an instant, in turn."""


def changes(rng: random.Random, name: str, count: int) -> list[Change]:
    """Changes of a table of upserts: of a row that is not there at times, and deletions that come twice."""
    width = len(COLUMNS[name]) - 1
    out: list[Change] = []
    for _ in range(count):
        key = tuple(rng.randrange(2) for _ in range(width))
        out.append((rng.choice(["+I", "+U", "+U", "-D"]), (*key, rng.randrange(4))))
    return out


def final(found: Iterable[Change]) -> list[Row]:
    rows: dict[Row, Row] = {}
    for op, row in found:
        if op == "-D":
            rows.pop(row[:-1], None)
        else:
            rows[row[:-1]] = row
    return list(rows.values())


def stored(folder: Path, tables: Mapping[str, list[Change]], mode: str, rng: random.Random, step: int) -> list[str]:
    """The tables, whose changes come in a random order of the tables, ``step`` at one instant."""
    turns = [name for name, found in tables.items() for _ in found]
    rng.shuffle(turns)
    left = {name: iter(found) for name, found in tables.items()}
    lines: dict[str, list[str]] = {name: [] for name in tables}
    for number, name in enumerate(turns):
        op, row = next(left[name])
        values = dict(zip(COLUMNS[name], row, strict=True))
        if op == "-D" and mode == "upsert-key-delete":
            values[COLUMNS[name][-1]] = None
        lines[name].append(json.dumps({"_op": op, **values, "@at": 1000 * (number - number % step)}))
    out = []
    for name, found in lines.items():
        (folder / f"{name}.json").write_text("".join(line + "\n" for line in found))
        columns = ", ".join(f"{c} INT" for c in COLUMNS[name])
        out.append(
            f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({KEYS[name]}) NOT ENFORCED) WITH ('connector' = 'replay', "
            f"'path' = '{folder / f'{name}.json'}', 'format' = 'op-json', 'op-json.mode' = '{mode}')"
        )
    return out


def left_rows(
    statements: list[str], sink: str, query: str, key: int, options: Mapping[str, str] | None = None
) -> set[str]:
    """The rows that a table of upserts has in the end whose first ``key`` columns are its key."""
    environment = TableEnvironment.create(options)
    for statement in (*statements, f"CREATE TABLE o ({sink}) WITH ('connector'='print', 'changelog-mode'='upsert')"):
        environment.execute_sql(statement)
    (one,) = read_script(f"INSERT INTO o {query};")
    graph = environment.session.compiler.document(Inserts.of(one.node, one.source)).graph
    rows: dict[tuple[str, ...], str] = {}
    for line in printed(translate(graph, dict(options or {}), 3)):
        place = tuple(line[3:-1].split(", ")[:key])
        if line[1] in "UI" and line[0] == "+":
            rows[place] = line[2:]
        else:
            assert line[:2] == "-D", line
            rows.pop(place, None)
    return set(rows.values())


def text(*values: int | None) -> str:
    return "[" + ", ".join("null" if v is None else str(v) for v in values) + "]"


def joined(kind: str, a: list[Row], b: list[Row], condition: bool) -> set[str]:
    """Rows (i, a.k, b.k, v, w) of a join on k, and v < w with a condition."""

    def match(x: Row, y: Row) -> bool:
        return x[1] == y[0] and (not condition or x[2] < y[1])  # type: ignore[operator]

    pairs = {text(x[0], x[1], y[0], x[2], y[1]) for x in a for y in b if match(x, y)}
    lonely = [x for x in a if not any(match(x, y) for y in b)]
    if kind == "SEMI":
        return {text(*x) for x in a if x not in lonely}
    if kind == "ANTI":
        return {text(*x) for x in lonely}
    out = set(pairs)
    if kind in ("LEFT", "FULL"):
        out |= {text(x[0], x[1], None, x[2], None) for x in lonely}
    if kind in ("RIGHT", "FULL"):
        out |= {text(None, None, y[0], None, y[1]) for y in b if not any(match(x, y) for x in a)}
    return out


def query_of(kind: str, condition: bool) -> tuple[str, str, int]:
    """Columns of the sink, query, and how many columns are the key."""
    on = "a.k = b.k" + (" AND a.v < b.w" if condition else "")
    if kind in ("SEMI", "ANTI"):
        word = "" if kind == "SEMI" else "NOT "
        return "i INT, k INT, v INT", f"SELECT i, k, v FROM a WHERE {word}EXISTS (SELECT * FROM b WHERE {on})", 2
    columns = "i INT, k INT, k2 INT, v INT, w INT"
    return columns, f"SELECT a.i, a.k, b.k, a.v, b.w FROM a {kind} JOIN b ON {on}", 3


@pytest.mark.halved
@pytest.mark.parametrize("condition", [False, True])
@pytest.mark.parametrize("mode", ["upsert", "upsert-key-delete"])
@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
def test_joins_of_upserts(kind: str, mode: str, condition: bool, tmp_path: Path) -> None:
    sink, query, key = query_of(kind, condition)
    for seed in SEEDS:
        rng = random.Random(seed)
        tables = {name: changes(rng, name, 9) for name in ("a", "b")}
        statements = stored(tmp_path, tables, mode, rng, step=(1, 2, 40)[seed % 3])
        expected = joined(kind, final(tables["a"]), final(tables["b"]), condition)
        assert left_rows(statements, sink, query, key) == expected, (seed, tables)


@pytest.mark.parametrize("mode", ["upsert", "upsert-key-delete"])
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_joins_of_several_inputs(kind: str, mode: str, tmp_path: Path) -> None:
    options = {"table.optimizer.multi-join.enabled": "true"}
    query = f"SELECT a.i, a.k, b.w, c.w FROM a {kind} b ON a.k = b.k AND a.v < b.w {kind} c ON a.k = c.k AND a.v > c.w"
    for seed in SEEDS:
        rng = random.Random(seed)
        tables = {name: changes(rng, name, 8) for name in ("a", "b", "c")}
        statements = stored(tmp_path, tables, mode, rng, step=(1, 2, 40)[seed % 3])
        b, c = (dict(final(tables[name])) for name in ("b", "c"))  # type: ignore[arg-type]
        expected = set()
        for i, k, v in final(tables["a"]):
            w = b[k] if k in b and v < b[k] else None  # type: ignore[operator]
            z = c[k] if k in c and v > c[k] else None  # type: ignore[operator]
            if kind == "LEFT JOIN" or None not in (w, z):
                expected.add(text(i, k, w, z))
        assert left_rows(statements, "i INT, k INT, w INT, z INT", query, 2, options) == expected, (seed, tables)


def tables_with_time(folder: Path, mode: str) -> list[str]:
    """Orders whose price, and key of a rate, change; rates, of which only 1 is there."""
    orders = [
        {"_op": "+I", "i": 1, "k": 1, "price": 10, "t": "2024-01-01 00:00:10", "@at": 3000},
        {"_op": "+I", "i": 2, "k": 1, "price": 10, "t": "2024-01-01 00:00:10", "@at": 3000},
        {"_op": "+U", "i": 1, "k": 1, "price": 99, "t": "2024-01-01 00:00:20", "@at": 5000},
        {"_op": "+I", "i": 9, "k": 1, "price": 10, "t": "2024-01-01 00:01:00", "@at": 9000},
    ]
    rates = [
        {"k": 1, "w": 50, "t": "2024-01-01 00:00:01", "@at": 1000},
        {"k": 1, "w": 51, "t": "2024-01-01 00:01:00", "@at": 9000},
    ]
    for name, rows in (("a", orders), ("b", rates)):
        (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        "CREATE TABLE a (i INT, k INT, price INT, t TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR t AS t, "
        "PRIMARY KEY (i, k) NOT ENFORCED) WITH ('connector' = 'replay', 'format' = 'op-json', "
        f"'path' = '{folder / 'a.json'}', 'op-json.mode' = '{mode}')",
        "CREATE TABLE b (k INT, w INT, t TIMESTAMP(3), WATERMARK FOR t AS t, PRIMARY KEY (k) NOT ENFORCED) "
        f"WITH ('connector' = 'replay', 'format' = 'json', 'path' = '{folder / 'b.json'}')",
        "CREATE TABLE c (k INT, w INT, PRIMARY KEY (k) NOT ENFORCED) "
        f"WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{folder / 'b.json'}')",
    ]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.i, a.k, w FROM a JOIN b FOR SYSTEM_TIME AS OF a.t ON a.k = b.k AND a.price < b.w",
        "SELECT a.i, a.k, 50 FROM a JOIN (SELECT * FROM b) AS b ON a.k = b.k AND a.price < 50 WHERE b.w = 50",
    ],
)
def test_an_update_that_meets_no_version_takes_its_row_back(query: str, tmp_path: Path) -> None:
    statements = tables_with_time(tmp_path, "upsert")
    rows = left_rows(statements, "i INT, k INT, w INT", query, 2)
    assert not any(row.startswith("[1,") for row in rows) and any(row.startswith("[2,") for row in rows)


def test_an_update_that_finds_nothing_takes_its_row_back(tmp_path: Path) -> None:
    statements = tables_with_time(tmp_path, "upsert")
    (tmp_path / "b.json").write_text('{"k": 1, "w": 50}\n')
    query = "SELECT a.i, a.k, w FROM a JOIN c FOR SYSTEM_TIME AS OF a.p ON a.k = c.k AND a.price < c.w"
    assert left_rows(statements, "i INT, k INT, w INT", query, 2) == {"[2, 1, 50]", "[9, 1, 50]"}
