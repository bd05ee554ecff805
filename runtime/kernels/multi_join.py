"""Joins of several inputs on a common key, without state for the results in between.

Source of the semantics: Flink's ``StreamingMultiJoinOperator`` (FLIP-516).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, LogicalType
from stateplan.execnodes.node_text import joined_names
from stateplan.functions.rex import InputRef, Rex
from stateplan.runtime.kernel import Frames, Kernel, StateTable, Step, field_columns
from stateplan.runtime.kernels.common.join_state import Side, side_of, without
from stateplan.runtime.kernels.common.key_ids import (
    ids_of,
    is_retraction,
    positions,
    ranks,
    signs,
    stable_order,
    state_columns,
    with_kind,
    with_stamps,
)
from stateplan.runtime.transforms.calc import CalcTransform

_SIGN = "@d"


@dataclass(frozen=True)
class MultiJoinKernel(Kernel):
    """N inputs, joined from left to right, INNER or LEFT each, all on one common key.

    What a micro-batch changes is found per common key. Where all joins are INNER: for each input, its changes meet the
    inputs before it as they are now and those behind it as they were. With a LEFT join among them the results of the
    touched keys are computed as they were and as they are, and their difference is emitted. A retraction of a row that
    is not there, as it may have expired, counts as if the row had been there: it retracts what it meets, as in Flink.

    Output is -D and +I; what comes and goes within a batch is not mentioned.

    State per input: as for the sides of an inner join, see :class:`runtime.kernels.join.JoinKernel`, looked
    up by the common key. Rows whose common key is NULL match nothing and are kept too: a LEFT join answers them.

    Flink keys an input by any unique key, also by one for which changes arrive out of order (see
    :mod:`execnodes.arrival_order`). There, the retraction of a row removes the newer row of its key, if that arrived
    first. Here, such an input has no unique key: a row of it is there as often as it was inserted.

    Attributes:
        input_types: ROW type of each input.
        join_types: INNER or LEFT per input; the first one means nothing.
        conditions: per input, over the fields of all inputs up to it; None for none.
        pairs: per input, (input, field, own field) that its equi-join wants to be equal.
        keys: per input, the fields of the common key.
        unique_keys: per input, its unique keys.
        time_zone: the session's time zone, for the conditions.
        out_of_order: the inputs of which a row may arrive before the one of its key that it replaces.
    """

    input_types: tuple[LogicalType, ...]
    join_types: tuple[str, ...]
    conditions: tuple[Rex | None, ...]
    pairs: tuple[tuple[tuple[int, int, int], ...], ...]
    keys_of_inputs: tuple[tuple[int, ...], ...]
    unique_keys: tuple[tuple[tuple[int, ...], ...], ...]
    time_zone: str = "UTC"
    out_of_order: frozenset[int] = frozenset()

    @cached_property
    def _offsets(self) -> list[int]:
        widths = [len(t.fields) for t in self.input_types]
        return [sum(widths[:i]) for i in range(len(widths))]

    @cached_property
    def _sides(self) -> tuple[Side, ...]:
        out = []
        for i, row in enumerate(self.input_types):
            side = side_of(
                0,
                row,
                self.keys_of_inputs[i],
                self.unique_keys[i],
                self._offsets[i],
                counts_copies=False,
                out_of_order=i in self.out_of_order,
            )
            own = {**side.table.columns, **field_columns(row, i)}
            out.append(replace(side, table=replace(side.table, name=f"input-state-{i}", slot=i, columns=own)))
        return tuple(out)

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        return tuple(side.table for side in self._sides)

    @cached_property
    def _filters(self) -> list[CalcTransform | None]:
        """Per input what keeps the rows that meet its condition, with a number and a sign behind their fields."""
        fields = [f for row in self.input_types for f in row.fields]
        out: list[CalcTransform | None] = []
        for i, condition in enumerate(self.conditions):
            if i == 0 or condition is None:
                out.append(None)
                continue
            width = self._width_of(i)
            refs = [InputRef(f.type, n) for n, f in enumerate(fields[:width])]
            extra = [InputRef(BIGINT.not_null(), width + n) for n in range(2)]
            names = joined_names(self.input_types)
            out.append(CalcTransform((*refs, *extra), condition, self.time_zone, names=names))
        return out

    def _width_of(self, i: int) -> int:
        """Fields of the joined row up to input ``i``."""
        return self._offsets[i] + len(self.input_types[i].fields)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        """As all inputs meet: every common key of the batch, asked of every input."""
        frames = self._with_keys(inputs)
        filled_inputs = [(side, frame) for side, frame in zip(self._sides, frames, strict=True) if frame.height]
        if not filled_inputs:
            return [None] * len(frames)
        out: list[pl.DataFrame | None] = []
        for own in self._sides:
            if not own.keys:
                out.append(filled_inputs[0][1][:1])
                continue
            parts = []
            for side, frame in filled_inputs:
                pairs = dict(zip(own.keys, side.keys, strict=True))
                parts.append(
                    frame.select(
                        pl.col(theirs).cast(own.table.schema[ours]).alias(ours) for ours, theirs in pairs.items()
                    )
                )
            out.append(pl.concat(parts))
        return out

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        upserts: list[pl.DataFrame | None] = []
        deletes: list[pl.DataFrame | None] = []
        before: list[pl.DataFrame] = []
        changes: list[pl.DataFrame | None] = []
        after: list[pl.DataFrame] = []
        frames = self._with_keys(inputs)
        for side, frame, state_rows in zip(self._sides, frames, state, strict=True):
            rows = state_rows[side.fields]
            if not frame.height:
                upserts.append(None)
                deletes.append(None)
                before.append(rows)
                changes.append(None)
                after.append(rows)
                continue
            change = side.change(frame, state_rows, has_state=True)
            upserts.append(with_stamps(change.upserts, now) if change.upserts.height else None)
            deletes.append(change.deletes)
            missing_rows = _absent_rows(side, frame, rows)
            going = pl.concat([rows[change.removals], missing_rows], rechunk=True)
            before.append(pl.concat([rows, missing_rows], rechunk=True))
            changes.append(_difference(going, change.new))
            after.append(pl.concat([without(rows, change.removals), change.new], rechunk=True))
        out = self._changed_rows(before, changes, after, now)
        return Step(self._output(out, any(KIND in frame.columns for frame in inputs)), upserts, deletes)

    def _with_keys(self, inputs: Frames) -> list[pl.DataFrame]:
        """The rows that may come out: those with a common key, and those of the first input that need none."""
        return [
            frame if self.keeps_nulls(i) else frame.drop_nulls(side.keys) if side.keys else frame
            for i, (side, frame) in enumerate(zip(self._sides, inputs, strict=True))
        ]

    def keeps_nulls(self, number: int) -> bool:
        """Whether rows of an input are kept whose common key is NULL."""
        return number == 0 and set(self.join_types[1:]) == {"LEFT"}

    @property
    def _is_inner(self) -> bool:
        return "LEFT" not in self.join_types[1:]

    def _changed_rows(
        self,
        before: Sequence[pl.DataFrame],
        changes: Sequence[pl.DataFrame | None],
        after: Sequence[pl.DataFrame],
        now: int,
    ) -> pl.DataFrame:
        """The joined rows that come and go, with signs."""
        names = columns(self._width_of(len(self._sides) - 1))
        if not self._is_inner:
            return _difference(self._join_all(before, now)[names], self._join_all(after, now)[names])
        parts = [
            self._join_all([*after[:i], rows, *before[i + 1 :]], now)
            for i, rows in enumerate(changes)
            if rows is not None and rows.height
        ]
        if not parts:
            types = [t for row in self.input_types for t in state_columns(row).values()]
            return pl.DataFrame(schema={**dict(zip(names, types, strict=True)), _SIGN: pl.Int64()})
        signed_rows = pl.concat(parts)
        sign = signed_rows[_SIGN].to_numpy()
        if (sign > 0).all():
            return signed_rows
        rows = signed_rows[names]
        return _difference(rows[np.flatnonzero(sign < 0)], rows[np.flatnonzero(sign > 0)])

    def _output(self, signed_rows: pl.DataFrame, kinds: bool) -> pl.DataFrame:
        rows = signed_rows.drop(_SIGN)
        if self._is_inner and not kinds:
            return rows
        kind = np.where(signed_rows[_SIGN].to_numpy() < 0, RowKind.DELETE, RowKind.INSERT).astype(np.int8)
        return with_kind(rows, kind)

    def _join_all(self, frames: Sequence[pl.DataFrame], now: int) -> pl.DataFrame:
        """The result of the joins over rows of each input, with the sign of the one that has signs."""
        out = self._with_input_names(0, frames[0])
        for i in range(1, len(frames)):
            out = self._join(i, out, self._with_input_names(i, frames[i]), now)
        return out

    def _with_input_names(self, i: int, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of input ``i`` with the names they have in the joined row."""
        side = self._sides[i]
        extra = [_SIGN] if _SIGN in frame.columns else []
        out = frame[[*side.fields, *extra]]
        out.columns = [*side.output, *extra]
        return out

    def _join(self, i: int, left: pl.DataFrame, right: pl.DataFrame, now: int) -> pl.DataFrame:
        own, width = self._offsets[i], self._width_of(i)
        names, extra = columns(width), [column(width), column(width + 1)]
        pairs = dict.fromkeys((column(self._offsets[a] + b), column(own + c)) for a, b, c in self.pairs[i])
        number, sign = extra
        left = left.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(number))
        if pairs:
            own_keys, other_keys = [a for a, _ in pairs], [b for _, b in pairs]
            matches = left.join(right, how="inner", coalesce=False, left_on=own_keys, right_on=other_keys)
        else:
            matches = left.join(right, how="cross")
        has_sign = _SIGN in matches.columns
        matches = matches.rename({_SIGN: sign}) if has_sign else matches.with_columns(pl.lit(1, pl.Int64).alias(sign))
        keep = self._filters[i]
        matches = matches[[*names, *extra]]
        if keep is not None:
            matches = keep(matches, now)
        if self.join_types[i] == "LEFT":
            lone = left.join(matches.select(number), on=number, how="anti", maintain_order="left")
            matches = pl.concat([matches, lone], how="diagonal")
        matches = matches[[*names, sign]].rename({sign: _SIGN})
        return matches if has_sign else matches.drop(_SIGN)


