"""Rows of the function table: comparison, three-valued logic, pattern predicates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import BOOLEAN, LogicalType
from stateplan.functions.coercion import equal_operands, ordered_operands
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.table import Rewrite, ScalarFunction, always, register
from stateplan.functions.typerules import is_ordered

_NOT_NULL = BOOLEAN.not_null()


def check_ordered(t: LogicalType, place: Place | None) -> None:
    """Raises SqlError SQL203, for a type whose values have no order."""
    if not is_ordered(t):
        raise SqlError("SQL203.no_order", type=t, place=place)


def _binary(name: str, a: Rex, b: Rex) -> Call:
    return Call(BOOLEAN.as_nullable(_may_be_null(a.type) or _may_be_null(b.type)), (a, b), f"${name}$1", "BINARY")


def _may_be_null(t: LogicalType) -> bool:
    """Whether a value, or a field of a ROW, may be NULL (``SqlTypeUtil.containsNullable``)."""
    return t.nullable or (t.root == "ROW" and any(_may_be_null(f.type) for f in t.fields))


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


def _all_of(name: str) -> Rewrite:
    return lambda operands, place: _junction(name, operands)


def _compare(name: str) -> Rewrite:
    coerce = equal_operands if name in ("=", "<>") else ordered_operands

    def rewrite(operands: Sequence[Rex], place: Place | None) -> Rex:
        sides = coerce(operands)
        if sides is None:
            a, b = (o.type.summary() for o in operands)
            raise SqlError("SQL203.incomparable", name=name, left=a, right=b, place=place)
        return _binary(name, *sides)

    return rewrite


def _between(operands: Sequence[Rex], place: Place | None) -> Rex:
    value, low, high = operands
    return _junction("AND", [_compare(">=")((value, low), place), _compare("<=")((value, high), place)])


def _between_symmetric(operands: Sequence[Rex], place: Place | None) -> Rex:
    value, low, high = operands
    return _junction("OR", [_between((value, low, high), place), _between((value, high, low), place)])


def _negated(inner: Rewrite) -> Rewrite:
    return lambda operands, place: _not(inner(operands, place))


def _is_untyped_null(rex: Rex) -> bool:
    return isinstance(rex, Literal) and rex.type.root == "NULL"


def _distinct(operands: Sequence[Rex], place: Place | None, *, negated: bool) -> Rex:
    a, b = operands
    if _is_untyped_null(a):
        a, b = b, a
    if _is_untyped_null(b):
        return _postfix("IS NULL" if negated else "IS NOT NULL", a)
    if equal_operands(operands) is None:
        raise SqlError("SQL203.incomparable", left=a.type, right=b.type, name="IS DISTINCT FROM", place=place)
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


_PREDICATE = always(BOOLEAN)
_CERTAIN = always(_NOT_NULL, False)
_PAIR, _RANGE, _TEXTS, _TWO = ("ANY",) * 2, ("ANY",) * 3, ("CHARACTER",) * 3, ("BOOLEAN",) * 2

register(
    [
        *(
            ScalarFunction(name, _PAIR, _PREDICATE, syntax="BINARY", rewrite=_compare(name), nulls=True)
            for name in ("=", "<>", "<", ">", "<=", ">=")
        ),
        *(
            ScalarFunction(name, _TWO, _PREDICATE, optional=1, variadic=True, syntax="BINARY", rewrite=_all_of(name))
            for name in ("AND", "OR")
        ),
        ScalarFunction("NOT", ("BOOLEAN",), _PREDICATE, syntax="PREFIX"),
        ScalarFunction("IS NULL", ("ANY",), _CERTAIN, syntax="POSTFIX", nulls=True),
        ScalarFunction("IS NOT NULL", ("ANY",), _CERTAIN, syntax="POSTFIX", nulls=True),
        *(
            ScalarFunction(f"IS {n}UNKNOWN", ("BOOLEAN",), _CERTAIN, syntax="POSTFIX", plan=f"IS {n}NULL", nulls=True)
            for n in ("", "NOT ")
        ),
        *(
            ScalarFunction(f"IS {n}{v}", ("BOOLEAN",), _CERTAIN, syntax="POSTFIX")
            for n in ("", "NOT ")
            for v in ("TRUE", "FALSE")
        ),
        ScalarFunction("IS DISTINCT FROM", _PAIR, _CERTAIN, nulls=True, rewrite=partial(_distinct, negated=False)),
        ScalarFunction("IS NOT DISTINCT FROM", _PAIR, _CERTAIN, nulls=True, rewrite=partial(_distinct, negated=True)),
        *(
            row
            for name, rewrite in (("BETWEEN", _between), ("BETWEEN SYMMETRIC", _between_symmetric))
            for row in (
                ScalarFunction(name, _RANGE, _PREDICATE, rewrite=rewrite),
                ScalarFunction(f"NOT {name}", _RANGE, _PREDICATE, rewrite=_negated(rewrite)),
            )
        ),
        *(
            row
            for name in ("LIKE", "SIMILAR TO")
            for row in (
                ScalarFunction(name, _TEXTS, _PREDICATE, optional=1, syntax="SPECIAL"),
                ScalarFunction(f"NOT {name}", _TEXTS, _PREDICATE, optional=1, rewrite=_not_like(name)),
            )
        ),
    ]
)
