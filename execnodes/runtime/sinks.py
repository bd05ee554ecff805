"""Sinks: what workers make of the blobs of a micro-batch, and what the driver does with it once per micro-batch."""

from __future__ import annotations

import hashlib
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Protocol, TextIO

import polars as pl
import pyarrow as pa

from stateplan.execnodes.connectors.partitions import Partitioner
from stateplan.execnodes.runtime.exchange import Blob, blobs_of, decode
from stateplan.execnodes.runtime.hashing import slot_label
from stateplan.execnodes.runtime.jobgraph import SinkSpec
from stateplan.execnodes.runtime.worker import Count, coded

SINK_SCHEMA = "reports BINARY"
"""What a task gives the driver: one row with all its reports, or none."""

Report = tuple[int, str, int, bytes]
"""What a worker reports of a part: number of the sink, what orders it, rows written, and what the sink's driver part
needs (printed lines, file names)."""


class SinkWriter(Protocol):
    """The two halves of a sink connector. Picklable."""

    @property
    def ordered(self) -> bool:
        """Whether parts of all workers must be committed in one order; else each worker writes a single part."""
        ...

    def write(self, frame: pl.DataFrame, batch_id: int, part: str) -> bytes:
        """In a worker: writes or formats the rows; what it returns goes to :meth:`commit`."""
        ...

    def prepare(self, batch_id: int) -> None:
        """On the driver, before a micro-batch: removes what an unfinished attempt at it left behind."""
        ...

    def commit(self, parts: list[bytes], batch_id: int) -> None:
        """On the driver, after a micro-batch: makes its rows visible; parts are in order."""
        ...


@dataclass(frozen=True)
class PrintWriter:
    """Lines on standard output, as Flink's ``print`` connector writes them."""

    types: tuple[Any, ...]
    identifier: str | None
    to_stderr: bool = False
    ordered: ClassVar[bool] = True

    def write(self, frame: pl.DataFrame, batch_id: int, part: str) -> bytes:
        from stateplan.execnodes.connectors.print import format_rows

        return "".join(f"{line}\n" for line in format_rows(frame, self.types, self.identifier)).encode()

    def prepare(self, batch_id: int) -> None:
        """Nothing is left behind."""

    def commit(self, parts: list[bytes], batch_id: int) -> None:
        out: TextIO = sys.stderr if self.to_stderr else sys.stdout
        for part in parts:
            out.write(part.decode())
        out.flush()


@dataclass(frozen=True)
class FileWriter:
    """Files that appear once, whole, and exactly once: staged hidden by workers, renamed by the driver.

    A micro-batch that runs again after a failure first removes all files of its earlier attempt: file names carry
    the batch id.
    """

    folder: str
    uid: str
    encoder: Any
    partitioner: Any = None
    ordered: ClassVar[bool] = False

    def write(self, frame: pl.DataFrame, batch_id: int, part: str) -> bytes:
        from stateplan.execnodes.connectors.filesystem import stage

        parts = [("", frame)] if self.partitioner is None else self.partitioner.split(frame)
        made = [
            stage(self.folder, self.uid, batch_id, part, self.encoder.extension, self.encoder.encode(rows), partition)
            for partition, rows in parts
        ]
        return "\n".join(made).encode()

    def prepare(self, batch_id: int) -> None:
        from stateplan.execnodes.connectors.filesystem import clean

        clean(self.folder, self.uid, batch_id)

    def commit(self, parts: list[bytes], batch_id: int) -> None:
        from stateplan.execnodes.connectors.filesystem import commit

        commit(self.folder, [name for part in parts for name in part.decode().split("\n")])


@dataclass(frozen=True)
class NullWriter:
    """Counts rows and forgets them: ``blackhole``."""

    ordered: ClassVar[bool] = False

    def write(self, frame: pl.DataFrame, batch_id: int, part: str) -> bytes:
        return b""

    def prepare(self, batch_id: int) -> None:
        """Nothing is left behind."""

    def commit(self, parts: list[bytes], batch_id: int) -> None:
        """Nothing to make visible."""


