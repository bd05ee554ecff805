"""Polars or DuckDB under the kernels: the same four steps of a micro-batch in both, one thread each.

    python -m benchmarks.kernel_library

Prints processor time per call (median of the runs, the two in turn) and the ratio. The frames are those of one key
group of the benchmark queries; the small frame shows what a call costs when almost nothing arrives.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import statistics
import time
from collections.abc import Callable

import numpy as np
import polars as pl

Step = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]


def orders(rows: int, seed: int) -> pl.DataFrame:
    """Rows of the orders table: order, user, product, num and a text."""
    rng = np.random.default_rng(seed)
    order = rng.integers(0, max(1, rows * 9 // 10), rows)
    return pl.DataFrame(
        {
            "c0": order,
            "c1": rng.integers(0, 100_000, rows),
            "c2": rng.integers(0, 1000, rows),
            "c3": rng.integers(1, 100, rows).astype(np.int32),
        }
    ).with_columns(pl.format("city{}", "c2").alias("c4"))


def polars_filter(frame: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("c3") > 50).select("c0", "c1", "c2", pl.col("c3") * 2)


def polars_dedup(frame: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
    first = frame.unique("c0", keep="first", maintain_order=True)
    return first.join(state.select("c0"), on="c0", how="anti", maintain_order="left")


def polars_aggregate(frame: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
    return frame.group_by("c2").agg(pl.len(), pl.col("c3").sum(), pl.col("c1").n_unique())


def polars_join(frame: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
    return frame.join(state, on="c0", how="inner")


FILTER = "SELECT c0, c1, c2, c3 * 2 FROM frame WHERE c3 > 50"
DEDUP = """SELECT * EXCLUDE (i, n) FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY c0 ORDER BY i) AS n FROM (SELECT *, ROW_NUMBER() OVER () AS i FROM frame)
  ) WHERE n = 1 AND c0 NOT IN (SELECT c0 FROM state) ORDER BY i"""
DEDUP_FIRST = """SELECT f.* FROM (
    SELECT c0, FIRST(c1) c1, FIRST(c2) c2, FIRST(c3) c3, FIRST(c4) c4 FROM frame GROUP BY c0) f
  ANTI JOIN state USING (c0)"""
AGGREGATE = "SELECT c2, COUNT(*), SUM(c3), COUNT(DISTINCT c1) FROM frame GROUP BY c2"
JOIN = "SELECT * FROM frame JOIN state USING (c0)"


def duck(sql: str) -> Step:
    """The statement over the two frames, result as a Polars frame."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")

    def run(frame: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
        result: pl.DataFrame = connection.sql(sql).pl()
        return result

    return run


def cost(step: Step, frame: pl.DataFrame, state: pl.DataFrame, calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        step(frame, state)
    return (time.process_time() - started) / calls


def main() -> None:
    steps: list[tuple[str, Step, Step]] = [
        ("filter and project", polars_filter, duck(FILTER)),
        ("keep-first, input order kept", polars_dedup, duck(DEDUP)),
        ("keep-first, any order", polars_dedup, duck(DEDUP_FIRST)),
        ("group aggregate with DISTINCT", polars_aggregate, duck(AGGREGATE)),
        ("join with state", polars_join, duck(JOIN)),
    ]
    print(f"{'step':32} {'rows':>8} {'Polars ms':>10} {'DuckDB ms':>10} {'DuckDB / Polars':>16}")
    for rows, calls in ((10, 50), (15_000, 20), (250_000, 5)):
        frame, state = orders(rows, 1), orders(rows, 2).unique("c0")
        for name, ours, theirs in steps:
            ours(frame, state), theirs(frame, state)
            pairs = [(cost(ours, frame, state, calls), cost(theirs, frame, state, calls)) for _ in range(5)]
            a, b = (statistics.median(p[i] for p in pairs) * 1000 for i in (0, 1))
            print(f"{name:32} {rows:8} {a:10.2f} {b:10.2f} {b / a:16.1f}")


if __name__ == "__main__":
    main()
