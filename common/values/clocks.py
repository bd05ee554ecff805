"""What the clock on the wall shows in a time zone, and the instants at which it does: columns of Polars."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import cache
from typing import Literal, TypeVar

import polars as pl

from stateplan.common.values.nanoseconds import PER_SECOND
from stateplan.common.zone import fixed_offset

T = TypeVar("T", pl.Expr, pl.Series)
Twice = Literal["earliest", "latest"]
"""Which of two instants is meant, where a clock is put back and shows a time twice."""


def wall_clock(instants: T, zone: str) -> T:
    """Instants (Datetime in UTC) as the wall clock of ``zone`` (Datetime without zone)."""
    offset = fixed_offset(zone)
    if offset is not None:
        return _move(instants.dt.replace_time_zone(None), offset)

    def local_times(times: pl.Series) -> pl.Series:
        return times.dt.convert_time_zone(zone).dt.replace_time_zone(None)

    return _apply(instants, lambda times: _in_known_years(times, local_times))


def instants_of(clock: T, zone: str, twice: Twice = "earliest") -> T:
    """Wall clock times of ``zone`` as instants: the earlier of two by default; a time that is skipped is as long after
    the gap's beginning as it says."""
    offset = fixed_offset(zone)
    if offset is not None:
        return _move(clock, -offset).dt.replace_time_zone("UTC")

    def instants(times: pl.Series) -> pl.Series:
        return after_gaps(instants_that_are(times, zone, twice), times, zone, twice)

    return _apply(clock, instants)


def instants_that_are(clock: pl.Series, zone: str, twice: Twice) -> pl.Series:
    """As :func:`instants_of`, but NULL for a time that is skipped."""

    def instants(times: pl.Series) -> pl.Series:
        return times.dt.replace_time_zone(zone, ambiguous=twice, non_existent="null").dt.convert_time_zone("UTC")

    return instants_of(clock, zone) if fixed_offset(zone) is not None else _in_known_years(clock, instants)


_GAPS = (1, 25)
"""Hours that a gap may last: one for daylight saving, and a day where a country crossed the date line."""


def after_gaps(instants: pl.Series, clock: pl.Series, zone: str, twice: Twice) -> pl.Series:
    """``found``, with instants for the times of ``clock`` that were skipped, which are NULL in it."""
    for hours in _GAPS:
        if instants.null_count() == clock.null_count():
            break
        before = instants_that_are(clock.dt.offset_by(f"-{hours}h"), zone, twice)
        instants = instants.zip_with(instants.is_not_null(), before.dt.offset_by(f"{hours}h"))
    return instants


def _apply(times: T, change: Callable[[pl.Series], pl.Series]) -> T:
    if isinstance(times, pl.Series):
        return change(times)
    return times.map_batches(change, is_elementwise=True)


def _move(times: T, seconds: int) -> T:
    return times.dt.offset_by(f"{seconds}s") if seconds else times


_EPOCH = dt.date(1970, 1, 1)
_CYCLE = 146_097
"""Days of 400 years, after which weekdays repeat."""
_FIRST_DAY, _END = -90_000_000, (dt.date(2100, 1, 1) - _EPOCH).days
"""Days between which Polars knows how zones are offset: its tables end with the year 2099."""


def units_per_day(times: pl.Series) -> int:
    """How many units of a column of Datetimes a day has."""
    assert isinstance(times.dtype, pl.Datetime)
    return PER_SECOND[times.dtype.time_unit] * 86_400


def are_within(times: pl.Series, first: int, end: int) -> bool:
    """Whether all Datetimes of a column are on days from ``first`` to before ``end``, in days since 1970."""
    low, high = times.to_physical().min(), times.to_physical().max()
    if not isinstance(low, int) or not isinstance(high, int):
        return True  # there is no time in it
    return low >= first * units_per_day(times) and high < end * units_per_day(times)


def _in_known_years(times: pl.Series, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """``change`` of a column of Datetimes. Dates in other years are replaced with dates of the same calendar in years
    that Polars knows: a rule of a zone, such as "the second Sunday of March", has no end."""
    if are_within(times, _FIRST_DAY, _END):
        return change(times)
    counts, per_day = times.to_physical(), units_per_day(times)
    distance = _distance((counts // per_day).cast(pl.Int64)) * per_day
    result = change((counts - distance).cast(times.dtype))
    return (result.to_physical() + distance).cast(result.dtype)


def _distance(days: pl.Series) -> pl.Series:
    """How many days after one of a known year with the same calendar each day is; 0 within the known years."""
    far = (days < _FIRST_DAY) | (days >= _END)
    start = (dt.date(2000, 1, 1) - _EPOCH).days
    cycles = (days - start) // _CYCLE * _CYCLE
    date = (days - cycles).cast(pl.Int32).cast(pl.Date)
    spring = date.dt.month() >= 3
    frame = pl.DataFrame({"days": days, "far": far, "cycles": cycles, "date": date, "spring": spring})
    first = pl.date(pl.col("date").dt.year(), pl.when("spring").then(3).otherwise(1), 1)
    alike = (pl.col("spring").cast(pl.Int64) * 7 + first.dt.weekday() - 1).replace_strict(
        list(range(14)), _known_firsts(), return_dtype=pl.Int64
    )
    later = pl.col("cycles") + first.to_physical().cast(pl.Int64) - alike
    earlier = pl.col("cycles")
    known_start = pl.when(pl.col("days") >= _END).then(later).otherwise(earlier)
    return frame.select(pl.when("far").then(known_start).otherwise(0)).to_series()


@cache
def _known_firsts() -> list[int]:
    """By weekday, the first of January of a year without 29 February in Polars' tables, then the first of March. Until
    2087 some zones follow the moon."""
    out = [0] * 14
    for year in range(2089, 2100):
        for place, month in ((0, 1), (7, 3)):
            day = dt.date(year, month, 1)
            if year % 4:
                out[place + day.weekday()] = (day - _EPOCH).days
    return out
