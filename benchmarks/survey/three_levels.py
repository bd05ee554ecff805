"""What a micro-batch of ten rows costs through three levels of state.

    python -m benchmarks.survey.three_levels ours|here|spark FOLDER

``ours`` and ``here`` have the query of :mod:`benchmarks.fixed_cost`, in Spark and without. ``spark`` has Spark's own
operators, with state in RocksDB: ``dropDuplicates``, a windowed count, and a windowed count of these counts. Prints the
median of the micro-batches after the first ones, in milliseconds.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.fixed_cost import QUERY, WARM_UP, measure
from benchmarks.harness import session, write_files
from benchmarks.survey.peers import python_figures

ROWS, BATCHES = 10, 30
PEERS = {"stateplan": "ours", "stateplan, without Spark": "here", "Spark": "spark"}


def of_peer(name: str, work: Path) -> dict[str, float]:
    """The figures of an engine."""
    return python_figures("three_levels", PEERS[name], str(work))


def _ours(work: Path) -> float:
    progress, _ = measure(BATCHES, ROWS, {}, work)
    return float(statistics.median(one["durationMs"]["triggerExecution"] for one in progress))


def _here(work: Path) -> float:
    each = np.arange(ROWS)
    frames = (pl.DataFrame({"id": n * ROWS + each, "k": (n + each) % 40}) for n in range(BATCHES + WARM_UP))
    write_files(work / "input", frames, "json")
    options = {"table.exec.local.max-input-size": "512 mb"}
    job = (
        session(work / "input", "id BIGINT, k BIGINT", "g BIGINT, n BIGINT, k BIGINT", options, "json")
        .execute_sql(QUERY)
        .job
    )
    assert job is not None
    job.wait()
    return float(statistics.median(record.ms for record in job.metrics[WARM_UP:]))


def _events() -> Iterator[pl.DataFrame]:
    start = datetime(2026, 1, 1)
    for number in range(BATCHES + WARM_UP):
        times = [start + timedelta(seconds=10 * number + row) for row in range(ROWS)]
        rows = np.arange(ROWS)
        yield pl.DataFrame({"id": number * ROWS + rows, "k": (number + rows) % 40, "ts": times}).with_columns(
            pl.col("ts").dt.to_string("%Y-%m-%dT%H:%M:%S.000Z")
        )


def _spark(work: Path) -> float:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    write_files(work / "input", _events(), "json")
    state = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.stateStore.providerClass", state)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    rows = spark.readStream.schema("id BIGINT, k BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", "1")
    firsts = rows.json(str(work / "input")).withWatermark("ts", "10 seconds").dropDuplicates(["id", "ts"])
    counts = firsts.groupBy(F.window("ts", "20 seconds"), "k").count()
    places = counts.groupBy(F.window(F.window_time("window"), "1 minute"), "count").agg(F.max("k"))
    writer = places.writeStream.format("noop").outputMode("append")
    query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [json.loads(p.json) if hasattr(p, "json") else p for p in query.recentProgress]
    assert all(len(one["stateOperators"]) == 3 for one in progress)
    with_rows = [one for one in progress if one["numInputRows"]]
    return float(statistics.median(one["durationMs"]["triggerExecution"] for one in with_rows[WARM_UP:]))


def main(what: str, folder: str) -> None:
    """Measures an engine."""
    print(json.dumps({"ms": {"ours": _ours, "here": _here, "spark": _spark}[what](Path(folder))}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
