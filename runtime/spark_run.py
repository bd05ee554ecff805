"""What lives as long as a job of Spark, and the queries that it runs one after another."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import hex_id
from stateplan.common.roots import holding
from stateplan.runtime.budget import Budget
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.live_ttl import LiveTtls
from stateplan.runtime.checkpoint.locks import name_spark
from stateplan.runtime.completion_forecast import Forecaster
from stateplan.runtime.interrupts import between_calls
from stateplan.runtime.job import Progress
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.memory import CacheSettings
from stateplan.runtime.metrics.counters import SparkCounters
from stateplan.runtime.metrics.job_metrics import JobMetrics
from stateplan.runtime.metrics.prometheus import Endpoint, Reporter
from stateplan.runtime.notices import Notices
from stateplan.runtime.progress import progress_of
from stateplan.runtime.readers import KeptReaders
from stateplan.runtime.sinks import SinkDriver, for_driver, reports
from stateplan.runtime.sources import Sources
from stateplan.runtime.spark.collect import run_batch
from stateplan.runtime.spark.damage import explain
from stateplan.runtime.spark.jvm_loss import is_of_spark
from stateplan.runtime.spark.local_spark import adapt_query
from stateplan.runtime.spark.query import Shipment, build
from stateplan.runtime.spark.tasks import ACTIVE_PLAN, TTLS, WATERMARKS
from stateplan.runtime.spark.tweaks import LAST_BATCH, Tweaks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_FEW_TASKS = 40


@dataclass
class Run:
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
    counters: SparkCounters
    metrics: JobMetrics
    notices: Notices
    budget: Budget | None
    forecast: Forecaster
    endpoints: list[Endpoint] = field(default_factory=list)
    query: StreamingQuery | None = None
    began: float = field(default_factory=time.monotonic)
    failure: StateplanError | None = None
    over: StateplanError | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Runs one micro-batch: Spark's ``foreachBatch``."""
        with self._lock, holding(self.job.roots):
            self._on_batch(frame, batch_id)

    @contextlib.contextmanager
    def between_batches(self) -> Iterator[None]:
        """Within, no micro-batch runs, and Spark has committed the last one.

        Raises:
            RunError: RUN052, the job has ended.
        """
        with self._lock:
            spark, begun = self.checkpoint.spark, self.metrics.begun
            while spark.last_done < begun:
                if self.query is None or not self.query.isActive:
                    raise RunError("RUN052", id=hex_id(self.metrics.info.job_id), status="being stopped")
                time.sleep(0.002)
            yield

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        if self.over is not None:
            self.failure = self.over
            raise self.over
        self.metrics.begin(batch_id, self.query)
        self._still_ours()
        if not self.sources.begin():
            self.tweaks.lose(LAST_BATCH, "it read fewer files in a micro-batch than expected")
        ttls = self.ttls.take_in(batch_id)
        if ttls is not None:
            self.spark.sparkContext.setLocalProperty(TTLS, ttls)
        if self.sinks.active_plan != "both":
            self.spark.sparkContext.setLocalProperty(ACTIVE_PLAN, self.sinks.active_plan)
        if self.job.readers:
            marks = json.dumps(self.readers.begin(batch_id))
            self.spark.sparkContext.setLocalProperty(WATERMARKS, marks)
        try:
            self.sinks.prepare(batch_id, self.checkpoint.begin(batch_id, self.ttls, self.readers))
            report_blobs = run_batch(frame, self.metrics.info.name, self._many_reports, self.tweaks)
            self._still_ours()
            sink_reports = reports(report_blobs)
            self.metrics.commit()
            self.sinks.commit(sink_reports, batch_id)
            self.readers.end(batch_id, for_driver(sink_reports))
            record = self.metrics.end(batch_id)
            self.sources.advance(record, self.metrics.parts)
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
        """How far the job has advanced."""
        return progress_of(self.job, self.metrics, self.sinks, self.forecast, self.began)

    def serve(self, reporters: Sequence[Reporter], tell: Callable[[str], None]) -> None:
        """Serves the figures to Prometheus. Raises RunError RUN084."""
        for reporter in reporters:
            self.endpoints.append(Endpoint(reporter, self.metrics.view))
            tell(f"serving metrics for Prometheus on port {self.endpoints[-1].port}")

    def identify(self, query: StreamingQuery) -> StreamingQuery:
        """``query`` runs from now on."""
        self.query = query
        if self.checkpoint.lock is not None:
            name_spark(self.checkpoint.lock)
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
class Queries:
    """The queries of a job, one at a time and one after another, from the same checkpoint.

    Attributes:
        interval: between micro-batches of an unbounded job, in milliseconds.
        name: the name of the query.
    """

    run: Run
    shipped: Shipment
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
            run.counters.tasks,
            lambda: run.sources.closing_frame(run.spark),
        )

    def start(self) -> StreamingQuery:
        """The query that does what the job is for."""
        if self.run.job.bounded:
            return self._start(availableNow=True)
        return self._start(processingTime=f"{self.interval} milliseconds")

    def finish(self) -> None:
        """Runs the micro-batch that was planned last, and waits for it. Raises what it fails of."""
        _finish(self._start(once=True), self.run)

    def last(self) -> StreamingQuery | None:
        """The query that brings event time to its end when bounded input has ended; None if there is nothing to bring
        to its end."""
        run = self.run
        if not run.job.event_time or run.job.open_ended or run.sources.end_themselves:
            return None
        if not run.metrics.batches and run.sources.has_ended:
            return None
        run.sources.close()
        return self.start()

    def drain(self) -> None:
        """Brings event time to its end after one more micro-batch, and waits for that. Raises what it fails of."""
        run = self.run
        if run.job.event_time and not run.sources.has_ended:
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
        return run.identify(query)


def has_ended(query: StreamingQuery, run: Run, seconds: float) -> bool:
    """Whether a query ends within ``seconds``. One that has ended left the active queries of Spark: the next one may
    have its name.

    Raises:
        StateplanError: what made it fail.
    """
    from pyspark.errors import StreamingQueryException

    try:
        is_over = bool(query.awaitTermination(seconds))
        if is_over:
            # With a timeout, Spark answers as soon as the query is over, while it is still registered.
            query.awaitTermination()
    except StreamingQueryException as failure:
        raise run.failure or explain(failure, run.checkpoint.spark, run.job.operators) from failure
    if is_over and run.failure is not None:
        raise run.failure
    return is_over


def _finish(query: StreamingQuery, run: Run, batches: int | None = None) -> None:
    """Waits for the end of a query, or stops it after so many micro-batches; stops it when interrupted."""
    last_batch = None if batches is None else run.metrics.batches + batches
    is_over = False
    try:
        while not is_over:
            with between_calls():
                is_over = has_ended(query, run, 0.2)
                if last_batch is not None and run.metrics.batches >= last_batch and not query.status["isTriggerActive"]:
                    query.stop()
    except KeyboardInterrupt:
        query.stop()
        raise


@contextlib.contextmanager
def _explaining(run: Run) -> Iterator[None]:
    """Adds the code to errors that Spark raises within the block."""
    try:
        yield
    except Exception as failure:
        if is_of_spark(failure):
            raise explain(failure, run.checkpoint.spark, run.job.operators) from failure
        raise
