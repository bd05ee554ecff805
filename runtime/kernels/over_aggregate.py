"""OVER windows: each row with aggregates of the rows before it in its partition.

Source of the semantics: Flink's ``ProcTimeUnboundedPrecedingFunction``, ``ProcTimeRowsBoundedPrecedingFunction``,
``ProcTimeRangeBoundedPrecedingFunction``, ``RowTimeUnboundedPrecedingOverFunctionV2``,
``RowTimeRowsBoundedPrecedingFunction`` and ``RowTimeRangeBoundedPrecedingFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import polars as pl

from stateplan.common.changelog import column
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
from stateplan.runtime.kernels.common.net import (
    Bools,
    Ints,
    ids_of,
    insertions,
    narrow,
    positions,
    ranks,
    stable_order,
    stamped,
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
    Played,
    joined,
    wide,
)
from stateplan.runtime.kernels.common.walks import first_after


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
        frame, known = insertions(inputs[0], "OverAggregate"), state[0]
        if not self.frame.bounded:
            return self._unbounded(self._timed(frame, None, now), known, state[1:], now)
        if not self.frame.rows:
            known = known.filter(pl.col(UNTIL) > now)
        held, stale = self._reached(state[1], known)
        rows = self._timed(frame, known, now)
        played = self._play(rows, known, held, [], now)
        there = played.place >= 0
        following = np.bincount(played.owners, minlength=played.count)
        following[there] += known[NEXT].to_numpy()[played.place[there]]
        own = {NEXT: following}
        until = np.full(played.count, -1, np.int64)
        if self.frame.rows:
            until[there] = known[ACCESS_TIME].to_numpy()[played.place[there]] + ttl[0]
            until = np.where(now + ttl[0] > until, now + ttl[0] * 3 // 2, until)
            stamps = np.full(played.count, now) if ttl[0] == 0 else until - ttl[0]
            rows_stamps = stamps if ttl[0] else np.full(played.count, ALWAYS)
            written, gone = self._rows_written(played.walk, rows_stamps[played.walk.owners])
        else:
            bound = self.frame.preceding or 0
            until[there] = known[UNTIL].to_numpy()[played.place[there]]
            own[UNTIL] = np.where(until < now + bound + 1, now + bound * 3 // 2 + 1, until)
            stamps = np.full(played.count, now)
            written, gone = self._rows_written(played.walk, played.walk.times)
        whole = wide(played.keys, played.after, own)
        return Step(self._arranged(played), [stamped(whole, stamps), written], [None, joined(gone, stale, written)])

    def _unbounded(self, rows: pl.DataFrame, known: pl.DataFrame, values: Sequence[pl.DataFrame], now: int) -> Step:
        held = pl.DataFrame(schema={**self._row_table().schema, ACCESS_TIME: pl.Int64()})
        played = self._play(rows, known, held, values, 0)
        fresh = [stamped(new, ALWAYS) if new.height else None for new in played.fresh]
        upserts = [stamped(wide(played.keys, played.after, {}), now), *fresh]
        return Step(self._arranged(played), upserts, [None] * len(upserts))

    def _timed(self, frame: pl.DataFrame, known: pl.DataFrame | None, now: int) -> pl.DataFrame:
        """The rows with their time and number."""
        numbers = np.arange(frame.height)
        if known is not None:
            ids, (there, mine) = ids_of((known, frame), self._keys)
            following = np.zeros(ids.count, np.int64)
            following[there] = known[NEXT].to_numpy()
            numbers = following[mine] + ranks(mine)
        return frame.with_columns(pl.lit(now, dtype=pl.Int64).alias(AT), pl.Series(NUMBER, numbers, dtype=pl.Int64))

    @staticmethod
    def _arranged(played: Played) -> pl.DataFrame:
        """The output in the order of arrival."""
        return played.out[np.argsort(stable_order(played.owners))]


@dataclass(frozen=True)
class RowtimeOverKernel(OverKernel, EventTimeKernel):
    """OVER (ORDER BY a rowtime attribute): each row comes out when the watermark has come to its time.

    Late rows are dropped as in Flink: without a bound those at or before the watermark, with one those that are not
    later than the last row of their partition that came out.

    The TTL of Flink's functions: without a bound, and of ROWS with one, a partition without waiting rows is gone
    between one and one and a half TTLs after it was last touched; of RANGE with a bound, when the watermark has come so
    far that no frame can reach its rows, or with a TTL, which Flink does not have there, that long after it was last
    touched, unless rows wait. Values of DISTINCT calls are kept without a TTL; they count
    for the partition that they came to only.

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
        waiting = {**self._columns, **own_columns({NUMBER: pl.Int64(), DUE: pl.Int64()})}
        identity = (*self._keys, NUMBER)
        return (
            StateTable(f"{STATE}.waiting", 0, identity, identity, waiting, due=DUE),
            self._partition_table(UNTIL if self._is_range else None),
            *([self._row_table()] if self.frame.bounded else self._value_tables()),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [None, *self._keys_of([inputs[0]])]

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """Nothing but what is due."""
        return [None] * len(self.tables)

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """The partitions of the rows that came, and of those that are due."""
        return [None, *self._keys_of([inputs[0], state[0]], state[1])]

    def _keys_of(self, rows: Sequence[pl.DataFrame], due: pl.DataFrame | None = None) -> list[pl.DataFrame | None]:
        parts = [*rows, *([] if due is None else [due])]
        some = [narrow(p, self._keys) if self._keys else p[:1] for p in parts if p.height]
        keys = None
        if some:
            keys = pl.concat(some) if self._keys else some[0]
        return [keys, keys] if self.frame.bounded else [keys, *self._values_lookup(rows)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch. Raises RunError RUN061, when the input is not insert-only."""
        frame, (waiting, known) = insertions(inputs[0], "OverAggregate"), state[:2]
        values = [] if self.frame.bounded else list(state[2:])
        held, stale = self._reached(state[2] if self.frame.bounded else self._no_rows, known)
        ids, (arrived, waited, there, old) = ids_of((frame, waiting, known, held), self._keys)
        touched = _Touched(ids.count, positions(there, ids.count), known)
        times = frame[column(self.rowtime)].cast(pl.Datetime("ms")).to_physical().to_numpy()
        last = touched.column(LAST, 0) if self.frame.bounded else np.full(ids.count, watermark.before)
        punctual = times > last[arrived]
        in_time = np.flatnonzero(punctual)
        owners, times = arrived[in_time], times[in_time]
        following = touched.column(NEXT, 0)
        fresh = frame[in_time].with_columns(
            pl.Series(NUMBER, following[owners] + ranks(owners), dtype=pl.Int64),
            pl.Series(DUE, times, dtype=pl.Int64),
        )
        following += np.bincount(owners, minlength=ids.count)
        moved = watermark.now > watermark.before
        out_now = (times <= watermark.now) & moved
        names = [*self._fields, NUMBER, DUE]
        released = pl.concat([waiting[names], fresh[names].filter(pl.Series(out_now))]).rename({DUE: AT})
        codes = np.concatenate([waited, owners[out_now]])
        pending = touched.column(PENDING, 0) + np.bincount(owners, minlength=ids.count)
        pending -= np.bincount(codes, minlength=ids.count)
        own = {NEXT: following, PENDING: pending}
        if self.frame.bounded:
            np.maximum.at(last, codes, released[AT].to_numpy())
            own[LAST] = last
        if BORN in self._own:
            own[BORN] = touched.column(BORN, now)
        cleared = np.zeros(ids.count, bool)
        if self._is_range:
            own[UNTIL] = _cleanup(owners, times, touched.column(UNTIL, NEVER), self.frame.preceding or 0)
            cleared = (own[UNTIL] <= watermark.now) & moved
            stamps = np.where(pending > 0, ALWAYS, now) if ttl[0] else np.full(ids.count, ALWAYS)
        else:
            mentioned = np.bincount(np.concatenate([arrived, codes]), minlength=ids.count) > 0
            was_waiting = touched.column(PENDING, 0) > 0
            own[UNTIL] = _retained(touched.column(UNTIL, NEVER), was_waiting, mentioned, now, ttl[0])
            stamps = np.where(pending > 0, ALWAYS, own[UNTIL] - ttl[0]) if ttl[0] else np.full(ids.count, now)
        kept = touched.known.copy()
        kept[owners] = True
        rest = fresh.filter(pl.Series(~out_now))
        after = self._before(known, touched.place)
        out = self._empty()
        rows_stamps = stamps if ttl[0] or self._is_range else np.full(ids.count, ALWAYS)
        others: _Writes = [None] * (len(self.tables) - 2), [None] * (len(self.tables) - 2)
        resting = ~cleared
        if released.height:
            played = self._play(released, known, held, values, now, peers=not self.frame.rows)
            mine = codes[np.unique(played.owners, return_index=True)[1]]
            resting[mine] = False
            if self._kept:
                where = np.arange(ids.count)
                where[mine] = ids.count + np.arange(played.count)
                after = pl.concat([after, played.after])[where]
            out = played.out[np.argsort(played.walk.times[played.walk.new], kind="stable")]
            others = self._written(played, rows_stamps[mine], cleared[mine])
        if self.frame.bounded:
            # The rows of a partition live as long as it.
            again = np.flatnonzero(resting[old] & (held[ACCESS_TIME].to_numpy() != rows_stamps[old]))
            if len(again):
                rows = stamped(held.drop(ACCESS_TIME)[again], rows_stamps[old[again]])
                others[0][0] = rows if others[0][0] is None else pl.concat([others[0][0], rows])
            gone_rows = held[[*self._keys, NUMBER]][np.flatnonzero(cleared[old])]
            others[1][0] = joined(others[1][0], gone_rows, None)
            others[1][0] = joined(others[1][0], stale, others[0][0])
        write, gone = np.flatnonzero(kept & ~cleared), np.flatnonzero(touched.known & cleared)
        whole = wide(self._key_frame((frame, waiting, known, held), ids.first), after, own)
        return Step(
            out,
            [
                stamped(rest, ALWAYS) if rest.height else None,
                stamped(whole[write], stamps[write]) if len(write) else None,
                *others[0],
            ],
            [
                waiting[[*self._keys, NUMBER]] if waiting.height else None,
                known[list(self._keys) or [ACCESS_TIME]][touched.place[gone]] if len(gone) else None,
                *others[1],
            ],
            late_rows=(left_out(frame, punctual),),
        )

    @cached_property
    def _no_rows(self) -> pl.DataFrame:
        return pl.DataFrame(schema={**self._row_table().schema, ACCESS_TIME: pl.Int64()})

    def _key_frame(self, parts: Sequence[pl.DataFrame], first: Ints) -> pl.DataFrame:
        """The keys at ``first`` of the rows of all parts."""
        if not self._keys:
            return pl.DataFrame(height=len(first))
        return pl.concat([p[list(self._keys)] for p in parts])[first]

    def _written(self, played: Played, stamps: Ints, cleared: Bools) -> _Writes:
        """What is written to the tables of rows, or of values.

        Args:
            stamps, cleared: per partition the time of access, and whether it is gone.
        """
        if not self.frame.bounded:
            fresh: list[pl.DataFrame | None] = [stamped(n, ALWAYS) if n.height else None for n in played.fresh]
            return fresh, [None] * len(fresh)
        written, gone = self._rows_written(played.walk, stamps[played.walk.owners], cleared)
        return [written], [gone if gone.height else None]


_Writes: TypeAlias = tuple[list[pl.DataFrame | None], list[pl.DataFrame | None]]


class _Touched:
    """The state of partitions by number.

    Args:
        count: number of partitions.
        place: per partition where it is among the known ones; -1 for none.
        frame: the known ones.
    """

    def __init__(self, count: int, place: Ints, frame: pl.DataFrame) -> None:
        self.place, self.known = place, place >= 0
        self._count, self._frame = count, frame

    def column(self, name: str, default: int) -> Ints:
        """A column per partition."""
        out = np.full(self._count, default)
        out[self.known] = self._frame[name].to_numpy()[self.place[self.known]]
        return out


def _cleanup(owners: Ints, times: Ints, until: Ints, bound: int) -> Ints:
    """Per partition when its state is cleaned up, after rows of the given times came in this order: one and a half
    frames behind the first row that needs it for longer than was planned before, and so on."""
    out = until.copy()
    if not len(owners):
        return out
    need, plan = bound + 1, bound * 3 // 2 + 1
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


def _retained(until: Ints, waiting: Bools, mentioned: Bools, now: int, ttl: int) -> Ints:
    """Per partition when its state is cleaned up, in processing time.

    Args:
        until: when it was to be.
        waiting: where rows waited for the watermark: there it is put off.
        mentioned: which partitions are touched.
    """
    if ttl == 0:
        return until
    plan = ttl * 3 // 2
    late = waiting & (until <= now)
    out = np.where(late, until + ((now - until) // plan + 1) * plan, until)
    return np.where(mentioned & (now + ttl > out), now + plan, out)
