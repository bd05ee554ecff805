"""``(SELECT COUNT(*) FROM t) > 0`` as ``EXISTS (SELECT * FROM t)``.

Source: Flink's ``FlinkRewriteSubQueryRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import Literal, Rex
from stateplan.execnodes.types import BOOLEAN
from stateplan.planner.algebra.relations import Aggregate, Filter, Rel
from stateplan.planner.expressions.ops import MIRRORED, SubQuery, kind, rewrite


def count_subqueries_to_exists(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter):
        return None
    condition = rewrite(rel.condition, _exists)
    return None if condition == rel.condition else replace(rel, condition=condition)


def _exists(rex: Rex) -> Rex | None:
    op = kind(rex)
    if op not in (">", ">=", "<", "<="):
        return None
    query, number = rex.children
    if not isinstance(query, SubQuery):
        query, number, op = number, query, MIRRORED[op]
    if not isinstance(query, SubQuery) or query.operator != "SCALAR" or not _counts_rows(query.rel):
        return None
    if not isinstance(number, Literal) or number.value is None or not number.type.is_numeric:
        return None
    value = float(number.value)
    if not (0 <= value < 1 if op == ">" else op == ">=" and 0 < value <= 1):
        return None
    return SubQuery(BOOLEAN.not_null(), "EXISTS", query.rel.inputs[0], query.number, ttls=query.ttls, place=query.place)


def _counts_rows(rel: Rel) -> bool:
    if not isinstance(rel, Aggregate) or rel.group or len(rel.calls) != 1:
        return False
    call = rel.calls[0]
    return call.function == "COUNT" and not call.args and not call.distinct and call.filter < 0
