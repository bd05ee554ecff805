"""Aggregates of windows: one row per key and window, once the watermark has reached the window's end.

Source of the semantics: Flink's ``WindowAggOperator`` with ``SliceUnsharedWindowAggProcessor`` and
``SliceSharedWindowAggProcessor``, ``LocalSlicingWindowAggOperator`` and ``GlobalAggCombiner``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    NO_WATERMARK,
    WINDOWS,
    EventTimeKernel,
    Frames,
    PendingWork,
    StateTable,
    Step,
    Watermark,
    left_out,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, absent, ids_of, positions
from stateplan.runtime.kernels.common.partials import Partials
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
from stateplan.runtime.kernels.window_slices import SliceAlarms, Slicing, timestamps, window_time

NEXT, DUE = "@next", "@due"

Property = tuple[Literal["WindowStart", "WindowEnd", "Rowtime", "Proctime"], pl.DataType]
"""What a field of the output says of the window, and its type."""


@dataclass(frozen=True)
class _Slices:
    """Slices of keys with their accumulators.

    Attributes:
        rows: as in the state table, with its time of access.
        next: the window of each that closes next.
        due: the watermark that closes it.
        is_new: whether the slice has changed.
    """

    rows: pl.DataFrame
    next: Ints
    due: Ints
    is_new: Bools


@dataclass(frozen=True)
class WindowAggregateKernel(EventTimeKernel):
    """Keeps accumulators per key and slice, and emits those of a window when the watermark closes it.

    A row is late when the last window that has its slice is closed; a late row is dropped. A window whose rows have all
    been retracted is not emitted. A slice whose TTL ends is missing in its windows, and starts again with its next row.
    By processing time the clock of the micro-batch takes the place of both the times of its rows and the watermark, so
    no row is late.

    State: that of the group aggregate by key and slice. Slices and their DISTINCT values are due when the next window
    that has them closes; they are removed with the last one.

    Attributes:
        inner: the aggregate whose last key is the end of the slice: of partial results, or, where these cannot be
            merged, of rows.
        slicing: the windows.
        properties: what the last fields of the output say of the window.
        event_time: else it goes by processing time.
        in_order: whether hopping windows are put together from their first slice to their last one, as Flink does in
            ``GROUP BY HOP``, not from the last one to the first.
    """

    inner: GlobalGroupAggregateKernel | GroupAggregateKernel
    slicing: Slicing
    properties: tuple[Property, ...]
    event_time: bool = True
    in_order: bool = False

    @property
    def by_clock(self) -> bool:
        return not self.event_time

    @property
    def alarms(self) -> SliceAlarms | None:
        return None if self.event_time else SliceAlarms(self.slicing)

    @property
    def awaits(self) -> PendingWork | None:
        return None if self.event_time else WINDOWS

    def count_pending(self, state: Frames) -> int:
        """The windows that have a slice, each once per key."""
        rows = state[0]
        if not self.slicing.shares:
            return rows.height
        of, ends = self.slicing.windows_of(rows[self._end].to_numpy())
        open_now = np.flatnonzero(ends >= rows[NEXT].to_numpy()[of])
        keys = rows[list(self._keys)][of[open_now]].with_columns(pl.Series(self._end, ends[open_now]))
        return keys.n_unique() if keys.height else 0

    @property
    def _partials(self) -> Partials | None:
        return self.inner.partials if isinstance(self.inner, GlobalGroupAggregateKernel) else None

    @cached_property
    def _kernel(self) -> GroupAggregateKernel:
        return self.inner.partials.kernel if isinstance(self.inner, GlobalGroupAggregateKernel) else self.inner

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        return self.tables[0].lookup

    @property
    def _end(self) -> str:
        return self._keys[-1]

    @property
    def call_texts(self) -> Sequence[str]:
        return self.inner.call_texts

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        groups, *others = self.inner.tables
        due = own_columns({DUE: pl.Int64()})
        values = len(self._kernel.values)
        return (
            replace(groups, columns={**groups.columns, **own_columns({NEXT: pl.Int64()}), **due}, due=DUE),
            *(replace(t, columns={**t.columns, **due}, due=DUE) for t in others[:values]),
            *others[values:],
        )

    @property
    def inner_is_partial(self) -> bool:
        """Whether the input consists of partial results instead of rows."""
        return isinstance(self.inner, GlobalGroupAggregateKernel)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return self.inner.keys(inputs)

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return self.inner.first_keys(inputs)

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        return self.inner.more_keys(inputs, state)

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        frame, late = self._in_time(inputs[0], watermark.before)
        upserts: list[pl.DataFrame | None] = [None] * len(self.tables)
        deletes: list[pl.DataFrame | None] = [None] * len(self.tables)
        missed_retractions = 0
        if frame.height:
            folding = self.inner.fold_batch([frame], state, now, [0])
            upserts, deletes, missed_retractions = folding.upserts, folding.deletes, folding.batch.missed
        new_watermark = watermark.now if watermark.now > watermark.before else NO_WATERMARK
        slices = self._slices(state[0], upserts[0], deletes[0], watermark.before, new_watermark)
        is_closed = slices.due <= new_watermark
        pairs, after, stays = self._closed_windows(slices, np.flatnonzero(is_closed), new_watermark)
        output = self._output(slices, pairs, state, upserts, deletes, now)
        due = slices.due.copy()
        due[is_closed & stays] = self.slicing.due(after[is_closed & stays])
        key_frame = slices.rows[list(self._keys)]
        write = np.flatnonzero(stays & (slices.is_new | is_closed))
        if len(write):
            own = [n for n in self.tables[0].schema if n not in (NEXT, DUE)]
            marks = [pl.Series(NEXT, after[write]), pl.Series(DUE, due[write])]
            upserts[0] = slices.rows[write][[*own, ACCESS_TIME]].hstack(marks)
        else:
            upserts[0] = None
        removed_slices = key_frame[np.flatnonzero(~stays)]
        deletes[0] = all_identities(deletes[0], removed_slices if removed_slices.height else None)
        tables = len(self._kernel.values)
        place = 1 + tables
        for i, values in enumerate(self._kernel.values, 1):
            dead = self._settle(i, key_frame, stays, is_closed, due, new_watermark, state[i], upserts, deletes)
            if values.order is not None:
                upserts[place] = self._alive(upserts[place], key_frame, stays)
                deletes[place] = all_identities(deletes[place], dead)
                place += 1
        return Step(output, upserts, deletes, missed_retractions, (late,))

    def _in_time(self, frame: pl.DataFrame, before: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows that are in windows and not late, and those that are late."""
        if not frame.height:
            return frame, frame
        ends = frame[self._end].to_numpy()
        late = self.slicing.late(ends, before)
        is_outside = late | self.slicing.between(ends)
        return frame[np.flatnonzero(~is_outside)] if is_outside.any() else frame, left_out(frame, ~late)

    def _slices(
        self,
        state: pl.DataFrame,
        upserts: pl.DataFrame | None,
        deletes: pl.DataFrame | None,
        before: int,
        new_watermark: int,
    ) -> _Slices:
        """The slices that the micro-batch has changed, then those of the state that are due."""
        table = self.tables[0]
        own = [n for n in table.schema if n not in (NEXT, DUE)]
        keys = list(self._keys)
        rest = state.filter(pl.col(DUE) <= new_watermark)
        changes = [f[keys] for f in (upserts, deletes) if f is not None]
        if changes and rest.height:
            rest = rest[absent(rest, keys, pl.concat(changes))]
        if upserts is None:
            ends, due = rest[NEXT].to_numpy(), rest[DUE].to_numpy()
            return _Slices(rest[[*own, ACCESS_TIME]], ends, due, np.zeros(rest.height, bool))
        ids, (state_codes, mine) = ids_of((state, upserts), keys)
        place = positions(state_codes, ids.count)[mine]
        fresh = place < 0
        ends = np.empty(upserts.height, np.int64)
        ends[~fresh] = state[NEXT].to_numpy()[place[~fresh]]
        ends[fresh] = self.slicing.next_ends(upserts[self._end].to_numpy()[fresh], before)
        due = self.slicing.due(ends)
        if rest.height:
            ends = np.concatenate([ends, rest[NEXT].to_numpy()])
            due = np.concatenate([due, rest[DUE].to_numpy()])
        rows = pl.concat([upserts[[*own, ACCESS_TIME]], rest[[*own, ACCESS_TIME]]])
        return _Slices(rows, ends, due, np.arange(rows.height) < upserts.height)

    def _closed_windows(self, slices: _Slices, rows: Ints, watermark: int) -> tuple[tuple[Ints, Ints], Ints, Bools]:
        """The windows that close: slices and ends; per slice the end of its next window, and whether there is one."""
        after = slices.next.copy()
        stays = np.ones(len(after), bool)
        last = self.slicing.last_ends(slices.rows[self._end].to_numpy())
        slice_rows, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        while len(rows):
            slice_rows.append(rows)
            ends.append(after[rows])
            over = after[rows] >= last[rows]
            stays[rows[over]] = False
            rows = rows[~over]
            after[rows] += self.slicing.step
            rows = rows[self.slicing.due(after[rows]) <= watermark]
        return (np.concatenate(slice_rows), np.concatenate(ends)), after, stays

    def with_slices(self, rows: pl.DataFrame, watermark: int) -> pl.DataFrame:
        """Rows of state with slices of other windows, as rows of its own slices: those that are open.

        Args:
            rows: each with a slice that is a part of one of its own.
            watermark: up to which windows are closed.
        """
        ends = self.slicing.slice_ends(rows[self._end].to_numpy() - 1)
        is_open = ~self.slicing.late(ends, watermark) & ~self.slicing.between(ends)
        rows, ends = rows.filter(pl.Series(is_open)), ends[is_open]
        after = self.slicing.next_ends(ends, watermark)
        marks = [pl.Series(self._end, ends), pl.Series(NEXT, after), pl.Series(DUE, self.slicing.due(after))]
        return rows.with_columns(marks)

    # -- what closes -------------------------------------------------------------------------------------------------

    def _output(
        self,
        slices: _Slices,
        pairs: tuple[Ints, Ints],
        state: Frames,
        upserts: Sequence[pl.DataFrame | None],
        deletes: Sequence[pl.DataFrame | None],
        now: int,
    ) -> pl.DataFrame:
        rows, ends = pairs
        keys = list(self._keys)
        if not self.slicing.shares:
            order = np.argsort(ends, kind="stable")
            window_rows = slices.rows[rows[order]]
            return self._with_window_columns(self._kernel.results(window_rows[keys], window_rows), ends[order])
        if not len(rows):
            return self._with_window_columns(self._kernel.results(slices.rows[:0][keys], slices.rows[:0]), ends)
        partials = self._partials
        assert partials is not None
        turn = -1 if self.slicing.kind == "HOP" and not self.in_order else 1
        order = np.lexsort((turn * slices.rows[self._end].to_numpy()[rows], ends))
        rows, ends = rows[order], ends[order]
        frame = self._as_partials(partials, slices, state, upserts, deletes)[rows]
        frame = frame.with_columns(pl.Series(self._end, ends))
        empty = [pl.DataFrame(schema={**t.schema, ACCESS_TIME: pl.Int64()}) for t in self.inner.tables]
        folding = self.inner.fold_batch([frame], empty, now, [0])
        live = np.flatnonzero(folding.batch.rows != 0)
        results = self._kernel.results(folding.keys[live], folding.current[live])
        return self._with_window_columns(results, folding.keys[self._end].to_numpy()[live])

    def _with_window_columns(self, results: pl.DataFrame, ends: Ints) -> pl.DataFrame:
        starts = self.slicing.window_starts(ends)
        return told_of_windows(results, len(self._keys) - 1, self.properties, starts, ends, self.slicing.zone)

    def _as_partials(
        self,
        partials: Partials,
        slices: _Slices,
        state: Frames,
        upserts: Sequence[pl.DataFrame | None],
        deletes: Sequence[pl.DataFrame | None],
    ) -> pl.DataFrame:
        """The slices as partial results."""
        count = len(self._kernel.values)
        values = [self._current(i, state[i], upserts[i], deletes[i]) for i in range(1, 1 + count)]
        return partials.of_state(slices.rows, values)

    def _current(
        self, number: int, state: pl.DataFrame, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None
    ) -> pl.DataFrame:
        """The rows of a table of values after the micro-batch, as far as they are known."""
        table = self.tables[number]
        names = [*(n for n in table.schema if n != DUE), ACCESS_TIME]
        identity = list(table.identity)
        changes = [f[identity] for f in (upserts, deletes) if f is not None]
        if changes and state.height:
            state = state[absent(state, identity, pl.concat(changes))]
        return pl.concat([state[names], *([] if upserts is None else [upserts[names]])])

    # -- what is written ---------------------------------------------------------------------------------------------

    def _settle(
        self,
        number: int,
        key_frame: pl.DataFrame,
        stays: Bools,
        is_moved: Bools,
        due: Ints,
        watermark: int,
        state: pl.DataFrame,
        upserts: list[pl.DataFrame | None],
        deletes: list[pl.DataFrame | None],
    ) -> pl.DataFrame | None:
        """Adds the times of their slices to the values of a table, and removes those of slices that are done. Returns
        the identities of those."""
        table = self.tables[number]
        names, identity = [*table.schema, ACCESS_TIME], list(table.identity)
        stays, is_moved = np.append(stays, False), np.append(is_moved, False)
        fresh, old_deletes = upserts[number], deletes[number]
        new_upserts: list[pl.DataFrame] = []
        if fresh is not None:
            owner = self._owners(key_frame, fresh)
            new_upserts.append(self._with_due(fresh, np.flatnonzero(stays[owner]), due, owner)[names])
        dead = None
        if state.height:
            owner = self._owners(key_frame, state)
            over = ~stays[owner] & ((owner >= 0) | (state[DUE].to_numpy() <= watermark))
            dead = state[np.flatnonzero(over)][identity] if over.any() else None
            rest = self._with_due(state, np.flatnonzero(stays[owner] & is_moved[owner]), due, owner)[names]
            changes = [f[identity] for f in (fresh, old_deletes) if f is not None]
            if changes and rest.height:
                rest = rest[absent(rest, identity, pl.concat(changes))]
            new_upserts.append(rest)
        deletes[number] = all_identities(old_deletes, dead)
        every = pl.concat(new_upserts) if new_upserts else None
        upserts[number] = every if every is not None and every.height else None
        return dead

    @staticmethod
    def _with_due(values: pl.DataFrame, rows: Ints, due: Ints, owner: Ints) -> pl.DataFrame:
        return values[rows].with_columns(pl.Series(DUE, due[owner[rows]], dtype=pl.Int64))

    def _owners(self, key_frame: pl.DataFrame, rows: pl.DataFrame) -> Ints:
        """The slice of each row, -1 for none."""
        ids, (mine, owners) = ids_of((key_frame, rows), self._keys)
        return positions(mine, ids.count)[owners]

    def _alive(self, rows: pl.DataFrame | None, key_frame: pl.DataFrame, stays: Bools) -> pl.DataFrame | None:
        """The rows whose slices are not done."""
        if rows is None:
            return None
        owner = self._owners(key_frame, rows)
        rows = rows[np.flatnonzero(np.append(stays, False)[owner])]
        return rows if rows.height else None


