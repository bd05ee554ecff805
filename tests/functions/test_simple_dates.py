"""Texts and patterns of Java's ``SimpleDateFormat``, next to what Java 17 says about them.

The lines of ``simple_dates.jsonl`` are: ``P`` to parse or ``F`` to format, a time zone, a pattern, a text or
milliseconds since the epoch, and Java's answer: milliseconds or a text, null where the text does not fit, or
``no pattern``.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import polars as pl
import pytest

from stateplan.common.errors import StateplanError
from stateplan.functions.render.javatime import ZonedMoment, format_moment
from stateplan.functions.render.moments import to_local
from stateplan.functions.render.simpledates import read_wall_clock

CASES = [json.loads(line) for line in (Path(__file__).parent / "simple_dates.jsonl").read_text().splitlines()]
NOW = dt.datetime(2026, 11, 29, 12)


def parsed(zone: str, pattern: str, text: str) -> int | str | None:
    try:
        clock = read_wall_clock(text, pattern, zone)
    except StateplanError as error:
        assert error.code == "RUN305"
        return "no pattern"
    return None if clock is None else clock.instant(zone)


def written(zone: str, pattern: str, millis: int) -> str:
    instant = pl.col("i")
    local = to_local(instant.cast(pl.Datetime("ms", "UTC")), zone)
    try:
        text = format_moment(local, pattern, zone=ZonedMoment(instant, zone))
    except StateplanError as error:
        assert error.code == "RUN305"
        return "no pattern"
    return str(pl.DataFrame({"i": [millis]}).select(text).item())


def test_there_are_many_cases() -> None:
    assert len(CASES) > 250


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd HH:mm:ss z", "yyyy-MM-dd HH:mm:ssXXX", ""], ids=["z", "XXX", "others"])
def test_values_are_javas(pattern: str) -> None:
    known = {"yyyy-MM-dd HH:mm:ss z", "yyyy-MM-dd HH:mm:ssXXX"}
    wrong = []
    for kind, zone, own, given, java in CASES:
        if own == pattern or (not pattern and own not in known):
            here = parsed(zone, own, given) if kind == "P" else written(zone, own, int(given))
            if here != java:
                wrong.append((kind, zone, own, given, java, here))
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "year"),
    [("46-11-28", 2046), ("46-11-29", 1946), ("47-01-01", 1947), ("99-01-01", 1999), ("05-01-01", 2005)],
)
def test_a_year_of_two_digits_is_at_most_80_years_ago(text: str, year: int) -> None:
    clock = read_wall_clock(text + " 13", "yy-MM-dd HH", "UTC", NOW)
    assert clock is not None
    assert dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=clock.millis) == dt.datetime.fromisoformat(
        f"{year}{text[2:]} 13:00"
    )
