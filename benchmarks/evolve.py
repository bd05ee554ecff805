"""Time of a new checkpoint for a changed plan next to a rescale of the same state.

    python -m benchmarks.evolve [--keys 500000] [--query dedup|join] [--parallelism 2]

Fills the state of a last-row deduplication or of a join. Then the same checkpoint, on the same machine and in one
Spark, is rescaled to another parallelism and back, and a new checkpoint is made from it for a plan that carries its
state: twice each, in turns. Prints the seconds and the ratio of the fastest ones.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.harness import run, session, work_folder, write_files
from stateplan.session.compiled_plan import CompiledPlan
from stateplan.session.environment import TableEnvironment

BATCH = 250_000
"""Rows of a micro-batch."""

QUERIES = {
    "dedup": """SELECT k, v FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt DESC) AS n FROM src) WHERE n = 1""",
    "join": "SELECT a.k, b.v FROM src AS a JOIN src AS b ON a.k = b.k AND a.v > b.v",
}


def rows(keys: int) -> Iterator[pl.DataFrame]:
    """All keys once, in random order."""
    order = np.random.default_rng(7).permutation(keys)
    for first in range(0, keys, BATCH):
        part = order[first : first + BATCH]
        yield pl.DataFrame({"k": part, "v": part * 3})


def environment(data: Path, checkpoint: Path, parallelism: int) -> TableEnvironment:
    options = {"execution.checkpointing.dir": str(checkpoint), "parallelism.default": str(parallelism)}
    return session(data, "k BIGINT, v BIGINT", "k BIGINT, v BIGINT", {**options, "table.exec.state.ttl": "0 ms"})


def plan(env: TableEnvironment, query: str, where: str = "") -> CompiledPlan:
    return env.compile_plan_sql(f"INSERT INTO snk {QUERIES[query]}{where}")


def rescaled(data: Path, checkpoint: Path, query: str, parallelism: int) -> float:
    """Seconds that the micro-batch takes that repartitions the state."""
    began = time.monotonic()
    plan(environment(data, checkpoint, parallelism), query).execute().wait()
    return time.monotonic() - began


def evolved(data: Path, checkpoint: Path, target: Path, query: str, parallelism: int) -> float:
    """Seconds that a new checkpoint takes, for a plan that drops some results."""
    shutil.rmtree(target, ignore_errors=True)
    env = environment(data, target, parallelism)
    changed = env.compile_plan_sql(f"INSERT INTO snk SELECT k, v FROM ({QUERIES[query]}) WHERE v > 5")
    return changed.evolve(checkpoint)[0].seconds


def main(keys: int = 500_000, query: str = "dedup", parallelism: int = 2, rounds: int = 2) -> None:
    with work_folder("evolve") as work:
        data, checkpoint, target = (Path(work) / name for name in ("input", "checkpoint", "target"))
        write_files(data, rows(keys))
        began = time.monotonic()
        plan(environment(data, checkpoint, parallelism), query).execute().wait()
        print(f"{keys:,} keys through {query}: {time.monotonic() - began:.1f} s", flush=True)
        seconds: dict[str, list[float]] = {"a start without input": [], "rescale": [], "evolve": []}
        current = parallelism
        for _ in range(rounds):
            seconds["a start without input"].append(rescaled(data, checkpoint, query, current))
            current = 3 * parallelism - current
            seconds["rescale"].append(rescaled(data, checkpoint, query, current))
            seconds["evolve"].append(evolved(data, checkpoint, target, query, current))
        for name, each in seconds.items():
            print(f"{name}: {', '.join(f'{s:.1f}' for s in each)} s", flush=True)
        facts = json.loads((target / "stateplan.json").read_text())
        assert facts["recovered"] == str(checkpoint)
        rescale = min(seconds["rescale"]) - min(seconds["a start without input"])
        print(f"evolve to rescale: {min(seconds['evolve']) / rescale:.2f}")


if __name__ == "__main__":
    run(main, __doc__)
