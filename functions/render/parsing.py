"""Reading values from character strings as Flink's casts do. Every function returns NULL if the text is not a value."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import polars as pl

from stateplan.common.types import LogicalType
from stateplan.common.values.fields import days_since_epoch
from stateplan.common.values.nanoseconds import is_fine, of_count, of_text
from stateplan.functions.render.base import Renderer
from stateplan.functions.render.decimals import from_unscaled
from stateplan.functions.render.moments import instants
from stateplan.functions.render.rowwise import rowwise
from stateplan.functions.typerules import as_decimal

_BLANKS = " \t\r\n\f"
_MOMENT = "CAST(text AS DATE), CAST(text AS TIMESTAMP)"


def parse_integer(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """A whole number; digits after a point are checked and dropped, blanks around it are too."""
    text = e.str.strip_chars(_BLANKS)
    valid = text.str.contains(r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)$")
    whole_part = text.str.extract(r"^\+?(-?[0-9]*)")
    digits = pl.when(whole_part.is_in(["", "-"])).then(pl.lit("0")).otherwise(whole_part)
    return pl.when(valid).then(digits).cast(t.polars(), strict=False)


def parse_double(e: pl.Expr) -> pl.Expr:
    """What Java's ``Double.parseDouble`` reads: a trailing d or f is allowed, NaN and Infinity only spelt so."""
    text = e.str.strip_chars(_BLANKS)
    number = text.str.contains(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$")
    special = text.str.contains(r"^[+-]?(NaN|Infinity)$")
    bare = pl.when(number).then(text.str.replace(r"[dDfF]$", "")).when(special).then(text)
    return bare.cast(pl.Float64, strict=False)


_CONTEXT = Context(prec=200, rounding=ROUND_HALF_UP)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)


