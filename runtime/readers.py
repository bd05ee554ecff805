"""Steps without state that read how far event time has advanced: what each of them reads in which micro-batch.

Such a step, with CURRENT_WATERMARK for example, has no state in which its watermark could be. The driver keeps it: the
reports of the sinks contain the watermarks of a micro-batch, and before the next one it sends the resulting watermark
to the tasks. ``watermarks.json`` of the checkpoint has that for the last two micro-batches. So a micro-batch that is
repeated after a failure reads what it read before.
"""

from __future__ import annotations

import contextlib
import copy
import json
import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

from stateplan.common.disk import full_disk
from stateplan.common.errors import CheckpointError, PlanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, write_whole
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.model import PlanModel
from stateplan.execnodes.nodes.base import ExecNode, own_values
from stateplan.functions.rex import Rex, reads_watermark
from stateplan.runtime.exchange import Blob
from stateplan.runtime.jobgraph import ReaderSpec
from stateplan.runtime.kernel import NO_WATERMARK
from stateplan.runtime.watermarks import EventTime, PartWatermark

_FILE = "watermarks.json"

WatermarkBlobs: TypeAlias = Iterable[Blob]
"""Watermarks for the driver; the input of each is the number of its reader."""


class Readers:
    """What the readers of a job read.

    Args:
        readers: the readers of the job.
    """

    def __init__(self, readers: Sequence[ReaderSpec]) -> None:
        self.readers = readers
        self._times = {reader.uid: EventTime() for reader in readers}

    def begin(self, batch: int) -> dict[int, int]:
        """A micro-batch begins: per number of a reader, how far event time has advanced, ms; nothing before its first
        watermark."""
        marks = ((n, self._times[reader.uid].watermark) for n, reader in enumerate(self.readers))
        return {number: mark for number, mark in marks if mark > NO_WATERMARK}

    def end(self, batch: int, marks_of_batch: WatermarkBlobs) -> None:
        """Takes in the watermarks of a micro-batch."""
        blobs = list(marks_of_batch)
        for number, reader in enumerate(self.readers):
            marks = [b.content for b in blobs if b.input == number and isinstance(b.content, PartWatermark)]
            if marks:
                marks_received = ((0, mark) for mark in marks)
                now = max(blob.now for blob in blobs if blob.input == number)
                time = self._times[reader.uid]
                time.advance(marks_received, (reader.channels,), now, reader.idle_timeout, reader.idle_timeouts)


@dataclass
class _ReaderRecord:
    """What the readers read in a micro-batch, by uid."""

    batch: int
    times: dict[str, EventTime]


class KeptReaders(Readers):
    """The same, kept with a checkpoint.

    Args:
        readers: the readers of the job.
        folder: the folder of the checkpoint.
        before: uids of the readers of the plan that wrote it.
        next_batch: the first micro-batch of the run.

    Raises:
        CheckpointError: CKPT005, the file is damaged or missing.
    """

    def __init__(self, readers: Sequence[ReaderSpec], folder: AnyPath, before: Iterable[str], next_batch: int) -> None:
        super().__init__(readers)
        self._path = folder / _FILE
        self._records: list[_ReaderRecord] = []
        known_uids = {reader.uid for reader in readers}.intersection(before)
        if known_uids and next_batch > 0:
            self._records = self._read_records(known_uids)
            self._at(next_batch)

    @property
    def last(self) -> int:
        """The last micro-batch that the file knows; -1 for none."""
        return self._records[-1].batch if self._records else -1

    def begin(self, batch: int) -> dict[int, int]:
        """As for all readers. A micro-batch that is repeated begins with what it began with before."""
        if self.readers:
            self._at(batch)
        return super().begin(batch)

    def end(self, batch: int, marks_of_batch: WatermarkBlobs) -> None:
        """As for all readers. Raises RunError RUN031, the disk is full; OSError."""
        if not self.readers:
            return
        began = _ReaderRecord(batch, copy.deepcopy(self._times))
        super().end(batch, marks_of_batch)
        self._records = [began, _ReaderRecord(batch + 1, copy.deepcopy(self._times))]
        data = {
            str(record.batch): {uid: time.to_json() for uid, time in record.times.items()} for record in self._records
        }
        try:
            write_whole(self._path, json.dumps({"sum": _sum(data), **data}) + "\n")
        except OSError as error:
            raise full_disk(error, self._path) or error from None

    def _at(self, batch: int) -> None:
        """Goes to the begin of a micro-batch. Raises CheckpointError CKPT005, nothing is known of it."""
        if not self._records:
            return
        earlier_records = [record for record in self._records if record.batch <= batch]
        if not earlier_records:
            raise _damaged(self._path, f"it does not know micro-batch {batch}")
        for uid in self._times.keys() & earlier_records[-1].times.keys():
            self._times[uid] = copy.deepcopy(earlier_records[-1].times[uid])

    def _read_records(self, uids: set[str]) -> list[_ReaderRecord]:
        try:
            content = _read_file(self._path)
            records = [
                _ReaderRecord(int(batch), {uid: EventTime.from_json(times[uid]) for uid in uids})
                for batch, times in content.items()
            ]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
            raise _damaged(self._path, str(cause)) from cause
        return sorted(records, key=lambda record: record.batch)


