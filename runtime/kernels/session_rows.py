"""SESSION windows whose rows are not aggregated: each change with start and end of its session.

Source of the semantics: Flink's ``UnalignedWindowTableFunctionOperator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    Frames,
    StateTable,
    Step,
    Watermark,
    field_columns,
    left_out,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import Ints, ids_of, with_kind, within
from stateplan.runtime.kernels.common.sessions import DUE, END, Placement, SessionKernel
from stateplan.runtime.kernels.common.topn import SEQUENCE
from stateplan.runtime.kernels.window_slices import timestamps, window_time

_NEXT, _TIME = "@next", "@time"
_KIND_BITS = 60
"""The number of a row takes this number of bits of what is kept as its number; its kind is above them."""


@dataclass(frozen=True)
class SessionRowsKernel(SessionKernel):
    """Keeps rows until the watermark has reached the end of their session, and emits them with start, end and last
    instant of the session: sessions in the order of their end, the rows of each in the order of arrival.

    A row that retracts another one is kept and emitted too, and makes its session longer as any row does. A late row
    is dropped. A row whose TTL ends before its session does is not emitted.

    State: the sessions by key; and the rows by key and number, due at what was the end of their session when they were
    written. A row whose session has grown since then is written again with the new end. The number of a row that is not
    an insertion has its kind in the highest bits, so that an insertion is kept under its number alone.

    Attributes:
        input_type: ROW of the input.
        time_type: the time type of the last instant.
    """

    input_type: LogicalType
    time_type: pl.DataType

    @property
    def _width(self) -> int:
        return len(self.input_type.fields)

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        sessions, key = self.sessions, self.sessions.key
        fields = field_columns(self.input_type)
        keys = {**{name: fields[name] for name in key}, **own_columns({sessions.start: pl.Int64()})}
        columns = {**fields, **own_columns({_TIME: pl.Int64(), SEQUENCE: pl.Int64(), DUE: pl.Int64()})}
        return (
            sessions.table("sessionWindowState.sessions", keys, {_NEXT: pl.Int64()}),
            StateTable("sessionWindowState", 0, key, (*key, SEQUENCE), columns, due=DUE),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [self._lookup_keys([inputs[0]]), None]

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """The keys whose sessions are read: those that have new rows, and those that have a session or row that is
        due."""
        return [self._lookup_keys([inputs[0], *state]), None]

    def _lookup_keys(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
        """Different keys; any row where there is no key."""
        key, parts = list(self.sessions.key), [frame for frame in frames if frame.height]
        if not parts:
            return None
        return pl.concat([part[key] for part in parts]).unique(maintain_order=True) if key else parts[0][:1]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch."""
        frame, (known_sessions, buffer) = inputs[0], state
        placement = self.sessions.place(frame, known_sessions, watermark.before)
        due, is_closed = self.sessions.closed(placement, watermark)
        numbers, following = self._numbers(known_sessions, placement)
        rows, sessions = self._rows(frame, buffer, placement, numbers, now)
        known_rows = np.arange(rows.height) < buffer.height
        has_session = sessions >= 0
        over, due_now = np.zeros(rows.height, bool), np.zeros(rows.height, np.int64)
        over[has_session], due_now[has_session] = is_closed[sessions[has_session]], due[sessions[has_session]]
        output = self._output(rows, np.flatnonzero(over), sessions, placement, due, KIND in frame.columns)
        rows_to_write = np.flatnonzero(has_session & ~over & ~(known_rows & (rows[DUE].to_numpy() == due_now)))
        removed_rows = np.flatnonzero(known_rows & (over | ~has_session))
        removed_sessions = np.flatnonzero(
            self.sessions.has_moved(known_sessions, placement) | is_closed[placement.of_known]
        )
        return Step(
            output,
            [
                self.sessions.state_frame(placement, due, is_closed, now, {_NEXT: following}),
                rows[rows_to_write].with_columns(pl.Series(DUE, due_now[rows_to_write]))
                if len(rows_to_write)
                else None,
            ],
            [
                known_sessions[removed_sessions][list(self.tables[0].identity)] if len(removed_sessions) else None,
                rows[removed_rows][list(self.tables[1].identity)] if len(removed_rows) else None,
            ],
            0,
            (left_out(frame, placement.in_time(frame)),),
        )

    def _numbers(self, known_sessions: pl.DataFrame, placement: Placement) -> tuple[Ints, Ints]:
        """The numbers of the rows that are not late, and for each session the next number of its key."""
        of_rows, count = placement.keys[placement.of_rows], int(placement.keys.max(initial=-1)) + 1
        following = np.zeros(count, np.int64)
        np.maximum.at(following, placement.keys[placement.of_known], known_sessions[_NEXT].to_numpy())
        numbers, order = np.empty(len(of_rows), np.int64), np.argsort(of_rows, kind="stable")
        numbers[order] = within(np.bincount(of_rows, minlength=count))
        numbers += following[of_rows]
        np.maximum.at(following, of_rows, numbers + 1)
        return numbers, following[placement.keys]

    def _rows(
        self, frame: pl.DataFrame, buffer: pl.DataFrame, placement: Placement, numbers: Ints, now: int
    ) -> tuple[pl.DataFrame, Ints]:
        """The rows that wait, then the new ones, and which session each is in; -1 where it is gone."""
        if KIND in frame.columns:
            numbers = numbers | (frame[KIND].to_numpy()[placement.rows].astype(np.int64) << _KIND_BITS)
        fresh = frame[placement.rows].drop(KIND, strict=False).rename({self.sessions.time: _TIME})
        fresh = fresh.with_columns(
            pl.Series(SEQUENCE, numbers, dtype=pl.Int64),
            pl.lit(None, pl.Int64).alias(DUE),
            pl.lit(now, pl.Int64).alias(ACCESS_TIME),
        )
        if not buffer.height:
            return fresh, placement.of_rows
        rows = pl.concat([buffer.select(fresh.columns), fresh])
        return rows, np.concatenate([self._sessions_of_rows(buffer, placement), placement.of_rows])

    def _sessions_of_rows(self, buffer: pl.DataFrame, placement: Placement) -> Ints:
        """The session that each row that waits is in: the last one of its key that began before it; -1 for none."""
        _, (of_sessions, of_rows) = ids_of((placement.sessions, buffer), list(self.sessions.key))
        began = placement.sessions[self.sessions.start]
        session_starts = pl.DataFrame({"key": of_sessions, "at": began, "session": np.arange(len(began))}).sort("at")
        row_times = pl.DataFrame({"key": of_rows, "at": buffer[_TIME], "row": np.arange(buffer.height)}).sort("at")
        matches = row_times.join_asof(session_starts, on="at", by="key", strategy="backward", check_sortedness=False)
        sessions = np.full(buffer.height, -1, np.int64)
        sessions[matches["row"].to_numpy()] = matches["session"].fill_null(-1).to_numpy()
        mine = np.flatnonzero(sessions >= 0)
        over = buffer[_TIME].to_numpy()[mine] >= placement.sessions[END].to_numpy()[sessions[mine]]
        sessions[mine[over]] = -1
        return sessions

    def _output(
        self, rows: pl.DataFrame, over: Ints, sessions: Ints, placement: Placement, due: Ints, kinded: bool
    ) -> pl.DataFrame:
        """The rows ``over``, with their kinds where the input has kinds, or one of them is not an insertion."""
        numbers = rows[SEQUENCE].to_numpy()
        order = over[np.lexsort((numbers[over] & (1 << _KIND_BITS) - 1, sessions[over], due[sessions[over]]))]
        kinds = (numbers[order] >> _KIND_BITS).astype(np.int8)
        mine = sessions[order]
        starts, ends = self.sessions.starts(placement, mine), placement.sessions[END].to_numpy()[mine]
        out = rows[order][[column(i) for i in range(self._width)]]
        out = out.hstack(
            [
                timestamps(column(self._width), starts),
                timestamps(column(self._width + 1), ends),
                self._last_instants(ends),
            ]
        )
        return with_kind(out, kinds) if kinded or (kinds != RowKind.INSERT).any() else out

    def _last_instants(self, ends: Ints) -> pl.Series:
        name = column(self._width + 2)
        if not self.event_time:  # what reads it asks for the time itself
            return pl.Series(name, [None] * len(ends), dtype=self.time_type)
        return window_time(name, ends, self.sessions.zone, self.time_type)
