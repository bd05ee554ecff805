"""Deduplicate by event time: the first or the last row of every key by a rowtime attribute, of all time or of windows.

Source of the semantics: Flink's ``RowTimeDeduplicateFunction``, ``RowTimeDeduplicateKeepFirstRowFunction`` and
``RowTimeWindowDeduplicateProcessor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import RowKind, column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import (
    NO_WATERMARK,
    Access,
    EventTimeKernel,
    Frames,
    KeyedKernel,
    StateTable,
    Step,
    Watermark,
    left_out,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import (
    Ints,
    ids_of,
    insertions,
    narrow,
    positions,
    with_kind,
    with_stamps,
)
from stateplan.runtime.kernels.window_slices import Slicing, local_times

_STATE = "deduplicateState"
_DUE = "@due"
_ALWAYS = 2**62
"""A time of access so late that no TTL ends: rows that wait for the watermark have none."""


@dataclass(frozen=True)
class _ByRowtime(KeyedKernel):
    """What the kernels share.

    Attributes:
        rowtime: the field of the rowtime attribute.
    """

    rowtime: int

    def _times(self, frame: pl.DataFrame) -> Ints:
        """The times of rows, ms since 1970."""
        return frame[column(self.rowtime)].cast(pl.Datetime("ms")).to_physical().to_numpy()


@dataclass(frozen=True)
class RowtimeDeduplicateKernel(_ByRowtime):
    """Keeps the row with the greatest time (of equal ones the last to arrive), or with the least one (the first).

    +I when the key is new, else -U of the row before and +U; within a micro-batch a key changes once, unless every
    version counts. A row that does not replace the one before changes nothing, neither does it refresh it.

    Attributes:
        every_version: emit the rows that a key has for a part of a micro-batch too.
    """

    keep_last: bool = True
    generate_update_before: bool = True
    every_version: bool = False

    def with_every_version(self) -> RowtimeDeduplicateKernel:
        return replace(self, every_version=True)

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        access = Access(entry=tuple(self._fields), use="refreshed" if self.keep_last else "deduplicated")
        return (StateTable(_STATE, 0, self._keys, self._keys, self._columns, access=access),)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch. Raises RunError RUN061, when the input is not insert-only."""
        frame, state_rows = insertions(inputs[0], "Deduplicate"), state[0]
        ids, (before, codes) = ids_of((state_rows, frame), self._keys)
        rows = pl.concat([state_rows[list(self._fields)], frame])
        times = self._times(rows)
        owners = np.concatenate([before, codes])
        if self.every_version:
            winners, replaced_rows = self._versions(owners, times)
        else:
            winners = self._winners(owners, times, ids.count)
            replaced_rows = positions(before, ids.count)[owners[winners]]
        fresh = winners >= state_rows.height
        new, old = winners[fresh], replaced_rows[fresh]
        updates = np.flatnonzero(old >= 0)
        kinds = np.zeros(len(new), np.int8)
        kinds[updates] = RowKind.UPDATE_AFTER
        output = with_kind(rows[new], kinds)
        if self.generate_update_before and len(updates):
            before_rows = with_kind(rows[old[updates]], np.full(len(updates), RowKind.UPDATE_BEFORE, np.int8))
            place = np.concatenate([2 * updates, 2 * np.arange(len(new)) + 1])
            output = pl.concat([before_rows, output], rechunk=True)[np.argsort(place)]
        last = new if not self.every_version else np.setdiff1d(new, old)
        return Step(output, [with_stamps(rows[last], now) if len(last) else None], [None])

    def _winners(self, owners: Ints, times: Ints, count: int) -> Ints:
        """The row that is left of each key."""
        arrival = np.arange(len(owners))
        # The winner of each key stands last: the latest and, of equal times, the last (or the earliest and first) row.
        turn = np.lexsort((arrival, times) if self.keep_last else (-arrival, -times))
        best = positions(owners[turn], count)
        return np.sort(turn[best[best >= 0]])

    def _versions(self, owners: Ints, times: Ints) -> tuple[Ints, Ints]:
        """The rows that are left of their key when they come, and the row that each replaces, or -1."""
        owner, time, row = pl.col("owner"), pl.col("time"), pl.col("row")
        best = (time.cum_max() if self.keep_last else time.cum_min()).shift(1).over(owner)
        replaces = best.is_null() | (time >= best if self.keep_last else time < best)
        frame = pl.DataFrame({"owner": owners, "time": times}).with_row_index("row").filter(replaces)
        previous_rows = frame.select(row.cast(pl.Int64).shift(1).over(owner).fill_null(-1)).to_series()
        return frame["row"].to_numpy().astype(np.int64), previous_rows.to_numpy()


