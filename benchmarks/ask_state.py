"""Questions about large state in SQL: how long a key, a count, a condition and an aggregate over all rows take.

    python -m benchmarks.ask_state [--keys 2000000] [--batch 200000] [--local-size '16 mb'] [--folder DIR]

Spark deduplicates micro-batches with ``--batch`` new keys each, and a fourth as many rows of known ones, until all keys
are in the state: keys of BIGINT with a text of about 20 characters. Then a new process opens a catalog over the
checkpoint, and asks. ``--folder`` keeps the checkpoint there, and uses the one that is there.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.harness import run, session, work_folder, write_files

JOB = """INSERT INTO snk SELECT k, v FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt DESC) AS n FROM src) WHERE n = 1"""
TABLE = "s.job.`deduplicate`"
QUESTIONS = {
    "a key": f"SELECT * FROM {TABLE} WHERE k = {{key}}",
    "another key": f"SELECT * FROM {TABLE} WHERE k = {{other}}",
    "a hundred keys": f"SELECT COUNT(*) AS n FROM {TABLE} WHERE k IN ({{hundred}})",
    "a count": f"SELECT COUNT(*) AS n FROM {TABLE}",
    "rows of key groups": f"SELECT key_group, COUNT(*) AS n FROM {TABLE} GROUP BY key_group",
    "a condition on a value": f"SELECT COUNT(*) AS n FROM {TABLE} WHERE v LIKE '%777%'",
    "ten rows": f"SELECT * FROM {TABLE} LIMIT 10",
}
REPEATS = 4


def inputs(keys: int, batch: int) -> Iterator[pl.DataFrame]:
    """``batch`` new keys each, and rows of known ones between them."""
    rng = np.random.default_rng(7)
    for first in range(0, keys, batch):
        fresh = np.arange(first, min(keys, first + batch))
        values = rng.permutation(np.concatenate([fresh, rng.integers(0, max(1, first), batch // REPEATS)]))
        yield pl.DataFrame({"k": values}).with_columns(pl.format("customer number {}", "k").alias("v"))


def make(folder: Path, keys: int, batch: int) -> float:
    """Runs the job; how many seconds it took."""
    write_files(folder / "input", inputs(keys, batch))
    began = time.monotonic()
    options = {"execution.checkpointing.dir": str(folder / "checkpoint")}
    session(folder / "input", "k BIGINT, v STRING", "k BIGINT, v STRING", options).execute_sql(JOB).wait()
    return time.monotonic() - began


def ask(checkpoint: Path, keys: int, local_size: str) -> None:
    """Asks all questions in this process, and prints the seconds as JSON."""
    began = time.monotonic()
    from stateplan.session.environment import TableEnvironment

    environment = TableEnvironment.create({"table.exec.local.max-input-size": local_size})
    environment.execute_sql(f"CREATE CATALOG s WITH ('type' = 'state', 'path' = '{checkpoint}')")
    seconds = {"start": (time.monotonic() - began, time.process_time())}
    values = {"key": keys // 3, "other": keys // 2, "hundred": ", ".join(str(keys // 101 * n) for n in range(100))}
    results = {}
    for name, question in QUESTIONS.items():
        began, cpu = time.monotonic(), time.process_time()
        rows = environment.sql_query(question.format(**values)).to_polars()
        seconds[name] = time.monotonic() - began, time.process_time() - cpu
        results[name] = rows.head(2).rows()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps({"seconds": seconds, "results": results, "peak": peak}, default=str))


def main(
    keys: int = 2_000_000,
    batch: int = 200_000,
    local_size: str = "16 mb",
    folder: Path | None = None,
    only_ask: bool = False,
) -> None:
    with work_folder("ask") if folder is None else nullcontext(str(folder)) as work:
        home = Path(work)
        if only_ask:
            ask(home / "checkpoint", keys, local_size)
            return
        if not (home / "checkpoint").exists():
            print(f"{keys:,} keys, {make(home, keys, batch):.0f} s for the job")
        files = [f for f in (home / "checkpoint" / "spark" / "state").rglob("*") if f.is_file()]
        print(f"state on disk: {sum(f.stat().st_size for f in files) / 2**20:,.0f} MiB in {len(files)} files")
        arguments = ["--folder", str(home), "--keys", str(keys), "--local-size", local_size, "--only-ask"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.ask_state", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr)
    report = json.loads(done.stdout.splitlines()[-1])
    print("\n| question | seconds | of processor time | first rows |\n|---|--:|--:|---|")
    for name, (seconds, cpu) in report["seconds"].items():
        print(f"| {name} | {seconds:.2f} | {cpu:.2f} | {report['results'].get(name, '')} |")
    print(f"\nat most {report['peak']:,} MiB resident")


if __name__ == "__main__":
    run(main, __doc__)
