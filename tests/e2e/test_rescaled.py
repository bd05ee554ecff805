"""2 -> 5 -> 3 partitions in the middle of a stream: the result is that of the uninterrupted run."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.chaos import folded as result
from stateplan.runtime.checkpoint.rescale import Rescale
from stateplan.runtime.job import Job as StartedJob
from stateplan.runtime.local.job import LocalJob
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.repartition import repartition
from stateplan.session.environment import TableEnvironment
from tests.e2e.file_arrivals import forget
from tests.e2e.inserts_here import inserts_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000
TABLES = """
CREATE TABLE orders (order_id INT, user_id INT, product_id INT, num INT, ts TIMESTAMP(3), pt AS PROCTIME(),
                     WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH ({orders});
CREATE TABLE shipments (order_id INT, target STRING, ts TIMESTAMP(3),
                        WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH ({shipments});
CREATE TABLE counts (product_id INT, users BIGINT, orders BIGINT, total INT) WITH ({counts});
CREATE TABLE outers (order_id INT, num INT, target STRING) WITH ({outers});
CREATE TABLE intervals (order_id INT, num INT, target STRING) WITH ({intervals})
"""
INSERTS = """EXECUTE STATEMENT SET BEGIN
INSERT INTO counts SELECT product_id, COUNT(DISTINCT user_id), COUNT(order_id), SUM(num) FROM (
    SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY pt) AS n FROM orders) WHERE n = 1)
  GROUP BY product_id;
INSERT INTO outers SELECT /*+ STATE_TTL('o' = '6 min', 's' = '30 min') */ o.order_id, o.num, s.target
  FROM orders o FULL JOIN shipments s ON o.order_id = s.order_id;
INSERT INTO intervals SELECT o.order_id, o.num, s.target FROM orders o LEFT JOIN shipments s
  ON o.order_id = s.order_id AND s.ts BETWEEN o.ts AND o.ts + INTERVAL '3' MINUTE;
END"""
SINKS = {"counts": "debezium-json", "outers": "debezium-json", "intervals": "json"}
INSTANTS = 6


class Job:
    """Orders and shipments over six minutes, one micro-batch each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        for name, rows in (("orders", _orders()), ("shipments", _shipments())):
            (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def start(self, run: str, **options: str) -> StartedJob:
        """Starts the job in the folder ``run``, where its checkpoint is."""
        place = str(self.folder / run / "checkpoint")
        return self._start(run, {"execution.checkpointing.dir": place, "pipeline.max-parallelism": "5", **options})

    def run_here(self, run: str) -> None:
        """Runs the job to its end in this process, without a checkpoint."""
        with inserts_here():
            job = self._start(run, {})
        assert isinstance(job, LocalJob)
        job.wait()

    def _start(self, run: str, options: dict[str, str]) -> StartedJob:
        session = TableEnvironment.create(options, console=self.said.append)
        tables = {
            n: f"'connector'='replay', 'format'='json', 'path'='{self.folder / n}.json'"
            for n in ("orders", "shipments")
        }
        sinks = {
            n: f"'connector'='filesystem', 'format'='{f}', 'path'='{self.folder / run / n}'" for n, f in SINKS.items()
        }
        for statement in TABLES.format(**tables, **sinks).split(";"):
            session.execute_sql(statement)
        job = session.execute_sql(INSERTS).job
        assert job is not None
        return job

    def until(self, batch: int, run: str, parallelism: int) -> None:
        """Runs the job until a micro-batch is done, and stops it at whatever it does then."""
        job = self.start(run, **{"parallelism.default": str(parallelism)})
        while job.progress.batch < batch:
            assert not job.wait(0.05), "ended too early"
        job.stop()

    def results(self, run: str) -> dict[str, Counter[str]]:
        return {name: result(self.folder / run / name) for name in SINKS}


def _time(minute: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_700_000_000 // 60 * 60 + minute * 60))


def _orders() -> list[dict[str, object]]:
    return [
        {
            "order_id": order if n % 4 else order - 11,
            "user_id": order * 7 % 13,
            "product_id": order % 5,
            "num": 1 + order * n % 9,
            "ts": _time(n),
            "@at": n * MINUTE,
        }
        for n in range(INSTANTS)
        for order in range(n * 20, n * 20 + 20)
    ]


def _shipments() -> list[dict[str, object]]:
    return [
        {"order_id": order, "target": f"city{order % 3}", "ts": _time(n), "@at": n * MINUTE}
        for n in range(INSTANTS)
        for order in range(n * 20 - 60, n * 20 + 20, 3)
    ]


def partitions(spark: Path) -> list[int]:
    """Of every micro-batch that Spark has planned."""
    files = sorted((int(p.name), p) for p in (spark / "offsets").iterdir() if p.name.isdecimal())
    lines = (json.loads(p.read_text().splitlines()[1]) for _, p in files)
    return [int(line["conf"]["spark.sql.shuffle.partitions"]) for line in lines]


@pytest.mark.spark
def test_two_five_three(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a micro-batch in hand at the first change, and the second one cut off before it was committed."""
    job = Job(tmp_path)
    job.run_here("whole")
    expected = job.results("whole")
    assert all(len(rows) > 4 for rows in expected.values())

    log = tmp_path / "scaled" / "checkpoint" / "spark"
    job.until(0, "scaled", 2)
    last = len(partitions(log)) - 1
    forget(log / "commits", last)
    job.until(last + 2, "scaled", 5)
    assert partitions(log)[: last + 3] == [2] * (last + 1) + [5, 5], "the one in hand, the repartition, the next one"

    def cut_off(session: SparkSession, written: SparkCheckpoint, rescale: Rescale, console: Any) -> None:
        repartition(session, written, rescale, console)
        folder = written.folder
        ((batch, _),) = rescale.steps
        forget(folder / "commits", batch)
        for operator in (folder / "state").iterdir():
            forget(operator / "_metadata" / "v2", batch)
            for state in (operator / "2").glob(f"{batch + 1}[_.]*"):
                state.unlink()
        raise CutOffError

    with monkeypatch.context() as patched, pytest.raises(CutOffError):
        patched.setattr("stateplan.runtime.start.repartition", cut_off)
        job.start("scaled", **{"parallelism.default": "3"})
    job.start("scaled").wait()
    assert job.results("scaled") == expected
    counts = partitions(log)
    assert counts == sorted(counts, key=[2, 5, 3].index)
    assert counts[-1] == 3
    assert [line.split(" in ")[0] for line in job.said if line.startswith("rescal")] == [
        "rescaling the state from 2 to 5 partitions",
        "rescaled from 2 to 5 partitions",
        "rescaling the state from 5 to 3 partitions",
        "rescaled from 5 to 3 partitions",
        "rescaling the state from 5 to 3 partitions",
        "rescaled from 5 to 3 partitions",
    ]


class CutOffError(BaseException):
    pass
