"""What kind of predicate a row expression is: a comparison with a constant, a test for NULL, one that cannot fail."""

from __future__ import annotations

from collections.abc import Callable

from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.rex import FieldAccess, InputRef, Literal, Rex
from stateplan.planner.expressions.ops import COMPARISONS, MIRRORED, NEGATED, is_deterministic, is_null_literal, kind


@dataclass(frozen=True)
class Comparison:
    """``ref op literal``, with ``ref`` on the left."""

    ref: Rex
    op: str
    literal: Literal

    @classmethod
    def of(cls, rex: Rex) -> Comparison | None:
        """``rex`` as a comparison of something deterministic with a constant, or None."""
        op = kind(rex)
        if op not in COMPARISONS:
            return None
        left, right = rex.children
        if isinstance(right, Literal) and is_deterministic(left):
            return cls(left, op, right)
        if isinstance(left, Literal) and is_deterministic(right):
            return cls(right, MIRRORED[op], left)
        return None


def null_test(rex: Rex) -> tuple[str, Rex] | None:
    if kind(rex) in ("IS NULL", "IS NOT NULL") and is_deterministic(rex.children[0]):
        return kind(rex), rex.children[0]
    return None


STRONG = frozenset(
    {
        *COMPARISONS,
        "+",
        "-",
        "*",
        "/",
        "/INT",
        "NEGATE",
        "NOT",
        "CAST",
        "REINTERPRET",
        "LIKE",
        "SIMILAR TO",
        "TRIM",
        "CEIL",
        "FLOOR",
        "EXTRACT",
        "ITEM",
    }
)
"""Operators that return NULL as soon as one operand is NULL."""


def is_null_with(rex: Rex, ref: Rex) -> bool:
    """Whether ``rex`` is NULL for each row where ``ref`` is (Calcite's ``Strong.isNull``)."""
    op, operands = kind(rex), rex.children
    if isinstance(rex, Literal):
        return is_null_literal(rex)
    if isinstance(rex, (InputRef, FieldAccess)):
        return rex == ref
    if op == "SEARCH":
        literal = operands[1]
        excludes_null = (
            isinstance(literal, Literal) and literal.sarg is not None and literal.sarg.get("nullAs") != "TRUE"
        )
        return excludes_null and is_null_with(operands[0], ref)
    if op == "CASE":
        operands = tuple(v for i, v in enumerate(operands) if i % 2 or i == len(operands) - 1)
    if op in ("AND", "OR", "COALESCE", "CASE"):
        return all(is_null_with(c, ref) for c in operands)
    return op in STRONG and any(is_null_with(c, ref) for c in operands)


def is_not_true(rex: Rex, is_null: Callable[[Rex], bool]) -> bool:
    """Whether ``rex`` is FALSE or NULL for certain rows, for which ``is_null`` says whether an expression is NULL for
    all of them (Calcite's ``Strong.isNotTrue``)."""
    op = kind(rex)
    if op == "IS NOT NULL":
        return is_null(rex.children[0])
    if op == "OR":
        return all(is_not_true(c, is_null) for c in rex.children)
    if op == "AND":
        return any(is_not_true(c, is_null) for c in rex.children)
    return is_null(rex)


def always_null(rex: Rex) -> bool:
    """Whether ``rex`` is NULL for every row, because something it computes with is."""
    if isinstance(rex, Literal):
        return is_null_literal(rex) and rex.symbol is None
    return kind(rex) in STRONG and any(always_null(c) for c in rex.children)


_SAFE = frozenset(
    {
        *COMPARISONS,
        "UNARY +",
        "NEGATE",
        "+",
        "-",
        "*",
        *NEGATED,
        "IS DISTINCT FROM",
        "IS NOT DISTINCT FROM",
        "SEARCH",
        "OR",
        "AND",
        "NOT",
        "CASE",
        "LIKE",
        "COALESCE",
        "TRIM",
        "LTRIM",
        "RTRIM",
        "BETWEEN",
        "CEIL",
        "FLOOR",
        "REVERSE",
    }
)


def is_safe(rex: Rex) -> bool:
    """Whether computing ``rex`` cannot fail, for any row."""
    return isinstance(rex, (InputRef, Literal)) or (kind(rex) in _SAFE and all(is_safe(c) for c in rex.children))
