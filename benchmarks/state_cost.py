"""What a micro-batch costs as state grows: 50,000 rows on little and on much state.

    python -m benchmarks.state_cost [--keys 5000000] [--small 50000] [--batches 12]

Loads the live keys, then sends micro-batches of 50,000 rows, half of them for live keys and half new ones, through a
keep-first deduplication and through a group aggregate. Prints the median seconds of such a micro-batch with little and
with much state, their ratio, the bytes committed, and the bytes per live key.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

ROWS = 50_000
QUERIES = {
    "dedup": """INSERT INTO snk SELECT k, v FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt ASC) AS n FROM src) WHERE n = 1""",
    "aggregate": "INSERT INTO snk SELECT k, SUM(v) FROM src GROUP BY k",
}


def write_input(folder: Path, keys: int, batches: int) -> int:
    """Parquet files in order: the live keys, some 500,000 rows each, then the micro-batches. Returns how many files
    the live keys fill."""
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True)
    order = rng.permutation(keys)
    parts = max(1, keys // 500_000)
    frames = list(np.array_split(order, parts))
    for n in range(batches):
        fresh = keys + n * ROWS // 2 + np.arange(ROWS // 2)
        frames.append(rng.permutation(np.concatenate([rng.choice(keys, ROWS - len(fresh), replace=False), fresh])))
    for n, values in enumerate(frames):
        path = folder / f"part-{n:04d}.parquet"
        pl.DataFrame({"k": values, "v": np.ones(len(values), np.int64)}).write_parquet(path)
        os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))
    return parts


def measure(query: str, keys: int, batches: int, work: Path) -> dict[str, float]:
    """Medians over the micro-batches after the load."""
    from stateplan.execnodes.runtime.job import Progress
    from stateplan.planner.session.environment import TableEnvironment

    data = work / f"input-{keys}"
    first = write_input(data, keys, batches) if not data.exists() else max(1, keys // 500_000)
    environment = TableEnvironment.create()
    environment.execute_sql(f"""CREATE TABLE src (k BIGINT, v BIGINT, pt AS PROCTIME()) WITH (
        'connector'='filesystem', 'path'='{data}', 'format'='parquet', 'source.max-files-per-trigger'='1')""")
    environment.execute_sql("CREATE TABLE snk (k BIGINT, v BIGINT) WITH ('connector'='blackhole')")
    environment.execute_sql("SET 'table.exec.state.ttl' = '1 d'")
    seen: dict[int, tuple[float, float, float, float]] = {}

    def note(progress: Progress) -> None:
        figures = list(progress.operators.values())
        written, size, rows = (
            sum(f.get(name, 0) for f in figures) for name in ("state_bytes_written", "state_bytes", "state_rows")
        )
        seen.setdefault(progress.batch, (progress.batch_seconds, written, size, rows))

    environment.on_progress = note
    environment.execute_sql(QUERIES[query]).wait()
    steady = [n for n in sorted(seen) if n > first]
    return {
        "seconds": statistics.median(seen[n][0] for n in steady),
        "slowest": max(seen[n][0] for n in steady),
        "bytes": statistics.median(seen[n][1] - seen[n - 1][1] for n in steady if n - 1 in seen),
        "per_key": seen[max(seen)][2] / (keys + batches * ROWS // 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--small", type=int, default=50_000)
    parser.add_argument("--batches", type=int, default=12)
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="stateplan-cost-"))
    try:
        measure("dedup", args.small, 4, work / "warm-up")
        print(
            f"{'query':10} {'live keys':>10} {'median s':>9} {'slowest s':>10} {'committed bytes':>16} "
            f"{'bytes/key':>10}"
        )
        for query in QUERIES:
            results = {}
            for keys in (args.small, args.keys):
                results[keys] = r = measure(query, keys, args.batches, work)
                print(
                    f"{query:10} {keys:10} {r['seconds']:9.2f} {r['slowest']:10.2f} {r['bytes']:16,.0f} "
                    f"{r['per_key']:10.1f}"
                )
            ratio = results[args.keys]["seconds"] / results[args.small]["seconds"]
            print(
                f"{query:10} a micro-batch of {ROWS} rows takes {ratio:.2f} times what it takes with "
                f"{args.small} live keys"
            )
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
