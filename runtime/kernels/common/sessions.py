"""Sessions: windows of a key that end when no row has arrived for a while.

Source of the semantics: Flink's ``MergingWindowSet`` and ``SessionWindowAssigner``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from stateplan.common.changelog import column, columns
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import (
    NO_WATERMARK,
    WINDOWS,
    EventTimeKernel,
    PendingWork,
    StateColumn,
    StateTable,
    Transform,
    Watermark,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, frame_of, ids_of, with_stamps
from stateplan.runtime.kernels.window_slices import (
    SliceAlarms,
    Slicing,
    closing_instants,
    local_times,
    local_times_of,
    with_time,
)

END, DUE = "@end", "@due"
_SHORTEST, _LONGEST = 1_000, 60_000
"""How often sessions of processing time are checked for their end, ms: ten times in a gap, within these bounds."""


@dataclass(frozen=True)
class LocalTimeTransform(FrozenDataclass, Transform):
    """Rows with their local time, ms, as a further field, BIGINT; of rows that are in sessions already start and end
    of these. A row without a time is in none.

    Attributes:
        time: the field that is the time of a row, or the start of its session; None for processing time.
        width: fields of a row.
        zone: time zone of the windows.
        end: the field that is the end of the session.
    """

    time: int | None
    width: int
    zone: str
    end: int | None = None

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        frame = with_time(frame, self.time)
        local = local_times_of(frame, self.time, now, self.zone)
        time_columns = [pl.Series(column(self.width), local, dtype=pl.Int64)]
        if self.end is not None:
            ends = local_times(frame[column(self.end)], self.zone)
            time_columns.append(pl.Series(column(self.width + 1), ends, dtype=pl.Int64))
        return frame.with_columns(time_columns)


@dataclass(frozen=True)
class Placement:
    """Where rows and known sessions come to be. A session is named by its position in ``sessions``.

    Attributes:
        rows: positions of the rows that are not late.
        of_rows: the session of each of these.
        of_known: per known session, the one that it is part of now.
        sessions: all sessions, the known ones included: key, start, end.
        keys: the number of the key of each; equal keys have the same.
        is_new: which of them were not known as they are.
    """

    rows: Ints
    of_rows: Ints
    of_known: Ints
    sessions: pl.DataFrame
    keys: Ints
    is_new: Bools

    def in_time(self, frame: pl.DataFrame) -> Bools:
        """Which rows of the frame that was placed are not late."""
        out = np.zeros(frame.height, bool)
        out[self.rows] = True
        return out


@dataclass(frozen=True)
class Sessions(FrozenDataclass):
    """The sessions of an operator.

    A row makes a window of the length of the gap; windows of a key that overlap or touch are one session. A row is late
    when the watermark has reached the end of its window and no session is there that the window can be merged with. The
    start of a session distinguishes it.

    Attributes:
        grouping: fields of the input that are the key.
        key: the columns of the state that hold them.
        start: the column of the state that holds the start.
        time: the column of the input that holds the local time, or the start of the session that a row is in already.
        gap: ms without rows after which a session ends.
        zone: time zone of the windows.
        end: the column of the input that holds the end of that session.
    """

    grouping: tuple[int, ...]
    key: tuple[str, ...]
    start: str
    time: str
    gap: int
    zone: str
    end: str | None = None

    def table(self, name: str, keys: dict[str, StateColumn], more: dict[str, pl.DataType]) -> StateTable:
        """The state table of sessions: ``keys`` are the columns of key and start; each row is due at its end."""
        own = own_columns({END: pl.Int64(), DUE: pl.Int64(), **more})
        return StateTable(name, 0, self.key, (*self.key, self.start), {**keys, **own}, due=DUE)

    def keys_of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The keys of rows, named as in the state."""
        pairs = zip(columns(self.grouping), self.key, strict=True)
        return frame_of([frame[name].alias(key) for name, key in pairs], frame.height)

    def due(self, ends: Ints) -> Ints:
        """The watermark that closes a session with each of these ends."""
        return closing_instants(ends - 1, self.zone)

    def place(self, frame: pl.DataFrame, state: pl.DataFrame, before: int) -> Placement:
        """Puts rows into sessions.

        Args:
            frame: the rows, with their local time.
            state: the sessions that are kept of their keys.
            before: the watermark before these rows.
        """
        key, times = list(self.key), frame[self.time].to_numpy()
        until = times + self.gap if self.end is None else frame[self.end].to_numpy()
        starts, ends = state[self.start].to_numpy(), state[END].to_numpy()
        keys = self.keys_of(frame)
        _, (of_known, of_rows) = ids_of((state[key] if key else state, keys), key)
        late = self.due(until) <= before
        rows = np.arange(frame.height)
        if late.any():
            keep = np.ones(frame.height, bool)
            codes = np.unique(of_rows[late])
            for own, mine in zip(_by_code(of_known, codes), _by_code(of_rows, codes), strict=True):
                known_spans = list(zip(starts[own].tolist(), ends[own].tolist(), strict=True))
                keep[mine] = _in_time(known_spans, times[mine], until[mine], late[mine])
            rows = np.flatnonzero(keep)
        spans = pl.DataFrame(
            {
                "code": np.concatenate([of_known, of_rows[rows]]),
                "start": np.concatenate([starts, times[rows]]),
                "end": np.concatenate([ends, until[rows]]),
            },
            schema={"code": pl.Int64, "start": pl.Int64, "end": pl.Int64},
        ).with_row_index("place")
        spans = spans.sort("code", "start", maintain_order=True).with_columns(
            pl.col("end").cum_max().over("code").alias("reach")
        )
        spans = spans.with_columns(
            ((pl.col("code") != pl.col("code").shift()) | (pl.col("start") > pl.col("reach").shift()))
            .fill_null(True)
            .cum_sum()
            .alias("session")
        )
        groups = spans.group_by("session", maintain_order=True).agg(
            pl.col("start").first(), pl.col("end").max(), pl.col("place").min(), pl.col("code").first()
        )
        at = np.empty(spans.height, np.int64)
        at[spans["place"].to_numpy()] = spans["session"].to_numpy() - 1
        of_known, of_kept = at[: state.height], at[state.height :]
        origin = np.concatenate([np.arange(state.height), state.height + rows])[groups["place"].to_numpy()]
        both = pl.concat([state[key], keys]) if key else pl.DataFrame(height=state.height + frame.height)
        parts = [*both[origin].get_columns(), groups["start"].alias(self.start), groups["end"].alias(END)]
        sessions = pl.DataFrame(parts)
        as_before = np.zeros(sessions.height, bool)
        same = (groups["start"].to_numpy()[of_known] == starts) & (groups["end"].to_numpy()[of_known] == ends)
        as_before[of_known[same]] = True
        as_before[of_kept] = False  # a row refreshes its session, wherever it is in it
        return Placement(rows, of_kept, of_known, sessions, groups["code"].to_numpy(), ~as_before)

    def starts(self, placement: Placement, sessions: Ints) -> Ints:
        """The starts of sessions."""
        return placement.sessions[self.start].to_numpy()[sessions]

    def has_moved(self, state_rows: pl.DataFrame, placement: Placement) -> Bools:
        """Which known sessions are part of one with another start."""
        differs: Bools = self.starts(placement, placement.of_known) != state_rows[self.start].to_numpy()
        return differs

    def closed(self, placement: Placement, watermark: Watermark) -> tuple[Ints, Bools]:
        """The watermark that closes each session, and which are closed now."""
        due = self.due(placement.sessions[END].to_numpy())
        is_closed: Bools = due <= (watermark.now if watermark.now > watermark.before else NO_WATERMARK)
        return due, is_closed

    def state_frame(
        self, placement: Placement, due: Ints, is_closed: Bools, now: int, more: Mapping[str, Ints] | None = None
    ) -> pl.DataFrame | None:
        """The rows of the state for sessions that have changed and are open; ``more`` are further columns of all."""
        stays = np.flatnonzero(placement.is_new & ~is_closed)
        if not len(stays):
            return None
        own = [pl.Series(name, values[stays]) for name, values in {DUE: due, **(more or {})}.items()]
        return with_stamps(placement.sessions[stays].hstack(own), now)


