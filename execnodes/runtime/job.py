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
from stateplan.execnodes.runtime.jobgraph import JobGraph, OperatorSpec
from stateplan.execnodes.runtime.memory import CACHE_DIR, CacheSettings, cache_settings
from stateplan.execnodes.runtime.metrics.counters import Counters
from stateplan.execnodes.runtime.metrics.job_metrics import JobMetrics, job_info
from stateplan.execnodes.runtime.metrics.prometheus import Endpoint, Reporter, reporters
from stateplan.execnodes.runtime.metrics.records import BatchMetrics
from stateplan.execnodes.runtime.plan_tables import with_places
from stateplan.execnodes.runtime.reach import reach
from stateplan.execnodes.runtime.sinks import SinkDriver, reports
from stateplan.execnodes.runtime.sources import Sources
from stateplan.execnodes.runtime.spark.cluster import check_reach, meet_executors
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

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@dataclass
class Progress:
    """Figures of a running job, since it started.

    Attributes:
        batch: id of the last finished micro-batch, -1 before the first.
        rows_in: rows read, over all tables.
        rows_out: rows written, over all sinks.
        seconds: since the start.
        operators: per operator uid, its figures (:data:`execnodes.runtime.metrics.figures.FIGURES`, and
        ``state_bytes`` and
            ``state_rows``, by how much its runs grew), those of the micro-batch in hand as far as they are known.
        sinks: per sink, rows written.
        batch_seconds: duration of the last finished micro-batch.
    """

    batch: int = -1
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    operators: dict[str, dict[str, float]] = field(default_factory=dict)
    sinks: dict[str, int] = field(default_factory=dict)
    batch_seconds: float = 0.0


OnProgress = Callable[[Progress], None]

_FEW_TASKS = 40

_jobs: dict[AnyPath, JobResult] = {}
"""The jobs of this process that have not been closed, by checkpoint directory."""


