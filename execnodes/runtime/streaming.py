"""One plan as one streaming query: start it, watch it, stop it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stateplan.execnodes.connectors.registry import clashing_names
from stateplan.execnodes.errors import CheckpointError, RunError, StateplanError
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.paths import AnyPath
from stateplan.execnodes.runtime.checkpoint.directory import Checkpoint, RestartCheck
from stateplan.execnodes.runtime.checkpoint.live_ttl import LiveTtls
from stateplan.execnodes.runtime.interrupts import between_calls
from stateplan.execnodes.runtime.job import Job, OnProgress, Progress
from stateplan.execnodes.runtime.jobgraph import JobGraph
from stateplan.execnodes.runtime.memory import CacheSettings, cache_settings
from stateplan.execnodes.runtime.metrics.counters import Counters
from stateplan.execnodes.runtime.metrics.job_metrics import JobMetrics, job_info
from stateplan.execnodes.runtime.metrics.prometheus import Endpoint, Reporter, reporters
from stateplan.execnodes.runtime.metrics.records import BatchMetrics
from stateplan.execnodes.runtime.metrics.view import JobView
from stateplan.execnodes.runtime.notices import Notices
from stateplan.execnodes.runtime.outlook import Forecast
from stateplan.execnodes.runtime.plan_tables import with_places
from stateplan.execnodes.runtime.progress import progress_of
from stateplan.execnodes.runtime.reach import reach
from stateplan.execnodes.runtime.scratch import scratch
from stateplan.execnodes.runtime.sinks import SinkDriver, reports
from stateplan.execnodes.runtime.sources import Sources
from stateplan.execnodes.runtime.spark.cluster import check_python, check_reach, meet_executors
from stateplan.execnodes.runtime.spark.collect import run_batch
from stateplan.execnodes.runtime.spark.damage import explained, is_of_spark
from stateplan.execnodes.runtime.spark.hadoop import CHECKPOINT_DIR, default_file_system, hadoop_path, is_remote
from stateplan.execnodes.runtime.spark.local_spark import adapt_query
from stateplan.execnodes.runtime.spark.query import Shipped, build
from stateplan.execnodes.runtime.spark.repartition import repartition
from stateplan.execnodes.runtime.spark.session import is_ours, is_somebody_elses, job_session, runs_elsewhere, spark_of
from stateplan.execnodes.runtime.spark.tasks import TTLS
from stateplan.execnodes.runtime.spark.tweaks import Tweaks
from stateplan.execnodes.runtime.translate import translate
from stateplan.execnodes.settings import is_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_FEW_TASKS = 40


class SparkJob(Job):
    """A job of Spark. ``job_id`` is Spark's id of the query."""

    checkpoint: AnyPath

    def __init__(
        self,
        query: StreamingQuery,
        run: _Run,
        bounded: bool,
        on_progress: OnProgress | None,
        ending: Callable[[], StreamingQuery | None] | None = None,
    ) -> None:
        super().__init__(str(query.id), bounded, run.checkpoint.folder, on_progress)
        self._query = query
        self._run = run
        self._ending = ending
        self._begin()

    @property
    def progress(self) -> Progress:
        return self._run.progress()

    @property
    def metrics(self) -> tuple[BatchMetrics, ...]:
        return tuple(self._run.metrics.recent)

    @property
    def view(self) -> JobView:
        return self._run.metrics.view()

    def stop(self) -> None:
        """Stops the job after the micro-batch in hand, and waits for that; the checkpoint stays usable."""
        self._to_stop()
        with self._lock:
            self._ending = None
            query = self._query
        for writer in self._run.sinks.writers:
            writer.release()
        with contextlib.suppress(Exception):
            query.stop()
        self._over.wait()

    def _run_to_end(self) -> None:
        while not (_ended(self._query, self._run, 0.2) and not self._goes_on()):
            self._run.settle()
        self._run.settle()

    def _close(self) -> None:
        self._run.close()

    def _goes_on(self) -> bool:
        """Whether the job, out of input, has event time to bring to its end, and begins with it."""
        with self._lock:
            ending, self._ending = self._ending, None
            query = ending() if ending is not None else None
            if query is not None:
                self._query = query
        return query is not None


