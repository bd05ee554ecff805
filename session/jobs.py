"""The jobs of this process: what SHOW JOBS lists and STOP JOB stops. Source: FLIP-24, and Flink's job statements."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stateplan.common.errors import Place, RunError, StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import hex_id
from stateplan.execnodes.shadows import has_shadow
from stateplan.planner.catalog.functions import CatalogFunction

if TYPE_CHECKING:
    from stateplan.common.paths import AnyPath
    from stateplan.runtime.job import Job, Progress
    from stateplan.runtime.metrics.view import JobView

CHECKPOINT_DIR = "execution.checkpointing.dir"

RESTARTING = "RESTARTING"
"""The status of a job that is about to be started again. Source: Flink's ``JobStatus``."""

MAX_ENDED_JOBS = 200
"""How many jobs that have ended are kept, and as many queries. Flink's ``jobstore.max-capacity``."""

_IDLE_MS = 10_000
"""A job that was started so long ago and has no micro-batch in hand has no input."""

_LAST = 30
"""How many records of a job that has ended are kept in memory."""


@dataclass
class JobRecord:
    """What it takes to start a job, again if need be.

    Attributes:
        name: ``pipeline.name``, or what Flink calls such a job.
        statement: its text.
        plan: with the whole of every table; None for a query, whose rows nobody waits for after a restart.
        functions: the functions of the session: a plan only names them.
        options: the options of the session.
        id: the id of the job; of one that is new here, until it has a checkpoint, the one that it would have.
        checkpoint: its directory.
        started: ms since 1970; None before it has been started for the first time.
        replaces: the id of the suspended job that it continues; that one is over as soon as it begins.
    """

    name: str
    statement: str
    plan: str | None = None
    functions: tuple[CatalogFunction, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    id: str | None = None
    checkpoint: str | None = None
    started: int | None = None
    replaces: str | None = None


class JobJournal(Protocol):
    """Keeps what is to outlive this process: the jobs that a gateway starts again."""

    def place(self, record: JobRecord) -> str:
        """Sets the id of a job that is about to start, and gives it a directory for its checkpoint."""

    def has_placed(self, checkpoint: str) -> bool:
        """Whether a directory is one that it gave to a job."""

    def started(self, record: JobRecord) -> None:
        """The job begins now; called before it does anything. Raises StateplanError when it must not."""

    def replanned(self, record: JobRecord) -> None:
        """A running job has another plan now."""

    def withdrawn(self, record: JobRecord) -> None:
        """It could not be started after all; not called for a job that was started before."""

    def ended(self, entry: JobEntry) -> None:
        """It has ended."""


@dataclass(frozen=True)
class PlanChange:
    """What ALTER JOB does with a job.

    Attributes:
        stage: what it does now, in words.
        progress: of the job that makes state from history; None if none has run since the stage began.
    """

    stage: str
    progress: Progress | None = None


@dataclass
class JobEntry:
    """A job that was started here.

    Attributes:
        id: 32 hexadecimal digits.
        name: ``pipeline.name``, or what Flink calls such a job.
        statement: its text.
        started: ms since 1970.
        ended: likewise; None while it runs.
        status: a status of Flink's ``JobStatus``: RUNNING, RESTARTING, FINISHED, FAILED or CANCELED.
        error: what it failed of.
        job: to ask and to stop while it runs.
        checkpoint: its directory.
        plan: its text; None for a query.
        options: the options of the session.
        last: its figures when it ended.
        savepoint: the path of the one that it was stopped with.
        record: what it takes to start it again.
        suspended: whether it is stopped to be continued, by another plan or by its own.
        change: of its plan, while that is under way.
    """

    id: str
    name: str
    statement: str
    started: int
    job: Job | None = field(default=None, repr=False)
    ended: int | None = None
    status: str = "RUNNING"
    error: str | None = None
    checkpoint: AnyPath | None = None
    plan: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    last: JobView | None = field(default=None, repr=False)
    savepoint: str | None = None
    record: JobRecord | None = field(default=None, repr=False)
    suspended: bool = False
    change: PlanChange | None = None

    @property
    def is_running(self) -> bool:
        return self.ended is None


class Jobs:
    """Jobs by the order of their start. Safe to use from several threads.

    Args:
        journal: keeps them beyond this process; None to keep nothing.
        savepoint_dir: directory for savepoints where no option names one.
        told: called with each job, but no query, that has started or ended.

    Attributes:
        restarts: asked of a job that the journal keeps and that has failed, with whether the failure counts against it;
            whether it will be started again.
    """

    def __init__(
        self,
        journal: JobJournal | None = None,
        savepoint_dir: str | None = None,
        notify: Callable[[JobEntry], None] = lambda entry: None,
    ) -> None:
        self._entries: dict[str, JobEntry] = {}
        self._lock = threading.Lock()
        self._journal = journal
        self._savepoint_dir = savepoint_dir
        self._notify = notify
        self.restarts: Callable[[JobRecord, StateplanError, bool], bool] = lambda record, error, counts: False
        self._last_failure: tuple[str, frozenset[str], frozenset[str]] | None = None

    @contextmanager
    def starting(
        self, record: JobRecord, options: Mapping[str, str]
    ) -> Iterator[tuple[Mapping[str, str], Callable[[str, str], None]]]:
        """Around the start of a job: gives the options to start it with, and what is to be called with its id and
        the directory of its checkpoint right before it begins."""
        journal = self._journal if record.plan is not None else None
        record.options = dict(options)
        is_restart, is_reported = record.started is not None, False
        old_entry = None if record.replaces is None or is_restart else self.find(record.replaces)
        settings = options
        if journal is not None:
            checkpoint = record.checkpoint = options.get(CHECKPOINT_DIR) or journal.place(record)
            settings = {**options, CHECKPOINT_DIR: checkpoint}

        def begins(job_id: str, folder: str) -> None:
            nonlocal is_reported
            if old_entry is not None:
                if old_entry.status != RESTARTING:  # somebody has stopped it meanwhile
                    raise RunError("RUN052", id=old_entry.id, status=old_entry.status)
                old_entry.status = "FINISHED"
            is_reported = True
            if journal is not None:
                record.id, record.checkpoint, record.started = hex_id(job_id), folder, record.started or _now_millis()
                journal.started(record)

        try:
            yield settings, begins
        except BaseException:
            if is_reported and old_entry is not None:
                old_entry.status = RESTARTING
            if is_reported and journal is not None and not is_restart:
                journal.withdrawn(record)
            raise
        if old_entry is not None:
            self._close(old_entry)

    def add(self, job: Job, record: JobRecord) -> JobEntry:
        """A job that has just been started; its entry follows it to its end."""
        entry = JobEntry(hex_id(job.job_id), record.name, record.statement, record.started or _now_millis(), job)
        entry.checkpoint, entry.plan, entry.options = job.checkpoint, record.plan, record.options
        entry.record = record
        self.list(entry)
        if entry.plan is not None:
            self._notify(entry)
        job.when_over(lambda ended_job: self._end(entry, ended_job, record))
        return entry

    @property
    def are_durable(self) -> bool:
        """Whether jobs outlive this process, with a checkpoint each."""
        return self._journal is not None

    def list(self, entry: JobEntry) -> None:
        """Adds an entry, in the place of an earlier run from the same checkpoint."""
        with self._lock:
            self._entries[entry.id] = entry
            for queries in (False, True):  # which must not push the others out
                ended_entries = (e for e in self._entries.values() if not e.is_running and (e.plan is None) is queries)
                oldest_first = sorted(ended_entries, key=lambda e: e.started)
                for old in oldest_first[: max(0, len(oldest_first) - MAX_ENDED_JOBS)]:
                    del self._entries[old.id]

    def _counts(self, entry: JobEntry, job: Job) -> bool:
        """Whether the failure of a job counts against it: it does not where another one is to blame for the end of the
        Spark in which both ran."""
        if job.error is None or job.error.code != "RUN019" or job.runs_in is None:
            return True
        with self._lock:
            if self._last_failure is None or self._last_failure[0] != job.runs_in:
                views = ((e.id, e.job.view) for e in self._entries.values() if e.job and e.job.runs_in == job.runs_in)
                progress = {name: (view.batches, view.in_hand is not None) for name, view in views}
                blamed = to_blame(progress)
                self._last_failure = job.runs_in, blamed, frozenset(progress) - blamed
            return entry.id in self._last_failure[1]

    def are_settled(self) -> bool:
        """Whether the jobs that were not to blame for the last end of Spark have settled again."""
        with self._lock:
            names = frozenset[str]() if self._last_failure is None else self._last_failure[2]
        return all(map(self.has_settled, names))

    def has_settled(self, job_id: str) -> bool:
        """Whether a job that was started again has finished a micro-batch, has none in hand, or has ended."""
        with self._lock:
            entry = self._entries.get(job_id)
            last_application = None if self._last_failure is None else self._last_failure[0]
        if entry is None or entry.ended is not None:
            return True
        job = entry.job
        if job is None or job.runs_in == last_application:
            return False  # it is being started again
        view = job.view
        return view.batches > 0 or job.is_idle or (view.in_hand is None and view.now - view.info.started > _IDLE_MS)

    def _end(self, entry: JobEntry, job: Job, record: JobRecord) -> None:
        counts = self._counts(entry, job)
        restarts = job.error is not None and record.plan is not None and self.restarts(record, job.error, counts)
        entry.status = RESTARTING if restarts else job.status.value
        entry.error = None if job.error is None else str(job.error)
        view = job.view
        entry.last = replace(view, recent=view.recent[-_LAST:], writer=None)
        entry.job = None
        if restarts:
            return
        if entry.suspended and job.error is None:
            entry.status = RESTARTING
            return
        self._close(entry)

    def _close(self, entry: JobEntry) -> None:
        """A job has ended, with the status and the error that its entry says."""
        entry.ended = _now_millis()
        if self._journal is not None:
            self._journal.ended(entry)
        if entry.plan is not None:
            self._notify(entry)

    def entries(self) -> Sequence[JobEntry]:
        """All that are remembered, the newest first."""
        with self._lock:
            return sorted(self._entries.values(), key=lambda entry: entry.started)[::-1]

    def find(self, job_id: str, place: Place | None = None) -> JobEntry:
        """The job of an id, with or without dashes.

        Raises:
            RunError: RUN060, it does not exist.
        """
        with self._lock:
            entry = self._entries.get(hex_id(job_id))
            if entry is not None:
                return entry
            known_ids: Sequence[str] = list(self._entries)
        raise RunError("RUN060", id=job_id, place=place, hint=nearest(hex_id(job_id), known_ids))

    def successors(self) -> Mapping[str, JobEntry]:
        """By id of a job that another one has replaced, the other one."""
        entries = reversed(self.entries())
        return {entry.record.replaces: entry for entry in entries if entry.record and entry.record.replaces}

    def stop(self, job_id: str, place: Place | None = None) -> None:
        """Stops a job after its micro-batch in hand, and waits for that.

        Raises:
            RunError: RUN060, no job has this id; RUN052, it has ended.
        """
        entry = self.find(job_id, place)
        if entry.status != RESTARTING:
            self._running_job(job_id, place)[1].stop()
            return
        entry.status, entry.ended = "CANCELED", _now_millis()
        if self._journal is not None:
            self._journal.ended(entry)

    def save(self, job_id: str, options: Mapping[str, str], drain: bool = False, place: Place | None = None) -> str:
        """Stops a job with a savepoint, waits for it, and returns the path of the savepoint.

        Args:
            job_id: the id of the job.
            options: the options of the session.
            drain: see :meth:`runtime.job.Job.stop_with_savepoint`.
            place: the place of the id in the statement.

        Raises:
            RunError: RUN060, no job has this id; RUN052, it has ended; RUN058, no directory for savepoints is
                configured; RUN059, the job has no checkpoint; RUN067, it has a shadow.
            StateplanError: the savepoint cannot be written.
        """
        from stateplan.plans.document import PlanDocument
        from stateplan.runtime.checkpoint.savepoint import SAVEPOINT_DIR, new_savepoint

        entry, job = self._running_job(job_id, place)
        if entry.plan is not None and has_shadow(PlanDocument.parse(entry.plan).graph):
            raise RunError("RUN067", id=entry.id, has="has", place=place)
        savepoint_options = (
            {SAVEPOINT_DIR: self._savepoint_dir} if self._savepoint_dir and not options.get(SAVEPOINT_DIR) else {}
        )
        folder = new_savepoint({**options, **savepoint_options}, entry.id)
        job.stop_with_savepoint(folder, drain)
        entry.savepoint = f"file:{folder}" if isinstance(folder, Path) else str(folder)
        return entry.savepoint

    def suspend(self, entry: JobEntry, place: Place | None = None) -> None:
        """Stops a job at the end of its micro-batch in hand, to be continued: until then its status is RESTARTING, and
        a journal has it as running.

        Raises:
            RunError: RUN052, it has ended.
            StateplanError: what made it fail meanwhile.
        """
        _, job = self._running_job(entry.id, place)
        entry.suspended = True
        try:
            job.finish()
        except BaseException:
            entry.suspended = False
            if entry.status == RESTARTING and entry.job is None:  # it came to its end by itself
                self.give_up(entry)
            raise

    def give_up(self, entry: JobEntry, error: StateplanError | None = None) -> None:
        """A suspended job is not continued, because it has come to its end by itself, or because of an error.

        Raises:
            RunError: RUN052, somebody has stopped it meanwhile.
        """
        if entry.status != RESTARTING:
            raise RunError("RUN052", id=entry.id, status=entry.status)
        entry.status = "FINISHED" if error is None else "FAILED"
        entry.error = None if error is None else str(error)
        self._close(entry)

    def replan(self, entry: JobEntry, plan: str) -> None:
        """A running job has another plan now, and so has its checkpoint."""
        assert entry.record is not None
        entry.plan = entry.record.plan = plan
        if self._journal is not None:
            self._journal.replanned(entry.record)

    def place_beside(self, checkpoint: str, record: JobRecord) -> str | None:
        """A directory for the checkpoint of a job that takes the place of another one, from where that was given its
        directory ``checkpoint``, and sets its id; None where the user gave it."""
        if self._journal is None or not self._journal.has_placed(checkpoint):
            return None
        return self._journal.place(record)

    def _running_job(self, job_id: str, place: Place | None) -> tuple[JobEntry, Job]:
        """A job that runs. Raises RunError RUN060, RUN052."""
        entry = self.find(job_id, place)
        job = entry.job
        if job is None:
            raise RunError("RUN052", id=entry.id, status=entry.status, place=place)
        return entry, job


def to_blame(jobs: Mapping[str, tuple[int, bool]]) -> frozenset[str]:
    """The jobs that may have brought their Spark to its end, by memory that they took say. A micro-batch that does so
    does it again when it is repeated.

    Args:
        jobs: by id, how many micro-batches each has finished since it was started, and whether one was in hand.

    Returns:
        Those with their first micro-batch in hand. If there are none, those with any in hand; if there are none either,
        all.
    """
    busy = {name: batches for name, (batches, in_hand) in jobs.items() if in_hand}
    return frozenset([name for name, batches in busy.items() if not batches] or busy or jobs)


JOBS = Jobs()
"""Those of every session of this process that has no others."""


def _now_millis() -> int:
    return time.time_ns() // 1_000_000
