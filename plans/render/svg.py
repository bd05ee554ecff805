"""A plan as an SVG: no scripts, nothing from elsewhere, readable on light and on dark ground."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from html import escape

from stateplan.plans.render.layout import Layout, Placed, Route, arrange
from stateplan.plans.render.picture import Box, Line, Picture, picture
from stateplan.plans.show import PlanView

_SIZE = 12.0
"""Height of the letters of a summary, in pixels."""

_NARROW, _WIDE = 190.0, 320.0
_LINES = 3
_PAD = 10.0
_LEADING = 16.0
_LABEL = 10.5
_FIGURES = 118.0
"""Room for the figures beside a line of a job that runs."""
_LIVE_RISE = 84.0
"""Distance between layers where figures stand on the lines."""

COLOURS = {
    "ground": ("#ffffff", "#16181d"),
    "box": ("#f5f6f8", "#23262d"),
    "kept": ("#fff4d6", "#3a3118"),
    "end": ("#e6f0fb", "#1b2c40"),
    "edge": ("#8a919e", "#7d8694"),
    "frame": ("#b6bcc8", "#4a505c"),
    "kept-frame": ("#b7791f", "#d9a441"),
    "text": ("#1b1f27", "#e8eaef"),
    "dim": ("#565e6c", "#a6aebb"),
    "mark": ("#1a5fd0", "#7fb2ff"),
}
"""Colours on light and on dark ground."""


def _variables(which: int) -> str:
    return " ".join(f"--{name}: {pair[which]};" for name, pair in COLOURS.items())


STYLE = f"""
.plan {{ {_variables(0)} font: {_SIZE:g}px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}
@media (prefers-color-scheme: dark) {{ .plan {{ {_variables(1)} }} }}
.plan .ground {{ fill: var(--ground); }}
.plan .box {{ fill: var(--box); stroke: var(--frame); }}
.plan .source .box, .plan .sink .box {{ fill: var(--end); }}
.plan .stateful .box {{ fill: var(--kept); stroke: var(--kept-frame); stroke-width: 1.5; }}
.plan .line {{ fill: none; stroke: var(--edge); stroke-width: 1.25; }}
.plan .tip {{ fill: var(--edge); }}
.plan .pill {{ fill: var(--ground); stroke: var(--kept-frame); }}
.plan text {{ fill: var(--text); }}
.plan .title {{ font-weight: 600; }}
.plan .summary, .plan .ttl {{ fill: var(--dim); font-size: 11px; }}
.plan .ttl {{ fill: var(--text); text-anchor: middle; }}
"""


def to_svg(view: PlanView) -> str:
    """A plan as an SVG document."""
    shown = picture(view)
    inner, width, height = drawing(shown)
    title = escape(shown.title, quote=True)
    about = f"{len(shown.boxes)} operators from the sources at the top to the sinks at the bottom"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" role="img" aria-labelledby="plan-title plan-about" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        f'<title id="plan-title">{title}</title>\n<desc id="plan-about">{about}</desc>\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="ground" width="100%" height="100%"/>\n{inner}</svg>\n'
    )


def drawing(shown: Picture, live: bool = False) -> tuple[str, float, float]:
    """Lines and boxes of a picture as SVG elements, and the size they take.

    Each box is a ``<g class="node" data-id="5">``, each line a ``<g class="edge" data-source="3" data-target="5">``.

    Args:
        shown: the picture.
        live: whether to leave room for the figures of a running job, with empty texts for them: ``rate`` and ``mark``
            below a box that others read, ``held`` at each input of an operator with state.
    """
    labels: dict[int, float] = {}
    least = _FIGURES if live else 24.0
    for line in shown.lines:
        labels[line.target] = labels.get(line.target, 0.0) + max(_width(line.label, _LABEL) + 24.0, least)
    texts = {box.id: _texts(box, labels.get(box.id, 0.0)) for box in shown.boxes}
    sizes = {i: (width, _PAD * 2 + _LEADING * len(lines) - 4.0) for i, (width, lines) in texts.items()}
    edges = [(line.source, line.target) for line in shown.lines]
    layout = arrange(sizes, edges, rise=_LIVE_RISE) if live else arrange(sizes, edges)
    parts = [*_lines(shown, layout), *(_box(box, layout.boxes[box.id], texts[box.id][1]) for box in shown.boxes)]
    parts += _pills(shown, layout)
    if live:
        parts += _figures(shown, layout)
    return "".join(parts), round(layout.width, 1), round(layout.height, 1)


def _figures(shown: Picture, layout: Layout) -> Iterator[str]:
    """Empty texts for what a running job says of its lines: all lines from one box bring the same rows."""
    stateful = {box.id for box in shown.boxes if box.stateful}
    told: set[int] = set()
    for line, route in zip(shown.lines, layout.routes, strict=True):
        (x, y), (to_x, to_y) = route.points[0], route.points[-1]
        if line.source not in told:
            told.add(line.source)
            for name, down in (("rate", 17.0), ("mark", 31.0)):
                yield (
                    f'<text class="figure {name}" data-source="{line.source}" x="{_n(x + 6.0)}" y="{_n(y + down)}">'
                    "</text>\n"
                )
        if line.target in stateful:
            above = 36.0 if line.label else 14.0
            yield (
                f'<text class="figure held" data-target="{line.target}" data-input="{line.position}" x="{_n(to_x)}" '
                f'y="{_n(to_y - above)}"></text>\n'
            )


_EMS = {
    **dict.fromkeys("ijl|'", 0.3),
    **dict.fromkeys(' .,:;!ft()[]/\\-r`"', 0.41),
    **dict.fromkeys("WM@%m", 1.0),
    **dict.fromkeys("=<>+~w#…", 0.84),
    **dict.fromkeys("GHNOQDUC&", 0.78),
}
"""Widths of letters in the widest of the usual fonts without serifs, in ems."""


def _width(text: str, size: float) -> float:
    """About how wide ``text`` is; rather more than less."""
    ems = 0.0
    for c in text:
        wide = not c.isascii() and unicodedata.east_asian_width(c) in "WF"
        ems += 1.05 if wide else _EMS.get(c) or (0.7 if c.isupper() else 0.64 if c.isascii() else 0.9)
    return ems * size


def _cut(text: str, width: float, size: float) -> str:
    if _width(text, size) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _width(text[:middle] + "…", size) <= width else (low, middle - 1)
    return text[:low].rstrip() + "…"


def _texts(box: Box, least: float) -> tuple[float, list[tuple[str, str]]]:
    """Width of a box, and its lines with their classes."""
    head = _width(box.title, _SIZE * 1.06) + 2 * _PAD
    width = min(max(_NARROW, head, least), max(_WIDE, least))
    room = width - 2 * _PAD
    lines = [("title", _cut(box.title, room, _SIZE * 1.06))]
    lines += [("summary", text) for text in _wrapped(box.summary, room, 11.0)]
    lines += [("summary", _cut(note, room, 11.0)) for note in box.notes]
    return width, lines


def _wrapped(text: str, room: float, size: float) -> list[str]:
    """``text`` in at most :data:`_LINES` lines; what does not fit is cut off, long words too."""
    lines: list[str] = []
    words = text.split()
    while words and len(lines) < _LINES:
        if len(lines) == _LINES - 1:
            return [*lines, _cut(" ".join(words), room, size)]
        line = words.pop(0)
        while words and _width(f"{line} {words[0]}", size) <= room:
            line += f" {words.pop(0)}"
        lines.append(_cut(line, room, size))
    return lines


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _path(route: Route) -> str:
    (x, y), *rest = route.points
    out = f"M{_n(x)} {_n(y)}"
    for to_x, to_y in rest:
        if abs(to_x - x) < 0.5:
            out += f"L{_n(to_x)} {_n(to_y)}"
        else:
            middle = (y + to_y) / 2
            out += f"C{_n(x)} {_n(middle)} {_n(to_x)} {_n(middle)} {_n(to_x)} {_n(to_y)}"
        x, y = to_x, to_y
    return out


def _lines(shown: Picture, layout: Layout) -> Iterator[str]:
    for line, route in zip(shown.lines, layout.routes, strict=True):
        x, y = route.points[-1]
        tip = f"M{_n(x)} {_n(y)}l-4 -7h8z"
        yield (
            f'<g class="edge" data-source="{line.source}" data-target="{line.target}">'
            f'<path class="line" d="{_path(route)}"/><path class="tip" d="{tip}"/></g>\n'
        )


def _pills(shown: Picture, layout: Layout) -> Iterator[str]:
    """The TTLs, each on its line in front of the operator that keeps what comes along it."""
    for line, route in zip(shown.lines, layout.routes, strict=True):
        if line.label:
            x, y = route.points[-1]
            width = _width(line.label, _LABEL) + 14.0
            yield _pill(line, x, y - 19.0, width)


def _pill(line: Line, x: float, y: float, width: float) -> str:
    return (
        f'<g class="kept" data-source="{line.source}" data-target="{line.target}">'
        f'<rect class="pill" x="{_n(x - width / 2)}" y="{_n(y - 9)}" width="{_n(width)}" height="18" rx="9"/>'
        f'<text class="ttl" x="{_n(x)}" y="{_n(y + 4)}">{escape(line.label, quote=True)}</text></g>\n'
    )


def _box(box: Box, at: Placed, lines: list[tuple[str, str]]) -> str:
    left, top = at.x - at.width / 2, at.y
    kinds = f"node {box.kind}{' stateful' if box.stateful else ''}"
    about = escape(f"{box.title}: {box.summary}", quote=True)
    out = [
        f'<g class="{kinds}" data-id="{box.id}" role="button" aria-label="{about}"><title>{about}</title>',
        f'<rect class="box" x="{_n(left)}" y="{_n(top)}" width="{_n(at.width)}" height="{_n(at.height)}" rx="6"/>',
    ]
    for position, (kind, text) in enumerate(lines):
        y = top + _PAD + 10.0 + position * _LEADING
        out.append(f'<text class="{kind}" x="{_n(left + _PAD)}" y="{_n(y)}">{escape(text, quote=True)}</text>')
    return "".join(out) + "</g>\n"
