"""Whether an expression is NULL, or cannot be TRUE, where given fields are NULL.

Source: Calcite's ``Strong``.
"""

from __future__ import annotations

from collections.abc import Set

from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.planner.expressions.ops import COMPARISONS, is_null_literal, kind

_ANY = frozenset(
    {*COMPARISONS, "+", "-", "*", "/", "%", "MOD", "NEGATE", "NOT", "CAST", "LIKE", "BETWEEN", "REINTERPRET"}
)
"""Operators that are NULL as soon as an operand is."""


def is_not_true(rex: Rex, fields: Set[int]) -> bool:
    """Whether ``rex`` is FALSE or NULL whenever all of ``fields`` are NULL."""
    op = kind(rex)
    if op == "IS NOT NULL":
        return is_null(rex.children[0], fields)
    if op == "OR":
        return all(is_not_true(c, fields) for c in rex.children)
    if op == "AND":
        return any(is_not_true(c, fields) for c in rex.children)
    return is_null(rex, fields)


def is_null(rex: Rex, fields: Set[int]) -> bool:
    """Whether ``rex`` is NULL whenever all of ``fields`` are."""
    if isinstance(rex, InputRef):
        return rex.index in fields
    if isinstance(rex, Literal):
        return is_null_literal(rex)
    op = kind(rex)
    if op in _ANY:
        return any(is_null(c, fields) for c in rex.children)
    if op in ("OR", "COALESCE", "AND"):
        return all(is_null(c, fields) for c in rex.children)
    if op == "CASE":
        values = [*rex.children[1::2], rex.children[-1]]
        return all(is_null(v, fields) for v in values)
    return False
