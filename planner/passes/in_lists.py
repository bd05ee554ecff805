"""Comparisons of an expression with four values and more become one search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.values.java_hash import scala_hash_map_order
from stateplan.functions.rex import Literal, Rex
from stateplan.planner.algebra.relations import Filter, Rel
from stateplan.planner.digest.expressions import physical_expression
from stateplan.planner.expressions.ops import and_, conjunctions, disjunctions, is_null_literal, kind, or_
from stateplan.planner.expressions.search import one_of

_FEWEST = 4
_FEWEST_FRACTIONS = 20
"""How many values it takes, and how many of FLOAT and DOUBLE."""


def comparisons_to_searches(rel: Rel) -> Rel | None:
    """A filter with ``LOWER(s) = 'a' OR LOWER(s) = 'b' OR ...`` as ``SEARCH(LOWER(s), ...)``; ``<>`` with AND too.

    Source: Flink's ``ConvertToNotInOrInRule``.
    """
    if not isinstance(rel, Filter):
        return None
    names = [f"${i}" for i in range(rel.input.width)]
    condition = rel.condition
    for lists in (_IN, _NOT_IN):
        condition = lists.as_join_condition(condition, names) or condition
    return None if condition is rel.condition else replace(rel, condition=condition)


@dataclass(frozen=True)
class _Lists:
    """What a list is written as: terms with ``comparison`` that ``connect`` joins. Lists are also looked for in the
    operands of ``other``."""

    comparison: str
    other: str
    terms: Callable[[Rex], list[Rex]]
    connect: Callable[[Iterable[Rex]], Rex]

    def as_join_condition(self, rex: Rex, names: Sequence[str]) -> Rex | None:
        """``rex`` with searches; None if it has no list. Terms that are no comparison with a value come first, the
        others in the order of the rule's hash map."""
        has_list = False
        out: list[Rex] = []
        groups: dict[str, list[Rex]] = {}
        for term in self.terms(rex):
            operand = self._operand(term)
            if operand is not None:
                groups.setdefault(physical_expression(operand, names), []).append(term)
            elif kind(term) == self.other:
                inside = [self.as_join_condition(operand, names) for operand in term.children]
                has_list = has_list or any(inside)
                opposite = _NOT_IN if self is _IN else _IN
                out.append(opposite.connect(new or old for new, old in zip(inside, term.children, strict=True)))
            else:
                out.append(term)
        for name in scala_hash_map_order(groups):
            group = groups[name]
            operand = self._operand(group[0])
            assert operand is not None
            if len(group) >= (_FEWEST_FRACTIONS if operand.type.root in ("FLOAT", "DOUBLE") else _FEWEST):
                has_list = True
                group = [one_of(operand, [_value(term) for term in group], self.comparison)]
            out += group
        return self.connect(out) if has_list else None

    def _operand(self, term: Rex) -> Rex | None:
        """What a term compares with a value."""
        if kind(term) != self.comparison:
            return None
        left, right = term.children
        if _is_value(right):
            return left
        return right if _is_value(left) else None


_IN = _Lists("=", "AND", disjunctions, or_)
_NOT_IN = _Lists("<>", "OR", conjunctions, and_)


def _is_value(rex: Rex) -> bool:
    return isinstance(rex, Literal) and not is_null_literal(rex)


def _value(term: Rex) -> Literal:
    """The value that a term compares with."""
    left, right = term.children
    value = right if _is_value(right) else left
    assert isinstance(value, Literal)
    return value
