"""OVER in the order of a field that is no time attribute: each row with aggregates of the rows that sort before it.

Source of the semantics: Flink's ``NonTimeRangeUnboundedPrecedingFunction`` and
``NonTimeRowsUnboundedPrecedingFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, column
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
    stamped,
    with_kind,
)
from stateplan.runtime.kernels.common.over import ALWAYS, NEXT, NUMBER, STATE, OverKernel, joined, wide
from stateplan.runtime.kernels.common.over_frames import Walk


@dataclass(frozen=True)
class NonTimeOverKernel(OverKernel):
    """OVER (ORDER BY a field that is no time attribute), from the first row of the partition to the current one.

    A row that comes or goes changes the values of the rows behind it: they are updated. Rows of equal order stay in
    the order of their arrival; in a RANGE frame all of them have the same value. A retraction takes away one of the
    equal rows, in ROWS the one that came first, in RANGE the one that came last; where there is none it does nothing.

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
        frame, known = inputs[0], state[0]
        change = signs(frame)
        arrived = without(frame, KIND) if KIND in frame.columns else frame
        held, stale = self._reached(state[1], known)
        rows = pl.concat([held[list(self._fields)], arrived], rechunk=True)
        first = int(max(known[NEXT].max() or 0, state[1][NUMBER].max() or -1)) + 1  # type: ignore[arg-type]
        numbers = np.concatenate([held[NUMBER].to_numpy(), first + np.arange(arrived.height)])
        old = np.arange(rows.height) < held.height
        stays, done = self._left(rows, held.height, change)
        ids, (there, mine) = ids_of((rows, known), self._keys)
        output = self._changes(rows, there, ids.count, numbers, old, stays)

        touched = np.zeros(ids.count, bool)
        touched[there[held.height :][done]] = True
        left = np.bincount(there[stays], minlength=ids.count) > 0
        parts = np.flatnonzero(touched & left)
        keys = narrow(rows, self._keys)[ids.first[parts]]
        whole = wide(keys, pl.DataFrame(height=len(parts)), {NEXT: np.full(len(parts), first + arrived.height)})
        access = np.concatenate([held[ACCESS_TIME].to_numpy(), np.full(arrived.height, -1)])
        stamp = now + ttl[0] // 2 if ttl[0] else ALWAYS
        if ttl[0]:
            again = touched[there] & ((access < now) | (access > now + ttl[0]))
            write = np.flatnonzero(stays & (~old | again))
        else:
            write = np.flatnonzero(stays & ~old)
        written = rows[write].hstack([pl.Series(NUMBER, numbers[write], dtype=pl.Int64)])
        gone = held[[*self._keys, NUMBER]][np.flatnonzero(~stays[: held.height])]
        empty = np.zeros(ids.count, bool)
        empty[mine] = True
        emptied = np.flatnonzero(empty & ~left)
        return Step(
            output,
            [stamped(whole, now) if len(parts) else None, stamped(written, stamp) if len(write) else None],
            [self._emptied(rows, ids.first[emptied]), joined(gone if gone.height else None, stale, written)],
            missed=int((~done).sum()),
        )

    def _emptied(self, rows: pl.DataFrame, first: Ints) -> pl.DataFrame | None:
        """The partitions that have no row any more."""
        if not len(first):
            return None
        return narrow(rows, self._keys)[first] if self._keys else pl.DataFrame({ACCESS_TIME: [0]})

    # what is left of the rows

    def _left(self, rows: pl.DataFrame, held: int, change: Ints | None) -> tuple[Bools, Bools]:
        """Per row whether it is there after the micro-batch, and per row that arrived whether it did something.

        Args:
            rows: the ``held`` rows that were there, then the changes.
            change: per change +1 or -1; None where all rows are added.
        """
        stays = np.ones(rows.height, bool)
        if change is None:
            return stays, np.ones(rows.height - held, bool)
        codes = key_ids(rows, list(self._fields)).codes
        steps = np.concatenate([np.ones(held, np.int64), change])
        order = stable_order(codes)
        groups, added = codes[order], steps[order] > 0
        level = levels(codes, steps, np.zeros(int(codes.max(initial=-1)) + 1, np.int64))[order]
        first = np.append(True, groups[1:] != groups[:-1])[: len(order)]
        before = np.where(first, 0, np.append(0, level[:-1])[: len(order)])
        done = np.empty(len(order), bool)
        done[order] = added | (before > 0)
        stays[order] = added & (_queue(added, level, first) if self.frame.rows else _stack(level, first))
        return stays, done[held:]

    # what changes of the values

    def _changes(
        self, rows: pl.DataFrame, parts: Ints, count: int, numbers: Ints, old: Bools, stays: Bools
    ) -> pl.DataFrame:
        """The changes of the output: deletions, then updates, then insertions.

        Args:
            rows: those that were there, and those that came.
            parts: per row its partition, 0 .. ``count`` - 1.
            old, stays: which rows were there before, and are there after the micro-batch.
        """
        moved = np.zeros(count, bool)
        moved[parts[old != stays]] = True
        chosen = np.flatnonzero(moved[parts] & (old | stays))
        if not len(chosen):
            return with_kind(self._empty(), np.zeros(0, np.int8))
        order, ties = self._ordered(rows, parts, numbers, chosen)
        silent = self._unchanged_before(parts[order], ties, (old != stays)[order])
        # Each partition twice: as it was, and as it is; without those of which no row has a new value.
        twice = np.concatenate([np.flatnonzero(old[order]), np.flatnonzero(stays[order])])
        is_new = np.repeat([False, True], [int(old[order].sum()), int(stays[order].sum())])
        owners = parts[order][twice] + count * is_new
        asked = np.zeros(2 * count, bool)
        asked[owners[~silent[twice]]] = True
        some = asked[owners]
        twice, is_new = twice[some], is_new[some]
        owners = (np.cumsum(asked) - 1)[owners[some]]
        walk = Walk(
            rows[order[twice]],
            owners,
            np.zeros(len(owners), bool),
            int(asked.sum()),
            ties[twice],
            self.frame,
            not self.frame.rows,
            silent[twice],
        )
        distinct = {a: _first_values(walk, column(a)) for a in self._distinct}
        values = self._values(walk, self._initial_of(walk.parts), distinct)[0]
        return self._compared(values, order[twice][walk.asked], is_new[walk.asked], old, stays)

    def _ordered(self, rows: pl.DataFrame, parts: Ints, numbers: Ints, chosen: Ints) -> tuple[Ints, Ints]:
        """The chosen rows by partition, order and arrival; and ascending numbers, equal for rows of equal order."""
        by = rows[column(self.order)][chosen].alias("v")
        frame = pl.DataFrame([pl.Series("p", parts[chosen]), by, pl.Series("n", numbers[chosen])])
        nulls = [False, self.nulls_last, False]
        turn = frame.select(pl.arg_sort_by(["p", "v", "n"], nulls_last=nulls)).to_series().to_numpy()
        turn = turn.astype(np.int64)
        sorted_parts, values = parts[chosen][turn], by[turn]
        new = np.ones(len(turn), bool)
        new[1:] = (sorted_parts[1:] != sorted_parts[:-1]) | ~equal(values[1:], values[:-1])
        return chosen[turn], np.cumsum(new)

    def _unchanged_before(self, parts: Ints, ties: Ints, changed: Bools) -> Bools:
        """Which of the sorted rows come before the first one of their partition that comes, goes, or has a new value
        as another one of equal order does."""
        places = np.flatnonzero(changed)[::-1]
        first = np.full(int(parts.max()) + 1, len(parts), np.int64)
        first[parts[places]] = places
        if self.frame.rows:
            before: Bools = np.arange(len(parts)) < first[parts]
            return before
        return ties < ties[first[parts]]

    def _initial_of(self, count: int) -> pl.DataFrame:
        """The columns of the calls of new partitions."""
        if not self._kept:
            return pl.DataFrame(height=count)
        return self._initial[np.zeros(count, np.int64)]

    def _compared(self, values: pl.DataFrame, rows: Ints, is_new: Bools, old: Bools, stays: Bools) -> pl.DataFrame:
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
        gone, come = np.flatnonzero(~both & ~is_new), np.flatnonzero(~both & is_new)
        kinds = np.concatenate(
            [
                np.full(len(gone), RowKind.DELETE, np.int8),
                np.tile(np.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], np.int8), len(updates) // 2),
                np.full(len(come), RowKind.INSERT, np.int8),
            ]
        )
        return with_kind(values[np.concatenate([gone, updates, come])], kinds)


