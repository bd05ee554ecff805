"""Regular joins: every row ever seen on one side meets every row ever seen on the other.

Source of the semantics: Flink's ``StreamingJoinOperator`` and ``StreamingSemiAntiJoinOperator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.specs import JoinSpec
from stateplan.functions.rex import InputRef
from stateplan.runtime.kernel import Frames, Kernel, StateTable, Step
from stateplan.runtime.kernels.common.join_outer import MatchingJoin, joinable, keeps_order, netted_rows
from stateplan.runtime.kernels.common.join_state import Side, side_of, with_before_images, without
from stateplan.runtime.kernels.common.key_ids import state_columns, with_kind, with_stamps
from stateplan.runtime.transforms.calc import CalcTransform


@dataclass(frozen=True)
class JoinKernel(Kernel):
    """A regular join of any type, possibly with a further condition over left ++ right.

    A micro-batch is one of the orders in which Flink may see it: first all rows of the left input meet the right side
    as it was, then all rows of the right input meet the left side as it is now. An output row has the kind of the input
    row that caused it, but for outer joins: these insert, and delete where a side that is padded with NULLs retracts.
    A retraction meets the other side whether or not its row is known, as in Flink. Insertions and retractions of one
    row within a batch cancel each other first, but for a +U with a -D (without -U in the stream, that is the deletion
    of an older row).

    State per side, one of (Flink's names):

    * JoinKeyContainsUniqueKey: one row per join key, HasUniqueKey: one row per join key and unique key. The last change
      decides. Neither needs to read its own side.
    * NoUniqueKey: a row per occurrence. An insertion is written without reading its own side; the own side is read for
      the join keys of retractions only. Differs from Flink in one respect: there, all occurrences of equal rows are one
      entry with one time of access; here, an insertion does not refresh equal rows that arrived before it.

    A side whose rows are answered without a match too (both of a FULL, the left one of a LEFT, SEMI or ANTI join, the
    right one of a RIGHT join) keeps the number of matches with each row, and without unique key it is as in Flink: an
    entry per different row with the number of its occurrences, read for every row. A match writes the number anew, and
    so refreshes the row. The number is Flink's also where it is not true: expired rows of the other side still count.

    Updates may come without their old rows (``upserts``). Where the old row matters, it is looked up by the unique key,
    and retracted: matches of the other side that are counted, and pairs that meet a further condition no more. What
    comes without -U continues without -U: of a pair that is there no longer comes a -D. Flink counts such an update as
    one match more, and leaves such a pair (FLINK-40681, FLINK-38579).

    Rows whose key is NULL where NULLs do not match are not kept: they have no match, and what retracts them says so.

    Attributes:
        left_type, right_type: ROW types of the inputs.
        spec: the equi-join keys and the further condition.
        left_upsert_keys, right_upsert_keys: unique keys of the inputs.
        time_zone: the session's time zone, for the condition.
        watched: per side, whether its rows expire, so that retractions may find nothing. By unique key a retraction
            gives the same either way and needs no look at its own side; the first ones of a micro-batch look, to be
            counted.
        upserts: per side, whether its updates come without their old rows.
    """

    left_type: LogicalType
    right_type: LogicalType
    spec: JoinSpec
    left_upsert_keys: tuple[tuple[int, ...], ...] = ()
    right_upsert_keys: tuple[tuple[int, ...], ...] = ()
    time_zone: str = "UTC"
    watched: tuple[bool, bool] = (False, False)
    upserts: tuple[bool, bool] = (False, False)

    @cached_property
    def _sides(self) -> tuple[Side, Side]:
        width, counts_matches = len(self.left_type.fields), self.watched
        keeps_left = self.spec.join_type in ("LEFT", "FULL", "SEMI", "ANTI")
        keeps_right = self.spec.join_type in ("RIGHT", "FULL")
        filters = self.spec.non_equi_condition is not None
        left_upserts, right_upserts = self.upserts
        left = (0, self.left_type, self.spec.left_keys, self.left_upsert_keys, 0)
        right = (1, self.right_type, self.spec.right_keys, self.right_upsert_keys, width)
        return (
            side_of(*left, keeps_left, counts_matches[0], left_upserts, filters or keeps_right),
            side_of(*right, keeps_right, counts_matches[1], right_upserts, filters or keeps_left),
        )

    @cached_property
    def _matching(self) -> MatchingJoin | None:
        """What a join other than INNER does."""
        if self.spec.join_type == "INNER":
            return None
        return MatchingJoin(self._sides, (self.left_type, self.right_type), self.spec, self.time_zone)

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        return tuple(side.table for side in self._sides)

    @cached_property
    def _condition(self) -> CalcTransform | None:
        if self.spec.non_equi_condition is None:
            return None
        fields = [*self.left_type.fields, *self.right_type.fields]
        refs = tuple(InputRef(f.type, i) for i, f in enumerate(fields))
        names = joined_names((self.left_type, self.right_type))
        return CalcTransform(refs, self.spec.non_equi_condition, self.time_zone, names=names)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        frames = [self._joinable(side, frame) for side, frame in zip(self._sides, inputs, strict=True)]
        out: list[pl.DataFrame | None] = []
        for side, own, other_side, other in zip(self._sides, frames, self._sides[::-1], frames[::-1], strict=True):
            parts = []
            if other.height:
                key_pairs = dict(zip(side.keys, other_side.keys, strict=True))
                parts.append(
                    pl.DataFrame([other[theirs].alias(ours) for ours, theirs in key_pairs.items()])
                    if key_pairs
                    else other[:1]
                )
            read = side.reads_own(own)
            if read is not None and (side.keys or not parts):
                parts.append(own[list(side.table.lookup) or own.columns][read])
            out.append(pl.concat(parts) if parts else None)
        return out

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        if self._matching is not None:
            return self._matching.step(inputs, state, now, ttl)
        left_side, right_side = self._sides
        left_state, right_state = state
        frames = [self._joinable(side, frame) for side, frame in zip(self._sides, inputs, strict=True)]
        left, right = with_before_images(self._sides, frames, state, ttl, self.spec.filter_nulls)
        parts = []
        left_change = left_side.change(left, left_state, has_state=right.height > 0) if left.height else None
        right_change = right_side.change(right, right_state, has_state=False) if right.height else None
        if left.height and right_state.height:
            parts.append(self._match(0, _netted(left, left_side), right_state, now))
        if right.height:
            present = left_state[left_side.fields]
            if left_change is not None:
                present = pl.concat([without(present, left_change.removals), left_change.new], rechunk=True)
            if present.height:
                parts.append(self._match(1, _netted(right, right_side), present, now))
        kinds = any(KIND in frame.columns for frame in inputs)
        return Step(
            self._output(parts, kinds),
            [
                None if c is None or not c.upserts.height else with_stamps(c.upserts, now)
                for c in (left_change, right_change)
            ],
            [None if c is None else c.deletes for c in (left_change, right_change)],
            sum(c.missed for c in (left_change, right_change) if c is not None),
        )

    def _joinable(self, side: Side, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows that can have a match."""
        rows = joinable(side, frame, self.spec.filter_nulls)
        return frame if rows is None else frame[rows]

    def _match(self, side: int, rows: pl.DataFrame, others: pl.DataFrame, now: int) -> pl.DataFrame:
        """The joined rows of ``rows``, which are of side number ``side``; in their order, if they are more than
        insertions, else in any (which lets the smaller frame be hashed)."""
        own, other = self._sides[side], self._sides[1 - side]
        first, second = own.in_output(rows, kind=True), other.in_output(others, kind=False)
        order: Literal["left", "none"] = "left" if keeps_order(first, own) else "none"
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
        return out if self._condition is None else own.upserted(self._condition(out, now), other.output)

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


def _netted(frame: pl.DataFrame, side: Side) -> pl.DataFrame:
    """The rows that are left when equal rows that come and go within the batch are dropped."""
    rows = netted_rows(frame, side)
    return frame if rows is None else frame[rows]
