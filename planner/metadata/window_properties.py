"""Which fields of a relation are the window of its rows.

Source: Flink's ``FlinkRelMdWindowProperties`` and ``RelWindowProperties``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    Exchange,
    Expand,
    Filter,
    MiniBatchAssigner,
    Project,
    Rank,
    Rel,
    Union,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.windows import (
    GlobalWindowAggregate,
    TimeWindow,
    WindowAggregate,
    WindowJoin,
    WindowTable,
)


@dataclass(frozen=True)
class WindowProperties:
    """``starts``, ``ends`` and ``times`` are the fields with the start, the end and the last instant of the window;
    ``time_type`` is the type of the time attribute that made the windows."""

    window: TimeWindow
    time_type: LogicalType
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    times: tuple[int, ...]

    @property
    def columns(self) -> frozenset[int]:
        return frozenset((*self.starts, *self.ends, *self.times))

    def alike(self, other: WindowProperties) -> bool:
        """Whether the windows are the same."""
        return (self.window, self.time_type.root, self.time_type.kind) == (
            other.window,
            other.time_type.root,
            other.time_type.kind,
        )

    def same(self, other: WindowProperties) -> bool:
        """Whether the windows are alike, and of times of one type, of which neither or both may be NULL."""
        return (self.window, self.time_type) == (other.window, other.time_type)

    def grouped_by(self, group: Sequence[int]) -> bool:
        """Whether ``group`` has both start and end of the window."""
        return bool({*group} & {*self.starts}) and bool({*group} & {*self.ends})

    def with_fields_at(self, positions_of: Callable[[int], Sequence[int]]) -> WindowProperties | None:
        """The properties where field ``i`` is at ``where(i)``; None where start, end or a key of sessions is lost."""
        keys = [next(iter(positions_of(k)), None) for k in self.window.keys]
        starts, ends, times = (
            tuple(sorted(p for i in old for p in positions_of(i))) for old in (self.starts, self.ends, self.times)
        )
        if not starts or not ends or None in keys:
            return None
        window = replace(self.window, keys=tuple(k for k in keys if k is not None))
        return replace(self, window=window, starts=starts, ends=ends, times=times)


def window_properties(rel: Rel) -> WindowProperties | None:
    """The properties of ``rel``; None for rows that are not in windows."""
    if isinstance(rel, WindowTable):
        width = rel.input.width
        return WindowProperties(rel.window, rel.position.time_type, (width,), (width + 1,), (width + 2,))
    if isinstance(rel, (WindowAggregate, GlobalWindowAggregate)):
        return _of_aggregate(rel if isinstance(rel, WindowAggregate) else rel.original)
    if isinstance(rel, (Filter, Exchange, MiniBatchAssigner, FunctionCorrelate)):
        return window_properties(rel.input)
    if isinstance(rel, Rank):
        properties_below = window_properties(rel.input)
        return properties_below if properties_below is not None and properties_below.grouped_by(rel.partition) else None
    if isinstance(rel, (Project, Calc)):
        return _through_places(rel.input, _places(rel.exprs))
    if isinstance(rel, Expand):
        places_by_row = [_places(row) for row in rel.projects]
        every = {
            i: [p for p in at if all(p in k.get(i, ()) for k in places_by_row)] for i, at in places_by_row[0].items()
        }
        return _through_places(rel.input, every)
    if isinstance(rel, WindowJoin):
        return _of_join(rel)
    if isinstance(rel, Union):
        return _of_union([window_properties(s) for s in rel.sources])
    if isinstance(rel, Aggregate):
        below = window_properties(rel.input)
        if below is None or not below.grouped_by(rel.group):
            return None
        return below.with_fields_at(lambda i: [p for p, g in enumerate(rel.group) if g == i])
    return None


def _places(exprs: Sequence[Rex]) -> dict[int, list[int]]:
    """Field of the input -> where it is."""
    out: dict[int, list[int]] = {}
    for p, e in enumerate(exprs):
        if isinstance(e, InputRef):
            out.setdefault(e.index, []).append(p)
    return out


def _through_places(below: Rel, places: Mapping[int, Sequence[int]]) -> WindowProperties | None:
    properties_below = window_properties(below)
    return None if properties_below is None else properties_below.with_fields_at(lambda i: places.get(i, ()))


def _of_join(rel: WindowJoin) -> WindowProperties | None:
    """What both sides say, of an outer join only the side that has all its rows (``getJoinWindowProperties``)."""
    left, right = window_properties(rel.left), window_properties(rel.right)
    width = rel.left.width
    right_properties = None if right is None else right.with_fields_at(lambda i: [i + width])
    if rel.join_type in ("SEMI", "ANTI") or right_properties is None or left is None:
        return left
    return replace(
        left,
        starts=left.starts + right_properties.starts,
        ends=left.ends + right_properties.ends,
        times=left.times + right_properties.times,
    )


def _of_union(parts: Sequence[WindowProperties | None]) -> WindowProperties | None:
    """What all inputs say alike."""
    input_properties = [p for p in parts if p is not None]
    if len(input_properties) < len(parts) or not all(p.alike(input_properties[0]) for p in input_properties):
        return None

    def common(of: Callable[[WindowProperties], Sequence[int]]) -> tuple[int, ...]:
        return tuple(sorted(set.intersection(*({*of(p)} for p in input_properties))))

    starts, ends, times = common(lambda p: p.starts), common(lambda p: p.ends), common(lambda p: p.times)
    return replace(input_properties[0], starts=starts, ends=ends, times=times) if starts and ends else None


def _of_aggregate(rel: WindowAggregate) -> WindowProperties:
    first = len(rel.group) + len(rel.calls)

    def places(*kinds: str) -> tuple[int, ...]:
        return tuple(first + i for i, (_, kind) in enumerate(rel.properties) if kind in kinds)

    window = rel.position.window
    return WindowProperties(
        replace(window, keys=tuple(rel.group.index(k) for k in window.keys)),
        rel.position.time_type,
        places("WindowStart"),
        places("WindowEnd"),
        places("Rowtime", "Proctime"),
    )
