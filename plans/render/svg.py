"""A plan as an SVG: no scripts, nothing from elsewhere, readable on light and on dark ground.

Operators with state are cards that carry it; those without are chips on the lines; sources and sinks stand at the ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from stateplan.common.lazy_dataclass import dataclass
from stateplan.plans.render.blocks import Block, Wire, blocks
from stateplan.plans.render.layout import BoxPlace, Layout, Route, arrange
from stateplan.plans.render.picture import MARKS, Box, Mark, Picture, picture
from stateplan.plans.render.texts import cut_text, text_width, wrap_text
from stateplan.plans.show import PlanView

_TITLE, _SIZE = 13.0, 12.0
"""Heights of the letters of a title, and of all others, in pixels."""

_NARROW, _WIDE = 132.0, 216.0
_LIVE_CARD = 196.0
"""Width of a card that has room for the figures of a running job."""
_PAD = 9.0
_LEADING = 16.0
_STATE = 23.0
"""Height of a state's TTL."""
_CHIP, _CHIP_GAP = 21.0, 8.0
_STRIP_GAP = 6.0
"""Between the chips in front of an operator and the operator."""
_LANE = 10.0
"""Beside the chips of one input, for the line from those of another."""
_CURVE = (58.0, 16.0)
"""Width and height of the curve of a state."""

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


def _variables(column: int) -> str:
    return " ".join(f"--{name}: {pair[column]};" for name, pair in COLOURS.items())


STYLE = f"""
.plan {{ {_variables(0)} font: {_SIZE:g}px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}
@media (prefers-color-scheme: dark) {{ .plan {{ {_variables(1)} }} }}
.plan .ground {{ fill: var(--ground); }}
.plan .box {{ fill: var(--box); stroke: var(--frame); }}
.plan .source .box, .plan .sink .box {{ fill: var(--end); }}
.plan .stateful .box {{ fill: var(--kept); stroke: var(--kept-frame); stroke-width: 1.5; }}
.plan .chip .box {{ fill: var(--ground); }}
.plan .line {{ fill: none; stroke: var(--edge); stroke-width: 1.25; }}
.plan .tip {{ fill: var(--edge); }}
.plan .pill {{ fill: var(--ground); stroke: var(--kept-frame); }}
.plan text {{ fill: var(--text); }}
.plan .title {{ font-weight: 600; font-size: {_TITLE:g}px; }}
.plan .summary, .plan .chip text {{ fill: var(--dim); }}
.plan .chip text {{ text-anchor: middle; }}
"""


def to_svg(view: PlanView) -> str:
    """A plan as an SVG document, from the sources on the left to the sinks on the right."""
    return picture_svg(picture(view))


def picture_svg(plan_picture: Picture, marks: Mapping[int, Mark] | None = None) -> str:
    """A picture as an SVG document. Boxes have colours by their marks, and those without one are faint if there are
    any."""
    inner, width, height = drawing(plan_picture, across=True)
    title = escape(plan_picture.title, quote=True)
    about = f"{len(plan_picture.boxes)} operators from the sources on the left to the sinks on the right"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" role="img" aria-labelledby="plan-title plan-about" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        f'<title id="plan-title">{title}</title>\n<desc id="plan-about">{about}</desc>\n'
        f"<style>{STYLE}{_style_of(marks or {})}</style>\n"
        f'<rect class="ground" width="100%" height="100%"/>\n{inner}</svg>\n'
    )


def _style_of(marks: Mapping[int, Mark]) -> str:
    """The colours of boxes by their marks."""
    rules = [".plan .node { opacity: 0.45; }\n"] if marks else []
    for box, mark in marks.items():
        ground, frame = MARKS[mark]
        dashes = " stroke-dasharray: 6 4;" if mark == "removed" else ""
        rules.append(f'.plan .node[data-id="{box}"] {{ opacity: 1; }}\n')
        rules.append(f'.plan .node[data-id="{box}"] .box {{ fill: {ground}; stroke: {frame};{dashes} }}\n')
        rules.append(f'.plan .node[data-id="{box}"] text {{ fill: #1b1f27; }}\n')
    return "".join(rules)


