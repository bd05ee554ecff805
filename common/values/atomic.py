"""Codecs of the types without parts, and the base of all codecs.

Text forms are expressions over a column: SQL (``CAST AS STRING``), Java (``toString``, for print), JSON and CSV as
Flink's formats write them. Single values are Python objects, as user-defined functions accept and return them, and the
constants of plans. NULL stays NULL in each.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.common.values import calendar
from stateplan.common.values.calendar import (
    date_text,
    exact,
    first_digits,
    grouped_digits,
    needed_digits,
    timestamp_text,
)
from stateplan.common.values.clocks import wall_clock
from stateplan.common.values.fields import INTEGER_BITS
from stateplan.common.values.floats import floats_text
from stateplan.common.values.nanoseconds import by_micros, is_fine, of_datetime, to_datetime
from stateplan.common.values.variants import parse_variant

_WIDE = Context(prec=1000)
_CONSTANT = Context(prec=120, rounding=ROUND_HALF_UP)
_EPOCH = dt.datetime(1970, 1, 1)
_MILLI = dt.timedelta(milliseconds=1)


class NoValueError(ValueError):
    """A Python object or a constant that is not a value of the type."""


def of_class(value: Any, *classes: type) -> Any:
    """``value`` when it is of one of the classes. Raises NoValueError."""
    if not isinstance(value, classes):
        raise NoValueError
    return value


@dataclass(frozen=True)
class FieldStyle:
    """How a format writes values.

    Attributes:
        standard: the standard of timestamps: ``SQL`` or ``ISO-8601``.
        decimals: ``scientific`` (100 as 1E+2), ``plain`` (all digits of the scale), ``short`` (plain without zeros at
            the end).
        skip_nulls: whether an object has no fields that are NULL.
        null_key: ``FAIL``, ``DROP`` or ``LITERAL``, for a NULL key of a map.
        null_literal: the key written for NULL with ``LITERAL``.
        null: NULL within a list or row of CSV.
        separator: between the elements of a list or row of CSV.
        functions: whether it is the style of SQL's JSON functions: ``1.0E+10``, keys in order, no escapes beyond those
            that JSON needs.
    """

    standard: str = "SQL"
    decimals: str = "scientific"
    skip_nulls: bool = False
    null_key: str = "FAIL"
    null_literal: str = ""
    null: str = ""
    separator: str = ";"
    functions: bool = False


class Codec:
    """The forms of the values of one type; this one is of whole numbers, and of all whose text is Polars'.

    Attributes:
        quoted: whether JSON has quotes around the text.
        classes: the classes of its Python objects.
        atomic: whether plans have constants of it.
    """

    has_quotes = False
    atomic = True
    classes: tuple[type, ...] = ()

    def __init__(self, t: LogicalType) -> None:
        self.type = t

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        """CAST AS STRING in a session with the time zone ``zone``; the same as :meth:`java` unless said otherwise."""
        return self.java(e)

    def display(self, e: pl.Expr, zone: str) -> pl.Expr:
        """The text in a result that is printed: :meth:`sql`, but that bytes, which may be no text, are ``x'0aff'``."""
        return self.sql(e, zone)

    def legacy(self, e: pl.Expr, zone: str) -> pl.Expr:
        """CAST AS STRING as before Flink 1.15."""
        return self.sql(e, zone)

    def java(self, e: pl.Expr) -> pl.Expr:
        """The text of ``toString`` in Java."""
        return e.cast(pl.String)

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        """The text in JSON and CSV, without quotes."""
        return self.java(e)

    def json(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        """The JSON value."""
        text = self.field(e, style)
        return pl.concat_str(pl.lit('"'), text, pl.lit('"')) if self.has_quotes else text

    def null_keys(self, e: pl.Expr) -> pl.Expr | None:
        """Whether a value has a map with a NULL key; None if it cannot."""
        return None

    def decoder(self) -> Callable[[Any], Any] | None:
        """From a value as Polars returns it to a Python object; None if they are the same."""
        return None

    def encode(self, value: Any) -> Any:
        """From a Python object to a value that Polars takes. Raises NoValueError, or what a conversion raises."""
        if value is None:
            if not self.type.nullable:
                raise NoValueError
            return None
        return self.of_object(value)

    def of_object(self, value: Any) -> Any:
        """:meth:`encode` of an object that is not None."""
        return of_class(value, *self.classes)

    def constant(self, value: Any) -> Any:
        """From a plan's constant to a value that Polars takes. Raises ValueError, TypeError, ArithmeticError."""
        raise NoValueError

    def literal(self, value: Any) -> Any:
        """From a value as Polars returns it to a plan's constant."""
        return value


