"""The runs of one state table of one key group: which parts there are, how they are merged, and what is dropped.

Parts are in order of age: for a hash that two of them are for, the later one is newer. A micro-batch appends a run.
Runs that follow each other are merged in size tiers, so a row is rewritten O(log n) times in its life and a hash is
searched in O(log n) parts.

**A merge moves a bounded number of rows in a micro-batch.** It goes through its runs by ascending hash: in each step
the rows up to some hash leave all of its runs and become a part of a new one, which stands where the oldest of them
stood; the parts they leave get the later start of their range, and are removed when nothing is left in them. So every
state in between is complete, a merge needs no record of its own (parts say into which run they are being merged), and
the commit of the micro-batch is that of the step. New runs, and merges of smaller ones, continue beside it.

**Expired rows** go without reading where a part holds nothing else and no older part that stays is for the same hashes;
dropped before that, it could uncover an older version of a row. A part that nothing older is for is rewritten once at
least half of its rows are expired or deleted, according to the manifest; one in a micro-batch. So is a part that has
the columns of a former version of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import rows_where
from stateplan.runtime.hashing import Hashes
from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.state.runs import LAST_PREFIX, TOMBSTONE, Rows, RunInfo, aligned, live_rows, merge_runs

MERGE_FACTOR = 8
"""How many runs of one size tier are merged into one."""
TIER_ROWS = 256
"""The most rows of a run of the lowest tier; those of the next one have :data:`MERGE_FACTOR` times as many."""
QUANTUM_ROWS = 32 << 10
"""A step of a merge moves about this number of rows, or twice those of the micro-batch if they are more."""
QUANTUM_BYTES = 4 << 20
"""A step of a merge moves about this number of bytes, or twice those of the micro-batch if they are more."""
STEPS = 4
"""A micro-batch does at most this number of whole steps in a table."""
PART_BYTES = 8 << 20
"""Parts are cut at about this number of bytes."""


class PartStore(Protocol):
    """Holds the parts. ``version`` is that of the columns that are written."""

    version: int

    def load(self, table: StateTable, info: RunInfo) -> Rows:
        """The rows of a part, those in its range only."""
        ...

    def put(self, frame: pl.DataFrame) -> RunInfo: ...

    def drop(self, info: RunInfo) -> None: ...


TakeDropped: TypeAlias = Callable[[Rows], None]
"""Takes rows that are dropped: expired ones and tombstones."""


@dataclass
class MergeFigures:
    """What has been done to keep a table in order.

    Attributes:
        rows: rows read by merges and rewrites.
        expired: expired rows that were dropped.
        parts: parts dropped unread, because all in them had expired.
    """

    rows: int = 0
    expired: int = 0
    parts: int = 0


class RunList:
    """The runs of a table.

    Args:
        table: the table.
        parts: as of the manifest, oldest first.
        store: holds them.

    Attributes:
        parts: what the manifest is to say.
        figures: what has been done.
        take_dropped: gets expired rows and tombstones that are dropped, an older version of a row before a newer one;
            None if nobody needs them.
    """

    def __init__(self, table: StateTable, parts: Sequence[RunInfo], store: PartStore) -> None:
        self.table = table
        self.parts = list(parts)
        self.figures = MergeFigures()
        self.take_dropped: TakeDropped | None = None
        self._store = store
        self._added_rows = self._added_bytes = 0

    @property
    def rows(self) -> int:
        """Rows in all parts, versions and tombstones included."""
        return sum(p.rows for p in self.parts)

    def newest_first(self, hashes: Hashes | None = None) -> Iterator[Rows]:
        """The rows of the parts, the newest one first; with ``hashes`` (ascending) of those alone that may have any of
        these hashes. None is read before it is requested."""
        parts = self.parts
        if hashes is not None and parts:
            prefixes = hashes >> np.uint64(32)
            first = np.searchsorted(prefixes, np.array([p.low for p in parts], np.uint64))
            behind = np.searchsorted(prefixes, np.array([p.high for p in parts], np.uint64), side="right")
            parts = [p for p, any_of in zip(parts, (first < behind).tolist(), strict=True) if any_of]
        return (self._store.load(self.table, p) for p in reversed(parts))

    def drop_expired(self, now: int, ttl: int) -> bool:
        """Drops, unread, the parts in which all has expired and that hide nothing older; whether there were any."""
        if ttl <= 0 or all(p.newest > now - ttl for p in self.parts):
            return False
        remaining: list[RunInfo] = []
        for part in self.parts:
            if part.newest > now - ttl or any(part.overlaps(k.low, k.high) for k in remaining):
                remaining.append(part)
            else:
                if self.take_dropped is not None:
                    self.take_dropped(self._store.load(self.table, part))
                self._store.drop(part)
                self.figures.parts += 1
                self.figures.expired += part.rows - part.dead
        if len(remaining) == len(self.parts):
            return False
        self.parts = remaining
        return True

    def append(self, frame: pl.DataFrame) -> None:
        """Adds a run, the newest one."""
        number = self._next_number()
        fresh = self._store_rows(frame, number, 0, LAST_PREFIX)
        self.parts += fresh
        self._added_rows += frame.height
        self._added_bytes += sum(p.frame_size for p in fresh)

    def take_small_run(self, rows: int) -> pl.DataFrame | None:
        """Removes the newest run and returns it, if it has fewer rows and is a single part that is not being merged."""
        if not self.parts:
            return None
        last = self.parts[-1]
        is_free = last.covers_all and not last.into and all(last.run not in (p.run, p.into) for p in self.parts[:-1])
        if last.rows >= rows or not is_free:
            return None
        frame = self._store.load(self.table, last).frame
        self._store.drop(last)
        del self.parts[-1]
        return frame

    def tend(self, now: int, ttl: int) -> bool:
        """Goes on with merges, begins those that are due, and rewrites rows of a part that has mostly expired, or has
        former columns; whether there was anything to do. How much is done follows from what was added since the last
        call."""
        rows, size = self._added_rows, self._added_bytes
        self._added_rows = self._added_bytes = 0
        left = STEPS
        busy = True
        has_worked = False
        finished_runs: set[int] = set()
        while busy and left > 0:
            busy = False
            has_worked |= self._begin()
            for number in sorted({p.into for p in self.parts if p.into} - finished_runs, reverse=True)[:left]:
                before = self.figures.rows
                self._advance(number, now, ttl, rows, size)
                finished_runs.add(number)
                # Merges of a few rows are done at once, however many; larger ones take turns.
                left -= self.figures.rows - before > max(QUANTUM_ROWS, 2 * rows) // 8
                busy = has_worked = True
        return (left == STEPS and self._rewrite(now, ttl, rows, size)) or has_worked

    def _next_number(self) -> int:
        return 1 + max((max(p.run, p.into) for p in self.parts), default=0)

    def _begin(self) -> bool:
        """Marks the runs of merges that are due; whether any is."""
        runs: list[list[int]] = []
        for i, part in enumerate(self.parts):
            if runs and self.parts[runs[-1][0]].run == part.run:
                runs[-1].append(i)
            else:
                runs.append([i])
        targets = {p.into for p in self.parts}
        tiers: list[int | None] = []
        for run in runs:
            first = self.parts[run[0]]
            is_free = not first.into and first.run not in targets
            tiers.append(tier(sum(self.parts[i].rows for i in run)) if is_free else None)
        has_begun = False
        for start, stop in due_merges(tiers):
            number = self._next_number()
            for run in runs[start:stop]:
                for i in run:
                    self.parts[i] = self.parts[i]._replace(into=number)
            has_begun = True
        return has_begun

    def _quantum(self, parts: Sequence[RunInfo], rows: int, size: int) -> int:
        """How many rows a step over ``parts`` may move."""
        width = max(1, sum(p.width * p.rows for p in parts) // max(1, sum(p.rows for p in parts)))
        most = min(max(QUANTUM_ROWS, 2 * rows), max(QUANTUM_BYTES, 2 * size) // width)
        return max(most, QUANTUM_ROWS >> 9, 1)

    def _advance(self, number: int, now: int, ttl: int, rows: int, size: int) -> None:
        """One step of the merge into run ``number``."""
        sources = [p for p in self.parts if p.into == number]
        quantum = self._quantum(sources, rows, size)
        parts_read, cut = self._take(sources, quantum)
        low = min(p.low for p in sources)
        at = self.parts.index(sources[0])
        merged_rows = self._merge([frame for _, frame in parts_read], at, number, low, cut, now, ttl)
        self._shorten(parts_read, cut)
        self._place(merged_rows, number, at, low, cut, quantum)

    def _take(self, parts: Sequence[RunInfo], quantum: int) -> tuple[list[tuple[RunInfo, pl.DataFrame]], int]:
        """About ``quantum`` rows of the least hashes in ``parts``: per part what it has of them, and the last prefix.

        All rows of a prefix go together, be they more.
        """
        low, end = min(p.low for p in parts), max(p.high for p in parts)
        total = sum(p.rows for p in parts)
        cut = end
        if total > 2 * quantum:
            # Hashes are even, unless many rows have the same one.
            cut = min(end, low + (end + 1 - low) * quantum // total)
            if not quantum <= 2 * self._count(parts, cut) <= 4 * quantum:
                none, many = low - 1, end
                while many - none > 1:
                    cut = (none + many) // 2
                    if self._count(parts, cut) <= 2 * quantum:
                        none = cut
                    else:
                        many = cut
                cut = none if self._count(parts, none) else many
        parts_read = []
        for part in parts:
            if part.low <= cut:
                parts_read.append((part, self._store.load(self.table, part).ranged(0, cut).frame))
        return parts_read, cut

    def _count(self, parts: Sequence[RunInfo], cut: int) -> int:
        """How many rows have a hash up to prefix ``cut``."""
        count = 0
        for part in parts:
            if part.high <= cut:
                count += part.rows
            elif part.low <= cut:
                count += self._store.load(self.table, part).before(cut + 1)
        return count

    def _merge(
        self, frames: Sequence[pl.DataFrame], at: int, number: int, low: int, high: int, now: int, ttl: int
    ) -> pl.DataFrame | None:
        """The rows that stay of ``frames``, whose oldest part stands at ``at``."""
        frames = [f for f in frames if f.height]
        if not frames:
            return None
        count = sum(f.height for f in frames)
        self.figures.rows += count
        oldest = not any(p.overlaps(low, high) and p.run != number for p in self.parts[:at])
        rows_of_parts = merge_runs(self.table, frames, now, ttl, oldest=False)
        if oldest:
            before = rows_of_parts
            rows_of_parts = live_rows(rows_of_parts, now, 0)
            fresh = live_rows(rows_of_parts, now, ttl)
            if fresh.height < before.height and self.take_dropped is not None:
                is_expired = before[ACCESS_TIME] <= now - ttl if ttl > 0 else False
                self.take_dropped(Rows(rows_where(before, before[TOMBSTONE] | is_expired)))
            self.figures.expired += rows_of_parts.height - fresh.height
            rows_of_parts = fresh
        return rows_of_parts if rows_of_parts.height else None

    def _shorten(self, parts_read: Sequence[tuple[RunInfo, pl.DataFrame]], cut: int) -> None:
        """Takes the rows up to prefix ``cut`` from parts."""
        for part, frame in parts_read:
            at = self.parts.index(part)
            if part.high <= cut or part.rows == frame.height:
                self._store.drop(part)
                del self.parts[at]
            else:
                self.parts[at] = part._replace(low=cut + 1, rows=part.rows - frame.height)

    def _place(self, frame: pl.DataFrame | None, run: int, at: int, low: int, high: int, quantum: int) -> None:
        """Puts the rows of a range at place ``at``, as parts of ``run``."""
        if frame is None:
            return
        before = self.parts[at - 1] if at else None
        beside = before is not None and before.run == run and before.into == 0 and before.high < low
        if before is not None and beside and before.rows + frame.height <= quantum // 2:
            # Small parts of one run that are side by side become one.
            self.figures.rows += before.rows
            frame = pl.concat(aligned([self._store.load(self.table, before).frame, frame]))
            self._store.drop(before)
            at, low = at - 1, before.low
            del self.parts[at]
        self.parts[at:at] = self._store_rows(frame, run, low, high)

    def _store_rows(self, frame: pl.DataFrame, run: int, low: int, high: int) -> list[RunInfo]:
        """Stores the rows of a range as parts of bounded size."""
        count = max(1, round(frame.estimated_size() / PART_BYTES))
        out: list[RunInfo] = []
        rows = Rows(frame)
        start = 0
        for n in range(1, count + 1):
            stop, last = frame.height, high
            if n < count:
                row = frame.height * n // count
                last = (int(rows.hashes[row]) >> 32) - 1
                if last < low:
                    continue
                stop = rows.before(last + 1)
            if stop > start:
                out.append(self._store.put(frame[start:stop])._replace(low=low, high=last, run=run))
                start, low = stop, last + 1
        return out

    def _rewrite(self, now: int, ttl: int, rows: int, size: int) -> bool:
        """Rewrites rows of the first part that is worth it; whether there is one."""
        targets = {p.into for p in self.parts}
        for at, part in enumerate(self.parts):
            if part.into or part.run in targets:
                continue
            is_oldest = not any(p.overlaps(part.low, part.high) for p in self.parts[:at])
            if part.version == self._store.version and not (is_oldest and _stale(part, now, ttl)):
                continue
            quantum = self._quantum([part], rows, size)
            parts_read, cut = self._take([part], quantum)
            frames = [frame for _, frame in parts_read]
            live_part = self._merge(frames, at, part.run, part.low, cut, now, ttl)
            self._shorten(parts_read, cut)
            self._place(live_part, part.run, at, part.low, min(cut, part.high), quantum)
            return True
        return False


def _stale(part: RunInfo, now: int, ttl: int) -> bool:
    """Whether about half of the rows of a part are expired or deleted."""
    return (ttl > 0 and part.middle <= now - ttl) or 2 * part.dead >= part.rows


def tier(rows: int) -> int:
    """The size tier of a run."""
    number = 0
    size = TIER_ROWS
    while size < rows:
        size *= MERGE_FACTOR
        number += 1
    return number


def due_merges(tiers: Sequence[int | None]) -> list[tuple[int, int]]:
    """Which runs should be merged: ranges of places, each of runs that follow each other, at least
    :data:`MERGE_FACTOR` of them of the largest tier among them, the first of them one of these.

    Args:
        tiers: the tiers of the runs, oldest first; None for one that is being merged.
    """
    out = []
    start = 0
    while start < len(tiers):
        largest = tiers[start]
        stop = start + 1
        if largest is not None:
            while stop < len(tiers) and (next_tier := tiers[stop]) is not None and next_tier <= largest:
                stop += 1
            if sum(1 for t in tiers[start:stop] if t == largest) >= MERGE_FACTOR:
                out.append((start, stop))
                start = stop
                continue
        start += 1
    return out
