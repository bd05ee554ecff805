"""When two row expressions are the same: symmetric operators by their operands, comparisons in either direction.

Source: Calcite's ``RexNormalize``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from stateplan.execnodes.rex import Call, CorrelVariable, FieldAccess, InputRef, Literal, Rex
from stateplan.planner.expressions.ops import Over, SubQuery, kind

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
            tuple(map(key, rex.operands)),
            tuple(map(key, rex.partition)),
            tuple((key(e), a, n) for e, a, n in rex.order),
            rex.distinct,
            rex.frame.text,
        )
    if isinstance(rex, SubQuery):
        return ("SUBQUERY", rex.number, tuple(map(key, rex.operands)))
    if isinstance(rex, CorrelVariable):
        return ("OUTER", rex.correl)
    op = kind(rex)
    operands = [key(c) for c in rex.children]
    if op in _SYMMETRIC and isinstance(rex, Call):
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
    wanted = key(rex)
    return any(key(o) == wanted for o in others)
