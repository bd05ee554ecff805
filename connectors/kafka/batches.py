"""Record batches of Kafka's protocol as columns.

A record stands behind its length, just as Avro writes bytes. So the records of a batch are a block of an Avro file
whose rows are bytes, which Polars takes apart without an object for each. What a record holds is then read of all at
once.

Source: Kafka's ``DefaultRecordBatch``, ``DefaultRecord`` and ``ControlRecordType`` (KIP-98); "Object Container Files"
in the specification of Avro 1.12.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from stateplan.connectors.formats.avro_files import MAGIC, snappy_size, write_long
from stateplan.connectors.formats.messages import Ints, Messages

_HEAD = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AT = 12
_VERSION = 2
_CODECS, _LOG_APPEND, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_LEAST = 7
"""Bytes of a record at least."""

_LARGEST = 1 << 30
"""Bytes of a block without compression at most."""

_SCHEMA = b'{"type":"record","name":"batch","fields":[{"name":"record","type":"bytes"}]}'
_SYNC = b"stateplan-blocks"

_CREATE_TIME, _LOG_APPEND_TIME = 1, 2
"""Types of timestamps, by librdkafka's numbers."""

Header: TypeAlias = tuple[str, bytes | None]

_Varints: TypeAlias = tuple[Ints, Ints]
"""Numbers, and where what follows each of them begins."""


class UnreadableError(Exception):
    """Bytes that are not what they should be, or of a kind that is not read here."""


