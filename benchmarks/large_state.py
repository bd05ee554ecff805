"""State much larger than the workers' memory: micro-batch time over the size of the state.

    python -m benchmarks.large_state [--keys 20000000] [--batch 200000] [--cap 1024] [--query dedup|aggregate]
        [--svg docs/state/state-size.svg]

Sends micro-batches of new keys, and a fourth as many rows of known ones, through a keep-first deduplication or a group
aggregate, until all keys are in its state. No Python process can get more than half of the cap of private address space
(``ulimit -d``: what is mapped from files does not count), and the private memory that all of them together have in use
is sampled: above the cap, the benchmark fails. Prints per tenth of the run how long a micro-batch took, and draws every
micro-batch.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import psutil

from benchmarks.harness import Sampler, cpu_seconds, process_tree, run, session, work_folder, write_files
from stateplan.plans.render.chart import Panel, numbers, to_svg

QUERIES = {
    "dedup": """INSERT INTO snk SELECT k, v FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt ASC) AS n FROM src) WHERE n = 1""",
    "aggregate": "INSERT INTO snk SELECT k, SUM(v) FROM src GROUP BY k",
}
REPEATS = 4
"""One row in so many more is of a key that is known."""


@dataclass
class Sample:
    """What the Python processes of a run held at a time.

    Attributes:
        anonymous: bytes of private memory, all of them together.
        largest: those of the largest one.
        mapped: bytes resident of files, all together.
        processes: their number.
        cpu: seconds of processor time that every process of the run has taken, by its id.
    """

    time: float
    anonymous: int
    largest: int
    mapped: int
    processes: int
    cpu: dict[int, float]


class Held(Sampler):
    """Samples of the Python processes below this one, and of the processor time of all of them."""

    def __init__(self) -> None:
        super().__init__(0.25)
        self.samples: list[Sample] = []

    def sample(self) -> None:
        sizes: list[tuple[int, int]] = []
        for process in process_tree(os.getpid())[1:]:
            with contextlib.suppress(psutil.Error):
                if "python" in process.exe():
                    memory = process.memory_info()
                    sizes.append((memory.rss - memory.shared, memory.shared))
        private, mapped = [size for size, _ in sizes], sum(size for _, size in sizes)
        largest, cpu = max(private, default=0), cpu_seconds(os.getpid())
        self.samples.append(Sample(time.time(), sum(private), largest, mapped, len(sizes), cpu))

    def cpu_at(self, times: list[float]) -> list[float]:
        """Processor seconds of all processes together up to the given times."""
        taken: dict[int, float] = {}
        totals = []
        for found in self.samples:
            taken.update(found.cpu)
            totals.append(sum(taken.values()))
        return list(np.interp(times, [found.time for found in self.samples], totals))


def inputs(keys: int, batch: int) -> Iterator[pl.DataFrame]:
    """``batch`` new keys each, in order, and rows of known ones between them."""
    rng = np.random.default_rng(7)
    for first in range(0, keys, batch):
        fresh = np.arange(first, min(keys, first + batch))
        known = rng.integers(0, max(1, first), batch // REPEATS)
        values = rng.permutation(np.concatenate([fresh, known]))
        yield pl.DataFrame({"k": values, "v": np.arange(len(values))})


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


def batches_of(query_name: str, data: Path, checkpoint: Path) -> list[Batch]:
    """Runs a query over the input."""
    options = {"execution.checkpointing.dir": str(checkpoint)}
    environment = session(data, "k BIGINT, v BIGINT", "k BIGINT, v BIGINT", options)
    job = environment.execute_sql(QUERIES[query_name]).job
    assert job is not None
    job.wait()
    return [
        Batch(
            record.started / 1000,
            record.spark.get("triggerExecution", record.ms) / 1000,
            sum(sum(size.rows) for size in record.state.values()),
            sum(sum(size.bytes) for size in record.state.values()),
        )
        for record in job.metrics
    ]


def plot(batches: list[Batch], title: str) -> str:
    """Seconds of each micro-batch over the rows in the state, as SVG."""
    each = [(b.rows, b.seconds) for b in batches[1:]]
    medians = [(statistics.mean(b.rows for b in t), statistics.median(b.seconds for b in t)) for t in split(batches)]
    lines = [("each micro-batch", each), ("medians of tenths of the run", medians)]
    axis = numbers(0, int(max(rows for rows, _ in each)), "rows in state")
    return to_svg(title, "seconds", [Panel("seconds", lines, "{:.1f}".format)], axis)


def split(batches: list[Batch]) -> list[list[Batch]]:
    """Tenths of a run, without its first micro-batch, which starts the workers."""
    rest = batches[1:]
    cuts = [len(rest) * n // 10 for n in range(11)]
    return [rest[a:b] for a, b in pairwise(cuts) if b > a]


def main(
    keys: int = 20_000_000, batch: int = 200_000, cap: int = 1024, query: str = "dedup", svg: Path | None = None
) -> None:
    with work_folder("large") as work:
        folder = Path(work)
        os.environ["PYSPARK_PYTHON"] = str(capped_python(folder, cap // 2))
        files = write_files(folder / "input", inputs(keys, batch))
        started = time.time()
        with Held() as held:
            batches = batches_of(query, folder / "input", folder / "checkpoint")
        took = time.time() - started
        stored = sum(f.stat().st_size for f in (folder / "checkpoint").rglob("*") if f.is_file())
    peak = max(held.samples, key=lambda s: s.anonymous)
    print(f"{keys:,} keys in {files} micro-batches of {batch * (REPEATS + 1) // REPEATS:,} rows: {took:.0f} s")
    print()
    print("| rows in state | state, MiB | micro-batch, median s | slowest s | processor time of one, mean s |")
    print("|--:|--:|--:|--:|--:|")
    tenths, cpu = split(batches), []
    for tenth in tenths:
        seconds = [b.seconds for b in tenth]
        first, last = held.cpu_at([tenth[0].began, tenth[-1].began + tenth[-1].seconds])
        cpu.append((last - first) / len(tenth))
        size = f"{tenth[-1].rows:,.0f} | {tenth[-1].state_bytes / 2**20:,.0f}"
        print(f"| {size} | {statistics.median(seconds):.2f} | {max(seconds):.2f} | {cpu[-1]:.2f} |")
    print()
    ratio = statistics.median(b.seconds for b in tenths[-1]) / statistics.median(b.seconds for b in tenths[0])
    print(f"last tenth to first tenth: {ratio:.2f}, by processor time {cpu[-1] / cpu[0]:.2f}")
    print(
        f"private memory of {peak.processes} Python processes: at most {peak.anonymous / 2**20:,.0f} MiB together, "
        f"{max(s.largest for s in held.samples) / 2**20:,.0f} MiB in one; cap {cap} MiB together"
    )
    print(f"mapped from files: at most {max(s.mapped for s in held.samples) / 2**20:,.0f} MiB")
    print(f"checkpoint: {stored / 2**20:,.0f} MiB")
    if svg:
        svg.write_text(plot(batches, f"Micro-batch time over the size of state, {cap} MiB for the workers"))
    if peak.anonymous > cap << 20:
        raise SystemExit("the workers held more than the cap")


if __name__ == "__main__":
    run(main, __doc__)
