"""The size of states over time, drawn."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.readable import bytes_text, counted
from stateplan.plans.render.chart import MOST, Panel, Points, numbers, times
from stateplan.plans.render.chart import to_svg as drawn
from stateplan.plans.state.history import History, Series


def to_svg(found: History, title: str) -> str:
    """Two panels over one axis of time: rows above, bytes below, a line per state with its name and last value."""
    first, last = found.batches[0], found.batches[-1]
    about = f"{counted(len(found.series), 'state')}, micro-batches {first} to {last}"
    if any(s.partial for s in found.series):
        about += "; state from before the records is not counted"
    axis, xs = numbers(first, last, "micro-batch"), found.batches
    if found.times[0] < found.times[-1]:
        axis, xs = times(found.times[0], found.times[-1]), found.times
    series = _fewer(found)
    panels = (
        Panel("rows", [(s.name, _points(xs, s.rows)) for s in series]),
        Panel("bytes", [(s.name, _points(xs, s.bytes)) for s in series], bytes_text, binary=True),
    )
    return drawn(title, about, panels, axis)


def _points(xs: Sequence[int], values: Sequence[int | None]) -> Points:
    return [(x, v) for x, v in zip(xs, values, strict=True) if v is not None]


def _fewer(found: History) -> list[Series]:
    """At most as many series as can be drawn: the smallest are added up."""
    if len(found.series) <= MOST:
        return list(found.series)
    order = sorted(found.series, key=lambda s: max((b or 0 for b in s.bytes), default=0), reverse=True)
    large, rest = order[: MOST - 1], order[MOST - 1 :]

    def total(values: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
        return tuple(
            None if all(v is None for v in column) else sum(v or 0 for v in column)
            for column in zip(*values, strict=True)
        )

    rows, sizes = total([s.rows for s in rest]), total([s.bytes for s in rest])
    others = Series(f"{len(rest)} others", rows, sizes, any(s.partial for s in rest))
    return [s for s in found.series if s in large] + [others]
