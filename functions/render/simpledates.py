"""Texts as Java's ``SimpleDateFormat`` reads them: a prefix of the text, fields of any width, values out of range.

The fields are resolved as ``GregorianCalendar`` does: those that the text names last decide which day it is. Unlike
there, dates before 15 October 1582 are Gregorian.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.values.fields import days_since_epoch
from stateplan.common.zonenames import names_of, offset_of_wall_clock, zone_names
from stateplan.functions.render.javaletters import first_week, month_names, named_days
from stateplan.functions.render.javatime import Token, check_simple, tokens

_FIELDS = {
    "G": "era",
    "y": "year",
    "Y": "week year",
    "M": "month",
    "L": "month",
    "w": "week",
    "W": "week of month",
    "D": "day of year",
    "d": "day",
    "F": "day of week in month",
    "E": "day of week",
    "u": "day of week",
    "a": "half",
    "H": "hour",
    "k": "hour",
    "K": "hour of half",
    "h": "hour of half",
    "m": "minute",
    "s": "second",
    "S": "millisecond",
}
_MONTHS = {"M", "L"}
"""Letters of a number; three of them are a name."""
_NAMES = {"G", "E", "a", "z", "Z", "X"}
_NUMBER = re.compile(r"(-?\d+)(?:E(-?\d{1,4}))?", re.ASCII)
_RFC_822 = re.compile(r"(\d\d)(\d\d)", re.ASCII)
_CUSTOM = re.compile(r"(\d\d?):(\d\d)", re.ASCII)
_ISO = (
    re.compile(r"(\d\d)()", re.ASCII),
    _RFC_822,
    re.compile(r"(\d\d):(\d\d)", re.ASCII),
)
_YEARS = ("year", "week year")
_SUNDAY = 1
_EPOCH = dt.datetime(1970, 1, 1)
_MOST_DAYS = 90_000_000
"""About the days that Polars writes."""


class WallClock(NamedTuple):
    """What a text says.

    Attributes:
        millis: since 1970-01-01 00:00:00 of the clock.
        zone: the time zone of the text, if it names one.
        daylight: seconds of summer time, if the name of the zone says them.
        offset: seconds that the text is ahead of UTC, if it says so.
    """

    millis: int
    zone: str | None = None
    daylight: int | None = None
    offset: int | None = None

    def instant(self, zone: str) -> int:
        """Milliseconds since the epoch; ``zone`` is that of texts that name none."""
        if self.offset is not None:
            return self.millis - self.offset * 1000
        standard, daylight = offset_of_wall_clock(self.zone or zone, self.millis // 1000)
        return self.millis - (standard + (daylight if self.daylight is None else self.daylight)) * 1000


@dataclass
class _Fields:
    """The fields of a text, in the order of their last appearance."""

    values: dict[str, int] = field(default_factory=dict)
    is_two_digit_year: bool = False
    zone: str | None = None
    daylight: int | None = None
    offset: int | None = None

    def set(self, name: str, value: int) -> None:
        self.values.pop(name, None)
        self.values[name] = value

    def set_zone(self, zone: str | None = None, *, daylight: int | None = None, offset: int | None = None) -> None:
        self.zone, self.daylight, self.offset = zone, daylight, offset


class _MismatchError(Exception):
    """The text does not fit the pattern."""


@lru_cache(maxsize=256)
def _simple_tokens(pattern: str) -> tuple[tuple[Token, bool], ...]:
    """The pattern taken apart; each token with whether a number ends where its letters do, as the next field is a
    number too. Raises RunError RUN305."""
    parts = tokens(pattern)
    for token in parts:
        check_simple(pattern, token)
    end = Token("", 0)
    return tuple((token, _is_number(after)) for token, after in pairwise([*parts, end]))


def _is_number(token: Token) -> bool:
    if token.letter in _MONTHS:
        return token.count <= 2
    return bool(token.letter) and token.letter not in _NAMES


def names_zone(pattern: str) -> bool:
    """Whether a text of this pattern has a zone. Raises RunError RUN305."""
    return any(token.letter and token.letter in "zZX" for token, _ in _simple_tokens(pattern))


def read_wall_clock(text: str, pattern: str, zone: str = "UTC", now: dt.datetime | None = None) -> WallClock | None:
    """What a text says by a pattern; None where it does not fit.

    Args:
        zone: the time zone whose names come first.
        now: for years of two digits, which are from 80 years before to 20 years after.

    Raises:
        RunError: RUN305, for what is no pattern.
    """
    fields, start = _Fields(), 0
    first = _first_moment(now or dt.datetime.now(dt.UTC))
    try:
        for token, is_limited in _simple_tokens(pattern):
            if token.letter:
                start = _read(text, start, token, is_limited, fields, first.year, zone)
            elif text.startswith(token.text, start):
                start += len(token.text)
            else:
                return None
    except _MismatchError:
        return None
    if not start:
        return None
    millis = _millis(fields.values)
    if millis is not None and fields.is_two_digit_year and millis < (first - _EPOCH) // dt.timedelta(milliseconds=1):
        fields.values.update({name: value + 100 for name, value in fields.values.items() if name in _YEARS})
        millis = _millis(fields.values)
    return None if millis is None else WallClock(millis, fields.zone, fields.daylight, fields.offset)


def _first_moment(now: dt.datetime) -> dt.datetime:
    """The first one that a year of two digits can name."""
    is_leap_day = (now.month, now.day) == (2, 29)
    return now.replace(tzinfo=None, year=now.year - 80, day=28 if is_leap_day else now.day)


def _read(text: str, start: int, token: Token, is_limited: bool, fields: _Fields, first_year: int, zone: str) -> int:
    """Reads a field; the position after it. Raises _MismatchError."""
    letter, count = token.letter, token.count
    at = start + len(text[start:]) - len(text[start:].lstrip(" \t"))
    if at >= len(text):
        raise _MismatchError
    if letter in "zZ":
        return _read_zone(text, at, fields, zone)
    if letter == "X":
        if text[at] != "Z":
            return _read_offset(text, at, _ISO[count - 1], fields)
        fields.set_zone(offset=0)
        return at + 1
    if not _is_number(token):
        return _read_name(text, start, letter, fields)
    if is_limited and start + count > len(text):
        raise _MismatchError
    match = _NUMBER.match(text, at, start + count if is_limited else len(text))
    if match is None:
        raise _MismatchError
    value = _as_int(int(match[1]) * 10 ** max(int(match[2] or 0), 0) // 10 ** max(-int(match[2] or 0), 0))
    if letter in "yY" and count <= 2 and match.end() - at == 2 and match[0].isdigit():
        fields.is_two_digit_year = value == first_year % 100
        value += first_year // 100 * 100 + (100 if value < first_year % 100 else 0)
    fields.set(_FIELDS[letter], _calendar_value(letter, value))
    return match.end()


def _as_int(value: int) -> int:
    """A number as Java's int: without its upper bits, or the nearest if it is no long."""
    if -(2**63) <= value < 2**63:
        return (value + 2**31) % 2**32 - 2**31
    return -(2**31) if value < 0 else 2**31 - 1


