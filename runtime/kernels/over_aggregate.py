"""OVER windows: each row with aggregates of the rows before it in its partition.

Source of the semantics: Flink's ``ProcTimeUnboundedPrecedingFunction``, ``ProcTimeRowsBoundedPrecedingFunction``,
``ProcTimeRangeBoundedPrecedingFunction``, ``RowTimeUnboundedPrecedingOverFunctionV2``,
``RowTimeRowsBoundedPrecedingFunction`` and ``RowTimeRangeBoundedPrecedingFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    EventTimeKernel,
    Frames,
    StateTable,
    Step,
    Watermark,
    left_out,
    lookup_frame,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    ids_of,
    insertions,
    positions,
    ranks,
    stable_order,
    with_stamps,
)
from stateplan.runtime.kernels.common.over import (
    ALWAYS,
    AT,
    BORN,
    DUE,
    LAST,
    NEVER,
    NEXT,
    NUMBER,
    PENDING,
    STATE,
    UNTIL,
    OverKernel,
    Playback,
    wide,
    with_more,
)
from stateplan.runtime.kernels.common.over_frames import first_after


@dataclass(frozen=True)
class ProctimeOverKernel(OverKernel):
    """OVER (ORDER BY a processing time attribute): each row comes out in the micro-batch that it came in with.

    A RANGE frame with a bound holds all rows of the micro-batch. TTLs are those of Flink's functions: without a bound,
    a partition that had no row for the TTL starts over, but for the values of DISTINCT calls, which stay; of ROWS with
    a bound a partition is gone between one and one and a half TTLs after its last row; of RANGE with a bound, when no
    frame can reach its rows: the TTL that is passed must be :func:`execnodes.nodes.over_aggregate.range_ttl`.
    """

    @cached_property
    def _own(self) -> dict[str, pl.DataType]:
        if not self.frame.bounded:
            return {}
        return {NEXT: pl.Int64()} if self.frame.rows else {NEXT: pl.Int64(), UNTIL: pl.Int64()}

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        if self.frame.bounded:
            return (self._partition_table(), self._row_table())
        return (self._partition_table(), *self._value_tables())

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        keys = lookup_frame(inputs[0], self._keys)
        return [keys, keys] if self.frame.bounded else [keys, *self._values_lookup([inputs[0]])]

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch. Raises RunError RUN061, when the input is not insert-only."""
        frame, state_rows = insertions(inputs[0], "OverAggregate"), state[0]
        if not self.frame.bounded:
            return self._unbounded(self._with_times(frame, None, now), state_rows, state[1:], now)
        if not self.frame.rows:
            state_rows = state_rows.filter(pl.col(UNTIL) > now)
        frame_rows, stale = self._rows_in_reach(state[1], state_rows)
        rows = self._with_times(frame, state_rows, now)
        playback = self._play(rows, state_rows, frame_rows, [], now)
        is_old = playback.place >= 0
        following = np.bincount(playback.owners, minlength=playback.count)
        following[is_old] += state_rows[NEXT].to_numpy()[playback.place[is_old]]
        own = {NEXT: following}
        until = np.full(playback.count, -1, np.int64)
        if self.frame.rows:
            until[is_old] = state_rows[ACCESS_TIME].to_numpy()[playback.place[is_old]] + ttl[0]
            until = np.where(now + ttl[0] > until, now + ttl[0] * 3 // 2, until)
            stamps = np.full(playback.count, now) if ttl[0] == 0 else until - ttl[0]
            rows_stamps = stamps if ttl[0] else np.full(playback.count, ALWAYS)
            row_upserts, expired_rows = self._rows_written(playback.walk, rows_stamps[playback.walk.owners])
        else:
            preceding = self.frame.preceding or 0
            until[is_old] = state_rows[UNTIL].to_numpy()[playback.place[is_old]]
            own[UNTIL] = np.where(until < now + preceding + 1, now + preceding * 3 // 2 + 1, until)
            stamps = np.full(playback.count, now)
            row_upserts, expired_rows = self._rows_written(playback.walk, playback.walk.times)
        parts = wide(playback.keys, playback.after, own)
        return Step(
            self._in_arrival_order(playback),
            [with_stamps(parts, stamps), row_upserts],
            [None, with_more(expired_rows, stale, row_upserts)],
        )

    def _unbounded(
        self, rows: pl.DataFrame, state_rows: pl.DataFrame, values: Sequence[pl.DataFrame], now: int
    ) -> Step:
        no_rows = pl.DataFrame(schema={**self._row_table().schema, ACCESS_TIME: pl.Int64()})
        playback = self._play(rows, state_rows, no_rows, values, 0)
        fresh = [with_stamps(new, ALWAYS) if new.height else None for new in playback.fresh]
        upserts = [with_stamps(wide(playback.keys, playback.after, {}), now), *fresh]
        return Step(self._in_arrival_order(playback), upserts, [None] * len(upserts))

    def _with_times(self, frame: pl.DataFrame, state_rows: pl.DataFrame | None, now: int) -> pl.DataFrame:
        """The rows with their time and number."""
        numbers = np.arange(frame.height)
        if state_rows is not None:
            ids, (theirs, mine) = ids_of((state_rows, frame), self._keys)
            following = np.zeros(ids.count, np.int64)
            following[theirs] = state_rows[NEXT].to_numpy()
            numbers = following[mine] + ranks(mine)
        return frame.with_columns(pl.lit(now, dtype=pl.Int64).alias(AT), pl.Series(NUMBER, numbers, dtype=pl.Int64))

    @staticmethod
    def _in_arrival_order(playback: Playback) -> pl.DataFrame:
        """The output in the order of arrival."""
        return playback.out[np.argsort(stable_order(playback.owners))]


@dataclass(frozen=True)
class RowtimeOverKernel(OverKernel, EventTimeKernel):
    """OVER (ORDER BY a rowtime attribute): each row comes out when the watermark has reached its time.

    Late rows are dropped as in Flink: without a bound those at or before the watermark, with one those that are not
    later than the last row of their partition that came out.

    The TTL of Flink's functions: without a bound, and of ROWS with one, a partition without waiting rows is gone
    between one and one and a half TTLs after it was last touched; of RANGE with a bound, when the watermark has
    advanced so far that no frame can reach its rows, or with a TTL, which Flink does not have there, that long after it
    was last touched, unless rows wait. Values of DISTINCT calls are kept without a TTL; they count for the partition
    that they came to only.

    Attributes:
        rowtime: the field that is the time.
    """

    rowtime: int = 0

    @cached_property
    def _own(self) -> dict[str, pl.DataType]:
        names = [
            NEXT,
            PENDING,
            UNTIL,
            *([LAST] if self.frame.bounded else []),
            *([BORN] if self._distinct else []),
        ]
        return dict.fromkeys(names, pl.Int64())

    @property
    def _is_range(self) -> bool:
        return self.frame.bounded and not self.frame.rows

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        buffer = {**self._columns, **own_columns({NUMBER: pl.Int64(), DUE: pl.Int64()})}
        identity = (*self._keys, NUMBER)
        return (
            StateTable(f"{STATE}.waiting", 0, identity, identity, buffer, due=DUE),
            self._partition_table(UNTIL if self._is_range else None),
            *([self._row_table()] if self.frame.bounded else self._value_tables()),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [None, *self._keys_of([inputs[0]])]

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """Nothing but what is due."""
        return [None] * len(self.tables)

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """The partitions of the rows that arrived, and of those that are due."""
        return [None, *self._keys_of([inputs[0], state[0]], state[1])]

    def _keys_of(self, rows: Sequence[pl.DataFrame], due: pl.DataFrame | None = None) -> list[pl.DataFrame | None]:
        keys = self._lookup_keys([*rows, *([] if due is None else [due])])
        return [keys, keys] if self.frame.bounded else [keys, *self._values_lookup(rows)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch. Raises RunError RUN061, when the input is not insert-only."""
        came = self._came(inputs, state)
        last = came.touched_keys.column(LAST, 0) if self.frame.bounded else np.full(came.count, watermark.before)
        times = came.rows[column(self.rowtime)].cast(pl.Datetime("ms")).to_physical().to_numpy()
        punctual = times > last[came.arrival_codes]
        due = self._due(came, np.flatnonzero(punctual), times, watermark)
        life = self._life(came, due, last, now, ttl[0], watermark)
        playback = self._output_and_state(came, due, life, [] if self.frame.bounded else list(state[2:]), now)
        if self.frame.bounded:
            self._keep_rows(came, life, playback)
        has_state = came.touched_keys.has_state.copy()
        has_state[due.owners] = True
        write, cleared_keys = (
            np.flatnonzero(has_state & ~life.is_cleared),
            np.flatnonzero(came.touched_keys.has_state & life.is_cleared),
        )
        keys = self._key_frame((came.rows, came.buffer, came.state_rows, came.stored_rows), came.first)
        rows_of_keys = wide(keys, playback.after, life.own)
        rest, buffer = due.fresh.filter(pl.Series(~due.out_now)), came.buffer
        return Step(
            playback.out,
            [
                with_stamps(rest, ALWAYS) if rest.height else None,
                with_stamps(rows_of_keys[write], life.stamps[write]) if len(write) else None,
                *playback.row_upserts,
            ],
            [
                buffer[[*self._keys, NUMBER]] if buffer.height else None,
                came.state_rows[list(self._keys) or [ACCESS_TIME]][came.touched_keys.place[cleared_keys]]
                if len(cleared_keys)
                else None,
                *playback.row_deletes,
            ],
            late_rows=(left_out(came.rows, punctual),),
        )

    def _came(self, inputs: Frames, state: Frames) -> _Came:
        """A micro-batch with the state of its partitions. Raises RunError RUN061, the input is not insert-only."""
        rows, (buffer, state_rows) = insertions(inputs[0], "OverAggregate"), state[:2]
        frame_rows, stale = self._rows_in_reach(state[2] if self.frame.bounded else self._no_rows, state_rows)
        ids, (arrival_codes, waiting_codes, theirs, old) = ids_of((rows, buffer, state_rows, frame_rows), self._keys)
        touched_keys = _TouchedKeys(ids.count, positions(theirs, ids.count), state_rows)
        return _Came(
            rows,
            buffer,
            state_rows,
            frame_rows,
            stale,
            ids.count,
            ids.first,
            arrival_codes,
            waiting_codes,
            old,
            touched_keys,
        )

    def _due(self, came: _Came, in_time: Ints, times: Ints, watermark: Watermark) -> _Due:
        """Which rows come out, of those at ``in_time`` and of those that waited."""
        owners, times = came.arrival_codes[in_time], times[in_time]
        following = came.touched_keys.column(NEXT, 0)
        fresh = came.rows[in_time].with_columns(
            pl.Series(NUMBER, following[owners] + ranks(owners), dtype=pl.Int64),
            pl.Series(DUE, times, dtype=pl.Int64),
        )
        out_now = (times <= watermark.now) & (watermark.now > watermark.before)
        names = [*self._fields, NUMBER, DUE]
        due_rows = pl.concat([came.buffer[names], fresh[names].filter(pl.Series(out_now))]).rename({DUE: AT})
        return _Due(fresh, owners, times, out_now, due_rows, np.concatenate([came.waiting_codes, owners[out_now]]))

    def _life(self, came: _Came, due: _Due, last: Ints, now: int, ttl: int, watermark: Watermark) -> _Life:
        """What becomes of the partitions: how far they have come, and when they are cleaned up."""
        touched_keys, count = came.touched_keys, came.count
        pending = touched_keys.column(PENDING, 0) + np.bincount(due.owners, minlength=count)
        pending -= np.bincount(due.codes, minlength=count)
        own = {NEXT: touched_keys.column(NEXT, 0) + np.bincount(due.owners, minlength=count), PENDING: pending}
        if self.frame.bounded:
            np.maximum.at(last, due.codes, due.due_rows[AT].to_numpy())
            own[LAST] = last
        if BORN in self._own:
            own[BORN] = touched_keys.column(BORN, now)
        always = np.full(count, ALWAYS)
        if self._is_range:
            own[UNTIL] = _cleanup(due.owners, due.times, touched_keys.column(UNTIL, NEVER), self.frame.preceding or 0)
            is_cleared = (own[UNTIL] <= watermark.now) & (watermark.now > watermark.before)
            stamps = np.where(pending > 0, ALWAYS, now) if ttl else always
            return _Life(own, is_cleared, stamps, stamps)
        has_rows = np.bincount(np.concatenate([came.arrival_codes, due.codes]), minlength=count) > 0
        was_waiting = touched_keys.column(PENDING, 0) > 0
        own[UNTIL] = _retention(touched_keys.column(UNTIL, NEVER), was_waiting, has_rows, now, ttl)
        stamps = np.where(pending > 0, ALWAYS, own[UNTIL] - ttl) if ttl else np.full(count, now)
        return _Life(own, np.zeros(count, bool), stamps, stamps if ttl else always)

    def _output_and_state(self, came: _Came, due: _Due, life: _Life, values: list[pl.DataFrame], now: int) -> _Playback:
        """The rows that come out, and what they leave in the state."""
        after = self._before(came.state_rows, came.touched_keys.place)
        none: list[pl.DataFrame | None] = [None] * (len(self.tables) - 2)
        resting = ~life.is_cleared
        if not due.due_rows.height:
            return _Playback(self._empty(), after, none, list(none), resting)
        playback = self._play(due.due_rows, came.state_rows, came.stored_rows, values, now, peers=not self.frame.rows)
        mine = due.codes[np.unique(playback.owners, return_index=True)[1]]
        resting[mine] = False
        if self._call_columns:
            places = np.arange(came.count)
            places[mine] = came.count + np.arange(playback.count)
            after = pl.concat([after, playback.after])[places]
        out = playback.out[np.argsort(playback.walk.times[playback.walk.new], kind="stable")]
        row_upserts, row_deletes = self._row_writes(playback, life.rows_stamps[mine], life.is_cleared[mine])
        return _Playback(out, after, row_upserts, row_deletes, resting)

    def _keep_rows(self, came: _Came, life: _Life, writes: _Playback) -> None:
        """The rows of a partition live as long as it: what is written and removed of those that stay."""
        stamps = life.rows_stamps[came.old]
        renewals = np.flatnonzero(writes.resting[came.old] & (came.stored_rows[ACCESS_TIME].to_numpy() != stamps))
        if len(renewals):
            rows = with_stamps(came.stored_rows.drop(ACCESS_TIME)[renewals], stamps[renewals])
            row_upserts = writes.row_upserts[0]
            writes.row_upserts[0] = rows if row_upserts is None else pl.concat([row_upserts, rows])
        cleared_rows = came.stored_rows[[*self._keys, NUMBER]][np.flatnonzero(life.is_cleared[came.old])]
        writes.row_deletes[0] = with_more(
            with_more(writes.row_deletes[0], cleared_rows, None), came.stale, writes.row_upserts[0]
        )

    @cached_property
    def _no_rows(self) -> pl.DataFrame:
        return pl.DataFrame(schema={**self._row_table().schema, ACCESS_TIME: pl.Int64()})

    def _row_writes(self, playback: Playback, stamps: Ints, is_cleared: Bools) -> _Writes:
        """What is written to the tables of rows, or of values.

        Args:
            stamps, is_cleared: per partition the time of access, and whether it is gone.
        """
        if not self.frame.bounded:
            fresh: list[pl.DataFrame | None] = [with_stamps(n, ALWAYS) if n.height else None for n in playback.fresh]
            return fresh, [None] * len(fresh)
        row_upserts, row_deletes = self._rows_written(playback.walk, stamps[playback.walk.owners], is_cleared)
        return [row_upserts], [row_deletes if row_deletes.height else None]


_Writes: TypeAlias = tuple[list[pl.DataFrame | None], list[pl.DataFrame | None]]


@dataclass(frozen=True)
class _Came:
    """A micro-batch with the state of its partitions, which are numbered.

    Attributes:
        rows: those that arrived.
        buffer: those in state that are due.
        state_rows: the state of the partitions.
        stored_rows: rows in state that frames reach.
        stale: rows in state that no frame reaches.
        count, first: how many partitions, and where each has its first row among all of these frames.
        arrival_codes, waiting_codes, old: the partition of each row of ``rows``, ``buffer``, ``stored_rows``.
        touched_keys: the state by partition.
    """

    rows: pl.DataFrame
    buffer: pl.DataFrame
    state_rows: pl.DataFrame
    stored_rows: pl.DataFrame
    stale: pl.DataFrame
    count: int
    first: Ints
    arrival_codes: Ints
    waiting_codes: Ints
    old: Ints
    touched_keys: _TouchedKeys


@dataclass(frozen=True)
class _Due:
    """Which rows come out in a micro-batch.

    Attributes:
        fresh: those that came in time, with their number and their time.
        owners, times: partition and time of each of them.
        out_now: which of them come out; the others wait.
        due_rows: all that come out, with those that waited.
        codes: the partition of each of these.
    """

    fresh: pl.DataFrame
    owners: Ints
    times: Ints
    out_now: Bools
    due_rows: pl.DataFrame
    codes: Ints


@dataclass(frozen=True)
class _Life:
    """What becomes of partitions.

    Attributes:
        own: their columns besides keys and accumulators.
        is_cleared: which of them are cleaned up.
        stamps: their times of access.
        rows_stamps: those of their rows.
    """

    own: dict[str, Ints]
    is_cleared: Bools
    stamps: Ints
    rows_stamps: Ints


@dataclass(frozen=True)
class _Playback:
    """What a micro-batch puts out and leaves behind.

    Attributes:
        out: the output.
        after: the accumulators of the partitions.
        row_upserts, row_deletes: changes of the tables of rows or values.
        resting: the partitions that stay, and put nothing out.
    """

    out: pl.DataFrame
    after: pl.DataFrame
    row_upserts: list[pl.DataFrame | None]
    row_deletes: list[pl.DataFrame | None]
    resting: Bools


class _TouchedKeys:
    """The state of partitions by number.

    Args:
        count: number of partitions.
        place: per partition where it is among the known ones; -1 for none.
        frame: the known ones.
    """

    def __init__(self, count: int, place: Ints, frame: pl.DataFrame) -> None:
        self.place, self.has_state = place, place >= 0
        self._count, self._frame = count, frame

    def column(self, name: str, default: int) -> Ints:
        """A column per partition."""
        out = np.full(self._count, default)
        out[self.has_state] = self._frame[name].to_numpy()[self.place[self.has_state]]
        return out


def _cleanup(owners: Ints, times: Ints, until: Ints, preceding: int) -> Ints:
    """Per partition when its state is cleaned up, after rows of the given times came in this order: one and a half
    frames behind the first row that needs it for longer than was planned before, and so on."""
    out = until.copy()
    if not len(owners):
        return out
    need, plan = preceding + 1, preceding * 3 // 2 + 1
    order = stable_order(owners)
    owners, times = owners[order], times[order]
    begins = np.searchsorted(owners, owners)
    rank = np.argsort(np.argsort(times, kind="stable"), kind="stable")
    shift = begins * (len(times) + 1)
    highest = np.sort(times)[np.maximum.accumulate(rank + shift) - shift]
    first = first_after(owners, highest, np.unique(owners), until[np.unique(owners)] - need)
    following = first_after(owners, highest, owners, times + plan - need)
    ends = np.searchsorted(owners, owners, side="right")
    rows = np.arange(len(times))
    last = np.where(following < ends, following, rows)
    for _ in range(len(times).bit_length()):
        last = last[last]
    parts = np.unique(owners)
    some = first < np.searchsorted(owners, parts, side="right")
    out[parts[some]] = times[last[first[some]]] + plan
    return out


def _retention(until: Ints, has_buffer: Bools, has_rows: Bools, now: int, ttl: int) -> Ints:
    """Per partition when its state is cleaned up, in processing time.

    Args:
        until: when it was to be.
        has_buffer: where rows waited for the watermark: there it is put off.
        has_rows: which partitions are touched.
    """
    if ttl == 0:
        return until
    plan = ttl * 3 // 2
    late = has_buffer & (until <= now)
    out = np.where(late, until + ((now - until) // plan + 1) * plan, until)
    return np.where(has_rows & (now + ttl > out), now + plan, out)
