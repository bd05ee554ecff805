"""The micro-batch of a Spark task."""

from __future__ import annotations

from pyspark import TaskContext


def local_property(name: str) -> str | None:
    """A local property that the driver has set for the tasks of a micro-batch; None outside of a task."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def micro_batch() -> int | None:
    """The id of the micro-batch; None outside of one."""
    text = local_property("streaming.sql.batchId")
    return None if text is None else int(text)
