"""A part of the REST API of Flink's JobManager, read-only, for dashboards that know it: what the page of jobs knows.
Also the same for Prometheus.

Sources: Flink's ``ClusterOverview``, ``MultipleJobsDetails``, ``JobDetailsInfo``, ``JobExceptionsInfoWithHistory``,
``CheckpointingStatistics``, ``JobConfigInfo``, ``DashboardConfiguration`` and ``AggregatedMetric``, whose annotations
give the names. A micro-batch stands for a checkpoint, and an operator for a vertex.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from stateplan.common.errors import StateplanError
from stateplan.common.redaction import redacted, redacted_options
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.exchange import Exchange
from stateplan.plans.document import PlanDocument
from stateplan.runtime.metrics.prometheus import gateway_exposition
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo
from stateplan.runtime.metrics.registry import Snapshot
from stateplan.runtime.metrics.view import JobView, OperatorView
from stateplan.session.jobs import JobEntry, Jobs

FLINK = "2.3.0"
"""The release whose REST API this is."""
_SCHEDULER = "Default"
_STATES = (
    *("INITIALIZING", "CREATED", "RUNNING", "FAILING", "FAILED", "CANCELLING", "CANCELED", "FINISHED", "RESTARTING"),
    *("SUSPENDED", "RECONCILING"),
)
_TASKS = (
    *("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED", "FAILED"),
    "RECONCILING",
)
_ID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ID_DIGITS = 32
"""Hexadecimal digits of an id of Flink (``AbstractID``)."""
_CODE = re.compile(r"\[([A-Z]+[0-9]{3})\] ")
_EXPOSITION = "text/plain; version=0.0.4"
_HISTORY = 10
"""How many micro-batches the history holds: the default of Flink's ``web.checkpoints.history``."""
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}

Facts = dict[str, Any]


def routes(jobs: Jobs) -> list[Route]:
    """The routes, over the jobs of a gateway. Queries are not jobs here: nobody waits for them."""

    def list_jobs() -> list[JobEntry]:
        return [entry for entry in jobs.entries() if entry.plan is not None]

    def of_all(make: Callable[[Sequence[JobEntry]], Any]) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            return JSONResponse(await run_in_threadpool(lambda: make(list_jobs())))

        return handle

    def of_one(make: Callable[[JobEntry], Any]) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            job_id = request.path_params["job"]
            if not _ID.fullmatch(job_id):
                return _unreadable("path", "jobid", job_id)
            try:
                entry = jobs.find(job_id)
            except StateplanError as error:
                return _problem(str(error), 404)
            return JSONResponse(await run_in_threadpool(make, entry))

        return handle

    async def metrics(request: Request) -> Response:
        def names_in(key: str) -> list[str]:
            return [name for text in request.query_params.getlist(key) for name in text.split(",") if name]

        figures, ids = [name.lower() for name in names_in("agg")], names_in("jobs")
        for key, texts, is_good in (("agg", figures, _STATISTICS.__contains__), ("jobs", ids, _ID.fullmatch)):
            if any(not is_good(text) for text in texts):
                return _unreadable("query", key, ",".join(texts))
        job_ids = {text.replace("-", "").lower() for text in ids}
        entries = [entry for entry in list_jobs() if not job_ids or entry.id in job_ids]
        return JSONResponse(await run_in_threadpool(job_metrics, entries, names_in("get"), figures))

    async def prometheus(request: Request) -> Response:
        return PlainTextResponse(await run_in_threadpool(exposition_of, list_jobs()), media_type=_EXPOSITION)

    return [
        Route("/config", of_all(lambda _: dashboard())),
        Route("/overview", of_all(overview)),
        Route("/jobs", of_all(lambda entries: {"jobs": [{"id": e.id, "status": e.status} for e in entries]})),
        Route("/jobs/overview", of_all(lambda entries: {"jobs": [_line(entry) for entry in entries]})),
        Route("/jobs/metrics", metrics),
        Route("/metrics", prometheus),
        Route("/jobs/{job}", of_one(details)),
        Route("/jobs/{job}/exceptions", of_one(exceptions)),
        Route("/jobs/{job}/checkpoints", of_one(checkpoints)),
        Route("/jobs/{job}/config", of_one(config)),
    ]


