"""Queries inside expressions: IN, EXISTS, comparisons with ANY and ALL, and queries that are values."""

from __future__ import annotations

from sqlglot import exp

from stateplan.common.errors import SqlError
from stateplan.common.types import BOOLEAN
from stateplan.functions.builder import compare_with_items, make_call
from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Project, Rel
from stateplan.planner.binding.scope import Binder
from stateplan.planner.expressions.ops import NEGATED, SubQuery, not_
from stateplan.planner.positions import bare, not_supported


def in_query(binder: Binder, left: exp.Expr, query: exp.Expr) -> Rex:
    """``left IN (query)``, where ``left`` may be a row of several values.

    Raises:
        SqlError: SQL106, a query with another number of columns; SQL203, values that cannot be compared.
    """
    return _comparison_with_query(binder, "IN", "=", [binder.bind(e) for e in _values(left)], query)


def quantified(binder: Binder, comparison: str, node: exp.Expr) -> Rex:
    """``a > ANY (query)`` and ``a > ALL (query)``, or with a list of values instead of the query.

    Raises:
        SqlError: SQL150, several values that are not compared by = ANY or <> ALL; and as :func:`in_query`.
    """
    right = node.expression
    every = isinstance(right, exp.All)
    left_values, in_list = _values(node.this), isinstance(right.this, exp.Tuple)
    if len(left_values) > 1 and (in_list or comparison != ("<>" if every else "=")):
        comparison_text = f"{comparison} {'ALL' if every else 'ANY'}"
        raise not_supported(f"a comparison of rows with {comparison_text}", binder.place(node), "compare one value")
    if in_list:
        items = [binder.bind(value) for value in right.this.expressions]
        return compare_with_items(comparison, binder.bind(node.this), items, binder.place(node), every=every)
    if every:
        comparison = NEGATED[comparison]
    operands = [binder.bind(e) for e in left_values]
    membership = _comparison_with_query(binder, "IN" if comparison == "=" else "SOME", comparison, operands, right.this)
    return not_(membership) if every else membership


def _values(left: exp.Expr) -> list[exp.Expr]:
    """The values that ``left`` of a comparison consists of: several for a row."""
    inner = bare(left)
    return list(inner.expressions) if isinstance(inner, exp.Tuple) else [left]


def exists(binder: Binder, node: exp.Expr) -> Rex:
    """``EXISTS (query)``; what the query selects does not matter."""
    rel, number = _bound(binder, node.this)
    while isinstance(rel, Project):
        rel = rel.input
    ttls, place = binder.scope.query_hints, binder.place(node)
    return SubQuery(BOOLEAN.not_null(), "EXISTS", rel, number, hints=ttls, grouped=binder.grouped, place=place)


def scalar_query(binder: Binder, node: exp.Expr) -> Rex:
    """A query of one column and at most one row as a value, NULL if it has no row.

    Raises:
        SqlError: SQL106, a query of several columns.
    """
    rel, number = _bound(binder, node)
    if rel.width != 1:
        raise SqlError("SQL106.query_width", rel=rel, place=binder.place(node))
    ttls, place = binder.scope.query_hints, binder.place(node)
    return SubQuery(
        rel.fields[0][1].as_nullable(), "SCALAR", rel, number, hints=ttls, grouped=binder.grouped, place=place
    )


def _comparison_with_query(
    binder: Binder, operator: str, comparison: str, operands: list[Rex], query: exp.Expr
) -> SubQuery:
    rel, number = _bound(binder, query)
    place = binder.place(query)
    if rel.width != len(operands):
        raise SqlError("SQL106", left=operands, right=rel.width, place=place, expected="as many of each")
    for i, (operand, (_, t)) in enumerate(zip(operands, rel.fields, strict=True)):
        make_call(comparison, [operand, InputRef(t, i)], place)
    nullable = any(o.type.nullable for o in operands) or any(t.nullable for _, t in rel.fields)
    return SubQuery(
        BOOLEAN.as_nullable(nullable),
        operator,
        rel,
        number,
        tuple(operands),
        comparison,
        binder.scope.query_hints,
        binder.grouped,
        place,
    )


def _bound(binder: Binder, query: exp.Expr) -> tuple[Rel, int]:
    subqueries = binder.scope.subqueries
    if subqueries is None:
        raise not_supported("a query inside an expression", binder.place(query))
    while isinstance(query, (exp.Subquery, exp.Paren)) and not query.args.get("with_"):
        query = query.this
    return subqueries(query, binder.bind)
