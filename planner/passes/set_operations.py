"""INTERSECT is a semi join and EXCEPT an anti join by all columns, NULL equal to NULL, and a grouping by them.

Source: Flink's ``ReplaceIntersectWithSemiJoinRule``, ``ReplaceMinusWithAntiJoinRule`` and ``SetOpRewriteUtil``.
"""

from __future__ import annotations

from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Aggregate, Join, Rel, SetOperation
from stateplan.planner.expressions.distinct import collapsed
from stateplan.planner.expressions.ops import and_, compare, or_, test


def set_operation_to_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, SetOperation) or rel.all:
        return None
    width = rel.width
    terms = [
        _equal(InputRef(a, i), InputRef(b, width + i))
        for i, ((_, a), (_, b)) in enumerate(zip(rel.left.fields, rel.right.fields, strict=True))
    ]
    join_type = "SEMI" if rel.operator == "INTERSECT" else "ANTI"
    join = Join(rel.left, rel.right, collapsed(and_(terms)), join_type)
    return Aggregate(join, tuple(range(width)), ())


def _equal(left: Rex, right: Rex) -> Rex:
    same = compare("=", left, right)
    if not left.type.nullable and not right.type.nullable:
        return same
    return or_([same, and_([test("IS NULL", left), test("IS NULL", right)])])
