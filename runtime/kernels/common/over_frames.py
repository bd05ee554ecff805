"""Rows that enter and leave the frames of OVER windows, in the order in which Flink's functions take them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, key_ids, ranks, stable_order


@dataclass(frozen=True)
class Frame:
    """The frame of a row: it and rows before it.

    Attributes:
        rows: ROWS, which counts rows; else RANGE, which goes by time, and in which rows of one time have one frame.
        preceding: how many rows before, or how many milliseconds; None is all.
    """

    rows: bool
    preceding: int | None = None

    @property
    def bounded(self) -> bool:
        return self.preceding is not None


@dataclass(frozen=True)
class Walk:
    """What happens to the aggregates of some partitions: rows are accumulated and retracted one after another.

    Attributes:
        frame: the rows, those of a partition together and in their order; ones that the aggregates hold already come
            first.
        owners: per row its partition, 0 .. ``parts`` - 1, ascending.
        in_state: which rows the aggregates hold already.
        parts: number of partitions, each of which has a row that they do not hold.
        times: per row its time, ms; only needed for RANGE with a bound or with peers.
        window: the frame.
        peers: whether rows of one time have one frame although it is not bounded.
        silent: which of the rows that they do not hold give no output; None for none. Not for bounded frames.
    """

    frame: pl.DataFrame
    owners: Ints
    in_state: Bools
    parts: int
    times: Ints
    window: Frame
    peers: bool = False
    silent: Bools | None = None

    @cached_property
    def new(self) -> Ints:
        """The rows that the aggregates do not hold."""
        return np.flatnonzero(~self.in_state)

    @cached_property
    def output_rows(self) -> Ints:
        """The rows that produce an output row, in the order of the output."""
        return self.new if self.silent is None else np.flatnonzero(~self.in_state & ~self.silent)

    @cached_property
    def _last_peer(self) -> Ints:
        """For each row the last row of its frame, which is its step. Steps are ascending."""
        rows = np.arange(len(self.owners))
        if self.window.rows or not (self.window.bounded or self.peers):
            return rows
        ends = np.ones(len(rows), bool)
        ends[:-1] = (self.owners[1:] != self.owners[:-1]) | (self.times[1:] != self.times[:-1])
        places = np.flatnonzero(ends)
        return places[np.searchsorted(places, rows)]

    @cached_property
    def _part_ends(self) -> Ints:
        """For each row the first row after its partition."""
        return np.searchsorted(self.owners, self.owners, side="right")

    @cached_property
    def leaves(self) -> Ints:
        """For each row the step at which it leaves the frame. If it stays, the first row after its partition."""
        count, ends = len(self.owners), self._part_ends
        preceding = self.window.preceding
        if preceding is None:
            return ends
        if self.window.rows:
            return np.minimum(np.arange(count) + preceding + 1, ends)
        first = first_after(self.owners, self.times, self.owners, self.times + preceding)
        inside = first < ends
        out = ends.copy()
        out[inside] = self._last_peer[first[inside]]
        return out

    @property
    def left(self) -> Bools:
        """Which rows have left the frame. No later frame contains them."""
        return self.leaves < self._part_ends

    @cached_property
    def _operations(self) -> tuple[Ints, Ints, Ints, Ints]:
        """(row, sign, partition, step) of each operation. Each partition begins with an operation of sign 0: the state
        before the micro-batch."""
        begins = np.searchsorted(self.owners, np.arange(self.parts))
        new, left_rows = self.new, np.flatnonzero(self.left)
        rows = np.concatenate([begins, left_rows, new])
        signs = np.repeat(np.array([0, -1, 1]), [self.parts, len(left_rows), len(new)])
        steps = np.concatenate([begins, self.leaves[left_rows], self._last_peer[new]])
        turn = np.repeat(np.array([0, 1, 2]), [self.parts, len(left_rows), len(new)])
        order = np.lexsort((rows, turn, steps))
        rows, signs, steps = rows[order], signs[order], steps[order]
        return rows, signs, self.owners[rows], steps

    @property
    def rows(self) -> Ints:
        """The row of each operation."""
        return self._operations[0]

    @property
    def signs(self) -> Ints:
        """The sign of each operation: +1, -1, or 0 for the state before the micro-batch."""
        return self._operations[1]

    @property
    def codes(self) -> Ints:
        """The partition of each operation."""
        return self._operations[2]

    @cached_property
    def begins(self) -> Ints:
        """Per partition its first operation, the one of sign 0."""
        return np.flatnonzero(self.signs == 0)

    @cached_property
    def ends(self) -> Ints:
        """The last operation of each partition."""
        return np.append(self.begins[1:], len(self.signs)) - 1

    @cached_property
    def outputs(self) -> Ints:
        """Per output the operation after which its value is taken."""
        return np.searchsorted(self._operations[3], self._last_peer[self.output_rows], side="right") - 1

    @cached_property
    def lows(self) -> Ints:
        """Per output the first row of its frame."""
        return np.searchsorted(self.leaves, self._last_peer[self.output_rows], side="right")

    @cached_property
    def highs(self) -> Ints:
        """Per output the first row behind its frame."""
        return self._last_peer[self.output_rows] + 1

    @property
    def bounded(self) -> bool:
        return self.window.bounded

    def live(self, rows: Bools) -> Bools:
        """Per operation whether it is one of the given rows'."""
        live: Bools = rows[self.rows] & (self.signs != 0)
        return live


def first_after(owners: Ints, values: Ints, query_owners: Ints, limits: Ints) -> Ints:
    """Per question the first row of its owner, or of a later one, whose value is above its limit; the number of rows
    for none.

    Args:
        owners, values: the rows, sorted by both.
        query_owners, limits: the questions.
    """
    question = np.arange(len(owners) + len(query_owners)) >= len(owners)
    order = np.lexsort((question, np.concatenate([values, limits]), np.concatenate([owners, query_owners])))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(~question[order])
    return before[len(owners) :]


def distinct_of_frames(walk: Walk, names: Sequence[str], rows: Bools) -> Bools:
    """Of a bounded frame the operations by which a value comes into it or is no longer in it.

    Args:
        names: the columns of the value.
        rows: which rows have a value that counts.
    """
    owned_values = walk.frame[list(names)].with_columns(pl.Series("@owner", walk.owners))
    ids = key_ids(owned_values, ["@owner", *names])
    counts = np.zeros(ids.count, np.int64)
    np.add.at(counts, ids.codes[walk.in_state & rows], 1)
    live = walk.live(rows)
    places = np.flatnonzero(live)
    codes, signs = ids.codes[walk.rows[places]], walk.signs[places]
    order = stable_order(codes)
    steps = np.cumsum(signs[order])
    firsts = np.flatnonzero(ranks(codes)[order] == 0)
    base = np.zeros(ids.count, np.int64)
    base[codes[order][firsts]] = steps[firsts] - signs[order][firsts]
    level = np.empty(len(places), np.int64)
    level[order] = steps - base[codes[order]] + counts[codes[order]]
    live[places] = np.where(signs > 0, level == 1, level == 0)
    return live
