"""What the clock on the wall shows in a time zone, and the instants at which it does: columns of Polars."""

from __future__ import annotations

from typing import Literal, TypeVar

import polars as pl

from stateplan.common.zone import fixed_offset

T = TypeVar("T", pl.Expr, pl.Series)


def wall_clock(instants: T, zone: str) -> T:
    """Instants (Datetime in UTC) as the wall clock of ``zone`` (Datetime without zone)."""
    offset = fixed_offset(zone)
    if offset is None:
        return instants.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return _moved(instants.dt.replace_time_zone(None), offset)


def instants_of(clock: T, zone: str, ambiguous: Literal["earliest", "latest"] = "earliest") -> T:
    """Wall clock times of ``zone`` as instants: the earlier of two unless told, NULL for a time that is skipped."""
    offset = fixed_offset(zone)
    if offset is None:
        known = clock.dt.replace_time_zone(zone, ambiguous=ambiguous, non_existent="null")
        return known.dt.convert_time_zone("UTC")
    return _moved(clock, -offset).dt.replace_time_zone("UTC")


def _moved(times: T, seconds: int) -> T:
    return times.dt.offset_by(f"{seconds}s") if seconds else times
