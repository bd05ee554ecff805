"""Three ways to merge a micro-batch into an Iceberg table: the sink's, and two that ``pyiceberg`` has.

    python -m benchmarks.iceberg_merge [--rows 100000] [--changes 1000] [--rounds 5]

Each merges ``--changes`` rows, half of them with new keys, into a table of ``--rows`` rows in ten files. Prints the
seconds of the fastest round, and how many snapshots the commit makes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks.harness import run
from stateplan.common.types import parse_type
from stateplan.connectors.protocol import Sink, SinkTable
from stateplan.connectors.registry import find_connector

expressions: Any = import_module("pyiceberg.expressions")
"""Their constructors take a name and values."""

COLUMNS = "k BIGINT NOT NULL, v STRING"
FILES = 10


def sink_of(folder: str) -> Sink:
    fields = tuple((f.name, f.type) for f in parse_type(f"ROW<{COLUMNS}>").fields)
    options = {"connector": "iceberg", "warehouse": folder, "catalog-table": "t"}
    connector = find_connector(options)
    return connector.sink(SinkTable("t", connector, options, fields, primary_key=("k",), uid="benchmark"))


def merge(sink: Sink, epoch: int, rows: pl.DataFrame) -> None:
    """A micro-batch of the sink."""
    sink.prepare(epoch)
    sink.commit([sink.write(rows.rename({"k": "c0", "v": "c1"}), epoch, "0")], epoch)


def library_upsert(table: Table, rows: pa.Table) -> None:
    table.upsert(rows, join_cols=["k"])


def delete_and_append(table: Table, rows: pa.Table) -> None:
    with table.transaction() as transaction:
        transaction.delete(expressions.In("k", rows["k"].to_pylist()))
        transaction.append(rows)


def main(rows: int = 100_000, changes: int = 1000, rounds: int = 5) -> None:
    dice = np.random.default_rng(1)
    keys = np.concatenate([dice.choice(rows, changes // 2, False), np.arange(rows, rows + changes - changes // 2)])
    frame = pl.DataFrame({"k": keys, "v": ["new"] * len(keys)})
    data = pa.table(frame.to_arrow().cast(pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.string())])))
    ways: dict[str, Callable[[Table], None]] = {
        "delete and append of pyiceberg": lambda table: delete_and_append(table, data),
        "upsert of pyiceberg": lambda table: library_upsert(table, data),
    }
    for way in ("the sink", *ways):
        best, snapshots, count = float("inf"), 0, 0
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="stateplan-iceberg-") as folder:
                sink = sink_of(folder)
                for number, part in enumerate(np.array_split(dice.permutation(rows), FILES)):
                    merge(sink, number, pl.DataFrame({"k": part, "v": [f"value {k}" for k in part]}))
                catalog = SqlCatalog("default", uri=f"sqlite:///{Path(folder)}/catalog.db", warehouse=folder)
                table = catalog.load_table("default.t")
                before, start = len(table.snapshots()), time.perf_counter()
                if way in ways:
                    ways[way](table)
                else:
                    merge(sink, FILES, frame)
                best = min(best, time.perf_counter() - start)
                after = catalog.load_table("default.t")
                count, snapshots = after.scan().count(), len(after.snapshots()) - before
        print(f"{way}: {best:.2f} s, {snapshots} snapshots, {count:,} rows", flush=True)


if __name__ == "__main__":
    run(main, __doc__)
