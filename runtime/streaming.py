"""One plan as one streaming query: start it, watch it, stop it."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import CheckpointError, RunError, StateplanError
from stateplan.common.files import absolute
from stateplan.common.paths import AnyPath
from stateplan.common.roots import holding
from stateplan.common.secrets import Secrets
from stateplan.common.settings import is_batch
from stateplan.connectors.registry import clashing_names
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import environment_of
from stateplan.runtime.budget import Budget, Limits
from stateplan.runtime.checkpoint.directory import Checkpoint, RestartCheck
from stateplan.runtime.checkpoint.live_ttl import LiveTtls
from stateplan.runtime.checkpoint.noted import NotedBatches
from stateplan.runtime.checkpoint.savepoint import write_savepoint
from stateplan.runtime.failures import coded
from stateplan.runtime.interrupts import between_calls
from stateplan.runtime.job import Job, OnProgress, Progress
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.memory import CacheSettings, cache_settings
from stateplan.runtime.metrics.counters import SparkCounters
from stateplan.runtime.metrics.job_metrics import JobMetrics, job_info
from stateplan.runtime.metrics.prometheus import Endpoint, Reporter, reporters
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.metrics.view import JobView
from stateplan.runtime.notices import Notices
from stateplan.runtime.outlook import Forecast
from stateplan.runtime.plan_tables import with_places
from stateplan.runtime.progress import progress_of
from stateplan.runtime.reach import reach
from stateplan.runtime.readers import KeptReaders
from stateplan.runtime.scratch import scratch
from stateplan.runtime.sinks import SinkDriver, for_driver, reports
from stateplan.runtime.sources import Sources
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.cluster import check_python, check_reach, meet_executors
from stateplan.runtime.spark.collect import run_batch
from stateplan.runtime.spark.damage import explain_full_disk, explained
from stateplan.runtime.spark.hadoop import (
    CHECKPOINT_DIR,
    checkpoint_path,
    default_file_system,
    hadoop_path,
    is_remote,
)
from stateplan.runtime.spark.local_spark import adapt_query
from stateplan.runtime.spark.lost import is_of_spark, lost
from stateplan.runtime.spark.query import Shipped, build
from stateplan.runtime.spark.repartition import repartition
from stateplan.runtime.spark.session import is_ours, is_somebody_elses, job_session, runs_elsewhere, spark_of
from stateplan.runtime.spark.tasks import TTLS, WATERMARKS
from stateplan.runtime.spark.tweaks import Tweaks
from stateplan.runtime.spark.worker_python import serve_forks
from stateplan.runtime.translate import translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_FEW_TASKS = 40


class SparkJob(Job):
    """A job of Spark. ``job_id`` is Spark's id of the query."""

    checkpoint: AnyPath

    def __init__(self, query: StreamingQuery, queries: _Queries, bounded: bool, on_progress: OnProgress | None) -> None:
        super().__init__(str(query.id), bounded, queries.run.checkpoint.folder, on_progress)
        self._query = query
        self._run = queries.run
        self.runs_in = queries.run.spark.sparkContext.applicationId
        self._queries = queries
        self._to_end = bounded
        self._saving: _Saving | None = None
        self._ending = False
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

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._run.notices.told)

    def stop(self) -> None:
        """Stops the job after the micro-batch in hand, and waits for that; the checkpoint stays usable."""
        self._to_stop()
        with self._lock:
            self._to_end = False
        self._stop_query()
        self._over.wait()

    def stop_with_savepoint(self, folder: AnyPath, drain: bool = False) -> None:
        with self._lock:
            if self._ending or self._stopped or self._saving is not None:
                raise RunError(
                    "RUN052", id=self.job_id, status="being stopped" if self._end is None else self._end.value
                )
            saving = self._saving = _Saving(folder, drain)
        self._await_micro_batch()
        self._stop_query()
        saving.done.wait()
        if saving.error is not None:
            raise saving.error
        self._over.wait()

    def _await_micro_batch(self) -> None:
        """Returns when a micro-batch ends, or when none is in hand."""
        query, before = self._query, self._run.metrics.batches
        with contextlib.suppress(Exception):
            while query.isActive and query.status["isTriggerActive"] and self._run.metrics.batches == before:
                time.sleep(0.05)

    def _stop_query(self) -> None:
        with self._lock:
            query = self._query
        for writer in self._run.sinks.writers:
            writer.release()
        with contextlib.suppress(Exception):
            query.stop()

    def _run_to_end(self) -> None:
        try:
            while True:
                while not _ended(self._query, self._run, 0.2):
                    self._run.settle()
                    self._run.stop_over_budget()
                self._run.settle()
                if self._saving is not None:
                    if not self._saves():
                        return
                elif not self._ends_event_time():
                    break
            if self.bounded and not self._stopped:
                run = self._run
                run.notices.at_end(run.metrics.waiting, kept=not run.checkpoint.temporary)
        except Exception as failure:
            known = failure if isinstance(failure, StateplanError) else None
            error = lost(0.0 if known else 3.0) or known
            self._give_up_saving(error)
            if error is None or error is failure:
                raise
            raise error from failure
        finally:
            self._give_up_saving(None)

    def _give_up_saving(self, error: StateplanError | None) -> None:
        """Tells who waits for a savepoint that there will be none."""
        with self._lock:
            self._ending, saving = True, self._saving
        if saving is not None and not saving.done.is_set():
            saving.error = error or RunError("RUN052", id=self.job_id, status="being stopped")
            saving.done.set()

    def _close(self) -> None:
        self._run.close()

    def _ends_event_time(self) -> bool:
        """Whether the job, out of input, has event time to bring to its end, and begins with it."""
        with self._lock:
            query = self._queries.last() if self._to_end else None
            self._to_end = False
            if query is not None:
                self._query = query
        return query is not None

    def _saves(self) -> bool:
        """Writes the savepoint that was asked for; whether the job goes on, because it cannot be written."""
        saving, queries, checkpoint = self._saving, self._queries, self._run.checkpoint
        assert saving is not None
        if checkpoint.spark.last_planned != checkpoint.spark.last_done:
            queries.finish()
        if saving.drain:
            queries.drain()
        self._run.settle()
        try:
            write_savepoint(checkpoint.folder, saving.folder, saving.drain)
        except CheckpointError as error:
            with self._lock:
                if not self._stopped:
                    self._query = queries.start()
                    self._saving = None
            saving.error = error
        saving.done.set()
        return self._saving is None


