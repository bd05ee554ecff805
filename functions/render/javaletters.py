"""Letters of Java's date patterns that Polars cannot write, in the English of the United States as Flink's; and what a
field says about a date, for the texts that name it."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from stateplan.common.values.fields import DAYS_OF_400_YEARS, days_since_epoch

_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_QUARTERS = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"]
_2000 = date(2000, 1, 1)
_FROM = days_since_epoch(2000, 1, 1)
_HOUR, _MINUTE = 3600 * 10**9, 60 * 10**9


class Day(NamedTuple):
    """A date of any year; ``number`` is days since 1970-01-01."""

    number: int
    year: int
    month: int
    day: int

    @property
    def weekday(self) -> int:
        """0 for Monday."""
        return (self.number + 3) % 7

    @property
    def of_week(self) -> int:
        """1 for Sunday."""
        return (self.number + 4) % 7 + 1

    @property
    def of_year(self) -> int:
        return self.number - days_since_epoch(self.year, 1, 1) + 1

    @property
    def quarter(self) -> int:
        return (self.month + 2) // 3

    @property
    def week_of_month(self) -> int:
        return (_sunday(self.number) - _sunday(self.number - self.day + 1)) // 7 + 1

    @property
    def week_year(self) -> tuple[int, int]:
        """Year and week: weeks begin on Sunday, and the first one has 1 January."""
        year = self.year
        if _sunday(self.number) >= first_week(year + 1):
            year += 1
        return year, (_sunday(self.number) - first_week(year)) // 7 + 1


def _sunday(number: int) -> int:
    """The Sunday that a day is on or after."""
    return number - (number + 4) % 7


def first_week(year: int) -> int:
    """The day on which the first week of a year begins."""
    return _sunday(days_since_epoch(year, 1, 1))


def day_of(number: int) -> Day:
    """The date this number of days after 1970-01-01."""
    cycles, of_cycle = divmod(number - _FROM, DAYS_OF_400_YEARS)
    day = _2000 + timedelta(of_cycle)
    return Day(number, day.year + 400 * cycles, day.month, day.day)


def _padded_number(value: int, count: int) -> str:
    return f"{'-' if value < 0 else ''}{abs(value):0{count}d}"


def _weekday(day: Day, count: int) -> str:
    if count <= 2:
        return _padded_number(day.of_week, count)
    name = _DAYS[day.weekday]
    return name[:3] if count == 3 else name if count == 4 else name[0]


def _quarter(day: Day, count: int) -> str:
    number = day.quarter
    if count <= 2:
        return _padded_number(number, count)
    return f"Q{number}" if count == 3 else _QUARTERS[number - 1] if count == 4 else str(number)


def _week_based(day: Day, count: int) -> str:
    year = day.week_year[0]
    if count == 2:
        return _padded_number(abs(year) % 100, 2)
    return ("+" if count >= 4 and year >= 10**count else "") + _padded_number(year, count)


_ERAS = {True: ("AD", "Anno Domini", "A"), False: ("BC", "Before Christ", "B")}


_NAMES = ("midnight", "noon", "in the morning", "in the afternoon", "in the evening", "at night")
PERIODS = {name: i for i, name in enumerate(_NAMES)}
"""The times of day that have a name."""
_ENDS = ((6, 5), (12, 2), (18, 3), (21, 4), (24, 5))


def period(minute: int) -> int:
    """Which of :data:`PERIODS` a minute of the day is in."""
    if minute in (0, 720):
        return 1 if minute else 0
    return next(name for end, name in _ENDS if minute < end * 60)


def _period(nanos: int, count: int) -> str:
    """The time of day in words."""
    name = period(nanos // _MINUTE)
    return _NAMES[name] if count < 5 or name > 1 else ("mi", "n")[name]


def _month(day: Day, count: int) -> str:
    return calendar.month_name[day.month][0]


_WRITERS: dict[str, tuple[int, Callable[[Day, int, int], str]]] = {
    "G": (5, lambda day, nanos, count: _ERAS[day.year > 0][max(count - 3, 0)]),
    "Y": (19, lambda day, nanos, count: _week_based(day, count)),
    "M": (5, lambda day, nanos, count: _month(day, count)),
    "L": (5, lambda day, nanos, count: _month(day, count)),
    "Q": (5, lambda day, nanos, count: _quarter(day, count)),
    "q": (5, lambda day, nanos, count: _quarter(day, count)),
    "D": (3, lambda day, nanos, count: _padded_number(day.of_year, count)),
    "w": (2, lambda day, nanos, count: _padded_number(day.week_year[1], count)),
    "W": (1, lambda day, nanos, count: str(day.week_of_month)),
    "E": (5, lambda day, nanos, count: _DAYS[day.weekday][0]),
    "e": (5, lambda day, nanos, count: _weekday(day, count)),
    "c": (5, lambda day, nanos, count: _weekday(day, count)),
    "F": (1, lambda day, nanos, count: str((day.day - 1) % 7 + 1)),
    "g": (19, lambda day, nanos, count: _padded_number(day.number + 40_587, count)),
    "B": (5, lambda day, nanos, count: _period(nanos, count)),
    "K": (2, lambda day, nanos, count: _padded_number(nanos // _HOUR % 12, count)),
    "k": (2, lambda day, nanos, count: _padded_number(nanos // _HOUR or 24, count)),
    "A": (19, lambda day, nanos, count: _padded_number(nanos // 10**6, count)),
    "n": (19, lambda day, nanos, count: _padded_number(nanos % 10**9, count)),
    "N": (19, lambda day, nanos, count: _padded_number(nanos, count)),
}
"""Letter to the most times that it may be repeated, and what it writes of (date, nanoseconds of the day, count)."""

_WITH_POLARS = {"M": 4, "L": 4, "D": 2, "E": 4, "Q": 3}


def is_written(letter: str, count: int) -> bool:
    """Whether :func:`letter_text` writes this letter as often as this."""
    most = _WRITERS[letter][0] if letter in _WRITERS else 0
    if (letter, count) in (("c", 2), ("B", 2), ("B", 3)):
        return False
    return _WITH_POLARS.get(letter, 0) < count <= most


def letter_text(letter: str, count: int, day: int, nanos: int) -> str:
    """The text of a letter for the day since 1970 and the nanoseconds of that day."""
    return _WRITERS[letter][1](day_of(day), nanos, count)


NUMBERS_OF_DATE: dict[str, Callable[[Day], int]] = {
    "E": lambda day: day.weekday,
    "e": lambda day: day.of_week,
    "Q": lambda day: day.quarter,
    "F": lambda day: (day.day - 1) % 7 + 1,
    "w": lambda day: day.week_year[1],
    "Y": lambda day: day.week_year[0],
    "W": lambda day: day.week_of_month,
    "D": lambda day: day.of_year,
}
"""Letter to the number of a date that a text must agree with, where it names both."""


def named_days() -> dict[str, int]:
    """Names of weekdays, long and short, in small letters: 0 for Monday."""
    return {form.lower(): i for i, name in enumerate(_DAYS) for form in (name, name[:3])}


def month_names() -> dict[str, int]:
    """Names of months, long and short, in small letters: 1 for January."""
    names = [*enumerate(calendar.month_name), *enumerate(calendar.month_abbr)]
    return {name.lower(): i for i, name in names if name}