@dataclass
class _Run:
    """What lives as long as the job."""

    spark: SparkSession
    job: JobGraph
    checkpoint: Checkpoint
    ttls: LiveTtls
    sources: Sources
    sinks: SinkDriver
    cache: CacheSettings
    tweaks: Tweaks
    metrics: JobMetrics
    notices: Notices
    forecast: Forecast
    endpoints: list[Endpoint] = field(default_factory=list)
    query: StreamingQuery | None = None
    began: float = field(default_factory=time.monotonic)
    failure: StateplanError | None = None

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Runs one micro-batch: Spark's ``foreachBatch``."""
        self.metrics.begin(batch_id, self.query)
        self._still_ours()
        ttls = self.ttls.take_in(batch_id)
        if ttls is not None:
            self.spark.sparkContext.setLocalProperty(TTLS, ttls)
        try:
            self.sinks.prepare(batch_id)
            packed = run_batch(frame, self.metrics.info.name, self._many_reports, self.tweaks)
            self._still_ours()
            self.sinks.commit(reports(packed), batch_id)
        except StateplanError as error:
            self.failure = error
            raise
        except OSError as cause:
            self.failure = RunError("RUN030", cause=cause)
            raise
        self.metrics.end(batch_id)
        self.notices.look(self.metrics.counters.total)

    @property
    def _many_reports(self) -> bool:
        """Whether what tasks report is large, or comes from many: one by one, a report takes two calls of the JVM."""
        return self.sinks.reports_rows or self.metrics.info.parallelism > _FEW_TASKS

    def _still_ours(self) -> None:
        """Fails when another job has taken the checkpoint over meanwhile."""
        if self.checkpoint.lock is not None:
            self.checkpoint.lock.check()

    def progress(self) -> Progress:
        return progress_of(self.job, self.metrics, self.sinks, self.forecast, self.began)

    def serve(self, reporters: Sequence[Reporter], tell: Callable[[str], None]) -> None:
        """Serves the figures to Prometheus. Raises RunError RUN084."""
        for reporter in reporters:
            self.endpoints.append(Endpoint(reporter, self.metrics.view))
            tell(f"serving metrics for Prometheus on port {self.endpoints[-1].port}")

    def started(self, query: StreamingQuery) -> StreamingQuery:
        """``query`` runs from now on."""
        self.query = query
        self.metrics.identify(str(query.id), str(query.runId))
        return query

    def settle(self) -> None:
        self.metrics.settle(self.query)

    def fail(self, error: StateplanError) -> None:
        """Ends the job for what happened outside of a micro-batch."""
        self.failure = self.failure or error
        if self.query is not None:
            with contextlib.suppress(Exception):
                self.query.stop()

    def close(self) -> None:
        self.sources.stop()
        self.metrics.close(self.query)
        for endpoint in self.endpoints:
            endpoint.close()
        if self.cache.folder is not None:
            shutil.rmtree(self.cache.folder, ignore_errors=True)
        self.checkpoint.close()


