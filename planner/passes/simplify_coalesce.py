"""COALESCE: arguments behind one that is never NULL go, and so do those made equal by the join below.

Source: Flink's ``RemoveUnreachableCoalesceArgumentsRule`` and ``SimplifyCoalesceWithEquiJoinConditionRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import Call, InputRef, Rex
from stateplan.planner.algebra.relations import Filter, Join, Project, Rel
from stateplan.planner.expressions.ops import cast, conjunctions, kind, rewrite


def _reachable(rex: Rex) -> Rex:
    def change(e: Rex) -> Rex | None:
        if kind(e) != "COALESCE" or not isinstance(e, Call):
            return None
        operands = list(e.operands)
        first = next((i for i, o in enumerate(operands) if not o.type.nullable), len(operands) - 1)
        if first == 0 and len(operands) > 0:
            return cast(operands[0], e.type) if operands[0].type != e.type else operands[0]
        if first + 1 < len(operands):
            return replace(e, operands=tuple(operands[: first + 1]))
        return None

    return rewrite(rex, change)


def remove_unreachable_coalesce_arguments(rel: Rel) -> Rel | None:
    if isinstance(rel, Project):
        exprs = tuple(_reachable(e) for e in rel.exprs)
        return None if exprs == rel.exprs else replace(rel, exprs=exprs)
    if isinstance(rel, (Filter, Join)):
        condition = _reachable(rel.condition)
        return None if condition == rel.condition else replace(rel, condition=condition)
    return None


def simplify_coalesce_of_join_keys(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Join) or rel.input.join_type == "FULL":
        return None
    join = rel.input
    pairs = {
        frozenset(c.index for c in t.children if isinstance(c, InputRef))
        for t in conjunctions(rel.input.condition)
        if kind(t) == "=" and all(isinstance(c, InputRef) for c in t.children)
    }

    def change(e: Rex) -> Rex | None:
        if kind(e) == "COALESCE" and len(e.children) == 2:
            a, b = e.children
            if isinstance(a, InputRef) and isinstance(b, InputRef) and frozenset((a.index, b.index)) in pairs:
                kept = max(a, b, key=_index) if join.join_type == "RIGHT" else min(a, b, key=_index)
                if join.join_type == "INNER":
                    kept = a
                return cast(kept, e.type) if kept.type.as_nullable() != e.type.as_nullable() else kept
        return None

    exprs = tuple(rewrite(e, change) for e in rel.exprs)
    return None if exprs == rel.exprs else replace(rel, exprs=exprs)


def _index(ref: InputRef) -> int:
    return ref.index
