"""How much of the state of jobs is live, expired, how large and how old: counted by Spark in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.plans.selector_text import Assignment
from stateplan.plans.state import CheckpointReader
from stateplan.plans.state.show import StateReport, to_json
from stateplan.runtime.failures import as_error

PAUSE_MS = 15_000
SHARE = 20
"""A job that somebody looks at is counted again after :data:`PAUSE_MS`, and after so many times what counting took."""
UNASKED_BYTES = 256 << 20
"""State larger than this is counted only when somebody asks for it."""


@dataclass
class Inspection:
    """The last count of a job's state.

    Attributes:
        report: what was found, as JSON-ready data; None before the first count.
        at: when it was finished, ms since 1970.
        took: how long it took, ms.
        busy: whether it is being counted, or is about to be.
        error: what kept it from being counted the last time.
    """

    report: dict[str, Any] | None = None
    at: int = 0
    took: int = 0
    busy: bool = False
    error: str | None = None


class Inspections:
    """Counts one job after the other."""

    def __init__(self) -> None:
        self._results: dict[str, Inspection] = {}
        self._queue: SimpleQueue[tuple[str, AnyPath, Mapping[str, str]]] = SimpleQueue()
        self._one = threading.Lock()
        self._guard = threading.Lock()
        self._worker: threading.Thread | None = None

    def of(self, job_id: str) -> Inspection | None:
        """The last count of a job's state, if there is one or is to be one."""
        return self._results.get(job_id)

    def request(self, job_id: str, folder: AnyPath, options: Mapping[str, str], automatic: bool = False) -> None:
        """Schedules a count of the state of a job.

        Args:
            job_id: the job.
            folder: its checkpoint.
            options: the options of its session.
            automatic: leave it, if it has been counted not long ago.
        """
        with self._guard:
            last = self._results.setdefault(job_id, Inspection())
            since = time.time_ns() // 1_000_000 - last.at
            if last.busy or (automatic and since < max(PAUSE_MS, SHARE * last.took)):
                return
            last.busy = True
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="stateplan-inspection", daemon=True)
                self._worker.start()
        self._queue.put((job_id, folder, options))

    def what_if(
        self, job_id: str, folder: AnyPath, options: Mapping[str, str], assignment: Assignment
    ) -> dict[str, Any]:
        """What another TTL would leave of a state, as JSON-ready data; waits for the count in hand.

        All states are counted, and that is the last count from then on: what the page shows of them agrees with it.

        Raises:
            StateplanError: as :meth:`CheckpointReader.show`.
        """
        with self._one:
            began = time.monotonic()
            report = to_json(_read(folder, options, (assignment,)))
            took = round(1000 * (time.monotonic() - began))
        with self._guard:
            last = self._results.get(job_id, Inspection())
            self._results[job_id] = Inspection(report, time.time_ns() // 1_000_000, took, last.busy)
        return report

    def forget(self, keep: set[str]) -> None:
        """Forgets all jobs but these."""
        with self._guard:
            for job_id in [j for j, inspection in self._results.items() if j not in keep and not inspection.busy]:
                del self._results[job_id]

    def _work(self) -> None:
        while True:
            job_id, folder, options = self._queue.get()
            inspection = Inspection()
            began = 0.0
            try:
                with self._one:
                    began = time.monotonic()
                    inspection.report = to_json(_read(folder, options, ()))
            except StateplanError as error:
                inspection.error = str(error)
            except Exception as bug:
                inspection.error = str(as_error(bug))
            inspection.at, inspection.took = time.time_ns() // 1_000_000, round(1000 * (time.monotonic() - began))
            with self._guard:
                if inspection.report is None:
                    inspection.report = self._results[job_id].report
                self._results[job_id] = inspection


def _read(folder: AnyPath, options: Mapping[str, str], what_if: tuple[Assignment, ...]) -> StateReport:
    return CheckpointReader.read(folder, options).show(what_if=what_if)
