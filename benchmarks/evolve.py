"""Time of a new checkpoint for a changed plan next to a rescale of the same state.

    python -m benchmarks.evolve [--keys 500000] [--query dedup|join|sums|double] [--parallelism 2] [--rounds 5]

Fills the state of a query. Then, in turns, in one Spark that has done both before, a job starts from this checkpoint

- with the same plan and parallelism, to know what a start alone takes;
- with another parallelism;
- with another plan, for which ``evolve`` makes a checkpoint first.

There is no input left, so a job ends once its state is ready. Prints the seconds and the processor time of each start,
and the ratios of the medians. The changed plans of ``dedup`` and ``join`` use the state as it is stored; that of
``sums`` has one aggregate fewer, so its state has other columns; that of ``double`` computes its sums from old ones.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from benchmarks.harness import cpu_seconds, run, session, work_folder, write_files
from stateplan.session.compiled_plan import CompiledPlan
from stateplan.session.environment import TableEnvironment

BATCH = 250_000
"""Rows of a micro-batch."""

_DEDUP = "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt DESC) AS n FROM src) WHERE n = 1"
_JOIN = "SELECT a.k, b.v FROM src AS a JOIN src AS b ON a.k = b.k AND a.v > b.v"
_SUM = "SELECT k, SUM(v) FROM src GROUP BY k"

QUERIES = {
    "dedup": (_DEDUP, f"SELECT k, v FROM ({_DEDUP}) WHERE v > 5"),
    "join": (_JOIN, f"SELECT k, v FROM ({_JOIN}) WHERE v > 5"),
    "sums": (f"SELECT k, s + n FROM ({_SUM.replace('SUM(v)', 'SUM(v) AS s, COUNT(v) AS n')})", _SUM),
    "double": (_SUM, _SUM.replace("SUM(v)", "SUM(v * 2)")),
}
"""A query and the changed one."""


def rows(keys: int, seed: int = 7) -> Iterator[pl.DataFrame]:
    """All keys once, in random order."""
    order = np.random.default_rng(seed).permutation(keys)
    for first in range(0, keys, BATCH):
        part = order[first : first + BATCH]
        yield pl.DataFrame({"k": part, "v": part * 3})


def environment(data: Path, checkpoint: Path, parallelism: int) -> TableEnvironment:
    options = {"execution.checkpointing.dir": str(checkpoint), "parallelism.default": str(parallelism)}
    return session(data, "k BIGINT, v BIGINT", "k BIGINT, v BIGINT", {**options, "table.exec.state.ttl": "0 ms"})


def plan(data: Path, checkpoint: Path, query: str, parallelism: int) -> CompiledPlan:
    return environment(data, checkpoint, parallelism).compile_plan_sql(f"INSERT INTO snk {query}")


class Starts:
    """Starts of jobs from one checkpoint.

    Args:
        work: a folder with the input and the checkpoint of the query.
        query: the key of :data:`QUERIES`.
        parallelism: of the checkpoint.
    """

    def __init__(self, work: Path, query: str, parallelism: int) -> None:
        self._data, self._checkpoint, self._target = (work / name for name in ("input", "checkpoint", "target"))
        self._query, self._changed = QUERIES[query]
        self._parallelism, self._other = parallelism, 2 * parallelism
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.processor: dict[str, list[float]] = defaultdict(list)

    def run(self) -> None:
        """Each way once."""
        self._count("start", self._start)
        self._parallelism, self._other = self._other, self._parallelism
        self._count("rescale", self._start)
        self._count("evolve", self._evolve)
        assert json.loads((self._target / "stateplan.json").read_text())["recovered"] == str(self._checkpoint)

    def _count(self, name: str, work: Callable[[], None]) -> None:
        shutil.rmtree(self._target, ignore_errors=True)
        began, before = time.monotonic(), sum(cpu_seconds(os.getpid()).values())
        work()
        self.seconds[name].append(time.monotonic() - began)
        self.processor[name].append(sum(cpu_seconds(os.getpid()).values()) - before)

    def _start(self) -> None:
        plan(self._data, self._checkpoint, self._query, self._parallelism).execute().wait()

    def _evolve(self) -> None:
        changed = plan(self._data, self._target, self._changed, self._parallelism)
        changed.evolve(self._checkpoint)
        changed.execute().wait()


def main(keys: int = 500_000, query: str = "dedup", parallelism: int = 2, rounds: int = 5) -> None:
    with work_folder("evolve") as work:
        folder = Path(work)
        write_files(folder / "input", rows(keys))
        began = time.monotonic()
        plan(folder / "input", folder / "checkpoint", QUERIES[query][0], parallelism).execute().wait()
        print(f"{keys:,} keys through {query}: {time.monotonic() - began:.1f} s", flush=True)
        starts = Starts(folder, query, parallelism)
        for _ in range(rounds + 1):
            starts.run()
        for title, figures in (("seconds", starts.seconds), ("processor time", starts.processor)):
            warm = {name: each[1:] for name, each in figures.items()}  # at first, Spark compiles what it runs
            for name, each in warm.items():
                print(f"{title} of {name}: {', '.join(f'{s:.1f}' for s in each)} s", flush=True)
            print(f"{title}, evolve to rescale: {median(warm['evolve']) / median(warm['rescale']):.2f}")


if __name__ == "__main__":
    run(main, __doc__)