def drawing(plan_picture: Picture, *, across: bool, live: bool = False) -> tuple[str, float, float]:
    """Lines and boxes of a picture as SVG elements, and the size they take.

    Each operator is a ``<g class="node" data-id="5">``, each line a ``<g class="edge" data-source="3"
    data-target="5">``, each state with a TTL a ``<g class="kept" data-id="5" data-index="0">`` in its operator.

    Args:
        plan_picture: the picture.
        across: from the left to the right; otherwise from the top to the bottom.
        live: whether to leave room for the figures of a running job, with empty texts for them: ``flow`` below a
            source, an operator with state and a sink, ``size``, ``age`` and ``curve`` at each state.
    """
    all_blocks, wires = blocks(plan_picture)
    shapes = {block.id: _Shape.of(block, across, live) for block in all_blocks}
    sizes = {i: (shape.width, shape.height) for i, shape in shapes.items()}
    edges = [(wire.source, wire.target) for wire in wires]
    layout = arrange(sizes, edges, gap=16.0 if across else 20.0, rise=30.0, across=across)
    entries = _entries(wires, layout, across)
    parts: list[str] = []
    for block in all_blocks:
        parts += shapes[block.id].markup(layout.boxes[block.id], entries.get(block.id, ()))
    parts = [*_wires(wires, layout, shapes, entries, across), *parts]
    return "".join(parts), round(layout.width, 1), round(layout.height, 1)


def _entries(wires: Sequence[Wire], layout: Layout, across: bool) -> dict[int, tuple[int, ...]]:
    """For each block its inputs in the order in which their lines come in, from the left or from the top."""
    places_by_block: dict[int, list[tuple[float, int]]] = {}
    for wire, route in zip(wires, layout.routes, strict=True):
        places_by_block.setdefault(wire.target, []).append((route.points[-1][1 if across else 0], wire.position))
    return {target: tuple(position for _, position in sorted(places)) for target, places in places_by_block.items()}


@dataclass(frozen=True)
class _Strip:
    """The chips in front of an input: rows of chips with their widths."""

    rows: tuple[tuple[tuple[Box, float], ...], ...]

    @classmethod
    def of(cls, chips: Sequence[Box], room: float) -> _Strip:
        rows: list[list[tuple[Box, float]]] = [[]]
        for chip in chips:
            width = min(text_width(_chip_text(chip), _SIZE) + 14.0, _WIDE)
            if rows[-1] and _row_width(rows[-1]) + _CHIP_GAP + width > room:
                rows.append([])
            rows[-1].append((chip, width))
        return cls(tuple(map(tuple, rows)))

    @property
    def width(self) -> float:
        return max(map(_row_width, self.rows))

    @property
    def height(self) -> float:
        return len(self.rows) * (_CHIP + _STRIP_GAP)


def _chip_text(chip: Box) -> str:
    return cut_text(chip.title.rpartition(" [")[0], _WIDE - 14.0, _SIZE)


def _row_width(row: Sequence[tuple[Box, float]]) -> float:
    return sum(width for _, width in row) + _CHIP_GAP * (len(row) - 1)


