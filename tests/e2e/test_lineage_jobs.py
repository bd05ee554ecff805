"""OpenLineage events of jobs on real Spark: running, killed, started again and stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from tests.session.lineage_server import LineageServer, lineage_server, options_for, validate
from tests.support.waiting import until

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parent.parent.parent

JOB = """
import json, sys
from stateplan.session.environment import TableEnvironment
env = TableEnvironment.create(json.loads(sys.argv[1]))
for statement in json.loads(sys.argv[2]):
    result = env.execute_sql(statement)
result.wait()
"""


def rows_of(events: list[dict[str, Any]], side: str, facet: str) -> list[int]:
    """The rows of the first dataset of each event that has some."""
    datasets = [event[side][0] for event in events]
    counts = [d.get(f"{side[:-1]}Facets", {}).get(facet, {}).get("rowCount", 0) for d in datasets]
    return [count for count in counts if count]


def has_rows(server: LineageServer, count: int) -> bool:
    return sum(rows_of(server.events, "outputs", "outputStatistics")) >= count


def test_a_job_that_was_killed_is_another_run_of_the_same_job(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k":1}\n{"k":2}\n{"k":2}\n')
    source = f"'connector' = 'filesystem', 'path' = '{tmp_path / 'in'}', 'format' = 'json'"
    target = tmp_path / "out"
    sql = [
        f"CREATE TABLE t (k INT) WITH ({source}, 'source.monitor-interval' = '200 ms')",
        f"CREATE TABLE copies (k INT) WITH ('connector' = 'filesystem', 'path' = '{target}', 'format' = 'json')",
        "INSERT INTO copies SELECT k FROM t",
    ]
    with lineage_server() as server:
        options = {
            **options_for(server.url),
            "lineage.openlineage.interval": "300 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoint"),
            "parallelism.default": "1",
        }
        job = subprocess.Popen([sys.executable, "-c", JOB, json.dumps(options), json.dumps(sql)], cwd=ROOT)
        try:
            until(lambda: has_rows(server, 3), 120, "no rows")
        finally:
            job.send_signal(signal.SIGKILL)
            job.wait()
        first = list(server.events)
        assert [e["eventType"] for e in first] == ["START", *["RUNNING"] * (len(first) - 1)]
        assert sum(rows_of(first, "inputs", "inputStatistics")) == 3
        server.events.clear()

        (tmp_path / "in" / "b.json").write_text('{"k":3}\n')
        env = TableEnvironment.create(options, jobs=Jobs())
        for statement in sql:
            result = env.execute_sql(statement)
        until(lambda: has_rows(server, 1), 120, "no rows after the restart")
        assert result.job is not None
        result.job.stop()
        until(lambda: server.states()[-1:] == ["ABORT"], 20, "no last event")
    second = server.events
    for event in (*first, *second):
        validate(event)
    runs = [{e["run"]["runId"] for e in events} for events in (first, second)]
    assert [len(run) for run in runs] == [1, 1] and runs[0] != runs[1]
    assert len({e["job"]["name"] for e in (*first, *second)}) == 1
    before, after = (events[-1]["run"]["facets"]["stateplan_checkpoint"] for events in (first, second))
    assert "continuesAfterBatch" not in before
    assert after["jobId"] == before["jobId"]
    assert after["checkpoint"] == str(tmp_path / "checkpoint")
    assert after["continuesAfterBatch"] >= 0
    assert second[-1]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert sum(rows_of(second, "outputs", "outputStatistics")) == 1
