"""Flink's top-N functions row by row: what the rank kernels are compared with.

Per partition a list of rows in their order, each with the time of its last write. The functions keep rows of equal
order in one list, which a change writes as a whole: so they share that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Change, Row, retracts

Order = Sequence[tuple[int, bool, bool]]
"""Fields of an order: position, ascending, nulls last."""


@dataclass
class Entry:
    row: Row
    written: int


class TopN:
    """What the functions share. ``end`` is a number, or for a variable range the position of a field."""

    def __init__(
        self,
        partition: Sequence[int],
        order: Order,
        start: int,
        end: int,
        *,
        variable: bool = False,
        number: bool = False,
        update_before: bool = True,
        ttl: int = 0,
    ) -> None:
        self.partition, self.order, self.start, self.end, self.variable = partition, order, start, end, variable
        self.number, self.update_before, self.ttl = number, update_before, ttl
        self.lists: dict[Row, list[Entry]] = {}
        self.ends: dict[Row, tuple[int, int]] = {}

    def key(self, row: Row) -> Row:
        return tuple(row[i] for i in self.partition)

    def compare(self, a: Row, b: Row) -> int:
        for index, ascending, nulls_last in self.order:
            x, y = a[index], b[index]
            if x is None or y is None:
                if (x is None) != (y is None):
                    return 1 if (x is None) == nulls_last else -1
            elif x != y:
                return 1 if (x > y) == ascending else -1
        return 0

    def alive(self, written: int, now: int) -> bool:
        return not self.ttl or written + self.ttl > now

    def live(self, row: Row, now: int) -> list[Entry]:
        return [e for e in self.lists.get(self.key(row), []) if self.alive(e.written, now)]

    def last(self, row: Row, now: int) -> int:
        """The end of the range, which the first row of a partition sets."""
        if not self.variable:
            return self.end
        known = self.ends.get(self.key(row))
        if known is None or not self.alive(known[1], now):
            known = (row[self.end] or 0, now)
            self.ends[self.key(row)] = known
        return known[0]

    @property
    def by_number(self) -> bool:
        return self.number or self.start > 1

    def place(self, entries: list[Entry], row: Row, now: int) -> None:
        """Puts a row behind those that are before it or of equal order, which are written with it."""
        at = len(entries)
        while at and self.compare(row, entries[at - 1].row) < 0:
            at -= 1
        entries.insert(at, Entry(row, now))
        self.refresh(entries, row, now)

    def refresh(self, entries: list[Entry], row: Row, now: int) -> None:
        for e in entries:
            if self.compare(e.row, row) == 0:
                e.written = now

    def difference(self, before: list[Entry], after: list[Entry], end: int) -> list[Change]:
        before, after = before[: max(end, 0)], after[: max(end, 0)]
        gone: list[Change] = []
        come: list[Change] = []
        if not self.by_number:
            gone = [(DELETE, e.row) for e in before if not any(e is a for a in after)]
            come = [(INSERT, e.row) for e in after if not any(e is b for b in before)]
            return gone + come
        for r in range(self.start, max(len(before), len(after)) + 1):
            old = before[r - 1] if r <= len(before) else None
            new = after[r - 1] if r <= len(after) else None
            if old is new:
                continue
            if old is not None and (new is None or self.update_before):
                gone.append((DELETE if new is None else UPDATE_BEFORE, self.out(old.row, r)))
            if new is not None:
                come.append((INSERT if old is None else UPDATE_AFTER, self.out(new.row, r)))
        return gone + come

    def out(self, row: Row, number: int) -> Row:
        return (*row, number) if self.number else row


class FirstN(TopN):
    """AppendOnlyFirstNFunction."""

    def add(self, change: Change, now: int) -> list[Change]:
        row = change[1]
        end = self.last(row, now)
        count, written = self.ends.get(("count", *self.key(row)), (0, 0))
        count = count if self.alive(written, now) else 0
        if count >= end:
            return []
        self.ends[("count", *self.key(row))] = (count + 1, now)
        return [(INSERT, self.out(row, count + 1))] if count + 1 >= self.start else []


class Top1(TopN):
    """FastTop1Function."""

    def add(self, change: Change, now: int) -> list[Change]:
        row = change[1]
        kept = self.live(row, now)
        if kept and self.compare(row, kept[0].row) >= 0:
            return []
        self.lists[self.key(row)] = [Entry(row, now)]
        if not kept:
            return [(INSERT, self.out(row, 1))]
        before = [(UPDATE_BEFORE, self.out(kept[0].row, 1))] if self.update_before else []
        return [*before, (UPDATE_AFTER, self.out(row, 1))]


class AppendTopN(TopN):
    """AppendOnlyTopNFunction."""

    def add(self, change: Change, now: int) -> list[Change]:
        row = change[1]
        end = self.last(row, now)
        before = self.live(row, now)
        after = list(before)
        if not (len(before) < end or (before and self.compare(row, before[-1].row) < 0)):
            return []
        self.place(after, row, now)
        if self.by_number:
            after = [e for i, e in enumerate(after) if self.group_start(after, i) < end]
        elif len(after) > end:
            gone = after.pop()
            self.refresh(after, gone.row, now)
        self.lists[self.key(row)] = after
        return self.difference(before, after, end)

    def group_start(self, entries: list[Entry], at: int) -> int:
        return next(i for i, e in enumerate(entries) if self.compare(e.row, entries[at].row) == 0)


class UpdateTopN(TopN):
    """UpdatableTopNFunction. A row is one entry, by its primary key."""

    primary: Sequence[int] = ()

    def add(self, change: Change, now: int) -> list[Change]:
        row = change[1]
        end = self.last(row, now)
        before = self.live(row, now)
        after = list(before)
        owner = [row[i] for i in self.primary]
        mine = next((i for i, e in enumerate(after) if [e.row[k] for k in self.primary] == owner), None)
        if mine is None:
            if not (len(before) < end or (before and self.compare(row, before[-1].row) < 0)):
                return []
            self.insert(after, row, now)
        elif self.compare(after[mine].row, row) == 0:
            after[mine] = Entry(row, now)
        else:
            del after[mine]
            self.insert(after, row, now)
        if self.by_number:
            after = [e for i, e in enumerate(after) if self.group_start(after, i) < end]
        else:
            after = after[: max(end, 0)]
        self.lists[self.key(row)] = after
        out = self.difference(before, after, end)
        if mine is not None and not self.by_number and mine < end:
            out = [(UPDATE_BEFORE, before[mine].row)] if self.update_before else []
            out.append((UPDATE_AFTER, row))
        return out

    def insert(self, entries: list[Entry], row: Row, now: int) -> None:
        at = len(entries)
        while at and self.compare(row, entries[at - 1].row) < 0:
            at -= 1
        entries.insert(at, Entry(row, now))

    group_start = AppendTopN.group_start


class RetractTopN(TopN):
    """RetractableTopNFunction, as long as the lists of rows and their counts agree."""

    missed = 0

    def add(self, change: Change, now: int) -> list[Change]:
        kind, row = change
        end = self.last(row, now)
        before = self.live(row, now)
        after = list(before)
        if retracts(kind):
            mine = next((i for i, e in enumerate(after) if e.row == row), None)
            if mine is not None:
                del after[mine]
            else:
                self.missed += 1
            self.refresh(after, row, now)
        else:
            self.place(after, row, now)
        self.lists[self.key(row)] = after
        return self.difference(before, after, end)


def sorted_rows(rows: Sequence[Row], order: Order) -> list[Any]:
    """Rows in an order, equal ones as they are."""
    return sorted(rows, key=cmp_to_key(TopN((), order, 1, 1).compare))
