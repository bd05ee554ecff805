"""A plan as a job of this process: no Spark, no checkpoint. It is over little, bounded input, or stores no result.

It runs the functions of Spark's workers over the micro-batches that Spark would make, and hands the rows to the same
sink. So results, figures and errors are those of a job of Spark.
"""

from __future__ import annotations

import atexit
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping

from stateplan.common.errors import RunError, find_encoded
from stateplan.common.roots import hold
from stateplan.common.secrets import Secrets
from stateplan.common.settings import TRACED, value
from stateplan.connectors.registry import clashing_names
from stateplan.connectors.retries import interruptible
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_tables import with_secrets
from stateplan.runtime.clocks import instants
from stateplan.runtime.completion_forecast import Forecaster
from stateplan.runtime.delivery import closing_marks, send_marks
from stateplan.runtime.job import Job, OnProgress, Progress
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.local.arrivals import Arrivals
from stateplan.runtime.local.counters import LocalCounters
from stateplan.runtime.local.eligibility import is_for_here, may_run_here
from stateplan.runtime.local.kept_runs import KeptRuns, ManifestStore
from stateplan.runtime.local.levels import LocalLevels
from stateplan.runtime.local.splits import BatchInput, end_of_time, micro_batches
from stateplan.runtime.metrics.job_metrics import JobMetrics, job_info
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo
from stateplan.runtime.metrics.view import JobView
from stateplan.runtime.notices import Notices
from stateplan.runtime.progress import progress_of
from stateplan.runtime.readers import Readers
from stateplan.runtime.sinks import SinkDriver, for_driver, write_blobs
from stateplan.runtime.translate import translate
from stateplan.runtime.worker import WorkerError

_PATIENCE = 10.0
"""Seconds that a job has to stop."""

_KEY_GROUPS = 1
"""Key groups are there to be spread over tasks."""


