"""Which values conditions of a query leave for columns of a state table.

The query applies every condition itself. So what is not understood here restricts nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import polars as pl

from stateplan.common.errors import StateplanError
from stateplan.common.types import LogicalType
from stateplan.functions.program import evaluate
from stateplan.functions.rex import Call, InputRef, Literal, Rex

MOST_VALUES = 1000
"""Values of a column of which conditions may leave one."""

_Choice: TypeAlias = tuple[int, tuple[Any, ...]]
"""The number of a field, and the values of which it has one."""

_SAME_ROOT = frozenset({"DATE", "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "BOOLEAN"})
_TEXTS = ("CHAR", "VARCHAR")


def is_choice(condition: Rex) -> bool:
    """Whether a condition leaves some values of one column: ``=`` with a constant, ``IN``, or ``IS NULL``."""
    return _choice(condition) is not None


def values_by_field(conditions: Sequence[Rex]) -> Mapping[int, tuple[Any, ...]]:
    """The values that are left of each field that conditions restrict, by its number."""
    out: dict[int, tuple[Any, ...]] = {}
    for condition in conditions:
        choice = _choice(condition)
        if choice is None or len(choice[1]) > MOST_VALUES:
            continue
        field, values = choice
        out[field] = tuple(v for v in out[field] if v in values) if field in out else values
    return out


def _choice(condition: Rex) -> _Choice | None:
    if not isinstance(condition, Call):
        return None
    if condition.name == "OR":
        choices = [_choice(operand) for operand in condition.operands]
        fields = {None if choice is None else choice[0] for choice in choices}
        if len(fields) != 1 or None in fields:
            return None
        values = [value for choice in choices if choice is not None for value in choice[1]]
        return choices[0][0] if choices[0] else 0, tuple(dict.fromkeys(values))
    if condition.name == "IS NULL" and isinstance(condition.operands[0], InputRef):
        return condition.operands[0].index, (None,)
    if condition.name != "=" or len(condition.operands) != 2:
        return None
    left, right = map(_uncast, condition.operands)
    field, constant = (left, right) if isinstance(left, InputRef) else (right, left)
    if not isinstance(field, InputRef) or not isinstance(constant, Literal) or constant.value is None:
        return None
    return _equal_value(field, constant)


def _uncast(rex: Rex) -> Rex:
    """A field that is only cast to a type of larger whole numbers, without the cast."""
    if isinstance(rex, Call) and rex.name == "CAST" and isinstance(rex.operands[0], InputRef):
        field = rex.operands[0]
        if field.type.is_integer and rex.type.is_integer and not rex.type.is_narrower(field.type):
            return field
    return rex


def _equal_value(field: InputRef, constant: Literal) -> _Choice | None:
    """The value of the field's type that equals a constant; None if there is no such value, or it is not known."""
    with contextlib.suppress(StateplanError, pl.exceptions.PolarsError, OverflowError, TypeError, ValueError):
        if _comparable(field.type, constant.type):
            value = _value(constant)
            own_value = pl.Series([value]).cast(field.type.polars(), strict=True).item()
            if own_value == value or (isinstance(own_value, Decimal) and own_value == Decimal(value)):
                return field.index, (own_value,)
    return None


def _value(constant: Literal) -> Any:
    """The value of a constant; without a program for what a long IN mostly consists of."""
    if constant.type.is_integer:
        return int(constant.value)
    return str(constant.value) if constant.type.root in _TEXTS else evaluate(constant)


def _comparable(field: LogicalType, constant: LogicalType) -> bool:
    """Whether equality of values of the types is that of their values in memory."""
    if field.is_integer:
        return constant.is_integer
    if field.root == "DECIMAL":
        return constant.root == "DECIMAL" or constant.is_integer
    if field.root == "VARCHAR":
        return constant.root in _TEXTS
    return field.root in _SAME_ROOT and constant.root == field.root