@dataclass(frozen=True)
class _Shape:
    """A block with its measures.

    Attributes:
        block: what is drawn.
        width, height: of the whole.
        body: height of the main box.
        strips: the chips in front of the inputs of the main box, by position; or those alone, at 0.
        lines: texts of the main box with their classes.
        across, live: as :func:`drawing` has them.
    """

    block: Block
    width: float
    height: float
    body: float
    strips: Mapping[int, _Strip]
    lines: tuple[tuple[str, str], ...]
    across: bool
    live: bool

    @classmethod
    def of(cls, block: Block, across: bool, live: bool) -> _Shape:
        main = block.main
        if main is None:
            strip = _Strip.of(block.stack, 0.0)
            return cls(block, strip.width, strip.height - _STRIP_GAP, 0.0, {0: strip}, (), across, live)
        width, lines = _texts(main, live)
        room = width if across else max(60.0, (width - _CHIP_GAP * (len(block.chains) - 1)) / max(1, len(block.chains)))
        strips = {position: _Strip.of(chips, room) for position, chips in block.chains.items()}
        body = 2 * _PAD + _LEADING * len(lines) + (len(main.states) * (_STATE + (2 * _LEADING if live else 0.0))) - 3.0
        if live:
            body += _LEADING
        wide = [strip.width for strip in strips.values()]
        high = [strip.height for strip in strips.values()]
        if across:
            full_width = max([width, *(value + _LANE * (len(wide) - 1) for value in wide)])
        else:
            full_width = max(width, sum(wide) + _CHIP_GAP * (len(wide) - 1))
        above = sum(high) if across else max(high, default=0.0)
        return cls(block, full_width, above + body, body, strips, lines, across, live)

    def places(self, at: BoxPlace, entries: Sequence[int]) -> dict[int, tuple[float, float]]:
        """The left upper corner of each strip, in the order in which their lines come in."""
        left, top = at.x - at.width / 2, at.y
        corners = {}
        for position in entries or tuple(self.strips):
            if position in self.strips:
                strip = self.strips[position]
                if self.across:
                    corners[position] = (left, top)
                    top += strip.height
                else:
                    corners[position] = (left, self._top(at) - strip.height)
                    left += strip.width + _CHIP_GAP
        return corners

    def _top(self, at: BoxPlace) -> float:
        """The upper edge of the main box."""
        return at.y + self.height - self.body

    def entry(self, at: BoxPlace, entries: Sequence[int], position: int) -> tuple[float, float]:
        """Where the line of an input comes in."""
        left = at.x - at.width / 2
        if self.block.main is None:
            place = (entries.index(position) + 0.5) / len(entries)
            first_row = self.strips[0].rows[0]
            return (left, at.y + place * _CHIP) if self.across else (left + place * _row_width(first_row), at.y)
        places = self.places(at, entries)
        if position in places:
            x, y = places[position]
            first = self.strips[position].rows[0]
            return (x, y + _CHIP / 2) if self.across else (x + first[0][1] / 2, y)
        bare = [p for p in entries if p not in places]
        place = (bare.index(position) + 0.5) / len(bare)
        if self.across:
            return left, self._top(at) + place * self.body
        begin = max((x + self.strips[p].width + _CHIP_GAP for p, (x, _) in places.items()), default=left)
        return begin + place * max(left + self.width - begin, 0.0), self._top(at)

    def exit(self, at: BoxPlace) -> tuple[float, float]:
        """Where its rows go out: of chips alone, at the last chip."""
        if self.block.main is None:
            left, last_width = at.x - at.width / 2, _row_width(self.strips[0].rows[-1])
            bottom = at.y + self.height
            return (left + last_width, bottom - _CHIP / 2) if self.across else (left + last_width / 2, bottom)
        if self.across:
            return at.x + at.width / 2, self._top(at) + self.body / 2
        return at.x, at.y + self.height

    def markup(self, at: BoxPlace, entries: Sequence[int]) -> Iterator[str]:
        """The boxes, and the lines between them."""
        main = self.block.main
        if main is None:
            yield from _chips(self.strips[0], at.x - at.width / 2, at.y, None)
            return
        places = self.places(at, entries)
        for number, (position, (x, y)) in enumerate(places.items()):
            lower = [self.strips[other].width for other in tuple(places)[number + 1 :]] if self.across else []
            lane = x + max(lower) + _LANE * (len(lower) - 0.5) if lower else None
            yield from _chips(self.strips[position], x, y, main, self._top(at), lane)
        yield self._main(main, at.x - at.width / 2, self._top(at))

    def _main(self, box: Box, left: float, top: float) -> str:
        size = f'width="{_n(self.width)}" height="{_n(self.body)}"'
        parts = [
            _open_group(box, f"node {box.kind}{' stateful' if box.stateful else ''}"),
            f'<rect class="box" x="{_n(left)}" y="{_n(top)}" {size} rx="7"/>',
        ]
        y = top + _PAD + 11.0
        for kind, text in self.lines:
            parts.append(f'<text class="{kind}" x="{_n(left + _PAD)}" y="{_n(y)}">{escape(text, quote=True)}</text>')
            y += _LEADING
        y -= 11.0
        for index, text in box.states:
            parts.append(self._state(box, index, text, left, y))
            y += _STATE + (2 * _LEADING if self.live else 0.0)
        if self.live:
            parts.append(
                f'<text class="figure flow" data-id="{box.id}" x="{_n(left + _PAD)}" y="{_n(y + 11.0)}"></text>'
            )
        return "".join(parts) + "</g>\n"

    def _state(self, box: Box, index: int, text: str, left: float, y: float) -> str:
        """A state: its TTL, and room for its figures."""
        room = self.width - 2 * _PAD - (_CURVE[0] + 6.0 if self.live else 0.0)
        label = cut_text(text, room - 14.0, _SIZE)
        width = text_width(label, _SIZE) + 14.0
        x, attributes = left + _PAD, f'data-id="{box.id}" data-index="{index}"'
        text_parts = (
            f'<g class="kept" {attributes}><title>{escape(text, quote=True)}</title>'
            f'<rect class="pill" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="19" rx="9.5"/>'
            f'<text class="ttl" x="{_n(x + 7.0)}" y="{_n(y + 13.5)}">{escape(label, quote=True)}</text></g>'
        )
        if self.live:
            curve = f"{_n(left + self.width - _PAD - _CURVE[0])} {_n(y + 2.0)} {_n(_CURVE[0])} {_n(_CURVE[1])}"
            text_parts += f'<polyline class="curve" {attributes} data-area="{curve}"/>'
            for number, name in enumerate(("rows", "size")):
                down = _STATE + number * _LEADING + 10.0
                text_parts += f'<text class="figure {name}" {attributes} x="{_n(x)}" y="{_n(y + down)}"></text>'
        return text_parts


