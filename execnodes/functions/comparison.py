"""Rows of the function table: comparison, three-valued logic, pattern predicates."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.errors import Place, SqlError
from stateplan.execnodes.functions.coercion import equal_operands, ordered_operands
from stateplan.execnodes.functions.table import Rewrite, ScalarFunction, fixed, register
from stateplan.execnodes.rex import Call, Literal, Rex
from stateplan.execnodes.types import BOOLEAN

_MIRROR = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_NOT_NULL = BOOLEAN.not_null()


def _binary(name: str, a: Rex, b: Rex) -> Call:
    return Call(BOOLEAN.as_nullable(a.type.nullable or b.type.nullable), (a, b), f"${name}$1", "BINARY")


def _postfix(name: str, a: Rex) -> Call:
    return Call(_NOT_NULL, (a,), f"${name}$1", "POSTFIX")


def _not(a: Rex) -> Call:
    return Call(BOOLEAN.as_nullable(a.type.nullable), (a,), "$NOT$1", "PREFIX")


def _junction(name: str, operands: Sequence[Rex]) -> Rex:
    flat: list[Rex] = []
    for operand in operands:
        if isinstance(operand, Call) and operand.internal_name == f"${name}$1":
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    if len(flat) == 1:
        return flat[0]
    return Call(BOOLEAN.as_nullable(any(o.type.nullable for o in flat)), tuple(flat), f"${name}$1", "BINARY")


def _compare(name: str) -> Rewrite:
    coerce = equal_operands if name in ("=", "<>") else ordered_operands

    def rewrite(operands: Sequence[Rex], place: Place | None) -> Rex:
        sides = coerce(operands)
        if sides is None:
            a, b = (o.type.summary() for o in operands)
            raise SqlError("SQL203.rewrite", name=name, a=a, b=b, place=place)
        return _binary(name, *sides)

    return rewrite


def _between(operands: Sequence[Rex], place: Place | None) -> Rex:
    value, low, high = operands
    return _junction("AND", [_compare(">=")((value, low), place), _compare("<=")((value, high), place)])


def _between_symmetric(operands: Sequence[Rex], place: Place | None) -> Rex:
    value, low, high = operands
    return _junction("OR", [_between((value, low, high), place), _between((value, high, low), place)])


def _negated(inner: Rewrite) -> Rewrite:
    def rewrite(operands: Sequence[Rex], place: Place | None) -> Rex:
        return _not(inner(operands, place))

    return rewrite


def _is_untyped_null(rex: Rex) -> bool:
    return isinstance(rex, Literal) and rex.type.root == "NULL"


def _distinct(operands: Sequence[Rex], place: Place | None, *, negated: bool) -> Rex:
    a, b = operands
    if _is_untyped_null(a):
        a, b = b, a
    if _is_untyped_null(b):
        return _postfix("IS NULL" if negated else "IS NOT NULL", a)
    if equal_operands(operands) is None:
        raise SqlError("SQL203.distinct", type=a.type.summary(), type_2=b.type.summary(), place=place)
    equal = _binary("=", a, b)
    nullable = [x for x in (a, b) if x.type.nullable]
    if negated:
        same = _postfix("IS TRUE", equal) if nullable else equal
        if len(nullable) < 2:
            return same
        return _junction("OR", [_junction("AND", [_postfix("IS NULL", a), _postfix("IS NULL", b)]), same])
    if not nullable:
        return _binary("<>", a, b)
    differ = _postfix("IS NOT TRUE", equal)
    if len(nullable) < 2:
        return differ
    return _junction("AND", [_junction("OR", [_postfix("IS NOT NULL", a), _postfix("IS NOT NULL", b)]), differ])


def _not_like(name: str) -> Rewrite:
    def rewrite(operands: Sequence[Rex], place: Place | None) -> Rex:
        t = BOOLEAN.as_nullable(any(o.type.nullable for o in operands))
        return _not(Call(t, tuple(operands), f"${name}$1", "SPECIAL"))

    return rewrite


_PREDICATE = fixed(BOOLEAN)
_CERTAIN = fixed(_NOT_NULL, False)

register(
    [
        *(
            ScalarFunction(name, ("ANY", "ANY"), _PREDICATE, syntax="BINARY", rewrite=_compare(name), nulls=True)
            for name in _MIRROR
        ),
        ScalarFunction(
            "AND",
            ("BOOLEAN", "BOOLEAN"),
            _PREDICATE,
            optional=1,
            variadic=True,
            syntax="BINARY",
            rewrite=lambda operands, place: _junction("AND", operands),
        ),
        ScalarFunction(
            "OR",
            ("BOOLEAN", "BOOLEAN"),
            _PREDICATE,
            optional=1,
            variadic=True,
            syntax="BINARY",
            rewrite=lambda operands, place: _junction("OR", operands),
        ),
        ScalarFunction("NOT", ("BOOLEAN",), _PREDICATE, syntax="PREFIX"),
        ScalarFunction("IS NULL", ("ANY",), _CERTAIN, syntax="POSTFIX", nulls=True, aliases=("IS UNKNOWN",)),
        ScalarFunction("IS NOT NULL", ("ANY",), _CERTAIN, syntax="POSTFIX", nulls=True, aliases=("IS NOT UNKNOWN",)),
        *(
            ScalarFunction(f"IS {n}{v}", ("BOOLEAN",), _CERTAIN, syntax="POSTFIX")
            for n in ("", "NOT ")
            for v in ("TRUE", "FALSE")
        ),
        ScalarFunction(
            "IS DISTINCT FROM",
            ("ANY", "ANY"),
            _CERTAIN,
            nulls=True,
            rewrite=lambda operands, place: _distinct(operands, place, negated=False),
        ),
        ScalarFunction(
            "IS NOT DISTINCT FROM",
            ("ANY", "ANY"),
            _CERTAIN,
            nulls=True,
            rewrite=lambda operands, place: _distinct(operands, place, negated=True),
        ),
        ScalarFunction("BETWEEN", ("ANY", "ANY", "ANY"), _PREDICATE, rewrite=_between),
        ScalarFunction("NOT BETWEEN", ("ANY", "ANY", "ANY"), _PREDICATE, rewrite=_negated(_between)),
        ScalarFunction("BETWEEN SYMMETRIC", ("ANY", "ANY", "ANY"), _PREDICATE, rewrite=_between_symmetric),
        ScalarFunction(
            "NOT BETWEEN SYMMETRIC", ("ANY", "ANY", "ANY"), _PREDICATE, rewrite=_negated(_between_symmetric)
        ),
        ScalarFunction("LIKE", ("CHARACTER", "CHARACTER", "CHARACTER"), _PREDICATE, optional=1, syntax="SPECIAL"),
        ScalarFunction(
            "NOT LIKE", ("CHARACTER", "CHARACTER", "CHARACTER"), _PREDICATE, optional=1, rewrite=_not_like("LIKE")
        ),
        ScalarFunction("SIMILAR TO", ("CHARACTER", "CHARACTER", "CHARACTER"), _PREDICATE, optional=1, syntax="SPECIAL"),
        ScalarFunction(
            "NOT SIMILAR TO",
            ("CHARACTER", "CHARACTER", "CHARACTER"),
            _PREDICATE,
            optional=1,
            rewrite=_not_like("SIMILAR TO"),
        ),
    ]
)
