"""OVER in the order of a field that is not a time attribute: each row with aggregates of the rows that sort before it.

Source of the semantics: Flink's ``NonTimeRangeUnboundedPrecedingFunction`` and
``NonTimeRowsUnboundedPrecedingFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import without
from stateplan.runtime.kernel import ACCESS_TIME, Frames, StateTable, Step, lookup_frame, own_columns
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    equal,
    ids_of,
    key_ids,
    levels,
    narrow,
    signs,
    stable_order,
    with_kind,
    with_stamps,
)
from stateplan.runtime.kernels.common.over import ALWAYS, NEXT, NUMBER, STATE, OverKernel, wide, with_more
from stateplan.runtime.kernels.common.over_frames import Walk


@dataclass(frozen=True)
class NonTimeOverKernel(OverKernel):
    """OVER (ORDER BY a field that is not a time attribute), from the first row of the partition to the current one.

    A row that comes or goes changes the values of the rows behind it: they are updated. Rows of equal order stay in the
    order of their arrival; in a RANGE frame all of them have the same value. A retraction removes one of the equal
    rows, in ROWS the one that arrived first, in RANGE the one that arrived last; if there is none it does nothing.

    A partition that had no change for the TTL starts over. Its rows are kept as long as it: with a TTL, they are
    written anew at most every half of it.

    Attributes:
        order: the field that rows are ordered by, upwards.
        nulls_last: whether NULL comes last.
    """

    order: int = 0
    nulls_last: bool = False

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        parts = {**{k: self._columns[k] for k in self._keys}, **own_columns({NEXT: pl.Int64()})}
        rows = {**self._columns, **own_columns({NUMBER: pl.Int64()})}
        return (
            StateTable(STATE, 0, self._keys, self._keys, parts),
            StateTable(f"{STATE}.rows", 0, self._keys, (*self._keys, NUMBER), rows),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        keys = lookup_frame(inputs[0], self._keys)
        return [keys, keys]

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        frame, key_state = inputs[0], state[0]
        change = signs(frame)
        new_rows = without(frame, KIND) if KIND in frame.columns else frame
        stored_rows, stale = self._rows_in_reach(state[1], key_state)
        rows = pl.concat([stored_rows[list(self._fields)], new_rows], rechunk=True)
        first = int(max(key_state[NEXT].max() or 0, state[1][NUMBER].max() or -1)) + 1  # type: ignore[arg-type] # numbers
        numbers = np.concatenate([stored_rows[NUMBER].to_numpy(), first + np.arange(new_rows.height)])
        old = np.arange(rows.height) < stored_rows.height
        stays, is_applied = self._left(rows, stored_rows.height, change)
        ids, (theirs, mine) = ids_of((rows, key_state), self._keys)
        output = self._changes(rows, theirs, ids.count, numbers, old, stays)

        is_touched = np.zeros(ids.count, bool)
        is_touched[theirs[stored_rows.height :][is_applied]] = True
        left = np.bincount(theirs[stays], minlength=ids.count) > 0
        parts = np.flatnonzero(is_touched & left)
        keys = narrow(rows, self._keys)[ids.first[parts]]
        heads = wide(keys, pl.DataFrame(height=len(parts)), {NEXT: np.full(len(parts), first + new_rows.height)})
        access = np.concatenate([stored_rows[ACCESS_TIME].to_numpy(), np.full(new_rows.height, -1)])
        stamp = now + ttl[0] // 2 if ttl[0] else ALWAYS
        if ttl[0]:
            renews = is_touched[theirs] & ((access < now) | (access > now + ttl[0]))
            write = np.flatnonzero(stays & (~old | renews))
        else:
            write = np.flatnonzero(stays & ~old)
        row_upserts = rows[write].hstack([pl.Series(NUMBER, numbers[write], dtype=pl.Int64)])
        row_deletes = stored_rows[[*self._keys, NUMBER]][np.flatnonzero(~stays[: stored_rows.height])]
        empty = np.zeros(ids.count, bool)
        empty[mine] = True
        empty_keys = np.flatnonzero(empty & ~left)
        return Step(
            output,
            [with_stamps(heads, now) if len(parts) else None, with_stamps(row_upserts, stamp) if len(write) else None],
            [
                self._empty_partitions(rows, ids.first[empty_keys]),
                with_more(row_deletes if row_deletes.height else None, stale, row_upserts),
            ],
            missed=int((~is_applied).sum()),
        )

    def _empty_partitions(self, rows: pl.DataFrame, first: Ints) -> pl.DataFrame | None:
        """The partitions that have no row any more."""
        if not len(first):
            return None
        return narrow(rows, self._keys)[first] if self._keys else pl.DataFrame({ACCESS_TIME: [0]})

    # what is left of the rows

    def _left(self, rows: pl.DataFrame, stored_count: int, change: Ints | None) -> tuple[Bools, Bools]:
        """Per row whether it is there after the micro-batch, and per row that arrived whether it did something.

        Args:
            rows: the ``stored_count`` rows that were there, then the changes.
            change: per change +1 or -1; None if all rows are added.
        """
        stays = np.ones(rows.height, bool)
        if change is None:
            return stays, np.ones(rows.height - stored_count, bool)
        codes = key_ids(rows, list(self._fields)).codes
        steps = np.concatenate([np.ones(stored_count, np.int64), change])
        order = stable_order(codes)
        groups, is_addition = codes[order], steps[order] > 0
        level = levels(codes, steps, np.zeros(int(codes.max(initial=-1)) + 1, np.int64))[order]
        first = np.append(True, groups[1:] != groups[:-1])[: len(order)]
        before = np.where(first, 0, np.append(0, level[:-1])[: len(order)])
        is_applied = np.empty(len(order), bool)
        is_applied[order] = is_addition | (before > 0)
        stays[order] = is_addition & (_queue(is_addition, level, first) if self.frame.rows else _stack(level, first))
        return stays, is_applied[stored_count:]

    # what changes of the values

    def _changes(
        self, rows: pl.DataFrame, parts: Ints, count: int, numbers: Ints, old: Bools, stays: Bools
    ) -> pl.DataFrame:
        """The changes of the output: deletions, then updates, then insertions.

        Args:
            rows: those that were there, and those that arrived.
            parts: per row its partition, 0 .. ``count`` - 1.
            old, stays: which rows were there before, and are there after the micro-batch.
        """
        has_change = np.zeros(count, bool)
        has_change[parts[old != stays]] = True
        rows_of_changes = np.flatnonzero(has_change[parts] & (old | stays))
        if not len(rows_of_changes):
            return with_kind(self._empty(), np.zeros(0, np.int8))
        order, ties = self._by_order(rows, parts, numbers, rows_of_changes)
        silent = self._unchanged_before(parts[order], ties, (old != stays)[order])
        # Each partition twice: as it was, and as it is; without those of which no row has a new value.
        twice = np.concatenate([np.flatnonzero(old[order]), np.flatnonzero(stays[order])])
        is_new = np.repeat([False, True], [int(old[order].sum()), int(stays[order].sum())])
        owners = parts[order][twice] + count * is_new
        needs_value = np.zeros(2 * count, bool)
        needs_value[owners[~silent[twice]]] = True
        some = needs_value[owners]
        twice, is_new = twice[some], is_new[some]
        owners = (np.cumsum(needs_value) - 1)[owners[some]]
        walk = Walk(
            rows[order[twice]],
            owners,
            np.zeros(len(owners), bool),
            int(needs_value.sum()),
            ties[twice],
            self.frame,
            not self.frame.rows,
            silent[twice],
        )
        distinct = {a: _first_values(walk, column(a)) for a in self._distinct}
        values = self._values(walk, self._initial_of(walk.parts), distinct)[0]
        return self._changed_rows(values, order[twice][walk.output_rows], is_new[walk.output_rows], old, stays)

    def _by_order(self, rows: pl.DataFrame, parts: Ints, numbers: Ints, row_numbers: Ints) -> tuple[Ints, Ints]:
        """The chosen rows by partition, order and arrival; and ascending numbers, equal for rows of equal order."""
        by = rows[column(self.order)][row_numbers].alias("v")
        frame = pl.DataFrame([pl.Series("p", parts[row_numbers]), by, pl.Series("n", numbers[row_numbers])])
        nulls = [False, self.nulls_last, False]
        turn = frame.select(pl.arg_sort_by(["p", "v", "n"], nulls_last=nulls)).to_series().to_numpy()
        turn = turn.astype(np.int64)
        sorted_parts, values = parts[row_numbers][turn], by[turn]
        new = np.ones(len(turn), bool)
        new[1:] = (sorted_parts[1:] != sorted_parts[:-1]) | ~equal(values[1:], values[:-1])
        return row_numbers[turn], np.cumsum(new)

    def _unchanged_before(self, parts: Ints, ties: Ints, differs: Bools) -> Bools:
        """Which of the sorted rows come before the first one of their partition that comes, goes, or has a new value
        as another one of equal order does."""
        places = np.flatnonzero(differs)[::-1]
        first = np.full(int(parts.max()) + 1, len(parts), np.int64)
        first[parts[places]] = places
        if self.frame.rows:
            before: Bools = np.arange(len(parts)) < first[parts]
            return before
        return ties < ties[first[parts]]

    def _initial_of(self, count: int) -> pl.DataFrame:
        """The columns of the calls of new partitions."""
        if not self._call_columns:
            return pl.DataFrame(height=count)
        return self._initial[np.zeros(count, np.int64)]

    def _changed_rows(self, values: pl.DataFrame, rows: Ints, is_new: Bools, old: Bools, stays: Bools) -> pl.DataFrame:
        """The changes from the output rows before to those after.

        Args:
            values: the output rows.
            rows: per output row the row of the input that it is of.
            is_new: whether it is one of those after.
        """
        both = old[rows] & stays[rows]
        before, after = np.flatnonzero(both & ~is_new), np.flatnonzero(both & is_new)
        before, after = before[np.argsort(rows[before])], after[np.argsort(rows[after])]
        width = len(self.input_type.fields)
        same = np.ones(len(before), bool)
        for i in range(len(self.agg_calls)):
            value = values[column(width + i)]
            same &= equal(value[before], value[after])
        updates = np.stack([before[~same], after[~same]], 1).ravel()
        deletes, inserts = np.flatnonzero(~both & ~is_new), np.flatnonzero(~both & is_new)
        kinds = np.concatenate(
            [
                np.full(len(deletes), RowKind.DELETE, np.int8),
                np.tile(np.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], np.int8), len(updates) // 2),
                np.full(len(inserts), RowKind.INSERT, np.int8),
            ]
        )
        return with_kind(values[np.concatenate([deletes, updates, inserts])], kinds)


def _first_values(walk: Walk, name: str) -> Bools:
    """The rows whose value is the first such one of their partition."""
    pairs = pl.DataFrame([pl.Series("p", walk.owners), walk.frame[name].alias("v")])
    first = np.zeros(len(walk.owners), bool)
    first[key_ids(pairs, ["p", "v"]).first] = True
    return first


def _queue(is_addition: Bools, level: Ints, first: Bools) -> Bools:
    """Which of equal rows stay when the first one leaves first: the last ones, as many as there are in the end.

    Args:
        is_addition: per change, equal rows together, whether it adds one.
        level: how many there are after it.
        first: whether it is the first change of its rows.
    """
    begins = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    final = level[np.append(begins[1:], len(level)) - 1]
    total = np.add.reduceat(is_addition.astype(np.int64), begins)
    number = np.cumsum(is_addition)
    number = number - (number - is_addition)[begins][group]
    late: Bools = number > (total - final)[group]
    return late


def _stack(level: Ints, first: Bools) -> Bools:
    """Which of equal rows stay when the last one leaves first: those after which there are never fewer. Takes what
    :func:`_queue` does."""
    own_levels = level + np.cumsum(first) * (int(level.max(initial=0)) + 1)
    lowest: Ints = np.minimum.accumulate(own_levels[::-1])[::-1]
    stays: Bools = lowest >= own_levels
    return stays
