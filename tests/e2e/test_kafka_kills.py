"""Kafka to Kafka: a job that is killed in its commits writes every row exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.e2e.kafka_job import main
from tests.support.kafka import Kafka, running
from tests.support.long_runs import LONG

HERE = Path(__file__).resolve().parent
KILLS = (("totals", "inside", 2), *([("copies", "after", 1)] if LONG else []))
ROWS, BATCH, ACCOUNTS = 600, 150, 5


def options(broker: Kafka, folder: Path) -> list[str]:
    return [broker.servers, str(folder / "checkpoint"), str(BATCH)]


def killed(broker: Kafka, folder: Path, *kill: object) -> None:
    """Runs the job in a process of its own, which is killed."""
    command = [sys.executable, str(HERE / "kafka_job.py"), *options(broker, folder), *map(str, kill)]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_job_that_is_killed_in_commits_writes_every_row_once(tmp_path: Path) -> None:
    orders = [{"id": i, "account": f"a{i % ACCOUNTS}", "amount": i * i % 101} for i in range(ROWS)]
    with running() as broker:
        for topic in ("orders", "copies", "totals"):
            broker.topic(2, topic)
        for partition in range(2):
            broker.produce("orders", [json.dumps(o) for o in orders[partition::2]], partition=partition)
        for kill in KILLS:
            killed(broker, tmp_path, *kill)
        main(*options(broker, tmp_path))
        copies = [json.loads(m.value() or b"") for m in broker.consume("copies")]
        totals = [json.loads(m.value() or b"") for m in broker.consume("totals")]
        sent = len(broker.consume("copies", "read_uncommitted"))
    assert sorted(c["id"] for c in copies) == list(range(ROWS))
    assert {c["id"]: c["amount"] for c in copies} == {o["id"]: o["amount"] for o in orders}
    assert sent >= ROWS
    counted = defaultdict(list)
    for row in totals:
        counted[row["account"]].append((row["n"], row["total"]))
    assert {account: rows[-1] for account, rows in counted.items()} == {
        f"a{k}": (ROWS // ACCOUNTS, sum(o["amount"] for o in orders[k::ACCOUNTS])) for k in range(ACCOUNTS)
    }
    for rows in counted.values():  # a micro-batch that was written twice would count on the spot
        assert rows == sorted(set(rows))
        assert len(rows) >= ROWS // BATCH
