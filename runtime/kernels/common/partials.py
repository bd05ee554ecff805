"""Partial results of a group aggregate, between its phases: a row per group with its key, the accumulators of its
calls, the number of its rows, and as lists the values that DISTINCT calls and MIN and MAX of what may be retracted have
seen.

Source of the semantics: Flink's ``MiniBatchLocalGroupAggFunction`` and the code that ``AggsHandlerCodeGenerator`` makes
for merging. The layout is this project's own; where Flink's plan has one column per accumulator, so have the rows here,
but for the values, which lie in one list per argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import column, columns
from stateplan.common.errors import RunError
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType, RowField
from stateplan.execnodes.specs import AggCall
from stateplan.runtime.kernel import ACCESS_TIME, Transform
from stateplan.runtime.kernels.common.accumulators import (
    Changes,
    KeepsSecond,
    MergeableFold,
    TrackedExtreme,
    add_up,
    align,
)
from stateplan.runtime.kernels.common.functions import is_distinct
from stateplan.runtime.kernels.common.key_ids import Ints, frame_of, ids_of, key_ids, narrow, positions, signs
from stateplan.runtime.kernels.common.lists import explode_lists, pack_lists
from stateplan.runtime.kernels.common.values import VALUE, Values
from stateplan.runtime.kernels.group_aggregate import (
    BORN,
    ROWS,
    CallInput,
    GroupAggregateKernel,
    group_changes,
)


@dataclass(frozen=True)
class Partials(FrozenDataclass):
    """What partial results of ``kernel`` look like: its key columns, then :attr:`schema`."""

    kernel: GroupAggregateKernel

    @classmethod
    def of(
        cls,
        row: LogicalType,
        keys: Sequence[LogicalType],
        calls: tuple[AggCall, ...],
        retracts: tuple[bool, ...],
        retraction: bool,
        update_before: bool = False,
        state_name: str = "",
        lists_expire: bool = True,
    ) -> Partials:
        """The partial results of calls over ``row``.

        Their key is not taken from the row, whose key fields a global phase does not know: it lies behind it.

        Raises:
            RunError: RUN063, for a function that is not known or that cannot be merged.
        """
        fields = (*row.fields, *(RowField(f"key{i}", t) for i, t in enumerate(keys)))
        width = len(row.fields)
        grouping = tuple(range(width, width + len(keys)))
        wide_row = LogicalType("ROW", fields=fields)
        kernel = GroupAggregateKernel(
            wide_row, grouping, calls, retracts, update_before, retraction, state_name, lists_expire
        )
        for call, function in zip(calls, kernel.accumulators, strict=True):
            if not isinstance(function, (TrackedExtreme, MergeableFold)):
                raise RunError("RUN063.not_mergeable", function=call.function)
        return cls(kernel)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(columns(self.kernel.grouping))

    @cached_property
    def folds(self) -> list[tuple[int, MergeableFold]]:
        """The calls whose accumulators are in a partial result, with their numbers."""
        calls = enumerate(zip(self.kernel.agg_calls, self.kernel.accumulators, strict=True))
        return [(i, k) for i, (c, k) in calls if isinstance(k, MergeableFold) and not is_distinct(c)]

    @staticmethod
    def _fields(values: Values) -> dict[str, pl.DataType]:
        """A value with its number of rows, or whether there are any, per filter."""
        flags = {n: t for n, t in values.table.schema.items() if n not in values.table.identity}
        return {VALUE: values.table.schema[VALUE], **flags}

    def list_type(self, values: Values) -> pl.DataType:
        """The type of a list of values."""
        return pl.List(pl.Struct(self._fields(values)))

    @cached_property
    def separate_calls(self) -> list[int]:
        """The DISTINCT calls of two arguments, the second of which is in the partial result: LISTAGG's separator,
        PERCENTILE's percentage."""
        calls = enumerate(self.kernel.agg_calls)
        return [i for i, c in calls if is_distinct(c) and len(c.arg_list) > 1]

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns behind the key."""
        out: dict[str, pl.DataType] = {n: t for _, fold in self.folds for n, t in fold.parts.items()}
        if self.kernel.need_retraction:
            out[ROWS] = pl.Int64()
        types = self.kernel.input_type.fields
        calls = self.kernel.agg_calls
        out |= {second_name(i): types[calls[i].arg_list[1]].type.polars() for i in self.separate_calls}
        return out | {list_name(i): self.list_type(values) for i, values in enumerate(self.kernel.values)}

    def whole_schema(self) -> dict[str, pl.DataType]:
        """All columns."""
        types = {k: self.kernel.input_type.fields[g].type for k, g in zip(self.keys, self.kernel.grouping, strict=True)}
        return {**{k: t.polars() for k, t in types.items()}, **self.schema}

    def merge(self, before: pl.DataFrame, frame: pl.DataFrame, changes: Changes) -> dict[str, pl.Series]:
        """The accumulators of :attr:`folds` after the partial results ``frame``, by column."""
        after: dict[str, pl.Series] = {}
        for _, fold in self.folds:
            series = fold.merge(before, frame[list(fold.parts)], changes)
            after.update({s.name: s for s in series})
        return after

    def rows(self, before: Ints, frame: pl.DataFrame, codes: Ints) -> Ints:
        """Rows per group after the partial results ``frame``."""
        return add_up(pl.Series(ROWS, before), frame[ROWS], codes).to_numpy()

    def distinct_changes(self, number: int, changes: Changes, frame: pl.DataFrame, codes: Ints) -> Changes:
        """``changes`` with the second arguments of call ``number`` in the partial results ``frame``."""
        if number not in self.separate_calls:
            return changes
        last = align(frame[second_name(number)], positions(codes, changes.groups))
        return replace(changes, second=last[changes.codes])

    def seconds(self, state: pl.DataFrame) -> list[pl.Series]:
        """The second arguments in rows of the group aggregate's state."""
        named_functions = ((second_name(i), self.kernel.accumulators[i]) for i in self.separate_calls)
        return [
            k.second_of(state).cast(self.schema[n]).alias(n) for n, k in named_functions if isinstance(k, KeepsSecond)
        ]

    def of_state(self, rows: pl.DataFrame, values: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Rows of the group aggregate's state as partial results.

        Args:
            rows: rows of the table of groups, with their time of access.
            values: per table of values, its rows for these groups, with their time of access. It may contain rows of
                other groups.
        """
        keys = list(self.keys)
        out = [s for _, fold in self.folds for s in fold.as_partial(rows)]
        if self.kernel.need_retraction:
            out.append(rows[ROWS])
        lists = []
        for i, (fold, state_rows) in enumerate(zip(self.kernel.values, values, strict=False)):
            ids, (mine, owners) = ids_of((rows, state_rows), keys)
            owner = positions(mine, ids.count)[owners]
            present = owner >= 0
            if self.kernel.need_retraction:
                # What was last written before the group came (again) is of one that was deleted.
                present[present] = state_rows[ACCESS_TIME].to_numpy()[present] >= rows[BORN].to_numpy()[owner[present]]
            present_values = np.flatnonzero(present)
            flags = [n for n in fold.table.schema if n not in fold.table.identity]
            lists.append(
                self.packed_values(i, owner[present_values], state_rows[present_values][[VALUE, *flags]], rows.height)
            )
        return rows[keys].hstack([*out, *self.seconds(rows), *lists])

    def packed_values(self, number: int, owners: Ints, frame: pl.DataFrame, count: int) -> pl.Series:
        """The values of a table, each of one of ``count`` rows, as the column of these rows."""
        values = self.kernel.values[number]
        return pack_lists(owners, frame, count, list_name(number), self.list_type(values))

    def pairs(self, number: int, frame: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
        """Unpacks the values of one table from the partial results ``frame``.

        Returns:
            For each value the row of ``frame`` that contains it; and a frame of the keys, the value and its counts.
        """
        cache: tuple[pl.DataFrame, dict[int, tuple[Ints, pl.DataFrame]]] | None = self.__dict__.get("_pairs")
        if cache is None or cache[0] is not frame:
            # What the lookup of state splits, the processing of the same frame needs again.
            cache = self.__dict__["_pairs"] = (frame, {})
        if number not in cache[1]:
            cache[1][number] = self._pairs_of(number, frame)
        return cache[1][number]

    def _pairs_of(self, number: int, frame: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
        owners, entries = explode_lists(frame[list_name(number)])
        if not len(owners):
            entries = pl.DataFrame(schema=self._fields(self.kernel.values[number]))
        return owners, pl.DataFrame([*(frame[k][owners] for k in self.keys), *entries.get_columns()])


def second_name(number: int) -> str:
    """The column of the second argument of a call."""
    return f"@separator{number}"


def list_name(number: int) -> str:
    """The column of the values of a table."""
    return f"@values{number}"


@dataclass(frozen=True)
class LocalTransform(FrozenDataclass, Transform):
    """LocalGroupAggregate: the partial results of a frame of changes. Picklable, without state.

    Attributes:
        partials: what they look like.
        grouping: fields of the input that are the key.
    """

    partials: Partials
    grouping: tuple[int, ...]

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        kernel = self.partials.kernel
        own = tuple(columns(self.grouping))
        ids = key_ids(frame, own)
        first = np.sort(ids.first)
        number = np.empty(ids.count, np.int64)
        number[ids.codes[first]] = np.arange(ids.count)
        codes = number[ids.codes]
        step = signs(frame)
        key = frame_of([frame[k][first].alias(p) for k, p in zip(own, self.partials.keys, strict=True)], ids.count)
        cached_changes: dict[CallInput, Changes] = {}
        out: list[pl.Series] = []
        for i, fold in self.partials.folds:
            call = kernel.agg_calls[i]
            out += fold.partial(group_changes(frame, codes, step, ids.count, call, fold, cached_changes))
        if kernel.need_retraction:
            rows = np.bincount(codes, minlength=ids.count) if step is None else np.zeros(ids.count, np.int64)
            if step is not None:
                np.add.at(rows, codes, step)
            out.append(pl.Series(ROWS, rows))
        for i in self.partials.separate_calls:
            values = frame[column(kernel.agg_calls[i].arg_list[1])]
            out.append(align(values, positions(codes, ids.count)).alias(second_name(i)))
        wide = frame_of([frame[column(i)] for i in range(len(kernel.input_type.fields) - len(own))], frame.height)
        wide = wide.hstack([frame[k].alias(p) for k, p in zip(own, self.partials.keys, strict=True)])
        for i, table in enumerate(kernel.values):
            out.append(self._list(i, table, wide, codes, step, ids.count))
        return key.hstack(out) if key.width else frame_of(out, ids.count)

    def _list(
        self, number: int, values: Values, frame: pl.DataFrame, codes: Ints, step: Ints | None, count: int
    ) -> pl.Series:
        nothing = pl.DataFrame(schema={**values.table.schema, "@t": pl.Int64()})
        changes = values.changes(frame, codes, step, nothing, None)
        dtype = self.partials.list_type(values)
        flags = [n for n in values.table.schema if n not in values.table.identity]
        counts = [pl.Series(n, changes.new[i]).cast(values.table.schema[n]) for i, n in enumerate(flags)]
        entries = narrow(changes.pairs, [VALUE]).hstack(counts)
        live = np.flatnonzero(np.logical_or.reduce([n != 0 for n in changes.new]))
        return pack_lists(changes.groups[live], entries[live], count, list_name(number), dtype)
