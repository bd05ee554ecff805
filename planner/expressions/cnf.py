"""Conjunctive normal form: ``(a AND b) OR c`` as ``(a OR c) AND (b OR c)``.

Source: Flink's ``FlinkRexUtil.toCnf``.
"""

from __future__ import annotations

from stateplan.execnodes.rex import Rex
from stateplan.planner.expressions.ops import and_, conjunctions, disjunctions, kind, not_, or_, walk


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
        made: list[Rex] = []
        size = 0
        for h in heads:
            for t in tails:
                made.append(or_([h, t]))
                size += _size(made[-1])
                if size > most:
                    raise _TooMuchError
        return and_(made)
    if op == "NOT":
        inner = rex.children[0]
        if kind(inner) == "NOT":
            return _cnf(inner.children[0], most)
        if kind(inner) == "OR":
            return _cnf(and_(not_(c) for c in disjunctions(inner)), most)
        if kind(inner) == "AND":
            return _cnf(or_(not_(c) for c in conjunctions(inner)), most)
    return rex
