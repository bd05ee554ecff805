"""Values out of their text: what CAST to STRING and the pages of a gateway write, as Python objects.

The objects are those that user-defined functions take: NULL is None, DECIMAL a ``Decimal``, MAP a dict, ROW a
:class:`Row`, TIMESTAMP_LTZ a datetime with the session's zone, a year-month interval its months. Digits below the
microsecond are cut.

The text of a list, map or row does not say where a text within it ends. One that has texts or bytes within is therefore
left as it is.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from stateplan.common.types import CONSTRUCTED, INT, LogicalType
from stateplan.common.values.fields import parse_float
from stateplan.common.values.row import Row
from stateplan.common.zone import tz_of

_HEX = re.compile("x'((?:[0-9a-fA-F]{2})*)'")
_DAYS = re.compile(r"([+-])(\d+) (\d+):(\d+):(\d+)(?:\.(\d+))?")
_MONTHS = re.compile(r"([+-])(\d+)-(\d+)")
_TEXTS = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")

Reader = Callable[[str], Any]


def reader(t: LogicalType, zone: str = "UTC") -> Reader:
    """What reads texts of a type. It raises ValueError for a text that is none, and for a date that Python has not.

    Args:
        t: the type.
        zone: the time zone of the session.
    """
    if t.is_integer:
        return int
    if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        local = tz_of(zone)
        return lambda text: _moment(text).replace(tzinfo=local)
    if t.root in CONSTRUCTED:
        return str if _has_texts(t) else _nested(t, zone)
    return _READERS.get(t.root, str)


def _boolean(text: str) -> bool:
    if text.upper() not in ("TRUE", "FALSE"):
        raise ValueError(text)
    return text.upper() == "TRUE"


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(text) from None


def _bytes(text: str) -> bytes:
    digits = _HEX.fullmatch(text)
    return bytes.fromhex(digits[1]) if digits else text.encode()


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text.removesuffix("Z"))


def _duration(text: str) -> dt.timedelta:
    match = _DAYS.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, hours, minutes, seconds = map(int, match.groups()[1:5])
    micros = int((match[6] or "").ljust(6, "0")[:6])
    size = dt.timedelta(days, seconds, micros, minutes=minutes, hours=hours)
    return -size if match[1] == "-" else size


def _months(text: str) -> int:
    match = _MONTHS.fullmatch(text)
    if match is None:
        raise ValueError(text)
    size = int(match[2]) * 12 + int(match[3])
    return -size if match[1] == "-" else size


_READERS: dict[str, Reader] = {
    "BOOLEAN": _boolean,
    "FLOAT": parse_float,
    "DOUBLE": parse_float,
    "DECIMAL": _decimal,
    "BINARY": _bytes,
    "VARBINARY": _bytes,
    "DATE": dt.date.fromisoformat,
    "TIME_WITHOUT_TIME_ZONE": dt.time.fromisoformat,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _moment,
    "INTERVAL_DAY_TIME": _duration,
    "INTERVAL_YEAR_MONTH": _months,
}


def _has_texts(t: LogicalType) -> bool:
    return t.root in _TEXTS or any(map(_has_texts, (*t.children, *(f.type for f in t.fields))))


def _nested(t: LogicalType, zone: str) -> Reader:
    if t.root == "ROW":
        fields, names = [_or_null(f.type, zone) for f in t.fields], [f.name for f in t.fields]
        return lambda text: Row.of(names, [r(x) for r, x in zip(fields, _parts(text, "()"), strict=True)])
    first = _or_null(t.children[0], zone)
    if t.root == "ARRAY":
        return lambda text: [first(part) for part in _parts(text, "[]")]
    second = _or_null(t.children[1] if t.root == "MAP" else INT, zone)

    def entries(text: str) -> dict[Any, Any]:
        pairs = (_cut(part) for part in _parts(text, "{}"))
        return {first(key): second(value) for key, value in pairs}

    return entries


def _or_null(t: LogicalType, zone: str) -> Reader:
    read = reader(t, zone)
    return lambda text: None if text == "NULL" else read(text)


def _depths(text: str) -> Iterator[tuple[int, str, int]]:
    """Position, character, and how many brackets are open before it."""
    depth = 0
    for at, c in enumerate(text):
        depth -= c in ")]}"
        yield at, c, depth
        depth += c in "([{"


def _parts(text: str, brackets: str) -> list[str]:
    """The texts between commas, within brackets."""
    if text[:1] != brackets[0] or text[-1:] != brackets[1]:
        raise ValueError(text)
    inner = text[1:-1]
    ends = [at for at, c, depth in _depths(inner) if c == "," and depth == 0]
    starts = [0, *(at + 2 for at in ends)]
    return [inner[a:b] for a, b in zip(starts, [*ends, len(inner)], strict=True)] if inner else []


def _cut(entry: str) -> tuple[str, str]:
    for at, c, depth in _depths(entry):
        if c == "=" and depth == 0:
            return entry[:at], entry[at + 1 :]
    raise ValueError(entry)
