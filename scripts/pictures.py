"""Draws the pictures of the documentation that explain state: ``make docs`` writes them next to their pages.

Each function below returns one picture as an SVG, readable on a light and on a dark ground.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from scripts.pages import ROOT
from stateplan.plans.render.svg import COLOURS

TEXT = 12.0
"""Size of the text, in pixels. No text is smaller."""

_MORE = {
    "s0": ("#2a78d6", "#3987e5"),
    "s1": ("#eb6834", "#d95926"),
    "s2": ("#1baf7a", "#199e70"),
    "s3": ("#8a5cd0", "#a884e8"),
}


def _style() -> str:
    colours = COLOURS | _MORE
    light, dark = (" ".join(f"--{name}: {pair[which]};" for name, pair in colours.items()) for which in (0, 1))
    rules = "".join(f".{name} {{ fill: var(--{name}); }}\n" for name in colours)
    return (
        f'svg {{ {light} font: {TEXT:g}px ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}\n'
        f"@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}\n"
        f"{rules}"
        "text { fill: var(--text); }\n"
        "text.title { fill: var(--text); font-weight: 600; }\n"
        "text.dim { fill: var(--dim); }\n"
        ".framed { stroke: var(--frame); }\n"
        ".line { fill: none; stroke: var(--edge); stroke-width: 1.25; }\n"
        ".strong { fill: none; stroke: var(--s0); stroke-width: 2.25; }\n"
        ".limit { fill: none; stroke: var(--s1); stroke-width: 1.5; stroke-dasharray: 6 4; }\n"
        ".faint { opacity: 0.35; }\n"
    )


def drawing(width: int, height: int, title: str, about: str, parts: Sequence[str]) -> str:
    """An SVG with a title and a description for who cannot see it."""
    body = "\n".join(parts)
    about = f'<title id="title">{escape(title)}</title>\n<desc id="about">{escape(about)}</desc>'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title about" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n{about}\n<style>\n{_style()}</style>\n'
        f'<rect class="ground" width="{width}" height="{height}"/>\n{body}\n</svg>\n'
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text{shown} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str, round_: float = 3) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_:g}"/>'


def _path(points: Sequence[tuple[float, float]], kind: str = "line") -> str:
    return f'<path class="{kind}" d="M{" L".join(f"{x:g} {y:g}" for x, y in points)}"/>'


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line with a tip at its end; it is horizontal or vertical at the end."""
    flat = abs(x2 - x1) >= abs(y2 - y1)
    dx, dy = (math.copysign(6, x2 - x1), 0.0) if flat else (0.0, math.copysign(6, y2 - y1))
    tip = [(x2, y2), (x2 - dx - dy * 0.7, y2 - dy - dx * 0.7), (x2 - dx + dy * 0.7, y2 - dy + dx * 0.7)]
    corners = " ".join(f"{x:g},{y:g}" for x, y in tip)
    return _path([(x1, y1), (x2 - dx, y2 - dy)]) + f'<polygon class="edge" points="{corners}"/>'


# ---- a row's age against its TTL --------------------------------------------------------------------------------

_MINUTES = 150
_ACCESSES = ((0, "write"), (30, "write"), (60, "read"), (80, "read"))
_TTL = 60


def ttl() -> str:
    """The age of one row of state: what sets it to zero, and when the row expires."""
    parts: list[str] = []
    for top, update, kinds in ((34, "OnCreateAndWrite", ("write",)), (264, "OnReadAndWrite", ("write", "read"))):
        parts += _ages(top, update, kinds)
    about = "The row expires an hour after its last write, or with OnReadAndWrite an hour after its last read."
    return drawing(760, 478, "The age of a row of state against its TTL", about, parts)


