"""Line charts as SVG: no scripts, nothing from elsewhere, readable on light and on dark ground."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import instant_text
from stateplan.plans.render.svg import COLOURS

Points = Sequence[tuple[float, float]]

_LINES = (
    ("#2a78d6", "#3987e5"),
    ("#eb6834", "#d95926"),
    ("#1baf7a", "#199e70"),
    ("#eda100", "#c98500"),
    ("#e87ba4", "#d55181"),
    ("#008300", "#3fa63f"),
    ("#4a3aa7", "#9085e9"),
    ("#e34948", "#e66767"),
)
"""Colours of the lines, on light and on dark ground."""

MOST = len(_LINES)
"""More lines than colours cannot be drawn."""

_LEFT, _WIDTH, _RIGHT, _TOP, _HEIGHT, _GAP, _BOTTOM = 76.0, 620.0, 250.0, 80.0, 190.0, 58.0, 52.0
_LEADING = 16.0
_POINTS = 600

_STEPS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000,
)  # fmt: skip


def _style() -> str:
    def variables(column: int) -> str:
        names = {**{n: c[column] for n, c in COLOURS.items()}, **{f"s{i}": c[column] for i, c in enumerate(_LINES)}}
        return " ".join(f"--{name}: {colour};" for name, colour in names.items())

    lines = "\n".join(f".sizes .s{i} {{ stroke: var(--s{i}); }}" for i in range(len(_LINES)))
    return f"""
