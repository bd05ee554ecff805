"""Which conditions a source can be told, and in which form.

Source: Flink's ``RexNodeToExpressionConverter``, which turns a row expression into a table API expression, and the
way back (``ExpressionConverter``), which nests AND and OR pairwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from execnodes.rex import Call, InputRef, Literal, Rex
from execnodes.types import BOOLEAN
from planner.expressions.ops import Over, call, kind
from planner.expressions.simplify import expand_search

__all__ = ["convert"]


def convert(rex: Rex) -> Rex | None:
    """``rex`` as the source gets it; None where the table API has no such expression."""
    if isinstance(rex, InputRef):
        return rex
    if isinstance(rex, Literal):
        return None if rex.symbol is not None or rex.sarg is not None else rex
    if isinstance(rex, Over) or not isinstance(rex, Call):
        return None
    op = kind(rex)
    if op == "SEARCH":
        return convert(expand_search(rex))
    if rex.internal_name is None:
        return None
    operands = [convert(c) for c in rex.operands]
    known = [o for o in operands if o is not None]
    if len(known) < len(operands):
        return None
    if op in ("AND", "OR"):
        return _pairs(op, known)
    return Call(rex.type, tuple(known), rex.internal_name, rex.syntax)


def _pairs(op: str, operands: Sequence[Rex]) -> Rex:
    result = operands[0]
    for o in operands[1:]:
        nullable = result.type.nullable or o.type.nullable
        result = call(op, (result, o), BOOLEAN.as_nullable(nullable))
    return result
