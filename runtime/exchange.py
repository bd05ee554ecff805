"""The columnar exchange: frames of changes, split by key group, travel between workers as Arrow IPC blobs.

Spark sees rows of :data:`BLOB_SCHEMA`; a row of the query's data never exists as a row in the JVM.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import rows_at, stack
from stateplan.runtime.hashing import hash_rows, key_groups
from stateplan.runtime.watermarks import PartWatermark

BLOB_SCHEMA = "slot INT, blob BINARY"
"""Spark schema of the exchange: the grouping key, and the rest of a :class:`Blob` (:meth:`Blob.packed`). Every column
more costs a conversion each way, for every key group that a micro-batch touches."""

_HEAD = struct.Struct("<iqcI")
_HEIGHT = struct.Struct("<q")
_TABLE = struct.Struct("<i")


class Rows(NamedTuple):
    """Changes for the receiver.

    Attributes:
        height: how many.
        data: the frame as an Arrow IPC stream; empty if the receiver only counts.
    """

    height: int
    data: bytes


@dataclass(frozen=True)
class Touch:
    """A message without rows, which only makes the receiver look at its state."""


class StateRows(NamedTuple):
    """Rows of state that the receiver begins with.

    Attributes:
        table: number of its state table.
        data: a state frame as an Arrow IPC stream.
    """

    table: int
    data: bytes


class StateTime(NamedTuple):
    """How far event time had come in the state that the receiver begins with: the JSON of an :class:`EventTime`."""

    text: str


Content: TypeAlias = Rows | PartWatermark | Touch | StateRows | StateTime
"""What a blob brings."""

_ROWS, _WATERMARK, _TOUCH, _STATE, _TIME = b"r", b"w", b"t", b"s", b"e"


class Blob(NamedTuple):
    """What one receiver is sent: an operator or a sink.

    Attributes:
        slot: Spark grouping key of the receiver: an operator's key group, or a sink.
        input: the receiver's input.
        seq: the rows of one receiver are in order when its blobs are sorted by this.
        now: the micro-batch's time, ms.
        content: rows, a watermark, a touch, or state to begin with.
    """

    slot: int
    input: int
    seq: str
    now: int
    content: Content

    @property
    def size(self) -> int:
        """Bytes of the rows."""
        return len(self.content.data) if isinstance(self.content, Rows) else 0

    def packed(self) -> bytes:
        """All but the slot, as Spark moves it."""
        seq, content = self.seq.encode(), self.content
        body: tuple[bytes, ...]  # joined once: rows are many
        match content:
            case Rows(height, data):
                kind, body = _ROWS, (_HEIGHT.pack(height), data)
            case PartWatermark():
                kind, body = _WATERMARK, (content.packed(),)
            case StateRows(table, data):
                kind, body = _STATE, (_TABLE.pack(table), data)
            case StateTime(text):
                kind, body = _TIME, (text.encode(),)
            case Touch():
                kind, body = _TOUCH, ()
        return b"".join((_HEAD.pack(self.input, self.now, kind, len(seq)), seq, *body))

    @staticmethod
    def unpacked(slot: int, data: bytes) -> Blob:
        """What :meth:`packed` was made of."""
        number, now, kind, length = _HEAD.unpack_from(data)
        start = _HEAD.size + length
        content: Content
        if kind == _ROWS:
            [height] = _HEIGHT.unpack_from(data, start)
            content = Rows(height, data[start + _HEIGHT.size :])
        elif kind == _WATERMARK:
            content = PartWatermark.unpacked(data[start:])
        elif kind == _STATE:
            [table] = _TABLE.unpack_from(data, start)
            content = StateRows(table, data[start + _TABLE.size :])
        elif kind == _TIME:
            content = StateTime(data[start:].decode())
        else:
            content = Touch()
        return Blob(slot, number, data[_HEAD.size : start].decode(), now, content)


def rows_of(blobs: Iterable[Blob]) -> list[Rows]:
    """The rows among what blobs bring, in order."""
    return [blob.content for blob in blobs if isinstance(blob.content, Rows)]


def blob_batch(blobs: Sequence[Blob]) -> pa.RecordBatch:
    """Blobs as one Arrow batch of :data:`BLOB_SCHEMA`."""
    slots = pa.array([blob.slot for blob in blobs], pa.int32())
    return pa.RecordBatch.from_arrays(
        [slots, pa.array([blob.packed() for blob in blobs], pa.binary())], names=["slot", "blob"]
    )


def blobs_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Blob]:
    """The blobs in Arrow batches of :data:`BLOB_SCHEMA`."""
    for batch in batches:
        yield from map(Blob.unpacked, *(column.to_pylist() for column in batch.columns))


_NEWEST = pl.CompatLevel.newest()
_LARGE = 16 << 10


def encode(frame: pl.DataFrame) -> bytes:
    """The frame as an Arrow IPC stream, compressed if it is large: on its way through Spark it is copied a dozen times,
    and once more for each level of state that it passes."""
    sink = io.BytesIO()
    large = frame.estimated_size() >= _LARGE
    frame.write_ipc_stream(sink, compression="lz4" if large else "uncompressed", compat_level=_NEWEST)
    return sink.getvalue()


def decode(blobs: Sequence[bytes]) -> pl.DataFrame:
    """One frame of all blobs, in order. Blobs of one receiver have the same columns, but for ``kind``: where only
    some have it, the others are insertions."""
    frames = [pl.read_ipc_stream(blob) for blob in blobs]
    if len(frames) == 1:
        return frames[0]
    if len({tuple(f.columns) for f in frames}) > 1:
        frames = [f if "kind" in f.columns else f.with_columns(pl.lit(0, dtype=pl.Int8).alias("kind")) for f in frames]
    return stack(frames)


def split(frame: pl.DataFrame, keys: Sequence[str], groups: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """(key group, rows of it in their order) for every key group that has rows."""
    if frame.height == 0:
        return
    if groups == 1:
        yield 0, frame
        return
    owner = key_groups(hash_rows(frame, keys), groups)
    counts = np.bincount(owner, minlength=groups)
    if counts.max() == frame.height:
        yield int(owner[0]), frame
        return
    sorted_rows = rows_at(frame, np.argsort(owner, kind="stable"))
    start = 0
    for group in np.flatnonzero(counts):
        size = int(counts[group])
        yield int(group), sorted_rows.slice(start, size)
        start += size
