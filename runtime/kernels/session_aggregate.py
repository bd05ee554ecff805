"""Aggregates of sessions.

Source of the semantics: Flink's ``UnsliceWindowAggProcessor`` and ``MergingWindowProcessFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import (
    Frames,
    StateTable,
    Step,
    Watermark,
    left_out,
)
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, absent, ids_of, positions, present
from stateplan.runtime.kernels.common.partials import LocalTransform, Partials
from stateplan.runtime.kernels.common.sessions import END, Placement, SessionKernel
from stateplan.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
from stateplan.runtime.kernels.window_aggregate import Property, all_identities, told_of_windows


@dataclass(frozen=True)
class SessionAggregateKernel(SessionKernel):
    """Keeps accumulators per key and session, and emits a session when the watermark has reached its end.

    A late row is dropped. A session whose rows have all been retracted is not emitted, nor is one whose TTL ends. When
    two sessions become one, the accumulators of the later one are merged into those of the earlier one; when a row
    comes before a session, the session moves to another start.

    State: the sessions by key, each due at its end; and the tables of the group aggregate by key and session.

    Attributes:
        inner: the aggregate of partial results, whose last key is the start of the session.
        properties: what the last fields of the output say of the window.
    """

    inner: GlobalGroupAggregateKernel
    properties: tuple[Property, ...]

    @property
    def _partials(self) -> Partials:
        return self.inner.partials

    @cached_property
    def _local(self) -> LocalTransform:
        """What makes partial results of rows whose last field is the start of their session."""
        return LocalTransform(self._partials, (*self.sessions.grouping, self._width))

    @property
    def _width(self) -> int:
        """How many fields a row has, before its local time."""
        return len(self._partials.kernel.input_type.fields) - len(self._session)

    @property
    def _session(self) -> tuple[str, ...]:
        """The columns of key and start."""
        return self._partials.keys

    @property
    def call_texts(self) -> Sequence[str]:
        return self.inner.call_texts

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        groups, *others = self.inner.tables
        keys = {name: groups.columns[name] for name in self._session}
        sessions = self.sessions.table(f"{groups.name}.sessions", keys, {})
        return (sessions, groups, *(replace(table, lookup=self._session) for table in others))

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        frame = inputs[0]
        out: list[pl.DataFrame | None] = [None] * len(self.tables)
        if frame.height:
            out[0] = self.sessions.keys_of(frame) if self.sessions.grouping else frame[:1]
        return out

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """What is kept of the sessions that are known."""
        sessions = state[0][list(self._session)] if state[0].height else None
        return [None, *[sessions] * (len(self.tables) - 1)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        frame, known_sessions = inputs[0], state[0]
        placement = self.sessions.place(frame, known_sessions, watermark.before)
        late = left_out(frame, placement.in_time(frame))
        upserts: list[pl.DataFrame | None] = [None] * len(self.tables)
        deletes: list[pl.DataFrame | None] = [None] * len(self.tables)
        moved_sessions = known_sessions[np.flatnonzero(self.sessions.has_moved(known_sessions, placement))]
        parts = self._parts(frame, placement, state, moved_sessions, now)
        if parts.height:
            result = self.inner.fold_batch([parts], state[1:], now, [0])
            upserts[1:], deletes[1:] = result.upserts, result.deletes
        sessions, (due, is_closed) = placement.sessions, self.sessions.closed(placement, watermark)
        output = self._output(sessions, is_closed, state[1], upserts[1], deletes[1])
        upserts[0] = self.sessions.state_frame(placement, due, is_closed, now)
        over = pl.concat(
            [moved_sessions[list(self._session)], sessions[np.flatnonzero(is_closed)][list(self._session)]]
        )
        if over.height:
            self._remove(over, state, upserts, deletes)
        return Step(output, upserts, deletes, 0, (late,))

    # ---- accumulators ------------------------------------------------------------------------------------------

    def _parts(
        self, frame: pl.DataFrame, placement: Placement, state: Frames, moved_sessions: pl.DataFrame, now: int
    ) -> pl.DataFrame:
        """Partial results: first those of sessions that have become part of others, then those of rows."""
        parts = pl.DataFrame(schema=self._partials.whole_schema())
        if moved_sessions.height:
            rows, into = self._matching(state[1], state[0], placement, moved_sessions)
            moved_partials = self._partials.of_state(rows, state[2:])
            parts = moved_partials.with_columns(pl.Series(self.sessions.start, into, dtype=pl.Int64))[parts.columns]
        if len(placement.rows):
            session_rows = frame[placement.rows] if len(placement.rows) < frame.height else frame
            session_rows = session_rows.with_columns(
                pl.Series(self.sessions.time, self.sessions.starts(placement, placement.of_rows), dtype=pl.Int64)
            )
            parts = pl.concat([parts, self._local(session_rows, now)[parts.columns]])
        return parts

    def _matching(
        self, groups: pl.DataFrame, known_sessions: pl.DataFrame, placement: Placement, moved_sessions: pl.DataFrame
    ) -> tuple[pl.DataFrame, Ints]:
        """The accumulators of sessions that have moved, in the order of their start, and the new start of each."""
        session = list(self._session)
        rows = groups[present(groups, session, moved_sessions)].sort(self.sessions.start, maintain_order=True)
        ids, (mine, places) = ids_of((rows, known_sessions), session)
        return rows, self.sessions.starts(placement, placement.of_known[positions(places, ids.count)[mine]])

    def _output(
        self,
        sessions: pl.DataFrame,
        is_closed: Bools,
        state: pl.DataFrame,
        upserts: pl.DataFrame | None,
        deletes: pl.DataFrame | None,
    ) -> pl.DataFrame:
        """The rows of the sessions that close, in the order of their end."""
        kernel, session = self._partials.kernel, list(self._session)
        over = sessions[np.flatnonzero(is_closed)].sort(END, maintain_order=True)
        current = state
        for changes in (upserts, deletes):
            if changes is not None and current.height:
                current = current[absent(current, session, changes)]
        if upserts is not None:
            current = pl.concat([current[upserts.columns], upserts])
        ids, (group_codes, mine) = ids_of((current, over), session)
        place = positions(group_codes, ids.count)[mine]
        live = np.flatnonzero(place >= 0)
        over, rows = over[live], current[place[live]]
        results = kernel.results(over[session], rows)
        starts, ends = over[self.sessions.start].to_numpy(), over[END].to_numpy()
        return told_of_windows(results, len(session) - 1, self.properties, starts, ends, self.sessions.zone)

    def _remove(
        self,
        over: pl.DataFrame,
        state: Frames,
        upserts: list[pl.DataFrame | None],
        deletes: list[pl.DataFrame | None],
    ) -> None:
        """Removes all that is kept of the sessions ``over``."""
        session = list(self._session)
        for i, table in enumerate(self.tables):
            identity, fresh = list(table.identity), upserts[i]
            if fresh is not None:
                remaining = fresh[absent(fresh, session, over)]
                upserts[i] = remaining if remaining.height else None
            dead = state[i][present(state[i], session, over)][identity]
            deletes[i] = all_identities(deletes[i], dead if dead.height else None)
