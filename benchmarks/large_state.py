"""State much larger than the workers' memory: micro-batch time over the size of the state.

    python -m benchmarks.large_state [--keys 20000000] [--batch 200000] [--cap 1024] [--svg docs/state-size.svg]

Sends micro-batches of new keys, and a fourth as many rows of known ones, through a keep-first deduplication, until all
keys are in its state. No Python process can get more than half of the cap of private address space (``ulimit -d``: what
is mapped from files does not count), and the private memory that all of them together have in use is sampled: above the
cap, the benchmark fails. Prints per tenth of the run how long a micro-batch took, and draws every micro-batch.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import psutil

from benchmarks.memory import cpu_seconds, process_tree

QUERY = """INSERT INTO snk SELECT k, v FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt ASC) AS n FROM src) WHERE n = 1"""
REPEATS = 4
"""One row in so many more is of a key that is known."""


@dataclass
class Sample:
    """What the Python processes of a run held.

    Attributes:
        anonymous: bytes of private memory, all of them together.
        largest: those of the largest one.
        mapped: bytes resident of files, all together.
        processes: their number.
        cpu: seconds of processor time that every process of the run has taken, by its id.
    """

    anonymous: int
    largest: int
    mapped: int
    processes: int
    cpu: dict[int, float]


def sample(root: int) -> Sample:
    """The Python processes below ``root``, without itself; and the processor time of all of them."""
    sizes: list[tuple[int, int]] = []
    for process in process_tree(root)[1:]:
        with contextlib.suppress(psutil.Error):
            if "python" in process.exe():
                memory = process.memory_info()
                sizes.append((memory.rss - memory.shared, memory.shared))
    largest = max((anonymous for anonymous, _ in sizes), default=0)
    return Sample(sum(a for a, _ in sizes), largest, sum(f for _, f in sizes), len(sizes), cpu_seconds(root))


class Sampler:
    """Samples while it is used as a context."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, Sample]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            self.samples.append((time.time(), sample(os.getpid())))

    def cpu_at(self, times: list[float]) -> list[float]:
        """Processor seconds of all processes together up to the given times."""
        taken: dict[int, float] = {}
        at, total = [], []
        for when, found in self.samples:
            taken.update(found.cpu)
            at.append(when)
            total.append(sum(taken.values()))
        return list(np.interp(times, at, total))

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def write_input(folder: Path, keys: int, batch: int) -> int:
    """Files of ``batch`` new keys each, in order, and rows of known ones between them; how many files."""
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True)
    files = -(-keys // batch)
    for n in range(files):
        fresh = np.arange(n * batch, min(keys, (n + 1) * batch))
        known = rng.integers(0, max(1, n * batch), batch // REPEATS)
        values = rng.permutation(np.concatenate([fresh, known]))
        path = folder / f"part-{n:05d}.parquet"
        pl.DataFrame({"k": values, "v": np.arange(len(values))}).write_parquet(path)
        os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))
    return files


def capped_python(folder: Path, mebibytes: int) -> Path:
    """A Python whose processes may each have so much private memory."""
    path = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    program = folder / "python"
    program.write_text(
        f"#!/bin/sh\nulimit -d {mebibytes << 10}\n"
        f'PYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} "$@"\n'
    )
    program.chmod(0o755)
    return program


@dataclass
class Batch:
    """A micro-batch: when it began, seconds in all, and what the state held after it."""

    began: float
    seconds: float
    rows: float
    state_bytes: float


def run(data: Path, checkpoint: Path) -> list[Batch]:
    """Runs the query over the input."""
    from pyspark.sql import SparkSession

    from stateplan.execnodes.runtime.job import Progress
    from stateplan.planner.session.environment import TableEnvironment

    environment = TableEnvironment.create()
    environment.execute_sql(f"""CREATE TABLE src (k BIGINT, v BIGINT, pt AS PROCTIME()) WITH (
        'connector'='filesystem', 'path'='{data}', 'format'='parquet', 'source.max-files-per-trigger'='1')""")
    environment.execute_sql("CREATE TABLE snk (k BIGINT, v BIGINT) WITH ('connector'='blackhole')")
    environment.execute_sql("SET 'table.exec.state.ttl' = '1 d'")
    environment.execute_sql(f"SET 'execution.checkpointing.dir' = '{checkpoint}'")
    seconds: dict[int, tuple[float, float]] = {}
    sizes: dict[int, tuple[float, float]] = {}
    query = None

    def note(progress: Progress) -> None:
        nonlocal query
        figures = list(progress.operators.values())
        sizes[progress.batch] = (
            sum(f.get("state_rows", 0) for f in figures),
            sum(f.get("state_bytes", 0) for f in figures),
        )
        spark = SparkSession.getActiveSession()
        if query is None and spark is not None:
            query = next(iter(spark.streams.active), None)
        if query is not None:
            for p in query.recentProgress:
                began = datetime.fromisoformat(p.timestamp).timestamp()
                seconds[p.batchId] = began, p.durationMs.get("triggerExecution", 0) / 1000

    environment.on_progress = note
    environment.execute_sql(QUERY).wait()
    known = sorted(sizes)
    out = []
    for n in sorted(seconds):
        at = max((k for k in known if k <= n), default=known[0])
        out.append(Batch(*seconds[n], *sizes[at]))
    return out


