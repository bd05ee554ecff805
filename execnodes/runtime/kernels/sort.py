"""All rows of bounded input, in an order.

Source of the semantics: Flink's ``StreamSortOperator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import columns
from stateplan.execnodes.ranking import SortSpec
from stateplan.execnodes.runtime.kernel import (
    END_OF_TIME,
    EventTimeKernel,
    Frames,
    StateTable,
    Step,
    Watermark,
    field_columns,
    own_columns,
)
from stateplan.execnodes.runtime.kernels.common.net import (
    ids_of,
    is_retraction,
    lookup_frame,
    positions,
    replay,
    stamped,
)
from stateplan.execnodes.runtime.kernels.temporal_sort import in_order
from stateplan.execnodes.types import LogicalType

_COUNT, _DUE = "@copies", "@due"


@dataclass(frozen=True)
class SortKernel(EventTimeKernel):
    """Keeps each different row with the number of its occurrences, and emits all as insertions when the input ends; a
    job that is started again on more input emits what is new at its end. Nothing has a TTL.

    Retracting a row that is not there does nothing and is counted (in Flink it fails the job).

    Attributes:
        input_type: ROW type of the input.
        order: by which fields, and how.
    """

    input_type: LogicalType
    order: SortSpec

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        fields = tuple(columns(len(self.input_type.fields)))
        found = {**field_columns(self.input_type), **own_columns({_COUNT: pl.Int64(), _DUE: pl.Int64()})}
        return (StateTable("sortState", 0, fields, fields, found, due=_DUE),)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [lookup_frame(inputs[0], self.tables[0].lookup)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        frame, stored = inputs[0], state[0]
        names = list(self.tables[0].identity)
        rows = pl.concat([stored[names], frame[names]])
        ids, (codes,) = ids_of([rows], names)
        start = np.zeros(ids.count, np.int64)
        start[codes[: stored.height]] = stored[_COUNT].to_numpy()
        retracted = is_retraction(frame)
        change = np.ones(frame.height, np.int64) if retracted is None else np.where(retracted, np.int64(-1), 1)
        _, final = replay(codes[stored.height :], change, start)
        missed = int((final - start).sum() - change.sum())
        there = np.zeros(ids.count, bool)
        there[codes[: stored.height]] = True
        place = np.sort(positions(codes, ids.count))
        distinct = rows[place]
        counts, known = final[codes[place]], there[codes[place]]
        if watermark.now == END_OF_TIME:
            out = in_order(distinct[np.repeat(np.arange(len(place)), counts)], self.order)
            return Step(out, [None], [stored[names] if stored.height else None], missed)
        changed = counts != start[codes[place]]
        kept = distinct.hstack([pl.Series(_COUNT, counts), pl.Series(_DUE, np.full(len(place), END_OF_TIME))])
        upserts, deletes = kept.filter(changed & (counts > 0)), distinct.filter((counts == 0) & known)
        return Step(
            distinct[:0],
            [stamped(upserts, now) if upserts.height else None],
            [deletes if deletes.height else None],
            missed,
        )
