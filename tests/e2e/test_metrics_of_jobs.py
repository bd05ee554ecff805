"""Figures of a job on Spark, micro-batch by micro-batch: what must be, over a task run again, a failure, a restart."""

from __future__ import annotations

import io
import json
import os
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scripts.pages import page_path
from stateplan.common.errors import DataError
from stateplan.common.readable import hex_id
from stateplan.planner.catalog.udf import udf
from stateplan.runtime.job import Job as StartedJob
from stateplan.runtime.metrics.log import FOLDER, read_job, read_metrics
from stateplan.runtime.metrics.prometheus import FACTORY
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo
from stateplan.session.environment import TableEnvironment

pytestmark = pytest.mark.spark

HOUR = 3_600_000


class Job:
    """SUM(v) by k, which fails when a sum is 666. The first 3 kills the Python process that sees it."""

    def __init__(self, folder: Path) -> None:
        self.rows = folder / "rows.json"
        self.checkpoint = folder / "checkpoint"
        options = {
            "pipeline.max-parallelism": "1",
            "table.exec.state.ttl": "1 h",
            "execution.checkpointing.dir": str(self.checkpoint),
            "metrics.reporters": "prom",
            "metrics.reporter.prom.factory.class": FACTORY,
            "metrics.reporter.prom.port": "0",
        }
        self.notes: list[str] = []
        self.environment = TableEnvironment.create(options, console=self.notes.append)
        self.environment.execute_sql(
            f"CREATE TABLE src (k INT, v INT) WITH ('connector'='replay', 'path'='{self.rows}', 'format'='json')"
        )
        self.environment.execute_sql("CREATE TABLE snk (k INT, s INT) WITH ('connector'='blackhole')")

        killed = str(folder / "killed")

        def mortal(k: int) -> int:
            if k == 3 and not os.path.exists(killed):
                os.close(os.open(killed, os.O_CREAT))
                os._exit(1)
            return k

        self.environment.create_temporary_function("mortal", udf(mortal, ["INT"], "INT"))

    def start(self, rows: list[tuple[int, int, int]]) -> StartedJob:
        self.rows.write_text("".join(json.dumps({"@at": at, "k": k, "v": v}) + "\n" for at, k, v in rows))
        result = self.environment.execute_sql(
            "INSERT INTO snk SELECT mortal(k), CAST(CASE WHEN s = 666 THEN 'x' ELSE '1' END AS INT)"
            " FROM (SELECT k, SUM(v) AS s FROM src GROUP BY k)"
        )
        assert result.job is not None
        return result.job


def summary(record: BatchMetrics, job: JobInfo) -> dict[str, Any]:
    """What of a record does not depend on the machine."""
    source, operator, sink = (o.uid for o in job.operators)
    figures = record.operators[operator]
    kinds = {n: v for n, v in figures.items() if n.startswith("rows_") and "." in n}
    return {
        "batch": record.batch,
        "time": record.time,
        "read": record.operators[source]["rows_in"],
        **kinds,
        "written": record.operators[sink]["rows_in"],
        "state": (record.state[operator].rows, record.state[operator].partial),
        "expired": figures.get("expired_rows.0", 0),
    }


def test_every_micro_batch_has_its_own_figures(spark: SparkSession, tmp_path: Path) -> None:
    out = io.StringIO()
    example = re.search(
        r"```python\n(from stateplan.runtime.spark.listener.*?)```",
        page_path("metrics").read_text(),
        re.S,
    )
    assert example is not None
    known: dict[str, Any] = {"spark": spark, "out": out}
    exec(example[1].replace("spark.streams.addListener(Printer())", "listener = Printer()"), known)
    spark.streams.addListener(known["listener"])
    try:
        rows = [(1000, 1, 1), (1000, 2, 1), (1000, 1, 2), (2000, 1, 5), (2000, 3, 1), (3000, 2, 665)]
        failing = Job(tmp_path)
        job = failing.start(rows)
        port = re.search(r"on port (\d+)", " ".join(failing.notes))
        assert port is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=30) as answer:
            assert f'stateplan_running{{job_id="{hex_id(job.job_id)}"' in answer.read().decode()
        with pytest.raises(DataError):
            job.wait()
        info = read_job(failing.checkpoint)
        assert info is not None and info.job_id == job.job_id and info.first_batch == 0
        first = [
            {"batch": 0, "time": 1000, "read": 3, "rows_in.0.+I": 3, "rows_out.+I": 2, "written": 2},
            {"batch": 1, "time": 2000, "read": 2, "rows_in.0.+I": 2, "rows_out.+I": 1, "rows_out.+U": 1, "written": 2},
        ]
        first[0] |= {"state": ([2], False), "expired": 0}
        first[1] |= {"state": ([4], False), "expired": 0}
        assert [summary(r, info) for r in read_metrics(failing.checkpoint)] == first
        assert [r.batch for r in job.metrics] == [0, 1] and (tmp_path / "killed").exists()

        mended = Job(tmp_path)
        job = mended.start([*rows[:-1], (3000, 2, 4), (3000 + 2 * HOUR, 1, 1)])
        job.wait()
        info = read_job(mended.checkpoint)
        assert info is not None and info.first_batch == 2
        records = read_metrics(mended.checkpoint)
        assert [summary(r, info) for r in records] == [
            *first,
            {"batch": 2, "time": 3000, "read": 1, "rows_in.0.+I": 1, "rows_out.+U": 1, "written": 1}
            | {"state": ([5], False), "expired": 0},
            {"batch": 3, "time": 3000 + 2 * HOUR, "read": 1, "rows_in.0.+I": 1, "rows_out.+I": 1, "written": 1}
            | {"state": ([1], False), "expired": 5},
        ]
        assert [r.batch for r in job.metrics] == [2, 3] and job.progress.rows_in == 2
        for record in records:
            assert record.spark["triggerExecution"] > 0 and record.ms > 0
            figures = record.operators[info.operators[1].uid]
            phases = sum(v for n, v in figures.items() if n.endswith("_ms") and n != "busy_ms")
            assert figures["busy_ms"] == pytest.approx(phases, abs=0.1)
        assert sum(p.stat().st_size for p in (mended.checkpoint / FOLDER).iterdir()) < 20_000
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        printed = out.getvalue().splitlines()
        assert [line for line in printed if "group-aggregate" in line] == [
            "batch 0: group-aggregate[3] 3 in, 2 out",
            "batch 1: group-aggregate[3] 2 in, 2 out",
            "batch 2: group-aggregate[3] 1 in, 1 out",
            "batch 3: group-aggregate[3] 1 in, 1 out",
        ]
    finally:
        spark.streams.removeListener(known["listener"])
