"""Simplifying row expressions: the forms Flink's plans have.

Source: Calcite's ``RexSimplify``. ``unknown_as`` says what NULL may be taken for: ``FALSE`` in a filter, ``UNKNOWN``
where the three values matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import ClassVar

from stateplan.common.types import BOOLEAN, LogicalType
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.typerules import same_type
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.cases import Branch, boolean_case, branches_of, case_operands
from stateplan.planner.expressions.comparison import (
    STRONG,
    Comparison,
    always_null,
    is_not_true,
    is_null_with,
    is_safe,
    null_test,
)
from stateplan.planner.expressions.conjunction import Facts
from stateplan.planner.expressions.known_ranges import KnownRanges, ranges_of
from stateplan.planner.expressions.normal import equal, member
from stateplan.planner.expressions.ops import (
    COMPARISONS,
    FALSE,
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
    test,
    unwrap_cast,
    with_operands,
)
from stateplan.planner.expressions.sarg import NullAs, Sarg, value_key
from stateplan.planner.expressions.search import SargCollector, expand_search, sarg_ref, search


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
    """Simplifies under ``predicates``, which are known to hold for every row.

    Casts of constants that depend on the session's time zone are left where ``time_zone`` is not given. Without
    ``across``, terms of a conjunction or disjunction are simplified by themselves, and keep their order (Calcite's
    ``predicateElimination``).
    """

    def __init__(self, predicates: Sequence[Rex] = (), time_zone: str | None = None, *, across: bool = True) -> None:
        self.predicates = tuple(predicates)
        self.time_zone = time_zone
        self.across = across

    def _knowing(self, *more: Rex) -> Simplifier:
        out = Simplifier((*self.predicates, *more), self.time_zone, across=self.across)
        out._known_ranges = self._known_ranges.also(more)
        return out

    @cached_property
    def _known_ranges(self) -> KnownRanges:
        return KnownRanges(self.predicates)

    def simplify(self, rex: Rex, unknown_as: NullAs = "UNKNOWN") -> Rex:
        op = kind(rex)
        if not isinstance(rex, Call) and not (is_null_literal(rex) and rex.type.root == "BOOLEAN"):
            return rex
        if always_null(rex):
            if rex.type.root == "BOOLEAN" and unknown_as != "UNKNOWN":
                return FALSE if unknown_as == "FALSE" else TRUE
            return Literal(rex.type.as_nullable(), None)
        if op in COMPARISONS:
            return self._comparison(rex, unknown_as)
        method = self._METHODS.get(op)
        if method is not None:
            return method(self, rex, unknown_as)
        return self._generic(rex)

    def _generic(self, rex: Rex) -> Rex:
        return with_operands(rex, [self.simplify(c) for c in rex.children])

    # boolean structure

    def _and(self, rex: Rex, unknown_as: NullAs) -> Rex:
        operands = conjunctions(rex) if not is_always_true(rex) else [rex]
        operands = [_ordinary_equality(o) for o in operands] if unknown_as == "FALSE" else operands
        operands = (
            self._and_terms(operands, unknown_as)
            if unknown_as == "FALSE" and self.across
            else [self.simplify(o, unknown_as) for o in operands]
        )
        collector = SargCollector(negate=True)
        for o in operands:
            collector.accept(o)
        if collector.need_to_fix():
            operands = collector.terms_for(unknown_as)
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
            if Comparison.of(term) is None and null_test(term) is None:
                later.append(i)
                continue
            out[i] = simplifier.simplify(term, unknown_as)
            simplifier = simplifier._knowing(*conjunctions(out[i]))
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
        facts = Facts()
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
        if not facts.settle_equalities(terms):
            return FALSE
        if any(is_deterministic(n) and all(member(c, terms) for c in conjunctions(n)) for n in negated):
            return FALSE
        if any(member(n, terms) for n in facts.negated):
            return FALSE
        terms += [self.simplify(not_(n)) for n in negated]
        certain = [t for t in terms if is_deterministic(t)]
        if any(_excludes_null(t, n) for n in facts.nulls for t in certain):
            return FALSE
        implied_not_nulls = [n for n in facts.not_nulls if any(_excludes_null(t, n) for t in certain)]
        return and_([*terms, *(test("IS NOT NULL", n) for n in facts.not_nulls if n not in implied_not_nulls)])

    def _or(self, rex: Rex, unknown_as: NullAs) -> Rex:
        terms = disjunctions(rex) if not is_always_false(rex) else [rex]
        if not self.across:
            return self._ors([self.simplify(t, unknown_as) for t in terms], unknown_as)
        terms.sort(key=lambda t: kind(t) != "IS NULL")
        out = list(terms)
        simplifier = self
        later: list[int] = []
        for i, term in enumerate(terms):
            comparison = Comparison.of(term)
            if (comparison is None or comparison.ref.type.nullable) and null_test(term) is None:
                later.append(i)
                continue
            out[i] = simplifier.simplify(term, unknown_as)
            inverse = simplifier.simplify(test("IS NOT TRUE", out[i]))
            simplifier = simplifier._knowing(*conjunctions(inverse))
        for i in later:
            out[i] = simplifier.simplify(terms[i], unknown_as)
        return self._ors(out, unknown_as)

    def _ors(self, terms: list[Rex], unknown_as: NullAs) -> Rex:
        collector = SargCollector(negate=False)
        for t in terms:
            collector.accept(t)
        if collector.need_to_fix():
            terms = collector.terms_for(unknown_as)
        out: list[Rex] = []
        unequal: list[tuple[Rex, Literal, int]] = []
        for term in list(terms):
            op = kind(term)
            if is_null_literal(term):
                if unknown_as == "FALSE":
                    continue
                if unknown_as == "TRUE":
                    return TRUE
            elif is_always_true(term) or (
                op == "IS NOT TRUE" and is_safe(term.children[0]) and member(term.children[0], terms)
            ):
                return TRUE
            elif op == "NOT" and is_safe(term.children[0]) and member(term.children[0], terms):
                return self._or_of_opposites(terms, term, unknown_as)
            elif op == "<>":
                c = Comparison.of(term)
                first = None if c is None else next((u for u in unequal if equal(u[0], c.ref)), None)
                if c is not None and first is None:
                    unequal.append((c.ref, c.literal, len(out)))
                elif c is not None and first is not None:
                    if first[1].value not in (None, c.literal.value) and c.literal.value is not None:
                        null_or_not_null = call("OR", (test("IS NOT NULL", c.ref), Literal(BOOLEAN, None)), BOOLEAN)
                        out[first[2]] = self.simplify(null_or_not_null, unknown_as)
                        if is_always_true(out[first[2]]):
                            return TRUE
                    continue
            out.append(term)
        return or_(out)

    def _or_of_opposites(self, terms: list[Rex], negated: Rex, unknown_as: NullAs) -> Rex:
        """``x OR NOT x`` among ``terms``: TRUE unless x is NULL."""
        x = negated.children[0]
        if not x.type.nullable:
            return TRUE
        not_null = self._is(test("IS NOT NULL", x), unknown_as)
        new_terms = [not_null if equal(t, x) else Literal(BOOLEAN, None) if t is negated else t for t in terms]
        return self._ors(new_terms, unknown_as)

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
        flipped: dict[NullAs, NullAs] = {"TRUE": "FALSE", "FALSE": "TRUE", "UNKNOWN": "UNKNOWN"}
        simplified = self.simplify(inner, flipped[unknown_as])
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
                null_test_result = null_test(p)
                if null_test_result is not None and null_test_result[0] == op and equal(null_test_result[1], a):
                    return TRUE
        return self._is2(op, a, unknown_as)

    def _is2(self, op: str, a: Rex, unknown_as: NullAs) -> Rex | None:
        if kind(a) in COMPARISONS and not any(o.type.nullable for o in a.children):
            a = compare(kind(a), *a.children)  # its type may date from before an outer join became an inner one
        if op in ("IS NULL", "IS NOT NULL"):
            result = self._is_null(a) if op == "IS NULL" else self._is_not_null(a)
            if result is not None:
                return result
        elif self._known_not_null(a):
            return self.simplify(a if op in ("IS TRUE", "IS NOT FALSE") else not_(a), unknown_as)
        elif op in ("IS TRUE", "IS NOT FALSE"):
            simplified = self.simplify(a, "FALSE" if op == "IS TRUE" else "TRUE")
            return None if simplified == a else test(op, simplified)
        if kind(a) == "NOT":
            flipped = {
                "IS TRUE": "IS FALSE",
                "IS FALSE": "IS TRUE",
                "IS NOT TRUE": "IS NOT FALSE",
                "IS NOT FALSE": "IS NOT TRUE",
            }.get(op, op)
            return self.simplify(test(flipped, a.children[0]))
        simplified = self.simplify(a)
        return None if simplified == a else test(op, simplified)

    def _known_not_null(self, a: Rex) -> bool:
        """Whether ``a`` is never NULL (Calcite's ``RelOptPredicateList.isEffectivelyNotNull``)."""
        if not a.type.nullable:
            return True
        if any(t is not None and t[0] == "IS NOT NULL" and equal(t[1], a) for t in map(null_test, self.predicates)):
            return True
        return kind(a) in COMPARISONS and all(map(self._known_not_null, a.children))

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
        if kind(a) in STRONG - {"CAST", "/", "ITEM"} and isinstance(a, Call):
            return and_(self._is_not_null(c) or test("IS NOT NULL", c) for c in a.children)
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
        if any(equal(p, a) for p in self.predicates):
            return FALSE
        if kind(a) in STRONG - {"CAST", "/", "ITEM"} and isinstance(a, Call):
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
        comparison = compare(op, left, right)
        if left.type.root == "BOOLEAN":
            c = Comparison.of(comparison)
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
        return self._using_predicates(rex if with_operands(rex, (left, right)) == rex else comparison)

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
        own_ranges = ranges_of(c)
        gaps = self._known_ranges.gaps(c)
        implied_ranges = gaps.complement()
        gaps.include(own_ranges.complement())
        rest = gaps.complement()
        if rest.is_empty:
            return FALSE
        if implied_ranges == rest and not implied_ranges.is_all:
            return self.simplify(test("IS NOT NULL", c.ref))
        if rest != own_ranges and len(rest.ranges) == 1 and rest.ranges[0].is_point:
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
        if narrows(simplified.type, rex.type):
            return simplified
        if lossless_cast(simplified) and simplified.type.kind is None and _is_replaceable(simplified, rex.type):
            inner = simplified.children[0]
            return inner if narrows(inner.type, rex.type) else call("CAST", (inner,), rex.type)
        if isinstance(simplified, Literal):
            constant = fold.cast_literal(simplified, rex.type)
            if self.time_zone is None and fold.is_zoned(simplified.type, rex.type):
                return constant
            return fold.evaluate(constant, self.time_zone or "UTC") or constant
        return rex if simplified is operand else call("CAST", (simplified,), rex.type)

    def _case(self, rex: Rex, unknown_as: NullAs) -> Rex:
        branches: list[Branch] = []
        bare = Simplifier((), self.time_zone, across=self.across)
        for b in branches_of(rex):
            condition = bare.simplify(b.condition, "FALSE")
            if is_always_false(condition):
                continue
            is_older = not rex.type.nullable and _has_older_type(b.value)
            value = b.value.children[0] if is_older else self.simplify(b.value, unknown_as)
            if branches and equal(branches[-1].value, value):
                merged_condition = bare.simplify(call("OR", (branches[-1].condition, condition), BOOLEAN), "FALSE")
                branches[-1] = Branch(merged_condition, value)
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
        if len(operands) == len(rex.children) and all(map(equal, operands, rex.children)):
            return rex
        return with_operands(rex, operands)

    def _arithmetic(self, rex: Rex, unknown_as: NullAs) -> Rex:
        op = kind(rex)
        rex = self._generic(rex)
        if len(rex.children) != 2 or not all(c.type.is_numeric for c in rex.children):
            return rex
        left, right = rex.children
        neutral = 0 if op in ("+", "-") else 1
        if op in ("+", "*") and _is_number(left, neutral):
            return _ensure_type(right, rex.type)
        return _ensure_type(left, rex.type) if _is_number(right, neutral) else rex

    def _not_distinct(self, rex: Rex, unknown_as: NullAs) -> Rex:
        rex = self._generic(rex)
        left, right = rex.children
        if equal(left, right) and is_deterministic(left):
            return TRUE
        return rex

    def _like(self, rex: Rex, unknown_as: NullAs) -> Rex:
        if len(rex.children) == 2 and isinstance(rex.children[1], Literal) and rex.children[1].value == "%":
            ref = rex.children[0]
            return self.simplify(call("OR", (Literal(BOOLEAN, None), test("IS NOT NULL", ref)), BOOLEAN), unknown_as)
        return self._generic(rex)

    _METHODS: ClassVar[dict[str, Callable[[Simplifier, Rex, NullAs], Rex]]] = {
        "AND": _and,
        "OR": _or,
        "NOT": _not,
        "SEARCH": _search,
        "CAST": _cast,
        "CASE": _case,
        "LIKE": _like,
        "IS NOT DISTINCT FROM": _not_distinct,
        **dict.fromkeys(("+", "-", "*", "/"), _arithmetic),
        **dict.fromkeys(("IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"), _is),
    }


def _is_number(rex: Rex, value: int) -> bool:
    return isinstance(rex, Literal) and rex.value is not None and rex.type.is_numeric and float(rex.value) == value


def _ensure_type(rex: Rex, target: LogicalType) -> Rex:
    if rex.type == target:
        return rex
    if isinstance(rex, Literal):
        return fold.cast_literal(rex, target)
    return call("CAST", (rex,), target)


def _has_older_type(rex: Rex) -> bool:
    """Whether it is the test of a comparison that is never NULL, while its type says that it may be: it was moved into
    this branch from a CASE with other branches."""
    if kind(rex) != "IS TRUE" or kind(rex.children[0]) not in COMPARISONS:
        return False
    comparison = rex.children[0]
    return comparison.type.nullable and not any(o.type.nullable for o in comparison.children)


def _excludes_null(term: Rex, ref: Rex) -> bool:
    """Whether ``term`` is not TRUE for any row where ``ref`` is NULL."""
    return is_not_true(term, lambda e: is_null_with(e, ref))


def narrows(new: LogicalType, old: LogicalType) -> bool:
    """Whether ``new`` is ``old``, or ``old`` without NULL."""
    return same_type(new, old) and (old.nullable or not new.nullable)


_INTEGER_ORDER = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def _ordinary_equality(rex: Rex) -> Rex:
    """IS NOT DISTINCT FROM of what is never NULL as ``=``. Flink writes it as an OR, which it simplifies in an AND.
    Alone, it is the key of a join before that."""
    if kind(rex) != "IS NOT DISTINCT FROM" or all(o.type.nullable for o in rex.children):
        return rex
    return compare("=", *rex.children)


_CHARACTERS = {"TINYINT": 4, "SMALLINT": 6, "INTEGER": 11, "BIGINT": 20, "FLOAT": 15, "DOUBLE": 24}
"""Characters of the longest text of a number."""


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
        return target.root in ("VARCHAR", source.root) and (source.length or 1) <= (target.length or 1)
    if source.is_numeric and target.is_string:
        decimal = (source.precision or 0) + 1 + (source.scale + 1 if source.scale else 0)
        return _CHARACTERS.get(source.root, decimal) <= (target.length or 1)
    return False


def _is_replaceable(cast: Rex, target: LogicalType) -> bool:
    """Whether a CAST to ``target`` may skip the lossless ``cast``. CHAR pads values, and another type may read the
    text of a number otherwise than the number: Flink goes on with a CAST of numbers to timestamps, and then fails."""
    source = cast.children[0].type
    if source.root == "CHAR" and narrows(source, target):
        return True
    if cast.type.root == "CHAR" and target.root != "CHAR":
        return False
    return not (source.is_numeric and cast.type.is_string) or target.is_numeric or target.is_string


def simplify_filter(predicates: Iterable[Rex]) -> Rex:
    """The conjunction of ``predicates`` as a filter's condition, simplified as by
    ``RexSimplify.simplifyFilterPredicates``."""
    result = Simplifier(across=False).simplify(and_(predicates), "FALSE")
    if kind(result) == "CAST" and same_type(result.type, result.children[0].type):
        return result.children[0]
    return result


def simplify_preserving_type(
    rex: Rex, unknown_as: NullAs, predicates: Sequence[Rex] = (), time_zone: str | None = None
) -> Rex:
    """``rex`` simplified; cast back where that changed its type."""
    simplified = Simplifier(predicates, time_zone).simplify(rex, unknown_as)
    return simplified if simplified.type == rex.type else call("CAST", (simplified,), rex.type)
