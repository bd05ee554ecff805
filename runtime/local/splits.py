"""The micro-batches of bounded input, which have the splits that Spark would give them; and how splits are made."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
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
    splits: Mapping[int, Sequence[AssignedSplit[Any]]]
    ends: bool


def micro_batches(graph: JobGraph) -> Iterator[BatchInput]:
    """The micro-batches of a job, each made at its time; none is without splits.

    Raises:
        RunError: RUN020, tables with different clocks.
        DataError: a table that cannot be listed.
    """
    times = instants(graph) if is_virtual(graph) else None
    readers = [source.reader for source in graph.sources]
    files = {i: file_packs(r.files(), r.max_files) for i, r in enumerate(readers) if isinstance(r, FileSource)}
    ranges = any(isinstance(r, RangeSource) and r.total for r in readers)
    splits_by_source = {i: _plan_splits(r) for i, r in enumerate(readers) if isinstance(r, OffsetSource)}
    lengths = [len(packs) for packs in files.values()] + [len(batches) for batches in splits_by_source.values()]
    count = max((len(times or ()), int(ranges), *lengths))
    ends = ends_with_files(graph) and (len(readers) == 1 or count == 1)
    for number in range(count):
        now = clock_now() if times is None else times[number] if times else 0
        splits: dict[int, list[AssignedSplit[Any]]] = {}
        for index, reader in enumerate(readers):
            order = f"{index:04d}/"
            if isinstance(reader, InstantSource):
                if times:
                    splits[index] = [AssignedSplit(InstantSplit(now), f"{order}{number:010d}", now)]
            elif isinstance(reader, FileSource):
                if number < len(files[index]):
                    splits[index] = file_splits(files[index][number], order, now)
            elif isinstance(reader, OffsetSource):
                if number < len(splits_by_source[index]):
                    splits[index] = planned_splits(splits_by_source[index][number], order, now)
            elif isinstance(reader, RangeSource) and reader.total and number == 0:
                at = now if times is None else 0
                splits[index] = [AssignedSplit(RangeSplit(0, reader.total), order, at)]
        yield BatchInput(now, splits, ends and number == count - 1)


def end_of_time(graph: JobGraph) -> int:
    """The time of the micro-batch behind all others, in which event time comes to its end."""
    times = instants(graph)
    return times[-1] if times else clock_now()


def file_splits(files: Sequence[FileEntry], order: str, now: int) -> list[AssignedSplit[Any]]:
    """The splits of the files of a micro-batch.

    Args:
        order: puts them behind those of the sources in front of theirs.
        now: the time of the micro-batch, ms.
    """
    return [AssignedSplit(FileSplit(file.path), f"{order}{file.modified:016d}/{file.path}", now) for file in files]


def planned_splits(splits: Sequence[Split], order: str, now: int) -> list[AssignedSplit[Any]]:
    """The splits of a micro-batch that a source has planned. Arguments as of :func:`file_splits`."""
    return [AssignedSplit(split, f"{order}{n:010d}", now) for n, split in enumerate(splits)]


def file_packs(files: Sequence[FileEntry], most: int | None, most_small: int | None = None) -> list[list[FileEntry]]:
    """The files of each micro-batch: the older ones first, at least one.

    Args:
        files: all of them.
        most: how many a micro-batch may have; None to bound their bytes.
        most_small: how many it may have where their bytes are bounded; None for any number.
    """
    packs: list[list[FileEntry]] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.modified, file.path)):
        size += file.size
        few = not packs or most_small is None or len(packs[-1]) < most_small
        fits = len(packs[-1]) < most if most and packs else size <= _BATCH_BYTES and few
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


def clock_now() -> int:
    """The time by the clock of the machine, ms."""
    return time.time_ns() // 1_000_000