def _ages(top: float, update: str, kinds: Sequence[str]) -> Iterator[str]:
    left, width, height = 84, 560, 130
    bottom = top + 22 + height

    def x(minute: float) -> float:
        return left + width * minute / _MINUTES

    def y(age: float) -> float:
        return bottom - height * age / 70

    yield _text(left, top, f'"updateType": "{update}"', "title")
    yield _path([(left, bottom - height), (left, bottom), (left + width, bottom)])
    yield _text(left - 10, y(0) + 4, "0", "dim", "end")
    yield _text(left - 10, y(_TTL) + 4, "TTL 1 h", "", "end")
    yield _text(left - 10, y(30) + 4, "age", "dim", "end")
    yield _path([(left, y(_TTL)), (left + width, y(_TTL))], "limit")
    resets = [minute for minute, kind in _ACCESSES if kind in kinds]
    points: list[tuple[float, float]] = []
    for start, end in zip(resets, [*resets[1:], resets[-1] + _TTL], strict=True):
        points += [(x(start), y(0)), (x(end), y(end - start))]
    yield _path(points, "strong")
    expiry = resets[-1] + _TTL
    yield f'<circle class="s1" cx="{x(expiry):g}" cy="{y(_TTL):g}" r="5"/>'
    yield _text(x(expiry) - 4, y(_TTL) - 12, "the row expires", "", "middle")
    for minute, kind in _ACCESSES:
        yield _arrow(x(minute), bottom + 26, x(minute), bottom + 3)
        yield _text(x(minute), bottom + 40, kind, "" if kind in kinds else "dim", "middle")
    yield _text(left + width, bottom + 18, "time", "dim", "end")


# ---- runs and merges ----------------------------------------------------------------------------------------------

_SIZES = (0.92, 0.8, 0.97, 0.86, 0.9, 0.83, 0.95, 0.88)


def runs() -> str:
    """The runs of one key group: eight micro-batches, a merge in steps, and its end."""
    parts = [
        _text(24, 26, "One table of a key group: each run is sorted by the hash of the key", "title"),
        *_frame(24, "after micro-batch 3", _SIZES[:3], 0, "3 runs, the newest below"),
        *_frame(212, "after micro-batch 8", _SIZES, 0, "8 runs of similar size"),
        *_frame(400, "during the merge", _SIZES, 0.45, "low hashes have moved"),
        *_frame(588, "after the merge", (), 1, "1 run, no old versions"),
    ]
    about = "Each micro-batch adds a run. A merge moves the rows of eight runs to a new run, by ascending hash."
    return drawing(760, 300, "Runs and merges of keyed state", about, parts)


def _frame(left: float, title: str, sizes: Sequence[float], share: float, note: str) -> Iterator[str]:
    width, top, step = 148.0, 68.0, 20.0
    yield _text(left, 54, title)
    yield _box(left, top, width, 9 * step + 4, "box framed")
    row = top + 6
    if share:
        yield _box(left + 4, row, (width - 8) * share, 13, "s2")
        row += step
    for at, size in enumerate(sizes):
        end = (width - 8) * size
        start = (width - 8) * share
        yield _box(left + 4 + start, row + at * step, end - start, 13, "s0")
    yield _text(left, 270, "hash", "dim")
    yield _arrow(left + 34, 266, left + width, 266)
    yield _text(left, 288, note, "dim")


# ---- slots across a change of plan ---------------------------------------------------------------------------------

_SLOT = 17.0


def slots() -> str:
    """Ranges of slots in the old plan, in the first micro-batch of the new plan, and after it."""
    left = 190.0
    old = (("deduplicate", "s0", "state"), ("aggregate", "s2", "state"), ("join", "s1", "state"), ("", "", "free"))
    first = (
        ("deduplicate", "s0", "kept"),
        ("aggregate", "s2", "changed"),
        ("join", "s1", "dropped"),
        ("rank", "s3", "new"),
    )
    after = (("deduplicate", "s0", "state"), ("aggregate", "s2", "state"), ("", "", "free"), ("rank", "s3", "state"))
    parts: list[str] = [_text(left + at * 8 * _SLOT, 30, f"slots {at * 8} to {at * 8 + 7}", "dim") for at in range(4)]
    for top, name, note, ranges in (
        (48, "old plan", "last micro-batch", old),
        (136, "new plan", "first micro-batch", first),
        (224, "new plan", "next micro-batches", after),
    ):
        parts += [_text(24, top + 16, name, "title"), _text(24, top + 33, note, "dim")]
        for at, (operator, colour, verb) in enumerate(ranges):
            parts += _range(left + at * 8 * _SLOT, top, operator, colour, verb)
    for at, (was, becomes) in enumerate(zip(old, first, strict=True)):
        if was[0]:
            parts.append(_arrow(left + (at * 8 + 4) * _SLOT - 4, 112, left + (at * 8 + 4) * _SLOT - 4, 131))
        if becomes[2] != "dropped":
            parts.append(_arrow(left + (at * 8 + 4) * _SLOT - 4, 200, left + (at * 8 + 4) * _SLOT - 4, 219))
    about = "The deduplication and the aggregate keep their slots, the join frees them, the rank gets free ones."
    return drawing(760, 300, "Slots of state across a change of plan", about, parts)


