"""SHOW JOBS, DESCRIBE JOB, STOP JOB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from stateplan.common.errors import StateplanError
from stateplan.common.types import BIGINT, BOOLEAN, STRING, LogicalType
from stateplan.common.zone import local_time_zone, tz_of
from stateplan.planner.dialect import nodes
from stateplan.session.context import Context
from stateplan.session.jobs import JobEntry
from stateplan.session.live_ttls import plan_that_holds
from stateplan.session.results import TableResult, content, ok

_WIDTH = 48
"""A job without a name is named by its query, up to this number of characters."""
_MAX_FAILURES = 3
"""SHOW JOBS says for this number of failed jobs why they failed."""
_JOB_COLUMNS = ("job id", "job name", "status", "start time")
_JOB_TYPES = (STRING, STRING, STRING, LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=6))


def _job_rows(c: Context, entries: Iterable[JobEntry]) -> list[Sequence[Any]]:
    zone = tz_of(local_time_zone(c.session.config.to_dict()))
    rows: list[Sequence[Any]] = []
    for entry in entries:
        start_time = datetime.fromtimestamp(entry.started / 1000, zone).replace(tzinfo=None)
        rows.append((entry.id, _name(entry), entry.status, start_time.isoformat(timespec="milliseconds")))
    return rows


def _name(entry: JobEntry) -> str:
    """The name of a job, on one line."""
    if entry.name != entry.statement:
        return entry.name
    text = " ".join(entry.name.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3].rstrip()}..."


def show_jobs(c: Context) -> TableResult:
    """SHOW JOBS: the newest first. In a user's own process, queries without a name are listed while they run: whoever
    ran one has its result or its error. Notes say why the last jobs failed."""
    entries = c.session.jobs.entries()
    if not c.session.host.lists_queries:
        entries = [e for e in entries if e.is_running or e.plan is not None or e.name != e.statement]
    failed_jobs = [e for e in entries if e.error is not None][:_MAX_FAILURES]
    notes = [f"job {e.id} failed: {e.error.splitlines()[0]}" for e in failed_jobs if e.error]
    return content("SHOW JOBS", _JOB_COLUMNS, _job_rows(c, entries), notes, types=_JOB_TYPES)


def run_describe_job(c: Context, node: nodes.DescribeJob) -> TableResult:
    """DESCRIBE JOB: as SHOW JOBS; of a job that has failed also of what, which Flink reports elsewhere. EXTENDED adds
    what programs need that continue a job. Of a job with a shadow, a note says how both plans differ."""
    entry = c.session.jobs.find(node.this.name, c.place(node.this))
    columns, types, row = [*_JOB_COLUMNS], [*_JOB_TYPES], [*_job_rows(c, [entry])[0]]
    if entry.error is not None or node.args.get("extended"):
        columns, types, row = [*columns, "error"], [*types, STRING], [*row, entry.error]
    if node.args.get("extended"):
        checkpoint = None if entry.checkpoint is None else str(entry.checkpoint)
        columns += ["checkpoint", "micro-batch", "idle", "plan"]
        types += [STRING, BIGINT, BOOLEAN, STRING]
        is_idle = entry.job is not None and entry.job.is_idle
        row += [checkpoint, _last_batch(entry), is_idle, plan_that_holds(entry)]
    return content("DESCRIBE JOB", columns, [row], _comparison(entry) if entry.error is None else (), types=types)


def _last_batch(entry: JobEntry) -> int | None:
    """The last micro-batch that a job has finished since its start; None before the first one."""
    view = entry.last if entry.job is None else entry.job.view
    return view.recent[-1].batch if view is not None and view.recent else None


def _comparison(entry: JobEntry) -> list[str]:
    """How the plans of a running job with a shadow differ."""
    if entry.job is None or entry.checkpoint is None or entry.plan is None:
        return []
    from stateplan.execnodes.shadows import has_shadow
    from stateplan.plans.document import PlanDocument
    from stateplan.session.shadow import compare_plans

    graph = PlanDocument.parse(entry.plan).graph
    if not has_shadow(graph):
        return []
    try:
        fork = compare_plans(entry.checkpoint, graph, entry.options, "", 0)
    except (StateplanError, OSError) as error:  # a micro-batch that is in hand, or a job that ends just now
        return [f"the plans cannot be compared now: {error}"]
    return [fork.to_shadow_text().rstrip("\n")]


def run_stop_job(c: Context, node: nodes.StopJob) -> TableResult:
    """STOP JOB: with a savepoint, its path is the answer."""
    job_id, place = node.this.name, c.place(node.this)
    if not node.args.get("savepoint"):
        c.session.jobs.stop(job_id, place)
        return ok("STOP JOB")
    from stateplan.runtime.checkpoint.savepoint import SAVEPOINT_DIR

    options = c.session.config.to_dict()
    c.session.host.check_paths(options, (SAVEPOINT_DIR,))
    path = c.session.jobs.save(job_id, options, bool(node.args.get("drain")), place)
    return content("STOP JOB", ("savepoint path",), [(path,)], types=(STRING,))
