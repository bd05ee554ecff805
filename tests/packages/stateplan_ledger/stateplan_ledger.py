"""The ``ledger`` connector: tables of a SQLite database that only grow.

A source reads rows in the order of their ``rowid``: those that are there (``scan.mode`` = ``snapshot``), or for ever
those that come (``stream``). A table is looked up with the keys that are asked for. A sink appends rows, changes with
their kind in the column ``kind``, exactly once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.errors import CatalogError, OptionError, Place
from stateplan.common.options import Option, OptionType, Role
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.protocol import (
    Connector,
    Lookup,
    Offset,
    OffsetSource,
    Sink,
    SinkTable,
    SourceTable,
)
from stateplan.connectors.splits import Split

if TYPE_CHECKING:
    import polars as pl

_TYPES = {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "CHAR", "VARCHAR"}
_ROWS_OF_A_SPLIT = 100
_MOST_KEYS = 500


class Ledger(Connector):
    """Tables of a SQLite database."""

    name = "ledger"
    description = "A table of a SQLite database that only grows."
    options = (
        Option("path", OptionType.STRING, "The database.", is_required=True),
        Option("table", OptionType.STRING, "Its table.", is_required=True),
        Option(
            "scan.mode",
            OptionType.ENUM,
            "Whether a source ends with the rows that are there, or waits for more.",
            default="snapshot",
            values=("snapshot", "stream"),
            role=Role.SOURCE,
        ),
        Option(
            "scan.max-rows",
            OptionType.INTEGER,
            "How many rows a micro-batch reads at most.",
            default=1000,
            minimum=1,
            role=Role.SOURCE,
        ),
        Option("scan.interval", OptionType.DURATION, "How often to look for new rows.", default=1000, role=Role.SOURCE),
    )
    roles = (Role.SOURCE, Role.SINK)
    can_look_up = True
    abilities = frozenset({"ProjectPushDown"})

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        return bool(self.value(options, "scan.mode") == "snapshot")

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        return {key: options[key] for key in ("path", "table")}

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        for name, declared in fields:
            if declared.root not in _TYPES:
                message = f"a ledger cannot hold the column '{name}' of type {declared.summary()}"
                raise CatalogError.with_text("CAT102", message, place=place)

    def source(self, table: SourceTable) -> LedgerSource:
        mode, rows, interval = (table.value(f"scan.{key}") for key in ("mode", "max-rows", "interval"))
        return LedgerSource(_read(table), mode == "snapshot", rows, interval)

    def lookup(self, table: SourceTable) -> LedgerLookup:
        return LedgerLookup(_read(table))

    def sink(self, table: SinkTable) -> LedgerSink:
        names = tuple(name for name, _ in table.fields)
        return LedgerSink(table.options["path"], table.options["table"], names, table.uid)


@dataclass(frozen=True)
class _Rows:
    """Some columns of a table, as frames."""

    path: str
    table: str
    columns: tuple[tuple[str, Any], ...]

    def frame(self, where: str, values: list[Any]) -> pl.DataFrame:
        import polars as pl

        names = ", ".join(f'"{name}"' for name, _ in self.columns)
        query = f'SELECT {names or "1"} FROM "{self.table}" WHERE {where} ORDER BY rowid'
        with closing(_open(self.path)) as database:
            rows = database.execute(query, values).fetchall()
        if not self.columns:
            return pl.DataFrame({KIND: pl.zeros(len(rows), pl.Int8, eager=True)})
        schema = {f"c{i}": declared.polars() for i, (_, declared) in enumerate(self.columns)}
        return pl.DataFrame(rows, schema=schema, orient="row")


def _read(table: SourceTable) -> _Rows:
    return _Rows(table.options["path"], table.options["table"], tuple(table.fields[i] for i in table.projection))


def _open(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=60, isolation_level=None)


@dataclass(frozen=True)
class LedgerSplit(Split):
    """The rows with a ``rowid`` above ``after``, up to ``to``."""

    after: int
    to: int


class LedgerSource(OffsetSource[LedgerSplit]):
    """Rows by their ``rowid``: the offset is the last one that has been read."""

    split_type = LedgerSplit

    def __init__(self, rows: _Rows, bounded: bool, most: int, interval: int) -> None:
        self.rows = rows
        self.bounded = bounded
        self.most = most
        self.interval = interval

    def check(self, name: str) -> None:
        try:
            self.latest_offset(self.initial_offset())
        except sqlite3.Error as error:
            message = f"the table {name} cannot be read: {error}"
            raise OptionError.with_text("OPT040", message) from error

    def initial_offset(self) -> Offset:
        return {"row": 0}

    def latest_offset(self, start: Offset) -> Offset:
        with closing(_open(self.rows.path)) as database:
            (last,) = database.execute(f'SELECT COALESCE(MAX(rowid), 0) FROM "{self.rows.table}"').fetchone()
        return {"row": max(start["row"], min(last, start["row"] + self.most))}

    def plan(self, start: Offset, end: Offset) -> list[LedgerSplit]:
        edges = [*range(start["row"], end["row"], _ROWS_OF_A_SPLIT), end["row"]]
        return [LedgerSplit(a, b) for a, b in pairwise(edges)]

    def read(self, split: LedgerSplit) -> Iterator[pl.DataFrame]:
        yield self.rows.frame("rowid > ? AND rowid <= ?", [split.after, split.to])


@dataclass(frozen=True)
class LedgerLookup(Lookup):
    """Rows with the values that are asked for."""

    rows_of: _Rows
    by_key = True

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        if keys is None or keys.height * keys.width > _MOST_KEYS:
            return self.rows_of.frame("TRUE", [])
        names = ", ".join(f'"{self.rows_of.columns[int(c[1:])][0]}"' for c in keys.columns)
        one = "(" + ", ".join("?" * keys.width) + ")"
        asked = ", ".join([one] * keys.height)
        return self.rows_of.frame(f"({names}) IN (VALUES {asked})", [value for row in keys.rows() for value in row])


@dataclass(frozen=True)
class LedgerSink(Sink):
    """Rows staged by workers in a table of their own, and moved by the driver in one transaction, in which it also
    notes the epoch."""

    path: str
    table: str
    names: tuple[str, ...]
    uid: str

    def prepare(self, epoch: int) -> None:
        columns = ", ".join(f'"{name}"' for name in ("kind", *self.names))
        with closing(_open(self.path)) as database:
            database.execute(f'CREATE TABLE IF NOT EXISTS "{self.table}" ({columns})')
            database.execute(
                "CREATE TABLE IF NOT EXISTS staged (uid, epoch, part, rows, PRIMARY KEY (uid, epoch, part))"
            )
            database.execute("CREATE TABLE IF NOT EXISTS committed (uid PRIMARY KEY, epoch)")
            database.execute("DELETE FROM staged WHERE uid = ?", [self.uid])

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        kinds = frame[KIND] if KIND in frame.columns else [0] * frame.height
        rows = frame.drop(KIND, strict=False).rows()
        texts = json.dumps([[RowKind(kind).short, *row] for kind, row in zip(kinds, rows, strict=True)])
        with closing(_open(self.path)) as database:
            database.execute("INSERT OR REPLACE INTO staged VALUES (?, ?, ?, ?)", [self.uid, epoch, part, texts])
        return part.encode()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        with closing(_open(self.path)) as database:
            database.execute("BEGIN IMMEDIATE")
            done = database.execute("SELECT epoch FROM committed WHERE uid = ?", [self.uid]).fetchone()
            if done is None or done[0] < epoch:
                marks = ", ".join("?" * (1 + len(self.names)))
                for part in parts:
                    key = [self.uid, epoch, part.decode()]
                    where = "uid = ? AND epoch = ? AND part = ?"
                    (texts,) = database.execute(f"SELECT rows FROM staged WHERE {where}", key).fetchone()
                    database.executemany(f'INSERT INTO "{self.table}" VALUES ({marks})', json.loads(texts))
                database.execute("INSERT OR REPLACE INTO committed VALUES (?, ?)", [self.uid, epoch])
            database.execute("DELETE FROM staged WHERE uid = ? AND epoch <= ?", [self.uid, epoch])
            database.execute("COMMIT")
