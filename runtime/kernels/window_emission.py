"""Aggregates of windows that are emitted more than once: before their end, and again for late rows.

Source of the semantics: Flink's ``AggregateWindowOperator``, ``EventTimeTriggers``, ``ProcessingTimeTriggers`` and
``ElementTriggers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import RowKind, column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.emission import Emission
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    WINDOWS,
    Alarms,
    EventTimeKernel,
    Frames,
    PendingWork,
    StateTable,
    Step,
    Watermark,
    call_columns,
    left_out,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    absent,
    equal,
    ids_of,
    narrow,
    positions,
    present,
    with_kind,
)
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.window_aggregate import Property, all_identities, told_of_windows
from stateplan.runtime.kernels.window_slices import SliceAlarms, Slicing

_LAST_EMITTED, _DUE, _RINGS = "@emitted", "@due", "@rings"
_NEVER = 2**62


@dataclass(frozen=True)
class EmissionAlarms:
    """The instants at which windows may be emitted by the clock: multiples of the delays, and ends of windows.

    Attributes:
        delays: ms.
        slices: the slices of windows of processing time.
    """

    delays: tuple[int, ...]
    slices: SliceAlarms | None

    def last(self, now: int) -> int:
        instants = [now - now % delay for delay in self.delays]
        return max(instants if self.slices is None else [*instants, self.slices.last(now)])


@dataclass(frozen=True)
class _Windows:
    """The windows that a micro-batch may emit, each once.

    Attributes:
        keys: their keys, the last one of which is their end.
        place: per window where it is in the table of windows; -1 for none.
        has_rows: which of them have got rows.
        rings: when the clock has them emitted, ms; a time never reached for those that do not wait.
        group_places: per window where its accumulators are in ``groups``; -1 for a window without rows.
        groups: accumulators.
    """

    keys: pl.DataFrame
    place: Ints
    has_rows: Bools
    rings: Ints
    group_places: Ints
    groups: pl.DataFrame


@dataclass(frozen=True)
class WindowEmissionKernel(EventTimeKernel):
    """Keeps accumulators per key and window, and emits a window early, at its end, and late.

    With a delay, a window that has changed is emitted when the clock reaches the next multiple of it; Flink counts the
    delay from the first row of each window. Without, it is emitted in the micro-batch that changed it. What is the same
    as before is not emitted again. When a window is forgotten, it is emitted if it has changed since it last was.

    A row is late when all its windows are forgotten; a late row is dropped. Nothing has a TTL.

    State: the tables of the group aggregate by key and window, and a table of windows, with what was last emitted, and
    when they are due.

    Attributes:
        inner: the aggregate by key and end of the window.
        slicing: the windows.
        properties: what the last fields of the output say of the window.
        emission: when windows are emitted.
    """

    inner: GroupAggregateKernel
    slicing: Slicing
    properties: tuple[Property, ...]
    emission: Emission

    @property
    def by_clock(self) -> bool:
        return not self.emission.event_time

    @property
    def alarms(self) -> Alarms | None:
        delays = tuple(d for d in (self.emission.early, self.emission.late) if d)
        slices = SliceAlarms(self.slicing) if self.by_clock else None
        return EmissionAlarms(delays, slices) if delays or slices is not None else None

    @property
    def awaits(self) -> PendingWork | None:
        return WINDOWS if self.by_clock else None

    @property
    def call_texts(self) -> Sequence[str]:
        return self.inner.call_texts

    @cached_property
    def _keys(self) -> list[str]:
        return list(self.inner.tables[0].identity)

    @property
    def _end(self) -> str:
        return self._keys[-1]

    @cached_property
    def _values(self) -> dict[str, pl.DataType]:
        """The columns of what was emitted, by call."""
        return {f"emitted{i}": call.type.polars() for i, call in enumerate(self.inner.agg_calls)}

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        groups, *others = self.inner.tables
        column_types = {name: groups.columns[name] for name in self._keys}
        for i, (name, dtype) in enumerate(self._values.items()):
            column_types |= call_columns(i, {name: dtype})
        column_types |= own_columns(dict.fromkeys((_LAST_EMITTED, _DUE, _RINGS), pl.Int64()))
        keys = tuple(self._keys)
        windows = StateTable(f"{groups.name}.windows", 0, keys, keys, column_types, due=_DUE, alarm=_RINGS)
        return (windows, groups, *(replace(table, lookup=keys) for table in others))

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [self._windows_of(inputs[0])] * len(self.tables)

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """The windows alone."""
        return [self._windows_of(inputs[0]), *[None] * (len(self.tables) - 1)]

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """What is kept of all windows that have got rows, or are due."""
        parts = [f for f in (self._windows_of(inputs[0]), state[0][self._keys]) if f is not None and f.height]
        return [None, *[pl.concat(parts) if parts else None] * (len(self.tables) - 1)]

    def _windows_of(self, frame: pl.DataFrame) -> pl.DataFrame | None:
        return self._in_windows(frame)[self._keys] if frame.height else None

    def _in_windows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows with the end of their slice, as rows with the end of each of their windows."""
        if not self.slicing.shares:
            return frame
        rows, ends = self.slicing.windows_of(frame[self._end].to_numpy())
        return frame[rows].with_columns(pl.Series(self._end, ends, dtype=pl.Int64))

    # ---- a micro-batch -----------------------------------------------------------------------------------------

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        frame = inputs[0]
        in_time = ~self._forgotten(self.slicing.last_ends(frame[self._end].to_numpy()), watermark.before)
        late = left_out(frame, in_time)
        rows = self._in_windows(frame[np.flatnonzero(in_time)] if late.height else frame)
        is_forgotten = self._forgotten(rows[self._end].to_numpy(), watermark.before)
        rows = rows[np.flatnonzero(~is_forgotten)] if is_forgotten.any() else rows
        upserts: list[pl.DataFrame | None] = [None] * len(self.tables)
        deletes: list[pl.DataFrame | None] = [None] * len(self.tables)
        missed_retractions, keys, current = 0, rows[:0][self._keys], None
        if rows.height:
            result = self.inner.fold_batch([rows], state[1:], now, [0])
            upserts[1:], deletes[1:], missed_retractions = result.upserts, result.deletes, result.batch.missed
            keys = result.keys
            live = np.flatnonzero(result.batch.rows != 0)
            current = pl.concat([result.keys[live], result.current[live]], how="horizontal")
        windows = self._windows(state, keys, current)
        ends = windows.keys[self._end].to_numpy()
        due = self.slicing.due(ends)
        has_ended = due <= watermark.before
        ends_now = ~has_ended & (due <= watermark.now)
        rings = self._rings(windows, has_ended, now)
        forgotten = due + self.emission.lateness <= watermark.now
        emits = ends_now | (rings <= now) | (forgotten & (rings < _NEVER))
        rings = np.where(emits | ends_now, _NEVER, rings)
        output, values, emission_flags = self._emit(windows, emits, state[0])
        is_stored = windows.place >= 0
        write = np.flatnonzero(~forgotten & (windows.has_rows | emits))
        if len(write):
            after = np.where(has_ended | ends_now, due + self.emission.lateness, due)
            marks = [
                pl.Series(_LAST_EMITTED, emission_flags[write], dtype=pl.Int64),
                pl.Series(_DUE, after[write]),
                pl.Series(_RINGS, rings[write]).replace(_NEVER, None),
                pl.Series(ACCESS_TIME, np.full(len(write), now)),
            ]
            upserts[0] = windows.keys[write].hstack([*values[write].get_columns(), *marks])
        over = windows.keys[np.flatnonzero(forgotten)]
        if over.height:
            deletes[0] = windows.keys[np.flatnonzero(forgotten & is_stored)]
            self._remove(over, state, upserts, deletes)
        return Step(output, upserts, deletes, missed_retractions, (late,))

    def _forgotten(self, ends: Ints, watermark: int) -> Bools:
        """Which windows are no longer kept."""
        is_forgotten: Bools = self.slicing.due(ends) + self.emission.lateness <= watermark
        return is_forgotten

    def _windows(self, state: Frames, keys: pl.DataFrame, current: pl.DataFrame | None) -> _Windows:
        """Args:
        keys: the windows that have got rows.
        current: of those that are not empty, key and accumulators.
        """
        table, groups = state[0], state[1]
        ids, (state_codes, changed_codes) = ids_of((table, keys), self._keys)
        names = self._keys + self.inner.group_columns
        rest = groups[names][absent(groups, self._keys, keys)] if keys.height else groups[names]
        group_rows = rest if current is None else pl.concat([rest, current[names]])
        all_keys = pl.concat([table[self._keys], keys])[ids.first]
        both, (mine, window_codes) = ids_of((group_rows, all_keys), self._keys)
        place = positions(state_codes, ids.count)
        rings = np.full(ids.count, _NEVER)
        rings[state_codes] = table[_RINGS].fill_null(_NEVER).to_numpy()
        has_rows = np.zeros(ids.count, bool)
        has_rows[changed_codes] = True
        return _Windows(all_keys, place, has_rows, rings, positions(mine, both.count)[window_codes], group_rows)

    def _rings(self, windows: _Windows, has_ended: Bools, now: int) -> Ints:
        """When the clock has windows emitted, after rows have reached them."""
        rings = windows.rings
        for delay, mine in ((self.emission.early, ~has_ended), (self.emission.late, has_ended)):
            if delay is not None:
                at = now if delay == 0 else (now // delay + 1) * delay
                rings = np.where(windows.has_rows & mine, np.minimum(rings, at), rings)
        return rings

    def _emit(self, windows: _Windows, emits: Bools, table: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, Ints]:
        """The changes; and per window the values that are emitted last, and whether there are any."""
        window_places, group_places = windows.place, windows.group_places
        names, width = list(self._values), len(self._keys)
        empty = pl.DataFrame({n: pl.Series([None], dtype=t) for n, t in self._values.items()})
        before = pl.concat([table[names], empty])[window_places] if names else pl.DataFrame(height=len(window_places))
        was = np.append(table[_LAST_EMITTED].to_numpy(), 0)[window_places] > 0
        at = np.flatnonzero(emits & (group_places >= 0))
        results = self.inner.results(windows.keys[at], windows.groups[group_places[at]][self.inner.group_columns])
        value_columns = [results[column(width + i)].cast(t).alias(n) for i, (n, t) in enumerate(self._values.items())]
        number = np.full(len(window_places), -1)
        number[at] = np.arange(len(at))
        after = pl.concat([pl.DataFrame(value_columns), empty])[number] if names else before
        exists = group_places >= 0
        same = was & exists
        for name in names:
            same &= equal(before[name], after[name])
        out = np.flatnonzero(emits & (was | exists) & ~same)
        old, new = out[was[out]], out[exists[out]]
        kinds = np.concatenate(
            [
                np.where(exists[old], np.int8(RowKind.UPDATE_BEFORE), np.int8(RowKind.DELETE)),
                np.where(was[new], np.int8(RowKind.UPDATE_AFTER), np.int8(RowKind.INSERT)),
            ]
        )
        both = np.concatenate([old, new])
        ends = windows.keys[self._end].to_numpy()[both]
        turn = np.lexsort((np.repeat([0, 1], [len(old), len(new)]), both, ends))
        values = [*windows.keys[both], *pl.concat([before[old], after[new]])] if names else [*windows.keys[both]]
        output = pl.DataFrame([s.alias(column(i)) for i, s in enumerate(values)])[turn]
        changes = told_of_windows(
            output, width - 1, self.properties, self.slicing.window_starts(ends[turn]), ends[turn], self.slicing.zone
        )
        keep = np.where(emits, exists, was)
        last = (
            pl.concat([before, after])[np.where(emits, len(window_places), 0) + np.arange(len(window_places))]
            if names
            else before
        )
        return with_kind(changes, kinds[turn].astype(np.int8)), last, keep.astype(np.int64)

    def _remove(
        self, over: pl.DataFrame, state: Frames, upserts: list[pl.DataFrame | None], deletes: list[pl.DataFrame | None]
    ) -> None:
        """Removes what the aggregate keeps of the windows ``over``."""
        for i, table in enumerate(self.tables[1:], 1):
            fresh, identity = upserts[i], list(table.identity)
            if fresh is not None:
                remaining = fresh[absent(fresh, self._keys, over)]
                upserts[i] = remaining if remaining.height else None
            dead = narrow(state[i][present(state[i], self._keys, over)], identity)
            deletes[i] = all_identities(deletes[i], dead if dead.height else None)
        if deletes[0] is not None and not deletes[0].height:
            deletes[0] = None
