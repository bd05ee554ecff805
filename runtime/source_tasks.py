"""What a task of a source does: it reads splits, and sends on what the pipelines behind it make of their rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import polars as pl
import pyarrow as pa

from stateplan.common.errors import DataError, Place, StateplanError
from stateplan.common.files import bytes_taken
from stateplan.common.roots import hold
from stateplan.connectors.rejects import Reject, collecting
from stateplan.connectors.splits import AssignedSplit, EndOfInput, Split
from stateplan.runtime.delivery import Clock, closing_marks, count_rows, deliver, name_part, send_marks, side_blobs
from stateplan.runtime.exchange import Blob, blob_batch
from stateplan.runtime.jobgraph import JobGraph, Pipeline, SourceSpec
from stateplan.runtime.kernel import NO_WATERMARK
from stateplan.runtime.metrics.figures import PART_WATERMARK
from stateplan.runtime.wakeups import alarms, sweeps, touches
from stateplan.runtime.worker import MicroBatch, count_all, with_coded_errors

T = TypeVar("T")

_PACK_BYTES = 256 << 10
_PACK_BLOBS = 1024
"""Blobs are sent on when there are so many, or so many bytes of them: those of small files go together."""


def read_source(
    batch: MicroBatch, index: int, level: int = 1
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that turns the splits of a source into blobs.

    Args:
        batch: the micro-batch.
        index: number of the source.
        level: the first one that its blobs come to.
    """
    reader = batch.graph.sources[index].reader

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return read_splits(batch, index, map(reader.splits, batches), blob_batch, level)

    return run


def read_splits(
    batch: MicroBatch,
    index: int,
    splits: Iterable[Sequence[AssignedSplit[Any] | EndOfInput]],
    pack: Callable[[list[Blob]], T],
    level: int = 1,
) -> Iterator[T]:
    """What :func:`read_source` returns, of splits. Raises WorkerError.

    Args:
        splits: the splits, some at a time.
        pack: makes what is given of some blobs.
    """
    task = _SourceTask(batch, index, level, pack)
    return with_coded_errors(task.run, f"table {task.source.name}")(splits)


