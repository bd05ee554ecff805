"""Regular joins: every row ever seen on one side meets every row ever seen on the other.

Source of the semantics: Flink's ``StreamingJoinOperator``, ``JoinRecordStateViews`` and ``JoinUtil.analyzeJoinInput``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from execnodes.changelog import KIND, RowKind, column, columns
from execnodes.errors import RunError
from execnodes.rex import InputRef
from execnodes.runtime.calc import CalcTransform
from execnodes.runtime.kernel import StateTable, Step
from execnodes.runtime.kernels._net import (
    FrozenKernel,
    Ints,
    ids_of,
    is_retraction,
    key_ids,
    net_rows,
    positions,
    replay,
    signs,
    stamped,
    state_columns,
    with_kind,
)
from execnodes.specs import JoinSpec
from execnodes.types import LogicalType

__all__ = ["JoinKernel"]

_OCCURRENCE = "@s"


@dataclass(frozen=True)
class _Change:
    """What a batch does to the state of one side.

    Attributes:
        upserts: rows to write, without ``@t``.
        deletes: identities to remove.
        gone: rows of the side's state that are no more.
        new: rows that are there now, with the side's fields alone.
    """

    upserts: pl.DataFrame
    deletes: pl.DataFrame | None
    gone: Ints
    new: pl.DataFrame


@dataclass(frozen=True)
class _Side:
    """One side of a join.

    Attributes:
        table: its state.
        keys: columns of the equi-join key.
        fields: its columns.
        output: the names of its columns in the joined row.
        unique: whether a row is identified by a unique key (with the join key); else equal rows are counted.
    """

    table: StateTable
    keys: list[str]
    fields: list[str]
    output: list[str]
    unique: bool

    def in_output(self, frame: pl.DataFrame, kind: bool) -> pl.DataFrame:
        """The rows with the names they have in the joined row."""
        extra = [KIND] if kind and KIND in frame.columns else []
        out = frame[[*self.fields, *extra]]
        out.columns = [*self.output, *extra]
        return out

    @property
    def output_keys(self) -> list[str]:
        return [self.output[self.fields.index(key)] for key in self.keys]

    def change(self, frame: pl.DataFrame, state: pl.DataFrame, met: bool) -> _Change:
        """What the rows of ``frame`` do to this side, of which ``state`` holds a part: see :class:`JoinKernel`.

        Args:
            met: whether the other side will meet what is left, so that ``gone`` is needed.
        """
        if self.unique:
            return self._change_rows(frame, state if met else state[:0])
        return self._change_occurrences(frame, state)

    def _change_rows(self, frame: pl.DataFrame, state: pl.DataFrame) -> _Change:
        """By unique key: the last change decides, whatever was there before."""
        identity = list(self.table.identity)
        ids, (codes, before) = ids_of((frame, state), identity)
        last = positions(codes, ids.count)
        touched = last >= 0
        rows = np.sort(last[touched])
        gone = np.flatnonzero(touched[before])
        retracted = is_retraction(frame)
        dead = np.zeros(0, np.int64) if retracted is None else rows[retracted[rows]]
        if retracted is not None:
            rows = rows[~retracted[rows]]
        new = frame[self.fields] if len(rows) == frame.height else frame[self.fields][rows]
        return _Change(new, frame[identity][dead] if len(dead) else None, gone, new)

    def _change_occurrences(self, frame: pl.DataFrame, state: pl.DataFrame) -> _Change:
        """Without unique key: a row is there as often as it was inserted. What was retracted, or what is equal to that,
        is replayed row by row and written anew, so that all its occurrences are accessed now, as in Flink."""
        rows = frame[self.fields]
        change = signs(frame)
        gone = np.zeros(0, np.int64)
        if change is not None:
            ids, (codes, before) = ids_of((rows, state), self.fields)
            touched = np.zeros(ids.count, bool)
            touched[codes[change < 0]] = True
            replayed = np.flatnonzero(touched[codes])
            _, final = replay(codes[replayed], change[replayed], np.bincount(before, minlength=ids.count))
            numbers = np.flatnonzero(touched)
            copies = np.repeat(positions(codes, ids.count)[numbers], final[numbers])
            rows = rows[np.concatenate([np.flatnonzero(~touched[codes]), copies])]
            gone = np.flatnonzero(touched[before])
        # Occurrences are told apart by a number that needs no look at the state: a random start per batch.
        occurrence = np.arange(rows.height) + secrets.randbits(62)
        deletes = state[list(self.table.identity)][gone] if len(gone) else None
        return _Change(rows.hstack([pl.Series(_OCCURRENCE, occurrence)]), deletes, gone, rows)


@dataclass(frozen=True)
class JoinKernel(FrozenKernel):
    """INNER join, possibly with a further condition over left ++ right.

    A micro-batch is one of the orders in which Flink may see it: first all rows of the left input meet the right side
    as it was, then all rows of the right input meet the left side as it is now. An output row has the kind of the input
    row that caused it. A retraction meets the other side whether or not its row is known, as in Flink. Insertions and
    retractions of one row within a batch cancel each other first, but for a +U with a -D (without -U in the stream,
    that is the deletion of an older row).

    State per side, one of (Flink's names):

    * JoinKeyContainsUniqueKey: one row per join key, HasUniqueKey: one row per join key and unique key. The last change
      decides. Neither reads its own side.
    * NoUniqueKey: a row per occurrence. An insertion is written without reading its own side; the own side is read
      for the join keys of retractions only. Differs from Flink in one respect: there, all occurrences of equal rows are
      one entry with one time of access; here, an insertion does not refresh equal rows that came before it.

    Rows whose key is NULL where NULLs do not match are neither joined nor kept.

    Attributes:
        left_type, right_type: ROW types of the inputs.
        spec: the equi-join keys and the further condition.
        left_upsert_keys, right_upsert_keys: unique keys of the inputs.
        time_zone: the session's time zone, for the condition.

    Raises:
        RunError: RUN062, for a join type other than INNER.
    """

    left_type: LogicalType
    right_type: LogicalType
    spec: JoinSpec
    left_upsert_keys: tuple[tuple[int, ...], ...] = ()
    right_upsert_keys: tuple[tuple[int, ...], ...] = ()
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.spec.join_type != "INNER":
            raise RunError("RUN062", f"a join of type {self.spec.join_type} cannot be run", expected="INNER")

    @cached_property
    def _sides(self) -> tuple[_Side, _Side]:
        width = len(self.left_type.fields)
        return (
            _side("leftState", 0, self.left_type, self.spec.left_keys, self.left_upsert_keys, 0),
            _side("rightState", 1, self.right_type, self.spec.right_keys, self.right_upsert_keys, width),
        )

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        return tuple(side.table for side in self._sides)

    @cached_property
    def _condition(self) -> CalcTransform | None:
        if self.spec.non_equi_condition is None:
            return None
        fields = [*self.left_type.fields, *self.right_type.fields]
        return CalcTransform(
            tuple(InputRef(f.type, i) for i, f in enumerate(fields)), self.spec.non_equi_condition, self.time_zone
        )

    def keys(self, inputs: Sequence[pl.DataFrame]) -> list[pl.DataFrame | None]:
        frames = [self._joinable(side, frame) for side, frame in zip(self._sides, inputs, strict=True)]
        out: list[pl.DataFrame | None] = []
        for side, own, other_side, other in zip(self._sides, frames, self._sides[::-1], frames[::-1], strict=True):
            parts = []
            if other.height:
                wanted = dict(zip(side.keys, other_side.keys, strict=True))
                parts.append(
                    pl.DataFrame([other[theirs].alias(ours) for ours, theirs in wanted.items()])
                    if wanted
                    else other[:1]
                )
            retracted = None if side.unique else is_retraction(own)
            if retracted is not None and (side.keys or not parts):
                parts.append(own[list(side.table.lookup) or own.columns][np.flatnonzero(retracted)])
            out.append(pl.concat(parts) if parts else None)
        return out

    def process(
        self, inputs: Sequence[pl.DataFrame], state: Sequence[pl.DataFrame], now: int, ttl: Sequence[int]
    ) -> Step:
        """One micro-batch; see :class:`execnodes.runtime.kernel.Kernel`."""
        left_side, right_side = self._sides
        left = self._joinable(left_side, inputs[0])
        right = self._joinable(right_side, inputs[1])
        left_state, right_state = state
        parts = []
        left_change = left_side.change(left, left_state, met=right.height > 0) if left.height else None
        right_change = right_side.change(right, right_state, met=False) if right.height else None
        if left.height and right_state.height:
            parts.append(self._match(0, _netted(left, left_side), right_state, now))
        if right.height:
            present = left_state[left_side.fields]
            if left_change is not None:
                present = pl.concat([_without(present, left_change.gone), left_change.new], rechunk=True)
            if present.height:
                parts.append(self._match(1, _netted(right, right_side), present, now))
        kinds = any(KIND in frame.columns for frame in inputs)
        return Step(
            self._output(parts, kinds),
            [
                None if c is None or not c.upserts.height else stamped(c.upserts, now)
                for c in (left_change, right_change)
            ],
            [None if c is None else c.deletes for c in (left_change, right_change)],
        )

    def _joinable(self, side: _Side, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows that can have a match."""
        for key, filtered in zip(side.keys, self.spec.filter_nulls, strict=True):
            if filtered and frame[key].null_count():
                frame = frame[np.flatnonzero(frame[key].is_not_null().to_numpy())]
        return frame

    def _match(self, side: int, rows: pl.DataFrame, others: pl.DataFrame, now: int) -> pl.DataFrame:
        """The joined rows of ``rows``, which are of side number ``side``; with retractions in their order, else in any
        (which lets the smaller frame be hashed)."""
        own, other = self._sides[side], self._sides[1 - side]
        first, second = own.in_output(rows, kind=True), other.in_output(others, kind=False)
        order: Literal["left", "none"] = "none" if is_retraction(rows) is None else "left"
        if own.keys:
            pairs = dict.fromkeys(zip(own.output_keys, other.output_keys, strict=True))
            out = first.join(
                second,
                left_on=[a for a, _ in pairs],
                right_on=[b for _, b in pairs],
                how="inner",
                coalesce=False,
                nulls_equal=not all(self.spec.filter_nulls),
                maintain_order=order,
            )
        else:
            out = first.join(second, how="cross", maintain_order=order)
        return out if self._condition is None else self._condition(out, now)

    def _output(self, parts: Sequence[pl.DataFrame], kinds: bool) -> pl.DataFrame:
        names = columns(len(self.left_type.fields) + len(self.right_type.fields))
        if not parts:
            types = [*state_columns(self.left_type).values(), *state_columns(self.right_type).values()]
            schema = dict(zip(names, types, strict=True))
            return pl.DataFrame(schema={**schema, KIND: pl.Int8()} if kinds else schema)
        if kinds:
            names = [*names, KIND]
            parts = [p if KIND in p.columns else with_kind(p, np.zeros(p.height, np.int8)) for p in parts]
        return parts[0][names] if len(parts) == 1 else pl.concat([p[names] for p in parts])


def _side(
    name: str, slot: int, row: LogicalType, keys: Sequence[int], upsert_keys: Sequence[Sequence[int]], offset: int
) -> _Side:
    """The kind of state a side needs: with several unique keys the first one within the join key, else the shortest."""
    key_columns = columns(keys)
    schema = state_columns(row)
    fields = list(schema)
    unique: list[str] | None = None
    if upsert_keys:
        within = any(set(upsert) <= set(keys) for upsert in upsert_keys)
        unique = [] if within else columns(min(upsert_keys, key=len))
    lookup = tuple(dict.fromkeys(key_columns))
    identity = tuple(dict.fromkeys([*lookup, *(unique if unique is not None else [_OCCURRENCE])]))
    if unique is None:
        schema[_OCCURRENCE] = pl.Int64()
    output = [column(offset + i) for i in range(len(fields))]
    return _Side(StateTable(name, slot, lookup, identity, schema), key_columns, fields, output, unique is not None)


def _without(frame: pl.DataFrame, rows: Ints) -> pl.DataFrame:
    if not len(rows):
        return frame
    keep = np.ones(frame.height, bool)
    keep[rows] = False
    return frame[np.flatnonzero(keep)]


def _netted(frame: pl.DataFrame, side: _Side) -> pl.DataFrame:
    """The rows that are left when equal rows that come and go within the batch are dropped."""
    change = signs(frame)
    if change is None:
        return frame
    ids = key_ids(frame, side.fields)
    if ids.count == frame.height:
        return frame
    kinds = frame[KIND].to_numpy()
    updated, deleted = np.zeros(ids.count, bool), np.zeros(ids.count, bool)
    updated[ids.codes[kinds == RowKind.UPDATE_AFTER]] = True
    deleted[ids.codes[kinds == RowKind.DELETE]] = True
    fixed = (updated & deleted)[ids.codes]
    if not fixed.any():
        rows = net_rows(ids.codes, change, ids.count)
        return frame if rows is None else frame[rows]
    free = np.flatnonzero(~fixed)
    rows = net_rows(ids.codes[free], change[free], ids.count)
    return frame if rows is None else frame[np.sort(np.concatenate([free[rows], np.flatnonzero(fixed)]))]
