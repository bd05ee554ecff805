"""Sinks: what workers make of the blobs of a micro-batch, and what the driver does with it once per micro-batch."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from stateplan.execnodes.connectors.protocol import Sink
from stateplan.execnodes.errors import StateplanError
from stateplan.execnodes.runtime.exchange import Blob, blobs_of, decode
from stateplan.execnodes.runtime.hashing import slot_label
from stateplan.execnodes.runtime.jobgraph import SinkSpec
from stateplan.execnodes.runtime.worker import Count, coded

SINK_SCHEMA = "reports BINARY"
"""What a task gives the driver: one row with all its reports, or none."""

Report = tuple[int, str, int, bytes]
"""What a worker reports of a part: number of the sink, what orders it, rows written, and what the sink's driver part
needs (printed lines, file names)."""


Writer = tuple[Sink, str, str]
"""The writer of a sink, the name of its table, and the uid under which its figures are counted."""


def write_sinks(
    sinks: Sequence[Writer],
    batch_id: int,
    slots: Sequence[int],
    count: Count | None = None,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` over the final blobs of micro-batch ``batch_id``.

    Args:
        sinks: all of the job.
        slots: those of the sinks.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = write_blobs(sinks, batch_id, slots, blobs_of(batches), count)
        if done:
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(done)], pa.binary())], names=["reports"])

    return run


def write_blobs(
    sinks: Sequence[Writer], batch_id: int, slots: Sequence[int], blobs: Iterable[Blob], count: Count | None = None
) -> list[Report]:
    """Writes the final blobs of a micro-batch; what :func:`write_sinks` reports. Raises WorkerError."""
    labels = {slot_label(slot): i for i, slot in enumerate(slots)}

    @coded
    def rows() -> Iterator[Report]:
        out: list[Report] = []
        final = sorted(blobs, key=lambda b: (b.slot, b.seq))
        for label, group in groupby(final, key=lambda b: b.slot):
            number = labels[label]
            writer, table, uid = sinks[number]
            started = time.perf_counter()
            size = 0
            for seq, height, data in _parts(list(group), writer.ordered):
                made = b""
                if data:
                    part = hashlib.sha1(seq.encode(), usedforsecurity=False).hexdigest()[:12]
                    try:
                        made = writer.write(decode(data), batch_id, part)
                    except StateplanError as error:
                        raise error.within(f"table {table}") from error
                    size += sum(map(len, data))
                out.append((number, seq, height, made))
            if count:
                spent = 1000 * (time.perf_counter() - started)
                count(uid, {"bytes_in": size, "sink_ms": spent, "busy_ms": spent})
        yield from out

    return list(rows())


def _parts(blobs: list[Blob], ordered: bool) -> Iterator[tuple[str, int, list[bytes]]]:
    """(what orders it, rows, their frames) of each part that a sink writes: one for each blob, or one of all."""
    for some in [[blob] for blob in blobs] if ordered else [blobs]:
        yield some[0].seq, sum(blob.rows for blob in some), [blob.data for blob in some if blob.data]


def reports(packed: Iterable[bytes]) -> list[Report]:
    """The reports of all tasks, from what each of them gave."""
    return [report for some in packed for report in pickle.loads(some)]


@dataclass
class SinkDriver:
    """The driver's part of all sinks of a job.

    Attributes:
        written: per sink, in the order of the plan, the rows written since the start.
    """

    sinks: tuple[SinkSpec, ...]

    def __post_init__(self) -> None:
        self.writers: tuple[Sink, ...] = tuple(sink.writer for sink in self.sinks)
        self.written = [0] * len(self.sinks)

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
            self.written[number] += sum(r[2] for r in mine)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()
