"""The start of a plan as one streaming query, in stages; each gives what the next one needs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.common.errors import CheckpointError, OptionError
from stateplan.common.files import absolute
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.secrets import Environment, Secrets
from stateplan.common.settings import TRACED, is_batch, value
from stateplan.connectors.registry import clashing_names
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import environment_of
from stateplan.runtime.access_check import access_check
from stateplan.runtime.budget import Budget, Limits
from stateplan.runtime.checkpoint.directory import Checkpoint, RestartCheck
from stateplan.runtime.checkpoint.live_ttl import LiveTtls
from stateplan.runtime.checkpoint.sink_records import SinkRecords
from stateplan.runtime.completion_forecast import Forecaster
from stateplan.runtime.failures import coded_error
from stateplan.runtime.job import OnProgress
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.memory import TOTAL, cache_settings, limited
from stateplan.runtime.metrics.counters import SparkCounters
from stateplan.runtime.metrics.job_metrics import JobMetrics, job_info
from stateplan.runtime.metrics.log import recent_metrics
from stateplan.runtime.metrics.prometheus import Reporter, reporters
from stateplan.runtime.notices import Notices
from stateplan.runtime.pacing import TARGET
from stateplan.runtime.plan_tables import with_places
from stateplan.runtime.readers import KeptReaders
from stateplan.runtime.scratch import scratch
from stateplan.runtime.sinks import SinkDriver
from stateplan.runtime.sources import Sources
from stateplan.runtime.spark import state_messages
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.cluster import check_python, check_reach, meet_executors
from stateplan.runtime.spark.damage import explain_full_disk
from stateplan.runtime.spark.hadoop import (
    CHECKPOINT_DIR,
    checkpoint_path,
    default_file_system,
    is_remote,
    table_path,
)
from stateplan.runtime.spark.local_spark import filter_log
from stateplan.runtime.spark.query import Shipment
from stateplan.runtime.spark.repartition import repartition
from stateplan.runtime.spark.session import is_ours, is_somebody_elses, job_session, runs_elsewhere, spark_of
from stateplan.runtime.spark.tweaks import LAST_BATCH, Tweaks
from stateplan.runtime.spark.worker_python import serve_forks
from stateplan.runtime.spark_run import Queries, Run
from stateplan.runtime.streaming import SparkJob
from stateplan.runtime.translate import translate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True)
class Submission:
    """A plan, and how it is to run.

    Attributes:
        graph: the plan.
        options: session options, by Flink's keys; ``spark.*`` are handed to Spark.
        plan_text: the plan as it is stored in the checkpoint directory.
        check_restart: judges how the plan may continue from the state of the plan that wrote the checkpoint.
        console: gets notes for the user, a line each.
        on_progress: called about five times a second while :meth:`SparkJob.wait` waits.
        spark: a session of the user's to run in.
        job_id: the id of the job, a UUID, where its checkpoint has none yet.
        secrets: the secrets that references in the plan stand for.
        on_start: gets the job's id and the directory of its checkpoint, right before the job begins. What it raises
            keeps the job from starting.
        limits: the limits of its state.
        adapt: changes the job graph before it gets its state.
    """

    graph: ExecGraph
    options: Mapping[str, str]
    plan_text: str
    check_restart: RestartCheck
    console: Callable[[str], None] | None = None
    on_progress: OnProgress | None = None
    spark: SparkSession | None = None
    job_id: str | None = None
    secrets: Secrets | None = None
    on_start: Callable[[str, str], None] | None = None
    limits: Limits | None = None
    adapt: Callable[[JobGraph], JobGraph] | None = None

    def tell(self, sentence: str) -> None:
        """A note for the user."""
        if self.console is not None:
            self.console(sentence)


@coded_error()
def execute(submission: Submission) -> SparkJob:
    """Starts a plan as one streaming query.

    Raises:
        StateplanError: anything that keeps the plan from starting.
    """
    submission = replace(submission, options=limited(submission.options))
    tweaks = Tweaks(submission.options, submission.console)
    try:
        place = find_place(submission, tweaks)
        require_own_spark(submission, place)
        submission = replace(submission, graph=place.graph)
        checkpoint = _checkpoint(submission, place)
        with ExitStack() as undo:
            undo.callback(checkpoint.close)
            submission = replace(submission, options=limited(checkpoint.settings(submission.options)))
            parts = _parts(submission, place, checkpoint, tweaks)
            spark = _session(submission, place, checkpoint, parts, tweaks)
            run = _run(submission, place, checkpoint, parts, spark, tweaks)
            undo.pop_all()  # the run closes the checkpoint
            undo.callback(run.close)
            queries = _queries(submission, parts, run)
            query = _begin(submission, parts, queries)
            undo.pop_all()
    except OSError as failure:
        _require_space(failure, submission.options)
        raise
    return SparkJob(query, queries, submission.on_progress)


@dataclass(frozen=True)
class Place:
    """Where a job runs.

    Attributes:
        spark: the session, where it had to be found before the checkpoint can be opened.
        graph: the plan, with paths that are the same for all machines.
        elsewhere: whether its tasks run on other machines.
        cores: of these machines.
    """

    spark: SparkSession | None
    graph: ExecGraph
    elsewhere: bool
    cores: int | None


def find_place(submission: Submission, tweaks: Tweaks) -> Place:
    """Finds the Spark that a job needs before its checkpoint is opened: that of a cluster, or of the user. Raises
    CheckpointError CKPT007."""
    options, spark, graph = submission.options, submission.spark, submission.graph
    cores: int | None = None
    elsewhere = runs_elsewhere(options, spark)
    remote = not default_file_system(options).startswith("file:")
    if elsewhere or remote or is_remote(options) or is_somebody_elses(options, spark):
        spark = spark_of(options, tweaks=tweaks, own_session=spark)
        if elsewhere and not options.get(CHECKPOINT_DIR):
            raise CheckpointError("CKPT007", master=spark.sparkContext.master)
        if elsewhere or not is_ours(spark):
            executor_cores = meet_executors(spark, options, submission.tell)
            cores = executor_cores if elsewhere else None
        if not is_ours(spark):
            filter_log(spark, tweaks)
    if elsewhere or remote:
        # Workers have another working directory; and in Spark, a path without a scheme is on the default file system.
        graph = with_places(graph, lambda path: str(table_path(path, options)) if remote else absolute(path))
    return Place(spark, graph, elsewhere, cores)


def require_own_spark(submission: Submission, place: Place) -> None:
    """Raises OptionError OPT002 where a limit of memory would not hold: on a cluster, in a Spark that was not started
    for jobs, or in one that the user passes, whose settings are never compared."""
    spark = submission.spark or place.spark
    if TOTAL not in submission.options or spark is None:
        return
    if place.elsewhere or submission.spark is not None or not is_ours(spark):
        location = "on a cluster" if place.elsewhere else "in a Spark of yours"
        raise OptionError(
            "OPT002",
            key=TOTAL,
            text=submission.options[TOTAL],
            refused=f"the job runs {location} ({spark.sparkContext.master})",
            expected="no such option, and the settings of that Spark",
        )


def _checkpoint(submission: Submission, place: Place) -> Checkpoint:
    """The checkpoint of a job. Raises as :meth:`Checkpoint.open`."""
    return Checkpoint.open(
        submission.options,
        submission.plan_text,
        submission.graph,
        submission.check_restart,
        submission.tell,
        place.cores,
    )


@dataclass(frozen=True)
class _Parts:
    """A plan with its tables, on the driver.

    Attributes:
        job: what the plan is for the workers.
        sources, sinks: of the job.
        readers, ttls: what the checkpoint has of them.
        reporters: to which figures are served.
        environment: the environment that references need in other processes of this machine.
    """

    job: JobGraph
    sources: Sources
    sinks: SinkDriver
    readers: KeptReaders
    ttls: LiveTtls
    reporters: tuple[Reporter, ...]
    environment: Environment | None


def _parts(submission: Submission, place: Place, checkpoint: Checkpoint, tweaks: Tweaks) -> _Parts:
    """Translates a plan, and opens its tables.

    Raises:
        StateplanError: as :func:`runtime.translate.translate`, the options of the reporters, and the tables.
        CheckpointError: the state does not fit, or the job has ended.
    """
    graph, options, tell = submission.graph, submission.options, submission.tell
    if is_batch(options):
        checkpoint.require_unfinished()
    translated = translate(
        graph,
        options,
        checkpoint.key_groups,
        job_id=checkpoint.id,
        start_time=checkpoint.created,
        secrets=submission.secrets,
    )
    job = checkpoint.fit(translated if submission.adapt is None else submission.adapt(translated))
    metric_reporters = tuple(reporters(options))
    environment = None if place.elsewhere else environment_of(graph)
    counts_batches = tweaks.on(LAST_BATCH)
    sources = Sources(job, options, checkpoint.splits, checkpoint.spark, environment, counts_batches)
    sources.prepare()
    record = None if checkpoint.temporary else SinkRecords(checkpoint.folder, checkpoint.id)
    sinks = SinkDriver(job.sinks, not place.elsewhere, record, tell)
    readers, ttls = checkpoint.readers(job), checkpoint.ttls(job, graph, tell)
    return _Parts(job, sources, sinks, readers, ttls, metric_reporters, environment)


def _session(
    submission: Submission, place: Place, checkpoint: Checkpoint, parts: _Parts, tweaks: Tweaks
) -> SparkSession:
    """The session of a job whose workers do what they have to. From now on the checkpoint is that of the new plan."""
    job, options = parts.job, submission.options
    spark = place.spark or submission.spark or spark_of(options, lasting=not job.bounded, tweaks=tweaks)
    if job.operators:
        check_python(spark)
    if job.operators or parts.sources.plan_in_python:
        serve_forks(spark.sparkContext.pythonExec, tweaks, parts.sources.modules)
    if place.elsewhere:
        check_reach(spark, access_check(job, checkpoint), options, submission.tell)
    checkpoint.adopt()
    parts.ttls.settle()
    return job_session(spark, options)


def _run(
    submission: Submission, place: Place, checkpoint: Checkpoint, parts: _Parts, spark: SparkSession, tweaks: Tweaks
) -> Run:
    """What lives as long as the job: its parts, and those who watch it."""
    job, options, tell = parts.job, submission.options, submission.tell
    info = job_info(submission.graph, job, options, checkpoint.next_batch())
    cache = cache_settings(options, tell, is_shared=not place.elsewhere)
    counters = SparkCounters(spark, None if place.elsewhere else _live_folder(), value(options, TRACED))
    metrics = JobMetrics(info, counters, checkpoint, tell, submission.limits)
    with contextlib.suppress(CheckpointError):
        parts.sources.recall(recent_metrics(checkpoint.folder) if info.first_batch else ())
    budget = None
    if submission.limits is not None:
        ttl_of_state, state_uses = parts.ttls.ttl, metrics.observed
        budget = Budget(submission.limits, checkpoint.folder, ttl_of_state, metrics.recent, state_uses, tell)
    return Run(
        spark=spark,
        job=job,
        checkpoint=checkpoint,
        ttls=parts.ttls,
        sources=parts.sources,
        sinks=parts.sinks,
        readers=parts.readers,
        cache=cache,
        tweaks=tweaks,
        counters=counters,
        metrics=metrics,
        notices=Notices(job.operators, cache.folder, tell),
        budget=budget,
        forecast=Forecaster(job, checkpoint.spark, info.first_batch, parts.sources.instants()),
    )


def _queries(submission: Submission, parts: _Parts, run: Run) -> Queries:
    """The queries of a job whose figures are served, and which says how it begins."""
    tell = submission.tell
    run.serve(parts.reporters, tell)
    for sentence in clashing_names():
        tell(sentence)
    for name in run.sources.unpaced_tables:
        tell(f"'{TARGET}' has no effect on the files of {name}: the checkpoint began without it")
    if run.checkpoint.resumed:
        tell(f"continuing from the checkpoint {run.checkpoint.folder}")
    short_messages = run.tweaks.works("state-messages", state_messages.probe)
    shipment = Shipment(run.job, run.cache, parts.environment, short_messages)
    return Queries(run, shipment, run.sources.trigger_interval(), submission.options.get("pipeline.name"))


def _begin(submission: Submission, parts: _Parts, queries: Queries) -> StreamingQuery:
    """Brings the state to the parallelism of the job, and starts its query."""
    run, checkpoint = queries.run, queries.run.checkpoint
    if checkpoint.rescale is not None:
        if checkpoint.rescale.pending is not None:
            queries.finish()
        repartition(run.spark, checkpoint.spark, checkpoint.rescale, submission.tell)
    elif checkpoint.parallelism is not None:
        checkpoint.spark.sweep(checkpoint.parallelism)
    if submission.on_start is not None:
        submission.on_start(checkpoint.spark.query_id(submission.job_id), str(checkpoint.folder))
    query = queries.start()
    parts.sources.start(run.fail)
    return query


def _require_space(failure: OSError, options: Mapping[str, str]) -> None:
    """Raises RunError RUN031 if a job could not begin for want of disk space."""
    path = options.get(CHECKPOINT_DIR)
    folder = checkpoint_path(path, options) if path else Path(tempfile.gettempdir())
    full = explain_full_disk(str(failure), SparkCheckpoint(folder), "")
    if full is not None:
        raise full from failure


def _live_folder() -> str | None:
    """Where workers of this machine leave the figures of running tasks; None if there can be no such folder."""
    with contextlib.suppress(OSError):
        return str(scratch("live"))
    return None
