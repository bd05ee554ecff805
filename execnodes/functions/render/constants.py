"""Python values of plan literals."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from stateplan.execnodes.errors import PlanError
from stateplan.execnodes.rex import Literal
from stateplan.execnodes.types import LogicalType

_CONTEXT = Context(prec=120, rounding=ROUND_HALF_UP)
_EPOCH = dt.datetime(1970, 1, 1)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "BIGINT": 64}


def constant(literal: Literal) -> Any:
    """The value of a literal in the form that Polars takes for its type.

    Integers and floats are numbers, DECIMAL a Decimal of the type's scale, times and timestamps microseconds-exact
    datetime objects (nanoseconds as an int), intervals a timedelta or months.

    Raises:
        PlanError: PLAN079, for a value that does not fit the literal's type.
    """
    if literal.value is None or literal.symbol is not None:
        return literal.value
    return plan_value(literal.type, literal.value)


def plan_value(t: LogicalType, value: Any) -> Any:
    """The value of the plan's ``value`` for type ``t``. Raises PlanError PLAN079."""
    reader = _READERS.get(t.root)
    if reader is None:
        raise PlanError("PLAN079.plan_value", t=t.summary())
    try:
        return reader(t, value)
    except (ValueError, ArithmeticError, TypeError, AttributeError) as cause:
        raise PlanError("PLAN079.plan_value_2", value=value, t=t.summary()) from cause


def _boolean(t: LogicalType, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _integer(t: LogicalType, value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError
    number = int(value)
    limit = 1 << (_BITS.get(t.root, 32) - 1)
    if not -limit <= number < limit:
        raise ValueError
    return number


def _decimal(t: LogicalType, value: Any) -> Decimal:
    number = Decimal(str(value)).quantize(Decimal(1).scaleb(-(t.scale or 0)), context=_CONTEXT)
    if not number.is_finite() or len(number.as_tuple().digits) > (t.precision or 10):
        raise ValueError
    return number


def _text(t: LogicalType, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _bytes(t: LogicalType, value: Any) -> bytes:
    return base64.b64decode(value)


def _date(t: LogicalType, value: Any) -> dt.date:
    return dt.date.fromisoformat(value)


def _time(t: LogicalType, value: Any) -> dt.time:
    return dt.time.fromisoformat(value[:15])


def parse_moment(value: str) -> tuple[dt.datetime, int]:
    """``2024-01-31 10:00:00.123456789``: seconds as a datetime, and nanoseconds of the second."""
    main, _, fraction = value.replace("T", " ").rstrip("Z").partition(".")
    if main.count(":") == 1:
        main += ":00"
    return dt.datetime.fromisoformat(main), int(fraction.ljust(9, "0")[:9]) if fraction else 0


def _timestamp(t: LogicalType, value: Any) -> Any:
    moment, nanos = parse_moment(value)
    if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        return (moment + dt.timedelta(microseconds=nanos // 1000)).replace(tzinfo=dt.UTC)
    if t.time_unit() == "ns":
        return int((moment - _EPOCH) / dt.timedelta(seconds=1)) * 10**9 + nanos
    return moment + dt.timedelta(microseconds=nanos // 1000)


def _duration(t: LogicalType, value: Any) -> dt.timedelta:
    return dt.timedelta(milliseconds=int(value))


_READERS = {
    "BOOLEAN": _boolean,
    "TINYINT": _integer,
    "SMALLINT": _integer,
    "INTEGER": _integer,
    "BIGINT": _integer,
    "FLOAT": lambda t, v: float(v),
    "DOUBLE": lambda t, v: float(v),
    "DECIMAL": _decimal,
    "CHAR": _text,
    "VARCHAR": _text,
    "BINARY": _bytes,
    "VARBINARY": _bytes,
    "DATE": _date,
    "TIME_WITHOUT_TIME_ZONE": _time,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _timestamp,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _timestamp,
    "INTERVAL_DAY_TIME": _duration,
    "INTERVAL_YEAR_MONTH": _integer,
}