def parse_decimal(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """A DECIMAL, HALF_UP; NULL if it has too many digits before the point."""
    precision, scale = as_decimal(t)
    unit, limit = Decimal(1).scaleb(-scale), 10**precision

    def read(text: str) -> int | None:
        text = text.strip(_BLANKS)
        if not _DECIMAL.fullmatch(text):
            return None
        try:
            value = int(Decimal(text).quantize(unit, context=_CONTEXT).scaleb(scale, context=_CONTEXT))
        except InvalidOperation:
            return None
        return value if abs(value) < limit else None

    text = e.str.strip_chars(_BLANKS)
    usual = text.str.contains(rf"^[+-]?0*[0-9]{{0,{precision - scale}}}(\.[0-9]{{0,{scale}}})?$")
    usual = usual & text.str.contains("[0-9]")
    fast = pl.when(usual).then(text).cast(t.polars(), strict=False)
    slow = rowwise(read, [pl.when(~usual).then(e)], pl.Int128(), "CAST(text AS DECIMAL)")
    return pl.when(usual).then(fast).otherwise(from_unscaled(slow, t, certain=True))


_TRUE, _FALSE = ["true", "t", "yes", "y", "1"], ["false", "f", "no", "n", "0"]


def parse_boolean(e: pl.Expr) -> pl.Expr:
    text = e.str.to_lowercase()
    return pl.when(text.is_in(_TRUE)).then(pl.lit(True)).when(text.is_in(_FALSE)).then(pl.lit(False))


def _digits(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit():
        raise ValueError(text)
    return int(text)


def read_date(text: str) -> int | None:
    """Days since 1970 of ``2024-1-31``, also without day or month, and with a time after a blank, which is dropped."""
    space = text.find(" ")
    parts = (text[:space] if space > 0 else text).split("-", 2)
    try:
        year, month, day = (_digits(parts[i]) if i < len(parts) else 1 for i in range(3))
    except ValueError:
        return None
    if year > 9999 or not 1 <= month <= 12:
        return None
    if not 1 <= day <= calendar.monthrange(year or 400, month)[1]:
        return None
    return days_since_epoch(year, month, day)


def parse_date(e: pl.Expr) -> pl.Expr:
    """A DATE; see :func:`read_date`."""
    usual = e.str.contains(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    fast = pl.when(usual).then(e).str.to_date("%Y-%m-%d", strict=False)
    slow = rowwise(read_date, [pl.when(~usual).then(e)], pl.Int32(), _MOMENT)
    return pl.when(usual).then(fast).otherwise(slow.cast(pl.Date()))


_GAP = f"[{re.escape(''.join(map(chr, range(33))))}]*"
_TIME = re.compile(rf"(\d+){_GAP}(?::{_GAP}(\d+){_GAP})?(?::{_GAP}(\d+)(?:\.(\d+))?)?", re.ASCII)


def parse_time(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """A TIME of ``10:11`` or ``10:11:12.123``, rounded to milliseconds. Digits below its precision are cut off.

    Source: Flink's ``DateTimeUtils.parseTime``, which has 24:00 for the last half millisecond of a day.
    """
    step: int = 10 ** (9 - min(t.precision or 0, 3))
    text = e.str.strip_chars()
    usual = text.str.contains(r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?$")
    fast = pl.when(usual).then(text).str.to_time("%H:%M:%S%.f", strict=False).to_physical()
    slow = rowwise(_nanoseconds_of_day, [pl.when(~usual).then(e)], pl.Int64(), _MOMENT)
    nanos = pl.when(usual).then(fast).otherwise(slow)
    in_millis = (nanos + _HALF_MILLISECOND).clip(upper_bound=_LAST_NANOSECOND)
    return (in_millis // step * step).cast(pl.Time)


_HALF_MILLISECOND, _LAST_NANOSECOND = 500_000, 86_400 * 10**9 - 1


def _nanoseconds_of_day(text: str) -> int | None:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    hours, minutes, seconds = (int(match[i] or 0) for i in (1, 2, 3))
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return ((hours * 60 + minutes) * 60 + seconds) * 10**9 + int((match[4] or "")[:9].ljust(9, "0"))


_TIMESTAMP = re.compile(r"(\d{4,6})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1)


def read_timestamp(text: str) -> int | None:
    """``2024-1-31`` or ``2024-1-31 1:2:3.5``: nanoseconds since the epoch. 30 February is its last day, and 24:00 the
    next day, as for ``ResolverStyle.SMART``."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
    extra = 0
    if (hour, minute, second, int(match[7] or 0)) == (24, 0, 0, 0):
        hour, extra = 0, 1
    if 28 < day <= 31 and 1 <= month <= 12 and 1 <= year <= 9999:
        day = min(day, calendar.monthrange(year, month)[1])
    try:
        moment = dt.datetime(year, month, day, hour, minute, second)
    except (ValueError, OverflowError):
        return None
    delta = moment - _EPOCH + dt.timedelta(days=extra)
    return (delta.days * 86_400 + delta.seconds) * 10**9 + int((match[7] or "").ljust(9, "0"))


def usual_timestamp(e: pl.Expr, unit: Any) -> tuple[pl.Expr, pl.Expr]:
    """Texts such as ``2024-01-31 10:00:00.123`` as a Datetime, digits below the unit cut off; and the texts that are
    of another form, NULL elsewhere."""
    usual = e.str.contains(r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,9})?$")
    fast = pl.when(usual).then(e).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit=unit, strict=False)
    return fast, pl.when(fast.is_null()).then(e)


_UNIT_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def parse_timestamp(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    """A TIMESTAMP, or with local time zone a wall clock time of the session's zone; digits below the precision are
    cut off."""
    unit = t.time_unit()
    precision = t.precision if t.precision is not None else 6
    step, below = 10 ** (9 - _UNIT_DIGITS[unit]), 10 ** (9 - precision)

    def read(text: str) -> int | None:
        nanos = read_timestamp(text)
        return None if nanos is None else nanos // below * below // step

    clock = replace(t, root="TIMESTAMP_WITHOUT_TIME_ZONE")
    fast, rest = usual_timestamp(e, "us" if is_fine(t) else unit)
    count = of_text(fast, e) if is_fine(t) else fast.to_physical()
    if precision < _UNIT_DIGITS[unit]:
        precision_step = 10 ** (_UNIT_DIGITS[unit] - precision)
        count = count // precision_step * precision_step
    dtype = pl.Int128() if is_fine(t) else pl.Int64()
    slow = rowwise(read, [rest], dtype, _MOMENT)
    moment = of_count(pl.coalesce(count.cast(dtype), slow), clock)
    return instants(r, moment, t) if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else moment
