"""The figures of a running job, from what its driver keeps of them."""

from __future__ import annotations

import time

from stateplan.runtime.completion_forecast import Forecaster
from stateplan.runtime.job import Progress
from stateplan.runtime.jobgraph import AUDIT, JobGraph
from stateplan.runtime.metrics.figures import add_all
from stateplan.runtime.metrics.job_metrics import JobMetrics
from stateplan.runtime.sinks import SinkDriver


def progress_of(
    graph: JobGraph, metrics: JobMetrics, sinks: SinkDriver, forecaster: Forecaster, began: float
) -> Progress:
    """How far a job has come. May be called in any thread.

    Args:
        graph, metrics, sinks, forecaster: of the job.
        began: when it started, by :func:`time.monotonic`.
    """
    before, now = metrics.figures()
    seconds = 0.0 if metrics.first is None else time.perf_counter() - metrics.first
    forecast = forecaster.look(seconds, metrics.batches, before, now)
    operators = add_all(before, now)
    sources = {s.uid for s in graph.sources}
    records = tuple(metrics.recent)
    rows = [(sink, count) for sink, count in zip(sinks.sinks, sinks.row_counts, strict=True) if sink.node != AUDIT]
    return Progress(
        records[-1].batch if records else -1,
        int(sum(f.get("rows_in", 0) for uid, f in operators.items() if uid in sources)),
        sum(count for _, count in rows),
        time.monotonic() - began,
        operators,
        {sink.name: count for sink, count in rows if sink.is_open(sinks.active_plan)},
        records[-1].ms / 1000 if records else 0.0,
        forecast,
    )
