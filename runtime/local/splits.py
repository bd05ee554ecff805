"""The micro-batches of bounded input: which splits Spark would give each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, TypeVar

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.listing import FileEntry
from stateplan.connectors.protocol import FileSource, InstantSource, OffsetSource, RangeSource
from stateplan.connectors.splits import AssignedSplit, FileSplit, InstantSplit, RangeSplit, Split
from stateplan.runtime.clocks import instants, is_virtual
from stateplan.runtime.file_lists import ends_with_files
from stateplan.runtime.jobgraph import JobGraph

S = TypeVar("S", bound=Split)

_BATCH_BYTES = 128 << 20
"""Bytes of the files of a table in a micro-batch, where the table does not say how many files there may be."""


@dataclass(frozen=True)
class BatchInput:
    """What a micro-batch reads.

    Attributes:
        now: its time, ms.
        splits: per source number; of those that have some.
        ends: whether it brings event time to its end.
    """

    now: int
    splits: dict[int, list[AssignedSplit[Any]]]
    ends: bool


def micro_batches(graph: JobGraph) -> Iterator[BatchInput]:
    """The micro-batches of a job, each made at its time; none is without splits.

    Raises:
        RunError: RUN020, tables with different clocks.
        DataError: a table that cannot be listed.
    """
    times = instants(graph) if is_virtual(graph) else None
    files = {i: _packs(s.reader) for i, s in enumerate(graph.sources) if isinstance(s.reader, FileSource)}
    ranges = any(isinstance(s.reader, RangeSource) and s.reader.total for s in graph.sources)
    splits_by_source = {
        i: _plan_splits(s.reader) for i, s in enumerate(graph.sources) if isinstance(s.reader, OffsetSource)
    }
    lengths = [len(packs) for packs in files.values()] + [len(batches) for batches in splits_by_source.values()]
    count = max((len(times or ()), int(ranges), *lengths))
    ends = ends_with_files(graph) and (len(graph.sources) == 1 or count == 1)
    for number in range(count):
        now = _now() if times is None else times[number] if times else 0
        splits: dict[int, list[AssignedSplit[Any]]] = {}
        for index, source in enumerate(graph.sources):
            reader, order = source.reader, f"{index:04d}/"
            if isinstance(reader, InstantSource):
                if times:
                    splits[index] = [AssignedSplit(InstantSplit(now), f"{order}{number:010d}", now)]
            elif isinstance(reader, FileSource):
                if number < len(files[index]):
                    splits[index] = [
                        AssignedSplit(FileSplit(file.path), f"{order}{file.modified:016d}/{file.path}", now)
                        for file in files[index][number]
                    ]
            elif isinstance(reader, OffsetSource):
                if number < len(splits_by_source[index]):
                    some = enumerate(splits_by_source[index][number])
                    splits[index] = [AssignedSplit(split, f"{order}{n:010d}", now) for n, split in some]
            elif isinstance(reader, RangeSource) and reader.total and number == 0:
                at = now if times is None else 0
                splits[index] = [AssignedSplit(RangeSplit(0, reader.total), order, at)]
        yield BatchInput(now, splits, ends and number == count - 1)


def end_of_time(graph: JobGraph) -> int:
    """The time of the micro-batch behind all others, in which event time comes to its end."""
    times = instants(graph)
    return times[-1] if times else _now()


def _packs(source: FileSource) -> list[list[FileEntry]]:
    """The files of each micro-batch: the older ones first, at least one."""
    packs: list[list[FileEntry]] = []
    size = 0
    for file in sorted(source.files(), key=lambda file: (file.modified, file.path)):
        size += file.size
        fits = len(packs[-1]) < source.max_files if source.max_files and packs else size <= _BATCH_BYTES
        if packs and fits:
            packs[-1].append(file)
        else:
            packs.append([file])
            size = file.size
    return packs


def _plan_splits(source: OffsetSource[S]) -> list[list[S]]:
    """The splits of each micro-batch of a bounded source that plans them itself."""
    batches = []
    start = source.initial_offset()
    while (end := source.latest_offset(start)) != start:
        batches.append(source.plan(start, end))
        start = end
    return batches


def _now() -> int:
    return time.time_ns() // 1_000_000
