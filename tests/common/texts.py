"""Single values as text by plain Python: the reference for the codecs' columns.

Values are raw: dates as days, times as nanoseconds of the day, timestamps as counts of their unit, maps as lists of
entries.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from stateplan.common.types import LogicalType
from stateplan.common.values.floats import double_text, float_text
from stateplan.common.values.java_hash import hash_map_order

_NANOS_PER = {"ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86400 * 10**9


def decimal_text(value: Decimal) -> str:
    """``BigDecimal.toString``: plain, or scientific when the number has more than six zeros after the point."""
    return str(value)


def date_text(days: int) -> str:
    """``LocalDate.toString`` of days since 1970-01-01."""
    days += 719468
    era, of_era = divmod(days, 146097)
    of_cycle = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * of_cycle + of_cycle // 4 - of_cycle // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + (3 if shifted < 10 else -9)
    year = of_cycle + era * 400 + (month <= 2)
    text = f"{year:04d}" if 0 <= year <= 9999 else f"+{year}" if year > 9999 else f"-{-year:04d}"
    return f"{text}-{month:02d}-{day:02d}"


def _fraction(nanos: int) -> str:
    if nanos == 0:
        return ""
    if nanos % 10**6 == 0:
        return f".{nanos // 10**6:03d}"
    if nanos % 10**3 == 0:
        return f".{nanos // 10**3:06d}"
    return f".{nanos:09d}"


def time_text(nanos: int, seconds: bool = False) -> str:
    """``LocalTime.toString`` of nanoseconds of the day; seconds are left out when there are none, unless asked for."""
    rest, fraction = divmod(nanos, 10**9)
    minutes, second = divmod(rest, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{second:02d}{_fraction(fraction)}" if second or fraction or seconds else text


def timestamp_text(count: int, unit: str, zoned: bool) -> str:
    """``LocalDateTime.toString``, or ``Instant.toString`` when ``zoned``, of a count of units since 1970."""
    days, nanos = divmod(count * _NANOS_PER[unit], _DAY)
    return f"{date_text(days)}T{time_text(nanos, seconds=zoned)}{'Z' if zoned else ''}"


def duration_text(millis: int) -> str:
    """``Duration.toString``: PT26H3M4.567S."""
    if millis == 0:
        return "PT0S"
    seconds = -(-millis // 1000) if millis < 0 else millis // 1000
    rest = abs(millis) % 1000
    sign = -1 if seconds < 0 else 1
    hours, minutes, secs = abs(seconds) // 3600 * sign, abs(seconds) // 60 % 60 * sign, abs(seconds) % 60 * sign
    text = "PT" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if secs == 0 and rest == 0 and text != "PT":
        return text
    shown = f"-{secs}" if millis < 0 and secs == 0 and rest else str(secs)
    return text + shown + (f".{rest:03d}".rstrip("0") if rest else "") + "S"


def period_text(months: int) -> str:
    """``Period.toString`` of months: P1Y2M."""
    if months == 0:
        return "P0D"
    sign = -1 if months < 0 else 1
    years, rest = abs(months) // 12 * sign, abs(months) % 12 * sign
    return "P" + (f"{years}Y" if years else "") + (f"{rest}M" if rest else "")


def _byte_list(value: bytes) -> str:
    return "[" + ", ".join(str(b - 256 if b > 127 else b) for b in value) + "]"


def value_text(declared: LogicalType, value: Any) -> str:
    """The text of one raw value ; ``null`` for None.

    Rows are ``+I[a, b]``, lists and bytes ``[a, b]``, maps ``{k=v}`` in the order of Java's HashMap.
    """
    if value is None:
        return "null"
    root = declared.root
    simple: dict[str, Callable[[Any], str]] = {
        "BOOLEAN": lambda v: "true" if v else "false",
        "FLOAT": float_text,
        "DOUBLE": double_text,
        "DECIMAL": decimal_text,
        "BINARY": _byte_list,
        "VARBINARY": _byte_list,
        "INTERVAL_YEAR_MONTH": period_text,
        "INTERVAL_DAY_TIME": duration_text,
        "DATE": date_text,
        "TIME_WITHOUT_TIME_ZONE": time_text,
    }
    if root in simple:
        return simple[root](value)
    if declared.is_timestamp:
        return timestamp_text(value, declared.time_unit(), root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
    if root == "ARRAY":
        return "[" + ", ".join(value_text(declared.children[0], v) for v in value) + "]"
    if root in ("MAP", "MULTISET"):
        key_type = declared.children[0]
        value_type = declared.children[1] if root == "MAP" else LogicalType("INTEGER")
        order = hash_map_order([e["key"] for e in value], key_type.root == "BIGINT")
        return (
            "{"
            + ", ".join(
                f"{value_text(key_type, value[i]['key'])}={value_text(value_type, value[i]['value'])}" for i in order
            )
            + "}"
        )
    if root == "ROW":
        return "+I[" + ", ".join(value_text(f.type, value[f.name]) for f in declared.fields) + "]"
    return str(value)


_WIDE = Context(prec=1000)
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def decimal_field(value: Decimal, scientific: bool) -> str:
    """A decimal as Jackson writes it: with ``scientific`` without trailing zeros (100 as 1E+2), else plain."""
    return str(value.normalize(_WIDE)) if scientific else f"{value:f}"


def _needed(text: str, count: int, width: int) -> str:
    return f"{text}.{count:0{width}d}".rstrip("0") if count else text


def time_field(nanos: int) -> str:
    """``HH:mm:ss[.fraction]`` of nanoseconds of the day."""
    rest, fraction = divmod(nanos, 10**9)
    return _needed(time_text(rest * 10**9, seconds=True), fraction, 9)


def timestamp_field(count: int, declared: LogicalType, standard: str) -> str:
    """A timestamp in the SQL or ISO-8601 form; TIMESTAMP_LTZ in UTC with ``Z``."""
    per_second = _PER_SECOND[declared.time_unit()]
    seconds, fraction = divmod(count, per_second)
    days, second = divmod(seconds, 86400)
    separator = " " if standard == "SQL" else "T"
    text = f"{date_text(days)}{separator}{time_text(second * 10**9, seconds=True)}"
    zone = "Z" if declared.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else ""
    return _needed(text, fraction, len(str(per_second)) - 1) + zone


def scalar_field(value: Any, declared: LogicalType, standard: str, scientific: bool) -> str:
    """The text of one raw value that is not a container."""
    root = declared.root
    if root == "BOOLEAN":
        return "true" if value else "false"
    if root == "DOUBLE":
        return double_text(value)
    if root == "FLOAT":
        return float_text(value)
    if root == "DECIMAL":
        return decimal_field(value, scientific)
    if root == "DATE":
        return date_text(value)
    if root == "TIME_WITHOUT_TIME_ZONE":
        return time_field(value)
    if declared.is_timestamp:
        return timestamp_field(value, declared, standard)
    if root in ("BINARY", "VARBINARY"):
        return base64.b64encode(value).decode()
    return str(value)
