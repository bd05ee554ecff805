"""What a micro-batch costs when almost nothing arrives: 10 rows through three stateful operators.

    python -m benchmarks.fixed_cost [--batches 30] [--rows 10] [--phases]

A keep-first deduplication, a group aggregate over it and a top-3 over that: three levels of state. Prints the median
milliseconds of a micro-batch after the first ones, and with ``--phases`` where Spark says that they go.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from benchmarks.harness import cpu_seconds, run, session, work_folder, write_files
from stateplan.runtime.streaming import SparkJob

QUERY = """INSERT INTO snk
SELECT g, n, k FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY n DESC) AS place FROM (
    SELECT k, k / 10 AS g, COUNT(*) AS n FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY pt ASC) AS nth FROM src) WHERE nth = 1
    GROUP BY k, k / 10)) WHERE place <= 3"""

WARM_UP = 5
"""Micro-batches that are not counted: workers start, classes load, code is compiled."""


def measure(batches: int, rows: int, options: dict[str, str], work: Path) -> tuple[list[dict[str, Any]], float]:
    """Spark's progress of each micro-batch that counts, and the processor time of one, in seconds."""
    each = np.arange(rows)
    frames = (pl.DataFrame({"id": n * rows + each, "k": (n + each) % 40}) for n in range(batches + WARM_UP))
    write_files(work / "input", frames, "json")
    options = {"spark.sql.streaming.numRecentProgressUpdates": "1000", **options}
    environment = session(work / "input", "id BIGINT, k BIGINT", "g BIGINT, n BIGINT, k BIGINT", options, "json")
    result = environment.execute_sql(QUERY)
    job = result.job
    assert isinstance(job, SparkJob)
    query = job._query  # noqa: SLF001 - Spark's own figures of each micro-batch
    used, ended, batch = 0.0, False, -1
    while not ended:
        batch = job.metrics[-1].batch if job.metrics else -1
        ended = batch >= batches + WARM_UP - 2 or not query.isActive
        if not used and batch >= WARM_UP:
            used, first = _used(), batch
        time.sleep(0.1)
    used = (_used() - used) / max(1, batch - first)
    result.wait()
    return [json.loads(p.json) if hasattr(p, "json") else p for p in query.recentProgress][WARM_UP:], used


def _used() -> float:
    return sum(cpu_seconds(os.getpid()).values())


def main(
    batches: int = 30,
    rows: int = 10,
    phases: bool = False,
    define: Annotated[list[str] | None, typer.Option("--define", "-D", metavar="KEY=VALUE")] = None,
) -> None:
    with work_folder("fixed") as work:
        seen, used = measure(batches, rows, dict(pair.split("=", 1) for pair in define or ()), Path(work))
    spent = [p["durationMs"] for p in seen]
    times = [p["triggerExecution"] for p in spent]
    print(
        f"{len(times)} micro-batches of {rows} rows: median {statistics.median(times):.0f} ms, "
        f"fastest {min(times)} ms, slowest {max(times)} ms; {used * 1000:.0f} ms of processor time"
    )
    if phases:
        for name in spent[0]:
            print(f"  {name:25} {statistics.median(p.get(name, 0) for p in spent):8.0f} ms")
        for n in range(len(seen[0]["stateOperators"])):
            own = [p["stateOperators"][n] for p in seen]
            for name in ("allUpdatesTimeMs", "commitTimeMs"):
                print(f"  level {n + 1} {name:17} {statistics.median(o[name] for o in own):8.0f} ms (of all tasks)")
            for name in sorted(own[0].get("customMetrics", {})):
                value = statistics.median(o["customMetrics"].get(name, 0) for o in own)
                if value:
                    print(f"      {name:45} {value:12,.0f}")


if __name__ == "__main__":
    run(main, __doc__)
