"""The global phase of a group aggregate: merges partial results into the state of their group.

Source of the semantics: Flink's ``MiniBatchGlobalGroupAggFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.runtime.kernel import Frames, Kernel, StateTable, Step, lookup_frame
from stateplan.execnodes.runtime.kernels.common.accumulators import Changes, Fold
from stateplan.execnodes.runtime.kernels.common.group_batches import Batch, Folded, Prepared, Preparer
from stateplan.execnodes.runtime.kernels.common.partials import Partials
from stateplan.execnodes.runtime.kernels.common.values import ValueChanges
from stateplan.execnodes.runtime.kernels.group_aggregate import BORN, ROWS

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class GlobalGroupAggregateKernel(Kernel):
    """One row per group, updated by the partial results of micro-batches.

    State and output are those of the group aggregate, under another name. As in Flink a group whose row did not change
    is not mentioned, with a TTL neither; and rows are only counted: a group that more rows went from than came is
    there.

    Attributes:
        partials: the partial results of the input, with the group aggregate's kernel.
    """

    partials: Partials

    @property
    def call_texts(self) -> Sequence[str]:
        return self.partials.kernel.call_texts

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return self.partials.kernel.tables

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        out = self.first_keys(inputs)
        if inputs[0].height:
            orders = self._orders
            wanted = lookup_frame(inputs[0], self.partials.keys)
            out[len(out) - orders :] = [wanted] * orders
        return out

    @property
    def _orders(self) -> int:
        return len(self.tables) - 1 - len(self.partials.kernel.values)

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """As :meth:`keys`, without the order tables."""
        frame = inputs[0]
        out = [lookup_frame(frame, self.partials.keys)]
        for number, values in enumerate(self.partials.kernel.values):
            _, pairs = self.partials.pairs(number, frame)
            out.append(pairs[list(values.table.identity)] if pairs.height else None)
        return [*out, *[None] * self._orders]

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """The groups whose extreme value has to be looked for in the order tables."""
        out: list[pl.DataFrame | None] = [None] * len(self.tables)
        frame, place = inputs[0], 1 + len(self.partials.kernel.values)
        if place == len(self.tables) or not frame.height:
            return out
        return self.partials.kernel.order_keys(self._preparer.ahead(frame, state), self.partials.keys)

    @cached_property
    def _preparer(self) -> Preparer:
        return Preparer(self._merged)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        done = self.folded(inputs, state, now, ttl)
        output = self.partials.kernel.output(done.batch, done.keys, state[0], done.current, 0)
        return Step(output, done.upserts, done.deletes)

    def folded(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Folded:
        """As :meth:`process`, without the output."""
        partials, frame = self.partials, inputs[0]
        prepared = self._preparer.take(frame, state)
        batch, lifetime = prepared.batch, partials.kernel.ttl_of_lists(ttl)
        at = Changes(batch.groups, batch.codes, None, None, now=now, ttl=lifetime)

        def distinct(i: int, kept: Fold, changes: ValueChanges, position: int) -> Changes:
            seen = replace(changes.of_call(position, batch.groups, kept.sees_nulls), now=now, ttl=lifetime)
            return partials.distinct_changes(i, seen, frame, batch.codes)

        after = partials.merged(prepared.before, frame, at)
        return partials.kernel.taken_in(prepared, state, partials.keys, after, distinct, now, ttl)

    def _merged(self, frame: pl.DataFrame, state: Frames) -> Prepared:
        kernel, groups = self.partials.kernel, state[0]
        codes, first, known = kernel.by_group(frame, groups, self.partials.keys)
        rows = np.ones(len(first), np.int64)
        if kernel.need_retraction:
            old = np.zeros(len(first), np.int64)
            old[known >= 0] = groups[ROWS].to_numpy()[known[known >= 0]]
            rows = self.partials.rows(old, frame, codes)
        batch = Batch(frame, codes, None, first, known, known < 0, rows)
        before = kernel.before(batch, groups)
        born = None if not kernel.need_retraction else np.where(batch.fresh, _NEVER, before[BORN].to_numpy())
        changes = []
        for i, (values, found) in enumerate(zip(kernel.values, state[1:], strict=False)):
            owner, pairs = self.partials.pairs(i, frame)
            changes.append(values.merged(pairs, codes[owner], found, born))
        return kernel.prepared(frame, state, batch, before, born, changes)
