"""Flink's operators row by row, slow and obvious: what the kernels are compared with.

Written from the behaviour of Flink's functions of the same names, one row at a time, with state in dictionaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from stateplan.common.changelog import RowKind

Row = tuple[Any, ...]
Change = tuple[int, Row]

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = (int(k) for k in RowKind)

V = TypeVar("V")


def retracts(kind: int) -> bool:
    return kind in (UPDATE_BEFORE, DELETE)


def fold(changes: Sequence[Change]) -> Counter[Row]:
    """The rows that are left of a changelog; counts may be negative where it retracts what was never there."""
    out: Counter[Row] = Counter()
    for kind, row in changes:
        out[row] += -1 if retracts(kind) else 1
    return Counter({row: n for row, n in out.items() if n})


def upsert_fold(changes: Sequence[Change], key: Sequence[int]) -> dict[Row, Row]:
    """The rows that are left in a table with a primary key: -U is ignored."""
    out: dict[Row, Row] = {}
    for kind, row in changes:
        k = tuple(row[i] for i in key)
        if kind == DELETE:
            out.pop(k, None)
        elif kind != UPDATE_BEFORE:
            out[k] = row
    return out


class Cells(Generic[V]):
    """State with a TTL: a value is there until ``ttl`` ms have passed since it was written."""

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl
        self.cells: dict[Hashable, tuple[V, int]] = {}

    def get(self, key: Hashable, now: int) -> V | None:
        value, written = self.cells.get(key, (None, 0))
        return None if value is None or (self.ttl and written + self.ttl <= now) else value

    def put(self, key: Hashable, value: V, now: int) -> None:
        self.cells[key] = (value, now)

    def remove(self, key: Hashable) -> None:
        self.cells.pop(key, None)

    def live(self, now: int) -> dict[Hashable, V]:
        return {k: v for k, (v, t) in self.cells.items() if not self.ttl or t + self.ttl > now}


class Deduplicate:
    """ProcTimeDeduplicateKeepFirstRowFunction, ProcTimeDeduplicateKeepLastRowFunction."""

    def __init__(self, keys: Sequence[int], keep_last: bool, update_before: bool, ttl: int) -> None:
        self.keys, self.keep_last, self.update_before = keys, keep_last, update_before
        self.state: Cells[Row] = Cells(ttl)

    def add(self, change: Change, now: int) -> list[Change]:
        _, row = change
        key = tuple(row[i] for i in self.keys)
        before = self.state.get(key, now)
        if not self.keep_last:
            if before is not None:
                return []
            self.state.put(key, row, now)
            return [(INSERT, row)]
        self.state.put(key, row, now)
        if before is None:
            return [(INSERT, row)]
        if before == row and not self.state.ttl:
            return []
        return [*([(UPDATE_BEFORE, before)] if self.update_before else []), (UPDATE_AFTER, row)]


def wrap(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


class Call:
    """An aggregate call over whole numbers (or, for COUNT, MIN and MAX, anything ordered)."""

    def __init__(
        self, function: str, argument: int | None, distinct: bool = False, passes: int | None = None, bits: int = 32
    ) -> None:
        self.function, self.argument, self.distinct, self.passes, self.bits = function, argument, distinct, passes, bits

    def initial(self) -> list[Any]:
        return [None, 0]

    def accumulate(self, acc: list[Any], value: Any, sign: int) -> None:
        """COUNT, SUM, $SUM0, AVG: acc is [sum, count]."""
        if self.argument is not None and value is None:
            return
        acc[1] += sign
        if self.function in ("SUM", "$SUM0"):
            acc[0] = wrap((acc[0] or 0) + sign * value, self.bits)
        elif self.function == "AVG":
            acc[0] = wrap((acc[0] or 0) + sign * value, 64)

    def better(self, a: Any, b: Any) -> bool:
        return bool(a < b) if self.function == "MIN" else bool(a > b)

    def value(self, acc: list[Any]) -> Any:
        total, count = acc
        if self.function == "COUNT":
            return count
        if self.function in ("MIN", "MAX"):
            return total if count > 0 else None
        if self.function == "$SUM0":
            return total or 0
        if count == 0:
            return None
        if self.function == "SUM":
            return total
        return wrap(abs(total) // abs(count) * (1 if (total < 0) == (count < 0) else -1), self.bits)


class GroupAggregate:
    """GroupAggFunction with the code generated for its calls."""

    def __init__(
        self, grouping: Sequence[int], calls: Sequence[Call], update_before: bool, need_retraction: bool, ttl: int
    ) -> None:
        self.grouping, self.calls, self.update_before, self.retract = grouping, calls, update_before, need_retraction
        self.ttl = ttl
        self.state: Cells[dict[str, Any]] = Cells(ttl)
        self.missed = 0
        self.views: dict[Hashable, Cells[list[int]]] = {}

    def view(self, group: Row, name: Hashable) -> Cells[list[int]]:
        return self.views.setdefault((group, name), Cells(self.ttl))

    def add(self, change: Change, now: int) -> list[Change]:
        kind, row = change
        group = tuple(row[i] for i in self.grouping)
        sign = -1 if retracts(kind) else 1
        found = self.state.get(group, now)
        if found is None and sign < 0:
            self.missed += 1
            return []
        state = {"rows": 0, "accs": [c.initial() for c in self.calls]} if found is None else found
        accs = state["accs"]
        before = group + tuple(c.value(a) for c, a in zip(self.calls, accs, strict=True))
        self.change(group, row, sign, accs, now)
        state["rows"] += sign
        after = group + tuple(c.value(a) for c, a in zip(self.calls, accs, strict=True))
        if self.retract and state["rows"] == 0:
            self.state.remove(group)
            for key in [k for k in self.views if k[0] == group]:  # type: ignore[index]
                del self.views[key]
            return [] if found is None else [(DELETE, before)]
        self.state.put(group, state, now)
        if found is None:
            return [(INSERT, after)]
        if not self.ttl and before == after:
            return []
        return [*([(UPDATE_BEFORE, before)] if self.update_before else []), (UPDATE_AFTER, after)]

    def change(self, group: Row, row: Row, sign: int, accs: list[list[Any]], now: int) -> None:
        shared: dict[int, list[int]] = {}
        for i, call in enumerate(self.calls):
            passes = call.passes is None or row[call.passes] is True
            if call.distinct and call.function not in ("MIN", "MAX"):
                shared.setdefault(call.argument or 0, []).append(i)
            elif passes:
                value = None if call.argument is None else row[call.argument]
                if call.function not in ("MIN", "MAX"):
                    call.accumulate(accs[i], value, sign)
                elif value is not None and not self.retract:
                    accs[i][1] += 1
                    if accs[i][0] is None or call.better(value, accs[i][0]):
                        accs[i][0] = value
                elif value is not None:
                    self.tracked(call, accs[i], self.view(group, ("extreme", i)), value, sign, now)
        for argument, users in shared.items():
            self.distinct(group, row, sign, accs, argument, users, now)

    def tracked(self, call: Call, acc: list[Any], view: Cells[list[int]], value: Any, sign: int, now: int) -> None:
        """MinWithRetractAggFunction, MaxWithRetractAggFunction: acc is [extreme, number of different values]."""
        if sign > 0 and (acc[1] == 0 or acc[0] is None or call.better(value, acc[0])):
            acc[0] = value
        count = (view.get(value, now) or [0])[0] + sign
        if count == 0:
            view.remove(value)
        else:
            view.put(value, [count], now)
        if sign > 0 and count == 1:
            acc[1] += 1
        elif sign < 0 and count == 0:
            acc[1] -= 1
            if acc[1] == 0:
                acc[0] = None
            elif value == acc[0]:
                left: list[Any] = list(view.live(now))
                acc[0] = (min(left) if call.function == "MIN" else max(left)) if left else None
                if not left:
                    acc[1] = 0

    def distinct(
        self, group: Row, row: Row, sign: int, accs: list[list[Any]], argument: int, users: list[int], now: int
    ) -> None:
        """One distinct view per argument; per user a count (with retractions) or a flag (without)."""
        passed = [self.calls[i].passes is None or row[self.calls[i].passes] is True for i in users]  # type: ignore[index]
        if not any(passed):
            return
        view, value = self.view(group, ("distinct", argument)), row[argument]
        counts = list(view.get(value, now) or [0] * len(users))
        old = list(counts)
        for n, i in enumerate(users):
            if not passed[n]:
                continue
            if not self.retract:
                if counts[n] == 0:
                    counts[n] = 1
                    self.calls[i].accumulate(accs[i], value, 1)
                continue
            counts[n] += sign
            if counts[n] == (1 if sign > 0 else 0):
                self.calls[i].accumulate(accs[i], value, sign)
        if not any(counts):
            view.remove(value)
        elif self.retract or counts != old:
            view.put(value, counts, now)


class JoinSide:
    """JoinRecordStateViews, OuterJoinRecordStateViews: rows by join key and unique key, or rows with a count; each with
    the number of its associations."""

    def __init__(self, keys: Sequence[int], unique: Sequence[int] | None, ttl: int) -> None:
        self.keys, self.unique = keys, unique
        self.rows: Cells[tuple[Row, int, int]] = Cells(ttl)
        self.missed = 0

    def add(self, row: Row, sign: int, now: int, associations: int = 0) -> None:
        key = self.identity(row)
        found = self.rows.get(key, now)
        count = found[1] if found and self.unique is None else 0
        if sign > 0:
            self.rows.put(key, (row, count + 1, associations), now)
        elif found and count > 1:
            self.rows.put(key, (row, count - 1, found[2]), now)
        else:
            self.missed += not found
            self.rows.remove(key)

    def update(self, row: Row, associations: int, now: int) -> None:
        found = self.rows.get(self.identity(row), now)
        self.rows.put(self.identity(row), (row, found[1] if found else 1, associations), now)

    def identity(self, row: Row) -> Hashable:
        return (self.key(row), row if self.unique is None else tuple(row[i] for i in self.unique))

    def key(self, row: Row) -> Row:
        return tuple(row[i] for i in self.keys)

    def matches(self, key: Row, now: int) -> list[tuple[Row, int]]:
        """The rows of a join key, as often as they are there, with the number of their associations."""
        return [(row, a) for row, n, a in self.rows.live(now).values() if self.key(row) == key for _ in range(n)]


class Join:
    """StreamingJoinOperator."""

    def __init__(
        self,
        left: JoinSide,
        right: JoinSide,
        filter_nulls: Sequence[bool],
        condition: Callable[[Row], bool] = lambda row: True,
        join_type: str = "INNER",
        widths: tuple[int, int] = (0, 0),
    ) -> None:
        self.sides, self.filter_nulls, self.condition = (left, right), filter_nulls, condition
        self.outer = (join_type in ("LEFT", "FULL"), join_type in ("RIGHT", "FULL"))
        self.widths = widths

    def joined(self, side: int, row: Row, other: Row) -> Row:
        return row + other if side == 0 else other + row

    def padded(self, side: int, row: Row) -> Row:
        return self.joined(side, row, (None,) * self.widths[1 - side])

    def associated(self, side: int, row: Row, now: int) -> list[tuple[Row, int]]:
        key = self.sides[side].key(row)
        if any(f and k is None for k, f in zip(key, self.filter_nulls, strict=True)):
            return []
        found = self.sides[1 - side].matches(key, now)
        return [(other, a) for other, a in found if self.condition(self.joined(side, row, other))]

    def add(self, side: int, change: Change, now: int) -> list[Change]:
        kind, row = change
        own, other_side = self.sides[side], self.sides[1 - side]
        own_outer, other_outer = self.outer[side], self.outer[1 - side]
        found = self.associated(side, row, now)
        out: list[Change] = []
        if not retracts(kind):
            if own_outer and not found:
                out.append((INSERT, self.padded(side, row)))
            if other_outer:
                for other, associations in found:
                    if associations == 0:
                        out.append((DELETE, self.padded(1 - side, other)))
                    other_side.update(other, associations + 1, now)
            joined_kind = INSERT if own_outer or other_outer else kind
            out += [(joined_kind, self.joined(side, row, other)) for other, _ in found]
            own.add(row, 1, now, len(found))
            return out
        own.add(row, -1, now)
        if own_outer and not found:
            out.append((DELETE, self.padded(side, row)))
        out += [(DELETE if own_outer else kind, self.joined(side, row, other)) for other, _ in found]
        if other_outer:
            for other, associations in found:
                if associations == 1:
                    out.append((INSERT, self.padded(1 - side, other)))
                other_side.update(other, associations - 1, now)
        return out


class SemiAntiJoin(Join):
    """StreamingSemiAntiJoinOperator."""

    def __init__(
        self,
        left: JoinSide,
        right: JoinSide,
        filter_nulls: Sequence[bool],
        condition: Callable[[Row], bool] = lambda row: True,
        anti: bool = False,
    ) -> None:
        super().__init__(left, right, filter_nulls, condition)
        self.anti = anti

    def add(self, side: int, change: Change, now: int) -> list[Change]:
        kind, row = change
        found = self.associated(side, row, now)
        sign = -1 if retracts(kind) else 1
        if side == 0:
            self.sides[0].add(row, sign, now, len(found))
            return [change] if bool(found) != self.anti else []
        self.sides[1].add(row, sign, now)
        out: list[Change] = []
        for other, associations in found:
            if associations == (0 if sign > 0 else 1):
                if self.anti:
                    out.append((DELETE if sign > 0 else INSERT, other))
                else:
                    out.append((kind, other))
            self.sides[0].update(other, associations + sign, now)
        return out


class SinkMaterializer:
    """SinkUpsertMaterializer: one list of rows per primary key."""

    def __init__(self, key: Sequence[int], upsert_key: Sequence[int], ttl: int) -> None:
        self.key, self.upsert_key = key, upsert_key
        self.state: Cells[list[Row]] = Cells(ttl)
        self.missed = 0

    def same(self, a: Row, b: Row) -> bool:
        return all(a[i] == b[i] for i in self.upsert_key) if self.upsert_key else a == b

    def add(self, change: Change, now: int) -> list[Change]:
        kind, row = change
        key = tuple(row[i] for i in self.key)
        rows = list(self.state.get(key, now) or [])
        index = next((i for i, r in enumerate(rows) if self.same(r, row)), -1)
        if not retracts(kind):
            out = [(UPDATE_AFTER if rows else INSERT, row)]
            if index >= 0 and self.upsert_key:
                rows[index] = row
            else:
                rows.append(row)
            self.state.put(key, rows, now)
            return out
        if index < 0:
            self.missed += 1
            return []
        gone = rows.pop(index)
        if not rows:
            self.state.remove(key)
            return [(DELETE, gone)]
        self.state.put(key, rows, now)
        return [(UPDATE_AFTER, rows[-1])] if index == len(rows) else []


class SinkConflicts:
    """WatermarkCompactingSinkMaterializer: what waits for the watermark, and the shown row, per primary key."""

    def __init__(self, key: Sequence[int], upsert_key: Sequence[int], fails: bool, ttl: int) -> None:
        self.key, self.upsert_key, self.fails = key, upsert_key, fails
        self.buffer: Cells[list[Change]] = Cells(ttl)
        self.waiting: list[Row] = []
        self.shown: Cells[Row] = Cells(ttl)
        self.missed = 0

    def same(self, a: Row, b: Row) -> bool:
        return all(a[i] == b[i] for i in self.upsert_key) if self.upsert_key else a == b

    def add(self, change: Change, now: int) -> None:
        key = tuple(change[1][i] for i in self.key)
        waiting = list(self.buffer.get(key, now) or [])
        for i, (kind, row) in enumerate(waiting):
            if retracts(kind) != retracts(change[0]) and row == change[1]:
                del waiting[i]
                break
        else:
            waiting.append(change)
        self.buffer.put(key, waiting, now)
        self.waiting.append(key)

    def advance(self, now: int) -> list[Change]:
        out: list[Change] = []
        for key in dict.fromkeys(self.waiting):
            before = self.shown.get(key, now)
            rows = [] if before is None else [before]
            live = self.buffer.get(key, now)
            if not live:
                continue
            for kind, row in live:
                index = next((i for i, r in enumerate(rows) if self.same(r, row)), -1)
                if not retracts(kind):
                    if index >= 0 and self.upsert_key:
                        rows[index] = row
                    else:
                        rows.append(row)
                elif index >= 0:
                    del rows[index]
                else:
                    self.missed += 1
            if len(rows) > 1:
                if self.fails:
                    raise ValueError(key)
                if before is not None:
                    continue
            if not rows:
                if before is not None:
                    out.append((DELETE, before))
                    self.shown.remove(key)
            elif before != rows[0] or before is None:
                out.append((INSERT if before is None else UPDATE_AFTER, rows[0]))
                self.shown.put(key, rows[0], now)
        self.buffer, self.waiting = Cells(self.buffer.ttl), []
        return out


class ChangelogNormalize:
    """ProcTimeDeduplicateKeepLastRowFunction over changes, with the filter of ChangelogNormalize."""

    def __init__(
        self, keys: Sequence[int], update_before: bool, ttl: int, condition: Callable[[Row], bool] | None = None
    ) -> None:
        self.keys, self.update_before, self.condition = keys, update_before, condition
        self.state: Cells[Row] = Cells(ttl)
        self.missed = 0

    def add(self, change: Change, now: int) -> list[Change]:
        kind, row = change
        key = tuple(row[i] for i in self.keys)
        before = self.state.get(key, now)
        if retracts(kind) or (self.condition is not None and not self.condition(row)):
            self.missed += bool(before is None and self.condition is None and self.state.ttl)
            self.state.remove(key)
            return [] if before is None else [(DELETE, before)]
        if before is not None and before == row and not self.state.ttl:
            return []
        self.state.put(key, row, now)
        if before is None:
            return [(INSERT, row)]
        return [*([(UPDATE_BEFORE, before)] if self.update_before else []), (UPDATE_AFTER, row)]
