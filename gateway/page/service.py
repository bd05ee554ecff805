"""What the page of a gateway asks of its jobs.

Codes: RUN052, RUN056, RUN060; PLAN and CKPT errors of an edit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from stateplan.common.errors import RunError
from stateplan.common.paths import AnyPath
from stateplan.gateway.page.inspections import UNASKED_BYTES, Inspection, Inspections
from stateplan.gateway.page.job_snapshot import JobSnapshot, error_json
from stateplan.plans.diff import compare
from stateplan.plans.diff_report import SAYS, to_text
from stateplan.plans.diff_report import to_json as diff_json
from stateplan.plans.document import PlanDocument, edited_ttl
from stateplan.plans.live import ask
from stateplan.plans.selector_text import Assignment, parse_selector
from stateplan.session.jobs import JobEntry, Jobs

FRESH_SECONDS = 0.4
"""Several who look at a job within this time see the same."""


class JobsPage:
    """The jobs of a gateway as its page shows them. Safe to use from several threads.

    Args:
        jobs: the jobs.
        record: notes what somebody does: the action, who, and facts.
    """

    def __init__(self, jobs: Jobs, record: Callable[..., None]) -> None:
        self._jobs = jobs
        self._record = record
        self._inspections = Inspections()
        self._guard = threading.Lock()
        self._sights: dict[str, tuple[JobSnapshot, threading.Lock]] = {}
        self._looks: dict[str, tuple[float, dict[str, Any]]] = {}

    # ---- looking -----------------------------------------------------------------------------------------------

    def overview(self) -> dict[str, Any]:
        """All jobs, the newest first."""
        entries = self._jobs.entries()
        job_ids = {entry.id for entry in entries}
        with self._guard:
            for job_id in self._sights.keys() - job_ids:
                del self._sights[job_id]
                self._looks.pop(job_id, None)
        self._inspections.forget(job_ids)
        successors = self._jobs.successors()
        return {"jobs": [self._sight(entry)[0].summary(successors.get(entry.id)) for entry in entries]}

    def job(self, job_id: str) -> dict[str, Any]:
        """One job. State that has not been counted for a while is counted again, because somebody looks.

        Raises:
            RunError: RUN060, it does not exist.
        """
        entry = self._jobs.find(job_id)
        sight, lock = self._sight(entry)
        with lock:
            at, figures = self._looks.get(entry.id, (0.0, {}))
            if not figures or time.monotonic() - at > FRESH_SECONDS:
                figures = sight.figures(self._jobs.successors().get(entry.id))
                self._looks[entry.id] = (time.monotonic(), figures)
        if entry.is_running and figures.get("editable") and 0 < figures.get("stateBytes", 0) <= UNASKED_BYTES:
            self._inspect(entry, unasked=True)
        inspection = self._inspections.of(entry.id)
        return {**figures, "inspection": inspection and _inspection_json(inspection)}

    def drawing(self, job_id: str) -> dict[str, Any]:
        """The plan of a job, drawn. Raises RunError RUN060, CheckpointError CKPT031."""
        sight, lock = self._sight(self._jobs.find(job_id))
        with lock:
            return sight.drawing()

    def diff(self, job_id: str) -> dict[str, Any]:
        """What is different in the plan now from the plan that was submitted.

        Raises:
            RunError: RUN060.
            CheckpointError: CKPT031, the record of TTLs is damaged.
        """
        entry = self._jobs.find(job_id)
        sight, lock = self._sight(entry)
        with lock:
            plan = sight.plan(sight.view())
            if plan is None:
                return {}
            submitted = plan.document if entry.plan is None else PlanDocument.parse(entry.plan)
            plan_diff = compare(submitted, plan.now(plan.states()))
        return {**diff_json(plan_diff), "says": SAYS[plan_diff.verdict], "text": to_text(plan_diff)}

    # ---- acting ------------------------------------------------------------------------------------------------

    def inspect(self, job_id: str) -> None:
        """Starts to count the state of a job. Raises RunError RUN060, RUN056."""
        self._inspect(self._jobs.find(job_id), unasked=False)

    def what_if(self, job_id: str, state: str, ttl: str) -> dict[str, Any]:
        """What another TTL would leave of a state; takes as long as Spark takes to count it.

        Args:
            job_id: the job.
            state: a selector.
            ttl: in Flink's duration grammar, or ``never``.

        Raises:
            RunError: RUN060, RUN056.
            PlanError: as :func:`plans.live.ask`.
            CheckpointError: as :meth:`plans.state.CheckpointReader.show`.
        """
        entry = self._jobs.find(job_id)
        assignment = Assignment(parse_selector(state), edited_ttl(ttl))
        return self._inspections.what_if(entry.id, _folder(entry), entry.options, assignment)

    def set_ttl(self, job_id: str, state: str, ttl: str, who: str, dry_run: bool = False) -> dict[str, Any]:
        """Asks for another TTL, as ``stateplan state set-ttl`` does, in the name of ``who``.

        Args:
            job_id: the job.
            state: a selector.
            ttl: in Flink's duration grammar, or ``never``.
            who: the user who requests it.
            dry_run: only work out what that would do.

        Raises:
            RunError: RUN060, RUN056.
            PlanError, CheckpointError: as :func:`plans.live.ask`.
        """
        entry = self._jobs.find(job_id)
        assignment = Assignment(parse_selector(state), edited_ttl(ttl))
        edit = ask(_folder(entry), [assignment], write=not dry_run, user_name=who)
        if not dry_run:
            self._looks.pop(entry.id, None)
            for change in edit.changes:
                facts = change.to_json()
                self._record("set ttl", who, job=entry.id, **{name: facts[name] for name in ("state", "old", "new")})
        changes = [
            {**change.to_json(), "text": change.text, "shorter": change.shorter, "awaited": change.awaited}
            for change in edit.changes
        ]
        return {**edit.to_json(), "changes": changes, "written": not dry_run}

    def stop(self, job_id: str, who: str, savepoint: bool = False) -> dict[str, Any]:
        """Stops a job after its micro-batch in hand, and waits for that.

        Args:
            job_id: the id of the job.
            who: the user who requests it.
            savepoint: whether a savepoint is written, in the directory that the options of the job name.

        Raises:
            StateplanError: see :meth:`session.jobs.Jobs.stop` and ``save``.
        """
        entry = self._jobs.find(job_id)
        if savepoint:
            self._jobs.save(job_id, entry.options)
        else:
            self._jobs.stop(job_id)
        self._record("stop job", who, job=entry.id, **({"savepoint": entry.savepoint} if savepoint else {}))
        self._looks.pop(entry.id, None)
        return {"id": entry.id, "status": entry.status, "savepoint": entry.savepoint}

    # ---- inside ------------------------------------------------------------------------------------------------

    def _sight(self, entry: JobEntry) -> tuple[JobSnapshot, threading.Lock]:
        with self._guard:
            sight = self._sights.get(entry.id)
            if sight is None or sight[0].entry is not entry:
                sight = self._sights[entry.id] = (JobSnapshot(entry), threading.Lock())
            return sight

    def _inspect(self, entry: JobEntry, unasked: bool) -> None:
        self._inspections.request(entry.id, _folder(entry), entry.options, unasked)


def _folder(entry: JobEntry) -> AnyPath:
    """The checkpoint of a job. Raises RunError RUN056 for a job without one."""
    if entry.checkpoint is None or not entry.checkpoint.is_dir():
        raise RunError("RUN056", id=entry.id)
    return entry.checkpoint


def _inspection_json(inspection: Inspection) -> dict[str, Any]:
    report = inspection.report
    data: dict[str, Any] = {
        "busy": inspection.busy,
        "at": inspection.at,
        "took": inspection.took,
        "error": error_json(inspection.error),
    }
    if report is None:
        return data
    states = {f"{s['id']}.{s['index']}": s for s in report["states"]}
    return data | {name: report[name] for name in ("batch", "nowMillis", "clock", "total")} | {"states": states}
