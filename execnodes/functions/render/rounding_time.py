"""FLOOR and CEIL of dates, times and timestamps to a unit."""

from __future__ import annotations

import polars as pl

from stateplan.execnodes.errors import RunError
from stateplan.execnodes.functions.render.base import Renderer
from stateplan.execnodes.functions.render.moments import DAY, from_local_millis, local_millis, sub_millis
from stateplan.execnodes.rex import Call, Literal

_MILLIS = {"MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": DAY}
_YEARS = {"YEAR": 1, "DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}


def _first_of_month(year: pl.Expr, month: pl.Expr | int) -> pl.Expr:
    return pl.date(year, month, 1)


def _floor_date(day: pl.Expr, unit: str) -> pl.Expr:
    if unit in _YEARS:
        size = _YEARS[unit]
        year = day.dt.year()
        start = year - year % size if size <= 10 else (year - 1) - (year - 1) % size + 1
        return _first_of_month(start, 1)
    if unit == "QUARTER":
        month = day.dt.month().cast(pl.Int32)
        return _first_of_month(day.dt.year(), month - (month - 1) % 3)
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
    division gives, and CEIL looks at the date only; the first day of a decade goes to the next one, in Flink too."""
    operand, flag = call.operands
    unit = str(flag.value) if isinstance(flag, Literal) else ""
    millis = local_millis(r, r.expr(operand), operand.type)
    if unit in _MILLIS:
        size = pl.lit(_MILLIS[unit], dtype=pl.Int64)
        rest = sub_millis(r.expr(operand), operand.type) if operand.type.is_timestamp else None
        if mode == "ceil" and unit == "MILLISECOND" and rest is not None:
            millis = millis + (rest > 0).cast(pl.Int64)
        if mode == "ceil":
            millis = millis + (size - 1)
        return from_local_millis(r, millis - millis % size, call.type)
    if unit not in _STEPS:
        raise RunError("RUN301.round_moment", name=call.name, unit=unit, expected=", ".join([*_MILLIS, *_STEPS]))
    day = millis.truncdiv(pl.lit(DAY, dtype=pl.Int64)).cast(pl.Int32).cast(pl.Date)
    floor = _floor_date(day, unit)
    if mode == "ceil":
        after = floor.dt.offset_by(_STEPS[unit])
        floor = after if unit == "DECADE" else pl.when(floor == day).then(floor).otherwise(after)
    return from_local_millis(r, floor.to_physical().cast(pl.Int64) * DAY, call.type)
