"""A trial of TTLs as text, as a plot and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from stateplan.common.readable import amount, bytes_text, in_columns
from stateplan.plans.document import ttl_text
from stateplan.plans.render.chart import MOST, Panel, numbers, times
from stateplan.plans.render.chart import to_svg as chart_svg
from stateplan.plans.render.page import page
from stateplan.plans.trial import Difference, Outcome, Trial

_HEAD = ("variant", "missing", "wrong", "extra", "rows", "state rows", "at most", "state", "written")


def to_json(trial: Trial) -> dict[str, Any]:
    """JSON-ready data."""
    return {
        "inputRows": trial.rows,
        "seconds": round(trial.seconds, 3),
        "rowsPerSecond": round(trial.rows / trial.seconds) if trial.seconds else None,
        "playedOnAClock": trial.clocked,
        "variants": [
            {
                "label": outcome.variant.label,
                "ttls": {a.selector.text: a.ttl for a in outcome.variant.assignments},
                "sinks": [d.to_json() for d in differences],
                "stateRows": outcome.last.rows,
                "stateBytes": outcome.last.bytes,
                "mostStateRows": outcome.most,
                "writtenBytes": outcome.written_bytes,
                "overTime": [
                    {"time": p.time, "rows": p.rows, "bytes": p.bytes, "written": p.written_bytes}
                    for p in outcome.points
                ],
            }
            for outcome, differences in zip(trial.outcomes, trial.differences, strict=True)
        ],
    }


def to_text(trial: Trial) -> str:
    """The trial for people."""
    lines = [_about(trial), "", in_columns([_HEAD, *_rows(trial)], left=1).rstrip("\n")]
    for outcome, differences in zip(trial.outcomes, trial.differences, strict=True):
        for difference in differences:
            if difference.total:
                lines += ["", f"{outcome.variant.label}, {difference.sink}: {_blame(outcome, difference)}"]
                lines += [f"  {text}" for text in _examples(difference)]
    lines += ["", *_notes(trial)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _about(trial: Trial) -> str:
    rate = trial.rows / trial.seconds if trial.seconds else 0
    return (
        f"{amount(len(trial.outcomes), 'variant')} over {trial.rows:,} rows in {trial.seconds:.1f} s, "
        f"{rate:,.0f} rows/s; the others are compared with '{trial.outcomes[0].variant.label}'"
    )


def _rows(trial: Trial) -> Iterator[tuple[str, ...]]:
    for outcome, differences in zip(trial.outcomes, trial.differences, strict=True):
        figures: tuple[str, ...] = ("-", "-", "-")
        if differences:
            lost_count = sum(sum(d.missing_rows.values()) for d in differences)
            wrong = sum(len(d.wrong) for d in differences)
            extra_count = sum(sum(d.extra_rows.values()) for d in differences)
            figures = f"{lost_count:,}", f"{wrong:,}", f"{extra_count:,}"
        rows = sum(sum(sink.counts.values()) for sink in outcome.sinks.values())
        last = outcome.last
        yield (
            outcome.variant.label,
            *figures,
            f"{rows:,}",
            f"{last.rows:,}",
            f"{outcome.most:,}",
            bytes_text(last.bytes),
            bytes_text(outcome.written_bytes),
        )


def _blame(outcome: Outcome, difference: Difference) -> str:
    """Which TTL makes the difference."""
    count = f"{amount(difference.total, 'row')} of {difference.rows:,} differ"
    if len(outcome.variant.assignments) == 1:
        return f"{count}, because of the TTL of {outcome.variant.assignments[0].selector.text}"
    if not difference.blame:
        return f"{count}; no TTL alone makes a difference"
    parts = [f"{selector} alone makes {n:,}" for selector, n in difference.blame.items()]
    return f"{count}; {', '.join(parts)}"


def _examples(difference: Difference, max_rows: int = 3) -> Iterator[str]:
    for row in sorted(difference.missing_rows)[:max_rows]:
        yield f"missing  {row}"
    for right, wrong in difference.wrong[:max_rows]:
        yield f"wrong    {wrong}  instead of  {right}"
    for row in sorted(difference.extra_rows)[:max_rows]:
        yield f"extra    {row}"


def _notes(trial: Trial) -> Iterator[str]:
    yield "state rows: stored at the end, older versions included; written: by all micro-batches"
    if not trial.clocked:
        yield (
            "no table of the plan is a replay table, so TTLs count the time of this run; the connector 'replay' plays "
            "rows at the times at which they arrived"
        )


def to_svg(trial: Trial) -> str:
    """State rows over time, and the bytes that micro-batches wrote; a line per variant."""
    outcomes = trial.outcomes[:MOST]
    stamps = [p.time for o in outcomes for p in o.points] or [0]
    axis = times(min(stamps), max(stamps))
    if min(stamps) == max(stamps):
        axis = numbers(min(stamps), min(stamps) + 1, "time, ms")
    panels = (
        Panel("state rows", [(o.variant.label, [(p.time, p.rows) for p in o.points]) for o in outcomes]),
        Panel(
            "state written by a micro-batch",
            [(o.variant.label, [(p.time, p.written_bytes) for p in o.points]) for o in outcomes],
            bytes_text,
            binary=True,
        ),
    )
    return chart_svg("State under other TTLs", _about(trial), panels, axis)


def to_html(trial: Trial) -> str:
    """The plot, the table and the differences as one page that loads nothing else."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in _HEAD)
    rows = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>\n" for row in _rows(trial))
    parts = [to_svg(trial), f"<table>\n<tr>{head}</tr>\n{rows}</table>\n"]
    for outcome, differences in zip(trial.outcomes, trial.differences, strict=True):
        ttls = ", ".join(f"{a.selector.text} {ttl_text(a.ttl)}" for a in outcome.variant.assignments)
        for difference in differences:
            if difference.total:
                parts.append(f"<h2>{escape(outcome.variant.label)}, {escape(difference.sink)}</h2>\n")
                parts.append(f"<p>{escape(ttls)}: {escape(_blame(outcome, difference))}.</p>\n<pre>")
                parts += [f"{escape(text)}\n" for text in _examples(difference, 10)]
                parts.append("</pre>\n")
    parts += [f"<p>{escape(note)}.</p>\n" for note in _notes(trial)]
    return page("State under other TTLs", "".join(parts))