def _range(left: float, top: float, operator: str, colour: str, verb: str) -> Iterator[str]:
    filled = {"new": 0, "free": 0}.get(verb, 8)
    for slot in range(8):
        kind = f"{colour} framed" if slot < filled else "box framed"
        yield _box(left + slot * _SLOT, top, _SLOT - 3, 26, f"{kind} faint" if verb == "dropped" else kind)

    label = {"state": operator, "free": "free", "new": f"{operator}: starts empty"}.get(verb, f"{operator}: {verb}")
    yield _text(left, top + 43, label, "dim" if verb == "free" else "")


# ---- blobs through levels -------------------------------------------------------------------------------------------


def levels() -> str:
    """One micro-batch: scan tasks split rows into blobs, levels process them, sinks write them, the driver commits."""
    tops = (84.0, 164.0)
    parts = [
        _text(16, 28, "One micro-batch", "title"),
        *(
            _text(x, 56, name, "dim")
            for x, name in ((16, "scan tasks"), (236, "level 1"), (436, "level 2"), (636, "sink tasks"))
        ),
    ]
    for top, name in zip(tops, ("orders/7.json", "orders/8.json"), strict=True):
        parts += [
            _box(16, top, 116, 56, "end framed"),
            _text(26, top + 22, name),
            _text(26, top + 42, "decode, split", "dim"),
        ]
    for left, operator in ((236.0, "deduplicate"), (436.0, "aggregate")):
        for at, top in enumerate(tops):
            parts += [_box(left, top, 112, 56, "kept framed"), _text(left + 10, top + 22, operator)]
            parts += [_text(left + 10, top + 42, f"key groups {'0-3' if at == 0 else '4-7'}", "dim")]
    for top in tops:
        parts += [
            _box(636, top, 108, 56, "end framed"),
            _text(646, top + 22, "sink"),
            _text(646, top + 42, "stage files", "dim"),
        ]
    for left, right in ((132, 236), (348, 436), (548, 636)):
        for top in tops:
            for other in tops:
                parts.append(_path([(left + 2, top + 28), (right - 8, other + 28)]))
            parts.append(_arrow(right - 9, top + 28, right - 2, top + 28))
    for x, gap in ((156, 22), (366, 18), (566, 18)):
        for top, pair in zip(tops, (("s0", "s2"), ("s2", "s0")), strict=True):
            parts += [
                _box(x + at * gap, top + 20 + (at * 16 if top == tops[0] else -at * 16), 12, 12, f"{kind} framed", 2)
                for at, kind in enumerate(pair)
            ]
    parts += [
        _path([(690, 220), (690, 252), (468, 252)]),
        _arrow(468, 252, 452, 252),
        _box(296, 238, 154, 30, "box framed"),
        _text(373, 258, "driver: commit", "", "middle"),
        _box(16, 246, 12, 12, "s0 framed", 2),
        _box(32, 246, 12, 12, "s2 framed", 2),
        _text(52, 257, "blobs: the rows of one slot"),
        _text(
            16,
            292,
            "Spark moves each blob to the task of its slot. Blobs for later levels pass through unread.",
            "dim",
        ),
    ]
    about = "Scan tasks split rows into blobs. Spark moves them to level 1, level 2 and the sinks. The driver commits."
    return drawing(760, 308, "Blobs through the levels of a micro-batch", about, parts)


PICTURES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "state" / "ttl.svg": ttl,
    ROOT / "docs" / "state" / "runs.svg": runs,
    ROOT / "docs" / "plans" / "slots.svg": slots,
    ROOT / "docs" / "background" / "levels.svg": levels,
}
