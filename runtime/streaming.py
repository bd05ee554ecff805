"""A plan that runs as one streaming query of Spark: watch it, stop it."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import field
from typing import TYPE_CHECKING

from stateplan.common.errors import CheckpointError, RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.runtime.checkpoint.savepoint import write_savepoint
from stateplan.runtime.job import Job, OnProgress, Progress
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.metrics.view import JobView
from stateplan.runtime.spark.jvm_loss import jvm_loss
from stateplan.runtime.spark_run import Queries, has_ended

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


class SparkJob(Job):
    """A job of Spark. ``job_id`` is Spark's id of the query.

    Attributes:
        run: what lives as long as the job.
    """

    checkpoint: AnyPath

    def __init__(self, query: StreamingQuery, queries: Queries, on_progress: OnProgress | None) -> None:
        is_bounded = queries.run.job.bounded
        super().__init__(str(query.id), is_bounded, queries.run.checkpoint.folder, on_progress)
        self._query = query
        self.run = queries.run
        self.runs_in = queries.run.spark.sparkContext.applicationId
        self._queries = queries
        self._to_end = is_bounded
        self._saving: _Saving | None = None
        self._ending = False
        self._begin()

    @property
    def progress(self) -> Progress:
        return self.run.progress()

    @property
    def metrics(self) -> tuple[BatchMetrics, ...]:
        return tuple(self.run.metrics.recent)

    @property
    def view(self) -> JobView:
        return self.run.metrics.view()

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self.run.notices.notes)

    @property
    def is_idle(self) -> bool:
        with contextlib.suppress(Exception):  # a query that has ended, or whose JVM has
            status = self._query.status
            is_waiting = not status["isTriggerActive"] and status["message"].startswith("Waiting for")
            return is_waiting and not status["isDataAvailable"]
        return False

    def stop(self) -> None:
        """Stops the job after the micro-batch in hand, and waits for that; the checkpoint stays usable."""
        self._to_stop()
        with self._lock:
            self._to_end = False
        self._stop_query()
        self._over.wait()

    def stop_with_savepoint(self, folder: AnyPath, drain: bool = False) -> None:
        self._end_with(folder, drain)

    def finish(self) -> None:
        self._end_with(None, drain=False)

    def _end_with(self, folder: AnyPath | None, drain: bool) -> None:
        with self._lock:
            if self._ending or self._was_stopped or self._saving is not None:
                raise RunError(
                    "RUN052", id=self.job_id, status="being stopped" if self._end is None else self._end.value
                )
            saving = self._saving = _Saving(folder, drain)
        self._await_micro_batch()
        self._stop_query()
        saving.over.wait()
        if saving.error is not None:
            raise saving.error
        self._over.wait()

    def _await_micro_batch(self) -> None:
        """Returns when a micro-batch ends, or when none is in hand."""
        query, before = self._query, self.run.metrics.batches
        with contextlib.suppress(Exception):
            while query.isActive and query.status["isTriggerActive"] and self.run.metrics.batches == before:
                time.sleep(0.05)

    def _stop_query(self) -> None:
        with self._lock:
            query = self._query
        for writer in self.run.sinks.writers:
            writer.release()
        with contextlib.suppress(Exception):
            query.stop()

    def _run_to_end(self) -> None:
        try:
            while True:
                while not has_ended(self._query, self.run, 0.2):
                    self.run.settle()
                    self.run.stop_over_budget()
                self.run.settle()
                if self._saving is not None:
                    if not self._saves():
                        return
                elif not self._ends_event_time():
                    break
            if self.bounded and not self._was_stopped:
                run = self.run
                run.notices.at_end(run.metrics.pending, keeps_checkpoint=not run.checkpoint.temporary)
        except Exception as failure:
            coded_failure = failure if isinstance(failure, StateplanError) else None
            error = jvm_loss(0.0 if coded_failure else 3.0) or coded_failure
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
        if saving is not None and not saving.over.is_set():
            saving.error = error or RunError("RUN052", id=self.job_id, status="being stopped")
            saving.over.set()

    def _close(self) -> None:
        self.run.close()

    def _ends_event_time(self) -> bool:
        """Whether the job, out of input, has event time to bring to its end, and begins with it."""
        with self._lock:
            query = self._queries.last() if self._to_end else None
            self._to_end = False
            if query is not None:
                self._query = query
        return query is not None

    def _saves(self) -> bool:
        """Writes the savepoint that was requested; whether the job continues, because it cannot be written."""
        saving, queries, checkpoint = self._saving, self._queries, self.run.checkpoint
        assert saving is not None
        if checkpoint.spark.last_planned != checkpoint.spark.last_done:
            queries.finish()
        if saving.drain:
            queries.drain()
        self.run.settle()
        try:
            if saving.folder is not None:
                write_savepoint(checkpoint.folder, saving.folder, saving.drain)
        except CheckpointError as error:
            with self._lock:
                if not self._was_stopped:
                    self._query = queries.start()
                    self._saving = None
            saving.error = error
        saving.over.set()
        return self._saving is None


@dataclass
class _Saving:
    """An end at the end of a micro-batch, and a savepoint that a job is to write when its query has stopped.

    Attributes:
        folder: the folder of the savepoint; None for none.
        drain: whether event time is brought to its end first.
        over: set when it is written, or is not going to be.
        error: why it is not written.
    """

    folder: AnyPath | None
    drain: bool
    over: threading.Event = field(default_factory=threading.Event)
    error: StateplanError | None = None
