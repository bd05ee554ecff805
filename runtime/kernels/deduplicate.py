"""Deduplicate by processing time: the first or the last row of every key.

Source of the semantics: Flink's ``ProcTimeDeduplicateKeepFirstRowFunction`` and
``ProcTimeDeduplicateKeepLastRowFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import RowKind
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import rows_at, stack
from stateplan.runtime.kernel import Access, Frames, KeyedKernel, StateTable, Step
from stateplan.runtime.kernels.common.key_ids import (
    first_of_each,
    ids_of,
    insertions,
    narrow,
    nulls,
    positions,
    unchanged,
    with_kind,
    with_stamps,
)


@dataclass(frozen=True)
class DeduplicateKernel(KeyedKernel):
    """Keeps the first or the last row per key, in order of arrival.

    Keep-first: +I of the first row of a key that is not in the state. The state holds the key alone; later rows do not
    refresh it, so the key is emitted again once the TTL has passed since its first row.

    Keep-last: of the rows of one key in a micro-batch only the last counts. +I when the key is new, else -U of the row
    before and +U; every row refreshes the key. When the row equals the one before, nothing is emitted with TTL 0, and
    -U and +U as usual with a TTL (so that operators behind are refreshed too). Processing-time attributes are neither
    compared nor kept: a retracted row has NULL there.

    Attributes:
        keep_last: keep the last row, not the first.
        generate_update_before: emit -U.
    """

    keep_last: bool
    generate_update_before: bool

    @cached_property
    def _compared_columns(self) -> dict[str, pl.DataType]:
        """The columns that are compared and kept."""
        if not self.keep_last:
            return {name: self._fields[name] for name in self._keys}
        clocks = {f"c{i}" for i, f in enumerate(self.input_type.fields) if f.type.kind == "PROCTIME"}
        return {name: dtype for name, dtype in self._fields.items() if name not in clocks or name in self._keys}

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        column_types = {n: c for n, c in self._columns.items() if n in self._compared_columns}
        access = Access(once=not self.keep_last, use="refreshed" if self.keep_last else "deduplicated")
        return (StateTable("deduplicateState", 0, self._keys, self._keys, column_types, access=access),)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch. Raises RunError RUN061, when the input is not insert-only."""
        frame = insertions(inputs[0], "Deduplicate")
        if self.keep_last:
            return self._last(frame, state[0], now, ttl[0])
        first = first_of_each(frame, self._keys, state[0])
        output = frame if len(first) == frame.height else rows_at(frame, first)
        upserts = with_stamps(narrow(output, self._keys), now) if output.height else None
        return Step(output, [upserts], [None])

    def _last(self, frame: pl.DataFrame, state: pl.DataFrame, now: int, ttl: int) -> Step:
        ids, (before, codes) = ids_of((state, frame), self._keys)
        last = positions(codes, ids.count)
        rows = np.sort(last[last >= 0])
        new = rows_at(frame, rows)
        old = positions(before, ids.count)[codes[rows]]
        upserts = with_stamps(new[list(self._compared_columns)], now) if new.height else None
        if ttl == 0:
            changed_rows = np.flatnonzero(
                ~unchanged(new, state, old, [n for n in self._compared_columns if n not in self._keys])
            )
            if len(changed_rows) < len(old):
                new, old = rows_at(new, changed_rows), old[changed_rows]
        updates = np.flatnonzero(old >= 0)
        kinds = np.zeros(len(old), np.int8)
        kinds[updates] = RowKind.UPDATE_AFTER
        output = with_kind(new, kinds)
        if self.generate_update_before and len(updates):
            before_image = rows_at(state, old[updates]).hstack(
                [
                    nulls(name, dtype, len(updates))
                    for name, dtype in new.schema.items()
                    if name not in self._compared_columns
                ]
            )
            place = np.concatenate([2 * updates, 2 * np.arange(len(old)) + 1])
            before_rows = with_kind(before_image, np.full(len(updates), RowKind.UPDATE_BEFORE, np.int8))
            output = rows_at(stack([before_rows[output.columns], output]), np.argsort(place))
        return Step(output, [upserts], [None])
