"""What a join keeps of its two inputs, and what a batch does to that.

Source: Flink's ``JoinRecordStateViews``, ``OuterJoinRecordStateViews`` and ``JoinUtil.analyzeJoinInput``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER
from stateplan.common.types import LogicalType
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    Access,
    Frames,
    StateColumn,
    StateTable,
    field_columns,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import (
    Ints,
    ids_of,
    is_retraction,
    narrow,
    positions,
    replay,
    signs,
    with_stamps,
    without_match,
)
from stateplan.runtime.kernels.common.upserts import with_old_rows, without_old_rows

_OCCURRENCE = "@occurrence"
COPIES = "@copies"
"""Column of a side that keeps equal rows once: how often the row is there."""
_MATCHES = "@matches"

_LOOKED_AT = 256
"""Retractions of a micro-batch that a side known by its join key looks up only to say whether they find their row."""


@dataclass(frozen=True)
class Change:
    """What a batch does to the state of one side.

    Attributes:
        upserts: rows to write, without ``@t``.
        deletes: identities to remove.
        removals: rows to delete from the side's state.
        new: rows that are there now, with the side's fields alone.
        missed: retractions that found nothing, as far as the state was looked at.
    """

    upserts: pl.DataFrame
    deletes: pl.DataFrame | None
    removals: Ints
    new: pl.DataFrame
    missed: int = 0


@dataclass(frozen=True)
class Side:
    """One side of a join.

    Attributes:
        table: its state.
        keys: columns of the equi-join key.
        fields: its columns.
        output: the names of its columns in the joined row.
        unique: whether a row is identified by a unique key (with the join key); else equal rows are counted.
        counts_matches: whether each row has the number of its matches on the other side, as an outer side needs it.
        watched: whether some of the retractions that find nothing are counted where a row is known by the join key, for
            which alone the state is read.
        upserts: whether its changes come without the old rows of updates, so that any row may replace another one.
        replaces: whether these old rows are looked up, as they matter: for the number of matches of the other side, or
            for a further condition that the old row met.
    """

    table: StateTable
    keys: list[str]
    fields: list[str]
    output: list[str]
    unique: bool
    counts_matches: bool
    watched: bool = False
    upserts: bool = False
    replaces: bool = False

    def in_output(self, frame: pl.DataFrame, kind: bool) -> pl.DataFrame:
        """The rows, with their columns named as in the joined row."""
        extra = [KIND] if kind and KIND in frame.columns else []
        out = frame[[*self.fields, *extra]]
        out.columns = [*self.output, *extra]
        return out

    @property
    def output_keys(self) -> list[str]:
        return [self.output[self.fields.index(key)] for key in self.keys]

    def reads_own(self, frame: pl.DataFrame) -> Ints | None:
        """The rows of ``frame`` that need this side's own state; None for none."""
        if self.replaces or (self.counts_matches and not self.unique):
            return np.arange(frame.height) if frame.height else None
        if self.unique and not self._looks:
            return None
        retractions = is_retraction(frame)
        if retractions is None:
            return None
        rows = np.flatnonzero(retractions)
        return rows[:_LOOKED_AT] if self.unique else rows

    @property
    def _looks(self) -> bool:
        return self.watched and self.unique and self.table.identity == self.table.lookup

    def upserted(self, changes: pl.DataFrame, others: Sequence[str] = ()) -> pl.DataFrame:
        """Changes of the output that rows of this side caused, without the old rows that it has added.

        Args:
            others: what distinguishes the rows of the other side.
        """
        if not self.replaces:
            return changes
        own = [self.output[self.fields.index(name)] for name in self.table.identity]
        return without_old_rows(changes, [*own, *others])

    def missed(self, frame: pl.DataFrame, state: pl.DataFrame) -> int:
        """How many keys the rows of ``frame`` that were looked up retract without a row; for a side with unique key."""
        rows = self.reads_own(frame)
        retractions = is_retraction(frame)
        if rows is None or retractions is None:
            return 0
        ids, _ = ids_of((state, frame[: rows[-1] + 1]), list(self.table.identity))
        first = ids.first[ids.first >= state.height] - state.height
        return int(retractions[first].sum())

    def change(self, frame: pl.DataFrame, state: pl.DataFrame, has_state: bool) -> Change:
        """What the rows of ``frame`` do to this side, of which ``state`` holds a part and no numbers of matches.

        Args:
            has_state: whether the other side will meet what is left, so that ``removals`` is needed.
        """
        if self.unique:
            return self._change_rows(frame, state if has_state else state[:0], self.missed(frame, state))
        return self._change_occurrences(frame, state)

    def _change_rows(self, frame: pl.DataFrame, state: pl.DataFrame, missed_retractions: int) -> Change:
        """By unique key: the last change decides, whatever was there before."""
        identity = list(self.table.identity)
        ids, (codes, before) = ids_of((frame, state), identity)
        last = positions(codes, ids.count)
        is_touched = last >= 0
        rows = np.sort(last[is_touched])
        removed_rows = np.flatnonzero(is_touched[before])
        retractions = is_retraction(frame)
        dead = np.zeros(0, np.int64) if retractions is None else rows[retractions[rows]]
        if retractions is not None:
            rows = rows[~retractions[rows]]
        new = frame[self.fields] if len(rows) == frame.height else frame[self.fields][rows]
        return Change(new, narrow(frame[dead], identity) if len(dead) else None, removed_rows, new, missed_retractions)

    def _change_occurrences(self, frame: pl.DataFrame, state: pl.DataFrame) -> Change:
        """Without unique key: a row is there as often as it was inserted. What was retracted, or what is equal to that,
        is replayed row by row and written anew, so that all its occurrences are accessed now, as in Flink."""
        rows = frame[self.fields]
        change = signs(frame)
        removed_rows, missed_retractions = np.zeros(0, np.int64), 0
        if change is not None:
            ids, (codes, before) = ids_of((rows, state), self.fields)
            is_touched = np.zeros(ids.count, bool)
            is_touched[codes[change < 0]] = True
            replayed_rows = np.flatnonzero(is_touched[codes])
            start = np.bincount(before, minlength=ids.count)
            _, final = replay(codes[replayed_rows], change[replayed_rows], start)
            numbers = np.flatnonzero(is_touched)
            missed_retractions = int((final - start)[numbers].sum() - change[replayed_rows].sum())
            copies = np.repeat(positions(codes, ids.count)[numbers], final[numbers])
            rows = rows[np.concatenate([np.flatnonzero(~is_touched[codes]), copies])]
            removed_rows = np.flatnonzero(is_touched[before])
        # Occurrences are distinguished by a number that needs no look at the state: a random start per batch.
        occurrence = np.arange(rows.height) + secrets.randbits(62)
        deletes = state[[*self.table.identity, ACCESS_TIME]][removed_rows] if len(removed_rows) else None
        return Change(
            rows.hstack([pl.Series(_OCCURRENCE, occurrence)]), deletes, removed_rows, rows, missed_retractions
        )


