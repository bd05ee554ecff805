"""Joins within windows: each row with the rows of the other side that are in the same window.

Source of the semantics: Flink's ``WindowJoinOperator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import (
    NO_WATERMARK,
    Access,
    EventTimeKernel,
    Frames,
    StateTable,
    Step,
    Watermark,
    field_columns,
    left_out,
    lookup_frame,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    frame_of,
    ids_of,
    insertions,
    stable_order,
    truth,
    with_stamps,
    within,
    without_match,
)
from stateplan.runtime.kernels.common.two_sides import TwoSides
from stateplan.runtime.kernels.window_slices import Slicing, local_times

_NUMBER, _DUE, _END = "@n", "@due", "@end"


@dataclass(frozen=True)
class WindowJoinKernel(TwoSides, EventTimeKernel):
    """Keeps the rows of both sides until the watermark closes their window, and joins them then.

    Rows of a closed window are dropped. A row whose TTL ends before its window closes is not joined.

    Attributes:
        ends: per side, the field that holds the end of the window.
        slicing: the windows.
    """

    ends: tuple[int, int]
    slicing: Slicing

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        out = []
        for i, name in enumerate(("left-records", "right-records")):
            own = own_columns({_END: pl.Int64(), _NUMBER: pl.Int64(), _DUE: pl.Int64()})
            schema = {**field_columns(self._types[i], i), **own}
            out.append(StateTable(name, i, (_NUMBER,), (_NUMBER,), schema, due=_DUE))
        number = own_columns({_NUMBER: pl.Int64()})
        return (*out, StateTable("arrived", 0, (), (), number, access=Access(lasting=True)))

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [None, None, lookup_frame(next((f for f in inputs if f.height), inputs[0]), ())]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch. Raises RunError RUN061, when an input is not insert-only."""
        first = int(state[2][_NUMBER][0]) if state[2].height else 0
        new_watermark = watermark.now if watermark.now > watermark.before else NO_WATERMARK
        sides: list[pl.DataFrame] = []
        upserts: list[pl.DataFrame | None] = []
        deletes: list[pl.DataFrame | None] = []
        late: list[pl.DataFrame] = []
        row_count = 0
        for side, frame in enumerate(inputs):
            fresh = self._numbered_rows(side, frame, first + row_count)
            on_time = (fresh[_DUE] > watermark.before).to_numpy()
            row_count += frame.height
            late.append(left_out(fresh, on_time))
            fresh = fresh if on_time.all() else fresh.filter(on_time)
            due = fresh[_DUE] <= new_watermark
            stays = fresh.filter(~due)
            waiting_rows = state[side].filter(pl.col(_DUE) <= new_watermark)
            due_rows = [
                f for f in (waiting_rows[fresh.columns], fresh if not stays.height else fresh.filter(due)) if f.height
            ]
            sides.append(pl.concat(due_rows) if due_rows else fresh[:0])
            upserts.append(with_stamps(stays, now) if stays.height else None)
            deletes.append(waiting_rows[[_NUMBER]] if waiting_rows.height else None)
        number = pl.DataFrame({_NUMBER: [first + row_count]}, schema={_NUMBER: pl.Int64()})
        output = self._output(sides[0], sides[1], now)
        upserts.append(with_stamps(number, now) if row_count else None)
        return Step(output, upserts, [*deletes, None], late_rows=late)

    def _numbered_rows(self, side: int, frame: pl.DataFrame, number: int) -> pl.DataFrame:
        """The rows with the columns of the state."""
        frame = insertions(frame, "WindowJoin")
        ends = local_times(frame[column(self.ends[side])], self.slicing.zone)
        more_columns = [
            pl.Series(_END, ends, dtype=pl.Int64),
            pl.Series(_NUMBER, np.arange(number, number + frame.height), dtype=pl.Int64),
            pl.Series(_DUE, self.slicing.due(ends), dtype=pl.Int64),
        ]
        return frame.hstack(more_columns)

    def _output(self, left: pl.DataFrame, right: pl.DataFrame, now: int) -> pl.DataFrame:
        """The joined rows of windows that close, by the end of the window."""
        lefts, rights = self._pairs(left, right)
        if self._condition is not None and len(lefts):
            holds = truth(self._condition(self._beside(left, right, lefts, rights), now)[column(0)])
            lefts, rights = lefts[holds], rights[holds]
        kind = self.spec.join_type
        if kind in ("SEMI", "ANTI"):
            has_match = _among(left, lefts)
            rows = np.flatnonzero(has_match if kind == "SEMI" else ~has_match)
            return left[rows[_in_order((left, rows))]][columns(len(self.left_type.fields))]
        order = _in_order((left, lefts), (right, rights))
        lefts, rights = lefts[order], rights[order]
        parts, ends = [self._beside(left, right, lefts, rights)], [left[_END][lefts]]
        if kind in ("LEFT", "FULL"):
            alone = np.flatnonzero(~_among(left, lefts))
            alone = alone[_in_order((left, alone))]
            parts.append(self._beside(left, right, alone, None))
            ends.append(left[_END][alone])
        if kind in ("RIGHT", "FULL"):
            alone = np.flatnonzero(~_among(right, rights))
            alone = alone[_in_order((right, alone))]
            parts.append(self._beside(left, right, None, alone))
            ends.append(right[_END][alone])
        if len(parts) == 1:
            return parts[0]
        return pl.concat(parts)[np.argsort(pl.concat(ends).to_numpy(), kind="stable")]

    def _pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> tuple[Ints, Ints]:
        """Pairs of rows of one window with equal keys."""
        names = columns(len(self._keys[0]))
        rows, key_frames = [], []
        for frame, keys in ((left, self._keys[0]), (right, self._keys[1])):
            mine = np.flatnonzero(~without_match(frame, keys, self.spec.filter_nulls))
            rows.append(mine)
            key_frame = frame_of(
                [*(frame[k].alias(n) for k, n in zip(keys, names, strict=True)), frame[_END]], frame.height
            )
            key_frames.append(key_frame if len(mine) == frame.height else key_frame[mine])
        ids, (ours, theirs) = ids_of(key_frames, [*names, _END])
        order = stable_order(theirs)
        sizes = np.bincount(theirs, minlength=ids.count)
        starts, counts = (np.cumsum(sizes) - sizes)[ours], sizes[ours]
        return np.repeat(rows[0], counts), rows[1][order[np.repeat(starts, counts) + within(counts)]]


def _among(frame: pl.DataFrame, rows: Ints) -> Bools:
    """Which rows of the frame are among ``rows``."""
    is_member = np.zeros(frame.height, bool)
    is_member[rows] = True
    return is_member


def _in_order(*sides: tuple[pl.DataFrame, Ints]) -> Ints:
    """The order of rows, or of rows side by side: by the end of their window, then as they arrived.

    Args:
        sides: a frame, and which of its rows; the windows are those of the first.
    """
    frame, rows = sides[0]
    by = [frame[_END][rows], *(side[_NUMBER][row_numbers] for side, row_numbers in sides)]
    keys = pl.DataFrame([series.alias(column(i)) for i, series in enumerate(by)])
    return keys.select(pl.arg_sort_by(keys.columns)).to_series().to_numpy().astype(np.int64)