@dataclass(frozen=True)
class RecordBatch:
    """A batch.

    Attributes:
        first, last: offsets, of which some may be missing between.
        epoch: of the leader that wrote it; -1 for none.
        attributes: as in the protocol.
        first_time, last_time: ms since 1970.
        producer: id of an idempotent or transactional one; -1 for none.
        count: of records.
        records: their bytes.
    """

    first: int
    last: int
    epoch: int
    attributes: int
    first_time: int
    last_time: int
    producer: int
    count: int
    records: memoryview

    @property
    def transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether it holds the end of a transaction, and no messages."""
        return bool(self.attributes & _CONTROL)

    @property
    def aborts(self) -> bool:
        """Of a control batch, whether the transaction was aborted. Raises UnreadableError."""
        key = Records.of([self.expanded()]).keys[0]
        if key is None or len(key) < 4:
            raise UnreadableError
        return key[2:4] == b"\0\0"

    def expanded(self) -> RecordBatch:
        """The batch without compression. Raises UnreadableError."""
        codec = self.attributes & _CODECS
        if not codec:
            return self
        expand = _EXPAND.get(codec)
        if expand is None:
            raise UnreadableError
        try:
            data = expand(self.records)
        except (OSError, pa.ArrowException, struct.error) as error:
            raise UnreadableError from error
        return replace(self, attributes=self.attributes & ~_CODECS, records=memoryview(data))


def batches_of(data: memoryview) -> Iterator[RecordBatch]:
    """The batches that some bytes of a log hold, without the last one if it is cut off.

    Raises:
        UnreadableError: a batch of before Kafka 0.11, or none.
    """
    at = 0
    while at + _HEAD.size <= len(data):
        head = _HEAD.unpack_from(data, at)
        first, length, epoch, version, _, attributes, last, start, end, producer, _, _, count = head
        stop = at + _LENGTH_AT + length
        records = data[at + _HEAD.size : stop]
        at += _HEAD.size
        if version != _VERSION or stop < at or last < 0 or count < 0:
            raise UnreadableError
        if stop > len(data):
            return
        yield RecordBatch(first, first + last, epoch, attributes, start, end, producer, count, records)
        at = stop


def _streamed(codec: str) -> Callable[[memoryview], bytes]:
    def expand(data: memoryview) -> bytes:
        return bytes(pa.CompressedInputStream(pa.BufferReader(data), codec).read())

    return expand


_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEAD = 16


def _snappy(data: memoryview) -> bytes:
    """As Java's clients write it, in blocks behind their sizes, or as others do, in one."""
    if data[: len(_XERIAL)] != _XERIAL:
        return _snappy_block(data)
    parts, at = [], _XERIAL_HEAD
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        parts.append(_snappy_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(parts)


def _snappy_block(data: memoryview) -> bytes:
    size = snappy_size(data)
    if size > _LARGEST:
        raise UnreadableError
    return bytes(pa.decompress(data, size, codec="snappy", asbytes=True))


_EXPAND: dict[int, Callable[[memoryview], bytes]] = {
    1: _streamed("gzip"),
    2: _snappy,
    3: _streamed("lz4"),
    4: _streamed("zstd"),
}


def _as_bytes(data: bytes) -> bytes:
    return write_long(len(data)) + data


_OPENING = MAGIC + write_long(1) + _as_bytes(b"avro.schema") + _as_bytes(_SCHEMA) + b"\0" + _SYNC


def _widths(numbers: Ints) -> Ints:
    """How many bytes each of some numbers takes, none of which is negative."""
    widths, most = np.ones(len(numbers), np.int64), int(numbers.max(initial=0))
    for bits in range(6, 63, 7):
        if most >> bits == 0:
            break
        widths += numbers >= 1 << bits
    return widths


@dataclass(frozen=True)
class Records:
    """The records of some batches, in order.

    Attributes:
        batches: without compression, each with a record at least.
        of_batch: shape (records,), the batch of each.
        data: shape (bytes,), uint8.
        starts, ends: shape (records,), where each begins and ends in ``data``.
    """

    batches: Sequence[RecordBatch]
    of_batch: Ints
    data: npt.NDArray[np.uint8]
    starts: Ints
    ends: Ints

    @staticmethod
    def of(batches: Sequence[RecordBatch]) -> Records:
        """Those of some batches without compression.

        Raises:
            UnreadableError: records do not fill their batch.
        """
        batches = [batch for batch in batches if batch.count]
        parts: list[bytes | memoryview] = [_OPENING]
        begins, at = [], len(_OPENING)
        for batch in batches:
            size = len(batch.records)
            if batch.count * _LEAST > size:
                raise UnreadableError
            front = write_long(batch.count) + write_long(size)
            parts += (front, batch.records, _SYNC)
            begins.append(at + len(front))
            at += len(front) + size + len(_SYNC)
        data = b"".join(parts)
        try:
            lengths = pl.read_avro(io.BytesIO(data))["record"].bin.size().to_numpy().astype(np.int64)
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise UnreadableError from error
        sizes = np.array([len(batch.records) for batch in batches], np.int64)
        counts = np.array([batch.count for batch in batches], np.int64)
        of_batch = np.repeat(np.arange(len(batches)), counts)
        if len(lengths) != len(of_batch):
            raise UnreadableError
        ends = np.cumsum(lengths + _widths(lengths))
        stops = np.cumsum(sizes)
        if (ends[np.cumsum(counts) - 1] != stops).any():
            raise UnreadableError
        ends += (np.array(begins, np.int64) - (stops - sizes))[of_batch]
        return Records(batches, of_batch, np.frombuffer(data, np.uint8), ends - lengths, ends)

    def __len__(self) -> int:
        return len(self.starts)

    def between(self, start: int, stop: int) -> Records:
        """Those with offsets from ``start`` up to ``stop``."""
        offsets = self.offsets
        if not len(self) or (offsets[0] >= start and offsets[-1] < stop):
            return self
        part = slice(*np.searchsorted(offsets, [start, stop]).tolist())
        return Records(self.batches, self.of_batch[part], self.data, self.starts[part], self.ends[part])

    @cached_property
    def offsets(self) -> Ints:
        """Shape (records,)."""
        return self._offsets[0] + self._of_batches([batch.first for batch in self.batches])

    @cached_property
    def times(self) -> Ints:
        """Shape (records,), ms since 1970: of the producer, or of the broker for a log that keeps its own."""
        firsts, lasts = ([getattr(b, name) for b in self.batches] for name in ("first_time", "last_time"))
        own = self._times[0] + self._of_batches(firsts)
        return np.where(self.time_types == _LOG_APPEND_TIME, self._of_batches(lasts), own)

    @property
    def time_types(self) -> Ints:
        """Shape (records,), by librdkafka's numbers."""
        kinds = [_LOG_APPEND_TIME if batch.attributes & _LOG_APPEND else _CREATE_TIME for batch in self.batches]
        return self._of_batches(kinds)

    @property
    def epochs(self) -> list[int | None]:
        """Shape (records,), of the leader that wrote each."""
        return [None if epoch < 0 else epoch for epoch in self._of_batches([b.epoch for b in self.batches]).tolist()]

    @property
    def keys(self) -> Messages:
        """Shape (records,)."""
        size, at = self._keys
        return Messages(self.data, at, size)

    @property
    def values(self) -> Messages:
        """Shape (records,)."""
        size, at = self._values
        return Messages(self.data, at, size)

    @property
    def headers(self) -> list[list[Header]]:
        """Shape (records,). Raises UnreadableError when a name is not UTF-8."""
        size, at = self._values
        left, at = _numbers(self.data, _behind(at, size, self.ends), self.ends)
        rows, ends = np.arange(len(self)), self.ends
        found: list[list[Header]] = [[] for _ in range(len(self))]
        data = self.data.tobytes() if (left > 0).any() else b""
        while (more := left > 0).any():
            rows, ends, left, at = rows[more], ends[more], left[more] - 1, at[more]
            names, name_at = _numbers(self.data, at, ends)
            sizes, value_at = _numbers(self.data, _behind(name_at, names, ends), ends)
            at = _behind(value_at, sizes, ends)
            columns = (rows, name_at, names, value_at, sizes)
            for row, i, length, j, size_of in zip(*(c.tolist() for c in columns), strict=True):
                try:
                    name = data[i : i + length].decode()
                except UnicodeDecodeError as error:
                    raise UnreadableError from error
                found[row].append((name, None if size_of < 0 else data[j : j + size_of]))
        return found

    @cached_property
    def _times(self) -> _Varints:
        return _numbers(self.data, self.starts + 1, self.ends)  # behind the attributes, which say nothing yet

    @cached_property
    def _offsets(self) -> _Varints:
        return _numbers(self.data, self._times[1], self.ends)

    @cached_property
    def _keys(self) -> _Varints:
        return _numbers(self.data, self._offsets[1], self.ends)

    @cached_property
    def _values(self) -> _Varints:
        size, at = self._keys
        return _numbers(self.data, _behind(at, size, self.ends), self.ends)

    def _of_batches(self, values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)[self.of_batch]


def _numbers(data: npt.NDArray[np.uint8], at: Ints, ends: Ints) -> _Varints:
    """The varints at some places. Raises UnreadableError when one does not end before its end."""
    if (at >= ends).any():
        raise UnreadableError
    byte = data[at]
    value, after, shift = (byte & 0x7F).astype(np.int64), at + 1, 7
    left: Ints | slice = _continued(byte, slice(None))
    while (place := after[left]).size:
        if shift > 63 or (place >= ends[left]).any():
            raise UnreadableError
        byte = data[place]
        value[left] |= (byte & 0x7F).astype(np.int64) << shift
        after[left] += 1
        left, shift = _continued(byte, left), shift + 7
    return (value >> 1 & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1), after


def _continued(byte: npt.NDArray[np.uint8], of: Ints | slice) -> Ints | slice:
    """Of which numbers another byte follows."""
    more = byte > 0x7F
    if more.all():  # as often of sizes; nothing has to be looked up then
        return of if len(more) else np.empty(0, np.int64)
    return np.flatnonzero(more) if isinstance(of, slice) else of[more]


def _behind(at: Ints, sizes: Ints, ends: Ints) -> Ints:
    """Where bytes stop; with a size of -1 there are none. Raises UnreadableError when they go beyond their end."""
    if (sizes < -1).any() or (sizes > ends - at).any():
        raise UnreadableError
    return at + np.maximum(sizes, 0)
