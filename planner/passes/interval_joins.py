"""Joins whose condition bounds the times of both sides by each other.

Source: Flink's ``IntervalJoinUtil``, ``StreamPhysicalIntervalJoinRule`` and ``RelTimeIndicatorConverter``.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

from stateplan.execnodes.errors import SqlError
from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.execnodes.types import LogicalType
from stateplan.planner.algebra.relations import Join, Rel
from stateplan.planner.algebra.temporal import IntervalJoin
from stateplan.planner.expressions.cnf import to_cnf
from stateplan.planner.expressions.evaluate import evaluate_constant
from stateplan.planner.expressions.ops import MIRRORED, and_, conjunctions, kind, retyped, rewrite, walk

_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class _Bound:
    """A term that bounds left time - right time: from below (>), from above (<), or to one value (=), in ms."""

    op: str
    left_time: int
    right_time: int
    event_time: bool
    value: int | None


def to_interval_join(join: Join, left: Rel, right: Rel) -> IntervalJoin | None:
    """``join`` over its new inputs as an interval join; None where it is none: without two bounds on a time attribute
    of each side, or one equality.

    Raises:
        SqlError: SQL151, times that cannot be compared, or event time below a join by processing time.
    """
    if join.join_type not in ("INNER", "LEFT", "RIGHT", "FULL"):
        return None
    types = [t for _, t in (*left.fields, *right.fields)]
    condition = retyped(join.condition, types)
    bounds: list[_Bound] = []
    rest: list[Rex] = []
    for term in conjunctions(to_cnf(condition)):
        bound = _bound(term, types, left.width)
        if bound is None:
            rest.append(term)
        else:
            bounds.append(bound)
    chosen = _interval(bounds)
    if chosen is None:
        return None
    first = bounds[0]
    times = types[first.left_time], types[left.width + first.right_time]
    if first.event_time and times[0].root != times[1].root:
        raise SqlError("SQL151", root=times[0].root, times_root=times[1].root, place=join.place)
    if not first.event_time and any(t.kind == "ROWTIME" for t in types):
        raise SqlError("SQL151.to_interval_join", place=join.place)
    lower, upper = chosen
    return IntervalJoin(
        left,
        right,
        condition,
        and_(rest),
        join.join_type,
        first.event_time,
        lower,
        upper,
        first.left_time,
        first.right_time,
        join.place,
    )


def _interval(bounds: list[_Bound]) -> tuple[int, int] | None:
    if any(b.value is None for b in bounds):
        return None
    found = sorted((b.op, b.value or 0) for b in bounds)
    if [op for op, _ in found] == ["="]:
        return found[0][1], found[0][1]
    if [op for op, _ in found] == ["<", ">"]:
        return found[1][1], found[0][1]
    return None


def _bound(term: Rex, types: list[LogicalType], width: int) -> _Bound | None:
    """What a comparison of a time attribute of each side says; None for anything else."""
    op = kind(term)
    if op not in ("=", "<", "<=", ">", ">="):
        return None
    a, b = term.children
    found = [_attribute(side, types) for side in (a, b)]
    if found[0] is None or found[1] is None or (found[0] < width) == (found[1] < width):
        return None
    if types[found[0]].kind != types[found[1]].kind:
        return None
    if found[0] >= width:
        a, b, op = b, a, MIRRORED[op]
        found.reverse()
    assert found[0] is not None and found[1] is not None
    offsets = [_offset(side) for side in (a, b)]
    value = None
    if offsets[0] is not None and offsets[1] is not None:
        value = offsets[1] - offsets[0] + {"<": -1, ">": 1}.get(op, 0)
    return _Bound(op[0], found[0], found[1] - width, types[found[0]].kind == "ROWTIME", value)


def _attribute(rex: Rex, types: list[LogicalType]) -> int | None:
    """The one field that an expression reads, once, where it is a time attribute."""
    read = [e.index for e in walk(rex) if isinstance(e, InputRef)]
    return read[0] if len(read) == 1 and types[read[0]].kind is not None else None


def _offset(rex: Rex) -> int | None:
    """The milliseconds of an expression over a time attribute, which counts as 1970-01-01; None for one that fails."""

    def epoch(inner: Rex) -> Rex | None:
        if not isinstance(inner, InputRef):
            return None
        return Literal(replace(inner.type, kind=None, nullable=False), "1970-01-01 00:00:00")

    value = rewrite(rex, epoch)
    literal = value if isinstance(value, Literal) else evaluate_constant(value)
    if literal is None or not isinstance(literal.value, str):
        return None
    return round((dt.datetime.fromisoformat(literal.value) - _EPOCH) / dt.timedelta(milliseconds=1))