def _texts(box: Box, live: bool) -> tuple[float, tuple[tuple[str, str], ...]]:
    """Width of a box, and its texts with their classes."""
    title = f"{box.table} [{box.label}]" if box.table and box.kind != "operator" else box.title
    head = text_width(title, _TITLE * 1.06) + 2 * _PAD
    states_width = max((text_width(text, _SIZE) for _, text in box.states), default=0.0) + 16.0 + 2 * _PAD
    least = _LIVE_CARD if live and box.states else _NARROW
    if live and box.states:
        states_width += _CURVE[0] + 6.0
    width = min(max(least, head, states_width), max(_WIDE, least))
    room = width - 2 * _PAD
    lines = [("title", cut_text(title, room, _TITLE * 1.06))]
    max_lines = 1 if box.stateful else 2
    lines += [("summary", text) for text in wrap_text(box.summary, room, _SIZE, max_lines)]
    if box.stateful and not box.states:
        lines.append(("summary", cut_text("state without a TTL", room, _SIZE)))
    return width, tuple(lines)


def _open_group(box: Box, kinds: str) -> str:
    about = escape(f"{box.title}: {box.summary}", quote=True)
    return f'<g class="{kinds}" data-id="{box.id}" role="button" aria-label="{about}"><title>{about}</title>'