def side_of(
    slot: int,
    row: LogicalType,
    keys: Sequence[int],
    upsert_keys: Sequence[Sequence[int]],
    offset: int,
    counts_copies: bool,
    counts_matches: bool = False,
    upserts: bool = False,
    replaces: bool = False,
    out_of_order: bool = False,
) -> Side:
    """The side of a join that has the given number.

    The kind of state it needs: with several unique keys the first one within the join key, else the shortest.

    Args:
        offset: position of its first field in the joined row.
        counts_copies, counts_matches, upserts: see :class:`Side`.
        replaces: the same, where the side has a unique key and upserts.
        out_of_order: whether a row may arrive before the one of its unique key that it replaces. Then the side is one
            without unique key, as several rows of a key are there for a time. The key remains part of the identity:
            rows that earlier releases wrote by the key alone have no occurrence, and stay apart by it.
    """
    key_columns = columns(keys)
    schema = field_columns(row, slot)
    fields = list(schema)
    unique_fields = _unique_fields(keys, upsert_keys)
    unique = None if out_of_order else unique_fields
    rest = unique if unique is not None else fields if counts_copies else [*(unique_fields or ()), _OCCURRENCE]
    lookup = tuple(dict.fromkeys(key_columns))
    identity = tuple(dict.fromkeys([*lookup, *rest]))
    if counts_copies:
        schema |= own_columns({_MATCHES: pl.Int64()})
    if unique is None and counts_copies:
        schema |= own_columns({COPIES: pl.Int64()})
    elif unique is None:
        schema[_OCCURRENCE] = StateColumn(pl.Int64(), "")
    later_columns = (_OCCURRENCE,) if out_of_order and not counts_copies else ()
    output = [column(offset + i) for i in range(len(fields))]
    entry = identity if unique is not None or counts_copies else tuple(fields)
    access = Access(entry=entry, by_others=counts_copies, entries=True, use="joined")
    table = StateTable(
        ("leftState", "rightState")[slot], slot, lookup, identity, schema, access=access, later_columns=later_columns
    )
    is_unique = unique is not None
    return Side(
        table,
        key_columns,
        fields,
        output,
        is_unique,
        counts_copies,
        counts_matches,
        upserts,
        replaces and upserts and is_unique,
    )


