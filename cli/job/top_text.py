"""A look at a job as text: a table for people, a line for a log, JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateplan.execnodes.readable import bytes_text, counted, in_columns, instant_text, took
from stateplan.execnodes.runtime.metrics.view import JobView, OperatorView

Labels = Mapping[tuple[int, int], str]
"""(Operator id, number of the state) -> selector."""

_HEAD = ("id", "operator", "in/s", "out/s", "state rows", "bytes", "runs", "expired", "late", "busy", "cache")
_LEFT = 2
"""So many columns are flush left."""


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f}%"


def _name(operator: OperatorView) -> str:
    """What it is called: of a table without the catalog and database that all have."""
    name = operator.info.name.removesuffix(f"[{operator.info.id}]")
    return name.removeprefix("default_catalog.default_database.")


def _rows(operator: OperatorView, labels: Labels) -> list[list[str]]:
    info, state, totals = operator.info, operator.state, operator.totals
    kept = [
        (labels.get((info.id, i), f"{_name(operator)}.{name}"), i)
        for i, name in enumerate(info.states)
        if state is not None
    ]
    row = [
        str(info.id),
        _name(operator),
        _rate(operator.rows_in),
        _rate(operator.rows_out) if info.kind != "sink" else "",
        *[""] * 4,
        _count(totals, "late_rows"),
        _share(operator.busy),
        _share(operator.cache_hits),
    ]
    sizes = []
    for label, i in kept:
        assert state is not None
        mark = "+" if state.partial else ""
        expired = _count(totals, f"expired_rows.{i}")
        sizes.append(
            [label, f"{state.rows[i]:,}{mark}", bytes_text(state.bytes[i]) + mark, f"{state.runs[i]:,}", expired]
        )
    if len(sizes) == 1:
        label, *cells = sizes[0]
        return [[row[0], label, *row[2:4], *cells, *row[8:]]]
    return [row, *(["", f"  {label}", "", "", *cells, "", "", ""] for label, *cells in sizes)]


def _count(totals: Mapping[str, float], name: str) -> str:
    return f"{int(totals[name]):,}" if totals.get(name) else ""


def _head(view: JobView) -> list[str]:
    info, last = view.info, view.last
    lines = [f"{info.name} ({info.job_id})", f"runs: {view.writer}" if view.writer else "stopped"]
    facts = ["no micro-batch yet"]
    if last is not None:
        facts = [f"batch {last.batch} took {took(last.ms)}", f"its time {instant_text(last.time)}"]
        if not view.writer:
            lines[1] += f" at {instant_text(last.started + int(last.ms))}"
    if view.in_hand is not None:
        batch, since = view.in_hand
        if view.writer:
            facts.append(f"batch {batch} runs for {took(max(0, view.now - since))}")
        else:
            facts.append(f"batch {batch} was not committed and will run again")
    if view.backlog is not None:
        facts.append(f"{counted(view.backlog, 'micro-batch', 'micro-batches')} to come")
    lines.append("; ".join(facts))
    marks = {o.watermark for o in view.operators() if o.watermark is not None}
    if marks:
        lines.append(
            f"event time {instant_text(min(marks))}" if min(marks) < 2**62 else "event time has reached its end"
        )
    return lines


def table_text(view: JobView, labels: Labels, width: int = 0) -> str:
    """The whole look.

    Args:
        view: the job.
        labels: selectors of its states.
        width: lines are cut to so many columns; 0 for not.
    """
    rows = [list(_HEAD)]
    for operator in view.operators():
        rows += _rows(operator, labels)
    used = [i for i in range(len(_HEAD)) if i <= 3 or any(row[i] for row in rows[1:])]
    table = in_columns([[row[i] for i in used] for row in rows], left=_LEFT)
    lines = [*_head(view), "", *table.splitlines()]
    if any(o.state is not None and o.state.partial for o in view.operators()):
        lines += ["", "+ plus the state from before figures were recorded"]
    return "".join(f"{text[:width] if width else text}\n" for text in lines)


def line(view: JobView) -> str:
    """The look on one line."""
    operators = view.operators()
    read = sum(o.rows_in for o in operators if o.info.kind == "source")
    written = sum(o.rows_in for o in operators if o.info.kind == "sink")
    states = [o.state for o in operators if o.state is not None]
    busy = max(operators, key=lambda o: o.busy, default=None)
    parts = [f"batch {view.last.batch} ({took(view.last.ms)})" if view.last else "no batch yet"]
    parts += [f"{_rate(read)} rows/s in", f"{_rate(written)} rows/s out"]
    parts += [f"{sum(sum(s.rows) for s in states):,} state rows", bytes_text(sum(sum(s.bytes) for s in states))]
    if busy is not None and busy.busy:
        parts.append(f"busiest {_name(busy)}[{busy.info.id}] {_share(busy.busy)}")
    if not view.writer:
        parts.append("stopped")
    return " | ".join(parts)


def to_json(view: JobView, labels: Labels) -> dict[str, Any]:
    """JSON-ready data."""
    last = view.last
    return {
        "jobId": view.info.job_id,
        "name": view.info.name,
        "running": view.writer is not None,
        "process": view.writer.pid if view.writer else None,
        "time": view.now,
        "batches": view.batches,
        "batch": last.to_json() if last else None,
        "batchInHand": view.in_hand[0] if view.in_hand else None,
        "backlog": view.backlog,
        "operators": [_operator_json(o, labels) for o in view.operators()],
    }


def _operator_json(operator: OperatorView, labels: Labels) -> dict[str, Any]:
    info, state = operator.info, operator.state
    hits = operator.cache_hits
    data: dict[str, Any] = {
        "id": info.id,
        "uid": info.uid,
        "kind": info.kind,
        "name": _name(operator),
        "rowsInPerSecond": round(operator.rows_in, 3),
        "rowsOutPerSecond": round(operator.rows_out, 3),
        "busy": round(operator.busy, 4),
        "cacheHitRatio": None if hits is None else round(hits, 4),
        "watermark": operator.watermark,
        "totals": operator.totals,
    }
    if state is not None:
        data["state"] = [
            {
                "name": name,
                "selector": labels.get((info.id, i)),
                "rows": state.rows[i],
                "bytes": state.bytes[i],
                "runs": state.runs[i],
                "partial": state.partial,
            }
            for i, name in enumerate(info.states)
        ]
    return data
