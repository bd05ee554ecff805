"""The values that predicates leave to expressions that they compare with constants."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from stateplan.functions.rex import Rex
from stateplan.planner.expressions.comparison import Comparison
from stateplan.planner.expressions.normal import key
from stateplan.planner.expressions.ops import is_null_literal
from stateplan.planner.expressions.sarg import Range, RangeSet, value_key


class KnownRanges:
    """By expression and type of its constants, the values that predicates exclude.

    Args:
        predicates: they hold for every row. What is no comparison with a constant says nothing here.
    """

    def __init__(self, predicates: Iterable[Rex] = ()) -> None:
        self._gaps: dict[Hashable, RangeSet] = {}
        self._exclude(predicates)

    def _exclude(self, predicates: Iterable[Rex]) -> None:
        for predicate in predicates:
            c = Comparison.of(predicate)
            if c is not None and not is_null_literal(c.literal):
                gaps = self.gaps(c)
                gaps.include(ranges_of(c).complement())
                self._gaps[_subject(c)] = gaps

    def also(self, predicates: Iterable[Rex]) -> KnownRanges:
        """The same with more predicates."""
        out = KnownRanges()
        out._gaps = dict(self._gaps)
        out._exclude(predicates)
        return out

    def gaps(self, c: Comparison) -> RangeSet:
        """The values that the expression of a comparison cannot have, as a set of the caller's own."""
        out = RangeSet(value_key(c.literal.type))
        own_gaps = self._gaps.get(_subject(c))
        if own_gaps is not None:
            out.ranges = list(own_gaps.ranges)
        return out


def ranges_of(c: Comparison) -> RangeSet:
    """The values for which a comparison holds."""
    return RangeSet(value_key(c.literal.type), Range.of(c.op, c.literal.value))


def _subject(c: Comparison) -> Hashable:
    return key(c.ref), c.literal.type.as_nullable()
