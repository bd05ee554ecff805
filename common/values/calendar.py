"""Dates and times of day as text, by columns: the digits of SQL, of Java's ``toString``, of JSON and CSV."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from stateplan.common.types import LogicalType
from stateplan.common.values.nanoseconds import PER_SECOND, coarse, is_fine

_FIRST_DAY, _LAST_DAY = -96_000_000, 95_000_000
"""Days between which Polars writes dates; Java knows dates beyond."""

Fraction = Callable[[pl.Expr, int], pl.Expr]
"""From a count below the second and its number of digits to ``.5``, or nothing."""


def exact(formatter: Callable[[str], pl.Expr], clock: str, digits: int) -> pl.Expr:
    """A text with this number of digits below the second, as CAST has them, given what writes a format."""
    if digits == 0:
        return formatter(clock)
    if digits in (3, 6, 9):
        return formatter(f"{clock}%.{digits}f")
    return formatter(f"{clock}%.9f").str.head(digits - 9)


def first_digits(digits: int) -> Fraction:
    """The first digits of nine, as many as the precision."""
    return lambda count, width: pl.concat_str(pl.lit("."), count.cast(pl.String).str.zfill(width).str.head(digits))


def needed_digits(count: pl.Expr, width: int) -> pl.Expr:
    """As many digits as it takes, as Flink's JSON and CSV have them."""
    digits = count.cast(pl.String).str.zfill(width).str.strip_chars_end("0")
    return pl.when(count == 0).then(pl.lit("")).otherwise(pl.concat_str(pl.lit("."), digits))


def grouped_digits(count: pl.Expr, width: int) -> pl.Expr:
    """As many groups of three digits as it takes, as Java has them."""
    text = count.cast(pl.String).str.zfill(width)
    digits = text
    for length in range(width - 3, 0, -3):
        digits = pl.when(count % 10 ** (width - length) == 0).then(text.str.head(length)).otherwise(digits)
    return pl.when(count == 0).then(pl.lit("")).otherwise(pl.concat_str(pl.lit("."), digits))


def _far_date(days: pl.Expr) -> pl.Expr:
    """``LocalDate.toString`` of any number of days since 1970-01-01."""
    days = days.cast(pl.Int64) + 719_468
    era = days.floordiv(146_097)
    of_era = days - era * 146_097
    of_cycle = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * of_cycle + of_cycle // 4 - of_cycle // 100)
    month_index = (5 * of_year + 2) // 153
    day = of_year - (153 * month_index + 2) // 5 + 1
    month = pl.when(month_index < 10).then(month_index + 3).otherwise(month_index - 9)
    year = of_cycle + era * 400 + (month <= 2).cast(pl.Int64)
    digits = year.abs().cast(pl.String).str.zfill(4)
    sign = pl.when(year < 0).then(pl.lit("-")).when(year > 9999).then(pl.lit("+")).otherwise(pl.lit(""))
    two = [pl.concat_str(pl.lit("-"), part.cast(pl.String).str.zfill(2)) for part in (month, day)]
    return pl.concat_str(sign, digits, *two)


def _text(series: pl.Series, clock: str) -> pl.Series:
    """A Date or Datetime column as ``yyyy-MM-dd`` and the format ``clock``."""
    per_second = PER_SECOND[series.dtype.time_unit] if isinstance(series.dtype, pl.Datetime) else 0
    per_day = per_second * 86_400 or 1
    counts = series.to_physical()
    low, high = counts.min(), counts.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return series.cast(pl.String)
    if low // per_day >= _FIRST_DAY and high // per_day <= _LAST_DAY:
        return series.dt.to_string(f"%Y-%m-%d{clock}")
    count = pl.col("n").cast(pl.Int64)
    text = _far_date(count.floordiv(per_day))
    if clock:
        time = ((count % per_day) * (10**9 // per_second)).cast(pl.Time)
        text = pl.concat_str(text, time.dt.to_string(clock))
    return counts.alias("n").to_frame().select(text).to_series()


def date_text(e: pl.Expr, clock: str = "") -> pl.Expr:
    """A Date, or a Datetime without zone, as ``2024-01-31`` and the format ``clock``."""
    return e.map_batches(lambda s: _text(s, clock), return_dtype=pl.String, is_elementwise=True)


def time_text(e: pl.Expr, fraction: Fraction) -> pl.Expr:
    """A Time as ``10:00:00`` and the digits below the second."""
    return pl.concat_str(e.dt.to_string("%H:%M:%S"), fraction(e.to_physical() % 10**9, 9))


def timestamp_text(e: pl.Expr, t: LogicalType, separator: str, fraction: Fraction) -> pl.Expr:
    """A TIMESTAMP as date, ``separator``, time, and the digits below the second."""
    per_second = PER_SECOND[t.time_unit()]
    count = e if is_fine(t) else e.to_physical()
    below = fraction((count % per_second).cast(pl.Int64), len(str(per_second)) - 1)
    return pl.concat_str(date_text(coarse(e, t), f"{separator}%H:%M:%S"), below)


def without_seconds(text: pl.Expr) -> pl.Expr:
    """``LocalTime.toString`` omits seconds if there are none."""
    return pl.when(text.str.ends_with(":00")).then(text.str.head(-3)).otherwise(text)


def duration_text(millis: pl.Expr) -> pl.Expr:
    """``Duration.toString``: PT26H3M4.567S."""
    size, sign = millis.abs(), pl.when(millis < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    hours, minutes, rest = size // 3_600_000, size // 60_000 % 60, size % 60_000
    seconds = pl.concat_str((rest // 1000).cast(pl.String), needed_digits(rest % 1000, 3))

    def part(amount: pl.Expr, text: pl.Expr, unit: str) -> pl.Expr:
        return pl.when(amount == 0).then(pl.lit("")).otherwise(pl.concat_str(sign, text, pl.lit(unit)))

    parts = [part(n, n.cast(pl.String), unit) for n, unit in ((hours, "H"), (minutes, "M"))]
    text = pl.concat_str(pl.lit("PT"), *parts, part(rest, seconds, "S"))
    return pl.when(millis == 0).then(pl.lit("PT0S")).otherwise(text)


def period_text(months: pl.Expr) -> pl.Expr:
    """``Period.toString`` of months: P1Y2M."""
    years, rest = months.truncdiv(pl.lit(12, dtype=pl.Int32)), months.abs() % 12 * months.sign()

    def part(amount: pl.Expr, unit: str) -> pl.Expr:
        return pl.when(amount == 0).then(pl.lit("")).otherwise(pl.concat_str(amount.cast(pl.String), pl.lit(unit)))

    text = pl.concat_str(pl.lit("P"), part(years, "Y"), part(rest, "M"))
    return pl.when(months == 0).then(pl.lit("P0D")).otherwise(text)