def keep_times(origin: AnyPath, folder: AnyPath, uids: Collection[str], batch: int) -> tuple[str, ...]:
    """Makes the readers of a new checkpoint start where those of another one stand.

    Args:
        origin: the other checkpoint.
        folder: the new one.
        uids: the uids of the readers that both have.
        batch: the first micro-batch of the new one.

    Returns:
        Those of ``uids`` of which something is known.

    Raises:
        CheckpointError: CKPT005, the file is damaged or missing.
        OSError: the new file cannot be written.
    """
    if not uids:
        return ()
    try:
        content = _read_file(origin / _FILE)
        times = content[str(max(map(int, content)))]
    except (OSError, ValueError, TypeError, AttributeError) as cause:
        raise _damaged(origin / _FILE, str(cause)) from cause
    data = {str(batch): {uid: times[uid] for uid in sorted(uids) if uid in times}}
    write_whole(folder / _FILE, json.dumps({"sum": _sum(data), **data}) + "\n")
    return tuple(data[str(batch)])


def forget_later(folder: AnyPath, batch: int) -> bool:
    """Restores ``watermarks.json`` of a copied checkpoint to its content before a micro-batch began. Returns whether
    that is possible. Raises OSError, ValueError, TypeError, AttributeError, the file is damaged."""
    if not (folder / _FILE).exists():
        return True
    content = {begun: times for begun, times in _read_file(folder / _FILE).items() if int(begun) <= batch}
    write_whole(folder / _FILE, json.dumps({"sum": _sum(content), **content}) + "\n")
    return not content or str(batch) in content


def last_known(folder: AnyPath) -> int | None:
    """The last micro-batch that ``watermarks.json`` of a checkpoint knows; None if it is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        return max((int(batch) for batch in _read_file(folder / _FILE)), default=None)
    return None


def _read_file(path: AnyPath) -> dict[str, dict[str, Any]]:
    """What the file says, by micro-batch. Raises OSError; ValueError, TypeError, AttributeError, it is damaged."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    checksum = content.pop("sum", None)
    if checksum is not None and checksum != _sum(content):
        raise ValueError("its checksum is another one")
    return content


def _sum(data: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(data).encode())


def _damaged(file: AnyPath, why: str) -> CheckpointError:
    return CheckpointError("CKPT005.damaged_file", file=file, why=why)


def check_readers(graph: ExecGraph, node_ids: Iterable[int]) -> None:
    """Whether CURRENT_WATERMARK is only where it can be read.

    Source: Flink compiles it in conditions of joins and patterns as well, and its job then fails.

    Args:
        graph: the plan.
        node_ids: ids of the nodes that can read it.

    Raises:
        PlanError: PLAN019.
    """
    able = set(node_ids)
    for node in graph.nodes:
        if node.id not in able and any(map(_reads, own_values(node).values())):
            raise _unreadable(graph, node)


def _reads(value: Any) -> bool:
    if isinstance(value, Rex):
        return reads_watermark(value)
    if isinstance(value, PlanModel):
        return any(map(_reads, dict(value).values()))
    if isinstance(value, dict):
        return any(map(_reads, value.values()))
    return isinstance(value, (tuple, list)) and any(map(_reads, value))


def _unreadable(graph: ExecGraph, node: ExecNode) -> PlanError:
    with graph.placing(node):
        return PlanError("PLAN019", title=node.title, id=node.id)
