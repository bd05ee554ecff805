"""Arithmetic of dates, times and timestamps, on the integers they are stored as.

Flink computes date parts of a timestamp with Java's truncating division of epoch milliseconds; so does this module:
the instant one millisecond before the epoch has the date 1970-01-01 in CAST and EXTRACT.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from stateplan.common.errors import RunError
from stateplan.common.types import LogicalType
from stateplan.common.values.clocks import Twice, instants_of, wall_clock
from stateplan.common.values.nanoseconds import PER_SECOND, by_micros, count_in, is_fine, of_count, rescaled
from stateplan.functions.render.base import Renderer
from stateplan.functions.rex import Call, Literal, Rex

DAY = 86_400_000


def per_milli(t: LogicalType) -> int:
    """How many units of a timestamp's in-memory form make a millisecond."""
    return PER_SECOND[t.time_unit()] // 1000


def floor_div(e: pl.Expr, by: int) -> pl.Expr:
    return e // pl.lit(by, dtype=pl.Int64)


def to_local(e: pl.Expr, zone: str) -> pl.Expr:
    """An instant (Datetime in UTC) as the wall clock of ``zone`` (Datetime without zone)."""
    return wall_clock(e, zone)


def to_utc(e: pl.Expr, zone: str, *, twice: Twice = "earliest") -> pl.Expr:
    """A wall clock time of ``zone`` as an instant; the earlier of two unless told, and a time that is skipped moves
    on by an hour."""
    return instants_of(e, zone, twice)


