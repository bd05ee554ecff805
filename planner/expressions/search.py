"""SEARCH: gathering comparisons of one expression into a search argument, and writing it with comparisons again.

Source: Calcite's ``RexSimplify.SargCollector`` and ``RexUtil.expandSearch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stateplan.common.types import BOOLEAN, LogicalType
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.typerules import least_restrictive
from stateplan.planner.expressions.approximate import Approximate
from stateplan.planner.expressions.normal import equal
from stateplan.planner.expressions.ops import (
    COMPARISONS,
    FALSE,
    MIRRORED,
    NEGATED,
    TRUE,
    and_,
    call,
    compare,
    is_null_literal,
    kind,
    or_,
    test,
    unwrap_cast,
    with_operands,
)
from stateplan.planner.expressions.sarg import ALL, NullAs, Range, RangeSet, Sarg, value_key


class _SargBuilder(Rex):
    """Values of one expression, gathered over several terms."""

    def __init__(self, ref: Rex, negate: bool, key: Callable[[Any], Any]) -> None:
        super().__init__(BOOLEAN)
        self.__dict__.update(
            ref=ref, negate=negate, types=[], ranges=RangeSet(key), null_as="FALSE", has_sarg=False, is_merged=False
        )

    ref: Rex
    negate: bool
    types: list[LogicalType]
    ranges: RangeSet
    null_as: NullAs
    has_sarg: bool
    is_merged: bool

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def null_or(self, other: NullAs) -> None:
        both = {self.null_as, other}
        self.__dict__["null_as"] = "TRUE" if "TRUE" in both else "UNKNOWN" if "UNKNOWN" in both else "FALSE"

    def add(self, ranges: Iterable[Range], type: LogicalType) -> None:  # noqa: A002
        self.types.append(type)
        for r in ranges:
            self.ranges.add(r)
        self.__dict__["is_merged"] |= self.has_sarg
        self.null_or("UNKNOWN")

    def add_sarg(self, sarg: Sarg, type: LogicalType) -> None:  # noqa: A002
        sarg = sarg.negate() if self.negate else sarg
        self.types.append(type)
        self.__dict__["is_merged"] |= bool(self.ranges.ranges)
        for r in sarg.ranges:
            self.ranges.add(r)
        self.__dict__["has_sarg"] = True
        self.null_or(sarg.null_as)

    def build(self, negate: bool | None = None) -> Sarg:
        sarg = Sarg.of(self.null_as, self.ranges)
        return sarg.negate() if (self.negate if negate is None else negate) else sarg

    @property
    def literal_type(self) -> LogicalType:
        if not self.types:
            return self.ref.type
        return least_restrictive(self.types) or self.types[0]

    def build_typed(self) -> Sarg:
        """The search argument with values as its type writes them."""
        sarg = self.build()
        if self.literal_type.root != "DECIMAL":
            return sarg
        ranges = tuple(Range(_text(r.lower), r.lower_closed, _text(r.upper), r.upper_closed) for r in sarg.ranges)
        return Sarg(ranges, sarg.null_as, sarg.key)


def _text(value: Any) -> Any:
    return None if value is None else str(value)


_SARG_REFS = ("REF", "FIELDACCESS", "CAST")


class SargCollector:
    """Gathers the terms of a conjunction (``negate``) or disjunction that compare the same expression."""

    def __init__(self, negate: bool) -> None:
        self.negate = negate
        self.builders: list[_SargBuilder] = []
        self.terms: list[Rex] = []

    def accept(self, term: Rex) -> None:
        if not self._accept(term):
            self.terms.append(term)

    def _builder(self, ref: Rex, key_type: LogicalType) -> _SargBuilder:
        for b in self.builders:
            if equal(b.ref, ref):
                return b
        builder = _SargBuilder(ref, self.negate, value_key(key_type))
        self.builders.append(builder)
        self.terms.append(builder)
        return builder

    def _accept(self, term: Rex) -> bool:
        op = kind(term)
        if op in ("IS NULL", "IS NOT NULL"):
            builder = self._builder(term.children[0], unwrap_cast(term.children[0]).type)
            if (NEGATED[op] if self.negate else op) == "IS NULL":
                builder.null_or("TRUE")
            else:
                builder.null_or("FALSE")
                builder.ranges.add(ALL)
            return True
        if op not in COMPARISONS and op != "SEARCH":
            return False
        left, right = term.children
        if not isinstance(right, Literal) and isinstance(left, Literal) and op != "SEARCH":
            left, right, op = right, left, MIRRORED[op]
        if not isinstance(right, Literal) or kind(left) not in _SARG_REFS or is_null_literal(right):
            return False
        builder = self._builder(left, right.type)
        if op == "SEARCH":
            builder.add_sarg(Sarg.from_json(right.sarg, right.type), right.type)
        else:
            builder.add(Range.of(NEGATED[op] if self.negate else op, right.value), right.type)
        return True

    def need_to_fix(self) -> bool:
        if any(b.build(False).complexity > 1 or b.is_merged for b in self.builders):
            return True
        return len(self.terms) == 1 and all(b.build().is_simple for b in self.builders)

    def terms_for(self, unknown_as: NullAs) -> list[Rex]:
        return [self._fix(t, unknown_as) if isinstance(t, _SargBuilder) else t for t in self.terms]

    def _fix(self, b: _SargBuilder, unknown_as: NullAs) -> Rex:
        sarg = b.build_typed()
        if sarg.complexity <= 1 and sarg.is_simple:
            return sarg_ref(b.ref, sarg, b.literal_type, unknown_as)
        return search(b.ref, sarg, b.literal_type)


def one_of(rex: Rex, values: Sequence[Literal], comparison: str) -> Call:
    """SEARCH for ``rex`` equal to one of ``values`` (``comparison`` is ``=``), or to none of them (``<>``)."""
    builder = _SargBuilder(rex, comparison == "<>", value_key(values[0].type))
    for value in values:
        builder.add(Range.of("=", value.value), value.type)
    return search(rex, builder.build_typed(), builder.literal_type)


def search(ref: Rex, sarg: Sarg, type: LogicalType) -> Call:  # noqa: A002
    """``SEARCH(ref, sarg)``."""
    nullable = ref.type.nullable and sarg.null_as == "UNKNOWN"
    return call("SEARCH", (ref, Literal(type.not_null(), sarg=sarg.to_json())), BOOLEAN.as_nullable(nullable))


def sarg_ref(ref: Rex, sarg: Sarg, type: LogicalType, unknown_as: NullAs) -> Rex:  # noqa: A002
    """``SEARCH(ref, sarg)`` written with comparisons."""
    if sarg.is_all or sarg.is_none:
        null_as = unknown_as if sarg.null_as == "UNKNOWN" else sarg.null_as
        if sarg.is_all:
            not_null = test("IS NOT NULL", ref)
            return {"TRUE": TRUE, "FALSE": not_null, "UNKNOWN": or_([not_null, Literal(BOOLEAN, None)])}[null_as]
        return {"TRUE": test("IS NULL", ref), "FALSE": FALSE, "UNKNOWN": compare("<>", ref, ref)}[null_as]

    def literal(value: Any) -> Literal:
        return Literal(type.not_null(), Approximate(value) if type.root in ("DOUBLE", "FLOAT") else value)

    terms: list[Rex] = []
    if sarg.null_as == "TRUE" and unknown_as == "UNKNOWN":
        terms.append(test("IS NULL", ref))
    if sarg.is_points:
        terms += [compare("=", ref, literal(r.lower)) for r in sarg.ranges]
    elif sarg.is_complemented_points:
        points = sarg.range_set.complement().ranges
        terms.append(and_(compare("<>", ref, literal(p.lower)) for p in points))
    else:
        for r in sarg.ranges:
            if r.is_point:
                terms.append(compare("=", ref, literal(r.lower)))
                continue
            ends: list[Rex] = []
            if r.lower is not None:
                ends.append(compare(">=" if r.lower_closed else ">", ref, literal(r.lower)))
            if r.upper is not None:
                ends.append(compare("<=" if r.upper_closed else "<", ref, literal(r.upper)))
            terms.append(and_(ends))
    result = or_(terms)
    if sarg.null_as == "FALSE" and unknown_as == "UNKNOWN":
        result = and_([test("IS NOT NULL", ref), result])
    return result


def expand_search(rex: Rex) -> Rex:
    """``rex`` with SEARCH calls written as comparisons."""
    if kind(rex) == "SEARCH" and isinstance(rex.children[1], Literal):
        literal = rex.children[1]
        return sarg_ref(rex.children[0], Sarg.from_json(literal.sarg, literal.type), literal.type, "UNKNOWN")
    if not rex.children:
        return rex
    return with_operands(rex, [expand_search(c) for c in rex.children])
