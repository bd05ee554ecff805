"""Jobs on a Spark whose executors are processes of their own: the rows are those of a local run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from tests.cluster.cluster_jobs import (
    MASTER,
    changes,
    compiled,
    finished,
    in_steps,
    kill_tree,
    one_job,
    record,
    run,
    started,
)
from tests.cluster.server_jobs import between_servers
from tests.support.kafka import Kafka
from tests.support.postgres import Database

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_two_jobs_with_other_ttls_and_another_parallelism(spark: object, tmp_path: Path) -> None:
    """``spark`` keeps the local run in this process, and its settings those of the shared session."""
    there, here = tmp_path / "there", tmp_path / "here"
    finished(in_steps, there, MASTER)
    in_steps(str(here), "")
    for name in ("stats", "pairs"):
        assert changes(here, name), name
        assert changes(there, name) == changes(here, name)


def test_a_job_runs_on_executors_which_reach_servers_and_one_of_which_is_killed(
    kafka: Kafka, database: Database, tmp_path: Path
) -> None:
    count, accounts = 4000, 7
    orders, copies = kafka.topic(3), kafka.topic(2)
    rows = [{"id": i, "account": f"a{i % accounts}", "amount": i % 100} for i in range(count)]
    for partition in range(3):
        kafka.produce(orders, [json.dumps(row) for row in rows[partition::3]], partition=partition)
    database.execute(
        "CREATE TABLE accounts (account TEXT PRIMARY KEY, region TEXT)",
        "CREATE TABLE totals (account TEXT PRIMARY KEY, n BIGINT, total BIGINT)",
        f"INSERT INTO accounts SELECT 'a' || i, 'r' || i % 3 FROM generate_series(0, {accounts - 1}) AS i",
    )
    options = ", ".join(f"'{key}' = '{text}'" for key, text in database.options.items())
    job = started(between_servers, tmp_path, kafka.servers, orders, copies, options)
    ids = tmp_path / "ids" / "_delta_log"
    while len(list(ids.glob("*.json"))) < 2:
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.05)
    os.kill(executors(job)[0].pid, signal.SIGKILL)
    said, _ = job.communicate(timeout=300)
    assert job.returncode == 0, said
    copied = sorted((row["id"], row["region"]) for row in (json.loads(m.value()) for m in kafka.consume(copies)))
    assert copied == [(i, f"r{i % accounts % 3}") for i in range(count)]
    expected = {a: [row["amount"] for row in rows if row["account"] == a] for a in (f"a{i}" for i in range(accounts))}
    assert database.rows("SELECT account, n, total FROM totals ORDER BY account") == [
        (account, len(amounts), sum(amounts)) for account, amounts in sorted(expected.items())
    ]
    kept = DeltaTable(str(tmp_path / "ids")).to_pyarrow_table()["id"].to_pylist()
    assert sorted(kept) == list(range(count))


def executors(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The executors of a driver."""
    found = []
    for below in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in below.cmdline()):
                found.append(below)
    return found


def until(folder: Path, files: int, process: subprocess.Popen[str]) -> None:
    """Waits until a sink has so many files."""
    while len(list((folder / "stats").glob("part-*"))) < files:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


@pytest.mark.long
def test_an_executor_and_then_the_driver_are_killed(spark: object, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for place in (there, here):
        record(place, 0, 6)
        compiled(place)
    run(here, "stats", {"parallelism.default": "2"}, "3 min")
    job = started(one_job, there)
    until(there, 2, job)
    os.kill(executors(job)[0].pid, signal.SIGKILL)
    until(there, 4, job)
    kill_tree(job)
    assert changes(there, "stats") != changes(here, "stats")
    finished(one_job, there)
    assert changes(there, "stats") == changes(here, "stats")
