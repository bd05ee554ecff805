"""The incremental phase between the two levels of a split DISTINCT aggregate: partial results by key and bucket in,
by key out, with those values counted that the bucket has not seen before.

Source of the semantics: Flink's ``MiniBatchIncrementalGroupAggFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.runtime.kernel import Frames, Kernel, StateTable, Step
from stateplan.execnodes.runtime.kernels.common.accumulators import Changes, Fold
from stateplan.execnodes.runtime.kernels.common.lists import packed
from stateplan.execnodes.runtime.kernels.common.net import Ints, framed, key_ids
from stateplan.execnodes.runtime.kernels.common.partials import ROWS, Partials, list_name
from stateplan.execnodes.runtime.kernels.common.values import Values
from stateplan.execnodes.runtime.kernels.group_aggregate import is_distinct
from stateplan.execnodes.specs import AggCall


def final_call(call: AggCall, position: int) -> AggCall:
    """The call of the final level over the result of ``call``, which is the field ``position``."""
    name = "$$SUM0$1" if call.function == "COUNT" else call.internal_name
    return call.model_copy(
        update={"internal_name": name, "arg_list": (position,), "filter_arg": -1, "distinct": False, "syntax": None}
    )


@dataclass(frozen=True)
class IncrementalGroupAggregateKernel(Kernel):
    """Keeps the values of DISTINCT calls, by key and bucket; everything else passes through.

    Attributes:
        partials: the partial results of the input.
        final: what the output looks like, as the global phase reads it.
        kept: which keys of the input are keys of the output.
    """

    partials: Partials
    final: Partials
    kept: tuple[int, ...]

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
        parts = self.partials.merged(
            start, frame, Changes(count, codes, None, None, now=now, ttl=self.partials.kernel.ttl_of_lists(ttl))
        )
        times = np.full(count, now)
        for (number, values, users), found in zip(self._distinct, state, strict=True):
            owner, pairs = self.partials.pairs(number, frame)
            changes = values.merged(pairs, codes[owner], found, None)
            wrote, gone = values.writes(changes, times)
            upserts.append(wrote)
            deletes.append(gone)
            for i, position in users:
                kept = kernel.accumulators[i]
                assert isinstance(kept, Fold)
                seen = replace(changes.of_call(position, count), now=now, ttl=self.partials.kernel.ttl_of_lists(ttl))
                parts.update({s.name: s for s in kept.partial(seen)})
        out = [
            frame[self.partials.keys[k]][first].alias(name) for k, name in zip(self.kept, self.final.keys, strict=True)
        ]
        for i, fold in self.final.folds:
            out += _final_parts(i, kernel.agg_calls[i].function, parts, fold)
        if kernel.need_retraction:
            out.append(pl.Series(ROWS, self.partials.rows(np.zeros(count, np.int64), frame, codes)))
        for number, (values, users) in enumerate(self.final.kernel.value_plan):
            out.append(self._passed(number, values, users[0][0], frame, codes, count))
        return Step(framed(out, count), upserts, deletes)

    def _passed(
        self, number: int, values: Values, call: int, frame: pl.DataFrame, codes: Ints, count: int
    ) -> pl.Series:
        """The values of a MIN or MAX, which the global phase keeps."""
        plan = self.partials.kernel.value_plan
        table, position = next((n, f) for n, (_, users) in enumerate(plan) for i, f in users if i == call)
        owner, pairs = self.partials.pairs(table, frame)
        found = pl.DataFrame([pairs["v"], pairs[f"count{position}"].alias("count0")])
        return packed(codes[owner], found, count, list_name(number), self.final.list_type(values))


def _final_parts(number: int, function: str, parts: dict[str, pl.Series], fold: Fold) -> list[pl.Series]:
    """The accumulators of call ``number`` as those of the call over its results."""
    if function != "COUNT":
        return [parts[name] for name in fold.parts]
    counts = parts[f"count{number}"]
    return [counts.alias(f"sum{number}"), pl.Series(f"count{number}", np.ones(len(counts), np.int64))]
