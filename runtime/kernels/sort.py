"""Rows in an order: of a time attribute, or all rows of bounded input.

Source of the semantics: Flink's ``ProcTimeSortOperator``, for which the rows of a micro-batch come at the same time,
``RowTimeSortOperator`` and ``StreamSortOperator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.ranking import SortSpec
from stateplan.runtime.kernel import (
    END_OF_TIME,
    NO_WATERMARK,
    Access,
    EventTimeKernel,
    Frames,
    Kernel,
    StateTable,
    Step,
    Watermark,
    field_columns,
    left_out,
    lookup_frame,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import ids_of, is_retraction, positions, replay, with_stamps

_NUMBER, _DUE, _LAST, _COUNT = "@arrival", "@due", "last", "@copies"


def in_order(rows: pl.DataFrame, order: SortSpec) -> pl.DataFrame:
    """``rows`` in an order; those of equal order stay in theirs."""
    fields = order.fields
    if not fields:
        return rows
    return rows.sort(
        columns(order.indexes),
        descending=[not f.is_ascending for f in fields],
        nulls_last=[f.null_is_last for f in fields],
        maintain_order=True,
    )


@dataclass(frozen=True)
class ProctimeSortKernel(Kernel):
    """Sorts each micro-batch; it keeps nothing.

    Attributes:
        input_type: ROW type of the input.
        order: what comes after the time.
    """

    input_type: LogicalType
    order: SortSpec

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return ()

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        return Step(in_order(inputs[0], self.order), [], [])


@dataclass(frozen=True)
class RowtimeSortKernel(EventTimeKernel):
    """Emits rows in an order whose first field is a rowtime attribute, once the watermark has reached their time.

    A row that is not later than the last one that was emitted is dropped; so is one whose TTL ends while it waits.

    Attributes:
        input_type: ROW type of the input.
        order: the rowtime attribute, and what comes after it.
    """

    input_type: LogicalType
    order: SortSpec

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        buffer = {**field_columns(self.input_type), **own_columns({_NUMBER: pl.Int64(), _DUE: pl.Int64()})}
        last = own_columns({_LAST: pl.Int64()})
        return (
            StateTable("sortState.waiting", 0, (_NUMBER,), (_NUMBER,), buffer, due=_DUE),
            StateTable("sortState.emitted", 0, (), (), last, access=Access(lasting=True)),
            StateTable("sortState.arrived", 0, (), (), last, access=Access(lasting=True)),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [None, *[lookup_frame(inputs[0], ())] * 2]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        buffer, emission_state, arrival_state = state
        frame = inputs[0].drop(KIND, strict=False)
        number = int(arrival_state[_LAST][0]) if arrival_state.height else 0
        last = int(emission_state[_LAST][0]) if emission_state.height else NO_WATERMARK
        times = frame[column(self.order.fields[0].index)].cast(pl.Datetime("ms")).to_physical()
        punctual = (times > last).to_numpy()
        fresh = frame.hstack(
            [pl.Series(_NUMBER, np.arange(number, number + frame.height), dtype=pl.Int64), times.alias(_DUE)]
        ).filter(punctual)
        has_advanced = watermark.now > watermark.before
        due = fresh[_DUE] <= watermark.now if has_advanced else pl.repeat(False, fresh.height, eager=True)
        rest = fresh.filter(~due)
        out = pl.concat([buffer[fresh.columns], fresh.filter(due)]).sort(_NUMBER)
        upserts = [
            with_stamps(rest, now) if rest.height else None,
            with_stamps(pl.DataFrame({_LAST: [out[_DUE].max()]}, schema={_LAST: pl.Int64()}), now)
            if out.height
            else None,
            with_stamps(pl.DataFrame({_LAST: [number + frame.height]}), now) if frame.height else None,
        ]
        deletes = buffer[[_NUMBER]] if buffer.height else None
        late = left_out(frame, punctual)
        return Step(in_order(out[frame.columns], self.order), upserts, [deletes, None, None], late_rows=(late,))


@dataclass(frozen=True)
class SortKernel(EventTimeKernel):
    """Keeps each different row with the number of its occurrences, and emits all as insertions when the input ends; a
    job that is started again on more input emits what is new at its end.

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
        column_types = {**field_columns(self.input_type), **own_columns({_COUNT: pl.Int64(), _DUE: pl.Int64()})}
        return (StateTable("sortState", 0, fields, fields, column_types, due=_DUE),)

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        frame, stored_rows = inputs[0], state[0]
        names = list(self.tables[0].identity)
        rows = pl.concat([stored_rows[names], frame[names]])
        ids, (codes,) = ids_of([rows], names)
        start = np.zeros(ids.count, np.int64)
        start[codes[: stored_rows.height]] = stored_rows[_COUNT].to_numpy()
        retractions = is_retraction(frame)
        change = np.ones(frame.height, np.int64) if retractions is None else np.where(retractions, np.int64(-1), 1)
        _, final = replay(codes[stored_rows.height :], change, start)
        missed_retractions = int((final - start).sum() - change.sum())
        in_state = np.zeros(ids.count, bool)
        in_state[codes[: stored_rows.height]] = True
        place = np.sort(positions(codes, ids.count))
        distinct = rows[place]
        counts, is_stored = final[codes[place]], in_state[codes[place]]
        if watermark.now == END_OF_TIME:
            out = in_order(distinct[np.repeat(np.arange(len(place)), counts)], self.order)
            return Step(out, [None], [stored_rows[names] if stored_rows.height else None], missed_retractions)
        has_change = counts != start[codes[place]]
        counted_rows = distinct.hstack([pl.Series(_COUNT, counts), pl.Series(_DUE, np.full(len(place), END_OF_TIME))])
        upserts, deletes = counted_rows.filter(has_change & (counts > 0)), distinct.filter((counts == 0) & is_stored)
        return Step(
            distinct[:0],
            [with_stamps(upserts, now) if upserts.height else None],
            [deletes if deletes.height else None],
            missed_retractions,
        )
