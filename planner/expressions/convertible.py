"""Which conditions can be passed to a source, and in which form.

Source: Flink's ``RexNodeToExpressionConverter``, which turns a row expression into a table API expression, and the
way back (``ExpressionConverter``), which nests AND and OR pairwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.types import BOOLEAN, LogicalType
from stateplan.functions.rex import Call, FieldAccess, InputRef, Literal, Rex
from stateplan.planner.expressions.approximate import Approximate
from stateplan.planner.expressions.ops import COMPARISONS, Over, call, kind
from stateplan.planner.expressions.search import expand_search

_STRICT = frozenset({*COMPARISONS, "NOT", "LIKE", "+", "-", "*", "MOD", "UPPER", "LOWER", "CHAR_LENGTH", "ABS"})
"""Functions that are NOT NULL if all their operands are; their type is inferred anew."""

_NOT_EXPRESSIBLE = frozenset({"IF", "||", "TRIM", "CASE", "ITEM", "/INT", "REINTERPRET", "NOW", "IS NOT DISTINCT FROM"})
"""Functions that the table API does not know under their SQL name."""

_IN_CAMEL_CASE = frozenset(
    {
        "CHAR_LENGTH",
        "CONVERT_TZ",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "DATE_FORMAT",
        "FROM_BASE64",
        "FROM_UNIXTIME",
        "PARSE_URL",
        "REGEXP_EXTRACT",
        "REGEXP_REPLACE",
        "SPLIT_INDEX",
        "STR_TO_MAP",
        "TO_BASE64",
        "TO_DATE",
        "TO_TIMESTAMP",
        "TRY_CAST",
        "UNIX_TIMESTAMP",
    }
)
"""Functions with an underscore in their SQL name that the table API finds, as it has them in camel case."""

_INTERVALS = {"INTERVAL_DAY_TIME": "DAY(2) TO SECOND(6)", "INTERVAL_YEAR_MONTH": "YEAR(2) TO MONTH"}


def convert(rex: Rex) -> Rex | None:
    """``rex`` as the source gets it; None if the table API has no such expression."""
    if isinstance(rex, InputRef):
        return rex
    if isinstance(rex, Literal):
        if rex.sarg is not None or (rex.symbol is not None and rex.symbol != "TIME_UNIT_RANGE"):
            return None
        if rex.type.root in ("DOUBLE", "FLOAT") and rex.value is not None:
            return replace(rex, value=Approximate.shortest(float(rex.value)))
        return replace(rex, type=_interval(rex.type))
    if isinstance(rex, FieldAccess):
        return rex
    if isinstance(rex, Over) or not isinstance(rex, Call):
        return None
    op = kind(rex)
    if op == "SEARCH":
        return convert(expand_search(rex))
    if rex.is_user_defined:
        converted_operands = [convert(c) for c in rex.operands]
        return (
            None
            if None in converted_operands
            else replace(rex, operands=tuple(c for c in converted_operands if c is not None))
        )
    if rex.internal_name is None or op in _NOT_EXPRESSIBLE or ("_" in op and op not in _IN_CAMEL_CASE):
        return None
    operands = [convert(c) for c in rex.operands]
    convertible_operands = [o for o in operands if o is not None]
    if len(convertible_operands) < len(operands):
        return None
    if op in ("AND", "OR"):
        return _pairs(op, convertible_operands)
    result = _interval(rex.type)
    if op in _STRICT:
        result = result.as_nullable(any(o.type.nullable for o in convertible_operands))
    return Call(
        result,
        tuple(convertible_operands),
        rex.internal_name,
        "BINARY" if op == "-" and len(convertible_operands) == 2 else rex.syntax,
    )


def _interval(t: LogicalType) -> LogicalType:
    """Intervals in the resolution that the table API has."""
    return replace(t, resolution=_INTERVALS[t.root]) if t.root in _INTERVALS else t


def _pairs(op: str, operands: Sequence[Rex]) -> Rex:
    result = operands[0]
    for o in operands[1:]:
        nullable = result.type.nullable or o.type.nullable
        result = call(op, (result, o), BOOLEAN.as_nullable(nullable))
    return result
