"""Expressions over single values, by plain Python: comparisons, logic and arithmetic of whole numbers.

Conditions of MATCH_RECOGNIZE are asked for each row and each match that has begun; columns of one row would take far
longer. What is not here, or could differ from columns in a last digit, is computed by these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from stateplan.execnodes.rex import Call, InputRef, Literal, Rex
from stateplan.execnodes.types import LogicalType

Scalar = Callable[[Sequence[Any]], Any]
"""The value of an expression, given those of its fields; None for NULL."""


class Inexact(Exception):  # noqa: N818 - it is no error
    """The value must be computed in columns."""


_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTED: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_TESTS: dict[str, Callable[[Any], bool]] = {
    "IS NULL": lambda v: v is None,
    "IS NOT NULL": lambda v: v is not None,
    "IS TRUE": lambda v: v is True,
    "IS NOT TRUE": lambda v: v is not True,
    "IS FALSE": lambda v: v is False,
    "IS NOT FALSE": lambda v: v is not False,
}


def wrapped(value: int, type_: LogicalType) -> int:
    """A whole number as its type holds it."""
    bits = _BITS[type_.root]
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def compiled(rex: Rex, types: Sequence[LogicalType]) -> Scalar | None:
    """What computes ``rex``, whose fields have these types; None where that is for columns."""
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
    return _called(rex, operands)


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


def _called(rex: Call, operands: Sequence[Scalar]) -> Scalar | None:
    name = rex.name
    if name in ("AND", "OR"):
        return _junction(operands, name == "OR")
    if name == "NOT":
        (inner,) = operands
        return lambda values: None if (v := inner(values)) is None else not v
    if name in _TESTS and len(operands) == 1:
        test, tested = _TESTS[name], operands[0]
        return lambda values: test(tested(values))
    if len(operands) != 2:
        return None
    left, right = operands
    a, b = (o.type for o in rex.operands)
    if name in _COMPARED and _comparable(a, b):
        return _binary(_COMPARED[name], left, right)
    if name in _COMPUTED and rex.type.root in _BITS and a.root in _BITS and b.root in _BITS:
        compute, result = _COMPUTED[name], rex.type
        return _binary(lambda x, y: wrapped(compute(x, y), result), left, right)
    return None


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
        unknown = False
        for operand in operands:
            value = operand(values)
            if value is decisive:
                return decisive
            unknown = unknown or value is None
        return None if unknown else not decisive

    return run


def _comparable(a: LogicalType, b: LogicalType) -> bool:
    """Whether Python compares values of these types as columns do."""
    exact = (*_BITS, "DECIMAL")
    if a.root in exact and b.root in exact:
        return True
    if a.is_string and b.is_string:
        return True
    return a.root == b.root and a.root in ("DOUBLE", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP_WITHOUT_TIME_ZONE")


def total(function: str, values: Sequence[Any], result: LogicalType) -> Any:
    """An aggregate of values. Raises Inexact."""
    there = [v for v in values if v is not None]
    if function == "COUNT":
        return len(there)
    if not there:
        return None
    if result.root not in _BITS:
        raise Inexact
    if function == "SUM":
        return wrapped(sum(there), result)
    return max(there) if function == "MAX" else min(there)
