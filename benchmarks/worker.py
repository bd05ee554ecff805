"""A warm stateplan process: see :mod:`benchmarks.engines` for what goes in and out. It runs all jobs in Spark, or, with
``--without-spark``, none."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment

OPTIONS = {
    "parallelism.default": "2",
    "table.exec.state.ttl": "1 h",
    "table.local-time-zone": "UTC",
}
IN_SPARK = {"table.exec.local.max-input-size": "0"}


def run(statements: list[str], in_spark: bool) -> str:
    """Runs the statements; the last one is the job."""
    tables = TableEnvironment.create({**OPTIONS, **(IN_SPARK if in_spark else {})})
    for statement in statements[:-1]:
        tables.execute_sql(statement)
    started = time.perf_counter()
    result = tables.execute_sql(statements[-1])
    result.wait()
    wall = time.perf_counter() - started
    assert result.job is not None
    assert in_spark == (result.job.runs_in is not None), "the input is too large for a job without Spark"
    progress = result.job.progress
    return (
        f"RESULT {progress.seconds * 1000:.0f} {wall * 1000:.0f} {progress.batch + 1} "
        f"micro-batch{'es' if progress.batch else ''}, {progress.rows_out:,} rows out"
    )


def main() -> None:
    for line in sys.stdin:
        try:
            answer = run(Path(line.strip()).read_text().split("\n----\n"), "--without-spark" not in sys.argv)
        except (StateplanError, AssertionError) as error:
            answer = "FAILED " + str(error).replace("\n", " ")
        print(answer, flush=True)


if __name__ == "__main__":
    main()
