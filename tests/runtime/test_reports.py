"""What tasks report of their sinks comes to the driver whole, and each report once."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from stateplan.common.errors import RunError, find_encoded
from stateplan.runtime.sinks import SINK_SCHEMA, Report, reports
from stateplan.runtime.spark.collect import run_batch
from stateplan.runtime.spark.tweaks import Tweaks
from stateplan.runtime.worker import with_coded_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("tasks", "size"), [(1, 10), (4, 10), (3, 2_000_000)])
def test_each_comes_once_in_the_order_of_the_tasks(spark: SparkSession, tasks: int, size: int, large: bool) -> None:
    def reported(task: int) -> list[Report]:
        return [(n % 2, f"{task}.{n:03d} ü", n * 10**10, bytes([n]) * size) for n in range(task * 5)]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column("id").to_pylist():
                if task:
                    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(reported(task))])], ["reports"])

    frame = spark.range(0, tasks, numPartitions=tasks).mapInArrow(run, SINK_SCHEMA)
    assert reports(run_batch(frame, "job", large, Tweaks({}))) == [
        report for task in range(1, tasks) for report in reported(task)
    ]


@pytest.mark.parametrize("large", [False, True])
def test_the_error_of_a_task_is_found_in_what_spark_says(spark: SparkSession, large: bool) -> None:
    @with_coded_errors
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise RunError.with_text("RUN999", "a task of mine failed", expected="nothing else")

    frame = spark.range(1).selectExpr("CAST(NULL AS BINARY) AS reports").mapInArrow(run, SINK_SCHEMA)
    with pytest.raises(Exception, match="RUN999") as failure:
        reports(run_batch(frame, "job", large, Tweaks({})))
    found = find_encoded(str(failure.value))
    assert found is not None
    assert (found.code, found.message) == ("RUN999", "a task of mine failed")


@pytest.mark.parametrize("large", [False, True])
def test_a_query_stopped_in_a_micro_batch_has_not_failed(spark: SparkSession, tmp_path: Path, large: bool) -> None:
    began = tmp_path / "began"

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            began.touch()
            time.sleep(60)
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps([])])], ["reports"])

    def on_batch(frame: DataFrame, batch_id: int) -> None:
        reports(run_batch(frame, "job", large, Tweaks({})))

    rows = spark.readStream.format("rate").option("rowsPerSecond", "100").load()
    writer = rows.mapInArrow(run, SINK_SCHEMA).writeStream.foreachBatch(on_batch)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        deadline = time.monotonic() + 60
        while not began.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert began.exists()
    finally:
        query.stop()
    assert query.exception() is None