def _calendar_value(letter: str, value: int) -> int:
    if letter in "ML":
        return value - 1
    if letter == "k":
        return 0 if value == 24 else value
    if letter == "h":
        return 0 if value == 12 else value
    return value % 7 + 1 if letter == "u" and 1 <= value <= 7 else value


def _names(letter: str) -> Mapping[str, int]:
    """Name in small letters to its value."""
    if letter in "ML":
        return {name: number - 1 for name, number in month_names().items()}
    if letter == "E":  # 1 for Sunday
        return {name: (number + 1) % 7 + 1 for name, number in named_days().items()}
    return {"am": 0, "pm": 1} if letter == "a" else {"bc": 0, "before christ": 0, "ad": 1, "anno domini": 1}


def _read_name(text: str, start: int, letter: str, fields: _Fields) -> int:
    rest = text[start:].lower()
    matches = [(len(name), value) for name, value in _names(letter).items() if rest.startswith(name)]
    if not matches:
        raise _MismatchError
    length, value = max(matches)
    fields.set(_FIELDS[letter], value)
    return start + length


def _read_offset(text: str, at: int, form: re.Pattern[str], fields: _Fields) -> int:
    """Reads a sign, hours and minutes at ``at``. Raises _MismatchError."""
    match = form.match(text, at + 1)
    if text[at] not in "+-" or match is None or int(match[1]) > 23 or int(match[2] or 0) > 59:
        raise _MismatchError
    seconds = int(match[1]) * 3600 + int(match[2] or 0) * 60
    fields.set_zone(offset=-seconds if text[at] == "-" else seconds)
    return match.end()


def _read_zone(text: str, at: int, fields: _Fields, zone: str) -> int:
    """Reads ``+0200``, ``GMT+2:00`` or a name, first one of ``zone``. Raises _MismatchError."""
    if text[at] in "+-":
        return _read_offset(text, at, _RFC_822, fields)
    rest = text[at:].lower()
    if rest.startswith("gmt"):
        if rest[3:4] in ("+", "-"):
            return _read_offset(text, at + 3, _CUSTOM, fields)
        fields.set_zone(offset=0)
        return at + 3
    own = names_of(zone)
    for names in (*([own] if own else []), *zone_names()):
        for i, name in enumerate(names[:4]):
            if rest.startswith(name.lower()):
                saving = names.saving if i >= 2 else 0
                is_ambiguous = names[i + 2].lower() == name.lower() if i < 2 else not saving
                fields.set_zone(names.zone, daylight=None if is_ambiguous else saving)
                return at + len(name)
    raise _MismatchError


