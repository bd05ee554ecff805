"""INTERSECT ALL and EXCEPT ALL count the rows of both sides, and give each as often as the counts say.

Source: Flink's ``RewriteIntersectAllRule``, ``RewriteMinusAllRule`` and ``SetOpRewriteUtil``.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.rex import Call, InputRef, Literal, Rex
from stateplan.execnodes.types import BIGINT, BOOLEAN, INT, row_type
from stateplan.planner.algebra.relations import Aggregate, Project, Rel, SetOperation, Union, field_names, refs_to
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.expressions.ops import and_, call, compare
from stateplan.planner.passes.build import aggregate_call, filtered


def set_operation_to_counts(rel: Rel) -> Rel | None:
    if not isinstance(rel, SetOperation) or not rel.all:
        return None
    return _intersection(rel) if rel.operator == "INTERSECT" else _difference(rel)


def _intersection(rel: SetOperation) -> Rel:
    yes, no = Literal(BOOLEAN.not_null(), True), Literal(BOOLEAN, None)
    names = ("vcol_left_marker", "vcol_right_marker")
    width = rel.width
    both = Union((_marked(rel.left, (yes, no), names), _marked(rel.right, (no, yes), names)))
    calls = tuple(
        aggregate_call("COUNT", both, (width + i,), name, grouped=True)
        for i, name in enumerate(("vcol_left_cnt", "vcol_right_cnt"))
    )
    groups = Aggregate(both, tuple(range(width)), calls)
    left, right = refs_to(groups, (width, width + 1))
    one = Literal(INT.not_null(), 1)
    there = filtered(groups, [and_([compare(">=", left, one), compare(">=", right, one)])])
    least = call("IF", (compare(">", left, right), right, left), BIGINT.not_null())
    return _replicated(there, least, "$f0", width)


def _difference(rel: SetOperation) -> Rel:
    width = rel.width
    sides = (
        _marked(side, (Literal(BIGINT.not_null(), sign),), ("vcol_marker",))
        for side, sign in ((rel.left, 1), (rel.right, -1))
    )
    both = Union(tuple(sides))
    total = aggregate_call("SUM", both, (width,), "sum_vcol_marker", grouped=True)
    groups = Aggregate(both, tuple(range(width)), (total,))
    (more,) = refs_to(groups, (width,))
    there = filtered(groups, [compare(">", more, Literal(INT.not_null(), 0))])
    return _replicated(there, more, "sum_vcol_marker", width)


def _marked(rel: Rel, markers: Sequence[Rex], names: Sequence[str]) -> Rel:
    return Project(rel, (*refs_to(rel), *markers), (*field_names(rel), *names))


def _replicated(rel: Rel, count: Rex, name: str, width: int) -> Rel:
    """The first ``width`` fields of each row, as often as ``count`` says."""
    names = field_names(rel)[:width]
    counted = Project(rel, (count, *refs_to(rel, range(width))), (name, *names))
    row = row_type(list(counted.fields[1:]), nullable=False)
    function = Call(row, tuple(refs_to(counted)), internal_name="$REPLICATE_ROWS$1")
    rows = FunctionCorrelate(counted, function, "INNER")
    fields = rows.fields[1 + width :]
    return Project(rows, tuple(InputRef(t, 1 + width + i) for i, (_, t) in enumerate(fields)), tuple(names))
