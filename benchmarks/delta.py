"""How fast Delta tables are read and written, next to the same rows in Parquet and JSON files: whole jobs, in turn, in
one Spark session.

    python -m benchmarks.delta [--rows 1000000] [--rounds 3]

Prints rows per second of each, and those of Delta as a share of the others. Besides, it appends and merges
micro-batches without Spark: what the sink itself takes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from deltalake import write_deltalake

from stateplan import TableEnvironment
from stateplan.common.types import parse_type
from stateplan.connectors.protocol import Sink, SinkTable
from stateplan.connectors.registry import find_connector

COLUMNS = "order_id BIGINT, user_id BIGINT, product STRING, num INT, price DOUBLE"
FILES = 8


def orders(count: int) -> pl.DataFrame:
    """Orders, numbered."""
    dice, ids = np.random.default_rng(1), np.arange(count)
    return pl.DataFrame(
        {
            "order_id": ids,
            "user_id": ids % 1000,
            "product": [f"product {i % 10007}" for i in ids],
            "num": pl.Series(ids % 7, dtype=pl.Int32),
            "price": dice.random(count),
        }
    )


def inputs(folder: Path, rows: pl.DataFrame) -> None:
    """The rows as a Delta table and as files, each of as many files."""
    size = -(-rows.height // FILES)
    for form in ("json", "parquet"):
        (folder / form).mkdir()
    for number, part in enumerate(rows.iter_slices(size)):
        part.write_ndjson(folder / "json" / f"{number}.json")
        part.write_parquet(folder / "parquet" / f"{number}.parquet", compression="snappy")
        write_deltalake(str(folder / "delta"), part.to_arrow(), mode="append")


def tables(session: TableEnvironment, folder: Path, target: Path) -> None:
    for form in ("json", "parquet"):
        options = f"'connector' = 'filesystem', 'format' = '{form}', 'path'"
        session.execute_sql(f"CREATE TABLE from_{form} ({COLUMNS}) WITH ({options} = '{folder}/{form}')")
        session.execute_sql(f"CREATE TABLE to_{form} ({COLUMNS}) WITH ({options} = '{target}/{form}')")
    options = "'connector' = 'delta', 'table-path'"
    session.execute_sql(f"CREATE TABLE from_delta ({COLUMNS}) WITH ({options} = '{folder}/delta')")
    session.execute_sql(f"CREATE TABLE to_delta ({COLUMNS}) WITH ({options} = '{target}/delta')")
    session.execute_sql(f"CREATE TABLE nothing ({COLUMNS}) WITH ('connector' = 'blackhole')")


def rate(rows: int, run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return rows / (time.perf_counter() - started)


def _finished(session: TableEnvironment, statement: str) -> None:
    session.execute_sql(statement).wait()


def jobs(folder: Path, rows: int, rounds: int) -> None:
    """Reads into nothing, and writes what is read from Parquet."""
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 1):
        for form in ("json", "parquet", "delta"):
            with tempfile.TemporaryDirectory() as target:
                session = TableEnvironment.create({"parallelism.default": "2", "table.exec.local.max-input-size": "0"})
                tables(session, folder, Path(target))
                statements = {
                    "read": f"INSERT INTO nothing SELECT * FROM from_{form}",
                    "write": f"INSERT INTO to_{form} SELECT * FROM from_parquet",
                }
                for what, statement in statements.items():
                    speed = rate(rows, partial(_finished, session, statement))
                    if number:  # the first round warms up
                        found.setdefault((what, form), []).append(speed)
    for what in ("read", "write"):
        best = {form: statistics.median(found[what, form]) for form in ("json", "parquet", "delta")}
        shown = ", ".join(f"{form} {speed:,.0f}" for form, speed in best.items())
        ratios = ", ".join(f"{best['delta'] / best[form]:.2f} of {form}" for form in ("json", "parquet"))
        print(f"{what}: {shown} rows/s; delta is {ratios}")


def sink(path: Path, keys: tuple[str, ...]) -> Sink:
    fields = tuple((f.name, f.type) for f in parse_type(f"ROW<{COLUMNS}>").fields)
    options = {"connector": "delta", "table-path": str(path)}
    table = SinkTable("t", find_connector(options), options, fields, None, (), keys, "benchmark")
    return table.connector.sink(table)


def commits(folder: Path, rows: pl.DataFrame) -> None:
    """20 micro-batches through a sink, in this process."""
    frame = rows.rename({name: f"c{i}" for i, name in enumerate(rows.columns)})
    size = -(-rows.height // 20)
    for name, keys in (("append", ()), ("merge of new keys", ("order_id",)), ("merge of the same keys", ("order_id",))):
        made = sink(folder / name.partition(" ")[0], keys)
        first = 20 if name.endswith("same keys") else 0

        def run(made: Sink = made, first: int = first) -> None:
            for number, part in enumerate(frame.iter_slices(size)):
                made.prepare(first + number)
                made.commit([made.write(part, first + number, "p")], first + number)

        print(f"{name}: {rate(rows.height, run):,.0f} rows/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("jobs", "commits"))
    given = parser.parse_args()
    rows = orders(given.rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.only != "jobs":
            commits(folder, rows)
        if given.only != "commits":
            inputs(folder, rows)
            jobs(folder, given.rows, given.rounds)


if __name__ == "__main__":
    main()