def _millis(fields: Mapping[str, int]) -> int | None:
    """Milliseconds of the clock since 1970-01-01 00:00:00; None for a day that Polars does not have."""
    day = _day(fields, {name: stamp for stamp, name in enumerate(fields, start=1)})
    if abs(day) > _MOST_DAYS:
        return None
    seconds = (day * 24 + _hour(fields)) * 3600 + fields.get("minute", 0) * 60 + fields.get("second", 0)
    return seconds * 1000 + fields.get("millisecond", 0)


def _hour(fields: Mapping[str, int]) -> int:
    """The hour by the last field of ``H`` or of ``h`` with ``a``; by one of these alone if it is the only one."""
    names = list(fields)
    last_of_half = (
        max(names.index("hour of half"), names.index("half")) if {"hour of half", "half"} <= fields.keys() else -1
    )
    if "hour" in fields and names.index("hour") > last_of_half:
        return fields["hour"]
    return fields.get("hour of half", 0) + 12 * fields.get("half", 0)


def _day(fields: Mapping[str, int], stamps: Mapping[str, int]) -> int:
    """Days since 1970-01-01. ``stamps`` number the fields in the order of the text."""
    if stamps.get("week year", 0) > stamps.get("year", 0):
        return _day_of_week_year(fields)
    year = fields.get("year", 1970)
    if fields.get("era") == 0:
        year = 1 - year
    letter = _deciding_field(stamps)
    if letter == "day of year":
        return days_since_epoch(year, 1, 1) + fields["day of year"] - 1
    if letter == "week":
        first = first_week(year)
        return _in_week(first, fields) + 7 * (fields["week"] - 1)
    months = year * 12 + fields.get("month", 0)
    first = days_since_epoch(months // 12, months % 12 + 1, 1)
    if letter == "day":
        return first + fields.get("day", 1) - 1
    if letter == "week of month":
        return _in_week(_on_or_before(first, _SUNDAY), fields) + 7 * (fields["week of month"] - 1)
    weekday, number = fields.get("day of week", _SUNDAY), fields.get("day of week in month", 1)
    if number >= 0:
        return _on_or_before(first + 7 * number - 1, weekday)
    following = months + 1
    last = days_since_epoch(following // 12, following % 12 + 1, 1) - 1
    return _on_or_before(last + 7 * (number + 1), weekday)


def _day_of_week_year(fields: Mapping[str, int]) -> int:
    week, weekday = fields.get("week", 1), fields.get("day of week", _SUNDAY)
    if not 1 <= weekday <= 7:  # a number of u: 1 is Monday
        week, weekday = week + (weekday - 1) // 7, (weekday - 1) % 7 + 1
        weekday = weekday % 7 + 1
    return first_week(fields["week year"]) + 7 * (week - 1) + weekday - 1


def _deciding_field(stamps: Mapping[str, int]) -> str:
    """The field that says which day of the year it is (``Calendar.selectFields``)."""
    of_week = stamps.get("day of week", 0)

    def with_weekday(name: str) -> int:
        return max(stamps[name], of_week) if name in stamps and of_week else 0

    candidates = {
        "day": stamps.get("day", 0),
        "week of month": with_weekday("week of month"),
        "day of week in month": with_weekday("day of week in month"),
        "day of year": stamps.get("day of year", 0),
        "week": with_weekday("week"),
    }
    best = max(candidates.values())
    if not best:
        candidates |= {
            "week of month": stamps.get("week of month", 0),
            "day of week in month": max(stamps.get("day of week in month", 0), of_week),
            "week": stamps.get("week", 0),
        }
        best = max(candidates.values())
    if not best or candidates["day"] == best:
        return "day"
    week = stamps.get("week", 0)
    of_month = [n for n in ("week of month", "day of week in month") if candidates[n] == best]
    if any(stamps.get(name, 0) >= week for name in of_month):
        return max(of_month, key=lambda name: stamps.get(name, 0))
    return "day of year" if candidates["day of year"] == best else "week"


def _in_week(sunday: int, fields: Mapping[str, int]) -> int:
    """The day of a week that begins on ``sunday``."""
    return _on_or_before(sunday + 6, fields.get("day of week", _SUNDAY))


def _on_or_before(day: int, weekday: int) -> int:
    """The last day up to ``day`` that is a weekday: 1 for Sunday."""
    return day - (day + 4 - (weekday - 1)) % 7
