"""Advice on TTLs as text, as plots and as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from stateplan.common.readable import ago, amount, bytes_text, in_columns
from stateplan.common.ttl import NEVER, format_ttl
from stateplan.plans.document import ttl_text
from stateplan.plans.render.chart import MOST, Axis, Panel
from stateplan.plans.render.chart import to_svg as chart_svg
from stateplan.plans.render.page import page
from stateplan.plans.state.advise import FEWEST, Advised, Point, StateAdvice, rounded_up

EFFECTS = {
    "refreshed": "starts again",
    "joined": "misses a match",
    "deduplicated": "emits a duplicate",
    "retracted": "is not retracted",
}
"""What becomes of a use whose row has expired."""

_MOST_POINTS = 9
_BAR = 20
_TICKS = tuple(n * unit for unit in (1, 1_000, 60_000, 3_600_000) for n in (1, 10)) + tuple(
    n * 86_400_000 for n in (1, 10, 100, 1000)
)


def to_text(advised: Advised, name: str | None = None) -> str:
    """The advice for people; ``name`` is what it is about, if not the checkpoint."""
    snapshot = advised.report.snapshot
    head = (
        f"{name or snapshot.folder}: state after micro-batch {snapshot.batch}; "
        f"at most {advised.miss:.4g} % of the uses of a state may be missed\n"
    )
    return "\n".join([head, *map(_text, advised.states)])


def _text(advice: StateAdvice) -> str:
    """A paragraph, and the curve as a table with bars."""
    lines = [_heading(advice), *(f"  {line}" for line in _sentences(advice))]
    if advice.all.total:
        lines += ["", in_columns(_bars(advice), indent="  ", left=1).rstrip("\n")]
    return "\n".join(lines) + "\n"


def _heading(advice: StateAdvice) -> str:
    ttl, present = advice.figures.state.config.ttl, advice.present
    ttl_words = "no TTL" if ttl == NEVER else f"TTL {format_ttl(ttl)}"
    return f"{advice.selector}: {ttl_words}, {counted_rows(present.rows)}, {bytes_text(present.bytes)}"


def _sentences(advice: StateAdvice) -> list[str]:
    total = advice.all.total
    if not total and advice.ttl is None:
        return ["no use of a row was seen, so nothing is advised"]
    uses = ", ".join(f"{h.total:,} {use} (oldest {ago(h.oldest, 0)})" for use, h in advice.uses.items())
    lines = [f"rows used in {ago(advice.observed, 0)}: {uses or 'none'}"]
    if advice.own is None:
        lines.append(f"{amount(total, 'use')} of {FEWEST} that a TTL is advised from, at least")
    else:
        assert advice.ttl is not None
        at = advice.at(advice.ttl)
        losses = " or ".join(EFFECTS[use] for use in advice.uses)
        lines.append(
            f"advised TTL: {ttl_text(advice.ttl)}, which misses {at.missed:,} of {total:,} uses ({losses}) and keeps "
            f"{counted_rows(at.rows)}, {bytes_text(at.bytes)}"
        )
    if advice.rule:
        alone = "" if advice.own is None else f"; the uses alone need {ttl_text(advice.own)}"
        lines.append(f"{advice.rule} asks for the TTL {ttl_text(advice.ttl or 0)}{alone}")
    if "deduplicated" in advice.uses and not advice.figures.state.config.reads_refresh:
        lines.append(
            'finding a duplicate does not refresh its row; "updateType": "OnReadAndWrite" may need a shorter TTL'
        )
    return [*lines, *(f"not sure: {doubt}" for doubt in advice.doubts)]


def counted_rows(rows: int) -> str:
    """``1 row``, ``1,234 rows``."""
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def shown_points(advice: StateAdvice, max_points: int = _MOST_POINTS) -> list[Point]:
    """A few points of the curve, the advised one among them."""
    points = advice.curve()
    if len(points) > max_points:
        step = (len(points) - 1) / (max_points - 1)
        points = [points[round(i * step)] for i in range(max_points)]
    if advice.ttl:
        points = [p for p in points if rounded_up(p.ttl) != advice.ttl] + [advice.at(advice.ttl)]
    return sorted({p.ttl: p for p in points}.values(), key=lambda p: p.ttl)


def _bars(advice: StateAdvice) -> list[tuple[str, ...]]:
    live = max(1, advice.at(NEVER).rows)
    rows: list[tuple[str, ...]] = [("TTL", "uses missed", "", "rows kept", "")]
    for point in shown_points(advice):
        missed, kept_share = point.missed / advice.all.total, point.rows / live
        ttl = ago(point.ttl, 0) + (" *" if point.ttl == advice.ttl else "")
        rows.append((ttl, f"{missed:.2%}", _bar(missed), f"{point.rows:,}", _bar(kept_share)))
    return rows


def _bar(share: float) -> str:
    return ("#" * math.ceil(share * _BAR)).ljust(_BAR)


def summary(advised: Advised) -> str:
    """One line for all."""
    return f"{amount(len(advised.assignments), 'TTL')} of {amount(len(advised.states), 'state')} would change"


# ---- plots -----------------------------------------------------------------------------------------------------


def to_svg(advised: Advised) -> str:
    """Uses missed and rows kept over TTLs on a logarithmic axis, a line per state: those with the most rows."""
    states = [s for s in advised.states if s.all.total]
    states = sorted(states, key=lambda s: -s.present.rows)[:MOST]
    curves = {s.selector: s.curve() for s in states}
    ttls = [p.ttl for points in curves.values() for p in points] or [1]
    low, high = math.log10(min(ttls)), math.log10(max(max(ttls), min(ttls) + 1))
    ticks = [(math.log10(t), format_ttl(t)) for t in _TICKS if low <= math.log10(t) <= high]
    if len(ticks) < 2:
        ticks = [(math.log10(t), format_ttl(t)) for t in (min(ttls), max(ttls))]
    panels = (
        Panel("uses missed, %", [(s.selector, _shares(s, curves[s.selector])) for s in states], "{:.4g}".format),
        Panel("rows kept", [(s.selector, [(math.log10(p.ttl), p.rows) for p in curves[s.selector]]) for s in states]),
    )
    about = f"{amount(len(states), 'state')} after micro-batch {advised.report.snapshot.batch}"
    axis = Axis(low, high, ticks, "TTL, logarithmic")
    return chart_svg(f"TTLs for {advised.report.snapshot.folder.name}", about, panels, axis)


def _shares(advice: StateAdvice, points: Sequence[Point]) -> list[tuple[float, float]]:
    return [(math.log10(p.ttl), 100 * p.missed / advice.all.total) for p in points]


def to_html(advised: Advised) -> str:
    """The plots and the advice as one page that loads nothing else."""
    parts = [to_svg(advised)]
    for advice in advised.states:
        parts.append(f"<h2>{escape(_heading(advice))}</h2>\n")
        parts += [f"<p>{escape(sentence[:1].upper() + sentence[1:])}.</p>\n" for sentence in _sentences(advice)]
        if advice.all.total:
            parts.append(_table(advice))
    return page(f"TTLs for {advised.report.snapshot.folder.name}", "".join(parts))


def _table(advice: StateAdvice) -> str:
    parts = ["<table>\n<tr><th>TTL</th><th>uses missed</th><th>share</th><th>rows kept</th><th>bytes kept</th></tr>\n"]
    for point in shown_points(advice, 25):
        mark = ' class="chosen"' if point.ttl == advice.ttl else ""
        cells = (
            format_ttl(point.ttl),
            f"{point.missed:,}",
            f"{point.missed / advice.all.total:.3%}",
            f"{point.rows:,}",
            bytes_text(point.bytes),
        )
        parts.append(f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>\n")
    return "".join([*parts, "</table>\n"])