def local_millis(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    """Epoch milliseconds (Int64) of the wall clock: of a DATE its midnight, of a TIME its time on 1970-01-01."""
    if t.root == "DATE":
        return e.to_physical().cast(pl.Int64) * DAY
    if t.root == "TIME_WITHOUT_TIME_ZONE":
        return floor_div(e.to_physical(), 1_000_000)
    if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        e = by_micros(e, t, lambda moment: to_local(moment, r.time_zone)) if r.time_zone != "UTC" else e
    return count_in(e, t, "ms")


def sub_millis(e: pl.Expr, t: LogicalType) -> pl.Expr | None:
    """What a timestamp has below its millisecond, in its own unit; None if it cannot have any."""
    unit = per_milli(t)
    return None if unit == 1 else (count_in(e, t, t.time_unit()) % unit).cast(pl.Int64)


def from_local_millis(r: Renderer, millis: pl.Expr, t: LogicalType, rest: pl.Expr | None = None) -> pl.Expr:
    """The value of type ``t`` with this wall clock; ``rest`` is in units of ``t``."""
    if t.root == "DATE":
        return floor_div(millis, DAY).cast(pl.Int32).cast(pl.Date)
    if t.root == "TIME_WITHOUT_TIME_ZONE":
        return ((millis % pl.lit(DAY, dtype=pl.Int64)) * 1_000_000).cast(pl.Time)
    unit = per_milli(t)
    count = millis.cast(pl.Int128) if is_fine(t) else millis
    count = count * unit if unit > 1 else count
    if rest is not None:
        count = count + rest
    if t.root != "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        return of_count(count, t)
    return instants(r, count if is_fine(t) else count.cast(pl.Datetime(t.time_unit())), t)


def instants(r: Renderer, clock: pl.Expr, t: LogicalType) -> pl.Expr:
    """TIMESTAMP_LTZ ``t`` of the wall clock times of the session's zone, which are a TIMESTAMP of its precision."""
    wall = replace(t, root="TIMESTAMP_WITHOUT_TIME_ZONE")
    return by_micros(clock, wall, lambda moment: to_utc(moment, r.time_zone))


_MOST_MONTHS = 240_000


def add_months(date: pl.Expr, months: pl.Expr | int) -> pl.Expr:
    """A Date (or Datetime) moved by months, to the last day of the month where the day does not exist; NULL far beyond
    the years that there are."""
    if isinstance(months, int):
        return date.dt.offset_by(f"{months}mo") if abs(months) <= _MOST_MONTHS else pl.when(pl.lit(False)).then(date)
    near = pl.when(months.is_between(-_MOST_MONTHS, _MOST_MONTHS)).then(months)
    return date.dt.offset_by(pl.format("{}mo", near))


def _months_of(call: Call) -> int | None:
    months = call.operands[1]
    return int(months.value) if isinstance(months, Literal) and months.value is not None else None


def _interval_millis(r: Renderer, interval: Rex) -> pl.Expr:
    """A day-time interval in milliseconds, also a constant that Python's timedelta does not hold."""
    if isinstance(interval, Literal) and interval.value is not None:
        return pl.lit(int(interval.value), dtype=pl.Int64)
    return r.expr(interval).to_physical()


def shift(r: Renderer, call: Call, sign: int) -> pl.Expr:
    """A date, time or timestamp plus or minus an interval."""
    value, interval = call.operands
    moment, t = r.expr(value), value.type
    if interval.type.root == "INTERVAL_YEAR_MONTH" and t.root == "TIME_WITHOUT_TIME_ZONE":
        return pl.when(r.expr(interval).is_not_null()).then(moment)
    if interval.type.root == "INTERVAL_YEAR_MONTH":
        constant_months = _months_of(call)
        months = constant_months * sign if constant_months is not None else r.expr(interval) * sign
        return by_micros(moment, t, lambda day: add_months(day, months))
    amount = _interval_millis(r, interval) * sign
    if t.root == "DATE" and call.type.root == "DATE":
        days = amount.truncdiv(pl.lit(DAY, dtype=pl.Int64))
        return (moment.to_physical().cast(pl.Int64) + days).cast(pl.Int32, strict=False).cast(pl.Date)
    if t.root in ("DATE", "TIME_WITHOUT_TIME_ZONE"):
        return from_local_millis(r, local_millis(r, moment, t) + amount, call.type)
    unit = per_milli(t)
    count = count_in(moment, t, t.time_unit()) + (amount * unit if unit > 1 else amount)
    return rescaled(of_count(count, t), t, call.type)


def difference(r: Renderer, call: Call) -> pl.Expr:
    """The interval between two dates or timestamps: whole months, or milliseconds. Instants are compared in UTC."""
    a, b = (_millis(r, o) for o in call.operands[:2])
    if call.type.root == "INTERVAL_DAY_TIME":
        return (a - b).cast(pl.Duration("ms"))
    return _whole_months(a, b).cast(pl.Int32)


def _millis(r: Renderer, rex: Rex) -> pl.Expr:
    if rex.type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        return count_in(r.expr(rex), rex.type, "ms")
    return local_millis(r, r.expr(rex), rex.type)


def _whole_months(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """Months from b to a as Flink counts them: between the days, one less where the days then meet and the time of
    day of a is before that of b."""
    day_a, day_b = ((e // DAY).cast(pl.Int32).cast(pl.Date) for e in (a, b))
    later, earlier = pl.max_horizontal(day_a, day_b), pl.min_horizontal(day_a, day_b)
    months = (later.dt.year() - earlier.dt.year()) * 12 + (
        later.dt.month().cast(pl.Int32) - earlier.dt.month().cast(pl.Int32)
    )
    day_in_month = pl.min_horizontal(earlier.dt.day(), later.dt.month_end().dt.day())
    full = months - (day_in_month > later.dt.day()).cast(pl.Int32)
    signed_months = pl.when(day_a >= day_b).then(full).otherwise(-full)
    meets = (add_months(day_b, signed_months) == day_a) & (a % DAY < b % DAY)
    return pl.when(a.is_not_null() & b.is_not_null()).then(signed_months - meets.cast(pl.Int32))


_UNITS = {"MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": DAY}
_YEARS = {"YEAR": 1, "DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}


def _floor_date(day: pl.Expr, unit: str) -> pl.Expr:
    if unit in _YEARS:
        size = _YEARS[unit]
        year = day.dt.year()
        start = year - year % size if size <= 10 else (year - 1) - (year - 1) % size + 1
        return pl.date(start, 1, 1)
    if unit == "QUARTER":
        month = day.dt.month().cast(pl.Int32)
        return pl.date(day.dt.year(), month - (month - 1) % 3, 1)
    if unit == "MONTH":
        return day.dt.month_start()
    return (day.to_physical() - day.dt.weekday().cast(pl.Int32) % 7).cast(pl.Date)


_STEPS = {
    "YEAR": "1y",
    "DECADE": "10y",
    "CENTURY": "100y",
    "MILLENNIUM": "1000y",
    "QUARTER": "3mo",
    "MONTH": "1mo",
    "WEEK": "7d",
}


def round_moment(r: Renderer, call: Call, mode: str) -> pl.Expr:
    """``FLOOR(value TO unit)`` or CEIL. Weeks start on Sunday. From a week on, the date is what Flink's truncating
    division returns, and CEIL looks at the date only; the first day of a decade goes to the next one, in Flink too."""
    operand, flag = call.operands
    unit = str(flag.value) if isinstance(flag, Literal) else ""
    millis = local_millis(r, r.expr(operand), operand.type)
    if unit in _UNITS:
        size = pl.lit(_UNITS[unit], dtype=pl.Int64)
        rest = sub_millis(r.expr(operand), operand.type) if operand.type.is_timestamp else None
        if mode == "ceil" and unit == "MILLISECOND" and rest is not None:
            millis = millis + (rest > 0).cast(pl.Int64)
        if mode == "ceil":
            millis = millis + (size - 1)
        return from_local_millis(r, millis - millis % size, call.type)
    if unit not in _STEPS:
        raise RunError("RUN301", what=f"{call.name} to {unit}", expected=", ".join([*_UNITS, *_STEPS]))
    day = millis.truncdiv(pl.lit(DAY, dtype=pl.Int64)).cast(pl.Int32).cast(pl.Date)
    floor = _floor_date(day, unit)
    if mode == "ceil":
        after = floor.dt.offset_by(_STEPS[unit])
        floor = after if unit == "DECADE" else pl.when(floor == day).then(floor).otherwise(after)
    return from_local_millis(r, floor.to_physical().cast(pl.Int64) * DAY, call.type)
