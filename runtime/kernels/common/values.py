"""The values of an argument per group: what DISTINCT calls, and MIN and MAX of a retracting input, have seen.

A table of values has a row per group and value, looked up by both, so that its cost follows the rows of the batch and
not the size of the group. Calls on the same argument share it, as Flink's distinct views are shared; with retractions
it counts the rows per value (and filter), without it only says which filters have let the value pass. As in Flink a
value is refreshed when its row is written: with retractions by every row that has it, without only by its first.

MIN and MAX of a retracting input keep, besides, an order table: the same values, looked up by group. It is written
blindly, and read only for the groups whose extreme value has been retracted in the batch without a better one coming.
Reading it costs the number of values of the group, once per batch (Flink: once per such retraction). As in Flink a
value that was retracted more often than accumulated, because its row had expired, is searched too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import ACCESS_TIME, Access, StateColumn, StateTable
from stateplan.runtime.kernels.common.accumulators import Changes, best_of_each, better
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    absent,
    equal,
    first_of_each,
    firsts,
    ids_of,
    positions,
    stable_order,
    truth,
    with_stamps,
)

VALUE = "v"


@dataclass(frozen=True)
class _Log:
    """The rows of a batch that change values: their numbers in the batch, the value of each, its step (None for +1),
    and which of them pass each filter (None for all)."""

    rows: Ints
    codes: Ints
    steps: Ints | None
    passes: list[Bools | None]

    def passing(self, position: int) -> tuple[Ints, Ints, Ints]:
        """Rows, values and steps of those that pass a filter."""
        steps = np.ones(len(self.rows), np.int64) if self.steps is None else self.steps
        row_numbers = self.passes[position]
        if row_numbers is None:
            return self.rows, self.codes, steps
        return self.rows[row_numbers], self.codes[row_numbers], steps[row_numbers]


@dataclass(frozen=True)
class ValueChanges:
    """The values of a table that a batch touches.

    Attributes:
        pairs: group key and value (column ``v``), in order of first arrival.
        groups: the group of each.
        in_state: whether its row is in the state.
        old, new: per filter, the rows that have it: before and after.
        came: whether a row accumulates it that passes the first filter.
        log: the rows of the batch that change values.
    """

    pairs: pl.DataFrame
    groups: Ints
    in_state: Bools
    old: list[Ints]
    new: list[Ints]
    came: Bools
    log: _Log

    def arrived(self, groups: int) -> Ints:
        """Per group, values that arrived less values that went."""
        out = np.zeros(groups, np.int64)
        np.add.at(out, self.groups, (self.new[0] > 0).astype(np.int64) - (self.old[0] > 0))
        return out

    def in_order(self, position: int, groups: int, retract: bool) -> tuple[Changes, Ints]:
        """As :meth:`of_call`, row by row: a value that leaves and returns is counted twice. Also the rows."""
        rows, codes, steps = self.log.passing(position)
        old = self.old[position]
        if not retract:
            first = firsts(codes, len(old))
            operations = np.sort(first[(first >= 0) & (old == 0)])
            signs = None
        else:
            order = stable_order(codes)
            walk = np.cumsum(steps[order])
            starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0]) if len(order) else order
            lengths = np.diff(np.r_[starts, len(order)])
            before = old[codes[order[starts]]] - walk[starts] + steps[order[starts]]
            level = np.empty(len(order), np.int64)
            level[order] = walk + np.repeat(before, lengths)
            operations = np.flatnonzero(np.where(steps > 0, level == 1, level == 0))
            signs = steps[operations]
        pairs = codes[operations]
        return Changes(groups, self.groups[pairs], self.pairs[VALUE][pairs], signs), rows[operations]

    def of_call(self, position: int, groups: int, nulls: bool = False) -> Changes:
        """What a DISTINCT call with the filter at ``position`` sees: values that come and values that go.

        Args:
            nulls: whether NULL is a value to it.
        """
        change = (self.new[position] > 0).astype(np.int64) - (self.old[position] > 0)
        rows = np.flatnonzero(change)
        values = self.pairs[VALUE][rows]
        if values.null_count() and not nulls:
            rows = rows[values.is_not_null().to_numpy()]
            values = self.pairs[VALUE][rows]
        signs = change[rows]
        return Changes(groups, self.groups[rows], values, None if (signs > 0).all() else signs)


@dataclass(frozen=True)
class Values:
    """The values of one argument.

    Attributes:
        table: the table of values.
        order: the order table, if MIN or MAX need it; then there is one filter.
        keys: columns of the group key.
        argument: column of the argument.
        filters: columns of the filters of the calls, None for a call without.
        retract: whether values may be retracted.
        nulls: whether NULL is a value.
    """

    table: StateTable
    order: StateTable | None
    keys: tuple[str, ...]
    argument: str
    filters: tuple[str | None, ...]
    retract: bool
    nulls: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        keys: tuple[str, ...],
        argument: str,
        filters: tuple[str | None, ...],
        retract: bool,
        keeps_order: bool,
        types: Mapping[str, StateColumn],
        nulls: bool = False,
    ) -> Values:
        """The tables for the values of ``argument``, which has the state name ``name``."""
        pair = {**{k: types[k] for k in keys}, VALUE: types[argument]}
        flags: dict[str, StateColumn] = {}
        if retract or len(filters) > 1:
            dtype = pl.Int64() if retract else pl.Boolean()
            flags = {f"count{i}": StateColumn(dtype, f"count_{i}" if i else "count") for i in range(len(filters))}
        once = not retract and len(filters) == 1
        access = Access(origin={VALUE: argument}, once=once, use="deduplicated")
        table = StateTable(name, 0, tuple(pair), tuple(pair), {**pair, **flags}, access=access)
        # Its rows live as long as those of the other table, which a row of the input reads to change them.
        access = replace(access, reads=False)
        order = StateTable(f"{name}.order", 0, keys, tuple(pair), pair, access=access) if keeps_order else None
        return cls(table, order, keys, argument, filters, retract, nulls)

    def select(self, frame: pl.DataFrame) -> tuple[Ints, list[Bools | None]]:
        """The rows that a call sees, and which of them pass each filter (None for all)."""
        passes = [None if f is None else truth(frame[f]) for f in self.filters]
        keep = None if any(p is None for p in passes) else np.logical_or.reduce([p for p in passes if p is not None])
        column = frame[self.argument]
        if column.null_count() and not self.nulls:
            present = column.is_not_null().to_numpy()
            keep = present if keep is None else keep & present
        if keep is None:
            return np.arange(frame.height), passes
        rows = np.flatnonzero(keep)
        return rows, [None if p is None else p[rows] for p in passes]

    def pairs(self, frame: pl.DataFrame, rows: Ints) -> pl.DataFrame:
        """Group key and value of the given rows."""
        out = pl.DataFrame([*(frame[k] for k in self.keys), frame[self.argument].alias(VALUE)])
        return out if len(rows) == frame.height else out[rows]

    def lookup(self, frame: pl.DataFrame) -> pl.DataFrame | None:
        """The keys whose rows :meth:`changes` needs."""
        rows, _ = self.select(frame)
        return self.pairs(frame, rows) if len(rows) else None

    def changes(
        self, frame: pl.DataFrame, codes: Ints, signs: Ints | None, state: pl.DataFrame, born: Ints | None
    ) -> ValueChanges:
        """What the rows of ``frame`` do to the values.

        Args:
            codes: the group of each row.
            signs: +1 or -1 per row; None when all accumulate.
            state: rows of the table.
            born: per group since when it is there: rows last written before are leftovers of a group that was deleted.
                None when groups are not deleted.
        """
        rows, passes = self.select(frame)
        pairs = self.pairs(frame, rows)
        if not self.retract and len(passes) == 1:
            return self._arrivals(pairs, rows, codes[rows], state)
        first, mine, place, state_places = self._match_values(pairs, codes[rows], state, born)
        groups = codes[rows[first]]
        has_state = positions(place, len(first)) >= 0
        step = None if signs is None else signs[rows]
        old, new = [], []
        for i, row_filter in enumerate(passes):
            before = np.zeros(len(first), np.int64)
            name = f"count{i}"
            before[place] = state[name].to_numpy()[state_places] if name in self.table.schema else 1
            old.append(before)
            new.append(self._counts_after(before, mine, step, row_filter))
        came = np.zeros(len(first), bool)
        if self.order is not None:
            came[mine if step is None else mine[step > 0]] = True
        return ValueChanges(_take(pairs, first), groups, has_state, old, new, came, _Log(rows, mine, step, passes))

    def merge(self, pairs: pl.DataFrame, codes: Ints, state: pl.DataFrame, born: Ints | None) -> ValueChanges:
        """What partial results do to the values.

        Args:
            pairs: columns of :attr:`table`: group key, value, and counts or flags per filter where the table has them.
            codes: the group of each.
            state, born: as for :meth:`changes`.
        """
        if not self.retract and len(self.filters) == 1:
            return self._arrivals(pairs, np.arange(pairs.height), codes, state)
        first, mine, place, state_places = self._match_values(pairs, codes, state, born)
        groups = codes[first]
        has_state = positions(place, len(first)) >= 0
        old, new = [], []
        came = np.zeros(len(first), bool)
        for i in range(len(self.filters)):
            name = f"count{i}"
            has_count = name in self.table.schema
            before = np.zeros(len(first), np.int64)
            before[place] = state[name].cast(pl.Int64).to_numpy()[state_places] if has_count else 1
            step = pairs[name].cast(pl.Int64).to_numpy() if has_count else np.ones(pairs.height, np.int64)
            after = before.copy()
            np.add.at(after, mine, step)
            if not self.retract:
                after = np.minimum(after, 1)
            old.append(before)
            new.append(after)
            if i == 0:
                came[mine[step > 0]] = True
        log = _Log(first, np.arange(len(first)), None, [None] * len(self.filters))
        return ValueChanges(_take(pairs[list(self.table.identity)], first), groups, has_state, old, new, came, log)

    def _match_values(
        self, pairs: pl.DataFrame, codes: Ints, state: pl.DataFrame, born: Ints | None
    ) -> tuple[Ints, Ints, Ints, Bools]:
        """The first row of each different one of ``pairs``, the number of each pair among these, that of each row of
        the state that is one of them, and which rows of the state are. ``codes`` are the groups of the pairs."""
        ids, (mine, state_codes) = ids_of((pairs, state), list(self.table.identity))
        first = np.sort(ids.first[ids.first < pairs.height])
        number = positions(ids.codes[first], ids.count)
        place = number[state_codes]
        is_valid = place >= 0
        if born is not None:
            is_valid[is_valid] = state[ACCESS_TIME].to_numpy()[is_valid] >= born[codes[first[place[is_valid]]]]
        return first, number[mine], place[is_valid], is_valid

    def _arrivals(self, pairs: pl.DataFrame, rows: Ints, codes: Ints, state: pl.DataFrame) -> ValueChanges:
        """:meth:`changes` where only a first arrival makes a difference."""
        first = first_of_each(pairs, self.table.identity, state)
        none, one = np.zeros(len(first), np.int64), np.ones(len(first), np.int64)
        log = _Log(rows[first], np.arange(len(first)), None, [None])
        return ValueChanges(_take(pairs, first), codes[first], none > 0, [none], [one], none > 0, log)

    def _counts_after(self, before: Ints, codes: Ints, step: Ints | None, row_filter: Bools | None) -> Ints:
        if row_filter is not None:
            codes, step = codes[row_filter], None if step is None else step[row_filter]
        after = before.copy()
        if not self.retract:
            after[codes] = 1
        elif step is None:
            after += np.bincount(codes, minlength=len(before))
        else:
            np.add.at(after, codes, step)
        return after

    def writes(self, changes: ValueChanges, times: Ints) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """Upserts and deletes of the table of values; ``times`` has the time of access per group."""
        live = np.logical_or.reduce([n != 0 for n in changes.new])
        write = (
            live
            if self.retract
            else np.logical_or.reduce([n != o for n, o in zip(changes.new, changes.old, strict=True)])
        )
        rows = np.flatnonzero(write)
        counts = [
            pl.Series(name, changes.new[i][rows]).cast(self.table.schema[name])
            for i, name in enumerate(n for n in self.table.schema if n not in self.table.identity)
        ]
        removed_pairs = np.flatnonzero(changes.in_state & ~live)
        upserts = _take(changes.pairs, rows).hstack(counts)
        return (
            with_stamps(upserts, times[changes.groups[rows]]) if len(rows) else None,
            changes.pairs[removed_pairs] if len(removed_pairs) else None,
        )

    def of_groups(self, state: pl.DataFrame, group_keys: pl.DataFrame, groups: Ints) -> pl.DataFrame:
        """Key and value of those rows of the table that belong to the given groups."""
        rows = state[list(self.table.identity)]
        if not self.keys:
            return rows
        ids, (group_codes, owners) = ids_of((group_keys[groups], rows), self.keys)
        return rows[np.flatnonzero(positions(group_codes, ids.count)[owners] >= 0)]

    def order_writes(self, changes: ValueChanges, times: Ints) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """As :meth:`writes`, for the order table. Values that stay are written too: their time of access counts."""
        live = changes.new[0] != 0
        rows = np.flatnonzero(live)
        removed_pairs = np.flatnonzero(changes.in_state & ~live)
        return (
            with_stamps(_take(changes.pairs, rows), times[changes.groups[rows]]) if len(rows) else None,
            changes.pairs[removed_pairs] if len(removed_pairs) else None,
        )


def _take(frame: pl.DataFrame, rows: Ints) -> pl.DataFrame:
    return frame if len(rows) == frame.height else frame[rows]


def extremes(changes: ValueChanges, old: pl.Series, groups: int, largest: bool) -> tuple[pl.Series, Bools]:
    """The extreme value per group from ``old`` and what a batch brings, and for which groups that may be wrong: their
    extreme went and nothing better came, so the order table has to be asked."""
    values = changes.pairs[VALUE]
    came = np.flatnonzero(changes.came & ((changes.new[0] != 0) | (changes.old[0] < 0)))
    best = better(old, best_of_each(changes.groups[came], values[came], groups, largest), largest)
    removed_pairs = np.flatnonzero((changes.old[0] > 0) & (changes.new[0] <= 0))
    was = equal(values[removed_pairs], old[changes.groups[removed_pairs]])
    has_lost_best = np.zeros(groups, bool)
    has_lost_best[changes.groups[removed_pairs[was]]] = True
    return best, has_lost_best & equal(best, old)


def search_extremes(
    changes: ValueChanges,
    order: pl.DataFrame,
    keys: Sequence[str],
    group_keys: pl.DataFrame,
    born: Ints,
    ask: Bools,
    largest: bool,
) -> pl.Series:
    """The extreme value of the groups ``ask``: of their rows in the order table and of what the batch brings.

    Args:
        order: rows of the order table.
        group_keys: the key of each group.
        born: as for :meth:`Values.changes`.
    """
    groups = len(ask)
    numbers = np.flatnonzero(ask)
    if keys:
        ids, (group_codes, rows) = ids_of((group_keys[numbers], order), keys)
        group = np.full(ids.count, -1, np.int64)
        group[group_codes] = numbers
        owner = group[rows]
    else:
        owner = np.zeros(order.height, np.int64)
    keep = owner >= 0
    keep[keep] = order[ACCESS_TIME].to_numpy()[keep] >= born[owner[keep]]
    order, owner = order[np.flatnonzero(keep)], owner[keep]
    free = absent(order, [*keys, VALUE], changes.pairs)
    live = np.flatnonzero((changes.new[0] != 0) & ask[changes.groups])
    values = pl.concat([order[VALUE][free], changes.pairs[VALUE][live]])
    return best_of_each(np.concatenate([owner[free], changes.groups[live]]), values, groups, largest)
