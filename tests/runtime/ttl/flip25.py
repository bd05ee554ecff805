"""State entries by the rules of FLIP-25, one access at a time, slow and obvious: what the runtime is compared with.

The operators are those of :mod:`tests.runtime.kernels.reference` and :mod:`tests.runtime.kernels.topn_reference`, which
go row by row; here is the state they keep. A micro-batch is one moment: an entry that is found in it, or written, stays
found in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from stateplan.common.ttl import StateVisibility, TtlConfig, TtlTimeCharacteristic, UpdateType
from tests.runtime.kernels.reference import Call, Cells, Change, GroupAggregate, JoinSide, Row

V = TypeVar("V")


@dataclass
class Moment:
    """What time it is for an access.

    Attributes:
        now: of the micro-batch.
        watermark: when the micro-batch began; None before the first one.
        event: the event time of the row at hand; None for a row without one.
        batch: number of the micro-batch.
    """

    now: int = 0
    watermark: int | None = None
    event: int | None = None
    batch: int = 0


@dataclass
class _Entry(Generic[V]):
    value: V
    accessed: int
    batch: int
    leaving: bool = False


@dataclass
class Entries(Cells[V]):
    """Stands in for :class:`tests.runtime.kernels.reference.Cells`; the times it is called with are ignored."""

    config: TtlConfig
    moment: Moment
    entries: dict[Hashable, _Entry[V]] = field(default_factory=dict)

    @property
    def ttl(self) -> int:  # type: ignore[override]
        return self.config.ttl

    def _is_by_event(self) -> bool:
        return self.config.time_characteristic is TtlTimeCharacteristic.EVENT_TIME

    def _accessed(self, before: int | None) -> int:
        """The time of an access to an entry that was last accessed ``before``."""
        if not self._is_by_event():
            return self.moment.now
        if self.moment.event is not None:
            return self.moment.event
        return before if before is not None else self.moment.watermark or 0

    def _expired(self, entry: _Entry[V]) -> bool:
        if not self.config.ttl or entry.batch == self.moment.batch:
            return False
        clock = self.moment.watermark if self._is_by_event() else self.moment.now
        return clock is not None and entry.accessed + self.config.ttl <= clock

    def _swept(self) -> None:
        """Removes what was read in an earlier micro-batch after it had expired."""
        for key in [k for k, e in self.entries.items() if e.leaving and e.batch != self.moment.batch]:
            del self.entries[key]

    def get(self, key: Hashable, now: int) -> V | None:
        self._swept()
        entry = self.entries.get(key)
        if entry is None:
            return None
        if self._expired(entry):
            if self.config.visibility is StateVisibility.NEVER_RETURN_EXPIRED:
                del self.entries[key]
                return None
            entry.leaving = True
        entry.batch = self.moment.batch
        if not entry.leaving and self.config.ttl and self.config.update_type is UpdateType.ON_READ_AND_WRITE:
            entry.accessed = self._accessed(entry.accessed)
        return entry.value

    def put(self, key: Hashable, value: V, now: int) -> None:
        self._swept()
        before = self.entries.get(key)
        time = self._accessed(before.accessed if before else None)
        self.entries[key] = _Entry(value, time, self.moment.batch)

    def has(self, key: Hashable) -> bool:
        """Whether an entry would be found."""
        self._swept()
        entry = self.entries.get(key)
        return entry is not None and not (
            self._expired(entry) and self.config.visibility is StateVisibility.NEVER_RETURN_EXPIRED
        )

    def remove(self, key: Hashable) -> None:
        self.entries.pop(key, None)

    def live(self, now: int) -> dict[Hashable, V]:
        found = {key: self.get(key, now) for key in list(self.entries)}
        return {key: value for key, value in found.items() if value is not None}


def config(ttl: int, *words: str) -> TtlConfig:
    """A lifetime with the given update type, visibility and time characteristic, in the plan's words."""
    update, visibility, time = words
    return TtlConfig(ttl, UpdateType(update), StateVisibility(visibility), TtlTimeCharacteristic(time))


CONFIGS = {
    f"{u}-{v}-{t}": (u.value, v.value, t.value)
    for u in UpdateType
    for v in StateVisibility
    for t in TtlTimeCharacteristic
}
"""The eight ways in which state can age."""


class Aggregate(GroupAggregate):
    """:class:`GroupAggregate` over such entries."""

    def __init__(self, grouping: Sequence[int], calls: Sequence[Call], retract: bool, config: TtlConfig, at: Moment):
        super().__init__(grouping, calls, True, retract, config.ttl)
        self.config, self.at = config, at
        self.groups: Entries[dict[str, Any]] = Entries(config, at)
        self.state = self.groups

    def add(self, change: Change, now: int) -> list[Change]:
        group = tuple(change[1][i] for i in self.grouping)
        if self.retract and not self.groups.has(group):
            # A group that starts anew knows no values, though some may have been accessed later than the group was.
            for key in [k for k in self.views if k[0] == group]:  # type: ignore[index]
                del self.views[key]
        return super().add(change, now)

    def view(self, group: Row, name: Hashable) -> Cells[list[int]]:
        return self.views.setdefault((group, name), Entries(self.config, self.at))


class Side(JoinSide):
    """:class:`JoinSide` over such entries; a match reads the rows of its key alone."""

    def __init__(self, keys: Sequence[int], unique: Sequence[int] | None, config: TtlConfig, at: Moment) -> None:
        super().__init__(keys, unique, config.ttl)
        self.entries: Entries[tuple[Row, int, int]] = Entries(config, at)
        self.rows = self.entries

    def matches(self, key: Row, now: int) -> list[tuple[Row, int]]:
        mine = [identity for identity in list(self.entries.entries) if identity[0] == key]  # type: ignore[index]
        found = [self.entries.get(identity, now) for identity in mine]
        return [(row, a) for row, n, a in (f for f in found if f is not None) for _ in range(n)]
