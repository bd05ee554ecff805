"""Gives both sides of an equality in a join's condition one type.

Source: Flink's ``JoinConditionTypeCoerceRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.errors import SqlError
from stateplan.execnodes.functions.typerules import least_restrictive
from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Join, Rel
from stateplan.planner.expressions.ops import and_, cast, compare, conjunctions, kind, same_type


def coerce_join_conditions(rel: Rel) -> Rel | None:
    """Raises SqlError SQL203 for types that have none in common."""
    if not isinstance(rel, Join):
        return None
    terms = conjunctions(rel.condition)
    coerced = [_coerced(t) for t in terms]
    return None if coerced == terms else replace(rel, condition=and_(coerced))


def _coerced(term: Rex) -> Rex:
    if kind(term) != "=":
        return term
    a, b = term.children
    if not isinstance(a, InputRef) or not isinstance(b, InputRef) or same_type(a.type, b.type):
        return term
    common = least_restrictive([a.type, b.type])
    if common is None:
        raise SqlError("SQL203.coerced", type=a.type.summary(), type_2=b.type.summary())
    return compare("=", cast(a, common), cast(b, common))
