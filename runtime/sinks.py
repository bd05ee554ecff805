"""Sinks: what workers make of the blobs of a micro-batch, and what the driver does with it once per micro-batch."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import groupby
from pathlib import Path
from typing import overload

import pyarrow as pa

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import Roots, hold
from stateplan.connectors.protocol import Sink
from stateplan.execnodes.shadows import ActivePlan
from stateplan.runtime.checkpoint.sink_records import SinkRecords
from stateplan.runtime.exchange import Blob, blobs_of, decode, rows_of
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import SinkSpec
from stateplan.runtime.metrics.figures import UNCOUNTED, TaskCounters
from stateplan.runtime.scratch import scratch
from stateplan.runtime.worker import with_coded_errors

SINK_SCHEMA = "reports BINARY"
"""What a task gives the driver: one row with all its reports, or none."""


@dataclass(frozen=True)
class Left:
    """Some bytes in a file.

    Attributes:
        path: the path of the file.
        start: where in it they begin.
        size: how many.
    """

    path: Path
    start: int
    size: int

    def read(self) -> bytes:
        """The bytes. Raises OSError, also where some are missing."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            content = file.read(self.size)
        if len(content) < self.size:
            raise OSError(f"{self.path} has been cut off")
        return content


@dataclass(frozen=True)
class CompressedOutput:
    """Some bytes, compressed.

    Attributes:
        data: by LZ4.
        size: how many bytes they are.
    """

    data: bytes
    size: int

    @staticmethod
    def of(content: bytes) -> CompressedOutput:
        return CompressedOutput(pa.compress(content, codec="lz4", asbytes=True), len(content))

    def read(self) -> bytes:
        """The bytes."""
        content: bytes = pa.decompress(self.data, self.size, codec="lz4", asbytes=True)
        return content


Report = tuple[int, str, int, bytes | Left | CompressedOutput]
"""What a worker reports of a part: number of the sink, what orders it, rows written, and what the sink's driver part
needs (printed lines, file names), or where that is."""

FOR_DRIVER = -1
"""In place of the number of a sink: a watermark for the driver (see :mod:`runtime.readers`), packed."""

_LARGE = 64 << 10
"""Bytes from which on what a task hands over is left in a file, or compressed."""


Writer = tuple[Sink, str, str]
"""The writer of a sink, the name of its table, and the uid under which its figures are counted."""


