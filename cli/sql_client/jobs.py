"""The jobs that a client has started and that keep running: in this process, or at a gateway elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.gateway.client.wire import error_of_text
from stateplan.gateway.protocol import GatewaySession, PageKind
from stateplan.runtime.interrupts import between_calls

if TYPE_CHECKING:
    from stateplan.runtime.job import Progress
    from stateplan.session.jobs import JobEntry, Jobs

LOOK_SECONDS = 5.0
"""How often the client requests the status of jobs from a gateway."""

_FINAL = ("FINISHED", "FAILED", "CANCELED")


@dataclass(frozen=True)
class JobState:
    """How a job stands: its id, Flink's word for it, and what it failed of."""

    id: str
    status: str
    error: str | None = None

    @property
    def is_running(self) -> bool:
        return self.status not in _FINAL


class BackgroundJobs(Protocol):
    """The jobs that statements of this client have started."""

    def add(self, job_id: str) -> None:
        """A statement has started this job."""

    def states(self) -> Sequence[JobState]:
        """How they stand."""

    def close(self) -> None:
        """Nobody asks any more."""


class JobsHere:
    """Jobs of this process.

    Args:
        jobs: the jobs of the process.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._ids: list[str] = []
        self._earlier: set[int] = set()

    def add(self, job_id: str) -> None:
        self._ids.append(job_id)

    def states(self) -> list[JobState]:
        return [JobState(entry.id, entry.status, entry.error) for entry in self._entries()]

    def _entries(self) -> list[JobEntry]:
        """Those of this client; long after their end, jobs are forgotten."""
        ids = set(self._ids)
        return [entry for entry in self._jobs.entries() if entry.id in ids]

    def close(self) -> None:
        """Nothing has to be given back."""

    def mark(self) -> None:
        """Jobs that start from now on are those of the next statement."""
        self._earlier = {id(entry) for entry in self._jobs.entries()}

    def since_mark(self) -> list[JobEntry]:
        """The running jobs that have started since the mark."""
        return [entry for entry in self._jobs.entries() if id(entry) not in self._earlier and entry.job is not None]

    def stop(self, entries: Sequence[JobEntry]) -> list[Progress]:
        """Stops jobs after their micro-batches in hand, and waits for that; their last figures."""
        is_running = [entry.job for entry in entries if entry.job is not None]
        with between_calls():
            stopping = [threading.Thread(target=job.stop, daemon=True) for job in is_running]
            for thread in stopping:
                thread.start()
            for thread in stopping:
                thread.join()
        return [job.progress for job in is_running]

    def stop_all(self) -> list[Progress]:
        """Stops all that statements of this client have started."""
        return self.stop(self._entries())

    def wait(self, on_progress: Callable[[Progress], None]) -> None:
        """Waits until all that statements of this client have started have ended.

        Args:
            on_progress: gets the figures of each that has finished.

        Raises:
            StateplanError: what the first one failed of.
            KeyboardInterrupt: after all of them were stopped.
        """
        error: StateplanError | None = None
        for entry in self._entries():
            job = entry.job
            try:
                if job is not None:
                    job.wait()
                    on_progress(job.progress)
                elif entry.error is not None:
                    raise error_of_text(entry.error)
            except StateplanError as failure:
                error = error or failure
            except KeyboardInterrupt:
                self.stop_all()
                raise
        if error is not None:
            raise error


class JobsElsewhere:
    """Jobs of a gateway. A thread requests their status now and then.

    Args:
        session: asks.
    """

    def __init__(self, session: GatewaySession) -> None:
        self._session = session
        self._states: dict[str, JobState] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, job_id: str) -> None:
        self._states[job_id] = JobState(job_id, "RUNNING")
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._look, name="jobs", daemon=True)
            self._thread.start()

    def states(self) -> list[JobState]:
        return list(self._states.values())

    def close(self) -> None:
        self._closed.set()

    def _look(self) -> None:
        """Looks until none of them runs."""
        while any(state.is_running for state in self.states()) and not self._closed.wait(LOOK_SECONDS):
            try:
                statuses = self._statuses()
            except StateplanError:  # the gateway is away
                return
            for state in self.states():
                if state.is_running:
                    if state.id not in statuses:  # the gateway has forgotten the job
                        return
                    self._states[state.id] = JobState(state.id, statuses[state.id])

    def _statuses(self) -> dict[str, str]:
        """The status of each job of the gateway. DESCRIBE JOB would compare the plans of one with a shadow."""
        operation = self._session.submit("SHOW JOBS")
        try:
            token: int | None = 0
            statuses: dict[str, str] = {}
            while token is not None:
                page = self._session.fetch(operation, token)
                if page.kind is PageKind.NOT_READY:
                    self._closed.wait(0.2)
                elif page.rows:
                    names = [column.name for column in page.columns]
                    job_id, status = names.index("job id"), names.index("status")
                    statuses |= {str(row[job_id]): str(row[status]) for _, row in page.rows}
                token = page.next_token
            return statuses
        finally:
            self._session.close_operation(operation)