def _first_values(walk: Walk, name: str) -> Bools:
    """The rows whose value is the first such one of their partition."""
    keyed = pl.DataFrame([pl.Series("p", walk.owners), walk.frame[name].alias("v")])
    first = np.zeros(len(walk.owners), bool)
    first[key_ids(keyed, ["p", "v"]).first] = True
    return first


def _queue(added: Bools, level: Ints, first: Bools) -> Bools:
    """Which of equal rows stay when the first one leaves first: the last ones, as many as there are in the end.

    Args:
        added: per change, equal rows together, whether it adds one.
        level: how many there are after it.
        first: whether it is the first change of its rows.
    """
    begins = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    final = level[np.append(begins[1:], len(level)) - 1]
    total = np.add.reduceat(added.astype(np.int64), begins)
    number = np.cumsum(added)
    number = number - (number - added)[begins][group]
    late: Bools = number > (total - final)[group]
    return late


def _stack(level: Ints, first: Bools) -> Bools:
    """Which of equal rows stay when the last one leaves first: those after which there are never fewer. Takes what
    :func:`_queue` does."""
    shifted = level + np.cumsum(first) * (int(level.max(initial=0)) + 1)
    lowest: Ints = np.minimum.accumulate(shifted[::-1])[::-1]
    stays: Bools = lowest >= shifted
    return stays