def write_sinks(
    sinks: Sequence[Writer],
    batch_id: int,
    slots: Sequence[int],
    counters: TaskCounters = UNCOUNTED,
    shared_folder: Path | None = None,
    roots: Roots | None = None,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` over the final blobs of micro-batch ``batch_id``.

    Args:
        sinks: all of the job.
        slots: those of the sinks; what has another one is for the driver.
        shared_folder: a folder that the driver reads; None where workers may be on other machines.
        roots: the roots of the job.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hold(roots)
        sink_reports = _handed_over(write_blobs(sinks, batch_id, slots, blobs_of(batches), counters), shared_folder)
        if sink_reports:
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(sink_reports)], pa.binary())], names=["reports"])

    return run


def write_blobs(
    sinks: Sequence[Writer],
    batch_id: int,
    slots: Sequence[int],
    blobs: Iterable[Blob],
    counters: TaskCounters = UNCOUNTED,
) -> list[Report]:
    """Writes the final blobs of a micro-batch; what :func:`write_sinks` reports. Raises WorkerError."""
    labels = {slot_label(slot): i for i, slot in enumerate(slots)}

    @with_coded_errors
    def rows() -> Iterator[Report]:
        out: list[Report] = []
        final = sorted(blobs, key=lambda b: (b.slot, b.seq))
        for label, group in groupby(final, key=lambda b: b.slot):
            number = labels.get(label, FOR_DRIVER)
            if number == FOR_DRIVER:
                out += [(number, "", 0, blob.packed()) for blob in group]
                continue
            writer, table, uid = sinks[number]
            start_time = time.perf_counter()
            size = 0
            for seq, height, data in _parts(list(group), writer.keeps_order):
                output = b""
                if data:
                    part = hashlib.sha1(seq.encode(), usedforsecurity=False).hexdigest()[:12]
                    try:
                        output = writer.write(decode(data), batch_id, part)
                    except StateplanError as error:
                        raise error.within(f"table {table}") from error
                    size += sum(map(len, data))
                out.append((number, seq, height, output))
            milliseconds = 1000 * (time.perf_counter() - start_time)
            counters.add(uid, {"bytes_in": size, "sink_ms": milliseconds, "busy_ms": milliseconds})
        yield from out

    return list(rows())


def _handed_over(sink_reports: list[Report], shared_folder: Path | None) -> list[Report]:
    """The reports of a task. Large outputs are in a file in ``shared_folder``, because
    the JVM, through which reports come, copies it several times. Where there is no file it is compressed."""
    if sum(len(output) for *_, output in sink_reports if isinstance(output, bytes)) < _LARGE:
        return sink_reports
    if shared_folder is not None:
        left: list[Report] = []
        path = shared_folder / uuid.uuid4().hex
        try:
            with path.open("wb") as file:
                for number, seq, height, output in sink_reports:
                    assert isinstance(output, bytes)
                    left.append((number, seq, height, Left(path, file.tell(), len(output)) if output else output))
                    file.write(output)
            return left
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return [
        (number, seq, height, CompressedOutput.of(output) if isinstance(output, bytes) and output else output)
        for number, seq, height, output in sink_reports
    ]


def _parts(blobs: list[Blob], is_ordered: bool) -> Iterator[tuple[str, int, list[bytes]]]:
    """(what orders it, rows, their frames) of each part that a sink writes: one for each blob, or one of all."""
    for some in [[blob] for blob in blobs] if is_ordered else [blobs]:
        rows = rows_of(some)
        yield some[0].seq, sum(r.height for r in rows), [r.data for r in rows if r.data]


def for_driver(reports: Iterable[Report]) -> list[Blob]:
    """What is for the driver among the reports."""
    return [Blob.unpacked(0, _read(output)) for number, _, _, output in reports if number == FOR_DRIVER]


def _read(output: bytes | Left | CompressedOutput) -> bytes:
    return output if isinstance(output, bytes) else output.read()


def reports(report_blobs: Iterable[bytes]) -> list[Report]:
    """The reports of all tasks, from what each of them gave."""
    return [report for some in report_blobs for report in pickle.loads(some)]


@dataclass
class SinkDriver:
    """The driver's part of all sinks of a job.

    Attributes:
        near: whether the workers are other processes of this machine.
        record: the record of the micro-batches that the sinks have recorded; None for a job without a checkpoint.
        tell: receives sentences for the user.
        parts_folder: a folder where they leave what they hand over; None if there is none.
        row_counts: per sink, in the order of the plan, the rows written since the start.
        active_plan: of a job with a shadow, what runs. Other sinks are left alone.
    """

    sinks: tuple[SinkSpec, ...]
    near: bool = False
    record: SinkRecords | None = None
    tell: Callable[[str], None] = lambda sentence: None
    parts_folder: Path | None = field(default=None, init=False)
    active_plan: ActivePlan = field(default="both", init=False)

    def __post_init__(self) -> None:
        self.writers: tuple[Sink, ...] = tuple(sink.writer for sink in self.sinks)
        self.row_counts = [0] * len(self.sinks)
        if self.record is not None:
            self.record.recall({sink.uid: sink.writer for sink in self.sinks})
        self.run(self.active_plan)
        if self.near:
            with contextlib.suppress(OSError):
                self.parts_folder = scratch("parts")

    def run(self, active_plan: ActivePlan) -> None:
        """From now on these plans of a job with a shadow run. Raises what keeps a sink from beginning."""
        for sink in self.sinks:
            if sink.is_open(active_plan) and (active_plan == self.active_plan or not sink.is_open(self.active_plan)):
                sink.writer.begin()
        self.active_plan = active_plan

    @property
    def reports_rows(self) -> bool:
        """Whether rows themselves are reported: the parts of an ordered sink are its rows."""
        return self.parts_folder is None and any(writer.keeps_order for writer in self.writers)

    def prepare(self, batch_id: int, read: str = "") -> None:
        """Before each attempt at a micro-batch.

        Args:
            batch_id: its number.
            read: digest of what it reads; empty if that is not known.
        """
        self._clear()
        for sink in filter(self._is_open, self.sinks):
            sink.writer.ledger.input = read
            sentence = sink.writer.prepare(batch_id)
            if sentence:
                sink.writer.ledger.tell(sentence)
        self._say()

    def _is_open(self, sink: SinkSpec) -> bool:
        return sink.is_open(self.active_plan)

    def _say(self) -> None:
        for sink in self.sinks:
            for sentence in sink.writer.ledger.take_sentences():
                self.tell(f"table {sink.name}: {sentence}")

    def commit(self, reports: Sequence[Report], batch_id: int) -> None:
        """Makes a micro-batch visible, of which all parts are reported."""
        for number, (sink, writer) in enumerate(zip(self.sinks, self.writers, strict=True)):
            if not self._is_open(sink):
                continue
            mine = sorted((r for r in reports if r[0] == number), key=lambda r: r[1])
            writer.commit(_Parts([r[3] for r in mine if r[3]]), batch_id)
            self.row_counts[number] += sum(r[2] for r in mine)
        if self.record is not None:
            self.record.keep({sink.uid: sink.writer for sink in self.sinks})
        self._clear()
        self._say()

    def close(self) -> None:
        for writer in self.writers:
            writer.close()
        if self.parts_folder is not None:
            shutil.rmtree(self.parts_folder, ignore_errors=True)

    def _clear(self) -> None:
        """Removes what workers have left, also those of an attempt that failed."""
        if self.parts_folder is not None:
            with contextlib.suppress(OSError):
                for path in self.parts_folder.iterdir():
                    path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Parts(Sequence[bytes]):
    """What workers handed over, in order; what is in a file, or compressed, is read when it is requested."""

    parts: Sequence[bytes | Left | CompressedOutput]

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> _Parts: ...
    def __getitem__(self, at: int | slice) -> bytes | _Parts:
        if isinstance(at, slice):
            return _Parts(self.parts[at])
        return _read(self.parts[at])