def _problem(text: str, status: int) -> Response:
    return JSONResponse({"errors": [text]}, status)


def _unreadable(kind: str, name: str, text: str) -> Response:
    parameter = f'{kind} parameter ({name}) from value "{text[:200]}"'
    return _problem(f"Bad request, could not parse parameters: Cannot resolve {parameter}.", 400)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _times(entry: JobEntry) -> Facts:
    now = _now()
    end_time = -1 if entry.ended is None else entry.ended
    return {
        "start-time": entry.started,
        "end-time": end_time,
        "duration": (now if end_time < 0 else end_time) - entry.started,
    }


def _view(entry: JobEntry) -> JobView | None:
    job = entry.job
    return entry.last if job is None else job.view


def exposition_of(entries: Sequence[JobEntry]) -> str:
    """The metrics of jobs in Prometheus' text format. Of a job that does not run, it is only its status."""
    snapshots: tuple[list[Snapshot], list[Snapshot]] = [], []
    for entry in entries:
        job = entry.job
        view = JobView(JobInfo(entry.id, entry.name, entry.started, 0, ()), _now()) if job is None else job.view
        view = replace(view, info=replace(view.info, name=redacted(view.info.name)))
        snapshots[job is None].append(Snapshot(view, entry.status))
    return gateway_exposition(*snapshots)


def _task_state(entry: JobEntry) -> str:
    return entry.status if entry.status in _TASKS else "CREATED"


def dashboard() -> Facts:
    """The configuration that a page of Flink's requests first: nothing can be changed through it."""
    local_time = datetime.now().astimezone()
    offset = local_time.utcoffset()
    return {
        "refresh-interval": 3000,
        "timezone-name": local_time.tzname() or "UTC",
        "timezone-offset": 0 if offset is None else int(1000 * offset.total_seconds()),
        "flink-version": FLINK,
        "flink-revision": "unknown revision",
        "features": dict.fromkeys(("web-submit", "web-cancel", "web-rescale", "web-history"), False),
    }


def overview(entries: Sequence[JobEntry]) -> Facts:
    """The gateway as a cluster: one task manager, with the tasks that may run at the same time as its slots."""
    views = [view for entry in entries if entry.is_running and (view := _view(entry)) is not None]
    slots = max((view.info.parallelism for view in views), default=0)
    states = [entry.status for entry in entries]
    return {
        "taskmanagers": 1,
        "slots-total": slots,
        "slots-available": 0,
        "jobs-running": sum(state in ("RUNNING", "RESTARTING") for state in states),
        "jobs-finished": states.count("FINISHED"),
        "jobs-cancelled": states.count("CANCELED"),
        "jobs-failed": states.count("FAILED"),
        "flink-version": FLINK,
        "flink-commit": "",
    }


def _subtasks(view: JobView) -> int:
    return len(view.info.operators) * view.info.parallelism


def _line(entry: JobEntry) -> Facts:
    view = _view(entry)
    count = _subtasks(view) if view else 0
    tasks = {state.lower(): 0 for state in _TASKS} | {_task_state(entry).lower(): count}
    return {
        "jid": entry.id,
        "name": redacted(entry.name),
        **_times(entry),
        "last-modification": entry.ended or entry.started,
        "state": entry.status,
        "tasks": {"total": count, **tasks},
        "pending-operators": 0,
        "jobType": "STREAMING",
        "schedulerType": _SCHEDULER,
    }