@dataclass(frozen=True)
class RowtimeFirstRowKernel(_ByRowtime, EventTimeKernel):
    """Emits the row with the least time (of equal ones the first to arrive) of each key once the watermark has reached
    it, and nothing more of the key.

    Rows older than the watermark are dropped. What waits for the watermark has no TTL; that a key was emitted is
    forgotten when the TTL has passed since.
    """

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        key, fields = self._keys, self._columns
        buffer = {**fields, **own_columns({_DUE: pl.Int64()})}
        return (
            StateTable(f"{_STATE}.waiting", 0, key, key, buffer, due=_DUE),
            StateTable(
                f"{_STATE}.emitted", 0, key, key, {n: fields[n] for n in key}, access=Access(use="deduplicated")
            ),
        )

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch. Raises RunError RUN061, when the input is not insert-only."""
        frame, (buffer, emitted_keys) = insertions(inputs[0], "Deduplicate"), state
        punctual = self._times(frame) >= watermark.before
        late = left_out(frame, punctual)
        frame = frame.filter(punctual)
        rows = pl.concat([buffer[list(self._fields)], frame])
        ids, (emitted_codes, owners) = ids_of((emitted_keys, rows), self._keys)
        times = self._times(rows)
        arrival = np.arange(rows.height)
        turn = np.lexsort((-arrival, -times))
        best = positions(owners[turn], ids.count)
        best[emitted_codes] = -1
        first = np.sort(turn[best[best >= 0]])
        is_due = times[first] <= watermark.now if watermark.now > watermark.before else np.zeros(len(first), bool)
        out, rest = first[is_due], first[~is_due]
        out = out[np.argsort(times[out], kind="stable")]
        is_out = np.zeros(ids.count, bool)
        is_out[owners[out]] = True
        removed_rows, stays = np.flatnonzero(is_out[owners[: buffer.height]]), rest[rest >= buffer.height]
        waiting_rows = rows[stays].hstack([pl.Series(_DUE, times[stays], dtype=pl.Int64)])
        return Step(
            rows[out],
            [
                with_stamps(waiting_rows, _ALWAYS) if len(stays) else None,
                with_stamps(narrow(rows[out], self._keys), now) if len(out) else None,
            ],
            [narrow(buffer, self._keys)[removed_rows] if len(removed_rows) else None, None],
            late_rows=(late,),
        )


@dataclass(frozen=True)
class WindowDeduplicateKernel(_ByRowtime, EventTimeKernel):
    """Keeps the row with the least time of each key and window (of equal ones the first to arrive), or with the
    greatest time (the last to arrive), and emits it when the watermark closes the window.

    Rows of a closed window are dropped, and so is the row of a key whose TTL ends before its window closes.

    Attributes:
        key_fields: fields of the key, without those of the window.
        keep_last: whether the last row is kept, else the first.
        window_end: the field that holds the end of the window.
        slicing: the windows.
    """

    keep_last: bool
    window_end: int
    slicing: Slicing

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        entry = tuple(dict.fromkeys(columns((*self.key_fields, self.window_end))))
        column_types = {**self._columns, **own_columns({_DUE: pl.Int64()})}
        return (StateTable("windowDeduplicateState", 0, entry, entry, column_types, due=_DUE),)

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch. Raises RunError RUN061, when the input is not insert-only."""
        frame, state_rows = insertions(inputs[0], "WindowDeduplicate"), state[0]
        ends = local_times(frame[column(self.window_end)], self.slicing.zone)
        frame = frame.hstack([pl.Series(_DUE, self.slicing.due(ends), dtype=pl.Int64)])
        punctual = (frame[_DUE] > watermark.before).to_numpy()
        fresh = frame.filter(punctual)
        new_watermark = watermark.now if watermark.now > watermark.before else NO_WATERMARK
        entry = self.tables[0].identity
        rows = pl.concat([state_rows[fresh.columns], fresh])
        ids, (owners,) = ids_of([rows], entry)
        times = self._times(rows)
        arrival = np.arange(rows.height)
        turn = np.lexsort((arrival, times) if self.keep_last else (-arrival, -times))
        best = np.sort(turn[positions(owners[turn], ids.count)])
        is_closed = rows[_DUE].to_numpy()[best] <= new_watermark
        out, new = best[is_closed], best[~is_closed & (best >= state_rows.height)]
        output = rows[out].sort(_DUE, maintain_order=True).drop(_DUE)
        closed_keys = state_rows.filter(pl.col(_DUE) <= new_watermark)[list(entry)]
        return Step(
            output,
            [with_stamps(rows[new], now) if len(new) else None],
            [closed_keys if closed_keys.height else None],
            late_rows=(left_out(frame, punctual),),
        )
