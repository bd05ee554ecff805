"""The first or the last row of each key within windows.

Source of the semantics: Flink's ``WindowDeduplicateOperatorBuilder`` and ``RowTimeWindowDeduplicateProcessor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import column, columns
from stateplan.execnodes.runtime.kernel import (
    NO_WATERMARK,
    EventTimeKernel,
    Frames,
    StateTable,
    Step,
    Watermark,
    field_columns,
    own_columns,
)
from stateplan.execnodes.runtime.kernels.common.net import ids_of, insertions, lookup_frame, positions, stamped
from stateplan.execnodes.runtime.kernels.window_slices import Slicing, local_times
from stateplan.execnodes.types import LogicalType

_DUE = "@due"


@dataclass(frozen=True)
class WindowDeduplicateKernel(EventTimeKernel):
    """Keeps the row with the least time of each key and window (of equal ones the first to arrive), or with the
    greatest time (the last to arrive), and emits it when the watermark closes the window.

    Rows of a closed window are dropped. Nothing has a TTL.

    Attributes:
        input_type: ROW type of the input.
        key_fields: fields of the key, without those of the window.
        rowtime: the field of the rowtime attribute that orders the rows.
        keep_last: whether the last row is kept, else the first.
        window_end: the field that holds the end of the window.
        slicing: the windows.
    """

    input_type: LogicalType
    key_fields: tuple[int, ...]
    rowtime: int
    keep_last: bool
    window_end: int
    slicing: Slicing

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        entry = tuple(dict.fromkeys(columns((*self.key_fields, self.window_end))))
        found = {**field_columns(self.input_type), **own_columns({_DUE: pl.Int64()})}
        return (StateTable("windowDeduplicateState", 0, entry, entry, found, due=_DUE),)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [lookup_frame(inputs[0], self.tables[0].lookup)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch; see :class:`execnodes.runtime.kernel.Kernel`.

        Raises:
            RunError: RUN061, when the input is not insert-only.
        """
        frame, kept = insertions(inputs[0], "WindowDeduplicate"), state[0]
        ends = local_times(frame[column(self.window_end)], self.slicing.zone)
        frame = frame.hstack([pl.Series(_DUE, self.slicing.due(ends), dtype=pl.Int64)])
        fresh = frame.filter(pl.col(_DUE) > watermark.before)
        reached = watermark.now if watermark.now > watermark.before else NO_WATERMARK
        entry = self.tables[0].identity
        rows = pl.concat([kept[fresh.columns], fresh])
        ids, (owners,) = ids_of([rows], entry)
        times = rows[column(self.rowtime)].cast(pl.Datetime("ms")).to_physical().to_numpy()
        arrival = np.arange(rows.height)
        turn = np.lexsort((arrival, times) if self.keep_last else (-arrival, -times))
        best = np.sort(turn[positions(owners[turn], ids.count)])
        closed = rows[_DUE].to_numpy()[best] <= reached
        out, new = best[closed], best[~closed & (best >= kept.height)]
        output = rows[out].sort(_DUE, maintain_order=True).drop(_DUE)
        gone = kept.filter(pl.col(_DUE) <= reached)[list(entry)]
        return Step(
            output,
            [stamped(rows[new], now) if len(new) else None],
            [gone if gone.height else None],
            late=frame.height - fresh.height,
        )
