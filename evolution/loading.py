"""A micro-batch of a new query that only loads state: the first one, without a row of input.

The state goes through the same chain of stateful operators as the rows of later micro-batches. So Spark writes it as it
writes the state of any micro-batch, into as many partitions as the new query has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stateplan.common.paths import AnyPath
from stateplan.runtime.exchange import BLOB_SCHEMA
from stateplan.runtime.markers import Markers
from stateplan.runtime.metrics.figures import UNCOUNTED
from stateplan.runtime.sources import FILE_SCHEMA, folder_for_spark
from stateplan.runtime.spark.query import Shipment, Task, with_level

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load_state(
    spark: SparkSession,
    shipment: Shipment,
    level_count: int,
    parts: Sequence[tuple[DataFrame | None, Task]],
    markers: AnyPath,
    checkpoint: AnyPath,
) -> None:
    """Runs the micro-batch 0 of a query.

    Args:
        spark: the session of the job.
        shipment: the job graph, whose operators gather what is sent.
        level_count: stateful operators of Spark.
        parts: frames of stored runs, and what sends state for them; None for a task that needs no runs.
        markers: a folder for a marker file; Spark wants input from a stream for every micro-batch.
        checkpoint: a folder without a checkpoint of Spark.

    Raises:
        Exception: what Spark raises.
    """
    from pyspark.sql import functions as F  # noqa: N812

    marker_files = Markers(markers)
    marker_files.make()
    marker_files.add(0, ["load"])
    chain: DataFrame | None = None
    for frame, task in parts:
        marker = spark.readStream.format("binaryFile").schema(FILE_SCHEMA).load(folder_for_spark(markers))
        marker = marker.select(F.length("path").alias("marker"))
        rows = marker if frame is None else frame.crossJoin(F.broadcast(marker))
        part = rows.mapInArrow(task, BLOB_SCHEMA)
        chain = part if chain is None else chain.unionAll(part)
    assert chain is not None
    for level in range(1, level_count + 1):
        chain = with_level(chain, shipment, level, UNCOUNTED)
    writer = chain.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(once=True).start().awaitTermination()
