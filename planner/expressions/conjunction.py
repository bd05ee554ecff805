"""What the terms of a conjunction say together: constants, ranges, contradictions.

Source: Calcite's ``RexSimplify.simplifyAnd2ForUnknownAsFalse``.
"""

from __future__ import annotations

from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.planner.expressions.comparison import Comparison
from stateplan.planner.expressions.normal import equal, member
from stateplan.planner.expressions.ops import (
    COMPARISONS,
    NEGATED,
    TRUE,
    call,
    is_always_true,
    is_deterministic,
    is_null_literal,
    kind,
)
from stateplan.planner.expressions.sarg import Range, RangeSet, value_key


class Facts:
    """What the terms of a conjunction say about their operands."""

    def __init__(self) -> None:
        self.equalities: list[tuple[Rex, Rex, Rex]] = []
        self.constants: list[tuple[Rex, Literal]] = []
        self.ranges: list[tuple[Rex, RangeSet, list[Rex]]] = []
        self.negated: list[Rex] = []
        self.nulls: list[Rex] = []
        self.not_nulls: list[Rex] = []

    def add(self, terms: list[Rex], i: int) -> int | None:
        """Takes in term ``i``, which may be removed; returns the next position, None for a contradiction."""
        term = terms[i]
        if not is_deterministic(term):
            return i + 1
        while kind(term) == "=" and any(is_always_true(c) for c in term.children):
            term = next((c for c in term.children if not is_always_true(c)), TRUE)
            terms[i] = term
        op = kind(term)
        if op == "IS NULL":
            self.nulls.append(term.children[0])
            return i + 1
        if op == "IS NOT NULL":
            if not member(term.children[0], self.not_nulls):
                self.not_nulls.append(term.children[0])
            del terms[i]
            return i
        if op not in COMPARISONS:
            return i + 1
        left, right = term.children
        c = Comparison.of(term)
        if op == "=":
            if c is not None and not is_null_literal(c.literal):
                previous = next((v for r, v in self.constants if equal(r, c.ref)), None)
                if previous is not None:
                    if previous != c.literal:
                        return None
                    del terms[i]
                    return i
                self.constants.append((c.ref, c.literal))
            elif isinstance(left, InputRef) and isinstance(right, InputRef):
                self.equalities.append((left, right, term))
        self.negated.append(call(NEGATED[op], term.children, term.type))
        if c is not None and op != "<>" and not is_null_literal(c.literal):
            before = len(terms)
            if not self.narrow(c, term, terms):
                return None
            return i + 1 - (before - len(terms))
        return i + 1

    def narrow(self, c: Comparison, term: Rex, terms: list[Rex]) -> bool:
        """Narrows the range of ``c.ref`` by ``c``, removing terms it makes superfluous; False if nothing is left."""
        key = value_key(c.literal.type)
        mine = RangeSet(key, Range.of(c.op, c.literal.value))
        for n, (ref, ranges, sources) in enumerate(self.ranges):
            if not equal(ref, c.ref):
                continue
            both = ranges.intersect(mine)
            if both.is_empty:
                return False
            if both == ranges:
                _drop(terms, term)
            elif both == mine:
                for s in sources:
                    _drop(terms, s)
                self.ranges[n] = (ref, both, [term])
            else:
                self.ranges[n] = (ref, both, [*sources, term])
            return True
        self.ranges.append((c.ref, mine, [term]))
        return True

    def settle_equalities(self, terms: list[Rex]) -> bool:
        """Drops ``x = y`` where both are known constants; False when these differ."""
        for left, right, term in self.equalities:
            a = next((v for r, v in self.constants if equal(r, left)), None)
            b = next((v for r, v in self.constants if equal(r, right)), None)
            if a is None or b is None:
                continue
            if a != b:
                return False
            _drop(terms, term)
        return True


def _drop(terms: list[Rex], term: Rex) -> None:
    for i, t in enumerate(terms):
        if t is term:
            del terms[i]
            return
