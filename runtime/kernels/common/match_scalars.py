"""Expressions over single values, by plain Python: comparisons, logic, and arithmetic of exact numbers.

Conditions of MATCH_RECOGNIZE are evaluated for each row and each match that has begun; columns of one row would take
far longer. What is not here, or could differ from columns in a last digit, is computed by these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from stateplan.common.types import LogicalType
from stateplan.common.values.nanoseconds import is_fine
from stateplan.functions.rex import Call, InputRef, Literal, Rex

Scalar = Callable[[Sequence[Any]], Any]
"""The value of an expression, given those of its fields; None for NULL."""


class Inexact(Exception):  # noqa: N818 - it is not an error
    """The value must be computed in columns."""


_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_TESTS: dict[str, Callable[[Any], bool]] = {
    "IS NULL": lambda v: v is None,
    "IS NOT NULL": lambda v: v is not None,
    "IS TRUE": lambda v: v is True,
    "IS NOT TRUE": lambda v: v is not True,
    "IS FALSE": lambda v: v is False,
    "IS NOT FALSE": lambda v: v is not False,
}


_WIDE = Context(prec=120, rounding=ROUND_HALF_UP)
"""Holds what DECIMALs are computed from exactly."""
_SORTABLE = ("CHAR", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP_WITHOUT_TIME_ZONE", "DECIMAL", *_BITS)
"""Types whose values Python orders as columns do."""


def wrap(value: int, type_: LogicalType) -> int:
    """A whole number that wraps around in its type, as in Java."""
    bits = _BITS[type_.root]
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def compiled(rex: Rex, types: Sequence[LogicalType]) -> Scalar | None:
    """A function that computes ``rex`` for one row, whose fields have these types; None if only columns can compute
    it."""
    if isinstance(rex, InputRef):
        index = rex.index
        return lambda values: values[index]
    if isinstance(rex, Literal):
        return _constant(rex)
    if not isinstance(rex, Call) or rex.internal_name is None:
        return None
    parts = [compiled(o, types) for o in rex.operands]
    operands = [p for p in parts if p is not None]
    if len(operands) < len(parts):
        return None
    return _call(rex, operands)


def _constant(rex: Literal) -> Scalar | None:
    value = rex.value
    if rex.symbol is not None or rex.sarg is not None:
        return None
    if value is None or isinstance(value, bool):
        return lambda values: value
    if rex.type.root in _BITS and isinstance(value, int):
        return lambda values: value
    if rex.type.is_string and isinstance(value, str):
        return lambda values: value
    if rex.type.root == "DECIMAL":
        number = Decimal(str(value))
        return lambda values: number
    return None


def _call(rex: Call, operands: Sequence[Scalar]) -> Scalar | None:
    name = rex.name
    if name in ("AND", "OR"):
        return _junction(operands, name == "OR")
    if name == "NOT" and len(operands) == 1:
        inner = operands[0]
        return lambda values: None if (v := inner(values)) is None else not v
    if name in _TESTS and len(operands) == 1:
        test, operand = _TESTS[name], operands[0]
        return lambda values: test(operand(values))
    if name == "CAST" and len(operands) == 1:
        return _cast(operands[0], rex.operands[0].type, rex.type)
    if len(operands) != 2:
        return None
    left, right = operands
    a, b = (o.type for o in rex.operands)
    if name in _COMPARISONS and _comparable(a, b):
        return _binary(_COMPARISONS[name], left, right)
    if not _is_exact(a) or not _is_exact(b):
        return None
    if rex.type.root == "DECIMAL":
        decimal = _DECIMALS.get(name)
        return None if decimal is None else _binary(decimal(a.scale or 0, b.scale or 0, rex.type), left, right)
    if name == "/" and rex.type.root in _BITS and "DECIMAL" not in (a.root, b.root):
        return _binary(_quotient, left, right)
    if name in _ARITHMETIC and rex.type.root in _BITS:
        compute, result = _ARITHMETIC[name], rex.type
        return _binary(lambda x, y: wrap(compute(x, y), result), left, right)
    return None


def _is_exact(t: LogicalType) -> bool:
    return t.root in _BITS or t.root == "DECIMAL"


def _quotient(x: int, y: int) -> int:
    """A quotient without its fraction."""
    if y == 0:
        raise Inexact
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _cast(operand: Scalar, source: LogicalType, target: LogicalType) -> Scalar | None:
    if not _is_exact(source) or (source.root == "DECIMAL" and target.root != "DECIMAL"):
        return None
    if target.root == "DECIMAL":
        scale = source.scale or 0
        return lambda values: None if (v := operand(values)) is None else _rescaled(_unscaled(v, scale), scale, target)
    if target.root not in _BITS:
        return None

    def run(values: Sequence[Any]) -> Any:
        value = operand(values)
        if value is not None and wrap(value, target) != value:
            raise Inexact
        return value

    return run


# DECIMAL: computed with whole numbers, as columns are


def _unscaled(value: Any, scale: int) -> int:
    return value if isinstance(value, int) else int(value.scaleb(scale, _WIDE))


def _half_up(m: int, n: int) -> int:
    """A quotient, halves away from zero."""
    quotient = (2 * abs(m) + abs(n)) // (2 * abs(n))
    return quotient if (m < 0) == (n < 0) else -quotient


def _rescaled(m: int, scale: int, result: LogicalType) -> Decimal:
    """The DECIMAL of an unscaled value. Raises Inexact where it has too many digits."""
    grow = (result.scale or 0) - scale
    value = m * 10**grow if grow >= 0 else _half_up(m, 10**-grow)
    if abs(value) >= 10 ** (result.precision or 0):
        raise Inexact
    return Decimal(value).scaleb(-(result.scale or 0), _WIDE)


_Decimals = Callable[[int, int, LogicalType], Callable[[Any, Any], Decimal]]
"""An operator on DECIMALs of two scales."""


def _sums(sign: int) -> _Decimals:
    def of(a: int, b: int, result: LogicalType) -> Callable[[Any, Any], Decimal]:
        scale = max(a, b)
        left, right = 10 ** (scale - a), 10 ** (scale - b)
        return lambda x, y: _rescaled(_unscaled(x, a) * left + sign * _unscaled(y, b) * right, scale, result)

    return of


def _products(a: int, b: int, result: LogicalType) -> Callable[[Any, Any], Decimal]:
    return lambda x, y: _rescaled(_unscaled(x, a) * _unscaled(y, b), a + b, result)


def _quotients(a: int, b: int, result: LogicalType) -> Callable[[Any, Any], Decimal]:
    scale = result.scale or 0
    grow = scale + b - a
    up, down = 10 ** max(grow, 0), 10 ** max(-grow, 0)

    def run(x: Any, y: Any) -> Decimal:
        n = _unscaled(y, b)
        if n == 0:
            raise Inexact
        return _rescaled(_half_up(_unscaled(x, a) * up, n * down), scale, result)

    return run


_DECIMALS: dict[str, _Decimals] = {"+": _sums(1), "-": _sums(-1), "*": _products, "/": _quotients}


def _binary(compute: Callable[[Any, Any], Any], left: Scalar, right: Scalar) -> Scalar:
    def run(values: Sequence[Any]) -> Any:
        x, y = left(values), right(values)
        if x is None or y is None:
            return None
        if x != x or y != y:
            raise Inexact
        return compute(x, y)

    return run


def _junction(operands: Sequence[Scalar], decisive: bool) -> Scalar:
    """AND, or OR: the value that decides is FALSE or TRUE."""

    def run(values: Sequence[Any]) -> Any:
        has_null = False
        for operand in operands:
            value = operand(values)
            if value is decisive:
                return decisive
            has_null = has_null or value is None
        return None if has_null else not decisive

    return run


def _comparable(a: LogicalType, b: LogicalType) -> bool:
    """Whether Python compares values of these types as columns do."""
    exact = (*_BITS, "DECIMAL")
    if a.root in exact and b.root in exact:
        return True
    if a.is_string and b.is_string:
        return True
    is_ordered = a.root in ("DOUBLE", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP_WITHOUT_TIME_ZONE")
    return a.root == b.root and is_ordered and is_fine(a) == is_fine(b)


def total(function: str, values: Sequence[Any], result: LogicalType) -> Any:
    """An aggregate of values. Raises Inexact."""
    present = [v for v in values if v is not None]
    if function == "COUNT":
        return len(present)
    if function in ("FIRST_VALUE", "LAST_VALUE"):
        return present[0 if function == "FIRST_VALUE" else -1] if present else None
    if function not in ("SUM", "MIN", "MAX"):
        raise Inexact
    if not present:
        return None
    if function != "SUM":
        if result.root not in _SORTABLE:
            raise Inexact
        return max(present) if function == "MAX" else min(present)
    if result.root in _BITS:
        return wrap(sum(present), result)
    if result.root != "DECIMAL":
        raise Inexact
    scale = result.scale or 0
    return _rescaled(sum(_unscaled(v, scale) for v in present), scale, result)