.sizes {{ {variables(0)} font: 12px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}
@media (prefers-color-scheme: dark) {{ .sizes {{ {variables(1)} }} }}
.sizes .ground {{ fill: var(--ground); }}
.sizes text {{ fill: var(--text); }}
.sizes .dim {{ fill: var(--dim); font-size: 11px; }}
.sizes .title {{ font-weight: 600; }}
.sizes .grid {{ stroke: var(--frame); stroke-opacity: 0.45; }}
.sizes .line {{ fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }}
.sizes .leader {{ fill: none; stroke: var(--frame); }}
{lines}
"""


@dataclass(frozen=True)
class Panel:
    """Lines over one axis of values, which are 0 or more.

    Attributes:
        title: what the values are.
        lines: name and points, ascending in x; lines of the same place have the same colour in all panels.
        words: a value as text.
        binary: whether round values are powers of two.
    """

    title: str
    lines: Sequence[tuple[str, Points]]
    words: Callable[[float], str] = "{:,.0f}".format
    binary: bool = False


@dataclass(frozen=True)
class Axis:
    """What all panels are over: from where to where, places with their texts, and a caption."""

    start: float
    end: float
    ticks: Sequence[tuple[float, str]]
    caption: str

    def x(self, value: float) -> float:
        """Where a value is in the drawing."""
        return _LEFT + (value - self.start) / max(1, self.end - self.start) * _WIDTH


def to_svg(title: str, about: str, panels: Sequence[Panel], axis: Axis) -> str:
    """Panels one below the other, with the name and the last value of each line beside it."""
    parts = [_panel(panel, _TOP + number * (_HEIGHT + _GAP), axis) for number, panel in enumerate(panels)]
    base = _TOP + len(panels) * (_HEIGHT + _GAP) - _GAP
    parts += [_tick(axis.x(value), base, text) for value, text in axis.ticks]
    parts.append(_caption(axis.caption, base))
    width, height = _LEFT + _WIDTH + _RIGHT, base + _BOTTOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sizes" role="img" aria-labelledby="sizes-title sizes-about" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        f'<title id="sizes-title">{escape(title)}</title>\n<desc id="sizes-about">{escape(about)}</desc>\n'
        f"<style>{_style()}</style>\n"
        f'<rect class="ground" width="100%" height="100%"/>\n'
        f'<text class="title" x="{_LEFT:g}" y="22">{escape(title)}</text>\n'
        f'<text class="dim" x="{_LEFT:g}" y="39">{escape(about)}</text>\n{"".join(parts)}</svg>\n'
    )


def _panel(panel: Panel, top: float, axis: Axis) -> str:
    largest = max((v for _, points in panel.lines for _, v in points), default=0)
    step = _nice(largest / 4, binary=panel.binary)
    high = max(step, math.ceil(largest / step) * step)

    def at_y(value: float) -> float:
        return top + _HEIGHT * (1 - value / high)

    parts = [f'<text class="title" x="{_LEFT:g}" y="{top - 9:g}">{escape(panel.title)}</text>\n']
    for n in range(round(high / step) + 1):
        y, value = at_y(n * step), panel.words(n * step)
        parts.append(f'<line class="grid" x1="{_LEFT:g}" y1="{y:.1f}" x2="{_LEFT + _WIDTH:g}" y2="{y:.1f}"/>\n')
        parts.append(f'<text class="dim" x="{_LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{value}</text>\n')
    ends = []
    for number, (name, line) in enumerate(panel.lines):
        points = _thinned(line)
        if not points:
            continue
        last = points[-1]
        label = f"{name}  {panel.words(last[1])}"
        if len(points) == 1:
            points = [last, last]
        path = " ".join(f"{axis.x(x):.1f},{at_y(v):.1f}" for x, v in points)
        parts.append(f'<polyline class="line s{number}" points="{path}"><title>{escape(label)}</title></polyline>\n')
        ends.append((at_y(last[1]), axis.x(last[0]), number, label))
    for y, (end_y, end_x, number, label) in zip(_heights([e[0] for e in sorted(ends)], top), sorted(ends), strict=True):
        x = _LEFT + _WIDTH + 14
        parts.append(f'<path class="leader" d="M{end_x + 3:.1f} {end_y:.1f}L{x:g} {y:.1f}"/>\n')
        parts.append(f'<line class="line s{number}" x1="{x:g}" y1="{y:.1f}" x2="{x + 12:g}" y2="{y:.1f}"/>\n')
        parts.append(f'<text x="{x + 18:g}" y="{y + 4:.1f}">{escape(_short(label))}</text>\n')
    return "".join(parts)


def _short(label: str, max_length: int = 34) -> str:
    return (
        label
        if len(label) <= max_length
        else f"{label[: max_length // 2]}...{label[-(max_length - max_length // 2 - 3) :]}"
    )


def _thinned(points: Points) -> Points:
    """At most about so many points as can be distinguished: of each stretch the first, the largest and the last."""
    if len(points) <= _POINTS:
        return points
    size = math.ceil(3 * len(points) / _POINTS)
    points_kept = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        points_kept += sorted({part[0], max(part, key=lambda p: p[1]), part[-1]})
    return points_kept


def _heights(goals: Sequence[float], top: float) -> list[float]:
    """Heights for labels near the ``goals`` ones (ascending), none over another, as far as there is room."""
    heights: list[float] = []
    for y in goals:
        heights.append(max(y, heights[-1] + _LEADING) if heights else y)
    excess = heights[-1] - (top + _HEIGHT) if heights else 0.0
    if excess > 0:
        heights[-1] -= excess
        for i in range(len(heights) - 2, -1, -1):
            heights[i] = min(heights[i], heights[i + 1] - _LEADING)
    return heights


def _nice(least: float, *, binary: bool) -> float:
    """The smallest of 1, 2, 5, 10, ... (in bytes 1, 2, 4, 8, ...) that is not below ``least``."""
    if least <= 1:
        return 1.0
    if binary:
        return float(2 ** math.ceil(math.log2(least)))
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least)


def times(start: int, end: int) -> Axis:
    """From one instant to another, ms since 1970."""
    span = end - start
    weeks = _STEPS_MS[-1] * max(1, math.ceil(span / 7 / _STEPS_MS[-1]))
    step = next((s for s in _STEPS_MS if span / s <= 9), weeks)
    ticks = [(t, _clock(t, step)) for t in range(-(-start // step) * step, end + 1, step)]
    return Axis(start, end, ticks, f"{_day(start)} to {_day(end)}, UTC")


def numbers(start: int, end: int, caption: str) -> Axis:
    """From one number to another."""
    step = max(1, int(_nice(max(1, end - start) / 7, binary=False)))
    return Axis(start, end, [(t, str(t)) for t in range(-(-start // step) * step, end + 1, step)], caption)


def _tick(x: float, base: float, text: str) -> str:
    return (
        f'<line class="grid" x1="{x:.1f}" y1="{base:g}" x2="{x:.1f}" y2="{base + 5:g}"/>\n'
        f'<text class="dim" x="{x:.1f}" y="{base + 18:g}" text-anchor="middle">{text}</text>\n'
    )


def _caption(text: str, base: float) -> str:
    x = _LEFT + _WIDTH / 2
    return f'<text class="dim" x="{x:g}" y="{base + 38:g}" text-anchor="middle">{text}</text>\n'


def _clock(ms: int, step: int) -> str:
    text = instant_text(ms, "%m-%d" if step >= 86_400_000 else "%H:%M" if step >= 60_000 else "%H:%M:%S")
    return str(ms) if text is None else text + (f".{ms % 1000:03d}" if step < 1_000 else "")


def _day(ms: int) -> str:
    return instant_text(ms) or str(ms)
