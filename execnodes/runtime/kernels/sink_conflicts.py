"""The state of a sink that refuses or ignores a second row of a primary key: ON CONFLICT DO ERROR and DO NOTHING.

Source of the semantics: Flink's ``WatermarkCompactingSinkMaterializer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import KIND, RowKind
from stateplan.execnodes.errors import RunError
from stateplan.execnodes.runtime.kernel import (
    EventTimeKernel,
    Frames,
    StateTable,
    Step,
    Watermark,
    lookup_frame,
    own_columns,
)
from stateplan.execnodes.runtime.kernels.common.net import (
    Ints,
    ids_of,
    is_retraction,
    positions,
    ranks,
    stamped,
    unchanged,
    with_kind,
)
from stateplan.execnodes.runtime.kernels.sink_materializer import SinkKernel

_NUMBER, _DUE = "n", "due"
"""Columns of the rows that wait: their order, and the watermark that releases them."""


@dataclass(frozen=True)
class SinkConflictKernel(SinkKernel, EventTimeKernel):
    """Rows wait until the watermark advances; then those of each primary key are taken together, after the row that
    the table shows. A row and its retraction cancel each other, in whichever order they came. One row left is shown,
    none deletes the key; of more, DO ERROR fails the job, and DO NOTHING leaves the table as it is, or shows the first
    of them where the key is new. Rows that are not shown are forgotten.

    The rows of a key that wait live as long as the last of them. A retraction that finds nothing is counted.

    Attributes:
        table: of the sink, for messages.
        fails: DO ERROR.
    """

    table: str = ""
    fails: bool = False

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        waiting = {**self._columns, **own_columns({KIND: pl.Int8(), _NUMBER: pl.Int64(), _DUE: pl.Int64()})}
        return (
            StateTable("sinkMaterializeState-buffer", 0, self._keys, (*self._keys, _NUMBER), waiting, _DUE),
            StateTable("sinkMaterializeState", 0, self._keys, self._keys, self._columns),
        )

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [lookup_frame(inputs[0], self._keys), None]

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        keys = pl.concat([inputs[0].select(self._keys), state[0].select(self._keys)])
        return [None, lookup_frame(keys, self._keys)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch. Raises RunError RUN024, two rows of a primary key, with DO ERROR."""
        frame, waiting, shown = inputs[0], state[0], state[1]
        if KIND not in frame.columns:
            frame = frame.with_columns(pl.lit(RowKind.INSERT.value, pl.Int8).alias(KIND))
        waiting = waiting.sort(_NUMBER)
        first = int(waiting[_NUMBER][-1]) + 1 if waiting.height else 0
        numbers = pl.Series(_NUMBER, np.arange(first, first + frame.height))
        wanted = [*self._fields, KIND, _NUMBER]
        pending = pl.concat([waiting.select(wanted), frame.with_columns(numbers).select(wanted)], rechunk=True)
        left = self._left(pending)
        if watermark.now > watermark.before:
            return self._released(pending[left].drop(_NUMBER), waiting, shown[list(self._fields)], now)
        gone = np.ones(pending.height, bool)
        gone[left] = False
        done = waiting.select([*self._keys, _NUMBER]).filter(pl.Series(gone[: waiting.height]))
        kept = pending[left].with_columns(pl.lit(watermark.before + 1, pl.Int64).alias(_DUE))
        nothing = with_kind(frame[list(self._fields)][:0], np.zeros(0, np.int8))
        return Step(nothing, [stamped(kept, now) if kept.height else None, None], [done if done.height else None, None])

    def _released(self, pending: pl.DataFrame, waiting: pl.DataFrame, shown: pl.DataFrame, now: int) -> Step:
        """All that waits, in order, over the rows the table shows."""
        lists, everything = self._lists(shown, pending, np.zeros(shown.height, np.int64))
        final = lists.after(np.ones(pending.height, bool))
        known, codes, count = lists.keys[: shown.height], lists.keys[shown.height :], lists.count
        order = np.argsort(final.places, kind="stable")[::-1]
        first = np.full(count, -1, np.int64)
        owners = lists.keys[final.rows]
        first[owners[order]] = final.rows[order]
        left = np.bincount(owners, minlength=count)
        before = positions(known, count)
        touched = positions(codes, count)
        if self.fails and (left > 1).any():
            raise self._conflict(everything, first[int(np.argmax(left > 1))])
        tell = (touched >= 0) & np.where(left > 1, before < 0, (left > 0) | (before >= 0))
        alone = np.flatnonzero(tell & (left == 1))
        tell[alone[unchanged(everything[first[alone]], shown, before[alone], list(self._fields))]] = False
        told = np.flatnonzero(tell)
        told = told[np.argsort(touched[told])]
        there, was = left[told] > 0, before[told] >= 0
        kinds = np.where(there, np.where(was, RowKind.UPDATE_AFTER, RowKind.INSERT), RowKind.DELETE)
        output = with_kind(everything[np.where(there, first[told], before[told])], kinds.astype(np.int8))
        written = everything[first[told[there]]]
        gone = shown[list(self._keys)][before[told[~there]]]
        done = waiting.select([*self._keys, _NUMBER])
        return Step(
            output,
            [None, stamped(written, now) if written.height else None],
            [done if done.height else None, gone if gone.height else None],
            lists.missed(),
        )

    def _left(self, pending: pl.DataFrame) -> Ints:
        """The rows that are left when equal rows that come and go cancel each other: the last ones of their kind."""
        retracted = is_retraction(pending)
        if retracted is None:
            return np.arange(pending.height)
        ids, (codes,) = ids_of((pending,), list(self._fields))
        net = np.bincount(codes, np.where(retracted, -1, 1), ids.count).astype(np.int64)
        kind = codes * 2 + retracted
        from_behind = ranks(kind, backwards=True)
        same_sign = np.where(retracted, net[codes] < 0, net[codes] > 0)
        return np.flatnonzero(same_sign & (from_behind < np.abs(net[codes])))

    def _conflict(self, rows: pl.DataFrame, row: int) -> RunError:
        names = [self.input_type.fields[i].name for i in self.key_fields]
        values = rows.select(self._keys).row(int(row))
        key = ", ".join(f"{n}={'null' if v is None else v}" for n, v in zip(names, values, strict=True))
        return RunError("RUN024", table=self.table, key=key)
