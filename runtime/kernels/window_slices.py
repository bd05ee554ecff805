"""How event time is cut into windows, and windows into slices that they share.

A time of a window is local: the milliseconds since 1970 that a clock on the wall shows in the time zone of the
windows, which is the session's for TIMESTAMP_LTZ, and none for TIMESTAMP. A *slice* is what two windows never cut: a
tumbling window, one slide of hopping windows, or the largest part of it of which they are a multiple, one step of
cumulative ones.

Source: Flink's ``SliceAssigners``, ``SlidingWindowAssigner``, ``TimeWindow``, ``TimeWindowUtil`` and
``AlignedWindowTableFunctionOperator``.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, column
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.values.clocks import after_gaps, instants_of, instants_that_are, wall_clock
from stateplan.runtime.kernel import Transform
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, within

_BACK = 4
"""Among this number of slices before the present one, the last end of a slice is looked for at first. Where the clock
shows an hour for the first time that comes twice, short slices have ended longer ago."""


def local_times(times: pl.Series, zone: str) -> Ints:
    """What the clock on the wall shows at the given TIMESTAMPs, or in ``zone`` at TIMESTAMP_LTZs."""
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is not None and zone != "UTC":
        times = wall_clock(times, zone)
    return times.cast(pl.Datetime("ms")).to_physical().to_numpy()


def instants(local: Ints, zone: str) -> Ints:
    """The instants, ms since 1970, at which the clock on the wall shows the given times: of two the earlier one; a time
    that is omitted is as long after the gap's beginning as it says."""
    return local if zone == "UTC" else instants_of(_datetimes(local), zone).to_physical().to_numpy()


def closing_instants(local: Ints, zone: str) -> Ints:
    """As :func:`instants`, when timers fire: of two the later one; of a time that is omitted, that of its full hour."""
    if zone == "UTC":
        return local
    times = _datetimes(local)
    closings = instants_that_are(times, zone, "latest")
    return after_gaps(closings, times.dt.truncate("1h"), zone, "latest").to_physical().to_numpy()


def _datetimes(local: Ints) -> pl.Series:
    return pl.Series("t", local, dtype=pl.Int64).cast(pl.Datetime("ms"))


