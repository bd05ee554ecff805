"""UNION, INTERSECT and EXCEPT become unions of rows, joins and aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from stateplan.common.types import BIGINT, BOOLEAN, INT, LogicalType, row_type
from stateplan.execnodes.specs import JoinType
from stateplan.functions.rex import Call, InputRef, Literal, Rex
from stateplan.functions.typerules import same_type
from stateplan.planner.algebra.relations import (
    Aggregate,
    Join,
    Project,
    Rel,
    SetOperation,
    Union,
    field_names,
    refs_to,
    replace_inputs,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.normal import collapsed
from stateplan.planner.expressions.ops import and_, call, cast, compare, or_, test
from stateplan.planner.passes.build import aggregate_call, filtered


def coerce_unions(rel: Rel) -> Rel | None:
    """Casts the inputs of a UNION, INTERSECT or EXCEPT to its column types, nullability included.

    Source: Calcite's ``CoerceInputsRule``.
    """
    if not isinstance(rel, (Union, SetOperation)):
        return None
    target_fields = rel.fields
    inputs = []
    for source in rel.inputs:
        fields = source.fields
        if all(a == b for (_, a), (_, b) in zip(fields, target_fields, strict=True)):
            inputs.append(source)
            continue
        exprs = (
            source.exprs if isinstance(source, Project) else tuple(InputRef(t, i) for i, (_, t) in enumerate(fields))
        )
        below = source.input if isinstance(source, Project) else source
        exprs = tuple(_cast(e, t) for e, (_, t) in zip(exprs, target_fields, strict=True))
        inputs.append(Project(below, exprs, tuple(field_names(source))))
    if all(a is b for a, b in zip(inputs, rel.inputs, strict=True)):
        return None
    return replace_inputs(rel, inputs)


def _cast(rex: Rex, target: LogicalType) -> Rex:
    if isinstance(rex, Literal) and not same_type(rex.type, target):
        return fold.cast_literal(rex, target.as_nullable(rex.type.nullable))
    return cast(rex, target)


def set_operation_to_join(rel: Rel) -> Rel | None:
    """INTERSECT is a semi join and EXCEPT an anti join by all columns, NULL equal to NULL, and a grouping by them.

    Source: Flink's ``ReplaceIntersectWithSemiJoinRule``, ``ReplaceMinusWithAntiJoinRule`` and ``SetOpRewriteUtil``.
    """
    if not isinstance(rel, SetOperation) or rel.all:
        return None
    width = rel.width
    terms = [
        _equal(InputRef(a, i), InputRef(b, width + i))
        for i, ((_, a), (_, b)) in enumerate(zip(rel.left.fields, rel.right.fields, strict=True))
    ]
    join_type: JoinType = "SEMI" if rel.operator == "INTERSECT" else "ANTI"
    join = Join(rel.left, rel.right, collapsed(and_(terms)), join_type)
    return Aggregate(join, tuple(range(width)), ())


def _equal(left: Rex, right: Rex) -> Rex:
    same = compare("=", left, right)
    if not left.type.nullable and not right.type.nullable:
        return same
    return or_([same, and_([test("IS NULL", left), test("IS NULL", right)])])


def set_operation_to_counts(rel: Rel) -> Rel | None:
    """INTERSECT ALL and EXCEPT ALL count the rows of both sides, and give each as often as the counts say.

    Source: Flink's ``RewriteIntersectAllRule``, ``RewriteMinusAllRule`` and ``SetOpRewriteUtil``.
    """
    if not isinstance(rel, SetOperation) or not rel.all:
        return None
    return _intersection(rel) if rel.operator == "INTERSECT" else _difference(rel)


def _intersection(rel: SetOperation) -> Rel:
    yes, no = Literal(BOOLEAN.not_null(), True), Literal(BOOLEAN, None)
    names = ("vcol_left_marker", "vcol_right_marker")
    width = rel.width
    both = Union((_with_markers(rel.left, (yes, no), names), _with_markers(rel.right, (no, yes), names)))
    calls = tuple(
        aggregate_call("COUNT", both, (width + i,), name, grouped=True)
        for i, name in enumerate(("vcol_left_cnt", "vcol_right_cnt"))
    )
    groups = Aggregate(both, tuple(range(width)), calls)
    left, right = refs_to(groups, (width, width + 1))
    one = Literal(INT.not_null(), 1)
    common_groups = filtered(groups, [and_([compare(">=", left, one), compare(">=", right, one)])])
    least = call("IF", (compare(">", left, right), right, left), BIGINT.not_null())
    return _replicated(common_groups, least, "$f0", width)


def _difference(rel: SetOperation) -> Rel:
    width = rel.width
    sides = (
        _with_markers(side, (Literal(BIGINT.not_null(), sign),), ("vcol_marker",))
        for side, sign in ((rel.left, 1), (rel.right, -1))
    )
    both = Union(tuple(sides))
    total = aggregate_call("SUM", both, (width,), "sum_vcol_marker", grouped=True)
    groups = Aggregate(both, tuple(range(width)), (total,))
    (more,) = refs_to(groups, (width,))
    remaining_groups = filtered(groups, [compare(">", more, Literal(INT.not_null(), 0))])
    return _replicated(remaining_groups, more, "sum_vcol_marker", width)


def _with_markers(rel: Rel, markers: Sequence[Rex], names: Sequence[str]) -> Rel:
    return Project(rel, (*refs_to(rel), *markers), (*field_names(rel), *names))


def _replicated(rel: Rel, count: Rex, name: str, width: int) -> Rel:
    """The first ``width`` fields of each row, as often as ``count`` says."""
    names = field_names(rel)[:width]
    with_count = Project(rel, (count, *refs_to(rel, range(width))), (name, *names))
    row = row_type(list(with_count.fields[1:]), nullable=False)
    function = Call(row, tuple(refs_to(with_count)), internal_name="$REPLICATE_ROWS$1")
    rows = FunctionCorrelate(with_count, function, "INNER")
    fields = rows.fields[1 + width :]
    return Project(rows, tuple(InputRef(t, 1 + width + i) for i, (_, t) in enumerate(fields)), tuple(names))


# UNION is UNION ALL and a grouping by all columns; such a grouping makes those of its inputs needless.
#
# Source: Calcite's ``UnionToDistinctRule`` and ``AggregateUnionAggregateRule``.


def union_to_distinct(rel: Rel) -> Rel | None:
    if not isinstance(rel, Union) or rel.all:
        return None
    return Aggregate(replace(rel, all=True), tuple(range(rel.width)), ())


def drop_distinct_below_union(rel: Rel) -> Rel | None:
    if not isinstance(rel, Aggregate) or rel.calls or not isinstance(rel.input, Union) or not rel.input.all:
        return None
    union = rel.input
    sources = tuple(s.input if _is_distinct(s) else s for s in union.sources)
    if sources == union.sources:
        return None
    return replace(rel, input=replace(union, sources=sources))


def _is_distinct(rel: Rel) -> TypeGuard[Aggregate]:
    """Whether it only removes duplicate rows."""
    return isinstance(rel, Aggregate) and not rel.calls and rel.group == tuple(range(rel.input.width))