def details(entry: JobEntry) -> Facts:
    """A job with its operators."""
    view = _view(entry)
    operators = view.operators() if view else ()
    counts = dict.fromkeys(_TASKS, 0) | {_task_state(entry): len(operators)}
    stamps = dict.fromkeys(_STATES, 0) | {"CREATED": entry.started, "RUNNING": entry.started}
    if entry.ended is not None and entry.status in stamps:
        stamps[entry.status] = entry.ended
    edges = _edges(entry, operators)
    nodes = [
        {
            "id": _vertex_id(o),
            "parallelism": view.info.parallelism if view else 1,
            "operator": "",
            "operator_strategy": "",
            "description": o.info.name,
            "optimizer_properties": {},
            **({"inputs": edges[o.info.id]} if edges.get(o.info.id) else {}),
        }
        for o in operators
    ]
    return {
        "jid": entry.id,
        "name": redacted(entry.name),
        "isStoppable": False,
        "state": entry.status,
        "job-type": "STREAMING",
        "schedulerType": _SCHEDULER,
        **_times(entry),
        "maxParallelism": -1,
        "application-id": entry.id,
        "now": _now(),
        "timestamps": stamps,
        "vertices": [_vertex(entry, view, operator) for operator in operators if view is not None],
        "status-counts": counts,
        "plan": {"jid": entry.id, "name": redacted(entry.name), "type": "STREAMING", "nodes": nodes},
        "pending-operators": 0,
    }


def _edges(entry: JobEntry, operators: Sequence[OperatorView]) -> dict[int, list[Facts]]:
    """The inputs of operators, by the id of the plan node; none if the plan cannot be read. Nodes without figures are
    part of the operator that reads from them."""
    try:
        graph = PlanDocument.parse(entry.plan or "").graph
    except StateplanError:
        return {}
    vertices = {operator.info.id: _vertex_id(operator) for operator in operators}

    def origins(node: ExecNode, strategy: str) -> Iterator[tuple[str, str]]:
        for source in graph.inputs(node):
            if source.id in vertices:
                yield vertices[source.id], strategy
            else:
                is_hash = isinstance(source, Exchange) and source.distribution.type == "HASH"
                yield from origins(source, "HASH" if is_hash else strategy)

    return {
        node.id: [
            {"id": vertex, "num": number, "exchange": "pipelined_bounded", "ship_strategy": strategy}
            for number, (vertex, strategy) in enumerate(origins(node, "FORWARD"))
        ]
        for node in graph.nodes
        if node.id in vertices
    }


def _vertex_id(operator: OperatorView) -> str:
    """The uid of an operator in the form of Flink's ids, which its own client parses."""
    return operator.info.uid.ljust(_ID_DIGITS, "0")


def _vertex(entry: JobEntry, view: JobView, operator: OperatorView) -> Facts:
    state = _task_state(entry)
    totals = operator.totals
    figures: Facts = {}
    for name, value in (
        ("read-bytes", 0),
        ("write-bytes", 0),
        ("read-records", int(totals.get("rows_in", 0))),
        ("write-records", int(totals.get("rows_out", 0))),
    ):
        figures |= {name: value, f"{name}-complete": not name.endswith("bytes")}
    return {
        "id": _vertex_id(operator),
        "slotSharingGroupId": "0" * _ID_DIGITS,
        "name": operator.info.name,
        "maxParallelism": -1,
        "parallelism": view.info.parallelism,
        "status": state,
        **_times(entry),
        "tasks": dict.fromkeys(_TASKS, 0) | {state: view.info.parallelism},
        "metrics": {
            **figures,
            **{f"accumulated-{name}-time": 0 for name in ("backpressured", "idle", "busy")},
        },
    }


def exceptions(entry: JobEntry) -> Facts:
    """What a job has failed of; no stack trace of the gateway."""
    entries: list[Facts] = []
    if entry.error is not None:
        text = redacted(entry.error)
        code = _CODE.search(text)
        entries.append(
            {
                "exceptionName": code[1] if code else "error",
                "stacktrace": text,
                "timestamp": entry.ended or entry.started,
                "failureLabels": {},
                "concurrentExceptions": [],
            }
        )
    return {"exceptionHistory": {"entries": entries, "truncated": False}}


