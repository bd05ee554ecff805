"""Time zones by columns, next to Python's ``zoneinfo``."""

from __future__ import annotations

import datetime as dt
import random
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from stateplan.common.values.clocks import instants_of, wall_clock

ZONES = [
    "America/New_York",
    "Europe/Berlin",
    "Europe/Dublin",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Casablanca",
    "Asia/Gaza",
    "Asia/Tokyo",
    "Antarctica/Troll",
]


def _times(seed: int) -> list[dt.datetime]:
    rng = random.Random(seed)
    near = [dt.datetime(year, month, day, 1, 30) for year in (2100, 2104, 2400) for month in (2, 3) for day in (28, 1)]
    ends = [
        dt.datetime(year, month, day, hour) for year, month, day in ((2099, 12, 31), (2100, 1, 1)) for hour in (0, 23)
    ]
    drawn = [
        dt.datetime(rng.randint(2030, 9998), rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), 30)
        for _ in range(300)
    ]
    return [*near, *ends, *drawn]


def _column(times: list[dt.datetime]) -> pl.Series:
    return pl.Series("t", times, dtype=pl.Datetime("ms"))


@pytest.mark.parametrize("zone", ZONES)
def test_rules_of_a_zone_go_on_after_the_year_2099(zone: str) -> None:
    times = _times(7)
    instants = _column(times).dt.replace_time_zone("UTC")
    wanted = [t.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for t in times]
    assert wall_clock(instants, zone).to_list() == wanted
    assert instants.to_frame().select(wall_clock(pl.col("t"), zone)).to_series().to_list() == wanted

    back = [t.replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC) for t in times]
    assert instants_of(_column(times), zone).to_list() == back


def test_a_time_that_is_skipped_is_as_long_after_the_gap_as_it_says() -> None:
    def instant(zone: str, *clock: int) -> str:
        return str(instants_of(_column([dt.datetime(*clock)]), zone).dt.replace_time_zone(None)[0])  # type: ignore[arg-type]

    assert instant("America/New_York", 2024, 3, 10, 2, 30) == "2024-03-10 07:30:00"
    assert instant("America/New_York", 2300, 3, 11, 2, 30) == "2300-03-11 07:30:00"
    assert instant("Antarctica/Troll", 2024, 3, 31, 1, 30) == "2024-03-31 01:30:00", "two hours are skipped"
    assert instant("Pacific/Apia", 2011, 12, 30, 12, 0) == "2011-12-30 22:00:00", "a day is skipped"


def test_of_two_instants_the_one_that_is_asked_for() -> None:
    clock = _column([dt.datetime(2024, 11, 3, 1, 30), dt.datetime(2300, 11, 4, 1, 30), dt.datetime(2024, 7, 1)])
    earlier = instants_of(clock, "America/New_York")
    later = instants_of(clock, "America/New_York", "latest")
    assert (later - earlier).dt.total_minutes().to_list() == [60, 60, 0]


def test_years_that_polars_does_not_have() -> None:
    far = pl.Series("t", [253_402_300_800_000_00, -9_000_000_000_000_000, None], dtype=pl.Int64)
    instants = far.cast(pl.Datetime("ms", "UTC"))
    assert (wall_clock(instants, "Asia/Tokyo").to_physical() - far).to_list()[0] == 9 * 3_600_000
    assert instants_of(wall_clock(instants, "Asia/Tokyo"), "Asia/Tokyo").to_physical().to_list() == far.to_list()
