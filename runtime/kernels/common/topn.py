"""What the kernels that rank rows share: places in the order, the end of the range, and what changes in the output.

A batch ranks the rows that a partition keeps together with those that arrive, once, and emits the difference between
the rows that were ranked before and those that are ranked now. Rows of equal order stay in order of arrival, which a
number per row (column ``@s``) remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, column, columns
from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
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
    with_kind,
    with_stamps,
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

    def part(self, at: Ints) -> Change:
        """The part of it at the given positions."""
        return Change(self.rows[at], self.groups[at], self.numbers[at], self.kind)


def in_turn(old: Ints, new: Ints) -> tuple[Ints, Ints]:
    """Where the values of two sorted arrays without repeats meet: positions in ``old`` and in ``new``."""
    place = np.searchsorted(new, old)
    place[place == len(new)] = 0
    common_places = np.flatnonzero(new[place] == old) if len(new) else np.zeros(0, np.int64)
    return common_places, place[common_places]


def sequence_after(state_rows: pl.DataFrame) -> int:
    """The number of the next row to arrive."""
    return int(state_rows[SEQUENCE].to_numpy().max(initial=-1)) + 1


@dataclass(frozen=True)
class Pool:
    """The rows of the touched partitions in their order: kept ones first, then those that arrive.

    Attributes:
        rows: the fields.
        row_count: how many of the rows were kept.
        groups: the partition of each row, counted from 0.
        count: number of partitions.
        order: the rows sorted by partition and order; equal ones by ``sequence``.
        places: per row, 1 for the first of its partition in that order.
    """

    rows: pl.DataFrame
    row_count: int
    groups: Ints
    count: int
    order: Ints
    places: Ints

    def places_among(self, is_member: Bools) -> Ints:
        """Places counted among the ``is_member`` rows only; 0 for the others."""
        mine = self.order[is_member[self.order]]
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
        self, groups: Ints, count: int, new_rows: pl.DataFrame, state: Frames, now: int
    ) -> tuple[Ints, list[pl.DataFrame | None]]:
        """Per partition the last number of its range, and what to write to the end table, if there is one.

        Args:
            groups: partition of each row that arrived; each of the ``count`` partitions has one.
            state: the frame of the end table, if there is one.
        """
        if isinstance(self.range, ConstantRange):
            return np.full(count, self.range.end, np.int64), []
        size_state = state[0]
        values = new_rows[column(self.range.end_index)].cast(pl.Int64).fill_null(0).to_numpy()
        first = np.zeros(count, np.int64)
        first[groups[::-1]] = np.arange(new_rows.height)[::-1]
        ends = values[first]
        ids, (theirs, mine) = ids_of((size_state, new_rows), self._keys)
        owners = groups[positions(mine, ids.count)[theirs]]
        ends[owners] = size_state[END].to_numpy()
        fresh = np.delete(first, owners)
        if not len(fresh):
            return ends, [None]
        rows = narrow(new_rows, self._keys)[fresh].hstack([pl.Series(END, values[fresh], dtype=pl.Int64)])
        return ends, [with_stamps(rows, now)]

    # -- the order ---------------------------------------------------------------------------------------------------

    def _pool(self, rows: pl.DataFrame, old_count: int, sequence: Ints) -> Pool:
        """The rows, of which the first ``old_count`` were kept, in their order."""
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
        return Pool(rows, old_count, groups, count, order, places)

    def within_range(self, rows: pl.DataFrame) -> pl.DataFrame:
        """State rows of whole partitions by a longer range, as this one keeps them."""
        assert isinstance(self.range, ConstantRange)
        return rows.filter(self._pool(rows, 0, rows[SEQUENCE].to_numpy()).places <= self.range.end)

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
        than an order of all rows. None if there is no such field, or no quick selection by its type."""
        if not self.order.fields:
            return None
        first = self.order.fields[0]
        values = rows[column(first.index)]
        integers_of_order = integers(values)
        if integers_of_order is None:
            return None
        numbers, low, _ = integers_of_order
        if values.null_count() and first.is_ascending != first.null_is_last:
            numbers = np.where(values.is_null().to_numpy(), low - 1, numbers)
        best = pl.col("v").bottom_k(end).max() if first.is_ascending else pl.col("v").top_k(end).min()
        bounds = pl.DataFrame({"g": groups, "v": numbers}).group_by("g").agg(best)
        limits = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
        limits[bounds["g"].to_numpy()] = bounds["v"].to_numpy()
        return np.flatnonzero(numbers <= limits[groups] if first.is_ascending else numbers >= limits[groups])

    def _ties(self, rows: pl.DataFrame) -> Ints:
        """The rows numbered by partition and values of the order: equal for rows of equal order."""
        return key_ids(rows, tuple(dict.fromkeys((*self._keys, *self._sort_columns)))).codes

    @staticmethod
    def _with_equals(stays: Bools, is_candidate: Bools, ties: Ints) -> Bools:
        """``stays``, and those of ``is_candidate`` that are of equal order (see :meth:`_ties`) with one of them."""
        reaches = np.zeros(int(ties.max(initial=-1)) + 1, bool)
        reaches[ties[stays]] = True
        return stays | (is_candidate & reaches[ties])

    def _promising(self, state_rows: pl.DataFrame, new_rows: pl.DataFrame) -> pl.DataFrame:
        """``new_rows`` without the rows that come behind all kept ones of a full partition, by the first field of the
        order alone: most rows, when the partitions have been filled."""
        hopeless = self._hopeless(state_rows, new_rows)
        return new_rows if hopeless is None else rows_where(new_rows, pl.Series(~hopeless))

    def _hopeless(self, state_rows: pl.DataFrame, new_rows: pl.DataFrame) -> Bools | None:
        """Which rows :meth:`_promising` omits; None for none."""
        if (
            not isinstance(self.range, ConstantRange)
            or not state_rows.height
            or not new_rows.height
            or not self.order.fields
        ):
            return None
        first = self.order.fields[0]
        name = column(first.index)
        ids, (theirs, codes) = ids_of((state_rows, new_rows), self._keys)
        turn = (
            pl.DataFrame({"@g": theirs})
            .hstack([state_rows[name]])
            .select(
                pl.arg_sort_by(
                    ["@g", name], descending=[False, not first.is_ascending], nulls_last=[False, first.null_is_last]
                )
            )
            .to_series()
            .to_numpy()
        )
        last = positions(theirs[turn], ids.count)
        full = (np.bincount(theirs, minlength=ids.count) >= self.range.end)[codes]
        worst = state_rows[name].gather(turn[np.where(full, last[codes], 0)])
        mine = new_rows[name]
        behind = (mine > worst if first.is_ascending else mine < worst).fill_null(False)
        null_is_behind = (
            mine.is_null() & worst.is_not_null() if first.null_is_last else mine.is_not_null() & worst.is_null()
        )
        hopeless: Bools = full & (behind | null_is_behind).to_numpy()
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
        has_moved = was[i] != now[k]
        removals = np.delete(was, i)
        additions = np.delete(now, k)
        return [
            *self._update(pool, was[i[has_moved]], now[k[has_moved]], before, after),
            Change(removals, pool.groups[removals], before[removals], RowKind.DELETE),
            Change(additions, pool.groups[additions], after[additions], RowKind.INSERT),
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
        removals, additions = np.flatnonzero(was & ~now), np.flatnonzero(now & ~was)
        return [
            Change(removals, pool.groups[removals], before[removals], RowKind.DELETE),
            Change(additions, pool.groups[additions], after[additions], RowKind.INSERT),
        ]

    def _output(self, rows: pl.DataFrame, changes: Sequence[Change]) -> pl.DataFrame:
        """The frame of changes: partition by partition, retractions before insertions."""
        row_numbers = np.concatenate([c.rows for c in changes]).astype(np.int64)
        groups = np.concatenate([c.groups for c in changes])
        numbers = np.concatenate([c.numbers for c in changes])
        kinds = np.concatenate([np.full(len(c.rows), c.kind, np.int8) for c in changes])
        retracts = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
        turn = np.lexsort((numbers, ~retracts, groups))
        out = rows_at(rows, row_numbers[turn])
        if self.output_number:
            out = out.hstack([pl.Series(column(len(self.input_type.fields)), numbers[turn], dtype=pl.Int64)])
        return with_kind(out, kinds[turn])

    # -- the input ---------------------------------------------------------------------------------------------------

    def _input_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of an input that retracts nothing.

        Raises:
            RunError: RUN065, when it does.
        """
        if is_retraction(frame) is not None:
            raise RunError("RUN065")
        return without(frame, KIND) if KIND in frame.columns else frame

    def _row_upserts(self, rows: pl.DataFrame, sequence: Ints, now: int) -> pl.DataFrame | None:
        """Rows to keep, accessed now."""
        if not rows.height:
            return None
        return with_stamps(rows.hstack([pl.Series(SEQUENCE, sequence, dtype=pl.Int64)]), now)

    @staticmethod
    def _identities(state_rows: pl.DataFrame, table: StateTable, rows: Ints) -> pl.DataFrame | None:
        return rows_at(state_rows[list(table.identity)], rows) if len(rows) else None


@dataclass(frozen=True)
class LocalTopN(Transform):
    """A top-N in front of the exchange. It omits the rows of a frame that have ``end`` rows of their partition before
    them in the same frame: they are never among the first, and change neither the rows nor their times of access. Flink
    ranks in front of an exchange in batch mode only, so plans do not show it.

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
