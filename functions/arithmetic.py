"""Rows of the function table: arithmetic on numbers, dates, times and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Call, Rex
from stateplan.functions.table import ScalarFunction, any_nullable, argument, register
from stateplan.functions.typerules import (
    decimal_divide,
    decimal_modulo,
    decimal_plus,
    decimal_times,
    family,
    least_restrictive,
)

DecimalRule = Callable[[LogicalType, LogicalType], LogicalType]


def _numeric(operands: Sequence[Rex], decimal_rule: DecimalRule) -> LogicalType:
    a, b = (o.type for o in operands)
    exact = not {"FLOAT", "DOUBLE"} & {a.root, b.root}
    result = decimal_rule(a, b) if exact and "DECIMAL" in (a.root, b.root) else least_restrictive([a, b])
    assert result is not None
    return result.as_nullable(any_nullable(operands))


def _modulo(operands: Sequence[Rex]) -> LogicalType:
    a, b = (o.type for o in operands)
    result = decimal_modulo(a, b) if "DECIMAL" in (a.root, b.root) else b
    return result.as_nullable(any_nullable(operands))


def _is_datetime(rex: Rex) -> bool:
    return rex.type.is_timestamp or rex.type.root in ("DATE", "TIME_WITHOUT_TIME_ZONE")


def _is_interval(rex: Rex) -> bool:
    return rex.type.root.startswith("INTERVAL")


def _wrong(name: str, operands: Sequence[Rex], place: Place | None) -> SqlError:
    type_texts = ", ".join(o.type.summary() for o in operands)
    return SqlError(
        "SQL203",
        name=name,
        types=type_texts,
        place=place,
        expected="two numbers, a date or time and an interval, or two intervals of one kind",
    )


def _plain(name: str, operands: Sequence[Rex], t: LogicalType, syntax: str = "BINARY") -> Call:
    return Call(t, tuple(operands), f"${name}$1", syntax)


def _interval_merge(a: LogicalType, b: LogicalType) -> LogicalType:
    """``DAY(2)`` and ``HOUR`` give ``DAY(2) TO HOUR``."""
    order = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    parts = [p for t in (a, b) for p in (t.resolution or "").split(" TO ")]
    sorted_units = sorted(parts, key=lambda p: order.index(p.split("(")[0].strip()))
    first, last = sorted_units[0], sorted_units[-1]
    same = first.split("(")[0] == last.split("(")[0]
    return LogicalType(a.root, resolution=first if same else f"{first} TO {last}")


def _sum(operands: Sequence[Rex], place: Place | None, name: str) -> Rex:
    """Plus and minus of numbers, of intervals, and of a moment and an interval."""
    a, b = operands
    nullable = any_nullable(operands)
    if family(a.type) == family(b.type) == "NUMERIC":
        return _plain(name, operands, _numeric(operands, decimal_plus))
    if name == "+" and _is_interval(a) and _is_datetime(b):
        a, b = b, a
    if _is_datetime(a) and _is_interval(b):
        has_zone = a.type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        return _plain(name, (a, b), a.type.as_nullable(nullable), "BINARY" if has_zone else "SPECIAL")
    if _is_interval(a) and a.type.root == b.type.root:
        return _plain(name, operands, _interval_merge(a.type, b.type).as_nullable(nullable))
    if name == "-" and _is_datetime(a) and _is_datetime(b):
        raise SqlError("SQL203.unit_missing", what="the difference of two dates or times", place=place)
    raise _wrong(name, operands, place)


def datetime_difference(a: Rex, b: Rex, interval: LogicalType, place: Place | None = None) -> Rex:
    """``(a - b) DAY TO SECOND``: the call of minus whose type is ``interval``. Raises SqlError SQL203."""
    if not (_is_datetime(a) and _is_datetime(b)):
        raise _wrong("-", (a, b), place)
    return _plain("-", (a, b), interval.as_nullable(any_nullable((a, b))), "SPECIAL")


def _times(operands: Sequence[Rex], place: Place | None) -> Rex:
    a, b = operands
    if family(a.type) == family(b.type) == "NUMERIC":
        return _plain("*", operands, _numeric(operands, decimal_times))
    if _is_interval(b) and family(a.type) == "NUMERIC":
        a, b = b, a
    if _is_interval(a) and b.type.is_integer:
        return _plain("*", (a, b), a.type.as_nullable(any_nullable(operands)))
    raise _wrong("*", operands, place)


_MOVABLE = "NUMERIC|DATETIME|INTERVAL"

register(
    [
        ScalarFunction("+", (_MOVABLE, _MOVABLE), argument(0), rewrite=partial(_sum, name="+")),
        ScalarFunction("-", (_MOVABLE, _MOVABLE), argument(0), rewrite=partial(_sum, name="-")),
        ScalarFunction("*", ("NUMERIC|INTERVAL", "NUMERIC|INTERVAL"), argument(0), rewrite=_times),
        ScalarFunction("/", ("NUMERIC", "NUMERIC"), partial(_numeric, decimal_rule=decimal_divide), syntax="BINARY"),
        ScalarFunction("MOD", ("EXACT", "EXACT"), _modulo, aliases=("%",)),
        ScalarFunction("NEGATE", ("NUMERIC|INTERVAL",), argument(0), plan="-", syntax="PREFIX"),
        ScalarFunction("UNARY +", ("NUMERIC|INTERVAL",), argument(0), rewrite=lambda operands, place: operands[0]),
    ]
)
