"""Windows of rows, and of times in zones that change their clocks."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND
from stateplan.common.types import INT, LogicalType, row_type
from stateplan.runtime.kernels.window_slices import (
    Slicing,
    WindowTableFunctionTransform,
    closing_instants,
    instants,
    local_times,
)
from tests.runtime.kernels.reference import DELETE, INSERT, Change
from tests.runtime.kernels.support import changes_of, frame
from tests.runtime.kernels.window_rows import EPOCH, TIMESTAMP, windows_of

ROW = row_type([("n", INT), ("ts", TIMESTAMP)])
MS = timedelta(milliseconds=1)
SLICINGS = st.one_of(
    st.builds(lambda size, offset: Slicing("TUMBLE", size, size, offset % size), st.integers(1, 9), st.integers(-9, 9)),
    st.builds(lambda *a: Slicing("HOP", *a), st.integers(1, 9), st.integers(1, 9), st.integers(-9, 9)),
    st.builds(
        lambda step, times, offset: Slicing("CUMULATE", step * times, step, offset),
        st.integers(1, 4),
        st.integers(1, 4),
        st.integers(-9, 9),
    ),
)
EVENTS = st.lists(st.tuples(st.sampled_from([INSERT, DELETE]), st.integers(-20, 20) | st.none()), max_size=20)


def test_a_row_in_two_hopping_windows() -> None:
    """Windows of 6 ms start every 3 ms: millisecond 4 is in those from 0 to 6 and from 3 to 9."""
    transform = WindowTableFunctionTransform(Slicing("HOP", 6, 3), 1, 2, TIMESTAMP.polars())
    assert changes_of(transform(frame(ROW, [(INSERT, (7, EPOCH + 4 * MS))]), 0)) == [
        # n, ts, window_start, window_end, window_time
        (INSERT, (7, EPOCH + 4 * MS, EPOCH + 3 * MS, EPOCH + 9 * MS, EPOCH + 8 * MS)),
        (INSERT, (7, EPOCH + 4 * MS, EPOCH, EPOCH + 6 * MS, EPOCH + 5 * MS)),
    ]


@given(SLICINGS, EVENTS)
def test_each_row_once_for_each_of_its_windows(slicing: Slicing, events: list[tuple[int, int | None]]) -> None:
    rows: list[Change] = [(k, (i, None if t is None else EPOCH + t * MS)) for i, (k, t) in enumerate(events)]
    transform = pickle.loads(pickle.dumps(WindowTableFunctionTransform(slicing, 1, 2, TIMESTAMP.polars())))
    got = changes_of(transform(frame(ROW, rows, True), 0))
    expected = []
    for kind, (number, time) in rows:
        if time is not None:
            found = windows_of(slicing, (time - EPOCH) // MS)
            for begin, end in sorted(found, key=lambda w: w[1], reverse=slicing.kind == "HOP"):
                told = (EPOCH + begin * MS, EPOCH + end * MS, EPOCH + (end - 1) * MS)
                expected.append((kind, (number, time, *told)))
    assert got == expected


def test_insertions_have_no_kinds() -> None:
    transform = WindowTableFunctionTransform(Slicing("TUMBLE", 5, 5), 1, 2, TIMESTAMP.polars())
    assert KIND not in transform(frame(ROW, [(INSERT, (1, EPOCH))]), 0).columns


ZONES = st.sampled_from(["UTC", "America/New_York", "Europe/Berlin", "Asia/Shanghai", "Asia/Kolkata"])
NEAR_CHANGES = st.builds(
    lambda day, minutes: day + timedelta(minutes=minutes),
    st.sampled_from([datetime(2024, 3, 10), datetime(2024, 3, 31), datetime(2024, 10, 27), datetime(2024, 11, 3)]),
    st.integers(-300, 900),
)


@given(ZONES, st.lists(NEAR_CHANGES, min_size=1, max_size=8))
def test_times_on_the_wall(name: str, shown: list[datetime]) -> None:
    zone = ZoneInfo(name)

    def instant(wall: datetime, later: bool) -> int:
        """By trying; of a time that is left out, the one that its offset before the gap gives."""
        options = [wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
        real = [o for o in options if o.astimezone(zone).replace(tzinfo=None) == wall]
        found = (max(real) if later else min(real)) if real else max(options)
        return int((found.replace(tzinfo=None) - EPOCH) / MS)

    local = np.array([int((w - EPOCH) / MS) for w in shown], np.int64)
    assert instants(local, name).tolist() == [instant(w, False) for w in shown]
    real = [w for w in shown if w.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) == w]
    kept = np.array([int((w - EPOCH) / MS) for w in real], np.int64)
    assert closing_instants(kept, name).tolist() == [instant(w, True) for w in real]
    times = pl.Series("t", [w.replace(tzinfo=UTC) for w in shown], dtype=pl.Datetime("ms", "UTC"))
    walls = [w.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None) for w in shown]
    assert local_times(times, name).tolist() == [int((w - EPOCH) / MS) for w in walls]


def test_a_window_that_ends_in_a_gap_closes_with_its_hour() -> None:
    wall = datetime(2024, 3, 10, 2, 29, 59, 999000)
    local = np.array([int((wall - EPOCH) / MS)], np.int64)
    gap = datetime(2024, 3, 10, 7)
    assert closing_instants(local, "America/New_York").tolist() == [int((gap - EPOCH) / MS)]
    assert instants(local, "America/New_York").tolist() == [int((gap - EPOCH) / MS) + 29 * 60_000 + 59_999]


def test_a_time_zone_moves_windows() -> None:
    ltz = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3)
    day = Slicing("TUMBLE", 86_400_000, 86_400_000, zone="Asia/Shanghai")
    transform = WindowTableFunctionTransform(day, 0, 1, ltz.polars())
    rows = pl.DataFrame({"c0": [datetime(2024, 1, 1, 17, tzinfo=UTC)]}, schema={"c0": ltz.polars()})
    (row,) = transform(rows, 0).rows()
    assert row[1:3] == (datetime(2024, 1, 2), datetime(2024, 1, 3))
    assert row[3] == datetime(2024, 1, 2, 15, 59, 59, 999000, tzinfo=UTC)
