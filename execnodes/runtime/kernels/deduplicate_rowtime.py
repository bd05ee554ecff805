"""Deduplicate by event time: the first or the last row of every key by a rowtime attribute.

Source of the semantics: Flink's ``RowTimeDeduplicateFunction`` and ``RowTimeDeduplicateKeepFirstRowFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import RowKind, column, columns
from stateplan.execnodes.runtime.kernel import (
    Access,
    EventTimeKernel,
    Frames,
    Kernel,
    StateTable,
    Step,
    Watermark,
    field_columns,
    own_columns,
)
from stateplan.execnodes.runtime.kernels.common.net import (
    Ints,
    ids_of,
    insertions,
    lookup_frame,
    narrow,
    positions,
    stamped,
    state_columns,
    with_kind,
)
from stateplan.execnodes.types import LogicalType

_STATE = "deduplicateState"
_DUE = "@due"
_ALWAYS = 2**62
"""A time of access so late that no TTL ends: rows that wait for the watermark have none."""


@dataclass(frozen=True)
class _ByRowtime(Kernel):
    """What both kernels share.

    Attributes:
        input_type: ROW type of the input.
        key_fields: fields of the key.
        rowtime: the field of the rowtime attribute.
    """

    input_type: LogicalType
    key_fields: tuple[int, ...]
    rowtime: int

    @cached_property
    def _key_columns(self) -> tuple[str, ...]:
        return tuple(columns(self.key_fields))

    @cached_property
    def _fields(self) -> dict[str, pl.DataType]:
        return state_columns(self.input_type)

    def _times(self, frame: pl.DataFrame) -> Ints:
        """The times of rows, ms since 1970."""
        return frame[column(self.rowtime)].cast(pl.Datetime("ms")).to_physical().to_numpy()


@dataclass(frozen=True)
class RowtimeDeduplicateKernel(_ByRowtime):
    """Keeps the row with the greatest time (of equal ones the last to arrive), or with the least one (the first).

    +I when the key is new, else -U of the row before and +U; within a micro-batch a key changes once. A row that does
    not replace the one before changes nothing, neither does it refresh it.
    """

    keep_last: bool = True
    generate_update_before: bool = True

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        key = self._key_columns
        return (
            StateTable(_STATE, 0, key, key, field_columns(self.input_type), access=Access(entry=tuple(self._fields))),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [lookup_frame(inputs[0], self._key_columns)]

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch; see :class:`execnodes.runtime.kernel.Kernel`.

        Raises:
            RunError: RUN061, when the input is not insert-only.
        """
        frame, kept = insertions(inputs[0], "Deduplicate"), state[0]
        ids, (before, codes) = ids_of((kept, frame), self._key_columns)
        rows = pl.concat([kept[list(self._fields)], frame])
        times = self._times(rows)
        owners = np.concatenate([before, codes])
        arrival = np.arange(rows.height)
        # The winner of each key stands last: the latest and, of equal times, the last (or the earliest and first) row.
        turn = np.lexsort((arrival, times) if self.keep_last else (-arrival, -times))
        best = positions(owners[turn], ids.count)
        winners = np.sort(turn[best[best >= 0]])
        new = winners[winners >= kept.height]
        old = positions(before, ids.count)[owners[new]]
        known = np.flatnonzero(old >= 0)
        kinds = np.zeros(len(new), np.int8)
        kinds[known] = RowKind.UPDATE_AFTER
        output = with_kind(rows[new], kinds)
        if self.generate_update_before and len(known):
            gone = with_kind(rows[old[known]], np.full(len(known), RowKind.UPDATE_BEFORE, np.int8))
            place = np.concatenate([2 * known, 2 * np.arange(len(new)) + 1])
            output = pl.concat([gone, output], rechunk=True)[np.argsort(place)]
        return Step(output, [stamped(rows[new], now) if len(new) else None], [None])


@dataclass(frozen=True)
class RowtimeFirstRowKernel(_ByRowtime, EventTimeKernel):
    """Emits the row with the least time (of equal ones the first to arrive) of each key once the watermark has come to
    it, and nothing more of the key.

    Rows older than the watermark are dropped. What waits for the watermark has no TTL; that a key was emitted is
    forgotten when the TTL has passed since.
    """

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        key = self._key_columns
        fields = field_columns(self.input_type)
        waiting = {**fields, **own_columns({_DUE: pl.Int64()})}
        return (
            StateTable(f"{_STATE}.waiting", 0, key, key, waiting, due=_DUE),
            StateTable(f"{_STATE}.emitted", 0, key, key, {name: fields[name] for name in key}),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [lookup_frame(inputs[0], self._key_columns)] * 2

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch; see :class:`execnodes.runtime.kernel.Kernel`.

        Raises:
            RunError: RUN061, when the input is not insert-only.
        """
        frame, (waiting, emitted) = insertions(inputs[0], "Deduplicate"), state
        frame = frame.filter(self._times(frame) >= watermark.before)
        rows = pl.concat([waiting[list(self._fields)], frame])
        ids, (done, owners) = ids_of((emitted, rows), self._key_columns)
        times = self._times(rows)
        arrival = np.arange(rows.height)
        turn = np.lexsort((-arrival, -times))
        best = positions(owners[turn], ids.count)
        best[done] = -1
        first = np.sort(turn[best[best >= 0]])
        released = times[first] <= watermark.now if watermark.now > watermark.before else np.zeros(len(first), bool)
        out, rest = first[released], first[~released]
        out = out[np.argsort(times[out], kind="stable")]
        is_out = np.zeros(ids.count, bool)
        is_out[owners[out]] = True
        gone, stays = np.flatnonzero(is_out[owners[: waiting.height]]), rest[rest >= waiting.height]
        kept = rows[stays].hstack([pl.Series(_DUE, times[stays], dtype=pl.Int64)])
        return Step(
            rows[out],
            [
                stamped(kept, _ALWAYS) if len(stays) else None,
                stamped(narrow(rows[out], self._key_columns), now) if len(out) else None,
            ],
            [narrow(waiting, self._key_columns)[gone] if len(gone) else None, None],
            late=inputs[0].height - frame.height,
        )
