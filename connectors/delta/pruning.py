"""Files that no row of a query comes from, by the partition and the statistics that the log has of them.

The runtime applies every condition to the rows. So a file may be read in vain, and must never be omitted in vain: what
is not understood here says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from stateplan.connectors.comparisons import Comparison, comparison_of, constant_of, value_of
from stateplan.connectors.formats.base import Fields
from stateplan.functions.rex import Call, Rex

Bounds: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Column to its least and its greatest value in a file; None for one that is not known."""

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
    comparison = comparison_of(condition)
    return comparison is None or _comparison_fits(comparison, fields, bounds)


def _comparison_fits(comparison: Comparison, fields: Fields, bounds: Bounds) -> bool:
    operator = comparison.operator
    name, data_type = fields[comparison.column]
    constant = constant_of(comparison.literal, data_type)
    if constant is None:
        return True
    low, high = (value_of(value, data_type) for value in bounds.get(name, (None, None)))
    if high is not None and isinstance(high, datetime):
        high += _MILLISECOND
    too_low = high is not None and (
        high < constant if operator in ("=", ">=") else operator == ">" and high <= constant
    )
    too_high = low is not None and (low > constant if operator in ("=", "<=") else operator == "<" and low >= constant)
    return not (too_low or too_high)
