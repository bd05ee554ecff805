"""When two row expressions are the same: symmetric operators of two operands in any order, comparisons in either
direction.
Equality for which NULL equals NULL (``IS NOT DISTINCT FROM``), and conjunctive normal form.

Source: Calcite's ``RexNormalize``, ``RelOptUtil.isDistinctFrom`` and
``RelOptUtil.collapseExpandedIsNotDistinctFromExpr``; Flink's ``FlinkRexUtil.toCnf``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from stateplan.common.errors import Place
from stateplan.common.types import BOOLEAN
from stateplan.functions.builder import coerce_operands, make_call
from stateplan.functions.rex import Call, CorrelVariable, FieldAccess, InputRef, Literal, Rex
from stateplan.planner.expressions.ops import (
    Over,
    SubQuery,
    and_,
    call,
    conjunctions,
    disjunctions,
    kind,
    not_,
    or_,
    walk,
)

_SYMMETRIC = frozenset({"AND", "OR", "=", "<>", "+", "*"})
_FLIPPED = {"<": ">", "<=": ">="}


def key(rex: Rex) -> Hashable:
    """A value equal for expressions that are the same."""
    if isinstance(rex, InputRef):
        return ("REF", rex.index)
    if isinstance(rex, Literal):
        return (
            "LITERAL",
            str(rex.value) if rex.sarg is None else str(rex.sarg),
            rex.symbol,
            str(rex.type.as_nullable()),
        )
    if isinstance(rex, FieldAccess):
        return ("FIELD", rex.name, key(rex.expr))
    if isinstance(rex, Over):
        return (
            rex.function,
            rex.system_name,
            rex.catalog_name,
            tuple(map(key, rex.operands)),
            tuple(map(key, rex.partition)),
            tuple((key(e), a, n) for e, a, n in rex.order),
            rex.distinct,
            rex.ignore_nulls,
            rex.frame.text,
        )
    if isinstance(rex, SubQuery):
        return ("SUBQUERY", rex.number, tuple(map(key, rex.operands)))
    if isinstance(rex, CorrelVariable):
        return ("OUTER", rex.correl)
    op = kind(rex)
    operands = [key(c) for c in rex.children]
    if op in _SYMMETRIC and isinstance(rex, Call) and len(operands) == 2:
        operands.sort(key=repr)
    elif op in _FLIPPED:
        op, operands = _FLIPPED[op], operands[::-1]
    extra = str(rex.type) if op in ("CAST", "REINTERPRET", "TRY_CAST") or not operands else ""
    return (op, tuple(operands), extra)


def equal(a: Rex, b: Rex) -> bool:
    """Whether ``a`` and ``b`` are the same expression."""
    return a is b or key(a) == key(b)


def member(rex: Rex, others: Iterable[Rex]) -> bool:
    """Whether ``rex`` is among ``others``."""
    key_of_rex = key(rex)
    return any(key(o) == key_of_rex for o in others)


class _TooMuchError(Exception):
    """The form would hold more expressions than allowed."""


def to_cnf(rex: Rex) -> Rex:
    """``rex`` in conjunctive normal form; itself where that form is more than twice as large."""
    try:
        return _cnf(rex, 2 * _size(rex))
    except _TooMuchError:
        return rex


def _size(rex: Rex) -> int:
    return sum(1 for _ in walk(rex))


def _cnf(rex: Rex, most: int) -> Rex:
    op = kind(rex)
    if op == "AND":
        return and_(_cnf(c, most) for c in conjunctions(rex))
    if op == "OR":
        first, *rest = disjunctions(rex)
        heads, tails = conjunctions(_cnf(first, most)), conjunctions(_cnf(or_(rest), most))
        terms: list[Rex] = []
        size = 0
        for h in heads:
            for t in tails:
                terms.append(or_([h, t]))
                size += _size(terms[-1])
                if size > most:
                    raise _TooMuchError
        return and_(terms)
    if op == "NOT":
        inner = rex.children[0]
        if kind(inner) == "NOT":
            return _cnf(inner.children[0], most)
        if kind(inner) == "OR":
            return _cnf(and_(not_(c) for c in disjunctions(inner)), most)
        if kind(inner) == "AND":
            return _cnf(or_(not_(c) for c in conjunctions(inner)), most)
    return rex


_NAME = "IS NOT DISTINCT FROM"


def not_distinct(left: Rex, right: Rex, place: Place | None = None) -> Rex:
    """``left IS NOT DISTINCT FROM right``; with a constant an ordinary equality, or a test for NULL.

    Raises:
        SqlError: SQL203, for operands that cannot be compared.
    """
    if isinstance(left, Literal) or isinstance(right, Literal):
        return make_call(_NAME, [left, right], place)
    return call(_NAME, coerce_operands("=", [left, right], place), BOOLEAN.not_null())


def collapsed(rex: Rex) -> Rex:
    """``(a IS NULL AND b IS NULL) OR a = b`` as ``a IS NOT DISTINCT FROM b``; anything else as it is."""
    if kind(rex) != "OR" or len(rex.children) != 2:
        return rex
    for nulls, same in (rex.children, rex.children[::-1]):
        if kind(same) == "IS TRUE":
            same = same.children[0]
        if kind(nulls) != "AND" or len(nulls.children) != 2 or kind(same) != "=":
            continue
        if any(kind(n) != "IS NULL" for n in nulls.children):
            continue
        tested = [n.children[0] for n in nulls.children]
        a, b = same.children
        if (equal(a, tested[0]) and equal(b, tested[1])) or (equal(a, tested[1]) and equal(b, tested[0])):
            return call(_NAME, (a, b), BOOLEAN.not_null())
    return rex
