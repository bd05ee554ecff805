"""The first rows of each partition.

Source of the semantics: Flink's ``StreamExecRank``, ``AppendOnlyFirstNFunction``, ``AppendOnlyTopNFunction``,
``FastTop1Function``, ``UpdatableTopNFunction``, ``RetractableTopNFunction`` and ``TopNBuffer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import rows_at, rows_where, stack
from stateplan.common.types import LogicalType
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    ConstantRange,
    RetractStrategy,
    SortSpec,
    UpdateFastStrategy,
    VariableRange,
)
from stateplan.runtime.kernel import Access, Frames, Kernel, StateTable, Step, own_columns
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    frame_of,
    ids_of,
    key_ids,
    narrow,
    positions,
    ranks,
    replay,
    signs,
    stable_order,
    with_stamps,
)
from stateplan.runtime.kernels.common.topn import SEQUENCE, Change, TopN, in_turn, sequence_after

_STATE = "rankState"
_COUNT = "rows"


def rank_kernel(
    input_type: LogicalType,
    partition: tuple[int, ...],
    order: SortSpec,
    rank_range: ConstantRange | VariableRange,
    strategy: AppendFastStrategy | UpdateFastStrategy | RetractStrategy,
    output_number: bool,
    generate_update_before: bool,
) -> Kernel:
    """The kernel of a node that ranks rows."""
    common = (input_type, partition, order, rank_range, output_number, generate_update_before)
    if isinstance(strategy, RetractStrategy):
        return RetractTopNKernel(*common)
    if isinstance(strategy, AppendFastStrategy) and _in_order_of_arrival(input_type, order):
        return FirstNKernel(*common)
    if isinstance(rank_range, ConstantRange) and rank_range.end == 1:
        return Top1Kernel(*common)
    if isinstance(strategy, UpdateFastStrategy):
        return UpdateTopNKernel(*common, strategy.primary_keys)
    return AppendTopNKernel(*common)


def _in_order_of_arrival(input_type: LogicalType, order: SortSpec) -> bool:
    if not order.fields:
        return True
    first = order.fields[0]
    return len(order.fields) == 1 and first.is_ascending and input_type.fields[first.index].type.kind == "PROCTIME"


@dataclass(frozen=True)
class FirstNKernel(TopN):
    """The first rows of each partition to arrive: ordered by processing time, or not at all (LIMIT).

    The state is how many rows a partition has had; rows that come later change nothing, neither do they refresh it.
    """

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        schema = {**{k: self._columns[k] for k in self._keys}, **own_columns({_COUNT: pl.Int64()})}
        return (StateTable(_STATE, 0, self._keys, self._keys, schema), *self._end_tables)

    def within_range(self, rows: pl.DataFrame) -> pl.DataFrame:
        assert isinstance(self.range, ConstantRange)
        return rows.with_columns(pl.col(_COUNT).clip(upper_bound=self.range.end))

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch. Raises RunError RUN065, for a retraction."""
        frame, state_rows = self._input_rows(inputs[0]), state[0]
        keys = pl.concat([narrow(state_rows, self._keys), narrow(frame, self._keys)])
        groups = key_ids(keys, self._keys).codes
        count = int(groups.max()) + 1 if len(groups) else 0
        had = np.zeros(count, np.int64)
        had[groups[: state_rows.height]] = state_rows[_COUNT].to_numpy()
        mine = groups[state_rows.height :]
        numbers = had[mine] + ranks(mine) + 1
        ends, size_upserts = self._ends(mine, count, frame, state[1:], now)
        accepted_rows = np.flatnonzero(numbers <= ends[mine])
        last = positions(mine[accepted_rows], count)
        last = accepted_rows[last[last >= 0]]
        upserts = None
        if len(last):
            group_keys = frame_of([frame[k][last] for k in self._keys], len(last))
            upserts = with_stamps(group_keys.hstack([pl.Series(_COUNT, numbers[last], dtype=pl.Int64)]), now)
        output_rows = accepted_rows[numbers[accepted_rows] >= self._first]
        output = self._output(frame, [Change(output_rows, mine[output_rows], numbers[output_rows], RowKind.INSERT)])
        return Step(output, [upserts, *size_upserts], [None] * len(self.tables))


