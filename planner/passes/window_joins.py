"""Joins of rows that are in the same window.

Source: Flink's ``WindowJoinUtil`` and ``StreamPhysicalWindowJoinRule``.
"""

from __future__ import annotations

from stateplan.planner.algebra.join_keys import equi_keys, is_equi_key
from stateplan.planner.algebra.relations import Join, Rel
from stateplan.planner.algebra.windows import WindowJoin, WindowPosition
from stateplan.planner.expressions.ops import and_, conjunctions, retyped
from stateplan.planner.metadata.window_properties import WindowProperties, window_properties


def to_window_join(join: Join, left: Rel, right: Rel) -> WindowJoin | None:
    """``join`` over its new inputs as a join within windows; None where its condition does not say that both starts and
    both ends of windows are equal, or where these are different windows.
    """
    windows = window_properties(left), window_properties(right)
    if windows[0] is None or windows[1] is None or not windows[0].alike(windows[1]):
        return None
    width = left.width
    condition = retyped(join.condition, [t for _, t in (*left.fields, *right.fields)])
    pairs = equi_keys(condition, width)
    starts = [(a, b) for a, b in pairs if a in windows[0].starts and b in windows[1].starts]
    ends = [(a, b) for a, b in pairs if a in windows[0].ends and b in windows[1].ends]
    if not starts or not ends:
        return None
    terms = conjunctions(condition)
    keys = [t for t in terms if is_equi_key(t, width) and equi_keys(t, width)[0] not in (*starts, *ends)]
    others = [t for t in terms if not is_equi_key(t, width)]

    def position(side: int) -> WindowPosition:
        found = windows[side]
        assert isinstance(found, WindowProperties)
        return WindowPosition(found.window, found.time_type, start=starts[0][side], end=ends[0][side])

    rest = and_([*keys, *others])
    return WindowJoin(left, right, rest, join.join_type, position(0), position(1), join.place)
