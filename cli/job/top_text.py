"""A look at a job as text: a table for people, a line for a log."""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.readable import amount, bytes_text, hex_id, in_columns, instant_text, took
from stateplan.plans.job_snapshot import Key, PlannedState, plain_name
from stateplan.runtime.metrics.view import JobView, OperatorView

States = Mapping[Key, PlannedState]

_HEAD = ("id", "operator", "ttl", "in/s", "out/s", "stored rows", "bytes", "runs", "expired", "late", "busy", "cache")
_NAMES, _TTL = 2, 2
"""The number of columns with names. The column of TTLs follows them, if there is one."""


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f}%"


def _rows(operator: OperatorView, states: States) -> list[list[str]]:
    info, state, totals = operator.info, operator.state, operator.totals
    row = [
        str(info.id),
        plain_name(operator),
        "",
        _rate(operator.rows_in),
        _rate(operator.rows_out) if info.kind != "sink" else "",
        *[""] * 4,
        _count(totals, "late_rows"),
        _share(operator.busy),
        _share(operator.cache_hits),
    ]
    sizes = []
    for i, name in enumerate(info.states):
        planned_state = states.get((info.id, i))
        if state is None and planned_state is None:
            continue
        label, ttl = (
            (planned_state.selector, planned_state.ttl_text)
            if planned_state
            else (f"{plain_name(operator)}.{name}", "")
        )
        cells = [""] * 4  # before the first micro-batch
        if state is not None:
            mark = "+" if state.partial else ""
            expired_rows = _count(totals, f"expired_rows.{i}")
            cells = [f"{state.rows[i]:,}{mark}", bytes_text(state.bytes[i]) + mark, f"{state.runs[i]:,}", expired_rows]
        sizes.append((label, ttl, cells))
    if len(sizes) == 1:
        label, ttl, cells = sizes[0]
        return [[row[0], label, ttl, *row[3:5], *cells, *row[9:]]]
    return [row, *(["", f"  {label}", ttl, "", "", *cells, "", "", ""] for label, ttl, cells in sizes)]


def _count(totals: Mapping[str, float], name: str) -> str:
    return f"{int(totals[name]):,}" if totals.get(name) else ""


def _head(view: JobView) -> list[str]:
    info, last = view.info, view.last
    lines = [f"{info.name} ({hex_id(info.job_id)})", f"runs: {view.writer}" if view.writer else "stopped"]
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
    if last is not None and view.writer:
        facts.append(f"load {_share(view.load)}")
    if view.backlog is not None:
        facts.append(f"{amount(view.backlog, 'micro-batch', 'micro-batches')} to come")
    lines.append("; ".join(facts))
    marks = {o.watermark for o in view.operators() if o.watermark is not None}
    if marks:
        lines.append(
            f"event time {instant_text(min(marks))}" if min(marks) < 2**62 else "event time has reached its end"
        )
    return lines


def table_text(view: JobView, states: States, width: int = 0) -> str:
    """The whole look.

    Args:
        view: the job.
        states: of its plan.
        width: lines are cut to this number of columns; 0 for not.
    """
    rows = [list(_HEAD)]
    for operator in view.operators():
        rows += _rows(operator, states)
    columns = [i for i in range(len(_HEAD)) if (i <= 4 and i != _TTL) or any(row[i] for row in rows[1:])]
    table = in_columns([[row[i] for i in columns] for row in rows], left=_NAMES + (_TTL in columns))
    lines = [*_head(view), "", *table.splitlines()]
    if any(o.state is not None and o.state.partial for o in view.operators()):
        lines += ["", "+ plus the state from before figures were recorded"]
    return "".join(f"{text[:width] if width else text}\n" for text in lines)


def line(view: JobView) -> str:
    """The look on one line."""
    operators = view.operators()
    read = sum(o.rows_in for o in operators if o.info.kind == "source")
    output_rate = sum(o.rows_in for o in operators if o.info.kind == "sink")
    states = [o.state for o in operators if o.state is not None]
    busy = max(operators, key=lambda o: o.busy, default=None)
    parts = [f"batch {view.last.batch} ({took(view.last.ms)})" if view.last else "no batch yet"]
    parts += [f"{_rate(read)} rows/s in", f"{_rate(output_rate)} rows/s out"]
    parts += [f"{sum(sum(s.rows) for s in states):,} stored rows", bytes_text(sum(sum(s.bytes) for s in states))]
    if busy is not None and busy.busy:
        parts.append(f"busiest {plain_name(busy)}[{busy.info.id}] {_share(busy.busy)}")
    if not view.writer:
        parts.append("stopped")
    return " | ".join(parts)
