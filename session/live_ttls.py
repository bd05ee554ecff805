"""ALTER JOB SET TTL: other TTLs for a job that runs, and the TTLs that hold in a job.

Codes: RUN052, RUN056, RUN060; PLAN05x, PLAN100 to PLAN106; CKPT031 to CKPT033.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import PlanError, RunError, StateplanError
from stateplan.planner.dialect import nodes
from stateplan.session.context import Context
from stateplan.session.jobs import JobEntry
from stateplan.session.results import TableResult, content

if TYPE_CHECKING:
    from stateplan.plans.selector_text import Assignment


def ttl_assignments(c: Context, groups: Sequence[nodes.PlanTtl]) -> list[Assignment]:
    """What ``TTL 'duration' FOR selector, ...`` says.

    Raises:
        PlanError: PLAN05x, what is not a TTL; PLAN100, what is not a selector; with the place in the statement.
    """
    from stateplan.plans.document import edited_ttl
    from stateplan.plans.selector_text import Assignment, parse_selector

    assignments = []
    for group in groups:
        place = c.place(group.this)
        try:
            ttl = edited_ttl(group.this.name)
        except PlanError as error:
            error.place = place
            raise
        for selector in group.expressions:
            assignments.append(Assignment(parse_selector(selector.name, c.place(selector)), ttl))
    return assignments


def run_alter_job_ttl(c: Context, node: nodes.AlterJobTtl) -> TableResult:
    """Requests the TTLs, all or none; the next micro-batch uses them. Returns a row per state.

    Raises:
        RunError: RUN060, no job has this id; RUN052, it has ended; RUN056, it has no checkpoint.
        PlanError, CheckpointError: as :func:`plans.live.ask`.
    """
    from stateplan.common.ttl import format_ttl
    from stateplan.plans.live import ask

    place = c.place(node.this)
    entry = c.session.jobs.find(node.this.name, place)
    if not entry.is_running:
        raise RunError("RUN052", id=entry.id, status=entry.status, place=place)
    if entry.checkpoint is None:
        raise RunError("RUN056", id=entry.id, place=place)
    edit = ask(entry.checkpoint, ttl_assignments(c, node.expressions))
    rows = [
        (change.label, change.state.name, format_ttl(change.old), format_ttl(change.ttl)) for change in edit.changes
    ]
    return content("ALTER JOB", ["state", "name", "old ttl", "ttl"], rows)


def plan_that_holds(entry: JobEntry) -> str | None:
    """The plan of a job, with the TTLs that were changed or requested since; None if the job has no plan."""
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.selectors import Selectors
    from stateplan.runtime.checkpoint.live_ttl import read_ttls

    if entry.plan is None or entry.checkpoint is None:
        return entry.plan
    document = PlanDocument.parse(entry.plan)
    try:
        record: Any = read_ttls(entry.checkpoint)
    except (StateplanError, OSError):  # it has no TTLs yet
        return entry.plan
    edits = []
    for view in Selectors(document, entry.options).views:
        state_ttl = record.get((view.uid, view.index))
        if state_ttl is not None:
            ttl = state_ttl.now if state_ttl.asked is None else state_ttl.asked.ttl
            if ttl != view.ttl:
                edits.append((view.node_id, view.index, ttl))
    return document.rewrite(document.ttl_splices(edits, entry.options)).text if edits else entry.plan