def plot(batches: list[Batch], title: str) -> str:
    """Seconds of each micro-batch over the rows in the state, as SVG."""
    width, height, left, top, right, bottom = 760, 320, 56, 34, 16, 44
    most = max(b.rows for b in batches) / 1e6
    slowest = max(b.seconds for b in batches[1:]) * 1.1
    ceiling = next(step * 10.0**e for e in range(-1, 4) for step in (1, 2, 5) if step * 10.0**e >= slowest)

    def x(rows: float) -> float:
        return left + (width - left - right) * rows / 1e6 / most

    def y(seconds: float) -> float:
        return top + (height - top - bottom) * (1 - min(seconds, ceiling) / ceiling)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{title}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="20" font-size="14">{title}</text>',
    ]
    for n in range(5):
        value = ceiling * n / 4
        out.append(f'<path d="M{left} {y(value):.1f}H{width - right}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#555">{value:g} s</text>')
    for n in range(5):
        value = most * n / 4
        out.append(
            f'<text x="{x(value * 1e6):.1f}" y="{height - bottom + 18}" text-anchor="middle" fill="#555">'
            f"{value:.0f} M rows in state</text>"
        )
    for batch in batches[1:]:
        out.append(f'<circle cx="{x(batch.rows):.1f}" cy="{y(batch.seconds):.1f}" r="2.2" fill="#3465a4"/>')
    tenths = split(batches)
    points = [(statistics.mean(b.rows for b in t), statistics.median(b.seconds for b in t)) for t in tenths]
    line = "L".join(f"{x(rows):.1f} {y(seconds):.1f}" for rows, seconds in points)
    out.append(f'<path d="M{line}" fill="none" stroke="#cc4400" stroke-width="1.5"/>')
    out.append(
        f'<text x="{width - right}" y="{height - 8}" text-anchor="end" fill="#555">each micro-batch, and the medians '
        "of tenths of the run</text></svg>"
    )
    return "\n".join(out) + "\n"


def split(batches: list[Batch]) -> list[list[Batch]]:
    """Tenths of a run, without its first micro-batch, which starts the workers."""
    rest = batches[1:]
    cuts = [len(rest) * n // 10 for n in range(11)]
    return [rest[a:b] for a, b in pairwise(cuts) if b > a]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    parser.add_argument("--cap", type=int, default=1024, help="MiB of private memory for all workers together")
    parser.add_argument("--svg", type=Path)
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="stateplan-large-"))
    try:
        os.environ["PYSPARK_PYTHON"] = str(capped_python(work, args.cap // 2))
        files = write_input(work / "input", args.keys, args.batch)
        started = time.time()
        with Sampler() as sampler:
            batches = run(work / "input", work / "checkpoint")
        took = time.time() - started
        stored = sum(f.stat().st_size for f in (work / "checkpoint").rglob("*") if f.is_file())
    finally:
        shutil.rmtree(work, ignore_errors=True)
    peak = max((s for _, s in sampler.samples), key=lambda s: s.anonymous)
    print(
        f"{args.keys:,} keys in {files} micro-batches of {args.batch * (REPEATS + 1) // REPEATS:,} rows: {took:.0f} s"
    )
    print()
    print("| rows in state | state, MiB | micro-batch, median s | slowest s | processor time of one, mean s |")
    print("|--:|--:|--:|--:|--:|")
    tenths, cpu = split(batches), []
    for tenth in tenths:
        seconds = [b.seconds for b in tenth]
        first, last = sampler.cpu_at([tenth[0].began, tenth[-1].began + tenth[-1].seconds])
        cpu.append((last - first) / len(tenth))
        size = f"{tenth[-1].rows:,.0f} | {tenth[-1].state_bytes / 2**20:,.0f}"
        print(f"| {size} | {statistics.median(seconds):.2f} | {max(seconds):.2f} | {cpu[-1]:.2f} |")
    print()
    ratio = statistics.median(b.seconds for b in tenths[-1]) / statistics.median(b.seconds for b in tenths[0])
    print(f"last tenth to first tenth: {ratio:.2f}, by processor time {cpu[-1] / cpu[0]:.2f}")
    print(
        f"private memory of {peak.processes} Python processes: at most {peak.anonymous / 2**20:,.0f} MiB together, "
        f"{max(s.largest for _, s in sampler.samples) / 2**20:,.0f} MiB in one; cap {args.cap} MiB together"
    )
    print(f"mapped from files: at most {max(s.mapped for _, s in sampler.samples) / 2**20:,.0f} MiB")
    print(f"checkpoint: {stored / 2**20:,.0f} MiB")
    if args.svg:
        args.svg.write_text(plot(batches, f"Micro-batch time over the size of state, {args.cap} MiB for the workers"))
    if peak.anonymous > args.cap << 20:
        raise SystemExit("the workers held more than the cap")


if __name__ == "__main__":
    main()