def _chips(
    strip: _Strip, left: float, top: float, main: Box | None, bottom: float = 0.0, lane: float | None = None
) -> Iterator[str]:
    """Chips in rows, the lines from each to the next one, and the line from the last one down to the main box at
    ``bottom``; ``lane`` is where that line finds no other chips, None if it finds none anyway."""
    last_chip: tuple[Box, float, float] | None = None
    lines: list[str] = []
    for row_number, row in enumerate(strip.rows):
        x, y = left, top + row_number * (_CHIP + _STRIP_GAP)
        for chip, width in row:
            if last_chip is not None:
                before, right, last_y = last_chip
                if last_y == y:
                    path = f"M{_n(right)} {_n(y + _CHIP / 2)}H{_n(x)}"
                else:  # down to the next row, and back to its beginning
                    across = f"V{_n(y - _STRIP_GAP / 2)}H{_n(x + min(width, 12.0))}"
                    path = f"M{_n(right - 14.0)} {_n(y - _STRIP_GAP)}{across}V{_n(y)}"
                lines.append(_edge(before.id, chip.id, path))
            yield (
                f"{_open_group(chip, 'node chip')}"
                f'<rect class="box" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(_CHIP)}" rx="10.5"/>'
                f'<text x="{_n(x + width / 2)}" y="{_n(y + 14.5)}">{escape(_chip_text(chip), quote=True)}</text></g>\n'
            )
            last_chip = (chip, x + width, y)
            x += width + _CHIP_GAP
    if main is not None and last_chip is not None:
        chip, right, y = last_chip
        if lane is None or right - 14.0 > lane:
            path = f"M{_n(right - 14.0)} {_n(y + _CHIP)}V{_n(bottom)}"
        else:
            path = f"M{_n(right)} {_n(y + _CHIP / 2)}H{_n(lane)}V{_n(bottom)}"
        lines.append(_edge(chip.id, main.id, path))
    yield from lines


def _edge(source: int, target: int, path: str, tip: str = "") -> str:
    head = f'<path class="tip" d="{tip}"/>' if tip else ""
    return f'<g class="edge" data-source="{source}" data-target="{target}"><path class="line" d="{path}"/>{head}</g>\n'


def _wires(
    wires: Sequence[Wire],
    layout: Layout,
    shapes: Mapping[int, _Shape],
    entries: Mapping[int, Sequence[int]],
    across: bool,
) -> Iterator[str]:
    for wire, route in zip(wires, layout.routes, strict=True):
        target = shapes[wire.target]
        start = shapes[wire.source].exit(layout.boxes[wire.source])
        end = target.entry(layout.boxes[wire.target], entries[wire.target], wire.position)
        path = _path(Route((start, *_between(route, start, across), end)), across)
        x, y = end
        tip = f"M{_n(x)} {_n(y)}l-7 -4v8z" if across else f"M{_n(x)} {_n(y)}l-4 -7h8z"
        yield _edge(wire.tail, wire.head, path, tip)


def _between(route: Route, start: tuple[float, float], across: bool) -> list[tuple[float, float]]:
    """The bends of a route that begins at ``start``: it leaves its layer straight."""
    lane = 1 if across else 0
    bends = list(route.points[1:-1])
    if bends and bends[0][lane] == route.points[0][lane]:
        bends[0] = (bends[0][0], start[1]) if across else (start[0], bends[0][1])
    return bends


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _path(route: Route, across: bool) -> str:
    """The path along the points: straight along the way of the drawing, bent where it goes to another lane."""
    (x, y), *rest = route.points
    commands = f"M{_n(x)} {_n(y)}"
    for to_x, to_y in rest:
        if abs((to_y - y) if across else (to_x - x)) < 0.5:
            commands += f"L{_n(to_x)} {_n(to_y)}"
        elif across:
            middle = (x + to_x) / 2
            commands += f"C{_n(middle)} {_n(y)} {_n(middle)} {_n(to_y)} {_n(to_x)} {_n(to_y)}"
        else:
            middle = (y + to_y) / 2
            commands += f"C{_n(x)} {_n(middle)} {_n(to_x)} {_n(middle)} {_n(to_x)} {_n(to_y)}"
        x, y = to_x, to_y
    return commands
