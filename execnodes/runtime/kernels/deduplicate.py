"""Deduplicate by processing time: the first or the last row of every key.

Source of the semantics: Flink's ``ProcTimeDeduplicateKeepFirstRowFunction`` and
``ProcTimeDeduplicateKeepLastRowFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import RowKind, columns
from stateplan.execnodes.runtime.kernel import Access, Frames, Kernel, StateTable, Step, field_columns
from stateplan.execnodes.runtime.kernels.common.net import (
    Bools,
    Ints,
    equal,
    first_of_each,
    ids_of,
    insertions,
    lookup_frame,
    narrow,
    nulls,
    positions,
    stamped,
    state_columns,
    with_kind,
)
from stateplan.execnodes.runtime.state.small_frames import rows_at, stacked
from stateplan.execnodes.types import LogicalType


@dataclass(frozen=True)
class DeduplicateKernel(Kernel):
    """Keeps the first or the last row per key, in order of arrival.

    Keep-first: +I of the first row of a key that is not in the state. The state holds the key alone; later rows do not
    refresh it, so the key comes again once the TTL has passed since its first row.

    Keep-last: of the rows of one key in a micro-batch only the last counts. +I when the key is new, else -U of the row
    before and +U; every row refreshes the key. When the row equals the one before, nothing is emitted with TTL 0, and
    -U and +U as usual with a TTL (so that operators behind are refreshed too). Processing-time attributes are neither
    compared nor kept: a retracted row has NULL there.

    Attributes:
        input_type: ROW type of the input.
        key_fields: fields of the key.
        keep_last: keep the last row, not the first.
        generate_update_before: emit -U.
    """

    input_type: LogicalType
    key_fields: tuple[int, ...]
    keep_last: bool
    generate_update_before: bool

    @cached_property
    def _key_columns(self) -> list[str]:
        return columns(self.key_fields)

    @cached_property
    def _kept(self) -> dict[str, pl.DataType]:
        """The columns that are compared and kept."""
        schema = state_columns(self.input_type)
        if not self.keep_last:
            return {name: schema[name] for name in self._key_columns}
        clocks = {f"c{i}" for i, f in enumerate(self.input_type.fields) if f.type.kind == "PROCTIME"}
        return {name: dtype for name, dtype in schema.items() if name not in clocks or name in self._key_columns}

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        key = tuple(self._key_columns)
        kept = {n: c for n, c in field_columns(self.input_type).items() if n in self._kept}
        return (StateTable("deduplicateState", 0, key, key, kept, access=Access(once=not self.keep_last)),)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [lookup_frame(inputs[0], self._key_columns)]

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch; see :class:`execnodes.runtime.kernel.Kernel`.

        Raises:
            RunError: RUN061, when the input is not insert-only.
        """
        frame = insertions(inputs[0], "Deduplicate")
        if self.keep_last:
            return self._last(frame, state[0], now, ttl[0])
        first = first_of_each(frame, self._key_columns, state[0])
        output = frame if len(first) == frame.height else rows_at(frame, first)
        upserts = stamped(narrow(output, self._key_columns), now) if output.height else None
        return Step(output, [upserts], [None])

    def _last(self, frame: pl.DataFrame, state: pl.DataFrame, now: int, ttl: int) -> Step:
        ids, (before, codes) = ids_of((state, frame), self._key_columns)
        last = positions(codes, ids.count)
        rows = np.sort(last[last >= 0])
        new = rows_at(frame, rows)
        old = positions(before, ids.count)[codes[rows]]
        upserts = stamped(new[list(self._kept)], now) if new.height else None
        if ttl == 0:
            changed = np.flatnonzero(~self._same(new, state, old))
            if len(changed) < len(old):
                new, old = rows_at(new, changed), old[changed]
        known = np.flatnonzero(old >= 0)
        kinds = np.zeros(len(old), np.int8)
        kinds[known] = RowKind.UPDATE_AFTER
        output = with_kind(new, kinds)
        if self.generate_update_before and len(known):
            before_image = rows_at(state, old[known]).hstack(
                [nulls(name, dtype, len(known)) for name, dtype in new.schema.items() if name not in self._kept]
            )
            place = np.concatenate([2 * known, 2 * np.arange(len(old)) + 1])
            gone = with_kind(before_image, np.full(len(known), RowKind.UPDATE_BEFORE, np.int8))
            output = rows_at(stacked([gone[output.columns], output]), np.argsort(place))
        return Step(output, [upserts], [None])

    def _same(self, new: pl.DataFrame, state: pl.DataFrame, old: Ints) -> Bools:
        """Whether each row equals the one kept before it (row ``old`` of the state, -1 for none)."""
        rows = np.flatnonzero(old >= 0)
        same = np.zeros(len(old), bool)
        if len(rows):
            names = [name for name in self._kept if name not in self._key_columns]
            now, then = rows_at(new[names], rows), rows_at(state[names], old[rows])
            same[rows] = np.logical_and.reduce([np.ones(len(rows), bool), *(equal(now[n], then[n]) for n in names)])
        return same