class LocalJob(Job):
    """A job of this process.

    Args:
        graph: the job graph.
        info: what its figures are about.
        tell: receives notes for the user, a line each.
        on_progress: see :meth:`Job.wait`.
        is_timed: whether records say when their parts ran, for traces.
    """

    def __init__(
        self,
        graph: JobGraph,
        info: JobInfo,
        tell: Callable[[str], None],
        on_progress: OnProgress | None = None,
        is_timed: bool = False,
    ) -> None:
        super().__init__(str(uuid.uuid4()), graph.bounded, None, on_progress)
        counters = LocalCounters(is_timed)
        self._graph = graph
        self._runs = KeptRuns()
        self._levels = LocalLevels(graph, counters, self._check, self._runs, ManifestStore)
        self._sinks = SinkDriver(graph.sinks)
        self._readers = Readers(graph.readers)
        self._metrics = JobMetrics(info, counters, None, tell)
        self._notices = Notices(graph.operators, None, tell)
        self._forecast = Forecaster(graph, None, 0, len(instants(graph)))
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self._found_nothing = False
        self._metrics.identify(self.job_id, self.job_id)
        atexit.register(self.stop)
        self._begin()

    @property
    def progress(self) -> Progress:
        return progress_of(self._graph, self._metrics, self._sinks, self._forecast, self._began)

    @property
    def metrics(self) -> tuple[BatchMetrics, ...]:
        return tuple(self._metrics.recent)

    @property
    def view(self) -> JobView:
        return self._metrics.view()

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notices.notes)

    @property
    def is_idle(self) -> bool:
        return self._found_nothing

    def stop(self) -> None:
        """Stops the job at once, and waits for that. A function of the user that does not return is left behind, and
        what it computes goes nowhere."""
        self._to_stop()
        self._stopping.set()
        for writer in self._sinks.writers:
            writer.release()
        if not self._over.wait(_PATIENCE):
            self._conclude()

    def _run_to_end(self) -> None:
        with interruptible(self._check):
            self._run()

    def _run(self) -> None:
        graph = self._graph
        hold(graph.roots)
        number, has_ended = -1, False
        try:
            for number, part in enumerate(self._bounded_input() if graph.bounded else self._arrivals()):
                self._batch(number, part)
                has_ended = part.ends
            if graph.event_time and not has_ended:
                self._batch(number + 1, BatchInput(end_of_time(graph), {}, True))
            self._notices.at_end(self._metrics.pending, keeps_checkpoint=False)
        except _StoppedError:
            return
        except WorkerError as failure:
            text = str(failure)
            raise find_encoded(text) or RunError("RUN001.local", detail=text.splitlines()[0]) from failure

    def _bounded_input(self) -> Iterator[BatchInput]:
        """The micro-batches of bounded input."""
        self._metrics.plan()
        for part in micro_batches(self._graph):
            yield part
            self._metrics.plan()

    def _arrivals(self) -> Iterator[BatchInput]:
        """The micro-batches of unbounded input, each when there is some, until the job is stopped."""
        arrivals = Arrivals(self._graph)
        while True:
            self._metrics.plan()
            began = time.monotonic()
            part = arrivals.look()
            took = time.monotonic() - began
            self._found_nothing = part is None
            if part is not None:
                yield part
                arrivals.commit()
            if not arrivals.has_more:
                # A folder with so many files that a look takes long is looked at half of the time.
                self._stopping.wait(max(took, began + arrivals.interval - time.monotonic()))
            self._check()

    def _batch(self, number: int, batch_input: BatchInput) -> None:
        """Runs one micro-batch."""
        self._check()
        self._metrics.begin(number, None)
        self._levels.begin(number, self._readers.begin(number))
        self._sinks.prepare(number)
        blobs = [blob for source, splits in batch_input.splits.items() for blob in self._levels.read(source, splits)]
        if batch_input.ends:
            blobs += send_marks(self._graph, closing_marks(self._graph), batch_input.now)
        writers = [(s.writer, s.name, s.uid) for s in self._graph.sinks]
        slots = [self._graph.sink_slot(i) for i in range(len(writers))]
        reports = write_blobs(writers, number, slots, self._levels.play(blobs), self._levels.micro_batch.counters)
        self._check()
        self._metrics.commit()
        self._sinks.commit(reports, number)
        self._readers.end(number, for_driver(reports))
        self._metrics.end(number)
        self._notices.look(self._metrics.total)

    def _check(self) -> None:
        """Ends what is being done when the job has been stopped."""
        if self._was_stopped:
            raise _StoppedError

    def _close(self) -> None:
        self._sinks.close()
        for source in self._graph.sources:
            source.reader.close()
        self._metrics.close(None)
        self._runs.close()
        atexit.unregister(self.stop)


class _StoppedError(Exception):
    """The job was stopped."""


def execute_locally(
    graph: ExecGraph,
    options: Mapping[str, str],
    *,
    secrets: Secrets | None = None,
    console: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
) -> LocalJob | None:
    """Starts a plan in this process if it is one for it: see :mod:`runtime.local.eligibility`; else None.

    Args:
        graph: its plan, with complete tables.
        options: session options, by Flink's keys.
        secrets: the secrets that references in the plan stand for.
        console: gets notes for the user, a line each.
        on_progress: see :meth:`Job.wait`.

    Raises:
        StateplanError: anything that keeps the plan from starting, here as in Spark.
    """
    if not may_run_here(options):
        return None
    start_time = time.time_ns() // 1_000_000
    graph = with_secrets(graph, secrets or Secrets())
    job = translate(graph, options, _KEY_GROUPS, job_id=uuid.uuid4().hex[:12], start_time=start_time)
    if not is_for_here(graph, job, options):
        return None
    tell = console or (lambda text: None)
    for sentence in clashing_names():
        tell(sentence)
    return LocalJob(job, job_info(graph, job, options, 0), tell, on_progress, value(options, TRACED))
