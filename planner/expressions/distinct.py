"""IS NOT DISTINCT FROM: equality for which NULL equals NULL, as an operator and written with OR.

Source: Calcite's ``RelOptUtil.isDistinctFrom`` and ``RelOptUtil.collapseExpandedIsNotDistinctFromExpr``.
"""

from __future__ import annotations

from stateplan.execnodes.errors import Place
from stateplan.execnodes.functions.builder import coerce_operands, make_call
from stateplan.execnodes.rex import Literal, Rex
from stateplan.execnodes.types import BOOLEAN
from stateplan.planner.expressions.normal import equal
from stateplan.planner.expressions.ops import call, kind

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
