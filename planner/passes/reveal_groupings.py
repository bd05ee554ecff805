"""GROUPING and the like become comparisons with the number of the grouping set, once nothing is simplified any more.

Source: Flink's ``DecomposeGroupingSetsRule``, which runs that late.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import Call, Rex
from stateplan.planner.algebra.relations import Filter, Project, Rel
from stateplan.planner.expressions.ops import call, kind, rewrite
from stateplan.planner.expressions.simplify import simplify_preserving_type


def _revealed(rex: Rex) -> Rex:
    def change(e: Rex) -> Rex | None:
        if kind(e) != "GROUPING" or not isinstance(e, Call):
            return None
        return simplify_preserving_type(call("CASE", e.operands, e.type), "UNKNOWN")

    return rewrite(rex, change)


def reveal_groupings(rel: Rel) -> Rel | None:
    if isinstance(rel, Project):
        exprs = tuple(_revealed(e) for e in rel.exprs)
        return None if exprs == rel.exprs else replace(rel, exprs=exprs)
    if isinstance(rel, Filter):
        condition = _revealed(rel.condition)
        return None if condition == rel.condition else replace(rel, condition=condition)
    return None
