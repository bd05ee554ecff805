"""What a task of Spark's knows of the micro-batch that it is of."""

from __future__ import annotations

from pyspark import TaskContext


def local_property(name: str) -> str | None:
    """What the driver tells the tasks of a micro-batch under ``name``; None outside of a task."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def micro_batch() -> int | None:
    """The id of the micro-batch; None where Spark does not say, as outside of one."""
    text = local_property("streaming.sql.batchId")
    return None if text is None else int(text)
