"""How long a job stands still when a shadow begins, and at COMMIT or ROLLBACK.

    python -m benchmarks.shadow [--keys 200000] [--rows 20000] [--rounds 3] [--parallelism 2]

A job joins and counts rows that arrive in files, four each second, so that it is always busy. Again and again a
changed plan runs as its shadow for some micro-batches, and then takes its place, or goes. Prints how long it takes from
the end of a micro-batch to the end of the next one, and for each statement the time from the end of the last
micro-batch before to the end of the first one after.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from itertools import count, pairwise
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import polars as pl
import typer

from benchmarks.harness import run, work_folder
from stateplan.runtime.job import Job
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

TABLES = (
    "CREATE TABLE arriving (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{0}', "
    "'format' = 'parquet', 'source.monitor-interval' = '200 ms')",
    "CREATE TABLE counts (k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole')",
    "CREATE TABLE pairs (k BIGINT, v BIGINT, n BIGINT) WITH ("
    "'connector' = 'filesystem', 'path' = '{0}-pairs', 'format' = 'debezium-json')",
)
COUNTS = "INSERT INTO counts SELECT k, COUNT(*), SUM(v) FROM arriving{where} GROUP BY k"
PAIRS = (
    "INSERT INTO pairs SELECT a.k, a.v, b.n FROM arriving AS a JOIN "
    "(SELECT k, COUNT(*) AS n FROM arriving GROUP BY k) AS b ON a.k = b.k WHERE a.v > 990"
)


def write(folder: Path, rows: int, keys: int, number: int) -> None:
    """One file of input."""
    dice = np.random.default_rng(number)
    frame = pl.DataFrame({"k": dice.integers(0, keys, rows), "v": dice.integers(0, 1000, rows)})
    frame.write_parquet(folder / f".{number:06d}")
    (folder / f".{number:06d}").rename(folder / f"{number:06d}.parquet")


def main(
    keys: Annotated[int, typer.Option(help="distinct keys")] = 200_000,
    rows: Annotated[int, typer.Option(help="rows of a file")] = 20_000,
    rounds: Annotated[int, typer.Option(help="shadows")] = 3,
    parallelism: Annotated[int, typer.Option(help="tasks")] = 2,
) -> None:
    with work_folder("shadow") as name:
        folder, jobs, over = Path(name), Jobs(), threading.Event()
        (folder / "in").mkdir()
        options = {"parallelism.default": str(parallelism), "execution.checkpointing.dir": str(folder / "ck")}
        env = TableEnvironment.create(options, jobs=jobs)
        for statement in TABLES:
            env.execute_sql(statement.format(folder / "in"))
        write(folder / "in", 2 * keys, keys, 0)

        def arrive() -> None:
            for number in count(1):
                write(folder / "in", rows, keys, number)
                if over.wait(0.25):
                    return

        threading.Thread(target=arrive, daemon=True).start()
        wheres = ("", " WHERE v > 100")
        plans = [folder / f"plan-{number}.json" for number in range(2)]
        for plan, where in zip(plans, wheres, strict=True):
            inserts = f"{COUNTS.format(where=where)}; {PAIRS}"
            env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {inserts}; END").write_to_file(plan)
        job = env.execute_sql(f"EXECUTE PLAN '{plans[0]}'").job
        assert job is not None
        name_of_job, current = job.job_id, 0
        try:
            print(f"the plan alone: a micro-batch each {interval(jobs, name_of_job):,.0f} ms")
            for number in range(rounds):
                end = "ROLLBACK" if number % 2 else "COMMIT"
                shadow = f"USING PLAN '{plans[1 - current]}' WITH ('shadow' = 'true')"
                for what, statement in (("shadow", shadow), (end, end)):
                    result = env.execute_sql(f"ALTER JOB '{name_of_job}' {statement}")
                    ((name_of_job, _),) = [tuple(row) for row in result.collect()]
                    ms = downtime(jobs, name_of_job, result.notes)
                    typical = interval(jobs, name_of_job)
                    print(f"{what:8}  {ms:,.0f} ms, {ms / typical:.1f} micro-batches of {typical:,.0f} ms", flush=True)
                current = current if end == "ROLLBACK" else 1 - current
        finally:
            over.set()
            running(jobs, name_of_job).stop()


def downtime(jobs: Jobs, job_id: str, notes: Iterable[str]) -> float:
    """From the end of the last micro-batch before ALTER JOB to the end of the first one after, ms."""
    for note in notes:
        if match := re.match(r"switched in ([\d.]+) s", note):
            return 1000 * float(match[1])
        if match := re.search(r"from micro-batch (\d+) on", note):
            first = int(match[1])
            ends = {}
            while first not in ends:
                ends = {record.batch: record.started + record.ms for record in running(jobs, job_id).metrics}
                time.sleep(0.05)
            return ends[first] - ends[first - 1]
    raise AssertionError(f"no word about the switch: {notes}")


def interval(jobs: Jobs, job_id: str) -> float:
    """From the end of a micro-batch of a job to the end of the next one, ms, when it has run some."""
    first = len(running(jobs, job_id).metrics)
    while len(records := running(jobs, job_id).metrics) < first + 8:
        time.sleep(0.2)
    return median(after.started + after.ms - before.started - before.ms for before, after in pairwise(records[first:]))


def running(jobs: Jobs, job_id: str) -> Job:
    job = jobs.find(job_id).job
    assert job is not None, "the job has ended"
    return job


if __name__ == "__main__":
    run(main, __doc__)
