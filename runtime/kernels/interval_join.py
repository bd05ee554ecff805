"""Interval joins: rows whose times are near each other.

Source of the semantics: Flink's ``TimeIntervalJoin``, ``RowTimeIntervalJoin``, ``ProcTimeIntervalJoin`` and
``IntervalJoinFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    NO_WATERMARK,
    OUTER_ROWS,
    Access,
    EventTimeKernel,
    Frames,
    PendingWork,
    StateTable,
    Step,
    Watermark,
    field_columns,
    left_out,
    lookup_frame,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    frame_of,
    ids_of,
    truth,
    with_stamps,
    within,
    without_match,
)
from stateplan.runtime.kernels.common.two_sides import TwoSides
from stateplan.runtime.watermarks import EventTime

_TIME, _DUE, _NUMBER, _HAS_MATCH = "@time", "@due", "@n", "@matched"


@dataclass(frozen=True)
class _Rows:
    """Rows of one side: those of the state first, then those of the micro-batch.

    Attributes:
        frame: the columns of the side's state table.
        stored_count: how many come from the state.
        is_waiting: which are in the state, or go there: a row of the other side may still come that meets them.
        has_match: which have met a row, now or before.
        late: which came too late to be kept.
    """

    frame: pl.DataFrame
    stored_count: int
    is_waiting: Bools
    has_match: Bools
    late: Bools

    @property
    def times(self) -> Ints:
        return self.frame[_TIME].to_numpy()


@dataclass(frozen=True)
class IntervalJoinKernel(TwoSides, EventTimeKernel):
    """A join of rows with lower <= left time - right time <= upper.

    A row meets the rows of the other side that are kept, and is kept itself until the watermark is past all that it
    could meet. Rows that have met nothing by then come out padded with NULLs, on the sides that an outer join keeps. A
    row so late that it will not be kept is padded at once. Within a micro-batch the left rows come first. By
    processing time the clock of the micro-batch takes the place of both the times of its rows and the watermark.

    A row whose TTL ends while it waits meets nothing any more, and is not padded. As in Flink rows with NULL in a key
    where NULL matches nothing wait too in an outer join, and bounds that no two times can meet keep nothing.

    Attributes:
        spec: INNER, LEFT, RIGHT or FULL.
        event_time: else it goes by processing time.
        lower, upper: the bounds, ms.
        left_time, right_time: the fields that hold the time of a row.
    """

    event_time: bool
    lower: int
    upper: int
    left_time: int
    right_time: int

    @property
    def by_clock(self) -> bool:
        """Whether what is due is so by the clock of the micro-batch."""
        return not self.event_time

    @property
    def awaits(self) -> PendingWork | None:
        return OUTER_ROWS if self.by_clock and any(self._outer) else None

    def count_pending(self, state: Frames) -> int:
        """The rows that an outer join keeps, and that have met nothing."""
        return sum(int((~truth(state[i][_HAS_MATCH])).sum()) for i in (0, 1) if self._outer[i])

    @property
    def watermark_delay(self) -> int:
        """How much later than the operator's watermark the rows may be that come out of it, ms."""
        return max(-self.lower, self.upper) if self.lower <= self.upper else 0

    @cached_property
    def _outer(self) -> tuple[bool, bool]:
        return self.spec.join_type in ("LEFT", "FULL"), self.spec.join_type in ("RIGHT", "FULL")

    @cached_property
    def _max_distances(self) -> tuple[int, int]:
        """Per side, how much later than itself a row of the other side may be, ms."""
        return -self.lower, self.upper

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        out = []
        own = own_columns({_TIME: pl.Int64(), _DUE: pl.Int64(), _NUMBER: pl.Int64(), _HAS_MATCH: pl.Boolean()})
        for i, name in enumerate(("leftCache", "rightCache")):
            lookup = tuple(dict.fromkeys(self._keys[i]))
            schema = {**field_columns(self._types[i], i), **own}
            access = Access(use="joined")
            out.append(StateTable(name, i, lookup, (*lookup, _NUMBER), schema, due=_DUE, access=access))
        number = own_columns({_NUMBER: pl.Int64()})
        return (*out, StateTable("next", 0, (), (), number, access=Access(lasting=True)))

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        out: list[pl.DataFrame | None] = []
        for side, other in ((0, 1), (1, 0)):
            pairs = dict(zip(reversed(self._keys[side]), reversed(self._keys[other]), strict=True))
            frame, table = inputs[other], self.tables[side]
            if pairs and frame.height:
                out.append(pl.DataFrame([frame[pairs[name]].alias(name) for name in table.lookup]))
            else:
                out.append(lookup_frame(frame, ()))
        new_rows = next((f for f in inputs if f.height), inputs[0])
        return [*out, lookup_frame(new_rows, ())]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        before, after = (watermark.before, watermark.now) if self.event_time else (now, now)
        releases = after > before or not self.event_time
        first = int(state[2][_NUMBER][0]) if state[2].height else 0
        left = self._rows(0, inputs[0], state[0], before, now, first)
        right = self._rows(1, inputs[1], state[1], before, now, first + inputs[0].height)
        old, new = np.arange(left.stored_count, left.frame.height), np.arange(right.stored_count, right.frame.height)
        parts = [
            self._joined_rows(left, right, old, np.arange(right.stored_count), now),
            self._joined_rows(left, right, np.flatnonzero(left.is_waiting), new, now),
        ]
        upserts: list[pl.DataFrame | None] = []
        deletes: list[pl.DataFrame | None] = []
        for side, rows, stored_rows in ((0, left, state[0]), (1, right, state[1])):
            due = rows.frame[_DUE].to_numpy() <= after if releases else np.zeros(rows.frame.height, bool)
            leaves = ~rows.is_waiting | due
            if self._outer[side]:
                lone = np.flatnonzero(leaves & ~rows.has_match)
                lefts, rights = (lone, None) if side == 0 else (None, lone)
                parts.append(self._beside(left.frame, right.frame, lefts, rights))
            fresh = np.arange(rows.frame.height) >= rows.stored_count
            is_written = ~leaves & fresh
            if self._outer[side]:
                is_written[: rows.stored_count] = ~leaves[: rows.stored_count] & (
                    rows.has_match[: rows.stored_count] & ~truth(stored_rows[_HAS_MATCH])
                )
            marks = rows.has_match & self._outer[side]  # nobody asks on the other sides
            keep = rows.frame.with_columns(pl.Series(_HAS_MATCH, marks)).filter(is_written)
            dead = rows.frame.filter(leaves & ~fresh)[list(self.tables[side].identity)]
            upserts.append(with_stamps(keep, now) if keep.height else None)
            deletes.append(dead if dead.height else None)
        input_height = inputs[0].height + inputs[1].height
        number = pl.DataFrame({_NUMBER: [first + input_height]}, schema={_NUMBER: pl.Int64()})
        parts = [p for p in parts if p.height] or parts[:1]
        return Step(
            pl.concat(parts),
            [*upserts, with_stamps(number, now) if input_height else None],
            [*deletes, None],
            late_rows=[self._late(side, rows) for side, rows in enumerate((left, right))],
        )

    def has_other_times(self, number: int, rows: pl.DataFrame) -> bool:
        """Whether rows of a state table leave a join with these bounds at other times than they say."""
        return number < 2 and bool((self._due_times(number, rows) != rows[_DUE].to_numpy()).any())

    def _due_times(self, side: int, rows: pl.DataFrame) -> Ints:
        return rows[_TIME].to_numpy() + (self._max_distances[side] + 1)

    def kept_rows(self, number: int, rows: pl.DataFrame, time: EventTime) -> pl.DataFrame:
        """Rows of a state table that a join with wider bounds, or an outer one, has kept: those that this one would
        have kept.

        Args:
            number: the number of the table.
            rows: with their time of access. Where the bounds are others, that is when they arrived.
            time: how far event time has come.
        """
        if number > 1:
            return rows
        due = self._due_times(number, rows)
        stays = due > 1  # event time begins in 1970
        if self.event_time:
            # As in :meth:`_rows`, a row that arrived when the watermark was already there is not kept.
            is_late = (due == time.watermark + 1) & (rows[ACCESS_TIME].to_numpy() > (time.advanced or 0))
            stays &= (due > time.watermark) & ~is_late
        stays |= due == rows[_DUE].to_numpy()
        if not self._outer[number]:
            stays &= ~without_match(rows, self._keys[number], self.spec.filter_nulls)
        marks = rows[_HAS_MATCH].to_numpy() & self._outer[number]
        return rows.with_columns(pl.Series(_DUE, due), pl.Series(_HAS_MATCH, marks)).filter(pl.Series(stays))

    def _late(self, side: int, rows: _Rows) -> pl.DataFrame:
        """The rows that nothing comes of, because they came too late to be kept, and met none that was."""
        if self._outer[side]:
            return rows.frame[:0]
        return left_out(rows.frame, ~(rows.late & ~rows.has_match))

    def _rows(
        self, side: int, new_rows: pl.DataFrame, stored_rows: pl.DataFrame, watermark: int, now: int, n: int
    ) -> _Rows:
        """The rows of a side, new ones numbered from ``n``."""
        table, max_distance = self.tables[side], self._max_distances[side]
        height = new_rows.height
        times = self._times(side, new_rows, now)
        fresh = new_rows[columns(len(self._types[side].fields))].hstack(
            [
                pl.Series(_TIME, times),
                pl.Series(_DUE, times + (max_distance + 1)),
                pl.Series(_NUMBER, np.arange(n, n + height), dtype=pl.Int64),
                pl.Series(_HAS_MATCH, np.zeros(height, bool)),
            ]
        )
        # As in Flink event time begins in 1970, also before there is a watermark.
        early = max(watermark, 0) < times + max_distance
        late = np.concatenate(
            [np.zeros(stored_rows.height, bool), ~early & (watermark > NO_WATERMARK) & self.event_time]
        )
        waits = early & (self.lower <= self.upper)
        if not self._outer[side]:
            waits &= ~without_match(new_rows, self._keys[side], self.spec.filter_nulls)
        frame = pl.concat([stored_rows[list(table.schema)], fresh])
        has_match = frame[_HAS_MATCH].to_numpy().copy()
        return _Rows(
            frame, stored_rows.height, np.concatenate([np.ones(stored_rows.height, bool), waits]), has_match, late
        )

    def _times(self, side: int, rows: pl.DataFrame, now: int) -> Ints:
        if not self.event_time:
            return np.full(rows.height, now, np.int64)
        times = rows[column((self.left_time, self.right_time)[side])]
        if times.dtype.is_temporal():
            times = times.cast(pl.Datetime("ms")).to_physical()
        return times.cast(pl.Int64).fill_null(0).to_numpy()

    def _joined_rows(self, left: _Rows, right: _Rows, lefts: Ints, rights: Ints, now: int) -> pl.DataFrame:
        """The joined rows of some left with some right ones, which are marked as met."""
        lefts, rights = self._pairs(left, right, lefts, rights)
        out = self._beside(left.frame, right.frame, lefts, rights)
        if self._condition is not None and out.height:
            holds = truth(self._condition(out, now)[column(0)])
            out, lefts, rights = out.filter(holds), lefts[holds], rights[holds]
        left.has_match[lefts] = True
        right.has_match[rights] = True
        return out

    def _pairs(self, left: _Rows, right: _Rows, lefts: Ints, rights: Ints) -> tuple[Ints, Ints]:
        """Pairs of rows with equal keys and times within the bounds: the rows of the right side are put in order of
        key and time, in which those that a left row meets lie side by side."""
        if not len(lefts) or not len(rights) or self.lower > self.upper:
            return lefts[:0], rights[:0]
        frames = left.frame[lefts], right.frame[rights]
        filters = self.spec.filter_nulls
        matching = [~without_match(frame, keys, filters) for frame, keys in zip(frames, self._keys, strict=True)]
        lefts, rights = lefts[matching[0]], rights[matching[1]]
        names = columns(len(self._keys[0]))
        key_frames = [
            frame_of([f[k].filter(m).alias(n) for k, n in zip(keys, names, strict=True)], int(m.sum()))
            for f, m, keys in zip(frames, matching, self._keys, strict=True)
        ]
        _, (mine, theirs) = ids_of(key_frames, names)
        distinct_times, ranks = np.unique(right.times[rights], return_inverse=True)
        words = theirs * (len(distinct_times) + 1) + ranks
        order = np.argsort(words, kind="stable")
        words = words[order]
        times = left.times[lefts]
        low = mine * (len(distinct_times) + 1) + np.searchsorted(distinct_times, times - self.upper, "left")
        high = mine * (len(distinct_times) + 1) + np.searchsorted(distinct_times, times - self.lower, "right")
        starts, ends = np.searchsorted(words, low, "left"), np.searchsorted(words, high, "left")
        counts = np.maximum(ends - starts, 0)
        return np.repeat(lefts, counts), rights[order[np.repeat(starts, counts) + within(counts)]]
