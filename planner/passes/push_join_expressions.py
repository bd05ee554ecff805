"""Computes expressions of equi-join keys below the join: ``a.x + 1 = b.y`` joins on a field of the left input.

Source: Calcite's ``JoinPushExpressionsRule`` (``RelOptUtil.pushDownJoinConditions``).
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import (
    Join,
    Project,
    Rel,
    field_names,
    refs_to,
)
from stateplan.planner.algebra.temporal import TemporalJoin
from stateplan.planner.binding.grouping import project_names
from stateplan.planner.expressions.ops import and_, call, conjunctions, input_refs, kind, remap, shift


def push_join_expressions(rel: Rel) -> Rel | None:
    if not isinstance(rel, (Join, TemporalJoin)):
        return None
    width, total = rel.left.width, rel.left.width + rel.right.width
    extra_left: list[Rex] = []
    extra_right: list[Rex] = []
    terms: list[Rex] = []
    for term in conjunctions(rel.condition):
        sides = [_side(o, width) for o in term.children] if kind(term) in ("=", "IS NOT DISTINCT FROM") else []
        if set(sides) == {0, 1} and any(not isinstance(o, InputRef) for o in term.children):
            operands = [
                _moved(o, side, width, total, extra_left, extra_right)
                for o, side in zip(term.children, sides, strict=True)
            ]
            terms.append(call(kind(term), operands, term.type))
        else:
            terms.append(term)
    if not extra_left and not extra_right:
        return None
    left = _extended(rel.left, extra_left)
    right = _extended(rel.right, [shift(e, -width) for e in extra_right])
    more = len(extra_left)

    def new(i: int) -> int:
        if i < width:
            return i
        if i < total:
            return i + more
        return width + (i - total) if i < total + 1000 else total + more + (i - total - 1000)

    condition = and_(remap(t, new) for t in terms)
    join = replace(rel, left=left, right=right, condition=condition)
    one_sided = rel.join_type in ("SEMI", "ANTI")
    kept = [*range(width), *(() if one_sided else range(width + more, width + more + rel.right.width))]
    return Project(join, tuple(refs_to(join, kept)), tuple(field_names(join)[i] for i in kept))


def _side(rex: Rex, width: int) -> int | None:
    indexes = list(input_refs(rex))
    if not indexes:
        return None
    if all(i < width for i in indexes):
        return 0
    return 1 if all(i >= width for i in indexes) else None


def _moved(rex: Rex, side: int | None, width: int, total: int, left: list[Rex], right: list[Rex]) -> Rex:
    """A reference to ``rex``, which is added to the input if it is not one of its fields: the n-th addition to the left
    (right) is numbered ``total + n`` (``total + 1000 + n``)."""
    if isinstance(rex, InputRef):
        return rex
    extra, base = (left, total) if side == 0 else (right, total + 1000)
    if rex not in extra:
        extra.append(rex)
    return InputRef(rex.type, base + extra.index(rex))


def _extended(rel: Rel, extra: list[Rex]) -> Rel:
    if not extra:
        return rel
    exprs = [*refs_to(rel), *extra]
    return Project(rel, tuple(exprs), tuple(project_names(exprs, [None] * len(exprs), rel)))
