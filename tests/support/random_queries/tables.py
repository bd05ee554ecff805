"""What random queries are made of: columns, tables, and random rows for them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column of a query: its name, and its kind (see ``TYPES``)."""

    name: str
    kind: str


@dataclass(frozen=True)
class Query:
    """A SELECT.

    Attributes:
        sql: its text.
        columns: of its rows.
        appends: whether it only inserts rows.
        key: columns that no two of its rows share, where they are known.
        unique: time attributes, each with another value in each row.
    """

    sql: str
    columns: tuple[Column, ...]
    appends: bool
    key: tuple[str, ...] = ()
    unique: frozenset[str] = frozenset()

    def of(self, *kinds: str) -> list[Column]:
        """The columns of these kinds."""
        return [c for c in self.columns if c.kind in kinds]


TYPES = {"i": "INT", "l": "BIGINT", "s": "STRING", "t": "TIMESTAMP(3)", "r": "TIMESTAMP(3)", "p": "TIMESTAMP_LTZ(3)"}
"""Kinds of columns: ``r`` is a time attribute of event time, ``p`` one of processing time, ``t`` a plain timestamp."""

TABLES = {
    "a": "k INT, v BIGINT, s STRING, et TIMESTAMP(3), WATERMARK FOR et AS et - INTERVAL '{delay}' SECOND",
    "b": "k INT, w INT, u STRING, bt TIMESTAMP(3), WATERMARK FOR bt AS bt - INTERVAL '{delay}' SECOND",
    "n": "k INT, name STRING",
    "pr": "k INT, q BIGINT, z STRING, pt AS PROCTIME()",
    "c": "id INT, k INT, v BIGINT, s STRING",
    "d": "id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED",
    "e": "id INT, k INT, v BIGINT, ut TIMESTAMP(3), WATERMARK FOR ut AS ut - INTERVAL '{delay}' SECOND, "
    "PRIMARY KEY (id) NOT ENFORCED",
}
"""Their columns. ``{delay}`` is how late rows may be, in seconds."""

COLUMNS = {
    "a": "k:i v:l s:s et:r",
    "b": "k:i w:i u:s bt:r",
    "n": "k:i name:s",
    "pr": "k:i q:l z:s pt:p",
    "c": "id:i k:i v:l s:s",
    "d": "id:i k:i v:l s:s",
    "e": "id:i k:i v:l ut:r",
}
"""Names and kinds of their columns."""

FORMATS = {
    "c": "'format'='debezium-json'",
    "d": "'format'='op-json', 'op-json.mode'='upsert'",
    "e": "'format'='debezium-json'",
}
"""The formats of the tables whose rows are updated and deleted."""

JSON = "'format'='json'"
"""The format of the tables that only insert rows."""


def table_input(rng: random.Random, table: str, late: bool = False) -> list[str]:
    """The lines of a table's file; with ``late``, times go back by up to ten seconds."""
    described = [(name, kind) for name, kind in (text.split(":") for text in COLUMNS[table].split()) if kind != "p"]

    def row(number: int) -> dict[str, object]:
        return {name: _value(rng, kind, number) for name, kind in described}

    if table not in FORMATS:
        order = list(range(rng.randint(6, 12)))
        if late:
            order.sort(key=lambda n: n + rng.choice((0, 0, 0, 2, 5)))
        return [json.dumps(row(n)) for n in order]
    live: dict[int, dict[str, object]] = {}
    out = []
    for n in range(rng.randint(8, 14)):
        key = rng.randint(1, 4)
        new, old = row(n) | {"id": key}, live.pop(key, None)
        deleted = old is not None and rng.random() < 0.3
        if not deleted:
            live[key] = new
        if table == "d":
            kind = "-D" if deleted else "+I" if old is None else "+U"
            out.append(json.dumps({**(old if deleted and old else new), "_op": kind}))
        else:
            op = "d" if deleted else "c" if old is None else "u"
            out.append(json.dumps({"before": old, "after": None if deleted else new, "op": op}))
    return out


def _value(rng: random.Random, kind: str, number: int) -> object:
    """A value for the row ``number``: times ascend with it, no two are equal."""
    if kind in "rt":
        return f"2026-01-01 00:00:{number * 2 + rng.randint(0, 1):02}"
    if kind == "s":
        return rng.choice(("x", "y", "xy", None))
    if kind == "l":
        return rng.choice((None, *range(8)))
    return rng.choice((None, *range(4), *range(4)))