@dataclass(frozen=True)
class Top1Kernel(TopN):
    """The first row of each partition. A row of equal order does not replace it. +I, then -U and +U."""

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        return (StateTable(_STATE, 0, self._keys, self._keys, self._columns, access=Access(tuple(self._fields))),)

    def within_range(self, rows: pl.DataFrame) -> pl.DataFrame:
        return super().within_range(rows).drop(SEQUENCE)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch. Raises RunError RUN065, for a retraction."""
        state_rows = state[0]
        frame = self._promising(state_rows, self._input_rows(inputs[0]))
        rows = stack([state_rows[list(self._fields)], frame])
        pool = self._pool(rows, state_rows.height, np.arange(rows.height))
        before = np.zeros(rows.height, np.int64)
        before[: state_rows.height] = 1
        after = np.where(pool.places == 1, 1, 0)
        new = np.flatnonzero(after)
        new = new[new >= state_rows.height]
        upserts = with_stamps(rows[new], now) if len(new) else None
        changes = self._by_place(pool, before, after, np.ones(pool.count, np.int64))
        return Step(self._output(rows, changes), [upserts], [None])


@dataclass(frozen=True)
class AppendTopNKernel(TopN):
    """The first N rows of each partition over an insert-only input.

    The state holds the rows that are in the range. Rows of equal order are one entry with one time of access, as in
    Flink: a row that comes refreshes those of equal order, and so does one that leaves, where numbers do not matter.
    """

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        schema = {**self._columns, **own_columns({SEQUENCE: pl.Int64()})}
        identity = (*self._keys, SEQUENCE)
        return (StateTable(_STATE, 0, self._keys, identity, schema, access=self._of_equals), *self._end_tables)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch. Raises RunError RUN065, for a retraction."""
        state_rows = state[0]
        frame = self._promising(state_rows, self._input_rows(inputs[0]))
        rows = stack([state_rows[list(self._fields)], frame])
        sequence = np.concatenate(
            [state_rows[SEQUENCE].to_numpy(), np.arange(frame.height) + sequence_after(state_rows)]
        )
        pool = self._pool(rows, state_rows.height, sequence)
        old = np.arange(rows.height) < state_rows.height
        before = pool.places_among(old)
        ends, size_upserts = self._ends(pool.groups[state_rows.height :], pool.count, frame, state[1:], now)
        ties = self._ties(rows)
        stays = self._stays(pool.places, ends[pool.groups], ties, old)
        after = np.where(stays, pool.places, 0)
        changes = (self._by_place if self._by_number else self._by_row)(pool, before, after, ends)
        leaves = old & ~stays
        touched_ties = np.zeros(int(ties.max(initial=-1)) + 1, bool)
        touched_ties[ties[stays & ~old]] = True
        if not self._by_number:
            touched_ties[ties[leaves]] = True
        renewed_ties = stays & old & touched_ties[ties]
        rows_to_write = np.flatnonzero((stays & ~old) | renewed_ties)
        upserts = self._row_upserts(rows_at(rows, rows_to_write), sequence[rows_to_write], now)
        deletes = self._identities(state_rows, self.tables[0], np.flatnonzero(leaves))
        return Step(self._output(rows, changes), [upserts, *size_upserts], [deletes, *[None] * len(size_upserts)])

    def _stays(self, places: Ints, ends: Ints, ties: Ints, old: Bools) -> Bools:
        """Which rows are kept: those in the range, and where numbers matter also kept ones that are of equal order with
        the last of them."""
        stays = places <= ends
        return self._with_equals(stays, old, ties) if self._by_number else stays


