"""The global phase of a group aggregate: merges partial results into the state of their group.

Source of the semantics: Flink's ``MiniBatchGlobalGroupAggFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from stateplan.execnodes.runtime.kernel import ACCESS_TIME, Frames, Kernel, StateTable, Step
from stateplan.execnodes.runtime.kernels.common.accumulators import Changes, Fold
from stateplan.execnodes.runtime.kernels.common.net import (
    framed,
    ids_of,
    lookup_frame,
    positions,
    stamped,
)
from stateplan.execnodes.runtime.kernels.common.partials import Partials
from stateplan.execnodes.runtime.kernels.common.values import extremes, searched
from stateplan.execnodes.runtime.kernels.group_aggregate import BORN, ROWS, Batch, Folded, Prepared, also

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
        merged = self._merged(frame, state)
        self.__dict__["_prepared"] = merged
        kernel = self.partials.kernel
        for values, users in kernel.value_plan:
            if values.order is None:
                continue
            asked = np.logical_or.reduce([merged.extremes[i][1] for i, _ in kernel.tracked(users)])
            if asked.any():
                out[place] = lookup_frame(frame[merged.batch.first[asked]], self.partials.keys)
            place += 1
        return out

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        done = self.folded(inputs, state, now, ttl)
        output = self.partials.kernel.output(done.batch, done.keys, state[0], done.current, 0)
        return Step(output, done.upserts, done.deletes)

    def folded(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Folded:
        """As :meth:`process`, without the output."""
        kernel, frame, groups = self.partials.kernel, inputs[0], state[0]
        known: Prepared | None = self.__dict__.pop("_prepared", None)
        merged = known if known is not None and known.is_of(frame, state) else self._merged(frame, state)
        batch, before, born = merged.batch, merged.before, merged.born
        codes = batch.codes
        times = np.full(batch.groups, now) if born is None else np.where(batch.fresh, now, np.maximum(born, now))
        upserts: list[pl.DataFrame | None] = [None] * len(self.tables)
        deletes: list[pl.DataFrame | None] = [None] * len(self.tables)
        at = Changes(batch.groups, codes, None, None, now=now, ttl=self.partials.kernel.ttl_of_lists(ttl))
        after = self.partials.merged(before, frame, at)
        group_keys = framed([frame[k][batch.first] for k in self.partials.keys], batch.groups)
        place = 1 + len(kernel.values)
        for number, (values, users) in enumerate(kernel.value_plan):
            changes = merged.changes[number]
            upserts[1 + number], deletes[1 + number] = values.writes(changes, times)
            for i, position in users:
                kept = kernel.accumulators[i]
                if isinstance(kept, Fold):
                    seen = replace(
                        changes.of_call(position, batch.groups, kept.sees_nulls),
                        now=now,
                        ttl=self.partials.kernel.ttl_of_lists(ttl),
                    )
                    seen = self.partials.distinct_changes(i, seen, frame, codes)
                    after.update({s.name: s for s in kept.update(before, seen)})
            if values.order is not None and born is not None:
                for i, tracked in kernel.tracked(users):
                    best, asked = merged.extremes[i]
                    if asked.any():
                        keys = self.partials.keys
                        found = searched(changes, state[place], keys, group_keys, born, asked, tracked.largest)
                        best = found.zip_with(pl.Series(asked), best)
                    made = tracked.update(before, best, changes.arrived(batch.groups))
                    after.update({s.name: s for s in made})
                upserts[place], deletes[place] = values.order_writes(changes, times)
                place += 1
        if born is not None:
            after[ROWS] = pl.Series(ROWS, batch.rows)
            after[BORN] = pl.Series(BORN, np.where(batch.fresh, now, born))
        current = framed([after[name] for name in kernel.group_columns], batch.groups)
        there = batch.rows != 0
        rows = np.flatnonzero(there)
        if len(rows):
            upserts[0] = stamped(framed([*group_keys.get_columns(), *current.get_columns()], batch.groups)[rows], now)
        gone = groups[batch.known[(batch.known >= 0) & ~there]]
        if gone.height:
            deletes[0] = also(deletes[0], gone[list(self.partials.keys) or [ACCESS_TIME]], None)
        return Folded(batch, group_keys, current, upserts, deletes)

    def _merged(self, frame: pl.DataFrame, state: Frames) -> Prepared:
        kernel, groups = self.partials.kernel, state[0]
        ids, (codes, owners) = ids_of((frame, groups), self.partials.keys)
        first = np.sort(ids.first[ids.first < frame.height])
        number = np.full(ids.count, -1, np.int64)
        number[ids.codes[first]] = np.arange(len(first))
        codes = number[codes]
        known = positions(owners, ids.count)[ids.codes[first]]
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
        best = {
            i: extremes(happened, before[kept.best], batch.groups, kept.largest)
            for (_, users), happened in zip(kernel.value_plan, changes, strict=True)
            for i, kept in kernel.tracked(users)
        }
        return Prepared(frame, list(state[: 1 + len(changes)]), batch, before, born, changes, best)
