"""GROUP BY: aggregates per group, updated by every change.

Source of the semantics: Flink's ``GroupAggFunction``, ``MiniBatchGroupAggFunction``, ``RecordCounter`` and the code
that ``AggsHandlerCodeGenerator`` and ``DistinctAggCodeGen`` make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import RowKind, column, columns
from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import rows_at, stack
from stateplan.common.types import LogicalType
from stateplan.execnodes.node_text import agg_text, field_names
from stateplan.execnodes.specs import AggCall
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    Frames,
    Kernel,
    StateTable,
    Step,
    call_columns,
    field_columns,
    lookup_frame,
    own_columns,
)
from stateplan.runtime.kernels.common.accumulators import Accumulator, Changes, Fold, TrackedExtreme
from stateplan.runtime.kernels.common.functions import accumulator, is_distinct
from stateplan.runtime.kernels.common.group_batches import Batch, GroupResult, Preparation, Preparer
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    absent,
    equal,
    frame_of,
    ids_of,
    is_retraction,
    positions,
    ranks,
    replay,
    signs,
    truth,
    with_kind,
    with_stamps,
)
from stateplan.runtime.kernels.common.values import ValueChanges, Values, extremes, search_extremes

ROWS, BORN = "rows", "first_row_at"
"""Of a group: its rows that arrived less those that went, and since when it is there."""
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class GroupAggregateKernel(Kernel):
    """One row per group: its key, then the result of each call.

    A micro-batch changes a group once: +I for a new group, else -U of the row before and +U; -D when its last row is
    retracted. A group whose row did not change is not mentioned with TTL 0, and updated as usual with a TTL (so that
    operators behind are refreshed too). There is no -D on expiry: the next row starts over with +I. Without group key
    there is one group, which as in Flink has no row before the first input row and none when all are retracted.

    Rows are accounted for one by one: a retraction for a group that is not there is ignored, and a group that was
    empty in between starts over. The order within one sum of floating-point numbers is the order of arrival.

    State: a table of accumulators, looked up by group; and per argument of DISTINCT calls, and of MIN and MAX over a
    retracting input, a table of values (see :mod:`runtime.kernels.common.values`). Every row refreshes its
    group.
    A value has its own time of access. In an append-only input that is when it was first seen, so that it may expire
    while its group lives, and is then counted once more: as in Flink.

    Attributes:
        input_type: ROW type of the input.
        grouping: fields of the group key.
        agg_calls: the calls.
        need_retractions: per call, whether its values may be retracted.
        generate_update_before: emit -U.
        need_retraction: whether the input has retractions; then rows per group are counted.
        state_name: the name of the state in the plan.
        lists_expire: whether elements of lists (ARRAY_AGG, JSON_ARRAYAGG...) have a TTL of their own. They live as long
            as their group where reading refreshes, expired state is found, or state ages by event time.

    Raises:
        RunError: RUN063, for an aggregate function that is not known.
    """

    input_type: LogicalType
    grouping: tuple[int, ...]
    agg_calls: tuple[AggCall, ...]
    need_retractions: tuple[bool, ...]
    generate_update_before: bool
    need_retraction: bool
    state_name: str = "groupAggregateState"
    lists_expire: bool = True

    def __post_init__(self) -> None:
        _ = self.accumulators

    # -- what is kept ------------------------------------------------------------------------------------------------

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        return tuple(columns(self.grouping))

    @cached_property
    def accumulators(self) -> list[Accumulator]:
        return [
            accumulator(
                i,
                call,
                [self.input_type.fields[a].type for a in call.arg_list],
                retract and self.need_retraction,
            )
            for i, (call, retract) in enumerate(zip(self.agg_calls, self.need_retractions, strict=True))
        ]

    @cached_property
    def values(self) -> list[Values]:
        return [values for values, _ in self.value_plan]

    @cached_property
    def value_plan(self) -> list[tuple[Values, list[tuple[int, int]]]]:
        """Per table of values the calls that use it, with the position of their filter."""
        distinct: dict[int, list[int]] = {}
        extreme_calls: dict[tuple[int, str | None], list[int]] = {}
        for i, (call, function) in enumerate(zip(self.agg_calls, self.accumulators, strict=True)):
            if isinstance(function, TrackedExtreme):
                extreme_calls.setdefault((call.arg_list[0], _filter(call)), []).append(i)
            elif is_distinct(call):
                distinct.setdefault(call.arg_list[0], []).append(i)
        types = field_columns(self.input_type)
        out = []
        for argument, calls in distinct.items():
            filters = tuple(dict.fromkeys(_filter(self.agg_calls[i]) for i in calls))
            users = [(i, filters.index(_filter(self.agg_calls[i]))) for i in calls]
            nulls = any(self.accumulators[i].sees_nulls for i in calls)
            # MIN and MAX have nothing to do with NULL.
            extreme = extreme_calls.pop((argument, filters[0]), []) if len(filters) == 1 and not nulls else []
            values = Values.of(
                f"{self.state_name}.distinct{argument}",
                self._keys,
                column(argument),
                filters,
                self.need_retraction,
                bool(extreme),
                types,
                nulls,
            )
            out.append((values, users + [(i, 0) for i in extreme]))
        for (argument, filter_name), calls in extreme_calls.items():
            name = f"{self.state_name}.values{argument}" + (f".{filter_name}" if filter_name else "")
            values = Values.of(name, self._keys, column(argument), (filter_name,), True, True, types)
            out.append((values, [(i, 0) for i in calls]))
        return out

    @cached_property
    def group_columns(self) -> list[str]:
        """The columns of the state row of a group, but for key and time."""
        extra = [ROWS, BORN] if self.need_retraction else []
        return [name for function in self.accumulators for name in function.columns] + extra

    @cached_property
    def _preparer(self) -> Preparer:
        return Preparer(self._prepare)

    def ttl_of_lists(self, ttl: Sequence[int]) -> int:
        """The TTL of an element of a list, ms; 0 is never."""
        return ttl[0] if self.lists_expire else 0

    @cached_property
    def _initial(self) -> pl.DataFrame:
        """The state row of a new group."""
        schema = {n: self.tables[0].schema[n] for n in self.group_columns}
        values = {n: v for function in self.accumulators for n, v in function.initial.items()} | {ROWS: 0, BORN: 0}
        return pl.DataFrame({n: pl.Series([values[n]], dtype=t) for n, t in schema.items()})

    def initial_rows(self, count: int) -> pl.DataFrame:
        """The state rows of this number of new groups."""
        return self._initial[np.zeros(count, np.int64)] if self.group_columns else pl.DataFrame(height=count)

    @property
    def call_texts(self) -> Sequence[str]:
        names = field_names(self.input_type)
        return [agg_text(call, names) for call in self.agg_calls]

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        types = field_columns(self.input_type)
        group_types = {k: types[k] for k in self._keys}
        for i, function in enumerate(self.accumulators):
            group_types |= call_columns(i, function.columns)
        if self.need_retraction:
            group_types |= own_columns({ROWS: pl.Int64(), BORN: pl.Int64()})
        groups = StateTable(self.state_name, 0, self._keys, self._keys, group_types)
        orders = [v.order for v in self.values if v.order is not None]
        return (groups, *(v.table for v in self.values), *orders)

    # -- what is needed ----------------------------------------------------------------------------------------------

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        frame = inputs[0]
        out = self.first_keys(inputs)
        retractions = is_retraction(frame)
        if retractions is not None:
            rows = np.flatnonzero(retractions)
            orders = len(self.tables) - 1 - len(self.values)
            out[len(out) - orders :] = [lookup_frame(frame[rows], self._keys)] * orders
        return out

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """As :meth:`keys`, without the order tables."""
        frame = inputs[0]
        orders = len(self.tables) - 1 - len(self.values)
        return [lookup_frame(frame, self._keys), *(v.lookup(frame) for v in self.values), *[None] * orders]

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        """The groups whose extreme value has to be looked for in the order tables."""
        out: list[pl.DataFrame | None] = [None] * len(self.tables)
        frame = inputs[0]
        place = 1 + len(self.values)
        if place == len(self.tables) or is_retraction(frame) is None:
            return out
        return self.order_keys(self._preparer.ahead(frame, state), self._keys)

    def order_keys(self, preparation: Preparation, keys: Sequence[str]) -> list[pl.DataFrame | None]:
        """Per table, the groups whose extreme value has to be looked for there; ``keys`` are columns of the input."""
        out: list[pl.DataFrame | None] = [None] * len(self.tables)
        place, first = 1 + len(self.values), preparation.batch.first
        for values, users in self.value_plan:
            if values.order is None:
                continue
            needs_lookup = np.logical_or.reduce([preparation.extremes[i][1] for i, _ in self.tracked_extremes(users)])
            if needs_lookup.any():
                out[place] = lookup_frame(rows_at(preparation.frame, first[needs_lookup]), keys)
            place += 1
        return out

    # -- a batch -----------------------------------------------------------------------------------------------------

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        """One micro-batch. Raises RunError RUN064, for a retraction in an input that is said to have none."""
        result = self.fold_batch(inputs, state, now, ttl)
        output = self.output(result.batch, result.keys, state[0], result.current, ttl[0])
        return Step(output, result.upserts, result.deletes, result.batch.missed)

    def fold_batch(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> GroupResult:
        """As :meth:`process`, without the output."""
        preparation = self._preparer.take(inputs[0], state)
        batch, after = preparation.batch, dict[str, pl.Series]()
        cached_changes: dict[CallInput, Changes] = {}
        for call, function in zip(self.agg_calls, self.accumulators, strict=True):
            if isinstance(function, Fold) and not is_distinct(call):
                call_changes = group_changes(
                    batch.frame, batch.codes, batch.signs, batch.groups, call, function, cached_changes
                )
                after |= _by_name(
                    function.update(preparation.before, replace(call_changes, now=now, ttl=self.ttl_of_lists(ttl)))
                )

        def distinct(i: int, function: Fold, changes: ValueChanges, position: int) -> Changes:
            return _distinct(function, self.agg_calls[i], changes, position, batch, self.need_retraction)

        return self.taken_in(preparation, state, self._keys, after, distinct, now, ttl)

    def taken_in(
        self,
        preparation: Preparation,
        state: Frames,
        keys: Sequence[str],
        after: dict[str, pl.Series],
        distinct: Callable[[int, Fold, ValueChanges, int], Changes],
        now: int,
        ttl: Sequence[int],
    ) -> GroupResult:
        """A batch taken into the state.

        Args:
            preparation: the batch.
            state: the frames of the tables.
            keys: columns of the input with the group key.
            after: columns of the new state rows that do not depend on tables of values.
            distinct: what a DISTINCT call sees: its number, its accumulator, what happens to the values of its
                argument, and the position of its filter.
            now: the time of the micro-batch.
            ttl: the TTL of the state.
        """
        upserts: list[pl.DataFrame | None] = [None] * len(self.tables)
        deletes: list[pl.DataFrame | None] = [None] * len(self.tables)
        batch, born = preparation.batch, preparation.born
        group_keys = frame_of([preparation.frame[k][batch.first] for k in keys], batch.groups)
        self._take_values(preparation, state, group_keys, after, distinct, (upserts, deletes), now, ttl)
        if born is not None:
            after[ROWS] = pl.Series(ROWS, batch.rows)
            after[BORN] = pl.Series(BORN, np.where(batch.fresh, now, born))
        current = frame_of([after[name] for name in self.group_columns], batch.groups)
        live = batch.rows != 0
        rows = np.flatnonzero(live)
        if len(rows):
            groups = frame_of([*group_keys.get_columns(), *current.get_columns()], batch.groups)
            upserts[0] = with_stamps(groups if len(rows) == batch.groups else rows_at(groups, rows), now)
        removed_groups = rows_at(state[0], batch.state_rows[(batch.state_rows >= 0) & ~live])
        if removed_groups.height:
            deletes[0] = removed_groups[list(keys) or [ACCESS_TIME]]
        return GroupResult(batch, group_keys, current, upserts, deletes)

    def _take_values(
        self,
        preparation: Preparation,
        state: Frames,
        group_keys: pl.DataFrame,
        after: dict[str, pl.Series],
        distinct: Callable[[int, Fold, ValueChanges, int], Changes],
        writes: tuple[list[pl.DataFrame | None], list[pl.DataFrame | None]],
        now: int,
        ttl: Sequence[int],
    ) -> None:
        """Takes a batch into the tables of values.

        Args:
            group_keys: the keys of the groups of the batch.
            after: gets what calls make of the values.
            writes: what is written and deleted by table.
        """
        batch, before, born, keys = preparation.batch, preparation.before, preparation.born, group_keys.columns
        upserts, deletes = writes
        # Should the clock go back, values are not written before the birth of their group: they would be taken for
        # leftovers of the one before.
        times = np.full(batch.groups, now) if born is None else np.where(batch.fresh, now, np.maximum(born, now))
        place = 1 + len(self.values)
        reset = np.flatnonzero(batch.fresh & (batch.state_rows >= 0))
        for number, (values, users) in enumerate(self.value_plan):
            changes = preparation.changes[number]
            upserts[1 + number], deletes[1 + number] = values.writes(changes, times)
            stale = values.of_groups(state[1 + number], group_keys, reset) if len(reset) else None
            deletes[1 + number] = _with_deletions(deletes[1 + number], stale, upserts[1 + number])
            for i, position in users:
                function = self.accumulators[i]
                if isinstance(function, Fold):
                    call_changes = replace(
                        distinct(i, function, changes, position), now=now, ttl=self.ttl_of_lists(ttl)
                    )
                    after.update(_by_name(function.update(before, call_changes)))
            if values.order is not None and born is not None:
                for i, extreme in self.tracked_extremes(users):
                    best, needs_lookup = preparation.extremes[i]
                    if needs_lookup.any():
                        new_extremes = search_extremes(
                            changes, state[place], keys, group_keys, born, needs_lookup, extreme.largest
                        )
                        best = new_extremes.zip_with(pl.Series(needs_lookup), best)
                    after.update(_by_name(extreme.update(before, best, changes.arrived(batch.groups))))
                upserts[place], deletes[place] = values.order_writes(changes, times)
                deletes[place] = _with_deletions(deletes[place], stale, upserts[place])
                place += 1

    def _prepare(self, frame: pl.DataFrame, state: Frames) -> Preparation:
        batch = self._batch(frame, state[0])
        before = self.before(batch, state[0])
        born = None if not self.need_retraction else np.where(batch.fresh, _NEVER, before[BORN].to_numpy())
        changes = [
            values.changes(batch.frame, batch.codes, batch.signs, rows, born)
            for values, rows in zip(self.values, state[1:], strict=False)
        ]
        return self.prepare_groups(frame, state, batch, before, born, changes)

    def prepare_groups(
        self,
        frame: pl.DataFrame,
        state: Frames,
        batch: Batch,
        before: pl.DataFrame,
        born: Ints | None,
        changes: list[ValueChanges],
    ) -> Preparation:
        """A batch with the extreme values that follow from its changes."""
        batch_extremes = {
            i: extremes(value_changes, before[extreme.best], batch.groups, extreme.largest)
            for (_, users), value_changes in zip(self.value_plan, changes, strict=True)
            for i, extreme in self.tracked_extremes(users)
        }
        return Preparation(frame, list(state[: 1 + len(changes)]), batch, before, born, changes, batch_extremes)

    def by_group(self, frame: pl.DataFrame, groups: pl.DataFrame, keys: Sequence[str]) -> tuple[Ints, Ints, Ints]:
        """The group of each row, and per group its first row in the batch and its row in the state, -1 for none."""
        ids, (codes, state) = ids_of((frame, groups), keys)
        first = np.sort(ids.first[ids.first < frame.height])
        number = positions(ids.codes[first], ids.count)
        return number[codes], first, positions(state, ids.count)[ids.codes[first]]

    def _batch(self, frame: pl.DataFrame, groups: pl.DataFrame) -> Batch:
        codes, first, places = self.by_group(frame, groups, self._keys)
        change = signs(frame)
        if not self.need_retraction:
            if change is not None:
                raise RunError("RUN064")
            return Batch(frame, codes, None, first, places, places < 0, np.ones(len(first), np.int64))
        rows = np.zeros(len(first), np.int64)
        old = places >= 0
        rows[old] = groups[ROWS].to_numpy()[places[old]]
        if change is None:
            return Batch(frame, codes, None, first, places, ~old, rows + np.bincount(codes, minlength=len(first)))
        retraction_counts = np.bincount(codes[change < 0], minlength=len(first))
        risky = (retraction_counts > 0) & (rows <= retraction_counts)
        fresh = ~old
        final = rows.copy()
        np.add.at(final, codes, change)
        missed_retractions = 0
        if risky.any():
            # Only these groups can be empty at some point; what came before that point does not count.
            part = np.flatnonzero(risky[codes])
            offset, ends = replay(codes[part], change[part], rows)
            missed_retractions = int((ends[risky] - final[risky]).sum())
            final[risky] = ends[risky]
            fresh = fresh | (offset > 0)
            keep = np.ones(frame.height, bool)
            keep[part] = ranks(codes[part]) >= offset[codes[part]]
            rows_left = np.flatnonzero(keep)
            frame, codes, change = rows_at(frame, rows_left), codes[rows_left], change[rows_left]
        return Batch(frame, codes, change, first, places, fresh, final, missed_retractions)

    def before(self, batch: Batch, groups: pl.DataFrame) -> pl.DataFrame:
        """The state row that each group starts from."""
        if not self.group_columns:
            return pl.DataFrame(height=batch.groups)
        rows = stack([groups[self.group_columns], self._initial])
        return rows_at(rows, np.where(batch.fresh, groups.height, batch.state_rows))

    def tracked_extremes(self, users: Sequence[tuple[int, int]]) -> list[tuple[int, TrackedExtreme]]:
        functions = [(i, self.accumulators[i]) for i, _ in users]
        return [(i, k) for i, k in functions if isinstance(k, TrackedExtreme)]

    def output(
        self, batch: Batch, keys: pl.DataFrame, groups: pl.DataFrame, current: pl.DataFrame, ttl: int
    ) -> pl.DataFrame:
        old = batch.state_rows >= 0
        live = batch.rows != 0
        old_groups = np.flatnonzero(old)
        before = self.results(rows_at(keys, old_groups), rows_at(groups, batch.state_rows[old_groups]))
        after = self.results(keys, current)
        updates = old & live
        if ttl == 0 and len(old_groups):
            same = np.ones(len(old_groups), bool)
            for name in before.columns[len(self._keys) :]:
                same &= equal(before[name], after[name][old_groups])
            updates[old_groups[same]] = False
        new = np.flatnonzero(updates | (live & ~old))
        kinds = np.where(old[new], np.int8(RowKind.UPDATE_AFTER), np.int8(RowKind.INSERT))
        output = with_kind(_rows(after, new), kinds)
        left = np.flatnonzero(((updates & self.generate_update_before) | ~live)[old_groups])
        if not len(left):
            return output
        kinds = np.where(live[old_groups[left]], np.int8(RowKind.UPDATE_BEFORE), np.int8(RowKind.DELETE))
        place = np.concatenate([2 * old_groups[left], 2 * new + 1])
        return rows_at(stack([with_kind(_rows(before, left), kinds), output]), np.argsort(place))

    def results(self, keys: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
        """The output rows for the given keys and state rows."""
        series = [*keys.get_columns(), *(function.value(state) for function in self.accumulators)]
        return pl.DataFrame([s.alias(column(i)) for i, s in enumerate(series)])


def _filter(call: AggCall) -> str | None:
    return column(call.filter_arg) if call.filter_arg >= 0 else None


def _by_name(series: Sequence[pl.Series]) -> dict[str, pl.Series]:
    return {s.name: s for s in series}


def _with_deletions(
    deletes: pl.DataFrame | None, stale: pl.DataFrame | None, upserts: pl.DataFrame | None
) -> pl.DataFrame | None:
    """``deletes`` and those of the ``stale`` rows that are not written."""
    if stale is None or not stale.height:
        return deletes
    if upserts is not None:
        stale = stale[absent(stale, stale.columns, upserts)]
    return stale if deletes is None else pl.concat([deletes, stale])


def _rows(frame: pl.DataFrame, rows: Ints) -> pl.DataFrame:
    return frame if len(rows) == frame.height else rows_at(frame, rows)


def _distinct(
    function: Fold, call: AggCall, changes: ValueChanges, position: int, batch: Batch, retract: bool
) -> Changes:
    """What a DISTINCT call sees."""
    if not function.needs_order:
        return changes.of_call(position, batch.groups)
    call_changes, rows = changes.in_order(position, batch.groups, retract)
    if not function.sees_nulls and call_changes.column.null_count():
        present = np.flatnonzero(call_changes.column.is_not_null().to_numpy())
        call_changes, rows = _take(call_changes, present), rows[present]
    return (
        call_changes
        if len(call.arg_list) < 2
        else replace(call_changes, second=batch.frame[column(call.arg_list[1])][rows])
    )


def _take(changes: Changes, rows: Ints) -> Changes:
    return replace(
        changes,
        codes=changes.codes[rows],
        values=None if changes.values is None else changes.values[rows],
        signs=None if changes.signs is None else changes.signs[rows],
        second=None if changes.second is None else changes.second[rows],
        third=None if changes.third is None else changes.third[rows],
    )


CallInput = tuple[tuple[int, ...], str | None, bool, bool]
"""What a call sees: arguments, filter, whether NULLs count, and whether the arguments are packed into a struct."""


def group_changes(
    frame: pl.DataFrame,
    codes: Ints,
    signs: Ints | None,
    groups: int,
    call: AggCall,
    function: Fold,
    cached_changes: dict[CallInput, Changes],
) -> Changes:
    """What a call sees that is not DISTINCT; calls that see the same share it through ``cached_changes``.
    User-defined functions see a struct of their arguments."""
    is_user_function = call.user_function is not None
    source = (call.arg_list, _filter(call), function.sees_nulls, is_user_function)
    if source in cached_changes:
        return cached_changes[source]
    keep: Bools | None = None if source[1] is None else truth(frame[source[1]])
    values = frame[column(call.arg_list[0])] if call.arg_list else None
    if values is not None and values.null_count() and not function.sees_nulls:
        present = values.is_not_null().to_numpy()
        keep = present if keep is None else keep & present
    second, third = (
        frame[column(call.arg_list[i])] if len(call.arg_list) > i and not is_user_function else None for i in (1, 2)
    )
    if is_user_function and len(call.arg_list) > 1:
        fields = (pl.col(column(a)).alias(f"{i}") for i, a in enumerate(call.arg_list))
        values = frame.select(pl.struct(fields)).to_series()
    all_changes = Changes(groups, codes, values, signs, second, third)
    cached_changes[source] = all_changes if keep is None else _take(all_changes, np.flatnonzero(keep))
    return cached_changes[source]
