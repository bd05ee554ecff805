"""Text to values, one at a time, by the rules of the Java parsers that Flink's formats use.

The functions here are the reference for the vectorised readers, and what those fall back to. Each takes text and
gives a raw value: numbers as they are, dates as days, times as nanoseconds of the day, timestamps as counts of the
column's unit since 1970 (see :func:`raw_dtype`). Each raises ValueError for text that is not a value.
"""

from __future__ import annotations

import math
import re
import struct
from calendar import monthrange
from collections.abc import Callable
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from stateplan.common.types import LogicalType

if TYPE_CHECKING:
    import polars as pl

INTEGER_BITS = {
    "TINYINT": 8,
    "SMALLINT": 16,
    "INTEGER": 32,
    "BIGINT": 64,
    "INTERVAL_YEAR_MONTH": 32,
    "INTERVAL_DAY_TIME": 64,
}

_JAVA_SPACE = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_FLOAT = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?[0-9]+)[fFdD]?")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DATE = re.compile(r"([+-]?)([0-9]{4,10})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{0,9}))?")
_ISO_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{0,9}))?)?")
_WIDE = Context(prec=1000, rounding=ROUND_HALF_UP, Emax=10**9, Emin=-(10**9))
DAYS_OF_400_YEARS = 146_097
_EPOCH = date(1970, 1, 1).toordinal()
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def java_trim(text: str) -> str:
    """``String.trim``: characters up to the space removed at both ends."""
    return text.strip(_JAVA_SPACE)


def parse_integer(text: str, bits: int) -> int:
    """A signed whole number of ``bits`` bits."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    value = int(text)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(text)
    return value


def parse_float(text: str) -> float:
    """A floating-point number as ``Double.parseDouble`` reads it: NaN, Infinity, hexadecimal and suffixed forms too."""
    text = java_trim(text)
    if _FLOAT.fullmatch(text):
        return float(text if text.endswith("y") else text.rstrip("fFdD"))
    match = _HEX_FLOAT.fullmatch(text)
    if match and (match.group(2) or match.group(3)):
        return float.fromhex(f"{match.group(1)}0x{match.group(2) or '0'}.{match.group(3)}p{match.group(4)}")
    raise ValueError(text)


def _single(value: float) -> float:
    """The nearest 32-bit number; infinite when it is too large."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def parse_float32(text: str) -> float:
    """A number as ``Float.parseFloat`` reads it: rounded once, not to 64 bits first."""
    double = parse_float(text)
    single = _single(double)
    if not math.isfinite(double) or single == double or not _DECIMAL.fullmatch(java_trim(text).rstrip("fFdD")):
        return single
    exact = Decimal(java_trim(text).rstrip("fFdD"))
    if exact == Decimal(double):
        return single
    other = _single(math.nextafter(double, math.inf if exact > Decimal(double) else -math.inf))
    if other == single or not (math.isfinite(other) and math.isfinite(single)):
        return single
    return min(single, other, key=lambda s: abs(Fraction(s) - Fraction(exact)))


def parse_boolean(text: str) -> bool:
    """Whether the text is ``true`` in any case; every other text is false, as in ``Boolean.parseBoolean``."""
    return text.lower() == "true"


