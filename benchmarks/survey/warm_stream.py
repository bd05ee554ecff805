"""The streaming query of :mod:`.peers`, twice in one process: the second one begins in a warm Spark."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks.survey.peers import stream_of
from stateplan import TableEnvironment


def main(first: str, second: str) -> None:
    """Says when the second query begins, in seconds since 1970, and runs it until it is killed."""
    for folder in (first, second):
        print(f"BEGIN {time.time()}", flush=True)
        tables = TableEnvironment.create({"parallelism.default": "2", "table.exec.local.streams": "false"})
        for statement in stream_of(Path(folder)).split("----"):
            job = tables.execute_sql(statement).job
        assert job is not None
        while not job.progress.rows_out:
            time.sleep(0.005)
        if folder == second:
            job.wait()
        job.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