def checkpoints(entry: JobEntry) -> Facts:
    """The micro-batches of a job's run: each leaves the checkpoint complete."""
    view = _view(entry)
    recent = tuple(view.recent) if view else ()
    history = [_checkpoint(entry, view, batch) for batch in recent[::-1][:_HISTORY] if view is not None]
    completed_count = view.batches if view else 0
    hand = int(view is not None and view.in_hand is not None and entry.is_running)
    counts = {"restored": int(view is not None and view.info.first_batch > 0), "total": completed_count + hand}
    sizes, times = [_size(batch) for batch in recent], [int(batch.ms) for batch in recent]
    nothing = _summary([])
    return {
        "counts": {**counts, "in_progress": hand, "completed": completed_count, "failed": 0},
        "summary": {
            "checkpointed_size": _summary(sizes),
            "state_size": _summary(sizes),
            "end_to_end_duration": _summary(times),
            "alignment_buffered": nothing,
            "processed_data": nothing,
            "persisted_data": nothing,
        },
        "latest": {"completed": history[0] if history else None, "savepoint": None, "failed": None, "restored": None},
        "history": history,
    }


def _size(batch: BatchMetrics) -> int:
    return sum(sum(size.bytes) for size in batch.state.values())


def _checkpoint(entry: JobEntry, view: JobView, batch: BatchMetrics) -> Facts:
    return {
        "className": "completed",
        "id": batch.batch,
        "status": "COMPLETED",
        "is_savepoint": False,
        "savepointFormat": None,
        "trigger_timestamp": batch.started,
        "latest_ack_timestamp": batch.started + int(batch.ms),
        "checkpointed_size": _size(batch),
        "state_size": _size(batch),
        "end_to_end_duration": int(batch.ms),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": _subtasks(view),
        "num_acknowledged_subtasks": _subtasks(view),
        "checkpoint_type": "CHECKPOINT",
        "tasks": {},
        "external_path": None if entry.checkpoint is None else str(entry.checkpoint),
        "discarded": False,
    }


def _summary(values: Sequence[int]) -> Facts:
    sorted_values = sorted(values)
    if not sorted_values:
        return {"min": 0, "max": 0, "avg": 0} | dict.fromkeys(_QUANTILES, "NaN")
    summary: Facts = {
        "min": sorted_values[0],
        "max": sorted_values[-1],
        "avg": sum(sorted_values) // len(sorted_values),
    }
    return summary | {name: float(sorted_values[int(q * (len(sorted_values) - 1))]) for name, q in _QUANTILES.items()}


def config(entry: JobEntry) -> Facts:
    """The options of a job, without secrets."""
    view = _view(entry)
    return {
        "jid": entry.id,
        "name": redacted(entry.name),
        "execution-config": {
            "restart-strategy": "Cluster level default restart strategy",
            "job-parallelism": view.info.parallelism if view else -1,
            "object-reuse-mode": False,
            "user-config": redacted_options(entry.options),
        },
    }


_METRICS: dict[str, Callable[[JobEntry, JobView | None], float]] = {
    "numRestarts": lambda entry, view: 0,
    "uptime": lambda entry, view: _times(entry)["duration"] if entry.is_running else 0,
    "runningTime": lambda entry, view: _times(entry)["duration"] if entry.is_running else 0,
    "numberOfCompletedCheckpoints": lambda entry, view: view.batches if view else 0,
    "numberOfFailedCheckpoints": lambda entry, view: 0,
    "lastCheckpointDuration": lambda entry, view: int(view.last.ms) if view and view.last else -1,
    "lastCheckpointSize": lambda entry, view: _size(view.last) if view and view.last else -1,
}


def _skew(values: Sequence[float]) -> float:
    """The mean distance from the mean, in percent of the mean and at most 100."""
    mean = sum(values) / len(values)
    return min(100.0, 100 * sum(abs(value - mean) for value in values) / len(values) / mean) if mean else 0.0


_STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "sum": sum,
    "skew": _skew,
}


def job_metrics(entries: Sequence[JobEntry], names: Sequence[str], figures: Sequence[str] = ()) -> list[Facts]:
    """Names of metrics; with ``names``, their statistics over the jobs, or those of these that ``figures`` names."""
    if not names:
        return [{"id": name} for name in _METRICS]
    metrics = []
    for name in names:
        values = [float(_METRICS[name](entry, _view(entry))) for entry in entries] if name in _METRICS else []
        if values:
            statistics = {key: of(values) for key, of in _STATISTICS.items() if not figures or key in figures}
            metrics.append({"id": name, **statistics})
    return metrics
