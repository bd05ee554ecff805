"""Aggregate calls in MATCH_RECOGNIZE.

Source: Calcite's ``StandardConvertletTable`` (means and variances are written with sums), and the calls that Flink's
``MatchCodeGenerator`` can run.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.errors import Place
from stateplan.common.types import BIGINT, LogicalType
from stateplan.functions.aggregates import VARIANCES, AggregateFunction, find_aggregate
from stateplan.functions.builder import make_call
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.typerules import same_type
from stateplan.planner.expressions.ops import call

OF_ROWS = ("COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX")
"""Functions whose columns in DEFINE are taken as they are, and not as those of the current or last row."""

REFUSED_FUNCTIONS = {
    "GROUPING": None,
    "GROUPING_ID": None,
    "GROUP_ID": None,
    "APPROX_COUNT_DISTINCT": "Flink compiles it, and counts all values",
}
"""Functions without a meaning here, or with another one in Flink: what to say of it."""

_INT = LogicalType("INTEGER", False)


def aggregated(function: AggregateFunction, operands: Sequence[Rex], place: Place) -> Rex:
    """A call; AVG and the variances as the sums and counts that they are."""
    result = function.infer([o.type for o in operands], place, grouped=False)
    if function.name == "AVG":
        return _mean(operands[0], result, place)
    if function.name in VARIANCES:
        return _variance(operands[0], *VARIANCES[function.name], result, place)
    return Call(result, tuple(operands), function.internal_name, function.syntax)


def _mean(x: Rex, result: LogicalType, place: Place) -> Rex:
    mean = make_call("/", [_as(_of_rows("SUM", x), result), _of_rows("COUNT", x)], place)
    return _ensured(mean, result)


def _variance(x: Rex, of_sample: bool, root: bool, result: LogicalType, place: Place) -> Rex:
    """``(SUM(x * x) - SUM(x) * SUM(x) / COUNT(x)) / COUNT(x)``, or by one less than that; every step of the type of
    the result, and so without fractions for whole numbers."""

    def typed_call(operator: str, left: Rex, right: Rex) -> Rex:
        return _as(make_call(operator, [left, right], place), result)

    x = _as(x, result)
    rows, total = _of_rows("COUNT", x), _as(_of_rows("SUM", x), result)
    count = _as(rows, result)
    squares = _as(_of_rows("SUM", typed_call("*", x, x)), result)
    differences = typed_call("-", squares, typed_call("/", typed_call("*", total, total), count))
    variance = make_call("/", [differences, _one_less(rows, place) if of_sample else count], place)
    if root:
        half = Literal(LogicalType("DECIMAL", False, precision=2, scale=1), "0.5")
        variance = make_call("POWER", [_as(variance, result), half], place)
    return _ensured(variance, result)


def _one_less(rows: Rex, place: Place) -> Rex:
    """A count less one; NULL for a single row."""
    is_one = make_call("=", [rows, Literal(BIGINT.not_null(), 1)], place)
    less = call("CAST", (make_call("-", [rows, Literal(_INT, 1)], place),), BIGINT)
    return call("CASE", (is_one, Literal(BIGINT, None), less), BIGINT)


def _of_rows(name: str, operand: Rex) -> Rex:
    """SUM or COUNT, of the type that Flink gives them here: as if there were always a row."""
    function = find_aggregate(name)
    assert function is not None
    return Call(function.infer([operand.type]), (operand,), function.internal_name, function.syntax)


def _as(rex: Rex, target: LogicalType) -> Rex:
    """``rex`` as ``target``, which may be NULL: cast even where only that differs, and then still NOT NULL."""
    return rex if rex.type == target else call("CAST", (rex,), target.as_nullable(rex.type.nullable))


def _ensured(rex: Rex, target: LogicalType) -> Rex:
    return rex if same_type(rex.type, target) else call("CAST", (rex,), target.as_nullable(rex.type.nullable))