@dataclass(frozen=True)
class SessionKernel(EventTimeKernel):
    """What kernels of sessions have in common.

    Attributes:
        sessions: the sessions.
        event_time: else the clock of the micro-batch takes the place of times and watermark.
    """

    sessions: Sessions
    event_time: bool

    @property
    def by_clock(self) -> bool:
        return not self.event_time

    @property
    def versioned_inputs(self) -> tuple[int, ...]:
        """A row makes its session longer also if another one soon takes its place."""
        return (0,)

    @property
    def alarms(self) -> SliceAlarms | None:
        step = min(max(self.sessions.gap // 10, _SHORTEST), _LONGEST)
        return None if self.event_time else SliceAlarms(Slicing("TUMBLE", step, step, zone=self.sessions.zone))

    @property
    def awaits(self) -> PendingWork | None:
        return None if self.event_time else WINDOWS


def _by_code(codes: Ints, key_codes: Ints) -> Iterator[Ints]:
    """For each of the ``key_codes`` codes, in ascending order, the positions that have it."""
    order = np.argsort(codes, kind="stable")
    ends = [np.searchsorted(codes[order], key_codes, side) for side in ("left", "right")]
    return (order[first:end] for first, end in zip(*ends, strict=True))


def _in_time(sessions: list[tuple[int, int]], starts: Ints, ends: Ints, late: Bools) -> list[bool]:
    """Which windows of one key, in order of arrival, find a session or are not late by themselves."""
    out = []
    for start, end, alone in zip(starts.tolist(), ends.tolist(), late.tolist(), strict=True):
        overlapping = [s for s in sessions if s[0] <= end and s[1] >= start]
        out.append(bool(overlapping) or not alone)
        if out[-1]:
            every = [(start, end), *overlapping]
            sessions = [s for s in sessions if s not in overlapping]
            sessions.append((min(s[0] for s in every), max(s[1] for s in every)))
    return out
