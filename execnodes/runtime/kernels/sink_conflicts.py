"""The state of a sink that refuses or ignores a second row of a primary key: ON CONFLICT DO ERROR and DO NOTHING.

Source of the semantics: Flink's ``WatermarkCompactingSinkMaterializer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import KIND, RowKind, columns
from stateplan.execnodes.errors import RunError
from stateplan.execnodes.runtime.kernel import (
    EventTimeKernel,
    Frames,
    StateTable,
    Step,
    Watermark,
    field_columns,
    own_columns,
)
from stateplan.execnodes.runtime.kernels.common.net import (
    Bools,
    Ints,
    equal,
    ids_of,
    is_retraction,
    lookup_frame,
    positions,
    ranks,
    stamped,
    with_kind,
)
from stateplan.execnodes.runtime.kernels.sink_materializer import RowLists
from stateplan.execnodes.types import LogicalType

_NUMBER, _DUE = "n", "due"
"""Columns of the rows that wait: their order, and the watermark that releases them."""


@dataclass(frozen=True)
class SinkConflictKernel(EventTimeKernel):
    """Rows wait until the watermark advances; then those of each primary key are taken together, after the row that
    the table shows. A row and its retraction cancel each other, in whichever order they came. One row left is shown,
    none deletes the key; of more, DO ERROR fails the job, and DO NOTHING leaves the table as it is, or shows the first
    of them where the key is new. Rows that are not shown are forgotten.

    The rows of a key that wait live as long as the last of them. A retraction that finds nothing is counted.

    Attributes:
        table: of the sink, for messages.
        input_type: ROW type of the rows.
        primary_key: fields of the sink's primary key.
        upsert_key: fields of the key of the changes; empty for none.
        fails: DO ERROR.
    """

    table: str
    input_type: LogicalType
    primary_key: tuple[int, ...]
    upsert_key: tuple[int, ...] = ()
    fails: bool = False

    @cached_property
    def _key_columns(self) -> list[str]:
        return columns(self.primary_key)

    @cached_property
    def _fields(self) -> list[str]:
        return columns(len(self.input_type.fields))

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        key = tuple(self._key_columns)
        fields = field_columns(self.input_type)
        waiting = {**fields, **own_columns({KIND: pl.Int8(), _NUMBER: pl.Int64(), _DUE: pl.Int64()})}
        return (
            StateTable("sinkMaterializeState-buffer", 0, key, (*key, _NUMBER), waiting, _DUE),
            StateTable("sinkMaterializeState", 0, key, key, fields),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        keys = lookup_frame(inputs[0], self._key_columns)
        return [keys, keys]

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """As :class:`execnodes.runtime.kernel.Kernel`."""
        return [lookup_frame(inputs[0], self._key_columns), None]

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """As :class:`execnodes.runtime.kernel.Kernel`."""
        keys = pl.concat([inputs[0].select(self._key_columns), state[0].select(self._key_columns)])
        return [None, lookup_frame(keys, self._key_columns)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch; see :class:`execnodes.runtime.kernel.Kernel`.

        Raises:
            RunError: RUN024, two rows of a primary key, with DO ERROR.
        """
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
            return self._released(pending[left].drop(_NUMBER), waiting, shown.select(self._fields), now)
        gone = np.ones(pending.height, bool)
        gone[left] = False
        done = waiting.select([*self._key_columns, _NUMBER]).filter(pl.Series(gone[: waiting.height]))
        kept = pending[left].with_columns(pl.lit(watermark.before + 1, pl.Int64).alias(_DUE))
        nothing = with_kind(frame.select(self._fields)[:0], np.zeros(0, np.int8))
        return Step(nothing, [stamped(kept, now) if kept.height else None, None], [done if done.height else None, None])

    def _released(self, pending: pl.DataFrame, waiting: pl.DataFrame, shown: pl.DataFrame, now: int) -> Step:
        """All that waits, in order, over the rows the table shows."""
        retracted = is_retraction(pending)
        adds = np.ones(pending.height, bool) if retracted is None else ~retracted
        rows = pending.drop(KIND)
        keys, (known, codes) = ids_of((shown, rows), self._key_columns)
        entry = (
            list(dict.fromkeys([*self._key_columns, *columns(self.upsert_key)])) if self.upsert_key else self._fields
        )
        entries, (entry_before, entry_now) = ids_of((shown, rows), entry)
        lists = RowLists(
            np.concatenate([known, codes]),
            keys.count,
            entry_before,
            entry_now,
            entries.count,
            np.zeros(shown.height, np.int64),
            adds,
            bool(self.upsert_key),
        )
        final = lists.after(np.ones(pending.height, bool))
        everything = pl.concat([shown, rows], rechunk=True)
        order = np.argsort(final.places, kind="stable")[::-1]
        first = np.full(keys.count, -1, np.int64)
        owners = lists.keys[final.rows]
        first[owners[order]] = final.rows[order]
        count = np.bincount(owners, minlength=keys.count)
        before = positions(known, keys.count)
        touched = positions(codes, keys.count)
        if self.fails and (count > 1).any():
            raise self._conflict(everything, first[int(np.argmax(count > 1))])
        tell = (touched >= 0) & np.where(count > 1, before < 0, (count > 0) | (before >= 0))
        same = np.zeros(keys.count, bool)
        both = np.flatnonzero(tell & (count == 1) & (before >= 0))
        if len(both):
            same[both] = self._same(everything[first[both]], shown[before[both]])
        told = np.flatnonzero(tell & ~same)
        told = told[np.argsort(touched[told])]
        there, was = count[told] > 0, before[told] >= 0
        kinds = np.where(there, np.where(was, RowKind.UPDATE_AFTER, RowKind.INSERT), RowKind.DELETE)
        output = with_kind(everything[np.where(there, first[told], before[told])], kinds.astype(np.int8))
        written = everything[first[told[there]]]
        gone = shown[self._key_columns][before[told[~there]]]
        done = waiting.select([*self._key_columns, _NUMBER])
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
        ids, (codes,) = ids_of((pending,), self._fields)
        net = np.bincount(codes, np.where(retracted, -1, 1), ids.count).astype(np.int64)
        kind = codes * 2 + retracted
        from_behind = ranks(kind, backwards=True)
        same_sign = np.where(retracted, net[codes] < 0, net[codes] > 0)
        return np.flatnonzero(same_sign & (from_behind < np.abs(net[codes])))

    def _same(self, a: pl.DataFrame, b: pl.DataFrame) -> Bools:
        same: Bools = np.logical_and.reduce([np.ones(a.height, bool), *(equal(a[n], b[n]) for n in self._fields)])
        return same

    def _conflict(self, rows: pl.DataFrame, row: int) -> RunError:
        names = [self.input_type.fields[i].name for i in self.primary_key]
        values = rows.select(self._key_columns).row(int(row))
        key = ", ".join(f"{n}={'null' if v is None else v}" for n, v in zip(names, values, strict=True))
        return RunError("RUN024", table=self.table, key=key)
