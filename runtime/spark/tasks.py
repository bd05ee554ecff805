"""What the driver sends to the tasks of a micro-batch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import TaskContext

if TYPE_CHECKING:
    from stateplan.runtime.jobgraph import JobGraph

TTLS = "stateplan.ttl"
"""A local property: the TTLs of states that differ from the plan; see :mod:`runtime.batch_ttls`. Missing or empty if
the plan's hold."""

WATERMARKS = "stateplan.watermarks"
"""A local property: JSON, number of a reader -> how far event time had come before the micro-batch, ms."""

ACTIVE_PLAN = "stateplan.active-plan"
"""A local property: the plans that a job with a shadow runs; missing while it runs both."""


def local_property(name: str) -> str | None:
    """A local property that the driver has set for the tasks of a micro-batch; None outside of a task."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def micro_batch() -> int | None:
    """The id of the micro-batch; None outside of one."""
    text = local_property("streaming.sql.batchId")
    return None if text is None else int(text)


def with_watermarks(graph: JobGraph, text: str) -> JobGraph:
    """The job whose readers read what :data:`WATERMARKS` says."""
    return replace(graph, watermarks={int(number): mark for number, mark in json.loads(text).items()})
