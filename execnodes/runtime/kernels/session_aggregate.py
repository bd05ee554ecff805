"""Aggregates of sessions: windows of a key that end when no row has come for a while.

Source of the semantics: Flink's ``UnsliceWindowAggProcessor``, ``MergingWindowProcessFunction``, ``MergingWindowSet``
and ``SessionWindowAssigner``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import column, columns
from stateplan.execnodes.runtime.kernel import (
    ACCESS_TIME,
    NO_WATERMARK,
    EventTimeKernel,
    Frames,
    Frozen,
    StateTable,
    Step,
    Transform,
    Watermark,
    own_columns,
)
from stateplan.execnodes.runtime.kernels.common.net import Bools, Ints, absent, framed, ids_of, positions, present
from stateplan.execnodes.runtime.kernels.common.partials import LocalTransform, Partials
from stateplan.execnodes.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
from stateplan.execnodes.runtime.kernels.window_aggregate import Property, together, told_of_windows
from stateplan.execnodes.runtime.kernels.window_slices import SliceAlarms, Slicing, closing_instants, local_times_of

_END, _DUE = "@end", "@due"
_SHORTEST, _LONGEST = 1_000, 60_000
"""How often, in ms, it is looked whether sessions of processing time are over: ten times in a gap, within these
bounds."""


@dataclass(frozen=True)
class LocalTimeTransform(Frozen, Transform):
    """Rows with their local time, ms, as a further field, BIGINT.

    Attributes:
        time: the field that is the time of a row; None for processing time.
        width: fields of a row.
        zone: time zone of the windows.
    """

    time: int | None
    width: int
    zone: str

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        local = local_times_of(frame, self.time, now, self.zone)
        return frame.with_columns(pl.Series(column(self.width), local, dtype=pl.Int64))


@dataclass(frozen=True)
class _Placed:
    """Where rows and known sessions come to be.

    Attributes:
        rows: positions of the rows that are not late.
        of_rows: the start of the session of each of these.
        moved: per known session, the start of the one that it is part of now.
        sessions: all sessions, the known ones included: key, start, end.
        written: which of them were not known as they are.
    """

    rows: Ints
    of_rows: Ints
    moved: Ints
    sessions: pl.DataFrame
    written: Bools


@dataclass(frozen=True)
class SessionAggregateKernel(EventTimeKernel):
    """Keeps accumulators per key and session, and emits a session when the watermark has come to its end.

    A row makes a window of the length of the gap; windows of a key that overlap or touch are one session. A row is late
    when the watermark has come to the end of its window and no session is there that the window can be merged with; a
    late row is dropped. A session whose rows have all been retracted is not emitted,
    nor is one whose TTL ends.

    The start of a session tells it apart. When two sessions become one, the accumulators of the later one are merged
    into those of the earlier one; when a row comes before a session, the session moves to another start.

    State: the sessions by key, each due at its end; and the tables of the group aggregate by key and session.

    Attributes:
        inner: the aggregate of partial results, whose last key is the start of the session.
        grouping: fields of the input that are the key.
        gap: ms without rows after which a session ends.
        zone: time zone of the windows.
        properties: what the last fields of the output say of the window.
        event_time: else the clock of the micro-batch takes the place of times and watermark.
    """

    inner: GlobalGroupAggregateKernel
    grouping: tuple[int, ...]
    gap: int
    zone: str
    properties: tuple[Property, ...]
    event_time: bool = True

    @property
    def by_clock(self) -> bool:
        return not self.event_time

    @property
    def alarms(self) -> SliceAlarms | None:
        step = min(max(self.gap // 10, _SHORTEST), _LONGEST)
        return None if self.event_time else SliceAlarms(Slicing("TUMBLE", step, step, zone=self.zone))

    @property
    def _partials(self) -> Partials:
        return self.inner.partials

    @cached_property
    def _session(self) -> tuple[str, ...]:
        """The columns of key and start."""
        return self._partials.keys

    @property
    def _key(self) -> list[str]:
        return list(self._session[:-1])

    @property
    def _start(self) -> str:
        return self._session[-1]

    @cached_property
    def _local(self) -> LocalTransform:
        """What makes partial results of rows whose last field is the start of their session."""
        return LocalTransform(self._partials, (*self.grouping, self._width))

    @property
    def _width(self) -> int:
        """How many fields a row has, before its local time."""
        return len(self._partials.kernel.input_type.fields) - len(self._session)

    @property
    def _time(self) -> str:
        return column(self._width)

    @property
    def call_texts(self) -> Sequence[str]:
        return self.inner.call_texts

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        groups, *others = self.inner.tables
        keys = {name: groups.columns[name] for name in self._session}
        sessions = StateTable(
            f"{groups.name}.sessions",
            0,
            tuple(self._key),
            self._session,
            {**keys, **own_columns({_END: pl.Int64(), _DUE: pl.Int64()})},
            due=_DUE,
        )
        return (sessions, groups, *(replace(table, lookup=self._session) for table in others))

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        frame = inputs[0]
        out: list[pl.DataFrame | None] = [None] * len(self.tables)
        if frame.height:
            out[0] = self._keys_of(frame) if self.grouping else frame[:1]
        return out

    def _keys_of(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The keys of rows, named as in the state."""
        named = zip(columns(self.grouping), self._key, strict=True)
        return framed([frame[name].alias(key) for name, key in named], frame.height)

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """What is kept of the sessions that are known."""
        sessions = state[0][list(self._session)] if state[0].height else None
        return [None, *[sessions] * (len(self.tables) - 1)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        frame, known = inputs[0], state[0]
        placed = self._placed(frame, known, watermark.before)
        late = frame.height - len(placed.rows)
        upserts: list[pl.DataFrame | None] = [None] * len(self.tables)
        deletes: list[pl.DataFrame | None] = [None] * len(self.tables)
        gone = known[np.flatnonzero(placed.moved != known[self._start].to_numpy())]
        parts = self._parts(frame, placed, state, gone, now)
        if parts.height:
            done = self.inner.folded([parts], state[1:], now, [0])
            upserts[1:], deletes[1:] = done.upserts, done.deletes
        reached = watermark.now if watermark.now > watermark.before else NO_WATERMARK
        sessions, ends = placed.sessions, placed.sessions[_END].to_numpy()
        due = self._due(ends)
        closed = due <= reached
        output = self._output(sessions, closed, state[1], upserts[1], deletes[1])
        stays = np.flatnonzero(placed.written & ~closed)
        if len(stays):
            times = [pl.Series(_DUE, due[stays]), pl.Series(ACCESS_TIME, np.full(len(stays), now))]
            upserts[0] = sessions[stays].hstack(times)
        over = pl.concat([gone[list(self._session)], sessions[np.flatnonzero(closed)][list(self._session)]])
        if over.height:
            self._remove(over, state, upserts, deletes)
        return Step(output, upserts, deletes, 0, late)

    # ---- sessions ----------------------------------------------------------------------------------------------

    def _due(self, ends: Ints) -> Ints:
        """The watermark that closes a session with each of these ends."""
        return closing_instants(ends - 1, self.zone)

    def _placed(self, frame: pl.DataFrame, known: pl.DataFrame, before: int) -> _Placed:
        times = frame[self._time].to_numpy()
        starts, ends = known[self._start].to_numpy(), known[_END].to_numpy()
        keys = self._keys_of(frame)
        _, (of_known, of_rows) = ids_of((known[self._key] if self._key else known, keys), self._key)
        late = self._due(times + self.gap) <= before
        rows = np.arange(frame.height)
        if late.any():
            keep = np.ones(frame.height, bool)
            codes = np.unique(of_rows[late])
            for own, mine in zip(_by_code(of_known, codes), _by_code(of_rows, codes), strict=True):
                there = list(zip(starts[own].tolist(), ends[own].tolist(), strict=True))
                keep[mine] = self._in_time(there, times[mine], late[mine])
            rows = np.flatnonzero(keep)
        spans = pl.DataFrame(
            {
                "code": np.concatenate([of_known, of_rows[rows]]),
                "start": np.concatenate([starts, times[rows]]),
                "end": np.concatenate([ends, times[rows] + self.gap]),
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
        made = spans.group_by("session", maintain_order=True).agg(
            pl.col("start").first(), pl.col("end").max(), pl.col("place").min()
        )
        at = np.empty(spans.height, np.int64)
        at[spans["place"].to_numpy()] = spans["session"].to_numpy() - 1
        begin = made["start"].to_numpy()
        of_all = begin[at] if len(at) else np.zeros(0, np.int64)
        origin = np.concatenate([np.arange(known.height), known.height + rows])[made["place"].to_numpy()]
        both = pl.concat([known[self._key], keys]) if self._key else pl.DataFrame(height=known.height + frame.height)
        found = [*both[origin].get_columns(), made["start"].alias(self._start), made["end"].alias(_END)]
        sessions = pl.DataFrame(found)
        as_before = np.zeros(sessions.height, bool)
        same = (of_all[: known.height] == starts) & (made["end"].to_numpy()[at[: known.height]] == ends)
        as_before[at[: known.height][same]] = True
        as_before[at[known.height :]] = False  # a row refreshes its session, wherever it is in it
        return _Placed(rows, of_all[known.height :], of_all[: known.height], sessions, ~as_before)

    def _in_time(self, there: list[tuple[int, int]], times: Ints, late: Bools) -> list[bool]:
        """Which rows of one key, in order of arrival, find a session or are not late by themselves."""
        out = []
        for time, alone in zip(times.tolist(), late.tolist(), strict=True):
            start, end = time, time + self.gap
            met = [s for s in there if s[0] <= end and s[1] >= start]
            out.append(bool(met) or not alone)
            if out[-1]:
                every = [(start, end), *met]
                there = [s for s in there if s not in met]
                there.append((min(s[0] for s in every), max(s[1] for s in every)))
        return out

    # ---- accumulators ------------------------------------------------------------------------------------------

    def _parts(self, frame: pl.DataFrame, placed: _Placed, state: Frames, gone: pl.DataFrame, now: int) -> pl.DataFrame:
        """Partial results: first those of sessions that have become part of others, then those of rows."""
        parts = pl.DataFrame(schema=self._partials.whole_schema())
        if gone.height:
            rows, into = self._matching(state[1], state[0], placed.moved, gone)
            moved = self._partials.of_state(rows, state[2:])
            parts = moved.with_columns(pl.Series(self._start, into, dtype=pl.Int64))[parts.columns]
        if len(placed.rows):
            kept = frame[placed.rows] if len(placed.rows) < frame.height else frame
            kept = kept.with_columns(pl.Series(self._time, placed.of_rows, dtype=pl.Int64))
            parts = pl.concat([parts, self._local(kept, now)[parts.columns]])
        return parts

    def _matching(
        self, groups: pl.DataFrame, known: pl.DataFrame, moved: Ints, gone: pl.DataFrame
    ) -> tuple[pl.DataFrame, Ints]:
        """The accumulators of sessions that have moved, in the order of their start, and the new start of each."""
        session = list(self._session)
        rows = groups[present(groups, session, gone)].sort(self._start, maintain_order=True)
        ids, (mine, places) = ids_of((rows, known), session)
        return rows, moved[positions(places, ids.count)[mine]]

    def _output(
        self,
        sessions: pl.DataFrame,
        closed: Bools,
        state: pl.DataFrame,
        upserts: pl.DataFrame | None,
        deletes: pl.DataFrame | None,
    ) -> pl.DataFrame:
        """The rows of the sessions that close, in the order of their end."""
        kernel, session = self._partials.kernel, list(self._session)
        over = sessions[np.flatnonzero(closed)].sort(_END, maintain_order=True)
        current = state
        for changed in (upserts, deletes):
            if changed is not None and current.height:
                current = current[absent(current, session, changed)]
        if upserts is not None:
            current = pl.concat([current[upserts.columns], upserts])
        ids, (found, mine) = ids_of((current, over), session)
        place = positions(found, ids.count)[mine]
        there = np.flatnonzero(place >= 0)
        over, rows = over[there], current[place[there]]
        results = kernel.results(over[session], rows)
        starts, ends = over[self._start].to_numpy(), over[_END].to_numpy()
        return told_of_windows(results, len(session) - 1, self.properties, starts, ends, self.zone)

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
                kept = fresh[absent(fresh, session, over)]
                upserts[i] = kept if kept.height else None
            dead = state[i][present(state[i], session, over)][identity]
            deletes[i] = together(deletes[i], dead if dead.height else None)


def _by_code(codes: Ints, wanted: Ints) -> Iterator[Ints]:
    """For each of the ``wanted`` codes, in ascending order, the positions that have it."""
    order = np.argsort(codes, kind="stable")
    ends = [np.searchsorted(codes[order], wanted, side) for side in ("left", "right")]
    return (order[first:end] for first, end in zip(*ends, strict=True))
