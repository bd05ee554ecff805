"""A job with a shadow continues with one of its plans, without a stop.

Between two micro-batches the checkpoint becomes that of the plan. From the next micro-batch on, the tasks run this plan
alone. If the job is killed before, it has both plans when it starts again; if it is killed later, it has the one.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from stateplan.common.errors import CheckpointError
from stateplan.connectors.protocol import RangeSource
from stateplan.connectors.registry import known_connector
from stateplan.runtime.active_plan import with_active_plan
from stateplan.runtime.failures import coded_error
from stateplan.runtime.interrupts import between_calls
from stateplan.runtime.metrics.job_metrics import job_info
from stateplan.runtime.spark.tweaks import Tweaks
from stateplan.runtime.start import Submission, find_place
from stateplan.runtime.streaming import SparkJob
from stateplan.runtime.translate import translate

if TYPE_CHECKING:
    from stateplan.execnodes.shadows import Side
    from stateplan.runtime.checkpoint.directory import Checkpoint
    from stateplan.runtime.job import Job
    from stateplan.runtime.jobgraph import JobGraph, SourceSpec


@coded_error()
def switch(job: Job, submission: Submission, side: Side) -> int | None:
    """A job with a shadow continues with one of its plans.

    Args:
        job: the job.
        submission: the plan alone; its check says how it continues from both.
        side: which of them it is.

    Returns:
        The first micro-batch with this plan alone; None if the job must start anew for that, since a table of the other
        plan cannot be left alone while the query runs.

    Raises:
        RunError: RUN052, the job has ended.
        StateplanError: a table cannot be written to, or the checkpoint. The job continues with both plans.
    """
    if not isinstance(job, SparkJob) or not all(map(_may_idle, _left_sources(job.run.job, side))):
        return None
    run = job.run
    options = run.checkpoint.settings(submission.options)
    submission = replace(submission, options=options, graph=find_place(submission, Tweaks(options)).graph)
    with run.between_batches(), between_calls():
        checkpoint = run.checkpoint.followed_by(
            submission.plan_text, submission.check_restart(run.checkpoint.plan_text)
        )
        graph = _translated(submission, checkpoint)
        if graph.bounded != run.job.bounded:
            return None
        graph = checkpoint.fit(graph)
        checkpoint.keep_dropped()
        ttls = checkpoint.ttls(graph, submission.graph, run.ttls.tell)
        run.sinks.run(side)
        try:
            checkpoint.adopt()
        except BaseException:
            run.sinks.run("both")
            raise
        batch = checkpoint.next_batch()
        run.checkpoint, run.ttls = checkpoint, ttls
        if run.budget is not None:
            run.budget.ttl = ttls.ttl
        run.metrics.follow(job_info(submission.graph, graph, options, batch))
        with contextlib.suppress(CheckpointError):  # the next start removes TTLs that no operator has
            ttls.settle()
    return batch


def _translated(submission: Submission, checkpoint: Checkpoint) -> JobGraph:
    return translate(
        submission.graph,
        submission.options,
        checkpoint.key_groups,
        job_id=checkpoint.id,
        start_time=checkpoint.created,
        secrets=submission.secrets,
    )


def _left_sources(job: JobGraph, side: Side) -> list[SourceSpec]:
    """The sources that only the other plan reads."""
    open_job = with_active_plan(job, side)
    return [
        old
        for old, new in zip(job.sources, open_job.sources, strict=True)
        if old.pipeline.outputs and not new.pipeline.outputs
    ]


def _may_idle(source: SourceSpec) -> bool:
    """Whether a source that nobody reads any more may be planned until the job starts again. An endless generator would
    make micro-batches, and what a source that serves one reader has read is gone."""
    connector = known_connector({"connector": source.connector})
    is_endless = isinstance(source.reader, RangeSource) and not source.reader.bounded
    return not is_endless and (connector is None or connector.single_reader is None)