class _SourceTask(Generic[T]):
    """A task that reads splits of a source.

    Args:
        batch, index, level: as for :func:`read_source`.
        pack: as for :func:`read_splits`.

    Attributes:
        clock: the watermarks that its rows make.
        now: the time of the micro-batch, ms; known with the first split.
        figures: what the task counts.
        size: bytes of the splits that have been read.
        reads: whether it has any split to read.
        at_end: whether it knows that bounded input has ended.
        rows_of: part of the source -> rows.
        more_parts: parts that have more rows than are read now.
        ready: blobs that have not been sent on, of ``ready_bytes``.
    """

    def __init__(self, batch: MicroBatch, index: int, level: int, pack: Callable[[list[Blob]], T]) -> None:
        self.batch = batch
        self.graph = batch.graph
        self.source = batch.graph.sources[index]
        self.level = level
        self.pack = pack
        self.clock = Clock()
        self.now = 0
        self.figures: dict[str, float] = dict.fromkeys(("rows_in", "bytes_out", "read_ms", "deliver_ms"), 0)
        self.size = 0
        self.reads = False
        self.at_end = False
        self.rows_of: Counter[str] = Counter()
        self.more_parts: set[str] = set()
        self.ready: list[Blob] = []
        self.ready_bytes = 0

    @property
    def _is_full(self) -> bool:
        return self.ready_bytes >= _PACK_BYTES or len(self.ready) >= _PACK_BLOBS

    def run(self, splits: Iterable[Sequence[AssignedSplit[Any] | EndOfInput]]) -> Iterator[T]:
        """Reads the splits, and then sends what belongs to the end of the task."""
        hold(self.graph.roots)
        for some in splits:
            self.source.reader.expect([at.split for at in some if not isinstance(at, EndOfInput)])
            for split in some:
                self.now = max(self.now, split.now)
                if isinstance(split, EndOfInput):
                    self.at_end = True
                elif self.source.pipeline.outputs or self.graph.active_plan == "both":
                    yield from self._read(split)
                else:
                    self.reads = True  # nobody gets its rows any more
        self.ready += [*self._marks(), *self._wakeups()]
        yield from self._send()
        if self.reads:
            self._count()

    def _send(self) -> Iterator[T]:
        """What is made of the blobs that are ready."""
        if self.ready:
            blobs, self.ready, self.ready_bytes = self.ready, [], 0
            yield self.pack(blobs)

    def _read(self, assigned_split: AssignedSplit[Any]) -> Iterator[T]:
        """Sends the rows of a split on, frame by frame."""
        self.reads = True
        split = assigned_split.split
        start_time, before, size = time.perf_counter(), bytes_taken(), split.byte_count
        self._begin_part(split)
        rows = 0
        for number, (frame, rejects) in enumerate(_frames(self.source, split)):
            read = time.perf_counter()
            blobs = self._deliver_frame(assigned_split, number, frame, rejects, rows)
            rows += frame.height
            self.ready += blobs
            self.ready_bytes += sum(blob.size for blob in blobs)
            out = list(self._send()) if self._is_full else []
            self.figures["read_ms"] += 1000 * (read - start_time)
            self.figures["deliver_ms"] += 1000 * (time.perf_counter() - read)
            if size:
                self.figures["bytes_read"] = self.size + min(size, bytes_taken() - before)
            self.batch.counters.so_far(self.source.uid, self.figures)
            yield from out
            start_time = time.perf_counter()
        self.size += size
        if self.size:
            self.figures["bytes_read"] = self.size

    def _begin_part(self, split: Split) -> None:
        """Goes to the part of the source that a split belongs to."""
        self.clock.part = split.part
        if split.part:
            self.rows_of[split.part] += 0
            if split.waits:
                self.more_parts.add(split.part)
            name_part(self.source.pipeline, self.clock)

    def _deliver_frame(
        self, assigned_split: AssignedSplit[Any], number: int, frame: pl.DataFrame, rejects: list[Reject], before: int
    ) -> list[Blob]:
        """The blobs of a frame.

        Args:
            number: the number of the frame in its split.
            rejects: what was skipped in front of it.
            before: rows of the split in front of it.
        """
        count_rows(self.figures, "rows_out", frame)
        seq = f"{assigned_split.seq}\0{number:08d}"
        try:
            blobs = list(deliver(self.graph, self.source.pipeline, frame, assigned_split.now, seq, self.clock))
        except DataError as error:
            _locate(error, self.graph, self.source, frame, assigned_split, before)
            raise
        if rejects and self.source.errors is not None:
            rows = self.source.errors.of(rejects)
            blobs += side_blobs(self.graph, self.source.errors.sink, rows, assigned_split.now, seq, self.clock)
        self.figures["rows_in"] += frame.height
        self.rows_of[self.clock.part] += frame.height
        self.figures["bytes_out"] += sum(blob.size for blob in blobs)
        return blobs

    def _marks(self) -> Iterator[Blob]:
        """The watermarks that the rows made, and those that end bounded input."""
        silent = {part for part, rows in self.rows_of.items() if part and not rows} - self.more_parts
        yield from send_marks(self.graph, self.clock.marks, self.now, silent)
        if self.at_end:
            yield from send_marks(self.graph, closing_marks(self.graph), self.now)

    def _wakeups(self) -> Iterator[Blob]:
        """What has operators look at their state."""
        if self.batch.touches and (self.reads or self.at_end):
            yield from touches(self.graph, self.now)
        elif self.batch.number is not None and self.reads:
            yield from sweeps(self.graph, self.batch.number, self.now, self.level)
        if self.reads:
            yield from alarms(self.graph, self.now, self.level)

    def _count(self) -> None:
        figures = {**self.figures, "rows_out": self.figures["rows_in"], **_aligned(self.source.pipeline, self.clock)}
        count_all(self.batch, self.source.uid, figures, self.clock, self.now, self.clock.least())


def _locate(
    error: DataError, graph: JobGraph, source: SourceSpec, frame: pl.DataFrame, at: AssignedSplit[Any], before: int
) -> None:
    """Adds to an error of a row in which file the row is, and its number there.

    Args:
        frame: the row is in it.
        at: the split of the frame.
        before: rows of the same file before the frame.
    """
    place = error.place or Place()
    if place.file is not None or at.split.origin is None:
        return
    low, high = 0, frame.height
    while high - low > 1:
        middle = (low + high) // 2
        try:
            for _ in deliver(graph, source.pipeline, frame[low:middle], at.now, at.seq):
                pass
            low = middle
        except StateplanError:
            high = middle
    error.place = replace(place, file=at.split.origin, row=before + low + 1)


def _frames(source: SourceSpec, split: Split) -> Iterator[tuple[pl.DataFrame, list[Reject]]]:
    """The frames of a split, and with each what was skipped since the one before; the last one may have no rows."""
    frames = iter(source.reader.read(split))
    if source.errors is None:
        yield from ((frame, []) for frame in frames)
        return
    while True:
        with collecting() as rejects:
            frame = next(frames, None)
        if frame is not None:
            yield frame, rejects
        else:
            if rejects:
                yield pl.DataFrame(), rejects
            return


def _aligned(pipeline: Pipeline, clock: Clock) -> dict[str, float]:
    """The watermarks of the parts of an aligned source, as figures."""
    places = {id(t) for t in pipeline.transforms if t.aligned}
    watermarks = {
        part: value for (place, part), value in clock.largest.items() if place in places and value > NO_WATERMARK
    }
    return {f"{PART_WATERMARK}{part}": value for part, value in watermarks.items()}
