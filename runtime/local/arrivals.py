"""The micro-batches of input without end: what has arrived since the last look."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from stateplan.common.errors import StateplanError
from stateplan.connectors.listing import FileEntry
from stateplan.connectors.protocol import FileSource, Offset, OffsetSource, RangeSource, Source
from stateplan.connectors.splits import AssignedSplit, RangeSplit
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.local.splits import BatchInput, clock_now, file_packs, file_splits, planned_splits

_INTERVAL = 100
"""Milliseconds between two looks, at most, at sources that do not say how often."""

_LEAST_INTERVAL = 25
"""The same while rows arrive, at sources that plan what they read: a look is one request. With shorter ones, a thousand
rows a second would take most of a core."""

_FILES = 500
"""Files of a table in a micro-batch, where the table does not say how many there may be: the first rows of many small
ones are not to wait for the last."""


class Arrivals:
    """The input of a job that does not end.

    Args:
        graph: the job graph. Its tables follow the clock of the machine.

    Attributes:
        interval: seconds to the next look. Each source is looked at as often as it says. One that does not say is
            looked at again soon after rows have arrived, and then less and less often.
    """

    def __init__(self, graph: JobGraph) -> None:
        readers = [source.reader for source in graph.sources]
        self._intervals = [_shortest(reader) / 1000 for reader in readers]
        unbounded = [reader for reader in readers if not reader.bounded]
        self._shortest = min(map(_shortest, unbounded)) / 1000
        self._longest = max(self._shortest, min(map(_longest, unbounded)) / 1000)
        self.interval = self._shortest
        self._due = [0.0] * len(readers)
        self._names = [source.name for source in graph.sources]
        self._inputs = [_input_of(reader, f"{index:04d}/") for index, reader in enumerate(readers)]

    @property
    def has_more(self) -> bool:
        """Whether it is known that the next look finds something."""
        return any(some.has_more for some in self._inputs)

    def look(self) -> BatchInput | None:
        """The next micro-batch; None if nothing has arrived. Raises StateplanError, a table that cannot be read."""
        now, at = clock_now(), time.monotonic()
        splits: dict[int, Sequence[AssignedSplit[Any]]] = {}
        for index, some in enumerate(self._inputs):
            if at < self._due[index] and not some.has_more:
                continue
            # Half an interval less: looks are never exactly on time.
            self._due[index] = at + self._intervals[index] - self.interval / 2
            try:
                new_splits = some.take(now)
            except StateplanError as error:
                raise error.within(f"table {self._names[index]}") from None
            if new_splits:
                splits[index] = new_splits
        self.interval = self._shortest if splits else min(2 * self.interval, self._longest)
        return BatchInput(now, splits, ends=False) if splits else None

    def commit(self) -> None:
        """The micro-batch has been written."""
        for some in self._inputs:
            some.commit()


def _longest(reader: Source[Any]) -> int:
    """Milliseconds between two looks when nothing arrives."""
    return _INTERVAL if reader.interval is None else reader.interval


def _shortest(reader: Source[Any]) -> int:
    """Milliseconds between two looks while rows arrive."""
    is_quick = reader.interval is None and isinstance(reader, OffsetSource)
    return _LEAST_INTERVAL if is_quick else _longest(reader)


class _Input(ABC):
    """The input of a source.

    Args:
        order: puts its splits behind those of the sources in front of it.
    """

    def __init__(self, order: str) -> None:
        self.order = order

    @property
    def has_more(self) -> bool:
        """Whether it is known that the next look finds something."""
        return False

    @abstractmethod
    def take(self, now: int) -> Sequence[AssignedSplit[Any]]:
        """The splits of a micro-batch at the time ``now``, ms."""

    def commit(self) -> None:  # noqa: B027 - most have nothing to do
        """The micro-batch has been written."""


class _Files(_Input):
    """Files: those that were not there before."""

    def __init__(self, reader: FileSource, order: str) -> None:
        super().__init__(order)
        self._reader = reader
        self._known_paths: set[str] = set()
        self._packs: list[list[FileEntry]] = []
        self._has_listed = False

    @property
    def has_more(self) -> bool:
        return bool(self._packs)

    def take(self, now: int) -> Sequence[AssignedSplit[Any]]:
        fresh = self._fresh_files()
        if fresh:
            queue = [file for pack in self._packs for file in pack]
            self._packs = file_packs([*queue, *fresh], self._reader.max_files, _FILES)
        return file_splits(self._packs.pop(0), self.order, now) if self._packs else []

    def _fresh_files(self) -> list[FileEntry]:
        if self._reader.bounded and self._has_listed:
            return []
        self._has_listed = True
        fresh = self._reader.new_files(self._known_paths)
        self._known_paths.update(file.path for file in fresh)
        return fresh


class _Offsets(_Input):
    """What a source plans itself."""

    def __init__(self, reader: OffsetSource[Any], order: str) -> None:
        super().__init__(order)
        self._reader = reader
        self._at: Offset | None = None
        self._end: Offset | None = None

    def take(self, now: int) -> Sequence[AssignedSplit[Any]]:
        if self._at is None:
            self._at = self._reader.initial_offset()
        end = self._reader.latest_offset(self._at)
        if end == self._at:
            return []
        self._end = end
        return planned_splits(self._reader.plan(self._at, end), self.order, now)

    def commit(self) -> None:
        if self._end is not None:
            if self._reader.acknowledges:
                self._reader.committed(self._end)
            self._at, self._end = self._end, None


class _Numbers(_Input):
    """Numbered rows: so many in a second, or all at once where they end."""

    def __init__(self, reader: RangeSource, order: str) -> None:
        super().__init__(order)
        self._reader = reader
        self._next = 0
        self._began = time.monotonic()

    def take(self, now: int) -> Sequence[AssignedSplit[Any]]:
        due = self._reader.total
        if due is None:
            due = 1 + int((time.monotonic() - self._began) * self._reader.per_second)
        start, self._next = self._next, max(due, self._next)
        return [AssignedSplit(RangeSplit(start, due), f"{self.order}{start:020d}", now)] if start < due else []


def _input_of(reader: Source[Any], order: str) -> _Input:
    if isinstance(reader, FileSource):
        return _Files(reader, order)
    if isinstance(reader, OffsetSource):
        return _Offsets(reader, order)
    assert isinstance(reader, RangeSource)
    return _Numbers(reader, order)