def execute(
    graph: ExecGraph,
    options: Mapping[str, str],
    *,
    plan_text: str,
    console: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
    check_restart: RestartCheck,
    spark: SparkSession | None = None,
    job_id: str | None = None,
    on_start: Callable[[str, str], None] | None = None,
) -> SparkJob:
    """Starts a plan as one streaming query.

    Args:
        graph: the plan.
        options: session options, by Flink's keys; ``spark.*`` are handed to Spark.
        plan_text: the plan as it is stored in the checkpoint directory.
        console: gets notes for the user, a line each.
        on_progress: called about five times a second while :meth:`SparkJob.wait` waits.
        check_restart: judges how the plan may go on from the state of the plan that wrote the checkpoint.
        spark: a session of the user's to run in.
        job_id: of the job, a UUID, where its checkpoint has none yet.
        on_start: gets the job's id and the directory of its checkpoint, right before the job begins. What it raises
            keeps the job from starting.

    Raises:
        StateplanError: anything that keeps the plan from starting.
    """
    tweaks = Tweaks(options, console)
    tell = console or (lambda text: None)
    cores: int | None = None
    elsewhere = runs_elsewhere(options, spark)
    remote = not default_file_system(options).startswith("file:")
    if elsewhere or remote or is_remote(options) or is_somebody_elses(options, spark):
        spark = spark_of(options, tweaks=tweaks, given=spark)
        if elsewhere and not options.get(CHECKPOINT_DIR):
            raise CheckpointError("CKPT007", master=spark.sparkContext.master)
        if elsewhere or not is_ours(spark):
            found = meet_executors(spark, options, tell)
            cores = found if elsewhere else None
    if elsewhere or remote:
        # Workers have another working directory; and in Spark, a path without a scheme is on the default file system.
        opened = options
        graph = with_places(graph, lambda path: str(hadoop_path(path, opened)) if remote else os.path.abspath(path))
    checkpoint = Checkpoint.open(options, plan_text, graph, check_restart, tell, cores)
    options = checkpoint.settings(options)
    run: _Run | None = None
    try:
        if is_batch(options):
            checkpoint.require_unfinished()
        job = translate(graph, options, checkpoint.key_groups, job_id=checkpoint.id, started=checkpoint.created)
        job = checkpoint.fit(job)
        serving = reporters(options)
        sources = Sources(job, options, checkpoint.splits)
        sources.prepare()
        bounded = sources.bounded()
        sinks = SinkDriver(job.sinks)
        ttls = checkpoint.ttls(job, graph, tell)
        spark = spark or spark_of(options, lasting=not bounded, tweaks=tweaks)
        if job.operators:
            check_python(spark)
        if elsewhere:
            check_reach(spark, reach(job, checkpoint), options, tell)
        checkpoint.adopt()
        ttls.settle()
        spark = job_session(spark, options)
        info = job_info(graph, job, options, checkpoint.next_batch())
        cache = cache_settings(options, tell, shared=not elsewhere)
        shipped, counters = Shipped(job, cache), Counters(spark, None if elsewhere else _live_folder())
        metrics = JobMetrics(info, counters, checkpoint, tell)
        notices = Notices(job.operators, cache.folder, tell)
        forecast = Forecast(job, checkpoint.spark, info.first_batch, sources.instants())
        run = _Run(spark, job, checkpoint, ttls, sources, sinks, cache, tweaks, metrics, notices, forecast)
        run.serve(serving, tell)
        for sentence in clashing_names():
            tell(sentence)
        if checkpoint.resumed:
            tell(f"continuing from the checkpoint {checkpoint.folder}")
        going = run
        name = options.get("pipeline.name")

        def start(pending: bool = False) -> StreamingQuery:
            frame = build(
                job,
                shipped,
                lambda index: sources.frame(spark, index),
                sinks,
                counters.add,
                lambda: sources.closing_frame(spark),
            )
            ttls.restart()
            writer = frame.writeStream.foreachBatch(going.on_batch)
            writer = writer.option("checkpointLocation", str(checkpoint.spark.folder))
            if name:
                writer = writer.queryName(name)
            if pending:
                return going.started(_start(writer.trigger(once=True), going))
            if bounded:
                return going.started(_start(writer.trigger(availableNow=True), going))
            interval = f"{sources.trigger_interval()} milliseconds"
            return going.started(_start(writer.trigger(processingTime=interval), going))

        def end() -> StreamingQuery | None:
            if not going.metrics.batches and sources.closed:
                return None
            sources.close()
            return start()

        if checkpoint.rescale is not None:
            if checkpoint.rescale.pending is not None:
                _finish(start(pending=True), run)
            repartition(spark, checkpoint.spark, checkpoint.rescale, tell)
        elif checkpoint.parallelism is not None:
            checkpoint.spark.sweep(checkpoint.parallelism)
        if on_start is not None:
            on_start(checkpoint.spark.query_id(job_id), str(checkpoint.folder))
        query = start()
        sources.start(run.fail)
    except BaseException:
        if run is not None:
            run.close()
        else:
            checkpoint.close()
        raise
    return SparkJob(query, run, bounded, on_progress, end if bounded and job.event_time else None)


def _live_folder() -> str | None:
    """Where workers of this machine leave the figures of running tasks; None where there can be no such folder."""
    with contextlib.suppress(OSError):
        return str(scratch("live"))
    return None


def _ended(query: StreamingQuery, run: _Run, seconds: float) -> bool:
    """Whether a query ends within ``seconds``.

    Raises:
        StateplanError: what made it fail.
    """
    from pyspark.errors import StreamingQueryException

    try:
        ended = bool(query.awaitTermination(seconds))
    except StreamingQueryException as failure:
        raise run.failure or explained(failure, run.checkpoint.spark, run.job.operators) from failure
    if ended and run.failure is not None:
        raise run.failure
    return ended


def _finish(query: StreamingQuery, run: _Run) -> None:
    """Waits for the end of a query of one micro-batch; stops it when interrupted."""
    ended = False
    try:
        while not ended:
            with between_calls():
                ended = _ended(query, run, 0.2)
    except KeyboardInterrupt:
        query.stop()
        raise


def _start(writer: Any, run: _Run) -> StreamingQuery:
    try:
        query: StreamingQuery = writer.start()
    except Exception as failure:
        if is_of_spark(failure):
            raise explained(failure, run.checkpoint.spark, run.job.operators) from failure
        raise
    adapt_query(run.spark, run.tweaks)
    return query
