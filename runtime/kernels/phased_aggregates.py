"""The phases of a group aggregate behind the local one: the global phase merges partial results into the state of their
group; the incremental one is between the two levels of a split DISTINCT aggregate.

Source of the semantics: Flink's ``MiniBatchGlobalGroupAggFunction`` and ``MiniBatchIncrementalGroupAggFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.specs import AggCall
from stateplan.runtime.kernel import Frames, Kernel, StateTable, Step, lookup_frame
from stateplan.runtime.kernels.common.accumulators import Changes, Fold
from stateplan.runtime.kernels.common.functions import is_distinct
from stateplan.runtime.kernels.common.group_batches import Batch, GroupResult, Preparation, Preparer
from stateplan.runtime.kernels.common.key_ids import Ints, frame_of, key_ids
from stateplan.runtime.kernels.common.lists import pack_lists
from stateplan.runtime.kernels.common.partials import Partials, list_name
from stateplan.runtime.kernels.common.values import ValueChanges, Values
from stateplan.runtime.kernels.group_aggregate import BORN, ROWS

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
            lookup_keys = lookup_frame(inputs[0], self.partials.keys)
            out[len(out) - orders :] = [lookup_keys] * orders
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
        return Preparer(self._merge_partials)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        result = self.fold_batch(inputs, state, now, ttl)
        output = self.partials.kernel.output(result.batch, result.keys, state[0], result.current, 0)
        return Step(output, result.upserts, result.deletes)

    def fold_batch(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> GroupResult:
        """As :meth:`process`, without the output."""
        partials, frame = self.partials, inputs[0]
        preparation = self._preparer.take(frame, state)
        batch, lifetime = preparation.batch, partials.kernel.ttl_of_lists(ttl)
        at = Changes(batch.groups, batch.codes, None, None, now=now, ttl=lifetime)

        def distinct(i: int, function: Fold, changes: ValueChanges, position: int) -> Changes:
            call_changes = replace(changes.of_call(position, batch.groups, function.sees_nulls), now=now, ttl=lifetime)
            return partials.distinct_changes(i, call_changes, frame, batch.codes)

        after = partials.merge(preparation.before, frame, at)
        return partials.kernel.taken_in(preparation, state, partials.keys, after, distinct, now, ttl)

    def _merge_partials(self, frame: pl.DataFrame, state: Frames) -> Preparation:
        kernel, groups = self.partials.kernel, state[0]
        codes, first, places = kernel.by_group(frame, groups, self.partials.keys)
        rows = np.ones(len(first), np.int64)
        if kernel.need_retraction:
            old = np.zeros(len(first), np.int64)
            old[places >= 0] = groups[ROWS].to_numpy()[places[places >= 0]]
            rows = self.partials.rows(old, frame, codes)
        batch = Batch(frame, codes, None, first, places, places < 0, rows)
        before = kernel.before(batch, groups)
        born = None if not kernel.need_retraction else np.where(batch.fresh, _NEVER, before[BORN].to_numpy())
        changes = []
        for i, (values, state_rows) in enumerate(zip(kernel.values, state[1:], strict=False)):
            owner, pairs = self.partials.pairs(i, frame)
            changes.append(values.merge(pairs, codes[owner], state_rows, born))
        return kernel.prepare_groups(frame, state, batch, before, born, changes)


def final_call(call: AggCall, position: int) -> AggCall:
    """The call of the final level over the result of ``call``, which is the field ``position``."""
    name = "$$SUM0$1" if call.function == "COUNT" else call.internal_name
    return call.model_copy(
        update={"internal_name": name, "arg_list": (position,), "filter_arg": -1, "distinct": False, "syntax": None}
    )


@dataclass(frozen=True)
class IncrementalGroupAggregateKernel(Kernel):
    """Keeps the values of DISTINCT calls, by key and bucket; everything else passes through.

    From partial results by key and bucket it makes those by key, with those values counted that the bucket has not seen
    before.

    Attributes:
        partials: the partial results of the input.
        final: what the output looks like, as the global phase reads it.
        keys_out: which keys of the input are keys of the output.
    """

    partials: Partials
    final: Partials
    keys_out: tuple[int, ...]

    @cached_property
    def _distinct(self) -> list[tuple[int, Values, list[tuple[int, int]]]]:
        """The tables of values with state: number, table, and its DISTINCT calls with their filters."""
        kernel = self.partials.kernel
        out = []
        for number, (values, users) in enumerate(kernel.value_plan):
            mine = [(i, f) for i, f in users if is_distinct(kernel.agg_calls[i])]
            if mine:
                out.append((number, values, mine))
        return out

    @property
    def call_texts(self) -> Sequence[str]:
        return self.partials.kernel.call_texts

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return tuple(values.table for _, values, _ in self._distinct)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        out: list[pl.DataFrame | None] = []
        for number, values, _ in self._distinct:
            _, pairs = self.partials.pairs(number, inputs[0])
            out.append(pairs[list(values.table.identity)] if pairs.height else None)
        return out

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        kernel, frame = self.partials.kernel, inputs[0]
        ids = key_ids(frame, self.partials.keys)
        first, codes, count = ids.first, ids.codes, ids.count
        upserts: list[pl.DataFrame | None] = []
        deletes: list[pl.DataFrame | None] = []
        start = kernel.initial_rows(count)
        parts = self.partials.merge(
            start, frame, Changes(count, codes, None, None, now=now, ttl=self.partials.kernel.ttl_of_lists(ttl))
        )
        times = np.full(count, now)
        for (number, values, users), state_rows in zip(self._distinct, state, strict=True):
            owner, pairs = self.partials.pairs(number, frame)
            changes = values.merge(pairs, codes[owner], state_rows, None)
            wrote, removed_pairs = values.writes(changes, times)
            upserts.append(wrote)
            deletes.append(removed_pairs)
            for i, position in users:
                accumulator = kernel.accumulators[i]
                assert isinstance(accumulator, Fold)
                call_changes = replace(
                    changes.of_call(position, count), now=now, ttl=self.partials.kernel.ttl_of_lists(ttl)
                )
                parts.update({s.name: s for s in accumulator.partial(call_changes)})
        out = [
            frame[self.partials.keys[k]][first].alias(name)
            for k, name in zip(self.keys_out, self.final.keys, strict=True)
        ]
        for i, fold in self.final.folds:
            out += _final_parts(i, kernel.agg_calls[i].function, parts, fold)
        if kernel.need_retraction:
            out.append(pl.Series(ROWS, self.partials.rows(np.zeros(count, np.int64), frame, codes)))
        for number, (values, users) in enumerate(self.final.kernel.value_plan):
            out.append(self._extreme_values(number, values, users[0][0], frame, codes, count))
        return Step(frame_of(out, count), upserts, deletes)

    def _extreme_values(
        self, number: int, values: Values, call: int, frame: pl.DataFrame, codes: Ints, count: int
    ) -> pl.Series:
        """The values of a MIN or MAX, which the global phase keeps."""
        plan = self.partials.kernel.value_plan
        table, position = next((n, f) for n, (_, users) in enumerate(plan) for i, f in users if i == call)
        owner, pairs = self.partials.pairs(table, frame)
        entries = pl.DataFrame([pairs["v"], pairs[f"count{position}"].alias("count0")])
        return pack_lists(codes[owner], entries, count, list_name(number), self.final.list_type(values))


def _final_parts(number: int, function: str, parts: dict[str, pl.Series], fold: Fold) -> list[pl.Series]:
    """The accumulators of call ``number`` as those of the call over its results."""
    if function != "COUNT":
        return [parts[name] for name in fold.parts]
    counts = parts[f"count{number}"]
    return [counts.alias(f"sum{number}"), pl.Series(f"count{number}", np.ones(len(counts), np.int64))]
