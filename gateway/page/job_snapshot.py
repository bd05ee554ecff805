"""One job as its page shows it: figures, rates on the lines of the plan, states, the last micro-batches, its error."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateplan.common.errors import StateplanError
from stateplan.common.errors.catalogue import entry_of
from stateplan.common.paths import AnyPath
from stateplan.common.readable import without_links
from stateplan.common.ttl import format_ttl
from stateplan.plans.document import PlanDocument
from stateplan.plans.job_snapshot import JobPlan, Key, PlannedState, job_json
from stateplan.plans.render.html import graph_data
from stateplan.plans.render.picture import Picture, clean, picture
from stateplan.plans.render.svg import drawing
from stateplan.plans.show import show
from stateplan.runtime.audit import record_of
from stateplan.runtime.metrics.log import recent_metrics
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo
from stateplan.runtime.metrics.view import JobView, OperatorView, Watcher, backlog
from stateplan.session.jobs import JobEntry, PlanChange

HISTORY = 240
"""The number of micro-batches in the plots."""

CURVE = 60
"""The number of micro-batches in the curve of a state."""

_CODE = re.compile(r"\[([A-Z]+[0-9]{3})\] ")
_TOTALS = ("rows_in", "rows_out", "late_rows", "retractions_missed")
_OF_STATES = ("expired_rows", "needed_rows")
_LOST_ROWS = 20


class JobSnapshot:
    """The state of a job, read again with each call.

    Args:
        entry: the job.
    """

    def __init__(self, entry: JobEntry) -> None:
        self.entry = entry
        self._plan: JobPlan | None = None
        self._run: int | None = None
        self._earlier: tuple[int, tuple[BatchMetrics, ...]] | None = None
        self._last_view: JobView | None = None

    # ---- reading ------------------------------------------------------------------------------------------

    def view(self) -> JobView | None:
        """Its figures; None for a job without figures, such as one that waits for a restart. Micro-batches of earlier
        runs are among them, so a job that continues has the state that they left."""
        entry = self.entry
        if entry.job is not None:
            view = entry.job.view
            return replace(view, recent=(*self._before(view), *view.recent))
        if self._last_view is None:
            self._last_view = self._recorded_view() or entry.last
        return self._last_view

    def _recorded_view(self) -> JobView | None:
        """The figures that the job has left in its checkpoint."""
        if self.entry.checkpoint is not None:
            with contextlib.suppress(StateplanError):
                return Watcher(self.entry.checkpoint).look()
        return None

    def plan(self, view: JobView | None) -> JobPlan | None:
        """Its plan: that in the checkpoint, else the one it was started with; None if it has neither."""
        run = view.info.started if view else -1
        if self._run != run:
            self._plan, self._run = self._read_plan(), run
        return self._plan

    def _read_plan(self) -> JobPlan | None:
        entry = self.entry
        if entry.checkpoint is not None:
            with contextlib.suppress(StateplanError, OSError):
                return JobPlan.of(entry.checkpoint, entry.options)
        if entry.plan is not None:
            with contextlib.suppress(StateplanError):
                return JobPlan(PlanDocument.parse(entry.plan), None, entry.options)
        return None

    def _before(self, view: JobView) -> tuple[BatchMetrics, ...]:
        """The last micro-batches of earlier runs."""
        if self._earlier is None or self._earlier[0] != view.info.started:
            records: list[BatchMetrics] = []
            if view.info.first_batch > 0 and self.entry.checkpoint is not None:
                with contextlib.suppress(StateplanError):
                    records = recent_metrics(self.entry.checkpoint)
            earlier = tuple(r for r in records if r.batch < view.info.first_batch)[-HISTORY:]
            self._earlier = view.info.started, earlier
        return self._earlier[1]

    # ---- as data -----------------------------------------------------------------------------------------------

    def summary(self, successor: JobEntry | None = None) -> dict[str, Any]:
        """A line of the list of jobs. ``successor`` has replaced the job."""
        entry = self.entry
        summary: dict[str, Any] = {
            "id": entry.id,
            "name": entry.name,
            "status": entry.status,
            "started": entry.started,
            "ended": entry.ended,
            "statement": clean(entry.statement)[:200],
            "error": error_json(entry.error),
            "savepoint": entry.savepoint,
            "change": entry.change and _change_json(entry.change),
            "successor": successor and {"id": successor.id, "checkpoint": str(successor.checkpoint)},
        }
        view = self.view() if entry.job is not None else self._last_view or entry.last
        if view is None:
            return summary
        last = view.last
        operators = view.operators()
        return summary | {
            "rowsIn": _round(sum(o.rows_in for o in operators if o.info.kind == "source")),
            "rowsOut": _round(sum(o.rows_in for o in operators if o.info.kind == "sink")),
            "load": round(view.load, 2),
            "stateBytes": sum(sum(size.bytes) for size in last.state.values()) if last else 0,
            "batch": last and {"batch": last.batch, "ms": round(last.ms, 1), "started": last.started},
        }

    def figures(self, successor: JobEntry | None = None) -> dict[str, Any]:
        """Everything that changes while the job runs; see :meth:`drawing` for the rest. Arguments as of
        :meth:`summary`."""
        view = self.view()
        figures = self.summary(successor)
        plan = self.plan(view)
        states: Mapping[Key, PlannedState] = {}
        if plan is not None:
            try:
                states = plan.states()
            except StateplanError as damaged:
                figures["problem"] = error_json(str(damaged))
            figures["plan"] = _plan_key(plan, states)
            figures["editable"] = plan.folder is not None and plan.folder.is_dir()
        if view is None:
            return figures
        operators = view.operators()
        data = job_json(view, states, operators)
        last = view.last
        if last is not None:
            figures["batch"] = {
                **figures["batch"],
                "time": last.time,
                "phases": last.spark or (view.recent[-2].spark if len(view.recent) > 1 else {}),
            }
        if view.writer is not None and self.entry.checkpoint is not None:
            data["backlog"] = backlog(self.entry.checkpoint)
        for operator in data["operators"]:
            operator["totals"] = {
                n: v for n, v in operator["totals"].items() if n in _TOTALS or n.startswith(_OF_STATES)
            }
            for rate in ("rowsInPerSecond", "rowsOutPerSecond"):
                operator[rate] = _round(operator[rate])
            operator["inputs"] = [_round(rate) for rate in operator["inputs"]]
        if self.entry.checkpoint is not None and any(o.totals.get("needed_rows") for o in operators):
            uids = {o.info.id: o.info.uid for o in operators}
            figures["lostRows"] = lost_rows(self.entry.checkpoint, uids, data["operators"])
        forecast = self.entry.job.progress.forecast if self.entry.job is not None else None
        if forecast is not None:
            left = None if forecast.seconds is None else _round(forecast.seconds)
            figures["outlook"] = {"share": round(forecast.share, 4), "secondsLeft": left}
        if plan is not None:
            figures["lines"] = lines(plan.document, operators)
        names = ("running", "batches", "batchInHand", "batchInHandSince", "load", "backlog", "operators")
        return (
            figures
            | {name: data[name] for name in names}
            | {"history": history(view.recent, view.info)}
            | {"curves": state_history(view.recent, view.info)}
        )

    def drawing(self) -> dict[str, Any]:
        """Its plan as it is now, drawn, with the details of each operator; and its statement.

        Raises:
            CheckpointError: CKPT031, the record of TTLs is damaged.
        """
        plan = self.plan(self.view())
        drawing_data: dict[str, Any] = {"id": self.entry.id, "statement": self.entry.statement}
        if plan is None:
            return drawing_data
        states = plan.states()
        view = show(plan.now(states), self.entry.options)
        plan_picture = picture(view)
        return drawing_data | {
            "key": _plan_key(plan, states),
            "origin": view.origin,
            "svg": {way: _live_svg(plan_picture, way) for way in ("across", "down")},
            "operators": graph_data(view),
        }


def lost_rows(
    checkpoint: AnyPath, uids: Mapping[int, str], operators: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The last expired rows that later rows needed, the newest first, as JSON-ready data.

    Args:
        checkpoint: of the job, which has an audit of its state.
        uids: of the operators, by their ids.
        operators: with their states.
    """
    names = {
        (uids[operator["id"]], index): state.get("selector") or f"{operator['name']}.{state['name']}"
        for operator in operators
        for index, state in enumerate(operator.get("state") or ())
    }
    try:
        records = record_of(checkpoint).latest(_LOST_ROWS)
    except OSError:
        return []  # the page of a job must not depend on it
    return [
        {
            "state": names.get((r["uid"], r["slot"]), r["table"]),
            "row": r["row"],
            "expired": r["expired_at"],
            "needed": r["needed_at"],
            "by": r["by"],
            "oneIn": round(1 / r["fraction"]),
        }
        for r in records
    ]


