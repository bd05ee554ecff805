"""Session windows as Flink's operator merges them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from tests.runtime.kernels.aggregate_calls import Reference, plain
from tests.runtime.kernels.reference import INSERT, Change, Row
from tests.runtime.kernels.window_rows import EPOCH, TIME

GAP = 3


def time_of(change: Change) -> int:
    return int((change[1][TIME] - EPOCH) / timedelta(milliseconds=1))


class Session:
    """A window with its rows."""

    def __init__(self, start: int, end: int, rows: list[Change]) -> None:
        self.start, self.end, self.rows = start, end, rows

    def meets(self, other: Session) -> bool:
        return self.start <= other.end and self.end >= other.start


class Sessions:
    """Flink's operator: each row makes a window, which is merged with those that it meets."""

    def __init__(self, chosen: Sequence[int], grouping: tuple[int, ...], retract: bool) -> None:
        self.chosen, self.grouping, self.retract = chosen, grouping, retract
        self.open: dict[Row, list[Session]] = {}
        self.late = 0

    def step(self, batch: list[Change], before: int, now: int) -> list[Row]:
        for change in batch:
            self.add(change, before)
        out: list[tuple[int, Row]] = []
        for sessions in self.open.values():
            for session in [s for s in sessions if s.end - 1 <= now]:
                out += self.fired(session)
                sessions.remove(session)
        return [row for _, row in sorted(out, key=lambda o: o[0])]

    def add(self, change: Change, before: int) -> None:
        key = tuple(change[1][g] for g in self.grouping)
        sessions = self.open.setdefault(key, [])
        made = Session(time_of(change), time_of(change) + GAP, [])
        met = sorted((s for s in sessions if s.meets(made)), key=lambda s: s.start)
        merged = Session(
            min(s.start for s in (made, *met)),
            max(s.end for s in (made, *met)),
            [*(row for s in met for row in s.rows), change],
        )
        if merged.end - 1 <= before:
            self.late += 1
            return
        for session in met:
            sessions.remove(session)
        sessions.append(merged)

    def fired(self, session: Session) -> list[tuple[int, Row]]:
        found = Reference(self.chosen, self.grouping, self.retract)
        for kind, row in session.rows:
            found.add((kind, row[:TIME]), 0)
        told = [EPOCH + timedelta(milliseconds=m) for m in (session.start, session.end, session.end - 1)]
        return [(session.end, (*map(plain, row), *told)) for row in found.rows().values()]


def rows(*times: int, kind: int = INSERT) -> list[Change]:
    return [(kind, (1, "a", t, True, 1.0, "", None, 0.5, EPOCH + timedelta(milliseconds=t))) for t in times]