def told_of_windows(
    results: pl.DataFrame, window: int, properties: Sequence[Property], starts: Ints, ends: Ints, zone: str
) -> pl.DataFrame:
    """The rows of the output: keys, results, and properties of the window.

    Args:
        results: keys, the last of which is that of the window, and results.
        window: position of that key.
        properties: the window properties to add.
        starts: the starts of the windows, local times.
        ends: likewise.
        zone: the time zone of the windows.
    """
    output = [s for i, s in enumerate(results.get_columns()) if i != window]
    for kind, dtype in properties:
        if kind == "WindowStart":
            output.append(timestamps("", starts))
        elif kind == "WindowEnd":
            output.append(timestamps("", ends))
        elif kind == "Proctime":  # what reads it asks for the time itself
            output.append(pl.Series("", [None] * len(ends), dtype=dtype))
        else:
            output.append(window_time("", ends, zone, dtype))
    return pl.DataFrame([s.alias(column(i)) for i, s in enumerate(output)])


def all_identities(deletes: pl.DataFrame | None, more: pl.DataFrame | None) -> pl.DataFrame | None:
    """Two frames of identities as one, each once."""
    if deletes is None or more is None:
        return deletes if more is None else more
    return pl.concat([deletes.select(more.columns), more]).unique(maintain_order=True)
