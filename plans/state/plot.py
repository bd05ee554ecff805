"""The size of states over time as an SVG: no scripts, nothing from elsewhere, readable on light and on dark ground."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape

from stateplan.plans.render.svg import COLOURS
from stateplan.plans.state.history import History, Series
from stateplan.plans.state.show import bytes_text

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
"""Colours of the lines, on light and on dark ground; states beyond them share one line."""

_LEFT, _WIDTH, _RIGHT, _TOP, _HEIGHT, _GAP, _BOTTOM = 76.0, 620.0, 250.0, 80.0, 190.0, 58.0, 52.0
_LEADING = 16.0
_POINTS = 600

_STEPS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000,
    1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000,
)  # fmt: skip


def _style() -> str:
    def variables(which: int) -> str:
        names = {**{n: c[which] for n, c in COLOURS.items()}, **{f"s{i}": c[which] for i, c in enumerate(_LINES)}}
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


def to_svg(found: History, title: str) -> str:
    """Two panels over one axis of time: rows above, bytes below, a line per state with its name and last value."""
    series = _fewer(found)
    by_time = found.times[0] < found.times[-1]
    xs = found.times if by_time else found.batches
    width = _LEFT + _WIDTH + _RIGHT
    panels = (
        ("rows", [s.rows for s in series], lambda v: f"{v:,.0f}", False),
        ("bytes", [s.bytes for s in series], bytes_text, True),
    )
    parts = []
    for number, (name, values, words, binary) in enumerate(panels):
        top = _TOP + number * (_HEIGHT + _GAP)
        parts.append(_panel(name, top, xs, [s.name for s in series], values, words, binary))
    base = _TOP + 2 * _HEIGHT + _GAP
    parts.append(_time_axis(xs, base) if by_time else _batch_axis(xs, base))
    height = base + _BOTTOM
    first, last = found.batches[0], found.batches[-1]
    about = f"{len(found.series)} {'state' if len(found.series) == 1 else 'states'}, micro-batches {first} to {last}"
    if any(s.partial for s in found.series):
        about += "; state from before the records is not counted"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sizes" role="img" aria-labelledby="sizes-title sizes-about" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        f'<title id="sizes-title">{escape(title)}</title>\n<desc id="sizes-about">{about}</desc>\n'
        f"<style>{_style()}</style>\n"
        f'<rect class="ground" width="100%" height="100%"/>\n'
        f'<text class="title" x="{_LEFT:g}" y="22">{escape(title)}</text>\n'
        f'<text class="dim" x="{_LEFT:g}" y="39">{about}</text>\n{"".join(parts)}</svg>\n'
    )


def _fewer(found: History) -> list[Series]:
    """At most as many series as there are colours: the smallest are added up."""
    if len(found.series) <= len(_LINES):
        return list(found.series)
    order = sorted(found.series, key=lambda s: max((b or 0 for b in s.bytes), default=0), reverse=True)
    large = order[: len(_LINES) - 1]
    rest = [s for s in found.series if s not in large]

    def total(values: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
        return tuple(
            None if all(v is None for v in column) else sum(v or 0 for v in column)
            for column in zip(*values, strict=True)
        )

    others = Series(
        f"{len(rest)} others",
        total([s.rows for s in rest]),
        total([s.bytes for s in rest]),
        any(s.partial for s in rest),
    )
    return [s for s in found.series if s in large] + [others]


def _panel(
    name: str,
    top: float,
    xs: Sequence[int],
    names: Sequence[str],
    values: Sequence[Sequence[int | None]],
    words: Callable[[float], str],
    binary: bool,
) -> str:
    largest = max((v for line in values for v in line if v is not None), default=0)
    step = _nice(largest / 4, binary=binary)
    high = max(step, math.ceil(largest / step) * step)
    start, span = xs[0], max(1, xs[-1] - xs[0])

    def at_x(x: float) -> float:
        return _LEFT + (x - start) / span * _WIDTH

    def at_y(value: float) -> float:
        return top + _HEIGHT * (1 - value / high)

    out = [f'<text class="title" x="{_LEFT:g}" y="{top - 9:g}">{name}</text>\n']
    for n in range(round(high / step) + 1):
        y = at_y(n * step)
        out.append(f'<line class="grid" x1="{_LEFT:g}" y1="{y:.1f}" x2="{_LEFT + _WIDTH:g}" y2="{y:.1f}"/>\n')
        out.append(f'<text class="dim" x="{_LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{words(n * step)}</text>\n')
    ends = []
    for number, line in enumerate(values):
        points = _thinned([(x, v) for x, v in zip(xs, line, strict=True) if v is not None])
        if not points:
            continue
        last = points[-1]
        label = f"{names[number]}  {words(last[1])}"
        if len(points) == 1:
            points.append(points[0])
        path = " ".join(f"{at_x(x):.1f},{at_y(v):.1f}" for x, v in points)
        out.append(f'<polyline class="line s{number}" points="{path}"><title>{escape(label)}</title></polyline>\n')
        ends.append((at_y(last[1]), at_x(last[0]), number, label))
    for y, (end_y, end_x, number, label) in zip(_spread([e[0] for e in sorted(ends)], top), sorted(ends), strict=True):
        x = _LEFT + _WIDTH + 14
        out.append(f'<path class="leader" d="M{end_x + 3:.1f} {end_y:.1f}L{x:g} {y:.1f}"/>\n')
        out.append(f'<line class="line s{number}" x1="{x:g}" y1="{y:.1f}" x2="{x + 12:g}" y2="{y:.1f}"/>\n')
        out.append(f'<text x="{x + 18:g}" y="{y + 4:.1f}">{escape(_short(label))}</text>\n')
    return "".join(out)


def _short(label: str, most: int = 34) -> str:
    return label if len(label) <= most else f"{label[: most // 2]}...{label[-(most - most // 2 - 3) :]}"


def _thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most about so many points as can be told apart: of each stretch the first, the largest and the last."""
    if len(points) <= _POINTS:
        return points
    size = math.ceil(3 * len(points) / _POINTS)
    out = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        out += sorted({part[0], max(part, key=lambda p: p[1]), part[-1]})
    return out