@dataclass
class _Saving:
    """A savepoint that a job is to write when its query has stopped.

    Attributes:
        folder: of the savepoint.
        drain: whether event time is brought to its end first.
        done: set when it is written, or is not going to be.
        error: why it is not written.
    """

    folder: AnyPath
    drain: bool
    done: threading.Event = field(default_factory=threading.Event)
    error: StateplanError | None = None


@dataclass
class _Run:
    """What lives as long as the job."""

    spark: SparkSession
    job: JobGraph
    checkpoint: Checkpoint
    ttls: LiveTtls
    sources: Sources
    sinks: SinkDriver
    readers: KeptReaders
    cache: CacheSettings
    tweaks: Tweaks
    metrics: JobMetrics
    notices: Notices
    budget: Budget | None
    forecast: Forecast
    endpoints: list[Endpoint] = field(default_factory=list)
    query: StreamingQuery | None = None
    began: float = field(default_factory=time.monotonic)
    failure: StateplanError | None = None
    over: StateplanError | None = None

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Runs one micro-batch: Spark's ``foreachBatch``."""
        with holding(self.job.roots):
            self._on_batch(frame, batch_id)

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        if self.over is not None:
            self.failure = self.over
            raise self.over
        self.metrics.begin(batch_id, self.query)
        self._still_ours()
        ttls = self.ttls.take_in(batch_id)
        if ttls is not None:
            self.spark.sparkContext.setLocalProperty(TTLS, ttls)
        if self.job.readers:
            marks = json.dumps(self.readers.begin(batch_id))
            self.spark.sparkContext.setLocalProperty(WATERMARKS, marks)
        try:
            self.sinks.prepare(batch_id, self.checkpoint.begin(batch_id, self.ttls, self.readers))
            packed = run_batch(frame, self.metrics.info.name, self._many_reports, self.tweaks)
            self._still_ours()
            done = reports(packed)
            self.sinks.commit(done, batch_id)
            self.readers.end(batch_id, for_driver(done))
            record = self.metrics.end(batch_id)
            self.sources.advance(self.metrics.parts)
        except StateplanError as error:
            self.failure = error
            raise
        except OSError as cause:
            self.failure = RunError("RUN030", cause=cause)
            raise
        self.notices.look(self.metrics.total)
        if self.budget is not None:
            self.over = self.budget.look(record)

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

    def stop_over_budget(self) -> None:
        """Ends the job between two micro-batches, if its state is over a budget that says so."""
        if self.over is not None and self.query is not None and not self.query.status["isTriggerActive"]:
            self.fail(self.over)

    def fail(self, error: StateplanError) -> None:
        """Ends the job for what happened outside of a micro-batch."""
        self.failure = self.failure or error
        if self.query is not None:
            with contextlib.suppress(Exception):
                self.query.stop()

    def close(self) -> None:
        self.sources.stop()
        self.sinks.close()
        self.metrics.close(self.query)
        for endpoint in self.endpoints:
            endpoint.close()
        if self.cache.folder is not None:
            shutil.rmtree(self.cache.folder, ignore_errors=True)
        self.checkpoint.close()


