"""The tables of random evolutions: their columns, and random rows at some instants."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

Columns = dict[str, str]
"""The columns of a query: name -> kind (see ``COLUMNS``)."""

COLUMNS: Mapping[str, Columns] = {
    "a": {"k": "i", "g": "s", "v": "l", "m": "i", "d": "f", "c": "d", "n": "i", "et": "r", "pt": "p"},
    "b": {"k": "i", "g": "s", "v": "l", "w": "i", "bt": "r", "pt": "p"},
    "c": {"id": "i", "k": "i", "g": "s", "v": "l"},
    "u": {"id": "i", "k": "i", "g": "s", "v": "l", "m": "i"},
    "q": {"id": "i", "k": "i", "g": "s", "v": "l"},
}
"""Kinds: ``i`` INT, ``l`` BIGINT, ``s`` STRING, ``f`` DOUBLE, ``d`` DECIMAL, ``r`` event time, ``p`` processing time,
``t`` a plain timestamp, ``x`` anything else."""

_SCHEMAS = {
    "a": "k INT, g STRING, v BIGINT, m INT, d DOUBLE, c DECIMAL(10, 2), n INT NOT NULL, et TIMESTAMP(3), "
    "pt AS PROCTIME(), WATERMARK FOR et AS et - INTERVAL '1' SECOND",
    "b": "k INT, g STRING, v BIGINT, w INT, bt TIMESTAMP(3), pt AS PROCTIME(), "
    "WATERMARK FOR bt AS bt - INTERVAL '2' SECOND",
    "c": "id INT, k INT, g STRING, v BIGINT",
    "u": "id INT, k INT, g STRING, v BIGINT, m INT, PRIMARY KEY (id) NOT ENFORCED",
    "q": "id INT, k INT, g STRING, v BIGINT, PRIMARY KEY (id) NOT ENFORCED",
}

_FORMATS = {"c": "debezium-json", "u": "debezium-json", "q": "op-json"}

APPENDS = frozenset({"a", "b"})
"""The tables that only insert rows."""

SECOND = 1000


def ddl(table: str, is_wide: bool = False) -> str:
    """The CREATE TABLE of a table; ``{folder}`` is the path of its rows. A wide one has wider types, and NULLs."""
    schema = _SCHEMAS[table]
    if is_wide:
        schema = re.sub(r"\b(?<!id )INT( NOT NULL)?\b", "BIGINT", schema).replace("STRING", "VARCHAR(100)")
    form = _FORMATS.get(table, "json")
    mode = ", 'op-json.mode' = 'upsert'" if form == "op-json" else ""
    options = f"'connector' = 'replay', 'path' = '{{folder}}/{table}.json', 'format' = '{form}'{mode}"
    return f"CREATE TABLE {table} ({schema}) WITH ({options})"


def rows(rng: random.Random, table: str, instants: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of a table, at least one at each instant (ms)."""
    live: dict[int, dict[str, Any]] = {}
    lines: list[dict[str, Any]] = []
    for at in instants:
        for _ in range(rng.choice((1, 2, 3, 4))):
            row = {name: _value(rng, kind, at) for name, kind in COLUMNS[table].items() if kind != "p"}
            lines += [{**line, "@at": at} for line in _lines(rng, table, row, live)]
    return lines


def _lines(
    rng: random.Random, table: str, row: dict[str, Any], live: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """A change of a table, in its format."""
    if table in APPENDS:
        return [{**row, "n": 1}] if table == "a" else [row]
    key = rng.randint(1, 4)
    new, old = row | {"id": key}, live.get(key)
    deleted = old is not None and rng.random() < 0.3
    if deleted:
        del live[key]
    else:
        live[key] = new
    if _FORMATS[table] == "op-json":
        return [{**(old if deleted and old else new), "_op": "-D" if deleted else "+U" if old else "+I"}]
    op = "d" if deleted else "c" if old is None else "u"
    return [{"before": old, "after": None if deleted else new, "op": op}]


def _value(rng: random.Random, kind: str, at: int) -> Any:
    if kind == "r":  # at most three seconds before its arrival: some rows are late
        second = max(0, at // SECOND - rng.choice((0, 0, 0, 1, 3)))
        return f"2026-01-01 00:00:{second:02}.{rng.randrange(1000):03}"
    if kind == "s":
        return rng.choice(("x", "y", "xy", None))
    if kind == "l":
        return rng.choice((None, *range(6), 2**62))
    if kind == "f":
        return rng.choice((None, 0.5, 0.25, 1.5, -3.0, 8.0))
    if kind == "d":
        return rng.choice((None, 1.25, 2.5, 3.75, 9.99, -1.0))
    return rng.choice((None, 0, 1, 2, 0, 1, 2, 3))


def lines_of(table_rows: Sequence[Mapping[str, Any]]) -> str:
    """The text of a table's file."""
    return "".join(json.dumps(row) + "\n" for row in table_rows)