def fit_decimal(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """``value`` rounded half up to ``scale``; None if it then has more than ``precision`` digits, as in Flink."""
    if value and value.adjusted() > precision:
        return None
    decimal = value.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
    return decimal if not decimal or decimal.adjusted() < precision - scale else None


def parse_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """A DECIMAL(precision, scale); None when the number has too many digits before the point."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError(text)
    try:
        return fit_decimal(_WIDE.create_decimal(text), precision, scale)
    except InvalidOperation as error:
        raise ValueError(text) from error


def days_since_epoch(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the Gregorian calendar, for any year. Raises ValueError for a day that is none."""
    cycles, of_cycle = divmod(year, 400)
    return date(2000 + of_cycle, month, day).toordinal() - _EPOCH + (cycles - 5) * DAYS_OF_400_YEARS


def parse_date(text: str, clamp: bool = False) -> int:
    """Days since 1970-01-01 of ``yyyy-MM-dd``.

    Args:
        text: the date; years of more than four digits have a sign.
        clamp: whether a day after the end of a month up to the 31st is taken as its last day, which is what Flink
            does in timestamps, but not in dates.
    """
    match = _DATE.fullmatch(text)
    if not match:
        raise ValueError(text)
    sign, digits = match.group(1), match.group(2)
    if (sign == "+") != (len(digits) > 4) and sign != "-":
        raise ValueError(text)
    year = -int(digits) if sign == "-" else int(digits)
    month, day = int(match.group(3)), int(match.group(4))
    if abs(year) > 999_999_999 or not 1 <= month <= 12 or not 1 <= day <= 31:
        raise ValueError(text)
    last = monthrange(year % 400 + 2000, month)[1]
    return days_since_epoch(year, month, min(day, last) if clamp else day)


def _nanos(match: re.Match[str] | None, text: str) -> int:
    """Nanoseconds of the day; 24:00:00 gives a whole day."""
    if match is None:
        raise ValueError(text)
    hour, minute, second = int(match.group(1)), int(match.group(2)), int(match.group(3) or 0)
    fraction = int((match.group(4) or "").ljust(9, "0"))
    if minute > 59 or second > 59 or hour > 24 or (hour == 24 and (minute or second or fraction)):
        raise ValueError(text)
    return (hour * 3600 + minute * 60 + second) * 10**9 + fraction


def parse_time(text: str) -> int:
    """Nanoseconds of the day of ``HH:mm:ss[.fraction]``, cut to milliseconds as Flink does."""
    return _nanos(_TIME.fullmatch(text), text) % (86400 * 10**9) // 10**6 * 10**6


def parse_iso_time(text: str) -> int:
    """Nanoseconds of the day of ``HH:mm[:ss[.fraction]]``, as ``LocalTime.parse`` reads it."""
    nanos = _nanos(_ISO_TIME.fullmatch(text), text)
    if nanos >= 86400 * 10**9:
        raise ValueError(text)
    return nanos


def timestamp_parser(data_type: LogicalType, standard: str) -> Callable[[str], int]:
    """A reader of timestamps of one type: counts of its unit since 1970, cut and not rounded.

    Args:
        data_type: TIMESTAMP or TIMESTAMP_LTZ; the latter's text ends in ``Z``.
        standard: ``SQL`` (a space between date and time) or ``ISO-8601`` (a ``T``; seconds may be omitted).
    """
    separator, shape = (" ", _TIME) if standard == "SQL" else ("T", _ISO_TIME)
    has_zone = data_type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
    per_second = _PER_SECOND[data_type.time_unit()]

    def read(text: str) -> int:
        body = text
        if has_zone:
            if not text.endswith("Z"):
                raise ValueError(text)
            body = text[:-1]
        day, separator_text, time = body.partition(separator)
        if not separator_text:
            raise ValueError(text)
        nanos = parse_date(day, clamp=True) * 86400 * 10**9 + _nanos(shape.fullmatch(time), text)
        count = nanos * per_second // 10**9
        if per_second < 10**9 and not -(1 << 63) <= count < 1 << 63:
            raise ValueError(text)
        return count

    return read


_RAW = {"DATE": 32, "TIME_WITHOUT_TIME_ZONE": 64, "INTERVAL_DAY_TIME": 64}
"""Bits of a count; timestamps have 64, and those of nanoseconds 128."""


def raw_dtype(data_type: LogicalType) -> pl.DataType:
    """The Polars type of raw values: as :meth:`LogicalType.polars`, with times and dates as the counts they are."""
    import polars as pl

    if data_type.is_timestamp:
        return pl.Int128() if data_type.time_unit() == "ns" else pl.Int64()
    if data_type.root in _RAW:
        return pl.Int32() if _RAW.get(data_type.root) == 32 else pl.Int64()
    if data_type.root == "ARRAY":
        return pl.List(raw_dtype(data_type.children[0]))
    if data_type.root in ("MAP", "MULTISET"):
        value = raw_dtype(data_type.children[1]) if data_type.root == "MAP" else pl.Int32()
        return pl.List(pl.Struct({"key": raw_dtype(data_type.children[0]), "value": value}))
    if data_type.root == "ROW":
        return pl.Struct({f.name: raw_dtype(f.type) for f in data_type.fields})
    return data_type.polars()


def build_series(name: str, values: list[Any], data_type: LogicalType) -> pl.Series:
    """A column of raw values in the column's own type."""
    import polars as pl

    raw = pl.Series(name, values, dtype=raw_dtype(data_type), strict=True)
    return raw.cast(data_type.polars()) if raw.dtype != data_type.polars() else raw


_EXPECTED = {
    "BOOLEAN": "true or false",
    "DATE": "a date such as 2024-01-31",
    "TIME_WITHOUT_TIME_ZONE": "a time such as 12:34:56",
    "FLOAT": "a number",
    "DOUBLE": "a number",
    "CHAR": "a text",
    "VARCHAR": "a text",
    "BINARY": "bytes in Base64",
    "VARBINARY": "bytes in Base64",
    "ARRAY": "a list",
    "ROW": "an object",
    "MAP": "an object",
    "MULTISET": "an object",
    "DECIMAL": "a decimal number",
}


def describe(data_type: LogicalType, standard: str = "SQL") -> str:
    """What a value of a type looks like, for error messages."""
    if data_type.root in INTEGER_BITS:
        bits = INTEGER_BITS[data_type.root]
        return f"a whole number from {-(1 << (bits - 1))} to {(1 << (bits - 1)) - 1}"
    if data_type.is_timestamp:
        sample = "2024-01-31 12:34:56" if standard == "SQL" else "2024-01-31T12:34:56"
        zone = "Z" if data_type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else ""
        return f"a timestamp such as {sample}{zone}"
    return _EXPECTED.get(data_type.root, f"a value of type {data_type.summary()}")