def _live_svg(plan_picture: Picture, way: str) -> str:
    inner, width, height = drawing(plan_picture, across=way == "across", live=True)
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" data-way="{way}" {size}>{inner}</svg>'


def lines(document: PlanDocument, operators: Sequence[OperatorView]) -> dict[int, dict[str, Any]]:
    """The output of each operator of a plan: rows per second, and the watermark (ms since 1970).

    Filters and projections have no figures. Their output is the input of the operators that read from them.
    """
    graph = document.graph
    operators_by_id = {operator.info.id: operator for operator in operators}
    readers: dict[int, list[tuple[int, int]]] = {node.id: [] for node in graph.nodes}
    for node in graph.nodes:
        for position, source in enumerate(graph.inputs(node)):
            readers[source.id].append((node.id, position))
    rates: dict[int, float] = {}
    for node in reversed(graph.nodes):
        if node.id in operators_by_id:
            rates[node.id] = operators_by_id[node.id].rows_out
            continue
        for reader, position in readers[node.id]:
            if reader in operators_by_id:
                into = operators_by_id[reader].inputs
                rates[node.id] = into[position] if position < len(into) else 0.0
            elif reader in rates and graph.node(reader).FORWARDS_ROWS and len(graph.inputs(reader)) == 1:
                rates[node.id] = rates[reader]
    marks = {i: o.watermark for i, o in operators_by_id.items() if o.watermark is not None and o.info.kind != "sink"}
    for node in graph.nodes:
        inputs = [source.id for source in graph.inputs(node)]
        if node.id not in rates and node.FORWARDS_ROWS and all(source in rates for source in inputs):
            rates[node.id] = sum(rates[source] for source in inputs)
        if node.id not in operators_by_id and len(inputs) == 1 and inputs[0] in marks:
            marks[node.id] = marks[inputs[0]]
    return {
        node.id: {"rate": _round(rates[node.id]) if node.id in rates else None, "mark": marks.get(node.id)}
        for node in graph.nodes
        if readers[node.id] and (node.id in rates or node.id in marks)
    }


