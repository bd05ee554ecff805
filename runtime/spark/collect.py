"""Runs a micro-batch and brings the output of its tasks to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stateplan.runtime.spark.tweaks import Tweaks

_CALL_SITE = "callSite.short"
"""The local property with Spark's description of a job."""


def run_batch(frame: DataFrame, name: str, large: bool, tweaks: Tweaks) -> list[bytes]:
    """Runs a micro-batch: the binary values of the first column of ``frame``, in the order of its partitions.

    ``collectAsync`` returns Spark's internal rows. Spark reuses one row for a whole partition, so a partition must not
    output more than one.

    Args:
        name: the name of the job.
        large: whether they may take megabytes; ``collect`` transfers these faster.

    Raises:
        Exception: PySpark's or Py4J's; its text contains the error of the task that failed.
    """
    future = None
    if not large and tweaks.works("collect-async", _probe_rows, frame.sparkSession):
        future = _start_collect(frame, tweaks)
    if future is not None:
        rows = future.get()
        report_blobs = [rows.get(n).getBinary(0) for n in range(rows.size())]
    else:
        report_blobs = [row[0] for row in frame.collect()]
    if tweaks.on("call-site"):  # PySpark may have cleared it
        frame.sparkSession.sparkContext.setLocalProperty(_CALL_SITE, name)
    return report_blobs


def _probe_rows(spark: SparkSession) -> None:
    """Raises an error unless a row of one empty value returns it."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
    row = jvm.org.apache.spark.sql.catalyst.expressions.UnsafeRow(1)
    row.pointTo(bytearray(16), 16)
    if bytes(row.getBinary(0)):
        raise ValueError("an empty row has bytes")


def _start_collect(frame: DataFrame, tweaks: Tweaks) -> Any:
    """Starts the job of a micro-batch; None if Spark lacks one of the methods."""
    from py4j.protocol import Py4JJavaError, Py4JNetworkError

    try:
        return frame._jdf.queryExecution().toRdd().toJavaRDD().collectAsync()  # noqa: SLF001 - PySpark only collects
    except (Py4JJavaError, Py4JNetworkError):  # the query cannot be planned, or has been stopped
        raise
    except Exception as cause:
        tweaks.lose("collect-async", cause)
        return None
