"""Derives filters of the inputs from a disjunction in a join's condition: of ``(l.a = 1 AND r.b = 2) OR (l.a = 3 AND
r.b = 4)`` follow ``l.a = 1 OR l.a = 3`` and ``r.b = 2 OR r.b = 4``.

Source: Flink's ``JoinDependentConditionDerivationRule``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stateplan.execnodes.rex import Rex
from stateplan.planner.algebra.relations import Join, Rel
from stateplan.planner.expressions.normal import equal
from stateplan.planner.expressions.ops import TRUE, and_, input_refs, is_always_true, is_deterministic, kind, or_
from stateplan.planner.expressions.simplify import Simplifier


def derive_join_filters(rel: Rel) -> Rel | None:
    if not isinstance(rel, Join) or rel.join_type != "INNER":
        return None
    width = rel.left.width
    of_left = _extracted(rel.condition, lambda i: i < width)
    of_right = _extracted(rel.condition, lambda i: i >= width)
    if is_always_true(of_left) and is_always_true(of_right):
        return None
    condition = Simplifier().simplify(and_([rel.condition, of_left, of_right]), "FALSE")
    return None if equal(condition, rel.condition) else replace(rel, condition=condition)


def _extracted(rex: Rex, belongs: Callable[[int], bool]) -> Rex:
    """What follows from ``rex`` for the fields that belong to one side; TRUE for nothing."""
    if kind(rex) == "AND":
        return and_(_extracted(c, belongs) for c in rex.children)
    if kind(rex) == "OR":
        return or_(_extracted(c, belongs) for c in rex.children)
    return rex if is_deterministic(rex) and all(belongs(i) for i in input_refs(rex)) else TRUE