def _unique_fields(keys: Sequence[int], unique_keys: Sequence[Sequence[int]]) -> list[str] | None:
    """The columns of the unique key by which a side knows its rows, beside the join key; None if it has no such key."""
    if not unique_keys:
        return None
    is_within = any(set(key) <= set(keys) for key in unique_keys)
    return [] if is_within else columns(min(unique_keys, key=len))


def with_before_images(
    sides: Sequence[Side], frames: Frames, state: Frames, ttl: Sequence[int], filter_nulls: Sequence[bool]
) -> list[pl.DataFrame]:
    """The changes of each side with the old rows of updates, where these matter and do not come along."""
    out = []
    for side, frame, state_rows, lifetime in zip(sides, frames, state, ttl, strict=True):
        if side.replaces and frame.height:
            has_keys = ~without_match(frame, side.keys, filter_nulls)
            identity = list(side.table.identity)
            frame = with_old_rows(frame, state_rows, identity, side.fields, lifetime == NEVER, has_keys)
        out.append(frame)
    return out


class PlainRows:
    """The rows of a side without numbers of matches, while a batch is processed.

    Attributes:
        rows: the fields of the rows that are there.
        copies, matches: None, see :class:`CountedRows`.
        missed: retractions that found nothing, as far as the state was looked at.
    """

    missed = 0
    copies: Ints | None = None
    matches: Ints | None = None

    def __init__(self, side: Side, state: pl.DataFrame) -> None:
        self._side, self._state = side, state
        self.rows = state[side.fields]
        self._change: Change | None = None

    def count_matches(self, rows: Ints, change: Ints) -> None:
        """A side without numbers of matches forgets that its rows were met."""

    def apply(self, frame: pl.DataFrame, matches: Ints) -> None:
        """Takes in the changes of ``frame``, in order."""
        self._change = self._side.change(frame, self._state, has_state=True)
        self.missed = self._change.missed
        self.rows = pl.concat([without(self.rows, self._change.removals), self._change.new], rechunk=True)

    def writes(self, now: int) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """What is to be written to the state, and the identities to be removed from it."""
        if self._change is None:
            return None, None
        upserts = self._change.upserts
        return with_stamps(upserts, now) if upserts.height else None, self._change.deletes