@dataclass
class _Queries:
    """The queries of a job, one at a time and one after another, from the same checkpoint.

    Attributes:
        bounded: whether the job's input ends.
        interval: between micro-batches of an unbounded job, in milliseconds.
        name: of the query.
    """

    run: _Run
    shipped: Shipped
    counters: SparkCounters
    bounded: bool
    interval: int
    name: str | None

    @cached_property
    def frame(self) -> DataFrame:
        """What all of them run."""
        run = self.run
        return build(
            run.job,
            self.shipped,
            lambda index: run.sources.frame(run.spark, index),
            run.sinks,
            self.counters.tasks,
            lambda: run.sources.closing_frame(run.spark),
        )

    def start(self) -> StreamingQuery:
        """The query that does what the job is for."""
        if self.bounded:
            return self._start(availableNow=True)
        return self._start(processingTime=f"{self.interval} milliseconds")

    def finish(self) -> None:
        """Runs the micro-batch that was planned last, and waits for it. Raises what it fails of."""
        _finish(self._start(once=True), self.run)

    def last(self) -> StreamingQuery | None:
        """The query that brings event time to its end when bounded input has ended; None where there is nothing to
        bring to its end."""
        run = self.run
        if not run.job.event_time or run.sources.end_themselves:
            return None
        if not run.metrics.batches and run.sources.ended:
            return None
        run.sources.close()
        return self.start()

    def drain(self) -> None:
        """Brings event time to its end after one more micro-batch, and waits for that. Raises what it fails of."""
        run = self.run
        if run.job.event_time and not run.sources.ended:
            run.sources.close()
            _finish(self._start(processingTime="365 days"), run, batches=1)

    def _start(self, **trigger: Any) -> StreamingQuery:
        run = self.run
        with _explaining(run):
            frame = self.frame  # what it raises is explained too
            run.ttls.restart()
            writer = frame.writeStream.foreachBatch(run.on_batch)
            writer = writer.option("checkpointLocation", str(run.checkpoint.spark.folder))
            if self.name:
                writer = writer.queryName(self.name)
            query: StreamingQuery = writer.trigger(**trigger).start()
        adapt_query(run.spark, run.tweaks)
        return run.started(query)


