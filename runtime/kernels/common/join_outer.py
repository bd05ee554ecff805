"""A step of a join whose rows may be kept, or omitted, for want of a match: outer, semi and anti joins.

Source: Flink's ``StreamingJoinOperator`` (LEFT, RIGHT, FULL) and ``StreamingSemiAntiJoinOperator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import KIND, RowKind, columns
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, LogicalType
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.specs import JoinSpec
from stateplan.functions.rex import InputRef
from stateplan.runtime.kernel import Frames, Step
from stateplan.runtime.kernels.common.join_state import CountedRows, PlainRows, Side, with_before_images
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    ids_of,
    key_ids,
    net_rows,
    nulls,
    positions,
    ranks,
    signs,
    with_kind,
    without_match,
)
from stateplan.runtime.transforms.calc import CalcTransform

_PAIRS = 1 << 22
"""Pairs of rows looked at in one go, where there is no key that says which may match."""

_OWN, _OTHER = "@i", "@j"

Kinds: TypeAlias = npt.NDArray[np.int8]
Rows: TypeAlias = PlainRows | CountedRows


def joinable(side: Side, frame: pl.DataFrame, filter_nulls: Sequence[bool]) -> Ints | None:
    """The rows that can have a match: without NULL in a key where NULL matches nothing. None for all."""
    out = without_match(frame, side.keys, filter_nulls)
    return np.flatnonzero(~out) if out.any() else None


def keeps_order(frame: pl.DataFrame, side: Side) -> bool:
    """Whether the order of its changes matters: not when all are insertions, of which none replaces a row."""
    return side.upserts or (KIND in frame.columns and bool(frame[KIND].to_numpy().any()))


def netted_rows(frame: pl.DataFrame, side: Side) -> Ints | None:
    """The rows that are left when equal rows that come and go within the batch are dropped, None for all.

    A +U with a -D stays: without -U in the stream that is the deletion of an older row. There a +I may be an update
    too. With it stays all that the batch does to that row's key, so that the last of it is the last for a table with
    that key. Where the -U was added, both go.
    """
    change = signs(frame)
    if change is None:
        return None
    ids = key_ids(frame, side.fields)
    if ids.count == frame.height:
        return None
    if side.replaces:
        return net_rows(ids.codes, change, ids.count)
    kinds = frame[KIND].to_numpy()
    has_update, has_delete = np.zeros(ids.count, bool), np.zeros(ids.count, bool)
    has_update[ids.codes[(kinds == RowKind.UPDATE_AFTER) | (side.upserts & (kinds == RowKind.INSERT))]] = True
    has_delete[ids.codes[kinds == RowKind.DELETE]] = True
    stays_whole = (has_update & has_delete)[ids.codes]
    if not stays_whole.any():
        return net_rows(ids.codes, change, ids.count)
    if side.unique:
        entries = key_ids(frame, list(side.table.identity))
        among = np.zeros(entries.count, bool)
        among[entries.codes[stays_whole]] = True
        stays_whole = among[entries.codes]
    free = np.flatnonzero(~stays_whole)
    rows = net_rows(ids.codes[free], change[free], ids.count)
    return None if rows is None else np.sort(np.concatenate([free[rows], np.flatnonzero(stays_whole)]))


@dataclass(frozen=True)
class _Pairs:
    """Rows of a batch (``own``, ascending) and the entries of the other side that they match."""

    own: Ints
    other: Ints


@dataclass
class _Outcome:
    """What the rows of one input give, in order of emission.

    Attributes:
        going: rows of the other side that are no longer answered for want of a match.
        output: output rows.
        lone: rows of the input itself that are answered for want of a match, where their order does not matter; else
            they are among ``output``. For a semi join, those that have one.
        coming: rows of the other side that are now answered so.

    Rows of a side have its fields and the row kind.
    """

    going: pl.DataFrame | None = None
    output: pl.DataFrame | None = None
    lone: pl.DataFrame | None = None
    coming: pl.DataFrame | None = None


@dataclass(frozen=True)
class MatchingJoin(FrozenDataclass):
    """What an outer, semi or anti join does in a step. See :class:`runtime.kernels.join.JoinKernel`.

    Each counted side keeps per row the number of its matches. Where that leaves or reaches zero, the row's answer for
    "no match" goes or comes: the row padded with NULLs (outer), or the row itself (semi and anti).
    """

    sides: tuple[Side, Side]
    types: tuple[LogicalType, LogicalType]
    spec: JoinSpec
    time_zone: str

    @cached_property
    def _condition(self) -> CalcTransform | None:
        """Keeps the numbers of the rows that meet the further condition; they come behind left ++ right."""
        if self.spec.non_equi_condition is None:
            return None
        width = len(self.types[0].fields) + len(self.types[1].fields)
        number = InputRef(BIGINT.not_null(), width)
        names = joined_names(self.types)
        return CalcTransform((number,), self.spec.non_equi_condition, self.time_zone, names=names)

    @property
    def _one_sided(self) -> bool:
        """Whether the output has the left fields only."""
        return self.spec.join_type in ("SEMI", "ANTI")

    def step(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        inputs = with_before_images(self.sides, inputs, state, ttl, self.spec.filter_nulls)
        side_rows = [
            CountedRows(side, rows) if side.counts_matches else PlainRows(side, rows)
            for side, rows in zip(self.sides, state, strict=True)
        ]
        left = self._meet(0, inputs[0], side_rows[0], side_rows[1], now)
        right = self._meet(1, inputs[1], side_rows[1], side_rows[0], now)
        if left.lone is not None and right.going is not None:
            left.lone, right.going = _cancel_out(left.lone, right.going, self.sides[0].fields)
        parts = [
            *self._answers(1, left.going),
            left.output,
            *self._answers(0, left.lone),
            *self._answers(1, left.coming),
            *self._answers(0, right.going),
            right.output,
            *self._answers(1, right.lone),
            *self._answers(0, right.coming),
        ]
        kinds = self.spec.join_type != "SEMI" or any(KIND in frame.columns for frame in inputs)
        writes = [rows.writes(now) for rows in side_rows]
        output = self._output([p for p in parts if p is not None and p.height], kinds)
        missed_retractions = sum(rows.missed for rows in side_rows)
        return Step(output, [upserts for upserts, _ in writes], [deletes for _, deletes in writes], missed_retractions)

    def _meet(self, number: int, frame: pl.DataFrame, own: Rows, other: Rows, now: int) -> _Outcome:
        """The rows of one input meet the other side as it is, and then change their own."""
        if not frame.height:
            return _Outcome()
        side = self.sides[number]
        joinable_rows = joinable(side, frame, self.spec.filter_nulls)
        pairs = self._pairs(number, frame, joinable_rows, other.rows, now)
        matches = _weights(pairs, other, frame.height)
        out = _Outcome()
        remaining = netted_rows(frame, side)
        keep = np.ones(frame.height, bool)
        if remaining is not None:
            keep[:] = False
            keep[remaining] = True
        self._answer_others(frame, pairs, keep, other, out)
        self._answer_own(number, frame, pairs, matches, keep, other, out)
        if joinable_rows is None:
            own.apply(frame, matches)
        elif len(joinable_rows):
            own.apply(frame[joinable_rows], matches[joinable_rows])
        return out

    def _pairs(
        self, number: int, frame: pl.DataFrame, joinable_rows: Ints | None, others: pl.DataFrame, now: int
    ) -> _Pairs:
        """Which rows match.

        Args:
            joinable_rows: the rows of ``frame`` that can have a match, None for all.
        """
        rows = np.arange(frame.height) if joinable_rows is None else joinable_rows
        if not len(rows) or not others.height:
            return _Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))
        side, other = self.sides[number], self.sides[1 - number]
        if side.keys:
            key_pairs = list(dict.fromkeys(zip(side.keys, other.keys, strict=True)))
            names = columns(len(key_pairs))
            mine, theirs = _copy_named([frame[a] for a, _ in key_pairs]), _copy_named([others[b] for _, b in key_pairs])
            if joinable_rows is not None:
                mine = mine[joinable_rows]
            matches = mine.hstack([pl.Series(_OWN, rows)]).join(
                theirs.hstack([pl.Series(_OTHER, np.arange(others.height))]),
                on=names,
                how="inner",
                nulls_equal=not all(self.spec.filter_nulls),
                maintain_order="left",
            )
            pairs = _Pairs(matches[_OWN].to_numpy(), matches[_OTHER].to_numpy())
            return self._passing(number, frame, others, pairs, now)
        size = max(1, _PAIRS // others.height)
        passing_pairs = []
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            pairs = _Pairs(np.repeat(part, others.height), np.tile(np.arange(others.height), len(part)))
            passing_pairs.append(self._passing(number, frame, others, pairs, now))
        return _Pairs(np.concatenate([p.own for p in passing_pairs]), np.concatenate([p.other for p in passing_pairs]))

    def _passing(self, number: int, frame: pl.DataFrame, others: pl.DataFrame, pairs: _Pairs, now: int) -> _Pairs:
        """The pairs that meet the further condition."""
        if self._condition is None or not len(pairs.own):
            return pairs
        candidates = self._joined_rows(number, frame, others, pairs)
        counter = pl.Series(f"c{candidates.width}", np.arange(candidates.height))
        rows = self._condition(candidates.hstack([counter]), now)["c0"].to_numpy()
        return _Pairs(pairs.own[rows], pairs.other[rows])

    def _joined_rows(self, number: int, frame: pl.DataFrame, others: pl.DataFrame, pairs: _Pairs) -> pl.DataFrame:
        """The fields of left ++ right of every pair, in any order of columns."""
        first = self.sides[number].in_output(frame, kind=False)[pairs.own]
        return first.hstack(self.sides[1 - number].in_output(others, kind=False)[pairs.other])

    def _answer_others(self, frame: pl.DataFrame, pairs: _Pairs, keep: Bools, other: Rows, out: _Outcome) -> None:
        """Counts the matches of the other side's rows. One whose match comes and goes within the batch, and is joined
        nevertheless, goes and comes as well: what is joined last takes the place of the row of a table with a key."""
        if other.matches is None or not len(pairs.own):
            return
        change = signs(frame)
        steps = np.ones(len(pairs.own), np.int64) if change is None else change[pairs.own]
        before = other.matches.copy()
        other.count_matches(pairs.other, steps)
        has_gained = np.zeros(len(before), bool)
        if not self._one_sided and (steps < 0).any():
            is_kept = keep[pairs.own]
            has_gained[pairs.other[is_kept & (steps > 0)]] = True
            left = np.zeros(len(before), bool)
            left[pairs.other[is_kept & (steps < 0)]] = True
            has_gained &= left
        first = np.flatnonzero((before <= 0) & (has_gained | (other.matches > 0)))
        last = np.flatnonzero((has_gained | (before > 0)) & (other.matches <= 0))
        if self.spec.join_type == "SEMI":
            kinds = _kinds(frame)[pairs.own]
            if self.sides[1].replaces:
                kinds[kinds == RowKind.UPDATE_BEFORE] = RowKind.DELETE
            out.coming = _rows(other, first, kinds[_last(pairs.other, steps > 0, other)[first]])
            out.going = _rows(other, last, kinds[_last(pairs.other, steps < 0, other)[last]])
        else:
            out.going = _rows(other, first, np.full(len(first), RowKind.DELETE, np.int8))
            out.coming = _rows(other, last, np.full(len(last), RowKind.INSERT, np.int8))

    def _answer_own(
        self, number: int, frame: pl.DataFrame, pairs: _Pairs, matches: Ints, keep: Bools, other: Rows, out: _Outcome
    ) -> None:
        """What the rows ``keep`` of ``frame`` give themselves: those that do not come and go within the batch."""
        side = self.sides[number]
        kinds = _kinds(frame)
        if self._one_sided:
            if number == 0:
                rows = np.flatnonzero(keep & ((matches > 0) == (self.spec.join_type == "SEMI")))
                out.lone = with_kind(frame[side.fields][rows], kinds[rows])
                if keeps_order(frame, side):
                    out.output, out.lone = side.upserted(self._answers(0, out.lone)[0]), None
            return
        retract = RowKind.DELETE if side.counts_matches and not side.replaces else None
        kinds = _outer_kinds(kinds, retract)
        own, others = pairs.own, pairs.other
        if not keep.all():
            passing = keep[own]
            own, others = own[passing], others[passing]
        if other.copies is not None and len(own):
            times = other.copies[others]
            own, others = np.repeat(own, times), np.repeat(others, times)
        joined_rows = with_kind(self._joined_rows(number, frame, other.rows, _Pairs(own, others)), kinds[own])
        if side.counts_matches:
            rows = np.flatnonzero(keep & (matches == 0))
            lone = with_kind(frame[side.fields][rows], kinds[rows])
            if not keeps_order(frame, side):
                out.lone = lone
            elif len(rows):
                lone_rows = self._answers(number, lone)[0]
                order = np.argsort(np.concatenate([own, rows]), kind="stable")
                joined_rows = pl.concat([joined_rows[lone_rows.columns], lone_rows], rechunk=True)[order]
        out.output = side.upserted(joined_rows, self.sides[1 - number].output)

    def _answers(self, number: int, rows: pl.DataFrame | None) -> list[pl.DataFrame]:
        """The output for rows of one side that have no match (for a semi join: one)."""
        if rows is None:
            return []
        out = self.sides[number].in_output(rows, kind=True)
        if self._one_sided:
            return [out]
        other = self.sides[1 - number]
        types = other.table.schema
        padding = [nulls(o, types[f], rows.height) for f, o in zip(other.fields, other.output, strict=True)]
        return [out.hstack(padding)]

    def _output(self, parts: Sequence[pl.DataFrame], kinds: bool) -> pl.DataFrame:
        sides = self.sides[:1] if self._one_sided else self.sides
        schema = {o: s.table.schema[f] for s in sides for f, o in zip(s.fields, s.output, strict=True)}
        if kinds:
            schema[KIND] = pl.Int8()
        if not parts:
            return pl.DataFrame(schema=schema)
        names = list(schema)
        return parts[0][names] if len(parts) == 1 else pl.concat([p[names] for p in parts])


def _copy_named(series: Sequence[pl.Series]) -> pl.DataFrame:
    """The columns as c0, c1, ..."""
    return pl.DataFrame([s.alias(n) for s, n in zip(series, columns(len(series)), strict=True)])


def _weights(pairs: _Pairs, other: Rows, height: int) -> Ints:
    """Per row of a batch, the number of its matches."""
    if other.copies is None:
        return np.bincount(pairs.own, minlength=height)
    out = np.zeros(height, np.int64)
    np.add.at(out, pairs.own, other.copies[pairs.other])
    return out


def _kinds(frame: pl.DataFrame) -> Kinds:
    return frame[KIND].to_numpy() if KIND in frame.columns else np.zeros(frame.height, np.int8)


def _outer_kinds(kinds: Kinds, retract: RowKind | None) -> Kinds:
    """Outer joins insert; they delete for retractions of a side that is itself padded, else they pass the kind on."""
    out = kinds.copy()
    out[out == RowKind.UPDATE_AFTER] = RowKind.INSERT
    if retract is not None:
        out[out == RowKind.UPDATE_BEFORE] = retract
    return out


def _last(entries: Ints, mask: Bools, other: Rows) -> Ints:
    """Per entry of the other side, the last of the pairs ``mask`` that has it."""
    rows = np.flatnonzero(mask)
    last_rows = positions(entries[rows], other.rows.height)
    return rows[last_rows] if len(rows) else last_rows


def _rows(side_rows: Rows, entries: Ints, kinds: Kinds) -> pl.DataFrame | None:
    """The rows of the given entries, as often as they are there."""
    if not len(entries):
        return None
    if side_rows.copies is not None:
        times = side_rows.copies[entries]
        entries, kinds = np.repeat(entries, times), np.repeat(kinds, times)
    return with_kind(side_rows.rows[entries], kinds)


def _cancel_out(
    additions: pl.DataFrame, removals: pl.DataFrame, fields: list[str]
) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """Rows that come and rows that go, less what is in both."""
    ids, (coming, going) = ids_of((additions, removals), fields)
    both = np.minimum(np.bincount(coming, minlength=ids.count), np.bincount(going, minlength=ids.count))
    if not both.any():
        return additions, removals
    stay = [rows[np.flatnonzero(ranks(c) >= both[c])] for rows, c in ((additions, coming), (removals, going))]
    return stay[0], stay[1]
