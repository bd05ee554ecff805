"""Letters of Java's ``DateTimeFormatter`` that Polars cannot write, in the English of the United States as Flink's."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable

_EPOCH = dt.date(1970, 1, 1).toordinal()
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_QUARTERS = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"]


def _of_sunday(day: dt.date) -> int:
    """The day of the week, Sunday as 1."""
    return day.isoweekday() % 7 + 1


def _first_sunday_before(day: dt.date) -> int:
    return day.toordinal() - (_of_sunday(day) - 1)


def _week_year(day: dt.date) -> tuple[int, int]:
    """Year and week of a date: weeks begin on Sunday, and the first one has 1 January."""
    year = day.year
    if year < dt.MAXYEAR and _first_sunday_before(day) >= _first_sunday_before(dt.date(year + 1, 1, 1)):
        year += 1
    return year, (_first_sunday_before(day) - _first_sunday_before(dt.date(year, 1, 1))) // 7 + 1


def _week_of_month(day: dt.date) -> int:
    return (_first_sunday_before(day) - _first_sunday_before(day.replace(day=1))) // 7 + 1


def _padded(value: int, count: int) -> str:
    return str(value).zfill(count)


def _weekday(day: dt.date, count: int) -> str:
    if count <= 2:
        return _padded(_of_sunday(day), count)
    name = _DAYS[day.weekday()]
    return name[:3] if count == 3 else name if count == 4 else name[0]


def _quarter(day: dt.date, count: int) -> str:
    number = (day.month + 2) // 3
    if count <= 2:
        return _padded(number, count)
    return f"Q{number}" if count == 3 else _QUARTERS[number - 1] if count == 4 else str(number)


def _week_based(day: dt.date, count: int) -> str:
    year = _week_year(day)[0]
    return _padded(year % 100, 2) if count == 2 else _padded(year, count)


_WRITTEN: dict[str, tuple[int, Callable[[dt.date, int, int], str]]] = {
    "G": (5, lambda day, nanos, count: "AD" if count <= 3 else "Anno Domini" if count == 4 else "A"),
    "Y": (19, lambda day, nanos, count: _week_based(day, count)),
    "M": (5, lambda day, nanos, count: calendar.month_name[day.month][0]),
    "L": (5, lambda day, nanos, count: calendar.month_name[day.month][0]),
    "Q": (5, lambda day, nanos, count: _quarter(day, count)),
    "q": (5, lambda day, nanos, count: _quarter(day, count)),
    "D": (3, lambda day, nanos, count: _padded(day.timetuple().tm_yday, count)),
    "w": (2, lambda day, nanos, count: _padded(_week_year(day)[1], count)),
    "W": (1, lambda day, nanos, count: str(_week_of_month(day))),
    "E": (5, lambda day, nanos, count: _DAYS[day.weekday()][0]),
    "e": (5, lambda day, nanos, count: _weekday(day, count)),
    "c": (5, lambda day, nanos, count: _weekday(day, count)),
    "F": (1, lambda day, nanos, count: str((day.day - 1) % 7 + 1)),
    "K": (2, lambda day, nanos, count: _padded(nanos // (3600 * 10**9) % 12, count)),
    "k": (2, lambda day, nanos, count: _padded(nanos // (3600 * 10**9) or 24, count)),
    "A": (19, lambda day, nanos, count: _padded(nanos // 10**6, count)),
    "n": (19, lambda day, nanos, count: _padded(nanos % 10**9, count)),
    "N": (19, lambda day, nanos, count: _padded(nanos, count)),
}
"""Letter to the most times that it may be repeated, and what it writes of (date, nanoseconds of the day, count)."""

_WITH_POLARS = {"M": 4, "L": 4, "D": 2, "E": 4, "Q": 3}


def is_written(letter: str, count: int) -> bool:
    """Whether :func:`written` writes this letter as often as this."""
    most = _WRITTEN[letter][0] if letter in _WRITTEN else 0
    return _WITH_POLARS.get(letter, 0) < count <= most and (letter, count) != ("c", 2)


def written(letter: str, count: int, day: int, nanos: int) -> str:
    """The text of a letter for the day since 1970 and the nanoseconds of that day."""
    return _WRITTEN[letter][1](dt.date.fromordinal(day + _EPOCH), nanos, count)
