"""Simplifies the conditions of filters and joins.

Source: Flink's ``SimplifyFilterConditionRule`` and ``SimplifyJoinConditionRule``: simplification, then common factors
of a disjunction pulled out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.execnodes.rex import Rex
from stateplan.planner.algebra.relations import Filter, Join, Rel, transform_up
from stateplan.planner.expressions.normal import equal, key
from stateplan.planner.expressions.ops import (
    SubQuery,
    and_,
    conjunctions,
    disjunctions,
    is_always_false,
    is_always_true,
    kind,
    or_,
    rewrite,
)
from stateplan.planner.expressions.simplify import Simplifier


def pull_factors(rex: Rex) -> Rex:
    """``(a AND b) OR (a AND c)`` as ``a AND (b OR c)``."""
    if kind(rex) == "AND":
        return and_(pull_factors(c) for c in conjunctions(rex))
    if kind(rex) != "OR":
        return rex
    operands = disjunctions(rex)
    factors = _common(operands)
    if not factors:
        return or_(operands)
    keys = {key(f) for f in factors}
    rest = [and_(c for c in conjunctions(o) if key(c) not in keys) for o in operands]
    return and_([*factors, or_(rest)])


def _common(operands: Sequence[Rex]) -> list[Rex]:
    first, *others = [conjunctions(o) for o in operands]
    other_keys = [{key(c) for c in o} for o in others]
    return [f for f in first if all(key(f) in keys for keys in other_keys)]


def _simplified(condition: Rex) -> Rex | None:
    if is_always_true(condition) or is_always_false(condition):
        return None
    new = pull_factors(Simplifier().simplify(condition, "FALSE"))
    return None if equal(new, condition) else new


def simplify_filter_condition(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter):
        return None
    condition = _simplified(rel.condition)
    return None if condition is None else replace(rel, condition=condition)


def simplify_subquery_filters(rel: Rel) -> Rel | None:
    """The condition of a filter, and those of all filters of the queries in it."""
    if not isinstance(rel, Filter):
        return None
    simplified = _simplified(rel.condition)
    condition = rewrite(rel.condition if simplified is None else simplified, _with_simple_filters)
    return None if condition == rel.condition else replace(rel, condition=condition)


def _with_simple_filters(rex: Rex) -> Rex | None:
    if not isinstance(rex, SubQuery):
        return None
    inside = transform_up(rex.rel, simplify_subquery_filters)
    return replace(rex, rel=inside, operands=tuple(rewrite(o, _with_simple_filters) for o in rex.operands))


def simplify_join_condition(rel: Rel) -> Rel | None:
    if not isinstance(rel, Join):
        return None
    condition = _simplified(rel.condition)
    return None if condition is None else replace(rel, condition=condition)
