"""Rows of the function table: dates, times, timestamps and the clock."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import BIGINT, DATE, INSTANT, INT, STRING, LogicalType
from stateplan.functions.literals import UNIT_MILLIS, interval_type, unit_literal
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.table import Rewrite, ScalarFunction, always, argument, forced_nullable, register
from stateplan.functions.typerules import time, timestamp, timestamp_ltz

_LTZ3 = timestamp_ltz(3)
_PROCTIME = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", nullable=False, precision=3, kind="PROCTIME")


def _of_rowtime(operands: Sequence[Rex]) -> LogicalType:
    """The type of CURRENT_WATERMARK. Raises SqlError SQL203 for what is not a rowtime attribute."""
    rowtime = operands[0].type
    if rowtime.kind != "ROWTIME":
        raise SqlError("SQL203.type", what="the argument of CURRENT_WATERMARK", type=rowtime)
    return LogicalType(rowtime.root, precision=rowtime.precision)


_ADD_UNITS = {
    "YEAR": ("YEAR", 12),
    "QUARTER": ("MONTH", 3),
    "MONTH": ("MONTH", 1),
    "WEEK": ("DAY", 7 * UNIT_MILLIS["DAY"]),
    **{unit: (unit, size) for unit, size in UNIT_MILLIS.items()},
    "MILLISECOND": ("SECOND", 1),
}
"""Unit of TIMESTAMPADD to the interval it is written as and the value of one unit."""


def _unit(operand: Rex, name: str, supported: Sequence[str], place: Place | None) -> str:
    unit = str(operand.value) if isinstance(operand, Literal) else ""
    if unit not in supported:
        raise SqlError("SQL203.unknown_unit", what=name, unit=unit, place=place, expected=", ".join(supported))
    return unit


def _add(operands: Sequence[Rex], place: Place | None) -> Rex:
    unit = _unit(operands[0], "TIMESTAMPADD", tuple(_ADD_UNITS), place)
    count, value = operands[1], operands[2]
    base, size = _ADD_UNITS[unit]
    interval = interval_type(base)
    step: Rex
    if isinstance(count, Literal) and isinstance(count.value, int):
        step = Literal(interval, str(count.value * size))
    else:
        one = Literal(interval, str(size))
        step = Call(interval.as_nullable(count.type.nullable), (one, count), "$*$1", "BINARY")
    result = value.type
    if result.root == "DATE" and base in ("HOUR", "MINUTE", "SECOND"):
        result = timestamp(6)
    elif result.kind:
        result = LogicalType(result.root, precision=result.precision)
    nullable = value.type.nullable or count.type.nullable
    return Call(result.as_nullable(nullable), (value, step), "$+$1", "SPECIAL")


_DIFF_UNITS = {**_ADD_UNITS, "WEEK": ("SECOND", 1000), "MILLISECOND": ("SECOND", 1000)}


def _int(value: int) -> Literal:
    return Literal(INT.not_null(), value)


def _divide(t: LogicalType, value: Rex, by: int) -> Call:
    return Call(t, (value, _int(by)), "$/INT$1", "BINARY")


def _diff(operands: Sequence[Rex], place: Place | None) -> Rex:
    unit = _unit(operands[0], "TIMESTAMPDIFF", tuple(_DIFF_UNITS), place)
    start, end = operands[1], operands[2]
    roots = {start.type.root, end.type.root}
    if "TIMESTAMP_WITH_LOCAL_TIME_ZONE" in roots and len(roots) > 1:
        raise SqlError("SQL203", name="TIMESTAMPDIFF", types=(start.type, end.type), place=place)
    nullable = start.type.nullable or end.type.nullable
    base, size = _DIFF_UNITS[unit]
    difference = Call(interval_type(base).as_nullable(nullable), (end, start), "$-$1", "SPECIAL")
    big, small = BIGINT.as_nullable(nullable), INT.as_nullable(nullable)
    raw = Call(big, (difference,), "$REINTERPRET$1", "SPECIAL")
    quotient = raw if unit in ("MONTH", "QUARTER") else _divide(big, raw, size)
    result = Call(small, (quotient,), "$CAST$1", "SPECIAL")
    if unit == "QUARTER":
        return _divide(small, result, 3)
    if unit == "MILLISECOND":
        return Call(small, (result, _int(1000)), "$*$1", "BINARY")
    return _divide(small, result, 7 * 86_400) if unit == "WEEK" else result


_CLOCK = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")
_CALENDAR = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "ISODOW", "ISOYEAR", "DECADE", "CENTURY"),
    *("MILLENNIUM", "EPOCH"),
)


def _instant(operands: Sequence[Rex]) -> LogicalType:
    """TO_TIMESTAMP_LTZ of a number and its precision, or of a text, a pattern and a zone. Raises SqlError SQL203."""
    numeric = operands[0].type.is_numeric
    precise = all(o.type.is_string or o.type.root == "INTEGER" for o in operands[1:])
    if any(o.type.is_string == numeric for o in operands[1:]) or (numeric and len(operands) > 2) or not precise:
        raise SqlError("SQL203", name="TO_TIMESTAMP_LTZ", types=[o.type for o in operands])
    digits = operands[1] if numeric and len(operands) > 1 else None
    if not isinstance(digits, Literal) or digits.value is None:
        return _LTZ3
    if not 0 <= int(digits.value) <= 9:
        raise SqlError("SQL203.digits", digits=digits.value)
    return timestamp_ltz(max(3, int(digits.value)))


_PARTS = {
    "DATE": (*_CALENDAR, *_CLOCK),
    "TIME_WITHOUT_TIME_ZONE": _CLOCK,
    "INTERVAL_YEAR_MONTH": ("YEAR", "QUARTER", "MONTH"),
    "INTERVAL_DAY_TIME": ("DAY", *_CLOCK),
    **dict.fromkeys(
        ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"),
        (*_CALENDAR, *_CLOCK, "MICROSECOND", "NANOSECOND"),
    ),
}
"""Type to the units that EXTRACT takes of it."""


def _extracted_type(operands: Sequence[Rex]) -> LogicalType:
    """Raises SqlError SQL203 for a unit that the type does not have."""
    flag, operand = operands
    unit = str(flag.value) if isinstance(flag, Literal) else ""
    if unit not in _PARTS[operand.type.root]:
        units = ", ".join(_PARTS[operand.type.root])
        raise SqlError("SQL203.unknown_unit", unit=unit, what=f"EXTRACT of {operand.type.summary()}", expected=units)
    return BIGINT.as_nullable(operand.type.nullable)


def _extract(unit: str) -> Rewrite:
    flag = unit_literal(unit)

    def rewrite(operands: Sequence[Rex], place: Place | None) -> Rex:
        _extracted_type([flag, operands[0]])
        return Call(BIGINT.as_nullable(operands[0].type.nullable), (flag, operands[0]), "$EXTRACT$1")

    return rewrite


_SHORT = {
    **{unit: unit for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")},
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
}
_MOMENT = "DATE|TIMESTAMP|TIME"
_C = "CHARACTER"

register(
    [
        ScalarFunction("EXTRACT", ("SYMBOL", "DATETIME|INTERVAL"), _extracted_type),
        *(ScalarFunction(name, ("DATETIME",), always(BIGINT), rewrite=_extract(unit)) for name, unit in _SHORT.items()),
        ScalarFunction("TIMESTAMPADD", ("SYMBOL", "INTEGER", _MOMENT), always(STRING), rewrite=_add),
        ScalarFunction("TIMESTAMPDIFF", ("SYMBOL", "DATE|TIMESTAMP", "DATE|TIMESTAMP"), always(INT), rewrite=_diff),
        ScalarFunction("/INT", ("INTEGER", "INTEGER"), argument(0), syntax="BINARY"),
        ScalarFunction("REINTERPRET", ("INTERVAL",), always(BIGINT), syntax="SPECIAL"),
        ScalarFunction("DATE_FORMAT", ("TIMESTAMP|CHARACTER", _C), forced_nullable(STRING)),
        ScalarFunction("TO_DATE", (_C, _C), forced_nullable(DATE), optional=1),
        ScalarFunction("TO_TIMESTAMP", (_C, _C), forced_nullable(timestamp(3)), optional=1),
        ScalarFunction("TO_TIMESTAMP_LTZ", ("NUMERIC|CHARACTER", "INTEGER|CHARACTER", _C), _instant, optional=2),
        ScalarFunction("FROM_UNIXTIME", ("INTEGER", _C), forced_nullable(STRING), optional=1),
        ScalarFunction("UNIX_TIMESTAMP", (_C, _C), always(BIGINT), optional=2, deterministic=False),
        ScalarFunction("CONVERT_TZ", (_C, _C, _C), forced_nullable(STRING)),
        ScalarFunction("CURRENT_DATE", (), always(DATE, False), syntax="FUNCTION_ID", deterministic=False),
        ScalarFunction("CURRENT_TIME", (), always(time(0), False), syntax="FUNCTION_ID", deterministic=False),
        ScalarFunction("LOCALTIME", (), always(time(0), False), syntax="FUNCTION_ID", deterministic=False),
        ScalarFunction("CURRENT_TIMESTAMP", (), always(_LTZ3, False), syntax="FUNCTION_ID", deterministic=False),
        ScalarFunction("LOCALTIMESTAMP", (), always(timestamp(3), False), syntax="FUNCTION_ID", deterministic=False),
        ScalarFunction("NOW", (), always(_LTZ3, False), deterministic=False),
        ScalarFunction("CURRENT_ROW_TIMESTAMP", (), always(_LTZ3, False), deterministic=False),
        ScalarFunction("CURRENT_WATERMARK", ("TIMESTAMP",), _of_rowtime, deterministic=False),
        ScalarFunction("SOURCE_WATERMARK", (), always(INSTANT), deterministic=False),
        ScalarFunction("PROCTIME", (), always(_PROCTIME, False), deterministic=False),
        ScalarFunction("PROCTIME_MATERIALIZE", ("TIMESTAMP",), always(_LTZ3)),
    ]
)