class _Integer(Codec):
    def of_object(self, value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise NoValueError
        return self.constant(value.__index__())

    def constant(self, value: Any) -> int:
        number, limit = int(value), 1 << (INTEGER_BITS[self.type.root] - 1)
        if isinstance(value, bool) or not -limit <= number < limit:
            raise NoValueError
        return number


class _Boolean(Codec):
    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        return pl.when(e).then(pl.lit("TRUE")).when(~e).then(pl.lit("FALSE"))

    def legacy(self, e: pl.Expr, zone: str) -> pl.Expr:
        return self.java(e)

    def of_object(self, value: Any) -> bool:
        if type(value).__name__ not in ("bool", "bool_"):
            raise NoValueError
        return bool(value)

    def constant(self, value: Any) -> Any:
        return of_class(value, bool)


def _of_big_decimal(text: pl.Expr) -> pl.Expr:
    """Java's texts of DOUBLEs as its ``BigDecimal`` writes them: with an exponent only for numbers that have zeros in
    front of the point, or more than five behind it."""
    parts = text.str.extract_groups(r"^(-?)(\d)\.(\d+)E(-?\d+)$")
    sign, first, rest, exponent = (parts.struct.field(str(n)) for n in range(1, 5))
    power = exponent.cast(pl.Int64)
    point = pl.when(rest.str.len_chars() > power).then(pl.lit(".")).otherwise(pl.lit(""))
    large = pl.concat_str(sign, first, rest.str.slice(0, power.clip(0)), point, rest.str.slice(power.clip(0)))
    small = pl.concat_str(sign, pl.lit("0."), pl.lit("00000").str.slice(0, (-power - 1).clip(0)), first, rest)
    return (
        pl.when(power.is_null())
        .then(text)
        .when((power > 0) & (rest.str.len_chars() >= power))
        .then(large)
        .when((power < 0) & (power >= -6))
        .then(small)
        .otherwise(text.str.replace(r"E(\d)", "E+$1"))
    )


class _Float(Codec):
    def java(self, e: pl.Expr) -> pl.Expr:
        return e.map_batches(floats_text, return_dtype=pl.String, is_elementwise=True)

    def json(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        quote = pl.when(e.is_finite()).then(pl.lit("")).otherwise(pl.lit('"'))
        if style.functions:
            text = self.java(pl.when(e == 0).then(pl.lit(0.0)).otherwise(e.cast(pl.Float64)))
            return pl.concat_str(quote, _of_big_decimal(text), quote)
        return pl.concat_str(quote, self.java(e), quote)

    def of_object(self, value: Any) -> float:
        if isinstance(value, (bool, str)):
            raise NoValueError
        return float(value)

    def constant(self, value: Any) -> float:
        return float(value)


class _Decimal(Codec):
    def __init__(self, t: LogicalType) -> None:
        super().__init__(t)
        self.precision, self.scale = t.precision or 10, t.scale or 0

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        return e.cast(pl.String)

    def java(self, e: pl.Expr) -> pl.Expr:
        return e.cast(pl.String) if self.scale <= 6 else self._patched(e, ~self._tiny(e), e.cast(pl.String), str)

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        plain = e.cast(pl.String)
        if style.functions:
            return self.java(e)
        if style.decimals == "plain":
            return plain
        text = plain.str.strip_chars_end("0").str.strip_suffix(".") if self.scale else plain
        if style.decimals == "short":
            return text
        easy = (~text.str.ends_with("0") if not self.scale else ~plain.str.contains(r"0\.0+$")) | (e == 0)
        if self.scale > 6:
            easy = easy & (~self._tiny(e) | (e == 0))
        return self._patched(e, easy, text, lambda value: str(value.normalize(_WIDE)))

    def _tiny(self, e: pl.Expr) -> pl.Expr:
        return e.abs() < pl.lit("0.000001").cast(self.type.polars())

    def _patched(self, e: pl.Expr, easy: pl.Expr, text: pl.Expr, convert: Callable[[Decimal], str]) -> pl.Expr:
        """``text`` where it is ``easy``, else a text made one by one."""

        def run(columns: Sequence[pl.Series]) -> pl.Series:
            texts, hard, values = columns
            rows = hard.arg_true()
            return texts.scatter(rows, [convert(v) for v in values.gather(rows).to_list()]) if len(rows) else texts

        hard = (~easy & e.is_not_null()).fill_null(False)
        return pl.map_batches([text, hard, e], run, return_dtype=pl.String, is_elementwise=True)

    def of_object(self, value: Any) -> Decimal | None:
        """Rounded half up; NULL if it has too many digits, as in Flink."""
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            raise NoValueError
        decimal = Decimal(value).quantize(Decimal(1).scaleb(-self.scale), context=_CONSTANT)
        return decimal if abs(decimal) < Decimal(10) ** (self.precision - self.scale) else None

    def constant(self, value: Any) -> Decimal:
        number = Decimal(str(value)).quantize(Decimal(1).scaleb(-self.scale), context=_CONSTANT)
        if not number.is_finite() or len(number.as_tuple().digits) > self.precision:
            raise NoValueError
        return number

    def literal(self, value: Decimal) -> str:
        return format(value, "f")


_ESCAPES = {chr(c): f"\\u{c:04X}" for c in range(32)} | {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\b": "\\b",
    "\f": "\\f",
}
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


def _units(match: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04X}" for unit in memoryview(match.group().encode("utf-16-le")).cast("H"))


def _escape(series: pl.Series, functions: bool = False) -> pl.Series:
    """Texts as they are in JSON: characters beyond the basic plane as two escapes, but in ``functions``."""
    if not series.str.contains(r'["\\\x00-\x1f\x{10000}-\x{10ffff}]').any():
        return series
    series = series.str.replace_many(list(_ESCAPES), list(_ESCAPES.values()))
    if not functions and series.str.contains(r"[\x{10000}-\x{10ffff}]").any():
        series = pl.Series([None if v is None else _BEYOND.sub(_units, v) for v in series.to_list()], dtype=pl.String)
    return series


def json_string(text: str) -> str:
    """A text as a JSON string."""
    return f'"{_escape(pl.Series([text])).item()}"'


class _Text(Codec):
    has_quotes = True
    classes = (str,)

    def java(self, e: pl.Expr) -> pl.Expr:
        return e

    def json(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        text = e.map_batches(lambda s: _escape(s, style.functions), return_dtype=pl.String, is_elementwise=True)
        return pl.concat_str(pl.lit('"'), text, pl.lit('"'))

    def constant(self, value: Any) -> Any:
        return of_class(value, str)


class _Variant(_Text):
    """Its text is its JSON, which SQL's functions put into other JSON as it is. In Python and results it is a text."""

    has_quotes = False
    atomic = False

    def json(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        return e if style.functions else super().json(e, style)

    def of_object(self, value: Any) -> str:
        return parse_variant(of_class(value, str), duplicates=True)


def _decode(series: pl.Series) -> pl.Series:
    """Bytes as UTF-8; what is none becomes U+FFFD."""
    try:
        return series.cast(pl.String)
    except pl.exceptions.PolarsError:
        texts = [None if v is None else v.decode("utf-8", "replace") for v in series.to_list()]
        return pl.Series(texts, dtype=pl.String)


def _byte_lists(series: pl.Series) -> pl.Series:
    def text(value: bytes) -> str:
        return "[" + ", ".join(str(b - 256 if b > 127 else b) for b in value) + "]"

    return pl.Series([None if v is None else text(v) for v in series.to_list()], dtype=pl.String)


class _Bytes(Codec):
    has_quotes = True

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        return e.map_batches(_decode, return_dtype=pl.String, is_elementwise=True)

    def display(self, e: pl.Expr, zone: str) -> pl.Expr:
        return pl.concat_str(pl.lit("x'"), e.bin.encode("hex"), pl.lit("'"))

    def java(self, e: pl.Expr) -> pl.Expr:
        return e.map_batches(_byte_lists, return_dtype=pl.String, is_elementwise=True)

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        return e.bin.encode("base64")

    def of_object(self, value: Any) -> bytes:
        return bytes(of_class(value, bytes, bytearray))

    def constant(self, value: Any) -> bytes:
        return base64.b64decode(value)

    def literal(self, value: bytes) -> str:
        return base64.b64encode(value).decode()


class _Date(Codec):
    has_quotes = True

    def java(self, e: pl.Expr) -> pl.Expr:
        return date_text(e)

    def of_object(self, value: Any) -> Any:
        if isinstance(value, dt.datetime):
            raise NoValueError
        return of_class(value, dt.date)

    def constant(self, value: Any) -> dt.date:
        return dt.date.fromisoformat(value)

    def literal(self, value: dt.date) -> str:
        return value.isoformat()


def _no_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


class _Time(Codec):
    has_quotes = True
    classes = (dt.time,)

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        """One digit below the second where the others are zeros, as Flink has it."""
        digits = self.type.precision or 0
        if digits == 0:
            return e.dt.to_string("%H:%M:%S")
        fraction = calendar.first_digits(digits)(e.to_physical() % 10**9, 9)
        zeros = fraction.str.strip_chars_end("0")
        fraction = pl.when(zeros == ".").then(pl.lit(".0")).otherwise(zeros)
        return pl.concat_str(e.dt.to_string("%H:%M:%S"), fraction)

    def java(self, e: pl.Expr) -> pl.Expr:
        return calendar.without_seconds(calendar.time_text(e, grouped_digits))

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        return calendar.time_text(e, needed_digits)

    def constant(self, value: Any) -> dt.time:
        return dt.time.fromisoformat(value[:15])

    def literal(self, value: dt.time) -> str:
        return _no_zeros(value.isoformat())


def parse_moment(value: str) -> tuple[dt.datetime, int]:
    """``2024-01-31 10:00:00.123456789``: seconds as a datetime, and nanoseconds of the second."""
    main, _, fraction = value.replace("T", " ").rstrip("Z").partition(".")
    if main.count(":") == 1:
        main += ":00"
    return dt.datetime.fromisoformat(main), int(fraction.ljust(9, "0")[:9]) if fraction else 0


class _Timestamp(Codec):
    has_quotes = True

    def __init__(self, t: LogicalType) -> None:
        super().__init__(t)
        self.precision = t.precision if t.precision is not None else 6
        self.fine = is_fine(t)

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        if self.fine:
            return timestamp_text(e, self.type, " ", first_digits(self.precision))
        return exact(lambda clock: date_text(e, clock), " %H:%M:%S", self.precision)

    def java(self, e: pl.Expr) -> pl.Expr:
        return calendar.without_seconds(timestamp_text(e, self.type, "T", grouped_digits))

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        return timestamp_text(e, self.type, " " if style.standard == "SQL" else "T", needed_digits)

    def decoder(self) -> Callable[[Any], Any] | None:
        return to_datetime if self.fine else None

    def of_object(self, value: Any) -> Any:
        if of_class(value, dt.datetime).tzinfo is not None:
            raise NoValueError
        return of_datetime(value) if self.fine else value

    def constant(self, value: Any) -> Any:
        moment, nanos = parse_moment(value)
        return of_datetime(moment, nanos) if self.fine else moment + dt.timedelta(microseconds=nanos // 1000)

    def literal(self, value: Any) -> str:
        if self.fine:
            return _no_zeros(f"{to_datetime(value // 10**9 * 10**9)}.{value % 10**9:09}")
        return _no_zeros(value.isoformat(sep=" "))


class _Instant(_Timestamp):
    """TIMESTAMP_LTZ."""

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        return super().sql(by_micros(e, self.type, lambda moment: wall_clock(moment, zone)), zone)

    def java(self, e: pl.Expr) -> pl.Expr:
        return pl.concat_str(timestamp_text(e, self.type, "T", grouped_digits), pl.lit("Z"))

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        return pl.concat_str(super().field(e, style), pl.lit("Z"))

    def decoder(self) -> Callable[[Any], Any] | None:
        return (lambda count: to_datetime(count).replace(tzinfo=dt.UTC)) if self.fine else None

    def of_object(self, value: Any) -> Any:
        instant: dt.datetime = of_class(value, dt.datetime)
        instant = instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)
        return of_datetime(instant.replace(tzinfo=None)) if self.fine else instant

    def constant(self, value: Any) -> Any:
        instant = super().constant(value)
        return instant if self.fine else instant.replace(tzinfo=dt.UTC)

    def literal(self, value: Any) -> str:
        return super().literal(value if self.fine else value.astimezone(dt.UTC).replace(tzinfo=None))


def _two_digits(e: pl.Expr) -> pl.Expr:
    return e.cast(pl.String).str.zfill(2)


def _with_sign(e: pl.Expr, text: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.when(e < 0).then(pl.lit("-")).otherwise(pl.lit("+")), text)


class _Duration(Codec):
    classes = (dt.timedelta,)

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        millis = e.to_physical()
        size = millis.abs()
        clock = (_two_digits(size // per % limit) for per, limit in ((3_600_000, 24), (60_000, 60), (1000, 60)))
        text = pl.format("{} {}:{}:{}.{}", size // 86_400_000, *clock, (size % 1000).cast(pl.String).str.zfill(3))
        return _with_sign(millis, text)

    def java(self, e: pl.Expr) -> pl.Expr:
        return calendar.duration_text(e.to_physical())

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        return e.to_physical().cast(pl.String)

    def constant(self, value: Any) -> dt.timedelta:
        return dt.timedelta(milliseconds=int(value))

    def literal(self, value: dt.timedelta) -> str:
        return str(int(value / _MILLI))


class _Period(_Integer):
    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        size = e.abs()
        return _with_sign(e, pl.format("{}-{}", size // 12, _two_digits(size % 12)))

    def java(self, e: pl.Expr) -> pl.Expr:
        return calendar.period_text(e)

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        return e.cast(pl.String)

    def literal(self, value: int) -> str:
        return str(value)


class Opaque(Codec):
    """Of types without objects and constants, such as NULL and RAW."""

    atomic = False


ATOMIC: dict[str, type[Codec]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), _Integer),
    "BOOLEAN": _Boolean,
    "FLOAT": _Float,
    "DOUBLE": _Float,
    "DECIMAL": _Decimal,
    "CHAR": _Text,
    "VARCHAR": _Text,
    "BINARY": _Bytes,
    "VARBINARY": _Bytes,
    "DATE": _Date,
    "TIME_WITHOUT_TIME_ZONE": _Time,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _Timestamp,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _Instant,
    "INTERVAL_DAY_TIME": _Duration,
    "INTERVAL_YEAR_MONTH": _Period,
    "VARIANT": _Variant,
}
"""Type root to its codec."""
