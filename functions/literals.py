"""Constants, typed and written as Flink types and writes them in a plan."""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import re
from decimal import Decimal

from stateplan.common.errors import Place, SqlError, nearest
from stateplan.common.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, LogicalType
from stateplan.functions.rex import Literal
from stateplan.functions.typerules import SYMBOL, binary, char, decimal, time, timestamp

SPANS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")
_DAYS = ("DOY", "DOW", "ISODOW", "ISOYEAR")
CLOCK_UNITS = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND")
TIME_UNITS = (*SPANS, *_DAYS, *CLOCK_UNITS, "EPOCH", "DECADE", "CENTURY", "MILLENNIUM")
"""The units of EXTRACT, FLOOR and CEIL; spans and units of the clock are those of TIMESTAMPADD, too."""

_INT_MAX, _BIGINT_MAX = 2**31 - 1, 2**63 - 1


def string_literal(text: str) -> Literal:
    """``'abc'``: CHAR(3) NOT NULL."""
    return Literal(char(utf16_length(text), nullable=False), text)


def utf16_length(text: str) -> int:
    """The length of a text in Java."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def number_literal(text: str, place: Place | None = None) -> Literal:
    """An unsigned (or ``-``-signed) number as written in SQL.

    ``1`` is INT, or BIGINT where it is too large; ``1.50`` is DECIMAL(3, 2), all written digits counting;
    ``1e0`` is DOUBLE.

    Raises:
        SqlError: SQL205, for a number outside of BIGINT or of 38 digits.
    """
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if "e" in digits.lower():
        return Literal(DOUBLE.not_null(), str(Decimal(text)))
    if "." in digits and not digits.endswith("."):
        precision, scale = len(digits) - 1, len(digits) - digits.index(".") - 1
        if precision > 38:
            raise SqlError("SQL205", text=text, place=place)
        return Literal(decimal(precision, scale, nullable=False), str(Decimal(sign + digits)))
    value = int(sign + digits.rstrip("."))
    if -_INT_MAX - 1 <= value <= _INT_MAX:
        return Literal(INT.not_null(), value)
    if -_BIGINT_MAX - 1 <= value <= _BIGINT_MAX:
        return Literal(BIGINT.not_null(), value)
    raise SqlError("SQL205.out_of_range", text=text, largest=_BIGINT_MAX, smallest=-_BIGINT_MAX - 1, place=place)


def boolean_literal(value: bool) -> Literal:
    return Literal(BOOLEAN.not_null(), value)


def null_literal(of: LogicalType = NULL) -> Literal:
    """NULL, of the NULL type or of the nullable ``of``."""
    return Literal(of.as_nullable(), None)


def binary_literal(hexadecimal: str, place: Place | None = None) -> Literal:
    """``x'0aff'``: BINARY(2) NOT NULL. Raises SqlError SQL206 for an odd number of, or for other than hex digits."""
    try:
        data = bytes.fromhex(hexadecimal)
    except ValueError:
        data = None
    if data is None or len(hexadecimal) % 2:
        raise SqlError(
            "SQL206", literal=f"x'{hexadecimal:.40}'", place=place, expected="an even number of hexadecimal digits"
        )
    return Literal(binary(len(data), nullable=False), base64.b64encode(data).decode())


def _bad(kind: str, text: str, form: str, place: Place | None) -> SqlError:
    return SqlError("SQL206", literal=f"{kind} '{text:.40}'", place=place, expected=f"{kind} '{form}'")


def date_literal(text: str, place: Place | None = None) -> Literal:
    """``DATE '2024-01-31'``. Raises SqlError SQL206 for text that is not a date."""
    try:
        if not re.fullmatch(r"\d{4}-\d\d?-\d\d?", text.strip()):
            raise ValueError
        day = dt.date(*(int(p) for p in text.strip().split("-")))
    except ValueError:
        raise _bad("DATE", text, "2024-01-31", place) from None
    return Literal(DATE.not_null(), day.isoformat())


_CLOCK = r"(\d\d?):(\d\d?):(\d\d?)(?:\.(\d{0,9}))?"


def _clock(match: re.Match[str], skip: int) -> tuple[str, int]:
    hour, minute, second, fraction = match.groups()[skip : skip + 4]
    dt.time(int(hour), int(minute), int(second))
    text = f"{int(hour):02}:{int(minute):02}:{int(second):02}"
    significant = (fraction or "").rstrip("0")
    return text + (f".{significant}" if significant else ""), len(fraction or "")


def time_literal(text: str, place: Place | None = None) -> Literal:
    """``TIME '10:00:00.5'``: TIME(1). Raises SqlError SQL206 for text that is not a time."""
    match = re.fullmatch(_CLOCK, text.strip())
    try:
        if match is None:
            raise ValueError
        value, precision = _clock(match, 0)
    except ValueError:
        raise _bad("TIME", text, "10:00:00", place) from None
    return Literal(time(precision, nullable=False), value)


def timestamp_literal(text: str, place: Place | None = None) -> Literal:
    """``TIMESTAMP '2024-01-31 10:00:00.50'``: TIMESTAMP(2). Raises SqlError SQL206 for other text."""
    match = re.fullmatch(r"(\d{4})-(\d\d?)-(\d\d?) " + _CLOCK, text.strip())
    try:
        if match is None:
            raise ValueError
        day = dt.date(int(match[1]), int(match[2]), int(match[3]))
        value, precision = _clock(match, 3)
    except ValueError:
        raise _bad("TIMESTAMP", text, "2024-01-31 10:00:00", place) from None
    return Literal(timestamp(precision, nullable=False), f"{day.isoformat()} {value}")


UNIT_MILLIS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000}
_MONTHS = {"YEAR": 12, "MONTH": 1}
_ORDER = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_WIDER = {"WEEK": ("DAY", 7), "QUARTER": ("MONTH", 3)}
_INTERVAL_TEXTS = {"YEAR": "YEAR(2)", "DAY": "DAY(2)", "SECOND": "SECOND(6)"}


def interval_type(
    start: str, end: str | None = None, precision: int | None = None, fraction: int | None = None
) -> LogicalType:
    """The type of an interval from ``start`` to ``end``, as Flink writes it: ``INTERVAL DAY(2) TO HOUR NOT NULL``."""
    start = _WIDER.get(start, (start, 1))[0]
    first = _INTERVAL_TEXTS.get(start, start)
    if precision is not None and start == "SECOND" and fraction is None:
        fraction = 6
    if fraction is not None and start == "SECOND":
        first = f"SECOND({fraction})"
    elif precision is not None and precision != 2:
        first = f"{start}({precision})"
    resolution = (
        first if end is None or end == start else f"{first} TO {_INTERVAL_TEXTS['SECOND'] if end == 'SECOND' else end}"
    )
    root = "INTERVAL_YEAR_MONTH" if start in _MONTHS else "INTERVAL_DAY_TIME"
    return LogicalType(root, nullable=False, resolution=resolution)


_SEPARATORS = {("YEAR", "MONTH"): "-", ("DAY", "HOUR"): " ", ("HOUR", "MINUTE"): ":", ("MINUTE", "SECOND"): ":"}


def interval_literal(
    text: str,
    start: str,
    end: str | None = None,
    precision: int | None = None,
    fraction: int | None = None,
    place: Place | None = None,
) -> Literal:
    """``INTERVAL '1 02:30' DAY TO MINUTE``: the value is milliseconds, or months for YEAR and MONTH.

    Args:
        text: what is between the quotes, with an optional sign.
        start, end: units in upper case; WEEK is DAY times 7, QUARTER is MONTH times 3.
        precision: leading precision, as of DAY(3).
        fraction: fractional precision of SECOND(2, 3).

    Raises:
        SqlError: SQL206, for text that does not fit the units or units that do not exist.
    """
    base, factor = _WIDER.get(start, (start, 1))
    error = _bad(f"INTERVAL ({start}{' TO ' + end if end else ''})", text, "a number", place)
    if base not in _ORDER or (end is not None and (end not in _ORDER or _ORDER.index(end) < _ORDER.index(base))):
        raise error
    units = _ORDER[_ORDER.index(base) : _ORDER.index(end or base) + 1]
    parts = [r"(\d+)"]
    for before, unit in itertools.pairwise(units):
        separator = _SEPARATORS.get((before, unit))
        if separator is None:
            raise error
        parts.append(re.escape(separator) + r"(\d+)")
    pattern = "".join(parts) + (r"(?:\.(\d{1,9}))?" if units[-1] == "SECOND" else "")
    match = re.fullmatch(r"\s*([+-]?)" + pattern + r"\s*", text)
    if match is None:
        raise error
    size = _MONTHS if units[0] in _MONTHS else UNIT_MILLIS
    total = sum(int(n) * size[u] for n, u in zip(match.groups()[1:], units, strict=False))
    if units[-1] == "SECOND" and match.groups()[-1]:
        total += int(match.groups()[-1].ljust(3, "0")[:3])
    total *= factor * (-1 if match[1] == "-" else 1)
    return Literal(interval_type(base, end, precision, fraction), str(total))


def symbol(name: str, value: str) -> Literal:
    """A constant of one of Calcite's enums, such as ``TIME_UNIT_RANGE.DAY``."""
    return Literal(SYMBOL, value, symbol=name)


def unit_literal(unit: str, place: Place | None = None) -> Literal:
    """The unit of EXTRACT, FLOOR TO, CEIL TO, TIMESTAMPADD and TIMESTAMPDIFF. Raises SqlError SQL206."""
    name = unit.upper()
    if name not in TIME_UNITS:
        units, hint = ", ".join(TIME_UNITS), nearest(name, TIME_UNITS)
        raise SqlError("SQL206", literal=f"the unit of time {unit!r:.40}", place=place, expected=units, hint=hint)
    return symbol("TIME_UNIT_RANGE", name)


def trim_flag(flag: str) -> Literal:
    """``BOTH``, ``LEADING`` or ``TRAILING``: the first operand of TRIM."""
    return symbol("TRIM", flag.upper())