class CountedRows:
    """The rows of a side with the numbers of their matches, while a batch is processed.

    Equal rows without unique key are one entry: they share the number of matches and the time of access. Everything
    that changes an entry refreshes it, a match too.

    Attributes:
        rows: the fields of the entries.
        copies: how often each is there; None if all are there once.
        matches: how many rows of the other side each has matched, as counted. It is the true number unless rows of the
            other side expired, were retracted without having been there, or were replaced without being retracted.
    """

    def __init__(self, side: Side, state: pl.DataFrame) -> None:
        self._side = side
        self.rows = state[side.fields]
        self.copies: Ints | None = None if side.unique else state[COPIES].to_numpy()
        self.matches: Ints = state[_MATCHES].to_numpy().copy()
        self.missed = 0
        self._is_dirty = np.zeros(state.height, bool)
        self._deletes: pl.DataFrame | None = None

    def count_matches(self, rows: Ints, change: Ints) -> None:
        """The entries ``rows`` (with repeats) matched one row more (``change`` 1) or less (-1)."""
        np.add.at(self.matches, rows, change)
        self._is_dirty[rows] = True

    def apply(self, frame: pl.DataFrame, matches: Ints) -> None:
        """Takes in the changes of ``frame``, in order; ``matches`` has the number of matches of each row."""
        if self._side.unique:
            self._apply_unique(frame, matches)
        else:
            self._apply_counted(frame, matches)

    def _apply_unique(self, frame: pl.DataFrame, matches: Ints) -> None:
        identity = list(self._side.table.identity)
        ids, (codes, before) = ids_of((frame, self.rows), identity)
        last = positions(codes, ids.count)
        rows = np.sort(last[last >= 0])
        retractions = is_retraction(frame)
        if retractions is not None:
            dead = rows[retractions[rows]]
            self._deletes = narrow(frame[dead], identity) if len(dead) else None
            rows = rows[~retractions[rows]]
        self.missed = self._side.missed(frame, self.rows)
        remaining = np.flatnonzero(last[before] < 0)
        self._renew(remaining, frame[self._side.fields][rows], None, matches[rows])

    def _apply_counted(self, frame: pl.DataFrame, matches: Ints) -> None:
        assert self.copies is not None
        fields = self._side.fields
        ids, (codes, before) = ids_of((frame, self.rows), fields)
        start = np.zeros(ids.count, np.int64)
        start[before] = self.copies
        change = signs(frame)
        added_codes = codes
        if change is None:
            final = start + np.bincount(codes, minlength=ids.count)
            last_added = positions(codes, ids.count)
        else:
            _, final = replay(codes, change, start)
            self.missed = int((final - start).sum() - change.sum())
            plus = np.flatnonzero(change > 0)
            added_codes = codes[plus]
            last_added = np.full(ids.count, -1, np.int64)
            last_added[added_codes] = plus
        last, old = positions(codes, ids.count), positions(before, ids.count)
        alive = np.flatnonzero((last >= 0) & (final > 0))
        dead = old[(last >= 0) & (final == 0) & (old >= 0)]
        self._deletes = narrow(self.rows[dead], self._side.table.identity) if len(dead) else None
        # An insertion says how many matches there are; without one an entry keeps its number.
        numbers = np.zeros(len(alive), np.int64)
        fresh = last_added[alive] >= 0
        numbers[fresh] = matches[last_added[alive][fresh]]
        numbers[~fresh] = self.matches[old[alive][~fresh]]
        remaining = np.flatnonzero(last[before] < 0)
        self._renew(remaining, frame[fields][last[alive]], final[alive], numbers)

    def _renew(self, remaining: Ints, new: pl.DataFrame, copies: Ints | None, matches: Ints) -> None:
        """Keeps the given entries, and adds new ones."""
        self.rows = pl.concat([self.rows[remaining], new], rechunk=True)
        self.matches = np.concatenate([self.matches[remaining], matches])
        self._is_dirty = np.concatenate([self._is_dirty[remaining], np.ones(len(matches), bool)])
        if self.copies is not None and copies is not None:
            self.copies = np.concatenate([self.copies[remaining], copies])

    def writes(self, now: int) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """What is to be written to the state, and the identities to be removed from it."""
        rows = np.flatnonzero(self._is_dirty)
        if not len(rows):
            return None, self._deletes
        numbers = [pl.Series(_MATCHES, self.matches[rows], dtype=pl.Int64)]
        if self.copies is not None:
            numbers.append(pl.Series(COPIES, self.copies[rows], dtype=pl.Int64))
        return with_stamps(self.rows[rows].hstack(numbers), now), self._deletes


def without(frame: pl.DataFrame, rows: Ints) -> pl.DataFrame:
    """``frame`` without the given rows."""
    if not len(rows):
        return frame
    keep = np.ones(frame.height, bool)
    keep[rows] = False
    return frame[np.flatnonzero(keep)]