@dataclass(frozen=True)
class UpdateTopNKernel(TopN):
    """The first N rows of each partition, by the primary key of the input, whose updates only move rows up.

    The state holds the rows that are in the range, by primary key. An update with the same order keeps the place of its
    row, any other goes behind the rows of equal order. An update of a row that is not in the range is a new row; one
    that moves a row down (the state of an operator before this one expired) is taken as it comes.
    """

    primary_keys: tuple[int, ...] = ()

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        identity = tuple(dict.fromkeys((*self._keys, *columns(self.primary_keys))))
        schema = {**self._columns, **own_columns({SEQUENCE: pl.Int64()})}
        return (
            StateTable(_STATE, 0, self._keys, identity, schema, access=Access(tuple(self._fields))),
            *self._end_tables,
        )

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch. Raises RunError RUN065, for a retraction."""
        state_rows = state[0]
        frame = self._new_or_known(state_rows, self._input_rows(inputs[0]))
        rows = stack([state_rows[list(self._fields)], frame])
        identity = self.tables[0].identity
        owners = key_ids(rows, identity).codes
        sequence = np.concatenate(
            [state_rows[SEQUENCE].to_numpy(), np.arange(frame.height) + sequence_after(state_rows)]
        )
        sequence, last = self._order_since(rows, owners, sequence)
        pool = self._pool(rows, state_rows.height, sequence)
        old = np.arange(rows.height) < state_rows.height
        before = pool.places_among(old)
        current = np.zeros(rows.height, bool)
        current[last] = True
        places = pool.places_among(current)
        ends, size_upserts = self._ends(pool.groups[state_rows.height :], pool.count, frame, state[1:], now)
        stays = current & (places <= ends[pool.groups])
        if self._by_number:
            stays = self._with_equals(stays, current & old, self._ties(rows))
        after = np.where(stays, places, 0)
        if self._by_number:
            changes = self._by_place(pool, before, after, ends)
        else:
            changes = self._by_owner(self._by_row(pool, before, after, ends), owners)
        rows_to_write = np.flatnonzero(stays & ~old)
        upserts = self._row_upserts(rows_at(rows, rows_to_write), sequence[rows_to_write], now)
        present = np.zeros(int(owners.max(initial=-1)) + 1, bool)
        present[owners[stays]] = True
        deletes = self._identities(state_rows, self.tables[0], np.flatnonzero(~present[owners[: state_rows.height]]))
        return Step(self._output(rows, changes), [upserts, *size_upserts], [deletes, *[None] * len(size_upserts)])

    def _new_or_known(self, state_rows: pl.DataFrame, new_rows: pl.DataFrame) -> pl.DataFrame:
        """As :meth:`_promising`, with all changes of rows that are kept or have a promising one."""
        hopeless = self._hopeless(state_rows, new_rows)
        if hopeless is None:
            return new_rows
        ids, (theirs, codes) = ids_of((state_rows, new_rows), self.tables[0].identity)
        needed_identities = np.zeros(ids.count, bool)
        needed_identities[theirs] = True
        needed_identities[codes[~hopeless]] = True
        return rows_where(new_rows, pl.Series(needed_identities[codes]))

    def _order_since(self, rows: pl.DataFrame, owners: Ints, sequence: Ints) -> tuple[Ints, Ints]:
        """Per row since when its primary key has had its order without interruption, and the last row of each key."""
        ties = key_ids(rows, tuple(dict.fromkeys((*self.tables[0].identity, *self._sort_columns)))).codes
        turn = stable_order(owners)
        mine = owners[turn]
        starts = np.ones(len(turn), bool)
        starts[1:] = (mine[1:] != mine[:-1]) | (ties[turn][1:] != ties[turn][:-1])
        since = np.maximum.accumulate(np.where(starts, np.arange(len(turn)), 0))
        out = np.empty(len(turn), np.int64)
        out[turn] = sequence[turn][since]
        last = positions(owners, int(owners.max(initial=-1)) + 1)
        return out, last[last >= 0]

    def _by_owner(self, changes: Sequence[Change], owners: Ints) -> list[Change]:
        """-U and +U for a row that leaves and one that comes with the same primary key."""
        removals, additions = (c.part(np.argsort(owners[c.rows])) for c in changes)
        i, k = in_turn(owners[removals.rows], owners[additions.rows])
        updates = [additions.part(k)._replace(kind=RowKind.UPDATE_AFTER)]
        if self.generate_update_before:
            updates.append(removals.part(i)._replace(kind=RowKind.UPDATE_BEFORE))
        rest = (c.part(np.delete(np.arange(len(c.rows)), at)) for c, at in ((removals, i), (additions, k)))
        return [*updates, *rest]


@dataclass(frozen=True)
class RetractTopNKernel(TopN):
    """The first N rows of each partition.

    The state holds all rows of a partition, as any of them may move up. A retraction removes the first of the equal
    rows; when there is none, it changes nothing. Rows of equal order have one time of access, as in Flink: each change
    of one refreshes all of them.
    """

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        schema = {**self._columns, **own_columns({SEQUENCE: pl.Int64()})}
        identity = (*self._keys, SEQUENCE)
        return (StateTable(_STATE, 0, self._keys, identity, schema, access=self._of_equals), *self._end_tables)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        frame, state_rows = inputs[0], state[0].sort(SEQUENCE)
        change = signs(frame)
        new_rows = frame.drop(KIND) if KIND in frame.columns else frame
        if change is None:
            change = np.ones(frame.height, np.int64)
        rows = pl.concat([state_rows[list(self._fields)], new_rows])
        old = np.arange(rows.height) < state_rows.height
        ids, (before_codes, codes) = ids_of((state_rows, new_rows), list(self._fields))
        start = np.bincount(before_codes, minlength=ids.count)
        _, left = replay(codes, change, start)
        missed_retractions = int((left - start).sum() - change.sum())
        # The first of equal rows goes first: of each the last ones are left.
        present = np.flatnonzero(np.concatenate([np.ones(state_rows.height, bool), change > 0]))
        equal = np.concatenate([before_codes, codes])[present]
        stays = np.zeros(rows.height, bool)
        stays[present[ranks(equal, backwards=True) < left[equal]]] = True
        sequence = np.concatenate(
            [state_rows[SEQUENCE].to_numpy(), np.arange(new_rows.height) + sequence_after(state_rows)]
        )
        pool = self._pool(rows, state_rows.height, sequence)
        ends, size_upserts = self._ends(pool.groups[state_rows.height :], pool.count, new_rows, state[1:], now)
        before, after = pool.places_among(old), pool.places_among(stays)
        changes = (self._by_place if self._by_number else self._by_row)(pool, before, after, ends)
        is_written = stays & ~old
        if ttl[0]:
            ties = self._ties(rows)
            touched_ties = np.zeros(int(ties.max()) + 1, bool)
            touched_ties[ties[state_rows.height :]] = True
            is_written |= stays & touched_ties[ties]
        rows_to_write = np.flatnonzero(is_written)
        upserts = self._row_upserts(rows[rows_to_write], sequence[rows_to_write], now)
        deletes = self._identities(state_rows, self.tables[0], np.flatnonzero(old & ~stays))
        return Step(
            self._output(rows, changes),
            [upserts, *size_upserts],
            [deletes, *[None] * len(size_upserts)],
            missed_retractions,
        )
