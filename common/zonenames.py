"""Names of time zones in English, as Java 17 writes and reads them: ``Pacific Standard Time``, ``PST``."""

from __future__ import annotations

import datetime as dt
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from stateplan.common.zone import fixed_zone, java_time_zone, tz_of

_FILE = Path(__file__).with_suffix(".txt")
"""Lines of ``DateFormatSymbols.getZoneStrings()``, in Java's order: four names, and the zones that have them."""

_JANUARY, _JULY = 1_704_067_200, 1_719_792_000
"""Seconds since the epoch of the first days of these months in 2024."""
_EPOCH = dt.datetime(1970, 1, 1)
_FIRST, _LAST = (
    (moment - _EPOCH) // dt.timedelta(seconds=1) for moment in (dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1))
)
_CYCLE = 146_097 * 86_400
"""Seconds of 400 years, after which dates and weekdays are the same."""


class ZoneNames(NamedTuple):
    """The names of a zone in winter and in summer.

    Attributes:
        zone: the first zone in Java's order that has these names.
    """

    long_standard: str
    short_standard: str
    long_daylight: str
    short_daylight: str
    zone: str

    @property
    def saving(self) -> int:
        """What summer time adds in our days, in seconds."""
        return max(offset_at(self.zone, second).daylight for second in (_JANUARY, _JULY))

    def name(self, *, is_daylight: bool, is_long: bool) -> str:
        return self[2 * is_daylight + (not is_long)]


class Offset(NamedTuple):
    """How far a zone is ahead of UTC at some time, in seconds: without summer time, and what summer time adds."""

    standard: int
    daylight: int


@cache
def zone_names() -> tuple[ZoneNames, ...]:
    """All names, in the order in which Java looks for them."""
    return tuple(names for names, _ in _lines())


@cache
def _lines() -> tuple[tuple[ZoneNames, tuple[str, ...]], ...]:
    out = []
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        standard, short_standard, daylight, short_daylight, zones = line.split("|")
        ids = tuple(zones.split())
        first = java_time_zone(ids[0])
        out.append((ZoneNames(standard, short_standard, daylight, short_daylight, first), ids))
    return tuple(out)


@cache
def _by_zone() -> dict[str, ZoneNames]:
    return {zone: names for names, zones in _lines() for zone in zones}


def names_of(zone: str) -> ZoneNames | None:
    """The names of a zone; None if it has none."""
    names = _by_zone().get(zone)
    return None if names is None else names._replace(zone=zone)


def name_at(zone: str, seconds: int, *, is_long: bool) -> str:
    """The name that a zone has at an instant, in seconds since the epoch; ``GMT+08:00`` where it has none."""
    offset = offset_at(zone, seconds)
    names = _by_zone().get(zone)
    if names is None:
        return fixed_zone(offset.standard + offset.daylight)
    return names.name(is_daylight=bool(offset.daylight), is_long=is_long)


@lru_cache(maxsize=4096)
def offset_at(zone: str, seconds: int) -> Offset:
    """The offset of a zone at an instant, in seconds since the epoch."""
    return _offset(zone, _within_python(seconds).replace(tzinfo=dt.UTC).astimezone(tz_of(zone)))


@lru_cache(maxsize=4096)
def offset_of_wall_clock(zone: str, seconds: int) -> Offset:
    """The offset of a zone when its clocks show a time, in seconds since 1970-01-01 00:00:00 of that clock. The later
    offset counts where the clock shows a time twice, and the earlier one where it skips it."""
    skipped_or_later = _within_python(seconds).replace(tzinfo=tz_of(zone), fold=1)
    moment = skipped_or_later.astimezone(dt.UTC).astimezone(tz_of(zone))
    earlier = skipped_or_later.replace(fold=0)
    is_skipped = moment.replace(tzinfo=None) != skipped_or_later.replace(tzinfo=None)
    return _offset(zone, earlier if is_skipped else skipped_or_later)


def _within_python(seconds: int) -> dt.datetime:
    """The moment, or one of the same day in another 400 years after those that Python has; the first one before."""
    seconds -= max(0, -(-(seconds - _LAST) // _CYCLE)) * _CYCLE
    return _EPOCH + dt.timedelta(seconds=max(seconds, _FIRST))


def _offset(zone: str, moment: dt.datetime) -> Offset:
    total = moment.utcoffset() or dt.timedelta()
    daylight = moment.dst() or dt.timedelta()
    if daylight < dt.timedelta():  # Java knows no winter time that is behind the standard time
        daylight = dt.timedelta()
    elif not daylight and _has_winter_time(zone, moment.year):
        daylight = dt.timedelta(hours=1)
    return Offset((total - daylight) // dt.timedelta(seconds=1), daylight // dt.timedelta(seconds=1))


@lru_cache(maxsize=4096)
def _has_winter_time(zone: str, year: int) -> bool:
    """Whether the zone goes back from its standard time in a year, as Dublin and Casablanca do."""
    days = (dt.datetime(year, month, day, tzinfo=tz_of(zone)) for month in range(1, 13) for day in (1, 15))
    return any((day.dst() or dt.timedelta()) < dt.timedelta() for day in days)
