"""What a micro-batch costs when almost nothing arrives: 10 rows through three stateful operators.

    python -m benchmarks.fixed_cost [--batches 30] [--rows 10] [--phases]

A keep-first deduplication, a group aggregate over it and a top-3 over that: three levels of state. Prints the median
milliseconds of a micro-batch after the first ones, and with ``--phases`` where Spark says that they go.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.memory import cpu_seconds

QUERY = """INSERT INTO snk
SELECT g, n, k FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY n DESC) AS place FROM (
    SELECT k, k / 10 AS g, COUNT(*) AS n FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY pt ASC) AS nth FROM src) WHERE nth = 1
    GROUP BY k, k / 10)) WHERE place <= 3"""

WARM_UP = 5
"""Micro-batches that are not counted: workers start, classes load, code is compiled."""


def write_input(folder: Path, batches: int, rows: int) -> None:
    """One file for each micro-batch."""
    folder.mkdir(parents=True)
    for n in range(batches):
        path = folder / f"part-{n:04d}.json"
        path.write_text("".join(json.dumps({"id": n * rows + i, "k": (n + i) % 40}) + "\n" for i in range(rows)))
        os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))


def measure(batches: int, rows: int, options: dict[str, str]) -> tuple[list[dict[str, Any]], float]:
    """Spark's progress of each micro-batch that counts, and the processor time of one, in seconds."""
    from stateplan.planner.session.environment import TableEnvironment

    work = Path(tempfile.mkdtemp(prefix="stateplan-fixed-"))
    try:
        write_input(work / "input", batches + WARM_UP, rows)
        environment = TableEnvironment.create(
            {"spark.sql.streaming.numRecentProgressUpdates": "1000", "table.exec.state.ttl": "1 d", **options}
        )
        environment.execute_sql(f"""CREATE TABLE src (id BIGINT, k BIGINT, pt AS PROCTIME()) WITH (
            'connector'='filesystem', 'path'='{work / "input"}', 'format'='json',
            'source.max-files-per-trigger'='1')""")
        environment.execute_sql("CREATE TABLE snk (g BIGINT, n BIGINT, k BIGINT) WITH ('connector'='blackhole')")
        result = environment.execute_sql(QUERY)
        assert result.job is not None
        query, run = result.job._query, result.job._run  # noqa: SLF001 - Spark's own figures of each micro-batch
        used, ended = 0.0, False
        while not ended:
            ended = run.batch >= batches + WARM_UP - 2 or not query.isActive
            if not used and run.batch >= WARM_UP:
                used, first = _used(), run.batch
            time.sleep(0.1)
        used = (_used() - used) / max(1, run.batch - first)
        result.wait()
        return [json.loads(p.json) if hasattr(p, "json") else p for p in query.recentProgress][WARM_UP:], used
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _used() -> float:
    return sum(cpu_seconds(os.getpid()).values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--phases", action="store_true")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    seen, used = measure(args.batches, args.rows, dict(pair.split("=", 1) for pair in args.define))
    phases = [p["durationMs"] for p in seen]
    times = [p["triggerExecution"] for p in phases]
    print(
        f"{len(times)} micro-batches of {args.rows} rows: median {statistics.median(times):.0f} ms, "
        f"fastest {min(times)} ms, slowest {max(times)} ms; {used * 1000:.0f} ms of processor time"
    )
    if args.phases:
        for name in phases[0]:
            print(f"  {name:25} {statistics.median(p.get(name, 0) for p in phases):8.0f} ms")
        for n in range(len(seen[0]["stateOperators"])):
            own = [p["stateOperators"][n] for p in seen]
            for name in ("allUpdatesTimeMs", "commitTimeMs"):
                print(f"  level {n + 1} {name:17} {statistics.median(o[name] for o in own):8.0f} ms (of all tasks)")
            for name in sorted(own[0].get("customMetrics", {})):
                value = statistics.median(o["customMetrics"].get(name, 0) for o in own)
                if value:
                    print(f"      {name:45} {value:12,.0f}")


if __name__ == "__main__":
    main()