def make_writer(sink: SinkSpec) -> SinkWriter:
    """The writer of a sink's connector."""
    from stateplan.execnodes.connectors.registry import make_encoder, option_value

    if sink.connector == "blackhole":
        return NullWriter()
    if sink.connector == "print":
        return PrintWriter(
            tuple(t for _, t in sink.columns),
            sink.options.get("print-identifier"),
            bool(option_value(sink.options, "standard-error")),
        )
    if not sink.partition_keys:
        return FileWriter(sink.options["path"], sink.uid, make_encoder(sink.options, sink.columns))
    default_name = str(option_value(sink.options, "partition.default-name"))
    partitioner = Partitioner(sink.columns, sink.partition_keys, default_name)
    return FileWriter(sink.options["path"], sink.uid, make_encoder(sink.options, partitioner.in_files), partitioner)


def write_sinks(
    writers: tuple[SinkWriter, ...],
    batch_id: int,
    slots: Sequence[int],
    uids: Sequence[str] = (),
    count: Count | None = None,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` over the final blobs of micro-batch ``batch_id``; ``slots`` are the sinks', and
    so are ``uids``, under which ``count`` counts."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labels = {slot_label(slot): i for i, slot in enumerate(slots)}

        @coded
        def rows() -> Iterator[Report]:
            out: list[Report] = []
            blobs = sorted(blobs_of(batches), key=lambda b: (b.slot, b.seq))
            for label, group in groupby(blobs, key=lambda b: b.slot):
                number = labels[label]
                writer = writers[number]
                started = time.perf_counter()
                size = 0
                for seq, height, data in _parts(list(group), writer.ordered):
                    made = b""
                    if data:
                        part = hashlib.sha1(seq.encode(), usedforsecurity=False).hexdigest()[:12]
                        made = writer.write(decode(data), batch_id, part)
                        size += sum(map(len, data))
                    out.append((number, seq, height, made))
                if count:
                    spent = 1000 * (time.perf_counter() - started)
                    count(uids[number], {"bytes_in": size, "sink_ms": spent, "busy_ms": spent})
            yield from out

        done = list(rows())
        if done:
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(done)], pa.binary())], names=["reports"])

    return run


def _parts(blobs: list[Blob], ordered: bool) -> Iterator[tuple[str, int, list[bytes]]]:
    """(what orders it, rows, their frames) of each part that a sink writes: one for each blob, or one of all."""
    for some in [[blob] for blob in blobs] if ordered else [blobs]:
        yield some[0].seq, sum(blob.rows for blob in some), [blob.data for blob in some if blob.data]


def reports(packed: Iterable[bytes]) -> list[Report]:
    """The reports of all tasks, from what each of them gave."""
    return [report for some in packed for report in pickle.loads(some)]


@dataclass
class Written:
    """Rows a sink has written since the start."""

    rows: int = 0


@dataclass
class SinkDriver:
    """The driver's part of all sinks of a job.

    Attributes:
        written: per sink, in the order of the plan.
    """

    sinks: tuple[SinkSpec, ...]
    writers: tuple[SinkWriter, ...]
    written: list[Written] = field(default_factory=list)

    @staticmethod
    def of(sinks: tuple[SinkSpec, ...]) -> SinkDriver:
        return SinkDriver(sinks, tuple(make_writer(s) for s in sinks), [Written() for _ in sinks])

    @property
    def reports_rows(self) -> bool:
        """Whether rows themselves are reported: the parts of an ordered sink are its rows."""
        return any(writer.ordered for writer in self.writers)

    def prepare(self, batch_id: int) -> None:
        for writer in self.writers:
            writer.prepare(batch_id)

    def commit(self, reports: Sequence[Report], batch_id: int) -> None:
        """Makes a micro-batch visible, of which all parts are reported."""
        for number, writer in enumerate(self.writers):
            mine = sorted((r for r in reports if r[0] == number), key=lambda r: r[1])
            writer.commit([r[3] for r in mine if r[3]], batch_id)
            self.written[number].rows += sum(r[2] for r in mine)
