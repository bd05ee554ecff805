"""What the tasks of a micro-batch give back, brought to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def first_column(frame: DataFrame, large: bool) -> list[bytes]:
    """Runs a micro-batch: the binary values of the first column of ``frame``, in the order of its partitions.

    Small ones come without ``collect``, for which Spark reads the code of two of its largest classes, 400 KB, to see
    that its own functions capture nothing unserializable. The rows are then Spark's own, and it reuses one row for all
    of a partition: no partition may give two. ``collect`` has the faster way to Python.

    Args:
        large: whether there may be megabytes of them.

    Raises:
        Exception: PySpark's or Py4J's; its text has that of the error that made a task fail.
    """
    if large:
        return [row[0] for row in frame.collect()]
    rows = frame._jdf.queryExecution().toRdd().toJavaRDD().collectAsync().get()  # noqa: SLF001 - PySpark only collects
    return [rows.get(n).getBinary(0) for n in range(rows.size())]
