"""The first rows of each partition within windows, in an order.

Source of the semantics: Flink's ``WindowRankProcessor`` and ``TopNBuffer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.ranking import ConstantRange
from stateplan.runtime.kernel import (
    NO_WATERMARK,
    EventTimeKernel,
    Frames,
    StateTable,
    Step,
    Watermark,
    left_out,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import insertions, with_stamps
from stateplan.runtime.kernels.common.topn import SEQUENCE, TopN, sequence_after
from stateplan.runtime.kernels.window_slices import Slicing, local_times

_DUE = "@due"


@dataclass(frozen=True)
class WindowRankKernel(TopN, EventTimeKernel):
    """Keeps the first rows of each partition and window, and emits them when the watermark closes the window.

    Of rows of equal order, those that arrived first come first. Rows of a closed window are dropped. A row whose TTL
    ends before its window closes is not ranked.

    Attributes:
        key_fields: fields of the partition, and the end of the window.
        range: which numbers are emitted; rows behind its end are not kept.
        window_end: the field that holds the end of the window.
        slicing: the windows.
    """

    range: ConstantRange
    window_end: int
    slicing: Slicing

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        columns = {**self._columns, **own_columns({SEQUENCE: pl.Int64(), _DUE: pl.Int64()})}
        return (StateTable("windowRankState", 0, self._keys, (*self._keys, SEQUENCE), columns, due=_DUE),)

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch. Raises RunError RUN061, when the input is not insert-only."""
        frame, state_rows = insertions(inputs[0], "WindowRank"), state[0]
        first = sequence_after(state_rows)
        due = self.slicing.due(local_times(frame[column(self.window_end)], self.slicing.zone))
        arrivals = np.arange(first, first + frame.height)
        more_columns = [pl.Series(SEQUENCE, arrivals, dtype=pl.Int64), pl.Series(_DUE, due, dtype=pl.Int64)]
        punctual = due > watermark.before
        fresh = frame.hstack(more_columns).filter(punctual)
        rows = pl.concat([state_rows[fresh.columns], fresh])
        pool = self._pool(rows, state_rows.height, rows[SEQUENCE].to_numpy())
        new_watermark = watermark.now if watermark.now > watermark.before else NO_WATERMARK
        ends = rows[_DUE].to_numpy()
        is_closed, within = ends <= new_watermark, pool.places <= self.range.end
        is_stored = np.arange(rows.height) < state_rows.height
        out = np.flatnonzero(is_closed & within & (pool.places >= self._first))
        out = out[np.lexsort((pool.places[out], pool.groups[out], ends[out]))]
        new, removed_rows = (
            np.flatnonzero(~is_stored & within & ~is_closed),
            np.flatnonzero(is_stored & (is_closed | ~within)),
        )
        output = rows[out].drop(SEQUENCE, _DUE)
        if self.output_number:
            output = output.with_columns(pl.Series(column(output.width), pool.places[out], dtype=pl.Int64))
        return Step(
            output,
            [with_stamps(rows[new], now) if len(new) else None],
            [rows[removed_rows][list(self.tables[0].identity)] if len(removed_rows) else None],
            late_rows=(left_out(frame, punctual),),
        )
