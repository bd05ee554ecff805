"""CASE: its branches, and the boolean ones written with AND and OR."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Rex, input_refs
from stateplan.planner.expressions.comparison import is_safe
from stateplan.planner.expressions.ops import (
    FALSE,
    TRUE,
    and_,
    call,
    is_always_false,
    is_always_true,
    is_null_literal,
    kind,
    not_,
    or_,
    test,
)
from stateplan.planner.expressions.sarg import NullAs


@dataclass(frozen=True)
class Branch:
    """WHEN ``condition`` THEN ``value``; the ELSE is a branch with condition TRUE."""

    condition: Rex
    value: Rex


def branches_of(rex: Rex) -> list[Branch]:
    """The branches of a CASE call, ELSE last."""
    operands = rex.children
    out = [Branch(operands[i], operands[i + 1]) for i in range(0, len(operands) - 1, 2)]
    return [*out, Branch(TRUE, operands[-1])]


def case_operands(branches: Sequence[Branch]) -> list[Rex]:
    """The operands of a CASE with these branches; the last one is the ELSE."""
    return [o for b in branches[:-1] for o in (b.condition, b.value)] + [branches[-1].value]


def boolean_case(branches: Sequence[Branch], unknown_as: NullAs, result: LogicalType) -> Rex | None:
    """A CASE of booleans without CASE, or None where that cannot be done. ``result``: the type of the CASE."""
    values = [b.value for b in branches]
    if not all(is_safe(v) for v in values) or not all(is_safe(b.condition) for b in branches[1:]):
        return None
    if not any(is_always_true(v) or is_always_false(v) or is_null_literal(v) for v in values) and unknown_as != "FALSE":
        return None
    constant = all(is_always_true(v) or is_always_false(v) for v in values)
    terms: list[Rex] = []
    not_terms: list[Rex] = []
    for b in branches:
        if is_always_true(b.condition):
            terms.append(and_([_not_null(b.value, result), *not_terms]))
            break
        condition = test("IS TRUE", b.condition) if b.condition.type.nullable else b.condition
        if not is_always_false(b.value):
            terms.append(and_([condition, _not_null(b.value, result), *not_terms]))
        if constant and is_always_true(b.value):
            continue  # a OR (NOT a AND b) is a OR b
        not_terms.append(test("IS NOT TRUE", b.condition) if b.condition.type.nullable else not_(b.condition))
    return or_(terms) if terms else FALSE


def _not_null(value: Rex, result: LogicalType) -> Rex:
    """``value``, which is never NULL where ``result`` is not, with a type that says so."""
    return call("CAST", (value,), result) if value.type.nullable and not result.nullable else value


def push_into_cases(rex: Rex) -> Rex:
    """``rex`` with predicates over one CASE moved into its branches, and predicates over these too."""
    if not rex.children:
        return rex
    from stateplan.planner.expressions.ops import with_operands

    if _pushable(rex, rex.children):
        return _pushed_into_case(rex, _cases(rex)[0])
    new = with_operands(rex, [push_into_cases(c) for c in rex.children])
    return _pushed_into_case(new, _cases(new)[0]) if new is not rex and _pushable(new, rex.children) else new


def _cases(rex: Rex) -> list[int]:
    return [i for i, c in enumerate(rex.children) if kind(c) == "CASE"]


def _pushable(rex: Rex, before: Sequence[Rex]) -> bool:
    """Whether ``rex`` is a predicate over one CASE, whose values are no conditions of the query. ``before``: its
    operands as they are in the query."""
    cases = _cases(rex)
    if len(cases) != 1 or rex.type.root != "BOOLEAN" or kind(rex) in ("CASE", "AND", "OR", "NOT") or _joins_sides(rex):
        return False
    return rex.children[cases[0]].type.root != "BOOLEAN" or kind(before[cases[0]]) != "CASE"


def _joins_sides(rex: Rex) -> bool:
    """Whether it is an equality of different fields on both sides, which may become a key of a join."""
    if kind(rex) != "=":
        return False
    left, right = (set(input_refs(c)) for c in rex.children)
    return bool(left) and bool(right) and not left & right


def _pushed_into_case(rex: Rex, position: int) -> Rex:
    from stateplan.planner.expressions.ops import with_operands

    operands = []
    inner = rex.children[position]
    last = len(inner.children) - 1
    for i, c in enumerate(inner.children):
        if i % 2 == 1 or i == last:
            c = with_operands(rex, [c if k == position else o for k, o in enumerate(rex.children)])
        operands.append(c)
    nullable = any(o.type.nullable for i, o in enumerate(operands) if i % 2 == 1 or i == last)
    return call("CASE", operands, rex.type.as_nullable(nullable))
