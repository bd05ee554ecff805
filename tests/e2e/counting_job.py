"""A job that runs on and on: counts of counts of random keys, over two levels of state."""

from __future__ import annotations

from pathlib import Path

from stateplan.runtime.job import Job
from stateplan.session.environment import TableEnvironment


def start_counting(checkpoint: Path) -> Job:
    """Starts it, with a micro-batch every 100 ms."""
    environment = TableEnvironment.create(
        {
            "pipeline.max-parallelism": "2",
            "execution.checkpointing.dir": str(checkpoint),
            "execution.checkpointing.interval": "100 ms",
        }
    )
    environment.execute_sql(
        "CREATE TABLE src (k INT) WITH ('connector' = 'datagen', 'rows-per-second' = '20', "
        "'fields.k.min' = '1', 'fields.k.max' = '10000')"
    )
    environment.execute_sql("CREATE TABLE snk (n BIGINT, keys BIGINT) WITH ('connector' = 'blackhole')")
    inner = "SELECT k, COUNT(*) AS n FROM src GROUP BY k"
    job = environment.execute_sql(f"INSERT INTO snk SELECT n, COUNT(*) FROM ({inner}) GROUP BY n").get_job_client()
    assert job is not None
    return job
