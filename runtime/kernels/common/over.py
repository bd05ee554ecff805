"""What the kernels of OVER windows share: the state of partitions, and how rows are taken into their aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.node_text import agg_text, field_names
from stateplan.execnodes.specs import AggCall
from stateplan.runtime.kernel import ACCESS_TIME, Access, KeyedKernel, StateTable, call_columns, own_columns
from stateplan.runtime.kernels.common.functions import is_distinct
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    absent,
    frame_of,
    ids_of,
    narrow,
    positions,
    with_stamps,
)
from stateplan.runtime.kernels.common.over_frames import Frame, Walk, distinct_of_frames
from stateplan.runtime.kernels.common.running_values import FrameRows, RunningValue, running_value

STATE = "overState"
NUMBER, AT, DUE = "@arrival", "@at", "@due"
"""Of a row: its number within the partition, its time, and when it is due, ms."""
NEXT, LAST, PENDING, UNTIL, BORN = "@next", "@last", "@pending", "@until", "@born"
"""Of a partition: the number of its next row, the time of the last row that came out, how many rows wait, when its
state is cleaned up, and since when it is there."""
NEVER = -(2**62)
ALWAYS = 2**62
"""A time of access so late that no TTL ends."""


@dataclass(frozen=True)
class Playback:
    """What became of the partitions with new rows.

    Attributes:
        out: the output rows, in the order of the walk.
        keys: the keys of the partitions.
        place: per partition where it is among the known ones; -1 for none.
        after: per partition the columns of the calls.
        walk: the walk.
        fresh: per table of values the new ones.
        owners: per new row, as it was given, its partition.
    """

    out: pl.DataFrame
    keys: pl.DataFrame
    place: Ints
    after: pl.DataFrame
    walk: Walk
    fresh: list[pl.DataFrame]
    owners: Ints

    @property
    def count(self) -> int:
        return len(self.place)


@dataclass(frozen=True)
class OverKernel(KeyedKernel):
    """Base of the kernels.

    Attributes:
        key_fields: fields of the partition.
        agg_calls: the calls; arguments behind the fields of the input are constants.
        frame: the frame.
        constants: the values of those that are arguments, by column.
        constant_types: the types of all, in order.
    """

    agg_calls: tuple[AggCall, ...]
    frame: Frame
    constants: Mapping[str, Any] = field(default_factory=dict)
    constant_types: tuple[LogicalType, ...] = ()

    def __post_init__(self) -> None:
        _ = self.runs

    # what is kept

    @property
    def call_texts(self) -> Sequence[str]:
        names = field_names(self.input_type)
        return [agg_text(call, names) for call in self.agg_calls]

    @cached_property
    def runs(self) -> list[RunningValue]:
        types = [*(f.type for f in self.input_type.fields), *self.constant_types]
        return [
            running_value(i, call, [types[a] for a in call.arg_list], self.constants, self.frame.bounded)
            for i, call in enumerate(self.agg_calls)
        ]

    @cached_property
    def _call_columns(self) -> dict[str, pl.DataType]:
        """The columns of all calls."""
        return {n: t for run in self.runs for n, t in run.columns.items()}

    @cached_property
    def _own(self) -> dict[str, pl.DataType]:
        """The columns of a partition besides its key and those of the calls."""
        return {}

    @cached_property
    def _distinct(self) -> list[int]:
        """The arguments of DISTINCT calls of a frame without a bound: their values are kept."""
        if self.frame.bounded:
            return []
        return sorted({c.arg_list[0] for c in self.agg_calls if is_distinct(c)})

    @cached_property
    def _initial(self) -> pl.DataFrame:
        values = {n: v for run in self.runs for n, v in run.initial.items()}
        return pl.DataFrame({n: pl.Series([values[n]], dtype=t) for n, t in self._call_columns.items()})

    def _partition_table(self, due: str | None = None) -> StateTable:
        column_types = {k: self._columns[k] for k in self._keys}
        for i, run in enumerate(self.runs):
            column_types |= call_columns(i, run.columns)
        return StateTable(STATE, 0, self._keys, self._keys, column_types | own_columns(self._own), due)

    def _row_table(self) -> StateTable:
        schema = {**self._columns, **own_columns({NUMBER: pl.Int64(), AT: pl.Int64()})}
        return StateTable(f"{STATE}.rows", 0, self._keys, (*self._keys, NUMBER), schema)

    def _value_tables(self) -> list[StateTable]:
        out = []
        for a in self._distinct:
            names = _once([*self._keys, column(a)])
            schema = {**{n: self._columns[n] for n in names}, **own_columns({BORN: pl.Int64()})}
            out.append(StateTable(f"{STATE}.distinct{a}", 0, names, names, schema, access=Access(use="deduplicated")))
        return out

    def _values_lookup(self, parts: Sequence[pl.DataFrame]) -> list[pl.DataFrame | None]:
        out: list[pl.DataFrame | None] = []
        for a in self._distinct:
            names = list(_once([*self._keys, column(a)]))
            frames = [p[names] for p in parts if p.height]
            out.append(pl.concat(frames) if frames else None)
        return out

    # the aggregates

    def _aggregate(
        self, walk: Walk, before: pl.DataFrame, values: Sequence[pl.DataFrame], born: Ints
    ) -> tuple[pl.DataFrame, pl.DataFrame, list[pl.DataFrame]]:
        """(output rows, columns of the calls after, per table of values the new ones).

        Args:
            before: the columns of the calls, one row per partition.
            values: per table of values the ones found.
            born: per partition since when it is there; only values of then count.
        """
        first: dict[int, Bools] = {}
        fresh: list[pl.DataFrame] = []
        for a, value_rows in zip(self._distinct, values, strict=True):
            first[a] = self._first_of(walk, column(a), value_rows, born)
            names = list(_once([*self._keys, column(a)]))
            rows = np.flatnonzero(first[a])
            fresh.append(walk.frame[names][rows].with_columns(pl.Series(BORN, born[walk.owners[rows]])))
        rows_out, after = self._values(walk, before, first)
        return rows_out, after, fresh

    def _values(
        self, walk: Walk, before: pl.DataFrame, first: Mapping[int, Bools]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """(output rows, columns of the calls after).

        Args:
            before: the columns of the calls, one row per partition.
            first: per argument of a DISTINCT call of a frame without a bound, the rows whose value is the first such
                one of their partition.
        """
        width = len(self.input_type.fields)
        frame = walk.frame.with_columns(
            pl.lit(v, dtype=self.constant_types[int(n[1:]) - width].polars()).alias(n)
            for n, v in self.constants.items()
        )
        out: list[pl.Series] = []
        after: list[pl.Series] = []
        for call, run in zip(self.agg_calls, self.runs, strict=True):
            frame_rows = self._frame_rows(call, run, walk, frame, first)
            value, new_state = run.run(before[list(run.columns)], frame_rows)
            out.append(value.cast(call.type.polars()))
            after += [s.alias(n) for s, n in zip(new_state, run.columns, strict=True)]
        results = [s.alias(column(width + i)) for i, s in enumerate(out)]
        return walk.frame[list(self._fields)][walk.output_rows].hstack(results), frame_of(after, walk.parts)

    def _first_of(self, walk: Walk, name: str, value_rows: pl.DataFrame, born: Ints) -> Bools:
        """The rows whose value their partition did not have before."""
        names = list(_once([*self._keys, name]))
        ids, (theirs, mine) = ids_of((value_rows[names], walk.frame[names]), names)
        at = positions(theirs, ids.count)[mine]
        old = at >= 0
        if value_rows.height:
            old &= value_rows[BORN].to_numpy()[np.maximum(at, 0)] == born[walk.owners]
        first = np.zeros(len(mine), bool)
        first_rows = np.full(ids.count, len(mine), np.int64)
        np.minimum.at(first_rows, mine, np.arange(len(mine)))
        first[first_rows[first_rows < len(mine)]] = True
        first &= ~old
        return first

    def _frame_rows(
        self, call: AggCall, run: RunningValue, walk: Walk, frame: pl.DataFrame, first: Mapping[int, Bools]
    ) -> FrameRows:
        names = [column(a) for a in call.arg_list]
        values = frame[names[0]] if names else None
        if call.user_function is not None and len(names) > 1:
            values = frame.select(pl.struct(pl.col(n).alias(str(i)) for i, n in enumerate(names))).to_series()
        rows = np.ones(frame.height, bool)
        if values is not None and not run.sees_nulls and values.null_count():
            rows = values.is_not_null().to_numpy()
        if call.filter_arg >= 0:
            rows = rows & frame[column(call.filter_arg)].fill_null(False).to_numpy()
        if not is_distinct(call):
            live = walk.live(rows)
        elif walk.bounded:
            live = distinct_of_frames(walk, names[:1], rows)
        else:
            live = walk.live(rows & first[call.arg_list[0]])
        others = [frame[n] for n in names[1:3]] if call.user_function is None else []
        return FrameRows(walk, values, live, rows, *others)

    def _play(
        self,
        rows: pl.DataFrame,
        partitions: pl.DataFrame,
        stored_rows: pl.DataFrame,
        values: Sequence[pl.DataFrame],
        now: int,
        peers: bool = False,
    ) -> Playback:
        """Takes new rows into the aggregates of their partitions.

        Args:
            rows: with their time and number.
            partitions: the partitions that are there.
            stored_rows: the rows in their frames.
            values: per table of values the ones found.
            now: since when partitions are there that were not.
            peers: whether rows of one time have one frame although it is not bounded.
        """
        ids, (mine, theirs, old) = ids_of((rows, partitions, stored_rows), self._keys)
        firsts = np.full(ids.count, rows.height, np.int64)
        np.minimum.at(firsts, mine, np.arange(rows.height))
        first = np.sort(firsts[firsts < rows.height])
        number = positions(mine[first], ids.count)
        place = positions(theirs, ids.count)[mine[first]]
        row_numbers = np.flatnonzero(number[old] >= 0)
        owners = np.concatenate([number[old[row_numbers]], number[mine]])
        names = [*self._fields, AT, NUMBER, ACCESS_TIME]
        new = rows.with_columns(pl.lit(None, dtype=pl.Int64).alias(ACCESS_TIME))
        both = pl.concat([stored_rows[names][row_numbers], new[names]], rechunk=True)
        is_held = np.arange(both.height) < len(row_numbers)
        order = np.lexsort((both[NUMBER].to_numpy(), both[AT].to_numpy(), ~is_held, owners))
        both = both[order]
        walk = Walk(both, owners[order], is_held[order], len(first), both[AT].to_numpy(), self.frame, peers)
        born = np.full(len(first), now)
        if BORN in self._own:
            born = np.append(partitions[BORN].to_numpy(), now)[place]
        before = self._before(partitions, place)
        out, after, fresh = self._aggregate(walk, before, values, born)
        return Playback(out, narrow(rows, self._keys)[first], place, after, walk, fresh, number[mine])

    def replayed(self, partitions: pl.DataFrame, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What calls keep of the rows of a frame with a bound: their columns, a row per partition, and the rows that
        later frames may contain.

        Args:
            partitions: the partitions, with their keys.
            rows: rows of the table of rows. Partitions that have none begin empty.
        """
        tables = self._partition_table(), self._row_table()
        none = [pl.DataFrame(schema={**t.schema, ACCESS_TIME: pl.Int64()}) for t in tables]
        if not rows.height:
            return self._before(none[0], np.full(partitions.height, -1)), rows
        playback = self._play(rows, none[0], none[1], [], 0)
        ids, (played, places) = ids_of((playback.keys, partitions), self._keys)
        after = playback.keys.hstack(playback.after.get_columns())
        walk, identity = playback.walk, [*self._keys, NUMBER]
        stays = absent(rows, identity, walk.frame[identity].filter(pl.Series(walk.left)))
        return self._before(after, positions(played, ids.count)[places]), rows[stays]

    def _before(self, partitions: pl.DataFrame, place: Ints) -> pl.DataFrame:
        """The columns of the calls, per partition."""
        if not self._call_columns:
            return pl.DataFrame(height=len(place))
        return pl.concat([partitions[list(self._call_columns)], self._initial])[
            np.where(place < 0, partitions.height, place)
        ]

    def _rows_written(
        self, walk: Walk, stamps: Ints, is_cleared: Bools | None = None
    ) -> tuple[pl.DataFrame | None, pl.DataFrame]:
        """(rows to write, identities to delete) of the table of rows.

        Args:
            stamps: per row of the walk its time of access.
            is_cleared: per partition whether it is gone with all its rows, which are not mentioned then.
        """
        stays = ~walk.left
        stays_there = np.ones(len(stays), bool) if is_cleared is None else ~is_cleared[walk.owners]
        was = walk.frame[ACCESS_TIME].fill_null(-1).to_numpy()
        write = np.flatnonzero(stays_there & stays & (~walk.in_state | (was != stamps)))
        rows = walk.frame[[*self._fields, NUMBER, AT]][write]
        removed_rows = np.flatnonzero(stays_there & walk.in_state & ~stays)
        return with_stamps(rows, stamps[write]) if len(write) else None, walk.frame[[*self._keys, NUMBER]][removed_rows]

    def _rows_in_reach(self, stored_rows: pl.DataFrame, partitions: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of partitions that are there, and the identities of the others."""
        ids, (theirs, mine) = ids_of((partitions, stored_rows), self._keys)
        alive = positions(theirs, ids.count)[mine] >= 0
        stale = np.flatnonzero(~alive)
        return (stored_rows if not len(stale) else stored_rows[np.flatnonzero(alive)]), stored_rows[
            [*self._keys, NUMBER]
        ][stale]

    def _empty(self) -> pl.DataFrame:
        """No output row."""
        width = len(self.input_type.fields)
        results = {column(width + i): c.type.polars() for i, c in enumerate(self.agg_calls)}
        return pl.DataFrame(schema={**self._fields, **results})


def wide(keys: pl.DataFrame, state_values: pl.DataFrame, own: Mapping[str, Ints]) -> pl.DataFrame:
    """Rows of the table of partitions, without their time of access."""
    series = [
        *keys.get_columns(),
        *state_values.get_columns(),
        *(pl.Series(n, v, dtype=pl.Int64) for n, v in own.items()),
    ]
    return frame_of(series, keys.height)


def with_more(some: pl.DataFrame | None, more: pl.DataFrame, upserts: pl.DataFrame | None) -> pl.DataFrame | None:
    """Deletions and further ones, without those of rows that are written."""
    if upserts is not None and more.height:
        more = more[absent(more, more.columns, upserts)]
    both = more if some is None else pl.concat([some, more])
    return both if both.height else None


def _once(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