def _spread(wanted: Sequence[float], top: float) -> list[float]:
    """Heights for labels near the ``wanted`` ones (ascending), none over another, as far as there is room."""
    out: list[float] = []
    for y in wanted:
        out.append(max(y, out[-1] + _LEADING) if out else y)
    over = out[-1] - (top + _HEIGHT) if out else 0.0
    if over > 0:
        out[-1] -= over
        for i in range(len(out) - 2, -1, -1):
            out[i] = min(out[i], out[i + 1] - _LEADING)
    return out


def _nice(least: float, *, binary: bool) -> float:
    """The smallest of 1, 2, 5, 10, ... (in bytes 1, 2, 4, 8, ...) that is not below ``least``."""
    if least <= 1:
        return 1.0
    if binary:
        return float(2 ** math.ceil(math.log2(least)))
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least)


def _time_axis(xs: Sequence[int], base: float) -> str:
    start, span = xs[0], xs[-1] - xs[0]
    weeks = _STEPS_MS[-1] * max(1, math.ceil(span / 7 / _STEPS_MS[-1]))
    step = next((s for s in _STEPS_MS if span / s <= 9), weeks)
    ticks = range(-(-start // step) * step, xs[-1] + 1, step)
    out = [_tick(_LEFT + (t - start) / span * _WIDTH, base, _clock(t, step)) for t in ticks]
    return "".join(out) + _caption(f"{_day(xs[0])} to {_day(xs[-1])}, UTC", base)


def _batch_axis(xs: Sequence[int], base: float) -> str:
    span = max(1, xs[-1] - xs[0])
    step = max(1, int(_nice(span / 7, binary=False)))
    ticks = range(-(-xs[0] // step) * step, xs[-1] + 1, step)
    out = [_tick(_LEFT + (t - xs[0]) / span * _WIDTH, base, str(t)) for t in ticks]
    return "".join(out) + _caption("micro-batch", base)


def _tick(x: float, base: float, text: str) -> str:
    return (
        f'<line class="grid" x1="{x:.1f}" y1="{base:g}" x2="{x:.1f}" y2="{base + 5:g}"/>\n'
        f'<text class="dim" x="{x:.1f}" y="{base + 18:g}" text-anchor="middle">{text}</text>\n'
    )


def _caption(text: str, base: float) -> str:
    x = _LEFT + _WIDTH / 2
    return f'<text class="dim" x="{x:g}" y="{base + 38:g}" text-anchor="middle">{text}</text>\n'


def _moment(ms: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _clock(ms: int, step: int) -> str:
    found = _moment(ms)
    if found is None:
        return str(ms)
    if step >= 86_400_000:
        return found.strftime("%m-%d")
    return found.strftime("%H:%M" if step >= 60_000 else "%H:%M:%S") + (f".{ms % 1000:03d}" if step < 1_000 else "")


def _day(ms: int) -> str:
    found = _moment(ms)
    return str(ms) if found is None else found.strftime("%Y-%m-%d %H:%M:%S")