class JobResult:
    """A started job.

    Attributes:
        job_id: Spark's id of the query; the same after a restart from the same checkpoint.
        bounded: whether the job ends by itself.
        checkpoint: the directory.
    """

    def __init__(
        self,
        query: StreamingQuery,
        run: _Run,
        bounded: bool,
        on_progress: OnProgress | None,
        ending: Callable[[], StreamingQuery | None] | None = None,
    ) -> None:
        self._query = query
        self._run = run
        self._on_progress = on_progress
        self._ending = ending
        self.job_id = str(query.id)
        self.checkpoint = run.checkpoint.folder
        self.bounded = bounded
        self._closed = False

    @property
    def progress(self) -> Progress:
        """The figures so far."""
        return self._run.progress()

    @property
    def metrics(self) -> tuple[BatchMetrics, ...]:
        """A record for each micro-batch that this run has committed, oldest first: the last
        :data:`execnodes.runtime.metrics.job_metrics.RECENT`."""
        return tuple(self._run.metrics.recent)

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the job has ended, at most ``timeout`` seconds; whether it has.

        Raises:
            StateplanError: what made the job fail.
            KeyboardInterrupt: after the job was stopped cleanly.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while True:
                left = 0.2 if deadline is None else deadline - time.monotonic()
                step = max(0.001, min(0.2, left))  # Spark counts milliseconds, from 1
                with between_calls():
                    ended = self._await(step)
                    if self._on_progress is not None:
                        self._on_progress(self.progress)
                    self._run.settle()
                    if ended and not self._goes_on():
                        self.close()
                        return True
                if deadline is not None and time.monotonic() >= deadline:
                    return False
        except KeyboardInterrupt:
            self.stop()
            raise

    def _goes_on(self) -> bool:
        """Whether the job, out of input, has event time to bring to its end, and begins with it."""
        ending, self._ending = self._ending, None
        query = ending() if ending is not None else None
        if query is not None:
            self._query = query
        return query is not None

    def _await(self, seconds: float) -> bool:
        try:
            return _ended(self._query, self._run, seconds)
        except StateplanError:
            self.close()
            raise

    def stop(self) -> None:
        """Stops the job after the micro-batch in hand; the checkpoint stays usable."""
        self._ending = None
        with contextlib.suppress(Exception):
            self._query.stop()
        self.close()

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is left to run."""
        return self._ending is None and not self.is_active

    def close(self) -> None:
        """Gives back what the job, which has ended, keeps for itself; waiting for it does so too."""
        if not self._closed:
            self._closed = True
            _jobs.pop(self.checkpoint, None)
            self._run.close()


class Notices:
    """Tells the user what the figures of a micro-batch say of a job that goes on: once per operator, of retractions
    that found no row in its state; once, that local disk does not take what workers would read again.

    Args:
        operators: those with state.
        folder: of the workers' run cache.
        tell: is told, a line each.
    """

    def __init__(self, operators: Sequence[OperatorSpec], folder: str | None, tell: Callable[[str], None]) -> None:
        self._names = {o.uid: o.name for o in operators}
        self._folder = folder
        self._tell = tell
        self._full = False

    def look(self, counters: Mapping[str, Mapping[str, float]]) -> None:
        """Looks at the figures of the operators after a micro-batch."""
        for uid in [u for u in self._names if counters.get(u, {}).get("retractions_missed")]:
            name, count = self._names.pop(uid), int(counters[uid]["retractions_missed"])
            found, rows = ("retraction", "its row") if count == 1 else ("retractions", "their rows")
            self._tell(
                f"{name}: {count} {found} found nothing, because the state of {rows} had expired or {rows} never "
                "arrived; results may contain outdated rows (reported once per operator)"
            )
        if not self._full and any(figures.get("cache_unwritten") for figures in counters.values()):
            self._full = True
            self._tell(
                f"local disk is full or cannot be written ({self._folder or 'of an executor'}): runs of state are read "
                "from the state store again, which is slower; free disk space, or set "
                f"'{CACHE_DIR}' to another folder (reported once)"
            )


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
    endpoints: list[Endpoint] = field(default_factory=list)
    query: StreamingQuery | None = None
    began: float = field(default_factory=time.monotonic)
    batch: int = -1
    batch_seconds: float = 0.0
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
        record = self.metrics.end(batch_id)
        self.batch = batch_id
        self.batch_seconds = record.ms / 1000
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
        operators = self.metrics.figures()
        names = {s.uid for s in self.job.sources}
        return Progress(
            self.batch,
            int(sum(f.get("rows_in", 0) for uid, f in operators.items() if uid in names)),
            sum(self.sinks.written),
            time.monotonic() - self.began,
            operators,
            {s.name: rows for s, rows in zip(self.sinks.sinks, self.sinks.written, strict=True)},
            self.batch_seconds,
        )

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
) -> JobResult:
    """Starts a plan as one streaming query.

    Args:
        graph: the plan.
        options: session options, by Flink's keys; ``spark.*`` are handed to Spark.
        plan_text: the plan as it is stored in the checkpoint directory.
        console: gets notes for the user, a line each.
        on_progress: called about five times a second while :meth:`JobResult.wait` waits.
        check_restart: judges how the plan may go on from the state of the plan that wrote the checkpoint.
        spark: a session of the user's to run in.

    Raises:
        StateplanError: anything that keeps the plan from starting.
    """
    for ended in [job for job in _jobs.values() if job.has_ended]:
        ended.close()
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
        job = translate(graph, options, checkpoint.key_groups, job_id=checkpoint.id, started=checkpoint.created)
        job = checkpoint.fit(job)
        serving = reporters(options)
        sources = Sources(job, options, checkpoint.splits)
        sources.prepare()
        bounded = sources.bounded()
        sinks = SinkDriver(job.sinks)
        ttls = checkpoint.ttls(job, graph, tell)
        if elsewhere and spark is not None:
            check_reach(spark, reach(job, checkpoint), options, tell)
        checkpoint.adopt()
        ttls.settle()
        spark = job_session(spark or spark_of(options, lasting=not bounded, tweaks=tweaks), options)
        info = job_info(graph, job, options, checkpoint.next_batch())
        cache = cache_settings(options, tell, shared=not elsewhere)
        shipped, counters = Shipped(job, cache), Counters(spark)
        metrics = JobMetrics(info, counters, checkpoint, tell)
        notices = Notices(job.operators, cache.folder, tell)
        run = _Run(spark, job, checkpoint, ttls, sources, sinks, cache, tweaks, metrics, notices)
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
            if going.batch < 0 and sources.closed:
                return None
            sources.close()
            return start()

        if checkpoint.rescale is not None:
            if checkpoint.rescale.pending is not None:
                _finish(start(pending=True), run)
            repartition(spark, checkpoint.spark, checkpoint.rescale, tell)
        elif checkpoint.parallelism is not None:
            checkpoint.spark.sweep(checkpoint.parallelism)
        query = start()
        sources.start(run.fail)
    except BaseException:
        if run is not None:
            run.close()
        else:
            checkpoint.close()
        raise
    result = JobResult(query, run, bounded, on_progress, end if bounded and job.event_time else None)
    _jobs[checkpoint.folder] = result
    return result


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
