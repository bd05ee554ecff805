"""Comparisons of columns with constants in the conditions of a query, for connectors that omit files by what a log says
of them. What is not understood here says nothing."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, NamedTuple

from stateplan.common.types import LogicalType
from stateplan.functions.rex import Call, InputRef, Literal, Rex

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
_TEXT = frozenset({"CHAR", "VARCHAR"})


class Comparison(NamedTuple):
    """A column and a constant.

    Attributes:
        column: the position of the column.
        operator: ``=``, ``<``, ``<=``, ``>`` or ``>=``, with the column on the left.
        literal: the constant.
    """

    column: int
    operator: str
    literal: Literal


def comparison_of(condition: Rex) -> Comparison | None:
    """The comparison that a condition is; None for another one."""
    if not isinstance(condition, Call) or condition.name not in _MIRRORED or len(condition.operands) != 2:
        return None
    left, right = condition.operands
    if isinstance(left, InputRef) and isinstance(right, Literal):
        return Comparison(left.index, condition.name, right)
    if isinstance(right, InputRef) and isinstance(left, Literal):
        return Comparison(right.index, _MIRRORED[condition.name], left)
    return None


def constant_of(literal: Literal, data_type: LogicalType) -> Any:
    """The value of a literal to compare values of a column with; None if it is of another kind."""
    root, value = literal.type.root, literal.value
    if data_type.root in _INTEGERS and root in _INTEGERS:
        return value_of(value, data_type)
    if (data_type.root in _TEXT and root in _TEXT) or data_type.root == root == "DATE":
        return value_of(value, data_type)
    return value_of(value, data_type) if data_type.root == root == "TIMESTAMP_WITHOUT_TIME_ZONE" else None


def value_of(value: Any, data_type: LogicalType) -> Any:
    """A value of a plan or of statistics, typed or as text; None if it is not understood."""
    try:
        if data_type.root in _INTEGERS:
            return None if value is None or isinstance(value, bool) else int(value)
        if data_type.root in _TEXT:
            return value if isinstance(value, str) else None
        if isinstance(value, datetime):
            return value.replace(tzinfo=None)
        if data_type.root == "DATE":
            return value if isinstance(value, date) else date.fromisoformat(value)
        if data_type.root == "TIMESTAMP_WITHOUT_TIME_ZONE":
            return datetime.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None
    return None
