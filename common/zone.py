"""Time zones by Java's names: that of the session (``table.local-time-zone``), and those that are passed to
functions."""

from __future__ import annotations

import datetime as dt
import os
import re
import time
import zoneinfo
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_OFFSET = re.compile(r"(GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?", re.ASCII)
_CUSTOM = re.compile(r"GMT([+-])(?:(\d{1,2}):(\d\d)|(\d{1,2})(\d\d)|(\d{1,2}))", re.ASCII)
_UNKNOWN_TO_JAVA = frozenset({"EST", "MST", "HST", "ROC", "Factory", "localtime", "posixrules"})
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""``ZoneId.SHORT_IDS``: names that only ``java.util.TimeZone`` knows."""
_LONGEST = 18 * 3600


def local_time_zone(session: Mapping[str, str]) -> str:
    """The zone's id; ``default`` is the machine's zone, as Java finds it: ``TZ``, then ``/etc/localtime``, else UTC."""
    zone = session.get("table.local-time-zone", "default")
    return _machine_zone() if zone == "default" else session_zone(zone) or zone


@cache
def session_zone(text: str) -> str | None:
    """The zone that a value of ``table.local-time-zone`` names: an id of a region, or ``GMT+08:00``; None where Flink
    takes it for none.

    Flink takes what ``java.util.TimeZone`` and ``java.time.ZoneId`` understand alike, so ``UTC+8``, ``+08:00`` and
    ``PST`` are none (``TableConfig.getLocalTimeZone``).
    """
    zone = zone_id(text)
    offset = _OFFSET.fullmatch(text)
    if offset is None:
        return zone if text not in ("UT", "Z") else None
    return zone if offset[1] == "GMT" and offset[5] is None else None


@cache
def zone_id(text: str) -> str | None:
    """The zone that ``java.time.ZoneId.of`` makes of a text: a region, ``UTC``, ``GMT``, or an offset such as
    ``+08:00`` and ``GMT+08:00``; None for others."""
    if text in ("Z", "UTC", "GMT", "UT"):
        return "GMT" if text == "GMT" else "UTC"
    match = _OFFSET.fullmatch(text)
    if match is None:
        return text if _is_region(text) else None
    prefix, sign, hours, minutes, seconds = match.groups()
    digits = text[len(prefix or "") + 1 :]
    if minutes is not None and len(hours) == 1:
        return None
    if seconds is not None and digits.count(":") not in (0, 2):
        return None
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    if int(minutes or 0) > 59 or int(seconds or 0) > 59 or total > _LONGEST:
        return None
    return fixed_zone(-total if sign == "-" else total)


def fixed_zone(seconds: int) -> str:
    """The id of the zone that is always so far east of Greenwich: ``GMT+08:00``, or ``GMT``."""
    if not seconds:
        return "GMT"
    hours, rest = divmod(abs(seconds), 3600)
    text = f"GMT{'-' if seconds < 0 else '+'}{hours:02d}:{rest // 60:02d}"
    return f"{text}:{rest % 60:02d}" if rest % 60 else text


@cache
def java_time_zone(text: str) -> str:
    """The zone that ``java.util.TimeZone.getTimeZone`` makes of a text: also ``PST`` and ``GMT+8:00``; GMT for what it
    does not know."""
    if text in _SHORT:
        return zone_id(_SHORT[text]) or "GMT"
    custom = _CUSTOM.fullmatch(text)
    if custom is not None:
        sign, a, b, c, d, e = custom.groups()
        hours, minutes = int(a or c or e), int(b or d or 0)
        total = hours * 3600 + minutes * 60
        return fixed_zone(-total if sign == "-" else total) if hours <= 23 and minutes <= 59 else "GMT"
    return text if _is_region(text) or text == "UTC" else "GMT"


@cache
def is_abbreviation(text: str) -> bool:
    """Whether a zone goes by this name in summer or winter, such as ``PDT``."""
    return text in _SHORT or text in _abbreviations()


@cache
def _abbreviations() -> frozenset[str]:
    days = [dt.datetime(2024, month, 1) for month in (1, 7)]
    names = {zoneinfo.ZoneInfo(name).tzname(day) for name in _regions() for day in days}
    return frozenset(name for name in names if name and name.isalpha())


def _is_region(text: str) -> bool:
    return text not in _UNKNOWN_TO_JAVA and text in _regions()


@cache
def _regions() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


@cache
def fixed_offset(zone: str) -> int | None:
    """Seconds that a zone is always ahead of UTC; None for a zone of a region."""
    if zone in ("UTC", "GMT", "UT", "Z"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    _, sign, hours, minutes, seconds = match.groups()
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return -total if sign == "-" else total


@cache
def tz_of(zone: str) -> dt.tzinfo:
    """The zone of Python. Raises ZoneInfoNotFoundError or ValueError for none."""
    offset = fixed_offset(zone)
    return zoneinfo.ZoneInfo(zone) if offset is None else dt.timezone(dt.timedelta(seconds=offset))


def _machine_zone() -> str:
    """As Java finds it. For what is no zone of Java, such as the rules ``CET-1CEST,M3.5.0,M10.5.0/3``, it takes the
    offset from UTC that the system has now (``TimeZone.setDefaultZone``)."""
    text = os.environ.get("TZ", "").removeprefix(":").removeprefix("posix/")
    if not text:
        return _installed_zone()
    zone = java_time_zone(text)
    return zone if zone != "GMT" or text == "GMT" else fixed_zone(time.localtime().tm_gmtoff)


@cache
def _installed_zone() -> str:
    """The zone of ``/etc/localtime`` when it was requested first: Java, too, reads it once."""
    target = os.path.realpath("/etc/localtime")
    _, has_zoneinfo, name = target.partition("/zoneinfo/")
    return name if has_zoneinfo and Path(target).exists() and name not in ("Etc/UTC", "UCT", "Etc/UCT") else "UTC"
