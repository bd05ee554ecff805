"""Conditions of a query as expressions of the library, which omits partitions and files by them.

The runtime applies every condition to the rows. So a file may be read in vain, and must never be omitted in vain: what
is not understood here becomes ``TRUE``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stateplan.common.types import LogicalType
from stateplan.connectors.comparisons import comparison_of, constant_of
from stateplan.connectors.formats.base import Fields
from stateplan.functions.rex import Call, InputRef, Rex

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

_SET = 200
"""Values of which the library compares each with the bounds of a file; of more, only the range is used."""

_COMPARABLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "CHAR", "VARCHAR", "DATE"})
"""Types whose values the library compares as SQL does. The statistics of others say less."""


def _library() -> Any:
    """The expressions of the library, whose constructors take a name and a value."""
    return import_module("pyiceberg.expressions")


def expression_of(conditions: Sequence[Rex], fields: Fields) -> BooleanExpression:
    """An expression that is TRUE for every row for which all conditions hold.

    Args:
        conditions: over ``fields``.
        fields: name in the table, and type, of the declared columns.
    """
    library = _library()
    expression: BooleanExpression = library.AlwaysTrue()
    for condition in conditions:
        expression = library.And(expression, _expression(condition, fields))
    return expression


def _expression(condition: Rex, fields: Fields) -> Any:
    expressions = _library()

    if not isinstance(condition, Call):
        return expressions.AlwaysTrue()
    if condition.name in ("AND", "OR") and condition.operands:
        parts = [_expression(part, fields) for part in condition.operands]
        combine = expressions.And if condition.name == "AND" else expressions.Or
        tree = parts[0]
        for part in parts[1:]:
            tree = combine(tree, part)
        return tree
    if condition.name in ("IS NULL", "IS NOT NULL") and isinstance(condition.operands[0], InputRef):
        name, data_type = fields[condition.operands[0].index]
        if data_type.root not in ("ARRAY", "MAP", "ROW"):
            return expressions.IsNull(name) if condition.name == "IS NULL" else expressions.NotNull(name)
        return expressions.AlwaysTrue()
    comparison = comparison_of(condition)
    if comparison is None:
        return expressions.AlwaysTrue()
    name, data_type = fields[comparison.column]
    constant = constant_of(comparison.literal, data_type)
    if constant is None:
        return expressions.AlwaysTrue()
    kinds = {
        "=": expressions.EqualTo,
        "<": expressions.LessThan,
        "<=": expressions.LessThanOrEqual,
        ">": expressions.GreaterThan,
        ">=": expressions.GreaterThanOrEqual,
    }
    return kinds[comparison.operator](name, _constant(constant))


def _constant(value: Any) -> Any:
    """A constant as the library takes it: times as texts."""
    return value.isoformat() if isinstance(value, date) else value


def keys_expression(keys: Sequence[tuple[str, LogicalType, Collection[Any]]]) -> BooleanExpression:
    """An expression that is TRUE for every row whose columns have some of these values.

    Args:
        keys: name and type of each column, and its values without NULL.
    """
    library = _library()
    expression: BooleanExpression = library.AlwaysTrue()
    for name, data_type, values in keys:
        if data_type.root not in _COMPARABLE or not values:
            continue
        constants = sorted(values)
        if len(constants) <= _SET:
            part = library.In(name, {_constant(value) for value in constants})
        else:
            least, most = _constant(constants[0]), _constant(constants[-1])
            part = library.And(library.GreaterThanOrEqual(name, least), library.LessThanOrEqual(name, most))
        expression = library.And(expression, part)
    return expression
