"""The jobs of a gateway on disk, so that a gateway that was killed starts them again. A folder each: ``job.json``,
``plan.json`` with the whole of every table, and the checkpoint of a job that the user gave none.

A job is written down before it begins, and struck out when it has ended. A gateway that stops leaves its jobs as
running: as with Flink's high availability, the next one continues with them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stateplan.common.errors import GatewayError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import write_whole
from stateplan.common.readable import hex_id
from stateplan.common.redaction import redacted_options
from stateplan.planner.catalog.functions import CatalogFunction
from stateplan.planner.catalog.objects import ObjectIdentifier
from stateplan.runtime.checkpoint.locks import FileLock, Holder
from stateplan.session.jobs import MAX_ENDED_JOBS, JobEntry, JobRecord

_log = logging.getLogger("stateplan.gateway")

LOCK = "gateway.lock"
_JOB, _PLAN, _CHECKPOINT = "job.json", "plan.json", "checkpoint"
_FORMAT = 1
RUNNING = "RUNNING"


@dataclass(frozen=True)
class StoredJob:
    """A job as it is on disk: what started it, and how it ended."""

    record: JobRecord
    status: str
    ended: int | None = None
    error: str | None = None


class JobStore:
    """The jobs of a gateway. The process that has it is the only one.

    Args:
        folder: the folder of the gateway, made if need be. Only its owner can look into it. Secrets of tables and
            sessions are not in it.

    Raises:
        GatewayError: GW016, another gateway has the folder; GW016.unusable, it cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._jobs = folder / "jobs"
        self._guard = threading.Lock()
        self._stopping = False
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._jobs.mkdir(mode=0o700, exist_ok=True)
            self._lock = FileLock(folder / LOCK)
            is_locked = self._lock.take()
            if is_locked:
                self._lock.say(json.dumps(asdict(Holder.me())) + "\n")
        except OSError as cause:
            raise _unusable(folder, cause) from cause
        if not is_locked:
            raise GatewayError(
                "GW016",
                folder=folder,
                reason=_holder((folder / LOCK).read_text(errors="replace")),
                problem="belongs to another gateway",
            )

    def release(self) -> None:
        """Lets another gateway have the folder."""
        self._lock.release()

    # as the journal of jobs

    def place(self, record: JobRecord) -> str:
        """See :class:`session.jobs.JobJournal`."""
        record.id = str(uuid.uuid4())
        return str(self._jobs / hex_id(record.id) / _CHECKPOINT)

    def has_placed(self, checkpoint: str) -> bool:
        """See :class:`session.jobs.JobJournal`."""
        return Path(checkpoint).is_relative_to(self._jobs)

    def started(self, record: JobRecord) -> None:
        """Writes a job down, on disk when this returns.

        Raises:
            GatewayError: GW005, the gateway stops; GW016, it cannot be written.
        """
        with self._guard:
            if self._stopping:
                raise GatewayError("GW005.shutdown")
            assert record.id is not None and record.plan is not None
            folder = self._jobs / record.id
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
                write_whole(folder / _PLAN, record.plan, lasting=True)
                self._write(StoredJob(record, RUNNING))
            except OSError as cause:
                raise _unusable(folder, cause) from cause

    def replanned(self, record: JobRecord) -> None:
        """See :class:`session.jobs.JobJournal`. If it cannot be written, the next gateway finds the plan in the
        checkpoint."""
        with self._guard, contextlib.suppress(OSError):
            if record.id is not None and record.plan is not None:
                write_whole(self._jobs / record.id / _PLAN, record.plan, lasting=True)

    def withdrawn(self, record: JobRecord) -> None:
        """Forgets a job that could not be started."""
        if record.id is not None:
            with self._guard:
                self._remove(self._jobs / record.id)

    def ended(self, entry: JobEntry) -> None:
        """Strikes a job out, unless it ended because the gateway stops."""
        with self._guard, contextlib.suppress(OSError):
            stored_job = None if self._stopping else self._read(self._jobs / entry.id)
            if stored_job is not None:
                self._write(StoredJob(stored_job.record, entry.status, entry.ended, entry.error))
                self._prune()

    def stop(self) -> None:
        """From now on, a job that ends is left as running."""
        with self._guard:
            self._stopping = True

    # files

    def failed(self, record: JobRecord, error: str) -> None:
        """Records that a job could not be started again."""
        with self._guard, contextlib.suppress(OSError):
            self._write(StoredJob(record, "FAILED", time.time_ns() // 1_000_000, error))

    def all(self) -> list[StoredJob]:
        """All stored jobs, the oldest first. Removes folders that a gateway left behind when it was killed. A job that
        another one had replaced by then is over."""
        with self._guard:
            for folder in self._jobs.iterdir():
                if not (folder / _JOB).exists():
                    self._remove(folder)
            read_jobs = [self._read(folder) for folder in self._jobs.iterdir()]
            stored_jobs = sorted((job for job in read_jobs if job is not None), key=lambda job: job.record.started or 0)
            replaced_ids = {job.record.replaces for job in stored_jobs}
            for number, job in enumerate(stored_jobs):
                if job.status == RUNNING and job.record.id in replaced_ids:
                    stored_jobs[number] = StoredJob(job.record, "FINISHED", time.time_ns() // 1_000_000)
                    self._write(stored_jobs[number])
        return stored_jobs

    def _write(self, job: StoredJob) -> None:
        record = job.record
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "id": record.id,
            "name": record.name,
            "statement": record.statement,
            "status": job.status,
            "started": record.started,
            "ended": job.ended,
            "error": job.error,
            "checkpoint": record.checkpoint,
            "replaces": record.replaces,
            "options": redacted_options(record.options),
            "functions": [_function_facts(function) for function in record.functions],
        }
        write_whole(self._jobs / str(record.id) / _JOB, json.dumps(facts, indent=1), lasting=True)

    def _read(self, folder: Path) -> StoredJob | None:
        """The job in a folder; None if the gateway was killed before it had written one."""
        try:
            facts: Mapping[str, Any] = json.loads((folder / _JOB).read_text("utf-8"))
            record = JobRecord(
                facts["name"],
                facts["statement"],
                (folder / _PLAN).read_text("utf-8"),
                tuple(map(_function_of, facts["functions"])),
                dict(facts["options"]),
                facts["id"],
                facts["checkpoint"],
                facts["started"],
                facts.get("replaces"),
            )
            return StoredJob(record, facts["status"], facts["ended"], facts["error"])
        except (OSError, ValueError, KeyError, TypeError) as cause:
            if (folder / _JOB).exists():
                _log.error("the job in %s cannot be read: %s", folder, cause)
            return None

    def _prune(self) -> None:
        """Removes what is left of the jobs that ended first."""
        folders = list(self._jobs.iterdir())
        if len(folders) <= MAX_ENDED_JOBS:
            return
        stored_jobs = [(folder, self._read(folder)) for folder in folders]
        over = sorted((job.ended, folder) for folder, job in stored_jobs if job is not None and job.ended is not None)
        for _, folder in over[: max(0, len(over) - MAX_ENDED_JOBS)]:
            self._remove(folder)

    @staticmethod
    def _remove(folder: Path) -> None:
        with contextlib.suppress(OSError):
            (folder / _JOB).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _unusable(folder: Path, cause: OSError) -> GatewayError:
    return GatewayError("GW016", folder=folder, reason=cause.strerror or cause, problem="cannot be used")


def _holder(text: str) -> str:
    """Who has the folder, as its lock says."""
    try:
        return str(Holder(**json.loads(text)))
    except (ValueError, TypeError):  # of an earlier release, or just being written
        return text.strip() or "another process"


def _function_facts(function: CatalogFunction) -> dict[str, Any]:
    parts = function.identifier
    return {
        "name": function.name,
        "identifier": None if parts is None else [parts.catalog, parts.database, parts.name],
        "reference": function.reference,
        "language": function.language,
        "temporary": function.temporary,
    }


def _function_of(facts: Mapping[str, Any]) -> CatalogFunction:
    parts = facts["identifier"]
    identifier = None if parts is None else ObjectIdentifier(*parts)
    return CatalogFunction(facts["name"], identifier, facts["reference"], facts["language"], facts["temporary"])