@coded()
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
    secrets: Secrets | None = None,
    on_start: Callable[[str, str], None] | None = None,
    limits: Limits | None = None,
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
        secrets: that references in the plan stand for.
        on_start: gets the job's id and the directory of its checkpoint, right before the job begins. What it raises
            keeps the job from starting.
        limits: of its state.

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
        graph = with_places(graph, lambda path: str(hadoop_path(path, opened)) if remote else absolute(path))
    try:
        checkpoint = Checkpoint.open(options, plan_text, graph, check_restart, tell, cores)
    except OSError as failure:
        _require_space(failure, options)
        raise
    options = checkpoint.settings(options)
    run: _Run | None = None
    try:
        if is_batch(options):
            checkpoint.require_unfinished()
        job = translate(
            graph,
            options,
            checkpoint.key_groups,
            job_id=checkpoint.id,
            started=checkpoint.created,
            secrets=secrets,
        )
        job = checkpoint.fit(job)
        serving = reporters(options)
        environment = None if elsewhere else environment_of(graph)
        sources = Sources(job, options, checkpoint.splits, checkpoint.spark, environment)
        sources.prepare()
        bounded = job.bounded
        record = None if checkpoint.temporary else NotedBatches(checkpoint.folder, checkpoint.id)
        sinks = SinkDriver(job.sinks, not elsewhere, record, tell)
        readers = checkpoint.readers(job)
        ttls = checkpoint.ttls(job, graph, tell)
        spark = spark or spark_of(options, lasting=not bounded, tweaks=tweaks)
        if job.operators:
            check_python(spark)
        if job.operators or sources.plan_in_python:
            serve_forks(spark, tweaks, sources.modules)
        if elsewhere:
            check_reach(spark, reach(job, checkpoint), options, tell)
        checkpoint.adopt()
        ttls.settle()
        spark = job_session(spark, options)
        info = job_info(graph, job, options, checkpoint.next_batch())
        cache = cache_settings(options, tell, shared=not elsewhere)
        shipped = Shipped(job, cache, environment)
        counters = SparkCounters(spark, None if elsewhere else _live_folder())
        metrics = JobMetrics(info, counters, checkpoint, tell, limits)
        notices = Notices(job.operators, cache.folder, tell)
        budget = None
        if limits is not None:
            budget = Budget(limits, checkpoint.folder, ttls.held, metrics.recent, metrics.observed, tell)
        forecast = Forecast(job, checkpoint.spark, info.first_batch, sources.instants())
        run = _Run(
            spark, job, checkpoint, ttls, sources, sinks, readers, cache, tweaks, metrics, notices, budget, forecast
        )
        run.serve(serving, tell)
        for sentence in clashing_names():
            tell(sentence)
        if checkpoint.resumed:
            tell(f"continuing from the checkpoint {checkpoint.folder}")
        queries = _Queries(run, shipped, counters, bounded, sources.trigger_interval(), options.get("pipeline.name"))
        if checkpoint.rescale is not None:
            if checkpoint.rescale.pending is not None:
                queries.finish()
            repartition(spark, checkpoint.spark, checkpoint.rescale, tell)
        elif checkpoint.parallelism is not None:
            checkpoint.spark.sweep(checkpoint.parallelism)
        if on_start is not None:
            on_start(checkpoint.spark.query_id(job_id), str(checkpoint.folder))
        query = queries.start()
        sources.start(run.fail)
    except BaseException as failure:
        if run is not None:
            run.close()
        else:
            checkpoint.close()
        _require_space(failure, options)
        raise
    return SparkJob(query, queries, bounded, on_progress)


def _require_space(failure: BaseException, options: Mapping[str, str]) -> None:
    """Raises RunError RUN031 if a job could not begin for want of disk space."""
    if isinstance(failure, OSError):
        given = options.get(CHECKPOINT_DIR)
        folder = checkpoint_path(given, options) if given else Path(tempfile.gettempdir())
        full = explain_full_disk(str(failure), SparkCheckpoint(folder), "")
        if full is not None:
            raise full from failure


def _live_folder() -> str | None:
    """Where workers of this machine leave the figures of running tasks; None where there can be no such folder."""
    with contextlib.suppress(OSError):
        return str(scratch("live"))
    return None


def _ended(query: StreamingQuery, run: _Run, seconds: float) -> bool:
    """Whether a query ends within ``seconds``. One that has ended left the active queries of Spark: the next one may
    have its name.

    Raises:
        StateplanError: what made it fail.
    """
    from pyspark.errors import StreamingQueryException

    try:
        ended = bool(query.awaitTermination(seconds))
        if ended:
            # With a timeout, Spark answers as soon as the query is over, while it is still registered.
            query.awaitTermination()
    except StreamingQueryException as failure:
        raise run.failure or explained(failure, run.checkpoint.spark, run.job.operators) from failure
    if ended and run.failure is not None:
        raise run.failure
    return ended


def _finish(query: StreamingQuery, run: _Run, batches: int | None = None) -> None:
    """Waits for the end of a query, or stops it after so many micro-batches; stops it when interrupted."""
    wanted = None if batches is None else run.metrics.batches + batches
    ended = False
    try:
        while not ended:
            with between_calls():
                ended = _ended(query, run, 0.2)
                if wanted is not None and run.metrics.batches >= wanted and not query.status["isTriggerActive"]:
                    query.stop()
    except KeyboardInterrupt:
        query.stop()
        raise


@contextlib.contextmanager
def _explaining(run: _Run) -> Iterator[None]:
    """Gives what Spark raises within the block its code."""
    try:
        yield
    except Exception as failure:
        if is_of_spark(failure):
            raise explained(failure, run.checkpoint.spark, run.job.operators) from failure
        raise
