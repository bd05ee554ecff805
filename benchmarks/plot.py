"""Line charts as SVG: no scripts, nothing from elsewhere, readable on light and on dark ground."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from stateplan.plans.render.svg import COLOURS

_WIDTH, _HEIGHT = 420.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 16.0, 40.0, 44.0
_LINES = (("#1a5fd0", "#7fb2ff"), ("#c0392b", "#ff8d7d"), ("#b7791f", "#d9a441"), ("#1e8449", "#6fd08c"))
_DASHES = ("none", "2 3", "7 3", "none")


@dataclass(frozen=True)
class Series:
    """A line: its name and its points, ascending in x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """Lines over common axes; all values are 0 or more."""

    title: str
    across: str
    up: str
    series: Sequence[Series]


def charts(title: str, panels: Sequence[Chart]) -> str:
    """Charts side by side, with one legend: series of the same place have the same colour in all of them."""
    width, height = _WIDTH * len(panels), _HEIGHT + 34
    drawn = "".join(f'<g transform="translate({n * _WIDTH:g} 0)">{_chart(p)}</g>\n' for n, p in enumerate(panels))
    names = [s.name for s in panels[0].series]
    step = (width - 2 * _RIGHT) / len(names)
    legend = "".join(
        f'<g transform="translate({_RIGHT + n * step:g} {_HEIGHT + 14:g})"><path class="s{n}" d="M0 0h26"/>'
        f'<text x="32" y="4">{escape(name)}</text></g>\n'
        for n, name in enumerate(names)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="{escape(title, quote=True)}" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n<title>{escape(title)}</title>\n'
        f'<style>{_style()}</style>\n<rect class="ground" width="100%" height="100%"/>\n{drawn}{legend}</svg>\n'
    )


def _style() -> str:
    def variables(which: int) -> str:
        named = [f"--{name}: {COLOURS[name][which]};" for name in ("ground", "edge", "frame", "text", "dim")]
        return " ".join([*named, *(f"--s{n}: {pair[which]};" for n, pair in enumerate(_LINES))])

    lines = "\n".join(
        f".chart .s{n} {{ fill: none; stroke: var(--s{n}); stroke-width: 2; stroke-dasharray: {dash}; }}"
        for n, dash in enumerate(_DASHES)
    )
    return f"""
.chart {{ {variables(0)} font: 11px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}
@media (prefers-color-scheme: dark) {{ .chart {{ {variables(1)} }} }}
.chart .ground {{ fill: var(--ground); }}
.chart .grid {{ fill: none; stroke: var(--frame); stroke-width: 0.5; }}
.chart text {{ fill: var(--dim); }}
.chart .title {{ fill: var(--text); font-size: 13px; font-weight: 600; }}
.chart .end {{ text-anchor: end; }}
.chart .middle {{ text-anchor: middle; }}
{lines}
"""


def _chart(chart: Chart) -> str:
    right = max(x for s in chart.series for x, _ in s.points) or 1.0
    ticks = _ticks(max(y for s in chart.series for _, y in s.points))
    across, up = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return round(_LEFT + across * x / right, 1), round(_TOP + up * (1 - y / ticks[-1]), 1)

    out = [f'<text class="title" x="{_LEFT:g}" y="18">{escape(chart.title)}</text>']
    out.append(f'<text x="{_LEFT:g}" y="32">{escape(chart.up)}</text>')
    for tick in ticks:
        y = place(0, tick)[1]
        out.append(f'<path class="grid" d="M{_LEFT:g} {y:g}h{across:g}"/>')
        out.append(f'<text class="end" x="{_LEFT - 6:g}" y="{y + 4:g}">{_short(tick)}</text>')
    for tick in _ticks(right):
        if tick <= right:
            x = place(tick, 0)[0]
            out.append(f'<text class="middle" x="{x:g}" y="{_HEIGHT - _BOTTOM + 16:g}">{_short(tick)}</text>')
    middle = _LEFT + across / 2
    out.append(f'<text class="middle" x="{middle:g}" y="{_HEIGHT - _BOTTOM + 32:g}">{escape(chart.across)}</text>')
    for n, series in enumerate(chart.series):
        path = "L".join("{:g} {:g}".format(*place(x, y)) for x, y in series.points)
        out.append(f'<path class="s{n}" d="M{path}"><title>{escape(series.name)}</title></path>')
    return "\n".join(out)


def _ticks(largest: float) -> list[float]:
    """Round numbers from 0 to at least ``largest``, four to eight of them."""
    if largest <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(largest))
    step = next(power * f for f in (0.1, 0.2, 0.25, 0.5, 1, 2) if largest / (power * f) <= 6)
    return [n * step for n in range(math.ceil(largest / step - 1e-9) + 1)]


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"
