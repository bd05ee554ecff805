"""A started job, on any engine: its status, its figures, its end.

:class:`runtime.streaming.SparkJob` is a job of Spark, :class:`runtime.local.job.LocalJob` a plan over
little input that this process runs itself. Importing this module loads no engine.
"""

from __future__ import annotations

import enum
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from stateplan.common.errors import RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import hex_id
from stateplan.runtime.interrupts import between_calls

if TYPE_CHECKING:
    from stateplan.common.paths import AnyPath
    from stateplan.runtime.completion_forecast import Forecast
    from stateplan.runtime.metrics.records import BatchMetrics
    from stateplan.runtime.metrics.view import JobView


@dataclass
class Progress:
    """Figures of a running job, since it started.

    Attributes:
        batch: id of the last finished micro-batch, -1 before the first.
        rows_in: rows read, over all tables.
        rows_out: rows written, over all sinks.
        seconds: since the start.
        operators: per operator uid, its figures (:data:`runtime.metrics.figures.FIGURES`, and
            ``state_bytes`` and ``state_rows``, by how much its runs grew), those of the micro-batch in hand as far as
            they are known.
        sinks: per sink, rows written.
        batch_seconds: duration of the last finished micro-batch.
        forecast: how much of the input has been dealt with, and when the rest will be; None if that is not known.
    """

    batch: int = -1
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    operators: dict[str, dict[str, float]] = field(default_factory=dict)
    sinks: dict[str, int] = field(default_factory=dict)
    batch_seconds: float = 0.0
    forecast: Forecast | None = None


OnProgress = Callable[[Progress], None]


class JobStatus(enum.Enum):
    """The status of a job. Source of the names: Flink's ``JobStatus``."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"

    @property
    def has_ended(self) -> bool:
        return self is not JobStatus.RUNNING


class Job(ABC):
    """A started job. A thread of its own sees it to its end, so a job ends and gives back what it holds whether or not
    somebody waits for it.

    Attributes:
        job_id: the same after a restart from the same checkpoint.
        is_bounded: whether the job ends by itself.
        checkpoint: the directory; None for a job without one.
        error: what made it fail; None otherwise.
        runs_in: names the Spark that it runs in, with which it dies; None without one.
    """

    runs_in: str | None = None

    def __init__(
        self, job_id: str, is_bounded: bool, checkpoint: AnyPath | None, on_progress: OnProgress | None
    ) -> None:
        self.job_id = job_id
        self.bounded = is_bounded
        self.checkpoint = checkpoint
        self.error: StateplanError | None = None
        self._on_progress = on_progress
        self._was_stopped = False
        self._end: JobStatus | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._when_over: list[Callable[[Job], None]] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({hex_id(self.job_id)}, {self.status.value})"

    @property
    @abstractmethod
    def progress(self) -> Progress:
        """The figures so far."""

    @property
    @abstractmethod
    def metrics(self) -> tuple[BatchMetrics, ...]:
        """A record for each micro-batch that this run has committed, oldest first: the last
        :data:`runtime.metrics.job_metrics.RECENT`."""

    @property
    @abstractmethod
    def view(self) -> JobView:
        """The job as it is now."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What its figures have said so far that its user should hear, a sentence or two each: results that expired
        state has made incomplete, windows that were open when the input ended."""

    @property
    def is_idle(self) -> bool:
        """Whether it has looked for input, found nothing new, and waits until it looks again."""
        return False

    @abstractmethod
    def stop(self) -> None:
        """Stops the job and waits for that. What it has committed stays; its checkpoint stays usable."""

    def stop_with_savepoint(self, folder: AnyPath, drain: bool = False) -> None:
        """Stops the job after the micro-batch in hand, and copies its checkpoint. The job has FINISHED then.

        Args:
            folder: where the savepoint is written. It does not exist yet.
            drain: whether event time is brought to its end first, so that all windows are complete.

        Raises:
            RunError: RUN052, the job has ended or is being stopped; RUN059, it has no checkpoint.
            CheckpointError: CKPT074, the savepoint cannot be written; the job continues.
            StateplanError: what made the job fail meanwhile.
        """
        raise RunError("RUN059", id=self.job_id)

    def finish(self) -> None:
        """Stops the job at the end of the micro-batch in hand, so that another job can continue from its checkpoint.
        The job has FINISHED then. Raises as :meth:`stop_with_savepoint`."""
        raise RunError("RUN059", id=self.job_id)

    @property
    def status(self) -> JobStatus:
        """Its current status."""
        return self._end or JobStatus.RUNNING

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is left to run."""
        return self._over.is_set()

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        return not self._over.is_set()

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
                with between_calls():
                    is_over = self._over.wait(max(0.0, min(0.2, left)))
                    if self._on_progress is not None:
                        self._on_progress(self.progress)
                if is_over:
                    if self.error is not None:
                        raise self.error
                    return True
                if deadline is not None and time.monotonic() >= deadline:
                    return False
        except KeyboardInterrupt:
            with between_calls():
                self.stop()
            raise

    def when_over(self, call: Callable[[Job], None]) -> None:
        """Calls ``call`` once when the job has ended, in another thread, or at once if it has ended before.

        Threads that wait for the job continue after these calls, so the calls must not wait for it, and must not raise.
        """
        with self._lock:
            if self._end is None:
                self._when_over.append(call)
                return
        call(self)

    # of the classes of jobs

    @abstractmethod
    def _run_to_end(self) -> None:
        """Returns when the job has ended. Raises what made it fail."""

    @abstractmethod
    def _close(self) -> None:
        """Releases the resources of the job."""

    def _begin(self) -> None:
        """Starts the thread that waits for the end of the job. A constructor calls this last."""
        threading.Thread(target=self._see_to_its_end, name=f"job {self.job_id}", daemon=True).start()

    def _to_stop(self) -> None:
        """Notes that the job, unless it has ended, is stopped from outside."""
        with self._lock:
            if self._end is None:
                self._was_stopped = True

    def _see_to_its_end(self) -> None:
        try:
            self._run_to_end()
        except StateplanError as error:
            self.error = error
        except Exception as bug:
            from stateplan.runtime.failures import known_error

            self.error = known_error(bug) or RunError("RUN001", detail=f"{type(bug).__name__}: {bug}")
            self.error.__cause__ = bug
        try:
            self._close()
        finally:
            self._conclude()

    def _conclude(self) -> None:
        """The job has ended."""
        with self._lock:
            if self._was_stopped:
                self.error, self._end = None, JobStatus.CANCELED
            else:
                self._end = JobStatus.FINISHED if self.error is None else JobStatus.FAILED
            calls, self._when_over = self._when_over, []
        try:
            for call in calls:
                call(self)
        finally:
            self._over.set()
