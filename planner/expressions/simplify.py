"""Simplifying row expressions: the forms Flink's plans have.

Source: Calcite's ``RexSimplify``. ``unknown_as`` says what NULL may be taken for: ``FALSE`` in a filter, ``UNKNOWN``
where the three values matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from execnodes.functions.typerules import least_restrictive
from execnodes.rex import Call, InputRef, Literal, Rex
from execnodes.types import BOOLEAN, LogicalType
from planner.expressions import fold
from planner.expressions.cases import Branch, boolean_case, branches_of, case_operands
from planner.expressions.normal import equal, member
from planner.expressions.ops import (
    COMPARISONS,
    FALSE,
    MIRRORED,
    NEGATED,
    TRUE,
    and_,
    call,
    compare,
    conjunctions,
    disjunctions,
    is_always_false,
    is_always_true,
    is_deterministic,
    is_null_literal,
    kind,
    not_,
    or_,
    same_type,
    test,
    unwrap_cast,
    with_operands,
)
from planner.expressions.sarg import ALL, NullAs, Range, RangeSet, Sarg, value_key

__all__ = ["Comparison", "Simplifier", "expand_search", "simplify_filter", "simplify_preserving_type"]


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


def _null_test(rex: Rex) -> tuple[str, Rex] | None:
    if kind(rex) in ("IS NULL", "IS NOT NULL") and is_deterministic(rex.children[0]):
        return kind(rex), rex.children[0]
    return None


_STRONG = frozenset({*COMPARISONS, "+", "-", "*", "/", "NOT", "CAST", "LIKE", "MOD"})
"""Operators that give NULL as soon as one operand is NULL."""


def strong_operands(rex: Rex) -> list[Rex]:
    """References whose being NULL makes ``rex`` NULL."""
    if isinstance(rex, InputRef):
        return [rex]
    return [r for c in rex.children for r in strong_operands(c)] if kind(rex) in _STRONG else []


def _is_null(rex: Rex) -> bool:
    """Whether ``rex`` is NULL for every row, because something it computes with is."""
    if isinstance(rex, Literal):
        return is_null_literal(rex) and rex.symbol is None
    return kind(rex) in _STRONG and any(_is_null(c) for c in rex.children)


class _SargBuilder(Rex):
    """Values of one expression, gathered over several terms."""

    def __init__(self, ref: Rex, negate: bool, key: Callable[[Any], Any]) -> None:
        super().__init__(BOOLEAN)
        self.__dict__.update(ref=ref, negate=negate, types=[], ranges=RangeSet(key), null_as="FALSE",
                             has_sarg=False, merged=False)

    ref: Rex
    negate: bool
    types: list[LogicalType]
    ranges: RangeSet
    null_as: NullAs
    has_sarg: bool
    merged: bool

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
        self.__dict__["merged"] |= self.has_sarg
        self.null_or("UNKNOWN")

    def add_sarg(self, sarg: Sarg, type: LogicalType) -> None:  # noqa: A002
        sarg = sarg.negate() if self.negate else sarg
        self.types.append(type)
        self.__dict__["merged"] |= bool(self.ranges.ranges)
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

    def built(self) -> Sarg:
        """The search argument with values as its type writes them."""
        sarg = self.build()
        if self.literal_type.root != "DECIMAL":
            return sarg
        ranges = tuple(Range(_text(r.lower), r.lower_closed, _text(r.upper), r.upper_closed) for r in sarg.ranges)
        return Sarg(ranges, sarg.null_as, sarg.key)


def _text(value: Any) -> Any:
    return None if value is None else str(value)


_SARG_REFS = ("REF", "FIELDACCESS", "CAST")


class _SargCollector:
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
        if any(b.build(False).complexity > 1 or b.merged for b in self.builders):
            return True
        return len(self.terms) == 1 and all(b.build().is_simple for b in self.builders)

    def fixed(self, unknown_as: NullAs) -> list[Rex]:
        return [self._fix(t, unknown_as) if isinstance(t, _SargBuilder) else t for t in self.terms]

    def _fix(self, b: _SargBuilder, unknown_as: NullAs) -> Rex:
        sarg = b.built()
        if sarg.complexity <= 1 and sarg.is_simple:
            return sarg_ref(b.ref, sarg, b.literal_type, unknown_as)
        return search(b.ref, sarg, b.literal_type)


def search(ref: Rex, sarg: Sarg, type: LogicalType) -> Call:  # noqa: A002
    """``SEARCH(ref, sarg)``."""
    nullable = ref.type.nullable and sarg.null_as == "UNKNOWN"
    return call("SEARCH", (ref, Literal(type.not_null(), sarg=sarg.to_json())), BOOLEAN.as_nullable(nullable))


def sarg_ref(ref: Rex, sarg: Sarg, type: LogicalType, unknown_as: NullAs) -> Rex:  # noqa: A002
    """``SEARCH(ref, sarg)`` written with comparisons."""
    if sarg.is_all or sarg.is_none:
        null_as = unknown_as if sarg.null_as == "UNKNOWN" else sarg.null_as
        if sarg.is_all:
            known = test("IS NOT NULL", ref)
            return {"TRUE": TRUE, "FALSE": known, "UNKNOWN": or_([known, Literal(BOOLEAN, None)])}[null_as]
        return {"TRUE": test("IS NULL", ref), "FALSE": FALSE, "UNKNOWN": compare("<>", ref, ref)}[null_as]

    def literal(value: Any) -> Literal:
        return Literal(type.not_null(), str(Decimal(repr(float(value)))) if type.root in ("DOUBLE", "FLOAT") else value)

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


def _split(terms: Iterable[Rex]) -> tuple[list[Rex], list[Rex]]:
    """Conjunctions of ``terms``: those that are not negated, and the operands of those that are."""
    plain: list[Rex] = []
    negated: list[Rex] = []
    for term in terms:
        for c in conjunctions(term):
            if kind(c) == "NOT":
                negated.append(c.children[0])
            else:
                plain.append(c)
    return plain, negated


class Simplifier:
    """Simplifies under ``predicates``, which are known to hold for every row."""

    def __init__(self, predicates: Sequence[Rex] = ()) -> None:
        self.predicates = tuple(predicates)

    def simplify(self, rex: Rex, unknown_as: NullAs = "UNKNOWN") -> Rex:
        op = kind(rex)
        if not isinstance(rex, Call):
            return rex
        if _is_null(rex):
            if rex.type.root == "BOOLEAN" and unknown_as != "UNKNOWN":
                return FALSE if unknown_as == "FALSE" else TRUE
            return Literal(rex.type.as_nullable(), None)
        if op in COMPARISONS:
            return self._comparison(rex, unknown_as)
        method = _METHODS.get(op)
        if method is not None:
            return method(self, rex, unknown_as)
        return self._generic(rex)

    def _generic(self, rex: Rex) -> Rex:
        return with_operands(rex, [self.simplify(c) for c in rex.children])

    # boolean structure

    def _and(self, rex: Rex, unknown_as: NullAs) -> Rex:
        operands = conjunctions(rex) if not is_always_true(rex) else [rex]
        operands = self._and_terms(operands, unknown_as) if unknown_as == "FALSE" else [
            self.simplify(o, unknown_as) for o in operands]
        collector = _SargCollector(negate=True)
        for o in operands:
            collector.accept(o)
        if collector.need_to_fix():
            operands = collector.fixed(unknown_as)
        plain, negated = _split(operands)
        if unknown_as == "FALSE":
            return self._and_false(plain, negated)
        if any(is_always_false(t) for t in plain):
            return FALSE
        for n in negated:
            if is_deterministic(n) and all(member(c, plain) for c in conjunctions(n)) and not n.type.nullable:
                return FALSE
        return and_([*plain, *(not_(n) for n in negated)])

    def _and_terms(self, operands: list[Rex], unknown_as: NullAs) -> list[Rex]:
        out = list(operands)
        simplifier = self
        later: list[int] = []
        for i, term in enumerate(operands):
            if Comparison.of(term) is None and _null_test(term) is None:
                later.append(i)
                continue
            out[i] = simplifier.simplify(term, unknown_as)
            simplifier = Simplifier((*simplifier.predicates, *conjunctions(out[i])))
        for i in later:
            out[i] = simplifier.simplify(operands[i], unknown_as)
        return out

    def _and_false(self, terms: list[Rex], negated: list[Rex]) -> Rex:
        if any(is_always_false(t) or is_null_literal(t) for t in terms):
            return FALSE
        if not terms and not negated:
            return TRUE
        if len(terms) == 1 and not negated:
            return self.simplify(terms[0], "FALSE")
        facts = _Facts()
        for p in self.predicates:
            c = Comparison.of(p)
            if c is not None and c.op != "<>" and not is_null_literal(c.literal) and not facts.narrow(c, p, terms):
                return FALSE
        i = 0
        while i < len(terms):
            verdict = facts.add(terms, i)
            if verdict is None:
                return FALSE
            i = verdict
        if any(member(n, facts.strong) for n in facts.nulls):
            return FALSE
        if not facts.settle_equalities(terms):
            return FALSE
        terms += [test("IS NOT NULL", n) for n in facts.not_nulls if not member(n, facts.strong)]
        for n in negated:
            if is_deterministic(n) and all(member(c, terms) for c in conjunctions(n)):
                return FALSE
        if any(member(n, terms) for n in facts.negated):
            return FALSE
        return and_([*terms, *(self.simplify(not_(n)) for n in negated)])

    def _or(self, rex: Rex, unknown_as: NullAs) -> Rex:
        terms = disjunctions(rex) if not is_always_false(rex) else [rex]
        terms.sort(key=lambda t: kind(t) != "IS NULL")
        out = list(terms)
        simplifier = self
        later: list[int] = []
        for i, term in enumerate(terms):
            comparison = Comparison.of(term)
            if (comparison is None or comparison.ref.type.nullable) and _null_test(term) is None:
                later.append(i)
                continue
            out[i] = simplifier.simplify(term, unknown_as)
            inverse = simplifier.simplify(test("IS NOT TRUE", out[i]))
            simplifier = Simplifier((*simplifier.predicates, *conjunctions(inverse)))
        for i in later:
            out[i] = simplifier.simplify(terms[i], unknown_as)
        return self._ors(out, unknown_as)

    def _ors(self, terms: list[Rex], unknown_as: NullAs) -> Rex:
        collector = _SargCollector(negate=False)
        for t in terms:
            collector.accept(t)
        if collector.need_to_fix():
            terms = collector.fixed(unknown_as)
        out: list[Rex] = []
        for term in terms:
            if is_null_literal(term):
                if unknown_as == "FALSE":
                    continue
                if unknown_as == "TRUE":
                    return TRUE
            elif is_always_true(term):
                return TRUE
            out.append(term)
        return or_(out)

    def _not(self, rex: Rex, unknown_as: NullAs) -> Rex:
        inner = rex.children[0]
        op = kind(inner)
        if op == "NOT":
            return self.simplify(inner.children[0], unknown_as)
        if op == "SEARCH" and isinstance(inner.children[1], Literal):
            literal = inner.children[1]
            sarg = Sarg.from_json(literal.sarg, literal.type).negate()
            return self._search(search(inner.children[0], sarg, literal.type), unknown_as)
        if is_always_true(inner) or is_always_false(inner):
            return FALSE if is_always_true(inner) else TRUE
        if op in ("AND", "OR"):
            parts = [self.simplify(not_(c), unknown_as) for c in inner.children]
            return self.simplify(call("OR" if op == "AND" else "AND", parts, rex.type), unknown_as)
        if op == "CASE":
            operands = [not_(c) if i % 2 or i == len(inner.children) - 1 else c for i, c in enumerate(inner.children)]
            return self.simplify(call("CASE", operands, rex.type), unknown_as)
        if op in NEGATED:
            return self.simplify(call(NEGATED[op], inner.children, inner.type), unknown_as)
        flipped: NullAs = {"TRUE": "FALSE", "FALSE": "TRUE", "UNKNOWN": "UNKNOWN"}[unknown_as]  # type: ignore[assignment]
        simplified = self.simplify(inner, flipped)
        return rex if equal(simplified, inner) else self.simplify(not_(simplified), unknown_as)

    # tests

    def _is(self, rex: Rex, unknown_as: NullAs) -> Rex:
        operand = rex.children[0]
        simplified = self._is1(kind(rex), operand, unknown_as)
        return rex if simplified is None else simplified

    def _is1(self, op: str, a: Rex, unknown_as: NullAs) -> Rex | None:
        if (op == "IS TRUE" and unknown_as == "FALSE") or (op == "IS NOT FALSE" and unknown_as == "TRUE"):
            return self.simplify(a, unknown_as)
        if (op == "IS FALSE" and unknown_as == "FALSE") or (op == "IS NOT TRUE" and unknown_as == "TRUE"):
            return self.simplify(not_(a), unknown_as)
        if is_deterministic(a):
            for p in self.predicates:
                found = _null_test(p)
                if found is not None and found[0] == op and equal(found[1], a):
                    return TRUE
        return self._is2(op, a, unknown_as)

    def _is2(self, op: str, a: Rex, unknown_as: NullAs) -> Rex | None:
        if op in ("IS NULL", "IS NOT NULL"):
            result = self._is_null(a) if op == "IS NULL" else self._is_not_null(a)
            if result is not None:
                return result
        elif not a.type.nullable or self._known_not_null(a):
            return self.simplify(a if op in ("IS TRUE", "IS NOT FALSE") else not_(a), unknown_as)
        elif op in ("IS TRUE", "IS NOT FALSE"):
            simplified = self.simplify(a, "FALSE" if op == "IS TRUE" else "TRUE")
            return None if equal(simplified, a) else test(op, simplified)
        if kind(a) == "NOT":
            flipped = {"IS TRUE": "IS FALSE", "IS FALSE": "IS TRUE", "IS NOT TRUE": "IS NOT FALSE",
                       "IS NOT FALSE": "IS NOT TRUE"}.get(op, op)
            return self.simplify(test(flipped, a.children[0]))
        simplified = self.simplify(a)
        return None if equal(simplified, a) else test(op, simplified)

    def _known_not_null(self, a: Rex) -> bool:
        return any(t is not None and t[0] == "IS NOT NULL" and equal(t[1], a) for t in map(_null_test, self.predicates))

    def _is_not_null(self, rex: Rex) -> Rex | None:
        a = self.simplify(rex)
        if not a.type.nullable:
            return TRUE
        if lossless_cast(a):
            inner = a.children[0]
            return TRUE if not inner.type.nullable else test("IS NOT NULL", unwrap_cast(a))
        if any(equal(p, a) for p in self.predicates):
            return TRUE
        if isinstance(a, Literal):
            return FALSE if is_null_literal(a) else TRUE
        if kind(a) in _STRONG - {"CAST", "/"} and isinstance(a, Call):
            return and_(self._is_not_null(c) or test("IS NOT NULL", c) for c in a.children)
        if kind(a) == "CAST":
            return None if equal(a, rex) else test("IS NOT NULL", a)
        return None if equal(a, rex) else test("IS NOT NULL", a)

    def _is_null(self, rex: Rex) -> Rex | None:
        a = self.simplify(rex)
        if not a.type.nullable:
            return FALSE
        if is_null_literal(a):
            return TRUE
        if lossless_cast(a):
            inner = a.children[0]
            return FALSE if not inner.type.nullable else test("IS NULL", unwrap_cast(a))
        if any(equal(p, a) for p in self.predicates) or self._known_not_null(a):
            return FALSE
        if kind(a) in _STRONG - {"CAST", "/"} and isinstance(a, Call):
            return or_(self._is_null(c) or test("IS NULL", c) for c in a.children)
        return None if equal(a, rex) else test("IS NULL", a)

    # comparisons

    def _comparison(self, rex: Rex, unknown_as: NullAs) -> Rex:
        op = kind(rex)
        left, right = (self.simplify(c) for c in rex.children)
        if equal(left, right) and is_deterministic(left):
            null = Literal(rex.type.as_nullable(), None)
            if op in ("=", ">=", "<="):
                return self.simplify(call("OR", (null, test("IS NOT NULL", left)), BOOLEAN), unknown_as)
            return self.simplify(call("AND", (null, test("IS NULL", left)), BOOLEAN), unknown_as)
        changed = compare(op, left, right)
        if left.type.root == "BOOLEAN":
            c = Comparison.of(changed)
            if c is not None and not is_null_literal(c.literal):
                result = self._boolean_comparison(c, unknown_as)
                if result is not None:
                    return result
        if isinstance(left, Literal) and isinstance(right, Literal) and same_type(left.type, right.type):
            if is_null_literal(left) or is_null_literal(right):
                return FALSE if unknown_as == "FALSE" else Literal(rex.type.as_nullable(), None)
            key = value_key(left.type)
            a, b = key(left.value), key(right.value)
            holds = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]
            return TRUE if holds else FALSE
        return self._using_predicates(rex if with_operands(rex, (left, right)) == rex else changed)

    def _boolean_comparison(self, c: Comparison, unknown_as: NullAs) -> Rex | None:
        straight = ("=", ">=") if c.literal.value is True else ("<>", ">")
        reverse = ("<>", "<") if c.literal.value is True else ("=", "<=")
        if c.op in straight:
            return c.ref
        if c.op in reverse:
            return self.simplify(not_(c.ref), unknown_as)
        if not c.ref.type.nullable:
            return TRUE if c.op in ("<=", ">=") else FALSE
        return None

    def _using_predicates(self, rex: Rex) -> Rex:
        c = Comparison.of(rex)
        if c is None or is_null_literal(c.literal) or not self.predicates:
            return rex
        key = value_key(c.literal.type)
        wanted = RangeSet(key, Range.of(c.op, c.literal.value))
        rest = wanted
        known = RangeSet(key, [ALL])
        for p in self.predicates:
            other = Comparison.of(p)
            if other is not None and equal(other.ref, c.ref) and not is_null_literal(other.literal) and \
                    same_type(other.literal.type, c.literal.type):
                allowed = RangeSet(key, Range.of(other.op, other.literal.value))
                known = known.intersect(allowed)
                rest = rest.intersect(allowed)
        if rest.is_empty:
            return FALSE
        if known == rest and not known.is_all:
            return self.simplify(test("IS NOT NULL", c.ref))
        if rest != wanted and len(rest.ranges) == 1 and rest.ranges[0].is_point:
            return compare("=", c.ref, Literal(c.literal.type, rest.ranges[0].lower))
        return rex

    def _search(self, rex: Rex, unknown_as: NullAs) -> Rex:
        ref, literal = rex.children
        if not isinstance(literal, Literal):
            return rex
        sarg = Sarg.from_json(literal.sarg, literal.type)
        if sarg.is_all or sarg.is_none:
            return self.simplify(sarg_ref(ref, sarg, literal.type, unknown_as), unknown_as)
        if sarg.null_as != "UNKNOWN":
            never = self._is1("IS NULL", ref, unknown_as)
            if never is not None and is_always_false(never):
                sarg = Sarg(sarg.ranges, "UNKNOWN", sarg.key)
                return self._search(search(ref, sarg, literal.type), unknown_as)
        elif sarg.is_points and len(sarg.ranges) <= 1:
            return expand_search(rex)
        return rex

    # others

    def _cast(self, rex: Rex, unknown_as: NullAs) -> Rex:
        operand = rex.children[0]
        simplified = self.simplify(operand)
        if same_type(simplified.type, rex.type) and (rex.type.nullable <= simplified.type.nullable):
            return simplified
        if narrows(simplified.type, rex.type):
            return simplified
        if lossless_cast(simplified):
            inner = simplified.children[0]
            if narrows(inner.type, rex.type):
                return inner
        if isinstance(simplified, Literal):
            folded = fold.cast_literal(simplified, rex.type)
            return folded if isinstance(folded, Literal) else fold.evaluate(folded) or folded
        return rex if simplified is operand else call("CAST", (simplified,), rex.type)

    def _case(self, rex: Rex, unknown_as: NullAs) -> Rex:
        branches: list[Branch] = []
        bare = Simplifier()
        for b in branches_of(rex):
            condition = bare.simplify(b.condition, "FALSE")
            if is_always_false(condition):
                continue
            value = self.simplify(b.value, unknown_as)
            if branches and equal(branches[-1].value, value):
                merged = bare.simplify(call("OR", (branches[-1].condition, condition), BOOLEAN), "FALSE")
                branches[-1] = Branch(merged, value)
            else:
                branches.append(Branch(condition, value))
            if is_always_true(branches[-1].condition):
                break
        if len(branches) == 1:
            return _ensure_type(branches[0].value, rex.type)
        if rex.type.root == "BOOLEAN":
            result = boolean_case(branches, unknown_as, rex.type)
            if result is not None:
                if narrows(result.type, rex.type):
                    return self.simplify(result, unknown_as)
                simplified = self.simplify(result)
                return simplified if not simplified.type.nullable else _ensure_type(simplified, rex.type)
        operands = case_operands(branches)
        return with_operands(rex, operands)

    def _arithmetic(self, rex: Rex, unknown_as: NullAs) -> Rex:
        op = kind(rex)
        rex = self._generic(rex)
        if len(rex.children) != 2 or not all(c.type.is_numeric for c in rex.children):
            return rex
        left, right = rex.children
        neutral = 0 if op in ("+", "-") else 1
        if op in ("+", "*") and _is_number(left, neutral):
            return _ensure_type(right, rex.type) if narrows(right.type, rex.type) else rex
        if _is_number(right, neutral):
            return _ensure_type(left, rex.type) if narrows(left.type, rex.type) else rex
        return rex

    def _like(self, rex: Rex, unknown_as: NullAs) -> Rex:
        if len(rex.children) == 2 and isinstance(rex.children[1], Literal) and rex.children[1].value == "%":
            ref = rex.children[0]
            return self.simplify(call("OR", (Literal(BOOLEAN, None), test("IS NOT NULL", ref)), BOOLEAN), unknown_as)
        return self._generic(rex)


_METHODS: dict[str, Callable[[Simplifier, Rex, NullAs], Rex]] = {
    "AND": Simplifier._and, "OR": Simplifier._or, "NOT": Simplifier._not, "SEARCH": Simplifier._search,
    "CAST": Simplifier._cast, "CASE": Simplifier._case, "LIKE": Simplifier._like,
    **dict.fromkeys(("+", "-", "*", "/"), Simplifier._arithmetic),
    **dict.fromkeys(("IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"), Simplifier._is),
}


def _is_number(rex: Rex, value: int) -> bool:
    return isinstance(rex, Literal) and rex.value is not None and rex.type.is_numeric and float(rex.value) == value


def _ensure_type(rex: Rex, target: LogicalType) -> Rex:
    if rex.type == target:
        return rex
    if isinstance(rex, Literal):
        return fold.cast_literal(rex, target)
    return call("CAST", (rex,), target)


def narrows(new: LogicalType, old: LogicalType) -> bool:
    """Whether ``new`` is ``old``, or ``old`` without NULL."""
    return same_type(new, old) and (old.nullable or not new.nullable)


_INTEGER_ORDER = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def lossless_cast(rex: Rex) -> bool:
    """Whether ``rex`` is a CAST that keeps every value apart."""
    if kind(rex) != "CAST":
        return False
    source, target = rex.children[0].type, rex.type
    if same_type(source, target):
        return True
    if source.root in _INTEGER_ORDER and target.root in _INTEGER_ORDER:
        return _INTEGER_ORDER.index(source.root) <= _INTEGER_ORDER.index(target.root)
    if source.is_string and target.is_string:
        return target.root == "VARCHAR" and (source.length or 1) <= (target.length or 1)
    return False


class _Facts:
    """What the terms of a conjunction say about their operands."""

    def __init__(self) -> None:
        self.equalities: list[tuple[Rex, Rex, Rex]] = []
        self.constants: list[tuple[Rex, Literal]] = []
        self.ranges: list[tuple[Rex, RangeSet, list[Rex]]] = []
        self.negated: list[Rex] = []
        self.nulls: list[Rex] = []
        self.not_nulls: list[Rex] = []
        self.strong: list[Rex] = []

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
        if op in _STRONG or op == "SEARCH":
            if op == "SEARCH":
                self.strong += _search_strong(term)
            else:
                self.strong += strong_operands(term)
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
        """Narrows the range of ``c.ref`` by ``c``, removing terms it makes superfluous; False when nothing is left."""
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


def _search_strong(term: Rex) -> list[Rex]:
    literal = term.children[1]
    strong = isinstance(literal, Literal) and literal.sarg is not None and literal.sarg.get("nullAs") != "TRUE"
    return strong_operands(term.children[0]) if strong else []


def _drop(terms: list[Rex], term: Rex) -> None:
    for i, t in enumerate(terms):
        if t is term:
            del terms[i]
            return


def simplify_filter(predicates: Iterable[Rex]) -> Rex:
    """The conjunction of ``predicates`` as a filter's condition, simplified."""
    result = Simplifier().simplify(and_(predicates), "FALSE")
    if kind(result) == "CAST" and same_type(result.type, result.children[0].type):
        return result.children[0]
    return result


def simplify_preserving_type(rex: Rex, unknown_as: NullAs, predicates: Sequence[Rex] = (),
                             match_nullability: bool = True) -> Rex:
    """``rex`` simplified; cast back where that changed its type (or, if asked, its nullability)."""
    simplified = Simplifier(predicates).simplify(rex, unknown_as)
    if simplified.type == rex.type or (not match_nullability and same_type(simplified.type, rex.type)):
        return simplified
    return call("CAST", (simplified,), rex.type)
