"""What the kernels that rank rows share: places in the order, the end of the range, and what changes in the output.

A batch ranks the rows that a partition keeps together with those that arrive, once, and emits the difference between
the rows that were ranked before and those that are ranked now. Rows of equal order stay in order of arrival, which a
number per row (column ``@s``) remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, column, columns
from stateplan.common.errors import RunError
from stateplan.common.small_frames import rows_at, rows_where, without
from stateplan.execnodes.ranking import ConstantRange, SortSpec, VariableRange
from stateplan.runtime.kernel import Access, Frames, KeyedKernel, StateTable, Transform, own_columns
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    KeyIds,
    ids_of,
    integers,
    is_retraction,
    key_ids,
    narrow,
    positions,
    ranks,
    stamped,
    with_kind,
)

SEQUENCE = "@arrival"
"""Column of a kept row: its place among the arrivals of its partition."""

END = "n"
"""Column of the end of a variable range."""

_STATE = "rankState"


class Change(NamedTuple):
    """A part of the output: rows of a pool, and for each its group, its number and its kind."""

    rows: Ints
    groups: Ints
    numbers: Ints
    kind: RowKind

    def taken(self, at: Ints) -> Change:
        """The part of it at the given positions."""
        return Change(self.rows[at], self.groups[at], self.numbers[at], self.kind)


def in_turn(old: Ints, new: Ints) -> tuple[Ints, Ints]:
    """Where the values of two sorted arrays without repeats meet: positions in ``old`` and in ``new``."""
    place = np.searchsorted(new, old)
    place[place == len(new)] = 0
    met = np.flatnonzero(new[place] == old) if len(new) else np.zeros(0, np.int64)
    return met, place[met]


def sequence_after(kept: pl.DataFrame) -> int:
    """The number of the next row to arrive."""
    return int(kept[SEQUENCE].to_numpy().max(initial=-1)) + 1


@dataclass(frozen=True)
class Pool:
    """The rows of the touched partitions in their order: kept ones first, then those that arrive.

    Attributes:
        rows: the fields.
        kept: how many of the rows were kept.
        groups: the partition of each row, counted from 0.
        count: number of partitions.
        order: the rows sorted by partition and order; equal ones by ``sequence``.
        places: per row, 1 for the first of its partition in that order.
    """

    rows: pl.DataFrame
    kept: int
    groups: Ints
    count: int
    order: Ints
    places: Ints

    def places_among(self, chosen: Bools) -> Ints:
        """Places counted among the ``chosen`` rows only; 0 for the others."""
        mine = self.order[chosen[self.order]]
        out = np.zeros(len(self.order), np.int64)
        out[mine] = ranks(self.groups[mine]) + 1
        return out


@dataclass(frozen=True)
class TopN(KeyedKernel):
    """Base of the kernels of ``rank``, ``limit`` and ``sort-limit``.

    Attributes:
        key_fields: fields of the partition.
        order: by which rows are ranked; without fields in order of arrival.
        range: which numbers are emitted.
        output_number: whether the number is the last field of the output.
        generate_update_before: emit -U.
    """

    order: SortSpec
    range: ConstantRange | VariableRange
    output_number: bool
    generate_update_before: bool

    @cached_property
    def _sort_columns(self) -> tuple[str, ...]:
        return tuple(columns(self.order.indexes))

    @property
    def _of_equals(self) -> Access:
        """How the table of kept rows is accessed where those of equal order are one entry."""
        return Access(entry=tuple(dict.fromkeys((*self._keys, *self._sort_columns))))

    @property
    def _by_number(self) -> bool:
        """Whether what is emitted depends on the numbers, and not only on which rows are in the range."""
        return self.output_number or (isinstance(self.range, ConstantRange) and self.range.start > 1)

    @property
    def _first(self) -> int:
        """The first number that is emitted."""
        return max(1, self.range.start) if isinstance(self.range, ConstantRange) else 1

    # -- the end of the range ----------------------------------------------------------------------------------------

    @cached_property
    def _end_tables(self) -> tuple[StateTable, ...]:
        """The table of a variable range: the end of each partition, which its first row sets."""
        if isinstance(self.range, ConstantRange):
            return ()
        schema = {**{k: self._columns[k] for k in self._keys}, **own_columns({END: pl.Int64()})}
        return (StateTable(f"{_STATE}.end", 0, self._keys, self._keys, schema),)

    def _ends(
        self, groups: Ints, count: int, arrived: pl.DataFrame, state: Frames, now: int
    ) -> tuple[Ints, list[pl.DataFrame | None]]:
        """Per partition the last number of its range, and what to write to the end table, if there is one.

        Args:
            groups: partition of each row that arrived; each of the ``count`` partitions has one.
            state: the frame of the end table, if there is one.
        """
        if isinstance(self.range, ConstantRange):
            return np.full(count, self.range.end, np.int64), []
        known = state[0]
        values = arrived[column(self.range.end_index)].cast(pl.Int64).fill_null(0).to_numpy()
        first = np.zeros(count, np.int64)
        first[groups[::-1]] = np.arange(arrived.height)[::-1]
        ends = values[first]
        ids, (there, mine) = ids_of((known, arrived), self._keys)
        owners = groups[positions(mine, ids.count)[there]]
        ends[owners] = known[END].to_numpy()
        fresh = np.delete(first, owners)
        if not len(fresh):
            return ends, [None]
        rows = narrow(arrived, self._keys)[fresh].hstack([pl.Series(END, values[fresh], dtype=pl.Int64)])
        return ends, [stamped(rows, now)]

    # -- the order ---------------------------------------------------------------------------------------------------

    def _pool(self, rows: pl.DataFrame, kept: int, sequence: Ints) -> Pool:
        """The rows, of which the first ``kept`` were kept, in their order."""
        groups = key_ids(rows, self._keys).codes
        count = int(groups.max()) + 1 if len(groups) else 0
        by = pl.DataFrame({"@g": groups}).hstack([rows[c].alias(f"@{i}") for i, c in enumerate(self._sort_columns)])
        by = by.hstack([pl.Series(SEQUENCE, sequence)])
        fields = self.order.fields
        order = (
            by.select(
                pl.arg_sort_by(
                    by.columns,
                    descending=[False, *(not f.is_ascending for f in fields), False],
                    nulls_last=[False, *(f.null_is_last for f in fields), False],
                )
            )
            .to_series()
            .to_numpy()
            .astype(np.int64)
        )
        places = np.empty(len(order), np.int64)
        places[order] = ranks(groups[order]) + 1
        return Pool(rows, kept, groups, count, order, places)

    def partitions(self, rows: pl.DataFrame) -> KeyIds:
        """The partition of each row."""
        return key_ids(rows, self._keys)

    def leading(self, rows: pl.DataFrame, groups: Ints, end: int) -> Ints:
        """The rows of the first ``end`` places of their partitions, in their order; of equal rows those that come
        first. ``groups`` are the partitions of the rows."""
        near = self._near(rows, groups, end)
        candidates = rows if near is None else rows[near]
        leads = np.flatnonzero(self._pool(candidates, 0, np.arange(candidates.height)).places <= end)
        return leads if near is None else near[leads]

    def _near(self, rows: pl.DataFrame, groups: Ints, end: int) -> Ints | None:
        """The rows that are not behind ``end`` others by the first field of the order alone: a selection, far cheaper
        than an order of all rows. None where there is no such field, or no quick selection by its type."""
        if not self.order.fields:
            return None
        first = self.order.fields[0]
        values = rows[column(first.index)]
        found = integers(values)
        if found is None:
            return None
        numbers, low, _ = found
        if values.null_count() and first.is_ascending != first.null_is_last:
            numbers = np.where(values.is_null().to_numpy(), low - 1, numbers)
        best = pl.col("v").bottom_k(end).max() if first.is_ascending else pl.col("v").top_k(end).min()
        bounds = pl.DataFrame({"g": groups, "v": numbers}).group_by("g").agg(best)
        bound = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
        bound[bounds["g"].to_numpy()] = bounds["v"].to_numpy()
        return np.flatnonzero(numbers <= bound[groups] if first.is_ascending else numbers >= bound[groups])

    def _ties(self, rows: pl.DataFrame) -> Ints:
        """The rows numbered by partition and values of the order: equal for rows of equal order."""
        return key_ids(rows, tuple(dict.fromkeys((*self._keys, *self._sort_columns)))).codes

    @staticmethod
    def _with_equals(stays: Bools, kept: Bools, ties: Ints) -> Bools:
        """``stays``, and those of ``kept`` that are of equal order (see :meth:`_ties`) with one of them."""
        reaches = np.zeros(int(ties.max(initial=-1)) + 1, bool)
        reaches[ties[stays]] = True
        return stays | (kept & reaches[ties])

    def _promising(self, kept: pl.DataFrame, arrived: pl.DataFrame) -> pl.DataFrame:
        """``arrived`` without the rows that come behind all kept ones of a full partition, by the first field of the
        order alone: most rows, when the partitions have been filled."""
        hopeless = self._hopeless(kept, arrived)
        return arrived if hopeless is None else rows_where(arrived, pl.Series(~hopeless))

    def _hopeless(self, kept: pl.DataFrame, arrived: pl.DataFrame) -> Bools | None:
        """Which rows :meth:`_promising` leaves out; None for none."""
        if not isinstance(self.range, ConstantRange) or not kept.height or not arrived.height or not self.order.fields:
            return None
        first = self.order.fields[0]
        name = column(first.index)
        ids, (there, codes) = ids_of((kept, arrived), self._keys)
        turn = (
            pl.DataFrame({"@g": there})
            .hstack([kept[name]])
            .select(
                pl.arg_sort_by(
                    ["@g", name], descending=[False, not first.is_ascending], nulls_last=[False, first.null_is_last]
                )
            )
            .to_series()
            .to_numpy()
        )
        last = positions(there[turn], ids.count)
        full = (np.bincount(there, minlength=ids.count) >= self.range.end)[codes]
        worst = kept[name].gather(turn[np.where(full, last[codes], 0)])
        mine = arrived[name]
        behind = (mine > worst if first.is_ascending else mine < worst).fill_null(False)
        unknown = mine.is_null() & worst.is_not_null() if first.null_is_last else mine.is_not_null() & worst.is_null()
        hopeless: Bools = full & (behind | unknown).to_numpy()
        return hopeless

    # -- the output --------------------------------------------------------------------------------------------------

    def _by_place(self, pool: Pool, before: Ints, after: Ints, ends: Ints) -> list[Change]:
        """What changes per number: ``before`` and ``after`` have the place of each row of the pool, 0 for none."""
        last = ends[pool.groups]
        was = np.flatnonzero((before >= self._first) & (before <= last))
        now = np.flatnonzero((after >= self._first) & (after <= last))
        room = np.zeros(pool.count + 1, np.int64)
        np.maximum.at(room, pool.groups[was] + 1, before[was])
        np.maximum.at(room, pool.groups[now] + 1, after[now])
        start = np.cumsum(room + 1)
        was_at, now_at = start[pool.groups[was]] + before[was], start[pool.groups[now]] + after[now]
        was, now = was[np.argsort(was_at)], now[np.argsort(now_at)]
        was_at.sort()
        now_at.sort()
        i, k = in_turn(was_at, now_at)
        moved = was[i] != now[k]
        gone = np.delete(was, i)
        come = np.delete(now, k)
        return [
            *self._update(pool, was[i[moved]], now[k[moved]], before, after),
            Change(gone, pool.groups[gone], before[gone], RowKind.DELETE),
            Change(come, pool.groups[come], after[come], RowKind.INSERT),
        ]

    def _update(self, pool: Pool, old: Ints, new: Ints, before: Ints, after: Ints) -> list[Change]:
        out = [Change(new, pool.groups[new], after[new], RowKind.UPDATE_AFTER)]
        if self.generate_update_before:
            out.append(Change(old, pool.groups[old], before[old], RowKind.UPDATE_BEFORE))
        return out

    def _by_row(self, pool: Pool, before: Ints, after: Ints, ends: Ints) -> list[Change]:
        """What changes where only the rows count: which leave the range, and which come into it."""
        last = ends[pool.groups]
        was, now = (before >= 1) & (before <= last), (after >= 1) & (after <= last)
        gone, come = np.flatnonzero(was & ~now), np.flatnonzero(now & ~was)
        return [
            Change(gone, pool.groups[gone], before[gone], RowKind.DELETE),
            Change(come, pool.groups[come], after[come], RowKind.INSERT),
        ]

    def _output(self, rows: pl.DataFrame, changes: Sequence[Change]) -> pl.DataFrame:
        """The frame of changes: partition by partition, retractions before insertions."""
        picked = np.concatenate([c.rows for c in changes]).astype(np.int64)
        groups = np.concatenate([c.groups for c in changes])
        numbers = np.concatenate([c.numbers for c in changes])
        kinds = np.concatenate([np.full(len(c.rows), c.kind, np.int8) for c in changes])
        retracts = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
        turn = np.lexsort((numbers, ~retracts, groups))
        out = rows_at(rows, picked[turn])
        if self.output_number:
            out = out.hstack([pl.Series(column(len(self.input_type.fields)), numbers[turn], dtype=pl.Int64)])
        return with_kind(out, kinds[turn])

    # -- the input ---------------------------------------------------------------------------------------------------

    def _arrived(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of an input that retracts nothing.

        Raises:
            RunError: RUN065, when it does.
        """
        if is_retraction(frame) is not None:
            raise RunError("RUN065")
        return without(frame, KIND) if KIND in frame.columns else frame

    def _written(self, rows: pl.DataFrame, sequence: Ints, now: int) -> pl.DataFrame | None:
        """Rows to keep, accessed now."""
        if not rows.height:
            return None
        return stamped(rows.hstack([pl.Series(SEQUENCE, sequence, dtype=pl.Int64)]), now)

    @staticmethod
    def _identities(kept: pl.DataFrame, table: StateTable, rows: Ints) -> pl.DataFrame | None:
        return rows_at(kept[list(table.identity)], rows) if len(rows) else None


@dataclass(frozen=True)
class LocalTopN(Transform):
    """A top-N in front of the exchange. It leaves out the rows of a frame that have ``end`` rows of their partition
    before them in the same frame: they are never among the first, and change neither the rows nor their times of
    access. Flink ranks in front of an exchange in batch mode only, so plans do not show it.

    Attributes:
        kernel: says what the partitions and the order are.
        end: how many rows of a partition stay.
        share: frames are left alone whose partitions may keep more than this share of the rows.
    """

    kernel: TopN
    end: int
    share: float = 0.5

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The rows that may be among the first, in their order."""
        if KIND in frame.columns or not frame.height:
            return frame
        partitions = self.kernel.partitions(frame)
        if partitions.count * self.end > self.share * frame.height:
            return frame
        return frame[self.kernel.leading(frame, partitions.codes, self.end)]
