"""Files that no row of a query comes from, by the partition and the statistics that the log has of them.

The runtime applies every condition to the rows. So a file may be read in vain, and must never be omitted in vain: what
is not understood here says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias

from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import Fields
from stateplan.functions.rex import Call, InputRef, Literal, Rex

Bounds: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Column to its least and its greatest value in a file; None for one that is not known."""

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
_TEXT = frozenset({"CHAR", "VARCHAR"})
_MILLISECOND = timedelta(milliseconds=1)
"""Spark cuts the times in its statistics to milliseconds, the greatest one too."""


def may_match(conditions: Sequence[Rex], fields: Fields, bounds: Bounds) -> bool:
    """Whether a file may have a row for which all conditions hold.

    Args:
        conditions: over ``fields``.
        fields: name and type of the declared columns.
        bounds: the bounds of the file.
    """
    return all(_may(condition, fields, bounds) for condition in conditions)


def _may(condition: Rex, fields: Fields, bounds: Bounds) -> bool:
    if not isinstance(condition, Call):
        return True
    if condition.name == "AND":
        return all(_may(c, fields, bounds) for c in condition.operands)
    if condition.name == "OR":
        return any(_may(c, fields, bounds) for c in condition.operands)
    if condition.name not in _MIRRORED or len(condition.operands) != 2:
        return True
    left, right = condition.operands
    if isinstance(left, InputRef) and isinstance(right, Literal):
        return _comparison_fits(left, condition.name, right, fields, bounds)
    if isinstance(right, InputRef) and isinstance(left, Literal):
        return _comparison_fits(right, _MIRRORED[condition.name], left, fields, bounds)
    return True


def _comparison_fits(column: InputRef, operator: str, literal: Literal, fields: Fields, bounds: Bounds) -> bool:
    name, data_type = fields[column.index]
    constant = _constant(literal, data_type)
    if constant is None:
        return True
    low, high = (_value(value, data_type) for value in bounds.get(name, (None, None)))
    if high is not None and isinstance(high, datetime):
        high += _MILLISECOND
    too_low = high is not None and (
        high < constant if operator in ("=", ">=") else operator == ">" and high <= constant
    )
    too_high = low is not None and (low > constant if operator in ("=", "<=") else operator == "<" and low >= constant)
    return not (too_low or too_high)


def _constant(literal: Literal, data_type: LogicalType) -> Any:
    """The value of a literal to compare values of a column with; None if it is of another kind."""
    root, value = literal.type.root, literal.value
    if data_type.root in _INTEGERS and root in _INTEGERS:
        return _value(value, data_type)
    if (data_type.root in _TEXT and root in _TEXT) or data_type.root == root == "DATE":
        return _value(value, data_type)
    return _value(value, data_type) if data_type.root == root == "TIMESTAMP_WITHOUT_TIME_ZONE" else None


def _value(value: Any, data_type: LogicalType) -> Any:
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