@dataclass(frozen=True)
class Slicing(FrozenDataclass):
    """The windows of an operator.

    Attributes:
        kind: the kind of windows.
        size: the size of a window, ms; of cumulative ones the largest.
        step: from one window to the next, ms: the slide, or by how much cumulative windows grow.
        offset: how long after full multiples windows begin, ms.
        zone: time zone of the windows.
        attached: whether rows already are in windows, each of which is a slice of its own; so are sessions.
    """

    kind: Literal["TUMBLE", "HOP", "CUMULATE", "SESSION"]
    size: int
    step: int
    offset: int = 0
    zone: str = "UTC"
    attached: bool = False

    @property
    def shares(self) -> bool:
        """Whether windows share slices."""
        return self.kind != "TUMBLE" and not self.attached

    @property
    def slice(self) -> int:
        """How long a slice is, ms."""
        return math.gcd(self.size, self.step) if self.kind == "HOP" else self.step

    def _start(self, times: Ints, size: int) -> Ints:
        return times - (times - self.offset) % size

    def slice_ends(self, times: Ints) -> Ints:
        """The end of the slice of each local time."""
        return self._start(times, self.slice) + self.slice

    def window_starts(self, ends: Ints) -> Ints:
        """The start of the window that ends at each of ``ends``."""
        return self._start(ends - 1, self.size) if self.kind == "CUMULATE" else ends - self.size

    def first_ends(self, slices: Ints) -> Ints:
        """The end of the first window that has the slice with each of these ends; of one between two windows, that of
        the later one."""
        if not self.shares or self.kind != "HOP":
            return slices
        return slices + (self.offset + self.size - slices) % self.step

    def last_ends(self, slices: Ints) -> Ints:
        """The end of the last window that has the slice with each of these ends; of one between two windows, that of
        the earlier one."""
        if not self.shares:
            return slices
        if self.kind == "HOP":
            return self._start(slices - self.slice, self.step) + self.size
        return self.window_starts(slices) + self.size

    def late(self, slices: Ints, watermark: int) -> Bools:
        """Which slices are in no window that is open: the last one that has them is closed."""
        out: Bools = self.due(self.last_ends(slices)) <= watermark
        return out

    def between(self, slices: Ints) -> Bools:
        """Which slices are in no window: hopping ones omit what is longer than they are until the next begins."""
        out: Bools = self.first_ends(slices) > self.last_ends(slices)
        return out

    def windows_of(self, slices: Ints) -> tuple[Ints, Ints]:
        """All windows of each slice: the slice of each, and its end."""
        first = self.first_ends(slices)
        rows, number = _with_numbers((self.last_ends(slices) - first) // self.step + 1)
        return rows, first[rows] + number * self.step

    def due(self, ends: Ints) -> Ints:
        """The watermark that closes the window with each of these ends."""
        return closing_instants(ends - 1, self.zone)

    def windows(self, times: Ints) -> tuple[Ints, Ints]:
        """All windows of each local time: the row of each, and its end; of a row in the order in which Flink lists
        them."""
        if self.kind == "CUMULATE":
            first = self._start(times, self.step) + self.step
            last = self._start(times, self.size) + self.size
            rows, number = _with_numbers((last - first) // self.step + 1)
            return rows, first[rows] + number * self.step
        last = self._start(times, self.step)
        rows, number = _with_numbers(np.maximum((last - (times - self.size) + self.step - 1) // self.step, 0))
        return rows, last[rows] - number * self.step + self.size

    def next_ends(self, slices: Ints, watermark: int) -> Ints:
        """The end of the first window of each slice that ``watermark`` has not closed; one that it has closed where it
        has closed them all."""
        ends, last = self.first_ends(slices).copy(), self.last_ends(slices)
        while True:
            closed: Bools = (self.due(ends) <= watermark) & (ends < last)
            if not closed.any():
                return ends
            ends[closed] += self.step


def _with_numbers(counts: Ints) -> tuple[Ints, Ints]:
    """Repeats each position by its number of rows: the position, and the number of the row there from 0."""
    return np.repeat(np.arange(len(counts)), counts), within(counts)


def _wall_clock(now: int, zone: str) -> Ints:
    """What the clock on the wall shows at an instant, as one local time."""
    return local_times(pl.Series([now]).cast(pl.Datetime("ms", "UTC")), zone)


@dataclass(frozen=True)
class SliceAlarms:
    """The instants at which windows of processing time may end: the ends of their slices.

    Attributes:
        slicing: the windows.
    """

    slicing: Slicing

    def last(self, now: int) -> int:
        end = self.slicing.slice_ends(_wall_clock(now, self.slicing.zone))[0]
        back = _BACK
        while True:
            due = self.slicing.due(end + self.slicing.slice * np.arange(-back, 1))
            if (due <= now).any():
                return int(due[due <= now].max())
            back *= 2


def with_time(frame: pl.DataFrame, time: int | None) -> pl.DataFrame:
    """The rows that have a time: without one, as an outer join leaves rows, they are in no window."""
    if time is None or not frame[column(time)].null_count():
        return frame
    return frame.filter(frame[column(time)].is_not_null())


def local_times_of(frame: pl.DataFrame, time: int | None, now: int, zone: str) -> Ints:
    """What the clock on the wall shows for each row.

    Args:
        frame: the rows.
        time: the field that is the time of a row; None for processing time.
        now: the micro-batch's time, ms.
        zone: time zone of the windows.
    """
    if time is not None:
        return local_times(frame[column(time)], zone)
    return np.repeat(_wall_clock(now, zone), frame.height)


@dataclass(frozen=True)
class SliceTransform(FrozenDataclass, Transform):
    """Rows with the end of their slice as a further field, BIGINT. A row without a time is in none.

    Attributes:
        slicing: the windows.
        time: the field that is the time of a row, or, of rows that are in windows, the end of their window; None for
            processing time.
        width: fields of a row.
    """

    slicing: Slicing
    time: int | None
    width: int

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        frame = with_time(frame, self.time)
        local = local_times_of(frame, self.time, now, self.slicing.zone)
        ends = local if self.slicing.attached else self.slicing.slice_ends(local)
        return frame.with_columns(pl.Series(column(self.width), ends, dtype=pl.Int64))


def timestamps(name: str, local: Ints) -> pl.Series:
    """Local times as TIMESTAMP(3)."""
    return pl.Series(name, local, dtype=pl.Int64).cast(pl.Datetime("ms"))


def window_time(name: str, ends: Ints, zone: str, dtype: pl.DataType) -> pl.Series:
    """The last instant of the windows with these ends, as a time attribute of type ``dtype``."""
    zone_of_type = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
    return pl.Series(name, instants(ends - 1, zone), dtype=pl.Int64).cast(pl.Datetime("ms", zone_of_type)).cast(dtype)


@dataclass(frozen=True)
class WindowTableFunctionTransform(FrozenDataclass, Transform):
    """Rows with start, end and last instant of their windows as further fields. A row without a time is in none.

    Attributes:
        slicing: the windows.
        time: the field that is the time of a row.
        width: fields of a row.
        time_type: the time type of the last instant.
    """

    slicing: Slicing
    time: int
    width: int
    time_type: pl.DataType

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        frame = with_time(frame, self.time)
        slicing = self.slicing
        rows, ends = slicing.windows(local_times(frame[column(self.time)], slicing.zone))
        out = frame if len(rows) == frame.height and (rows == np.arange(len(rows))).all() else frame[rows]
        window_columns = [
            timestamps(column(self.width), slicing.window_starts(ends)),
            timestamps(column(self.width + 1), ends),
            window_time(column(self.width + 2), ends, slicing.zone, self.time_type),
        ]
        kind = [out[KIND]] if KIND in out.columns else []
        return out.drop(KIND, strict=False).hstack([*window_columns, *kind])
