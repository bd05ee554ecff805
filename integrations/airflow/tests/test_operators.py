"""The operators in Airflow's own harness, ``DAG.test``, against a real gateway. ``make airflow`` runs them.

The gateway is another process, in the environment of stateplan: that of ``STATEPLAN`` or ``.venv/bin/stateplan``.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
from airflow_provider_stateplan.gateway import Gateway
from airflow_provider_stateplan.operators import (
    StateplanEvolveOperator,
    StateplanSavepointOperator,
    StateplanSubmitOperator,
)

ROOT = Path(__file__).resolve().parents[3]
STATEPLAN = os.environ.get("STATEPLAN", str(ROOT / ".venv" / "bin" / "stateplan"))
TOKEN = "0123456789abcdef0123456789abcdef"


class Place:
    """A gateway, and the folder of its tables."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.gateway = Gateway(url, TOKEN)

    def tables(self, unbounded: bool = False) -> list[str]:
        (self.folder / "in").mkdir(exist_ok=True)
        (self.folder / "in" / "a.json").write_text('{"k": 1, "v": 2}\n{"k": 1, "v": 3}\n')
        more = ", 'source.monitor-interval' = '200 ms'" if unbounded else ""
        source = f"'connector' = 'filesystem', 'path' = '{self.folder}/in', 'format' = 'json'{more}"
        return [
            f"CREATE TABLE s (k INT, v INT) WITH ({source})",
            "CREATE TABLE t (k INT, n BIGINT) WITH ('connector' = 'blackhole');",
        ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("gateway")
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    command = [STATEPLAN, "gateway", "--port", "0", "--dir", str(folder / "own"), "--token-file", str(token)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    match = None
    while match is None:
        line = process.stdout.readline()
        assert line, "the gateway has ended"
        match = re.search(r"http://\S+", line)
    connection = {"conn_type": "stateplan", "host": match[0], "password": TOKEN}
    os.environ["AIRFLOW_CONN_STATEPLAN_DEFAULT"] = json.dumps(connection)
    try:
        yield Place(folder, match[0])
    finally:
        process.terminate()
        process.wait(60)


def run(name: str, operator: type, **arguments: Any) -> Any:
    """Runs one operator in a DAG; what it returns. Raises AssertionError where its task does not succeed. Airflow reads
    the DAG from a file in its folder."""
    file = Path(os.environ["AIRFLOW_HOME"]) / "dags" / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"from airflow.sdk import DAG\nfrom {operator.__module__} import {operator.__name__}\n\n"
        f"with DAG({name!r}, schedule=None) as dag:\n"
        f"    {operator.__name__}(task_id='task', **{arguments!r})\n"
    )
    try:
        dag_run = runpy.run_path(str(file))["dag"].test()
    finally:
        file.unlink()
    (task,) = dag_run.get_task_instances()
    assert task.state == "success", task.state
    return task.xcom_pull(task_ids="task")


def test_the_provider_is_known_to_airflow() -> None:
    assert "airflow-provider-stateplan" in ProvidersManager().providers
    assert ProvidersManagerTaskRuntime().hooks["stateplan"] is not None


def test_a_bounded_job_runs_to_its_end(place: Place) -> None:
    sql = [*place.tables(), "INSERT INTO t SELECT k, SUM(v) FROM s GROUP BY k"]
    job_id = run("bounded", StateplanSubmitOperator, sql=sql, job_name="bounded", wait_for_completion=True,
                 poll_interval=0.2)  # fmt: skip
    job = place.gateway.job(job_id)
    assert (job.name, job.status) == ("bounded", "FINISHED")


def test_a_job_that_fails_makes_its_task_fail_with_the_code(place: Place) -> None:
    tables = place.tables()
    (place.folder / "in" / "b.json").write_text('{"k": "x"}\n')
    operator = StateplanSubmitOperator(
        task_id="task", sql=[*tables, "INSERT INTO t SELECT k, SUM(v) FROM s GROUP BY k"], job_name="failing",
        wait_for_completion=True, poll_interval=0.2,
    )  # fmt: skip
    with pytest.raises(AirflowException, match="DATA112"):
        operator.run_at(place.gateway)
    (place.folder / "in" / "b.json").unlink()


def test_a_statement_that_is_wrong_is_reported_with_its_code(place: Place) -> None:
    with pytest.raises(AssertionError, match="failed"):
        run("wrong", StateplanSubmitOperator, sql="INSERT INTO nowhere SELECT 1", job_name="wrong")
    operator = StateplanSubmitOperator(task_id="task", sql="SHOW TABLES", job_name="none")
    with pytest.raises(AirflowException, match="has started no job"):
        operator.run_at(place.gateway)


def until_active(place: Place, job_id: str) -> None:
    """Waits for the first micro-batch of a job."""
    until = time.monotonic() + 120
    headers = {"Authorization": f"Bearer {TOKEN}"}
    while f'stateplan_batch{{job_id="{job_id}"' not in httpx.get(f"{place.url}/metrics", headers=headers).text:
        assert time.monotonic() < until, "no micro-batch"
        time.sleep(0.3)


def test_a_job_is_started_once_evolved_and_saved(place: Place) -> None:
    tables = place.tables(unbounded=True)
    submit = {"sql": [*tables, "INSERT INTO t SELECT k, SUM(v) FROM s GROUP BY k"], "job_name": "lasting"}
    first = run("submit", StateplanSubmitOperator, **submit)
    assert run("again", StateplanSubmitOperator, **submit) == first
    until_active(place, first)
    plan = "COMPILE PLAN 'plan://lasting' FOR INSERT INTO t SELECT k, SUM(v) FROM s WHERE v > 2 GROUP BY k"
    second = run("evolve", StateplanEvolveOperator, job_name="lasting", plan="plan://lasting", sql=[*tables, plan])
    assert place.gateway.job(second).is_active
    assert not place.gateway.job(first).is_active or second == first
    operator = StateplanSubmitOperator(task_id="task", **submit, wait_for_completion=True)
    operator.started_id = second
    operator.on_kill()
    assert place.gateway.job(second).status == "CANCELED"
    third = run("restart", StateplanSubmitOperator, **submit)
    until_active(place, third)
    folder = run("save", StateplanSavepointOperator, job_name="lasting", savepoint_dir=str(place.folder / "saved"))
    assert str(place.folder / "saved") in folder and place.gateway.active_job("lasting") is None
    with pytest.raises(AssertionError, match="failed"):
        run("gone", StateplanSavepointOperator, job_name="lasting")
