"""The state of a sink whose primary key is not the key of the changes it gets: the rows of each primary key, in order.

A sink that refuses or ignores a second row of a primary key (ON CONFLICT DO ERROR and DO NOTHING) has another.

Source of the semantics: Flink's ``SinkUpsertMaterializer`` and ``WatermarkCompactingSinkMaterializer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, columns
from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import (
    EventTimeKernel,
    Frames,
    KeyedKernel,
    StateTable,
    Step,
    Watermark,
    lookup_frame,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    absent,
    ids_of,
    is_retraction,
    key_ids,
    positions,
    ranks,
    replay,
    stable_order,
    unchanged,
    with_kind,
    with_stamps,
)

_PLACE = "n"
"""Column of the state: the place of a row among those of its primary key; only the order counts."""
_NUMBER, _DUE = "n", "due"
"""Columns of the rows that wait: their order, and the watermark that releases them."""


@dataclass(frozen=True)
class _SinkKernel(KeyedKernel):
    """What the kernels of sinks with a primary key share. ``key_fields`` are those of the primary key.

    Attributes:
        upsert_key: fields of the key of the changes; empty for none.
    """

    upsert_key: tuple[int, ...] = ()

    @cached_property
    def _entry_columns(self) -> list[str]:
        """What distinguishes the rows of a primary key."""
        if not self.upsert_key:
            return list(self._fields)
        return list(dict.fromkeys([*self._keys, *columns(self.upsert_key)]))

    def _lists(self, before: pl.DataFrame, frame: pl.DataFrame, places: Ints) -> tuple[RowLists, pl.DataFrame]:
        """The lists of rows, and the rows: those of ``before``, which have ``places``, and behind them the changes."""
        retractions = is_retraction(frame)
        adds = np.ones(frame.height, bool) if retractions is None else ~retractions
        rows = pl.concat([before[list(self._fields)], frame[list(self._fields)]], rechunk=True)
        keys, entries = key_ids(rows, self._keys), key_ids(rows, self._entry_columns)
        old_codes, now = entries.codes[: before.height], entries.codes[before.height :]
        return RowLists(
            keys.codes, keys.count, old_codes, now, entries.count, places, adds, bool(self.upsert_key)
        ), rows


@dataclass(frozen=True)
class SinkMaterializerKernel(_SinkKernel):
    """Keeps the rows of each primary key in the order they arrived; the table shows the one that arrived last.

    A row that comes replaces the one of the same upsert key, at its place, or goes last. A row that is retracted (-U,
    -D) is the first with its upsert key; without an upsert key, the first equal row. When the last row goes, the one
    before it is shown again; when none is left the key is deleted. A retraction that finds nothing is counted.

    As Flink keeps one list per primary key, all rows of a key live as long as it, and are refreshed by every change
    that is not a retraction that finds nothing. Per micro-batch and key one change is emitted at most: +I, +U or -D.
    """

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        schema = {**self._columns, **own_columns({_PLACE: pl.Int64()})}
        return (StateTable("sinkMaterializeState", 0, self._keys, (*self._keys, _PLACE), schema),)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        frame, before = inputs[0], state[0]
        lists, rows = self._lists(before, frame, before[_PLACE].to_numpy())
        final = lists.after(np.ones(frame.height, bool))
        changed_keys = lists.change_mask(final)
        rows_to_write = np.flatnonzero(changed_keys[lists.keys[final.rows]])
        lists_now = rows[final.rows[rows_to_write]].hstack([pl.Series(_PLACE, final.places[rows_to_write])])
        places = [*self._keys, _PLACE]
        old = before[places][np.flatnonzero(changed_keys[lists.keys[: before.height]])]
        removed_places = absent(old, places, lists_now)
        upserts = with_stamps(lists_now, now) if len(rows_to_write) else None
        deletes = old[removed_places] if len(removed_places) else None
        return Step(_output_rows(rows, lists, final), [upserts], [deletes], lists.missed())


def _output_rows(rows: pl.DataFrame, lists: RowLists, final: PlacedRows) -> pl.DataFrame:
    """What the changes make the table show, per primary key in order of its last change.

    A row that comes is shown, also where it takes the place of one further up. A row that goes matters only when it is
    the last of its list: then the last one of those that are left is shown.
    """
    old_count = len(lists.places)
    codes = lists.keys[old_count:]
    last_add = lists.last_add()
    before, after = lists.ends(lists.after(np.zeros(len(codes), bool))), lists.ends(final)
    until_add = np.arange(len(codes)) <= last_add[codes]
    until = after if until_add.all() else lists.ends(lists.after(until_add))
    has_lost_row = (until.places >= 0) & (until.places != after.places)
    shown_rows = np.where(has_lost_row | (last_add < 0), after.rows, old_count + last_add)
    shown_rows[after.rows < 0] = -1
    last_rows = positions(codes, lists.count)
    is_output = ((last_add >= 0) | has_lost_row) & (last_rows >= 0) & ((shown_rows >= 0) | (before.rows >= 0))
    keys = np.flatnonzero(is_output)
    keys = keys[np.argsort(last_rows[keys])]
    shows, was = shown_rows[keys] >= 0, before.rows[keys] >= 0
    kinds = np.where(shows, np.where(was, RowKind.UPDATE_AFTER, RowKind.INSERT), RowKind.DELETE)
    return with_kind(rows[np.where(shows, shown_rows[keys], before.rows[keys])], kinds.astype(np.int8))


def _last_of(codes: Ints, count: int, among: Bools) -> Ints:
    """Per number the last row of those ``among`` all, -1 for none."""
    rows = np.flatnonzero(among)
    return np.append(rows, -1)[positions(codes[rows], count)]


@dataclass(frozen=True)
class PlacedRows:
    """Rows with their places.

    Attributes:
        rows: positions among the rows of the state and, behind them, those of the batch.
        places: of each; a row that arrived is behind all of the state.
    """

    rows: Ints
    places: Ints


@dataclass(frozen=True)
class RowLists:
    """The lists of rows of all primary keys, and what a batch does to them.

    Attributes:
        keys: number of the primary key of every row of the state, then of every row of the batch.
        count: how many primary keys there are.
        entries_before, entries_now: number of what distinguishes a row, of the state's rows and of the batch's.
        entries: how many such numbers there are.
        places: the places of the state's rows.
        adds: which rows of the batch come; the others go.
        has_key: whether there is at most one row per entry.
    """

    keys: Ints
    count: int
    entries_before: Ints
    entries_now: Ints
    entries: int
    places: Ints
    adds: Bools
    has_key: bool

    def after(self, ops: Bools) -> PlacedRows:
        """The rows of all lists after the rows ``ops`` of the batch."""
        return self._after_keyed(ops) if self.has_key else self._after(ops)

    def _after_keyed(self, ops: Bools) -> PlacedRows:
        old_count = len(self.places)
        at = positions(self.entries_before, self.entries)
        coming = self._last(ops & self.adds)
        going = self._last(ops & ~self.adds)
        back = np.flatnonzero(ops & self.adds & (np.arange(len(ops)) > going[self.entries_now]))[::-1]
        first = np.full(self.entries, -1, np.int64)
        first[self.entries_now[back]] = back
        stays = (at >= 0) & (going < 0)
        entries = np.flatnonzero(stays | (first >= 0))
        rows = np.where(first[entries] >= 0, old_count + coming[entries], at[entries])
        places = self._base() + first[entries]
        places[stays[entries]] = self.places[at[entries][stays[entries]]]
        return PlacedRows(rows, places)

    def _after(self, ops: Bools) -> PlacedRows:
        old_count = len(self.places)
        oldest = np.argsort(self.places, kind="stable")
        operations = np.flatnonzero(ops)
        new_rows = np.flatnonzero(ops & self.adds)
        start = np.bincount(self.entries_before, minlength=self.entries)
        codes = self.entries_now[operations]
        _, left = replay(codes, np.where(self.adds[operations], np.int64(1), np.int64(-1)), start)
        entries = np.concatenate([self.entries_before[oldest], self.entries_now[new_rows]])
        remaining = ranks(entries, backwards=True) < left[entries]
        rows = np.concatenate([oldest, old_count + new_rows])
        places = np.concatenate([self.places[oldest], self._base() + new_rows])
        return PlacedRows(rows[remaining], places[remaining])

    def _base(self) -> int:
        """The first place behind all of the state."""
        return int(self.places.max(initial=-1)) + 1

    def _last(self, ops: Bools) -> Ints:
        """Per entry the last of the rows ``ops`` of the batch, -1 for none."""
        return _last_of(self.entries_now, self.entries, ops)

    def last_add(self) -> Ints:
        """Per primary key the last row of the batch that comes, -1 for none."""
        return _last_of(self.keys[len(self.places) :], self.count, self.adds)

    def change_mask(self, rows: PlacedRows) -> Bools:
        """Which primary keys have lists that a row came to or went from."""
        before = np.bincount(self.keys[: len(self.places)], minlength=self.count)
        differs: Bools = before != np.bincount(self.keys[rows.rows], minlength=self.count)
        return differs | (self.last_add() >= 0)

    def ends(self, rows: PlacedRows) -> PlacedRows:
        """Per primary key the last row of its list, -1 for none."""
        order = np.argsort(rows.places, kind="stable")
        at = positions(self.keys[rows.rows[order]], self.count)
        hits = at >= 0
        out = PlacedRows(np.full(self.count, -1, np.int64), np.full(self.count, -1, np.int64))
        out.rows[hits] = rows.rows[order][at[hits]]
        out.places[hits] = rows.places[order][at[hits]]
        return out

    def missed(self) -> int:
        """How many rows that go were not there."""
        if not self.has_key:
            additions = int(self.adds.sum())
            left = len(self._after(np.ones(len(self.adds), bool)).rows)
            return len(self.adds) - additions - (len(self.places) + additions - left)
        order = stable_order(self.entries_now)
        codes = self.entries_now[order]
        present = positions(self.entries_before, self.entries)[codes] >= 0
        repeats = np.flatnonzero(codes[1:] == codes[:-1]) + 1
        present[repeats] = self.adds[order][repeats - 1]
        return int((~self.adds[order] & ~present).sum())


@dataclass(frozen=True)
class SinkConflictKernel(_SinkKernel, EventTimeKernel):
    """Rows wait until the watermark advances; then those of each primary key are taken together, after the row that the
    table shows. A row and its retraction cancel each other, in whichever order they arrived. One row left is shown,
    none deletes the key; of more, DO ERROR fails the job, and DO NOTHING leaves the table as it is, or shows the first
    of them where the key is new. Rows that are not shown are forgotten.

    The rows of a key that wait live as long as the last of them. A retraction that finds nothing is counted.

    Attributes:
        table: the table of the sink, for messages.
        fails: DO ERROR.
    """

    table: str = ""
    fails: bool = False

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        buffer = {**self._columns, **own_columns({KIND: pl.Int8(), _NUMBER: pl.Int64(), _DUE: pl.Int64()})}
        return (
            StateTable("sinkMaterializeState-buffer", 0, self._keys, (*self._keys, _NUMBER), buffer, _DUE),
            StateTable("sinkMaterializeState", 0, self._keys, self._keys, self._columns),
        )

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [lookup_frame(inputs[0], self._keys), None]

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        keys = pl.concat([inputs[0].select(self._keys), state[0].select(self._keys)])
        return [None, lookup_frame(keys, self._keys)]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        """One micro-batch. Raises RunError RUN024, two rows of a primary key, with DO ERROR."""
        frame, buffer, shown_rows = inputs[0], state[0], state[1]
        if KIND not in frame.columns:
            frame = frame.with_columns(pl.lit(RowKind.INSERT.value, pl.Int8).alias(KIND))
        buffer = buffer.sort(_NUMBER)
        first = int(buffer[_NUMBER][-1]) + 1 if buffer.height else 0
        numbers = pl.Series(_NUMBER, np.arange(first, first + frame.height))
        names = [*self._fields, KIND, _NUMBER]
        pending = pl.concat([buffer.select(names), frame.with_columns(numbers).select(names)], rechunk=True)
        left = self._left(pending)
        if watermark.now > watermark.before:
            return self._release(pending[left].drop(_NUMBER), buffer, shown_rows[list(self._fields)], now)
        is_finished = np.ones(pending.height, bool)
        is_finished[left] = False
        finished_rows = buffer.select([*self._keys, _NUMBER]).filter(pl.Series(is_finished[: buffer.height]))
        waiting_rows = pending[left].with_columns(pl.lit(watermark.before + 1, pl.Int64).alias(_DUE))
        nothing = with_kind(frame[list(self._fields)][:0], np.zeros(0, np.int8))
        return Step(
            nothing,
            [with_stamps(waiting_rows, now) if waiting_rows.height else None, None],
            [finished_rows if finished_rows.height else None, None],
        )

    def _release(self, pending: pl.DataFrame, buffer: pl.DataFrame, shown_rows: pl.DataFrame, now: int) -> Step:
        """All that waits, in order, over the rows the table shows."""
        lists, everything = self._lists(shown_rows, pending, np.zeros(shown_rows.height, np.int64))
        final = lists.after(np.ones(pending.height, bool))
        shown_codes, codes, count = lists.keys[: shown_rows.height], lists.keys[shown_rows.height :], lists.count
        order = np.argsort(final.places, kind="stable")[::-1]
        first = np.full(count, -1, np.int64)
        owners = lists.keys[final.rows]
        first[owners[order]] = final.rows[order]
        left = np.bincount(owners, minlength=count)
        before = positions(shown_codes, count)
        last_rows = positions(codes, count)
        if self.fails and (left > 1).any():
            raise self._conflict(everything, first[int(np.argmax(left > 1))])
        tell = (last_rows >= 0) & np.where(left > 1, before < 0, (left > 0) | (before >= 0))
        alone = np.flatnonzero(tell & (left == 1))
        tell[alone[unchanged(everything[first[alone]], shown_rows, before[alone], list(self._fields))]] = False
        output_keys = np.flatnonzero(tell)
        output_keys = output_keys[np.argsort(last_rows[output_keys])]
        shows, was = left[output_keys] > 0, before[output_keys] >= 0
        kinds = np.where(shows, np.where(was, RowKind.UPDATE_AFTER, RowKind.INSERT), RowKind.DELETE)
        output = with_kind(everything[np.where(shows, first[output_keys], before[output_keys])], kinds.astype(np.int8))
        new_rows = everything[first[output_keys[shows]]]
        removed_keys = shown_rows[list(self._keys)][before[output_keys[~shows]]]
        finished_rows = buffer.select([*self._keys, _NUMBER])
        return Step(
            output,
            [None, with_stamps(new_rows, now) if new_rows.height else None],
            [finished_rows if finished_rows.height else None, removed_keys if removed_keys.height else None],
            lists.missed(),
        )

    def _left(self, pending: pl.DataFrame) -> Ints:
        """The rows that are left when equal rows that come and go cancel each other: the last ones of their kind."""
        retractions = is_retraction(pending)
        if retractions is None:
            return np.arange(pending.height)
        ids, (codes,) = ids_of((pending,), list(self._fields))
        balance = np.bincount(codes, np.where(retractions, -1, 1), ids.count).astype(np.int64)
        kind = codes * 2 + retractions
        from_behind = ranks(kind, backwards=True)
        same_sign = np.where(retractions, balance[codes] < 0, balance[codes] > 0)
        return np.flatnonzero(same_sign & (from_behind < np.abs(balance[codes])))

    def _conflict(self, rows: pl.DataFrame, row: int) -> RunError:
        names = [self.input_type.fields[i].name for i in self.key_fields]
        values = rows.select(self._keys).row(int(row))
        key = ", ".join(f"{n}={'null' if v is None else v}" for n, v in zip(names, values, strict=True))
        return RunError("RUN024", table=self.table, key=key)
