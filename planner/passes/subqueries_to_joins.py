"""IN and EXISTS as conditions of a filter are semi joins, NOT IN and NOT EXISTS anti joins.

Source: Flink's ``FlinkSubQueryRemoveRule``. Queries inside a disjunction or any other expression are left to
``subqueries_to_correlates``, and so are those whose references to the outside cannot become a condition of the join.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Filter, Join, Project, Rel, refs_to
from stateplan.planner.binding.grouping import project_names
from stateplan.planner.expressions.distinct import collapsed
from stateplan.planner.expressions.ops import (
    TRUE,
    SubQuery,
    and_,
    compare,
    kind,
    or_,
    outer_of,
    remap,
    rewrite,
    shift,
    test,
    walk,
)
from stateplan.planner.expressions.simplify import Simplifier
from stateplan.planner.passes.build import filtered, first_fields, minimum
from stateplan.planner.passes.decorrelate_subqueries import Decorrelated, decorrelated


def subqueries_to_joins(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or _in_disjunction(rel.condition):
        return None
    found = _first(rel.condition)
    if found is None:
        return None
    queries = decorrelated(rel)
    if queries is None:
        return None
    below, condition = rel.input, rel.condition
    while found is not None:
        joined = _joined(below, found, queries)
        if joined is None:
            return None
        below = joined
        condition = _answered(condition, found)
        found = _first(condition)
    rest = Filter(below, condition) if any(isinstance(e, SubQuery) for e in walk(condition)) else None
    return first_fields(rest or filtered(below, [condition]), rel.width)


def _answered(condition: Rex, query: Rex) -> Rex:
    """``condition`` with TRUE for a query that has become a join."""
    return rewrite(condition, lambda e: TRUE if e is query else None)


def _is_query(rex: Rex) -> bool:
    return isinstance(rex, SubQuery) and rex.operator != "SCALAR"


def _is_condition(rex: Rex) -> bool:
    """Whether it is a query that is a condition, or the negation of one."""
    return _is_query(rex) or (kind(rex) == "NOT" and _is_query(rex.children[0]))


def _in_disjunction(rex: Rex) -> bool:
    if _is_condition(rex):
        return False
    if kind(rex) == "AND":
        return any(_in_disjunction(c) for c in rex.children)
    return any(_is_query(e) for e in walk(rex))


def _first(rex: Rex) -> Rex | None:
    if _is_condition(rex):
        return rex
    return next((found for c in rex.children if (found := _first(c)) is not None), None)


def _joined(left: Rel, call: Rex, queries: Decorrelated) -> Rel | None:
    """``left`` joined with the query of ``call``; None for a query that is no semi join."""
    negated = kind(call) == "NOT"
    query = call.children[0] if negated else call
    assert isinstance(query, SubQuery)
    join_type = "ANTI" if negated else "SEMI"
    if query.operator == "EXISTS":
        found = queries.get(query.number)
        if found is not None:
            right, outside = found
            return _join(left, right, [outside], join_type, query)
        ones = Project(query.rel, (TRUE,), ("i",))
        least = minimum(ones, "m")
        right = Project(least, (test("IS NOT NULL", refs_to(least)[0]),), ("$f0",))
        return _join(left, right, [InputRef(right.exprs[0].type, left.width)], join_type, query)
    if query.operator != "IN" or any(outer_of(e) is not None for o in query.operands for e in walk(o)):
        return None
    right, outside = queries.get(query.number, (query.rel, TRUE))
    left, operands, outside = _with_operands(left, query.operands, outside)
    terms: list[Rex] = []
    for operand, ref in zip(operands, refs_to(right), strict=False):
        same: Rex = compare("=", operand, shift(ref, left.width))
        terms.append(or_([same, test("IS NULL", same)]) if negated else same)
    return _join(left, right, [*terms, outside], join_type, query)


def _with_operands(left: Rel, operands: Sequence[Rex], outside: Rex) -> tuple[Rel, list[Rex], Rex]:
    """``left`` with the operands of an IN as fields, these fields, and the other condition over the wider join."""
    if all(isinstance(o, InputRef) for o in operands):
        return left, list(operands), outside
    width = left.width
    exprs: list[Rex] = list(refs_to(left))
    where = []
    for o in operands:
        if o not in exprs:
            exprs.append(o)
        where.append(exprs.index(o))
    wider = Project(left, tuple(exprs), tuple(project_names(exprs, [None] * len(exprs), left)))
    more = len(exprs) - width
    refs = refs_to(wider)
    return wider, [refs[w] for w in where], remap(outside, lambda i: i + more if i >= width else i)


def _join(left: Rel, right: Rel, terms: Sequence[Rex], join_type: str, query: SubQuery) -> Join:
    condition = Simplifier().simplify(and_(collapsed(t) for t in terms), "FALSE")
    return Join(left, right, condition, join_type, *query.ttls, place=query.place)