def _absent_rows(side: Side, frame: pl.DataFrame, state_rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that are retracted by ``frame`` but are neither in ``state_rows`` nor inserted before."""
    retractions = is_retraction(frame)
    rows = frame[side.fields]
    if retractions is None:
        return rows[:0]
    by = list(side.table.identity) if side.unique else side.fields
    ids, (codes, before) = ids_of((rows, state_rows), by)
    start = np.bincount(before, minlength=ids.count)
    if side.unique:
        first = positions(codes[::-1], ids.count)
        first = np.where(first >= 0, len(codes) - 1 - first, -1)
        missing_rows = first[(first >= 0) & (start == 0)]
        return rows[np.sort(missing_rows[retractions[missing_rows]])]
    change = signs(frame)
    assert change is not None
    order = stable_order(codes)
    sorted_codes, totals = codes[order], np.cumsum(change[order])
    starts = np.flatnonzero(np.r_[True, sorted_codes[1:] != sorted_codes[:-1]])
    base = np.repeat(totals[starts] - change[order][starts], np.diff(np.r_[starts, len(order)]))
    lowest = np.minimum.reduceat(totals - base, starts)
    numbers = sorted_codes[starts]
    deficits = np.maximum(0, -(lowest + start[numbers]))
    return rows[np.repeat(order[starts], deficits)]


def _difference(was: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """The rows that ``was`` has more often than ``now``, with sign -1, then those that ``now`` has more often."""
    ids, (old, new) = ids_of((was, now), was.columns)
    both = np.minimum(np.bincount(old, minlength=ids.count), np.bincount(new, minlength=ids.count))
    going, coming = (np.flatnonzero(ranks(codes) >= both[codes]) for codes in (old, new))
    sign = np.r_[np.full(len(going), -1, np.int64), np.ones(len(coming), np.int64)]
    return pl.concat([was[going], now[coming]]).with_columns(pl.Series(_SIGN, sign))