def history(records: Sequence[BatchMetrics], info: JobInfo) -> dict[str, list[float]]:
    """The last micro-batches of a job, a list per figure, oldest first."""

    def rows(record: BatchMetrics, kind: str) -> float:
        figures_of_kind = (record.operators.get(o.uid, {}) for o in info.operators if o.kind == kind)
        return sum(figures.get("rows_in", 0) for figures in figures_of_kind)

    batches = [record for record in records if record.batches == 1][-HISTORY:]
    return {
        "batch": [r.batch for r in batches],
        "started": [r.started for r in batches],
        "ms": [round(r.ms, 1) for r in batches],
        "rowsIn": [rows(r, "source") for r in batches],
        "rowsOut": [rows(r, "sink") for r in batches],
        "storedRows": [sum(sum(s.rows) for s in r.state.values()) for r in batches],
        "bytes": [sum(sum(s.bytes) for s in r.state.values()) for r in batches],
    }


def state_history(records: Sequence[BatchMetrics], info: JobInfo) -> dict[str, list[int]]:
    """Stored rows of each state after the last micro-batches, oldest first, by ``operator.index``."""
    ids = {operator.uid: operator.id for operator in info.operators}
    rows_by_state: dict[str, list[int]] = {}
    for record in records[-CURVE:]:
        for uid, size in record.state.items():
            for index, rows in enumerate(size.rows):
                if uid in ids:
                    rows_by_state.setdefault(f"{ids[uid]}.{index}", []).append(rows)
    return rows_by_state


def _change_json(change: PlanChange) -> dict[str, Any]:
    progress = change.progress
    forecast = progress and progress.forecast
    return {
        "stage": change.stage,
        "rows": progress and progress.rows_in,
        "share": forecast and round(forecast.share, 4),
        "secondsLeft": forecast and forecast.seconds,
    }


def error_json(text: str | None) -> dict[str, Any] | None:
    """An error as the page shows it: its text, and what the catalogue says of its code."""
    if text is None:
        return None
    data: dict[str, Any] = {"text": text}
    code = _CODE.match(text)
    if code is not None:
        with contextlib.suppress(KeyError, OSError):
            entry = entry_of(code[1])
            data |= {"code": code[1], "title": entry["title"]}
            data |= {part: without_links(entry[part]) for part in ("cause", "remedy")}
    return data


def _plan_key(plan: JobPlan, states: Mapping[Key, PlannedState]) -> str:
    """A key that changes when the plan or a TTL changes."""
    ttls = ",".join(format_ttl(state.ttl) for state in states.values())
    return hashlib.sha256(f"{ttls}\n{plan.document.text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _round(rate: float) -> float:
    """Three digits: what the page shows, so that less of it changes."""
    return float(f"{rate:.3g}")
