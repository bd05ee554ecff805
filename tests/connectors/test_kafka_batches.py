"""Record batches as columns, next to a reader that goes from byte to byte."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.connectors.formats.avro_files import write_long
from stateplan.connectors.kafka.batches import Records, UnreadableError, batches_of

HEAD = struct.Struct(">qiibIhiqqqhii")
LOG_APPEND, CONTROL = 0x08, 0x20

Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Record:
    """A record as it was written: time and offset from those of its batch on."""

    time: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def _bytes(data: bytes | None) -> bytes:
    return write_long(-1) if data is None else write_long(len(data)) + data


def _written(record: Record) -> bytes:
    body = b"\0" + write_long(record.time) + write_long(record.offset) + _bytes(record.key) + _bytes(record.value)
    body += write_long(len(record.headers))
    body += b"".join(_bytes(name.encode()) + _bytes(value) for name, value in record.headers)
    return write_long(len(body)) + body


def batch(records: Sequence[Record], first: int = 0, time: int = 1000, attributes: int = 0, epoch: int = 7) -> bytes:
    """The bytes of a batch."""
    data = b"".join(map(_written, records))
    if codec := attributes & 7:
        data = CODECS[codec](data)
    last = max((record.offset for record in records), default=0)
    head = (first, len(data) + 49, epoch, 2, 0, attributes, last, time, time + 50, -1, -1, -1, len(records))
    return HEAD.pack(*head) + data


def read(data: bytes) -> Records:
    return Records.of([found.expanded() for found in batches_of(memoryview(data))])


def _xerial(data: bytes) -> bytes:
    """As Java's clients write it: blocks behind their sizes."""
    blocks = [bytes(pa.compress(data[i : i + 100], codec="snappy", asbytes=True)) for i in range(0, len(data), 100)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


def _streamed(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return bytes(sink.getvalue())

    return compress


CODECS: dict[int, Callable[[bytes], bytes]] = {1: gzip.compress, 2: _xerial, 3: _streamed("lz4"), 4: _streamed("zstd")}

SOME = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), SOME), max_size=3).map(tuple)
TIMES = st.integers(-(2**50), 2**50) | st.integers(-3, 300)


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[int, int, int, list[Record]]]:
    """First offset, time, attributes and records of some batches; offsets that the log compacted away are missing."""
    made, first = [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, 6))
        gaps = draw(st.lists(st.integers(1, 3) | st.integers(1, 2**20), min_size=count, max_size=count))
        at, records = -1, []
        for gap in gaps:
            at += gap
            records.append(Record(draw(TIMES), at, draw(SOME), draw(SOME), draw(HEADERS)))
        attributes = draw(st.sampled_from([0, 1, 2, 3, 4])) | draw(st.sampled_from([0, LOG_APPEND]))
        made.append((first, draw(st.integers(0, 2**42)), attributes, records))
        first += at + 1
    return made


@settings(max_examples=300, deadline=None)
@given(batches())
def test_records_are_read_as_they_were_written(given_batches: list[tuple[int, int, int, list[Record]]]) -> None:
    data = b"".join(batch(records, first, time, kind) for first, time, kind, records in given_batches)
    found = read(data)
    wanted = [(first, time, kind, record) for first, time, kind, records in given_batches for record in records]
    assert found.offsets.tolist() == [first + record.offset for first, _, _, record in wanted]
    assert list(found.keys) == [record.key for _, _, _, record in wanted]
    assert list(found.values) == [record.value for _, _, _, record in wanted]
    assert found.headers == [list(record.headers) for _, _, _, record in wanted]
    own = [kind & LOG_APPEND for _, _, kind, _ in wanted]
    assert found.time_types.tolist() == [2 if by_broker else 1 for by_broker in own]
    assert found.times.tolist() == [
        time + (50 if by_broker else record.time) for (_, time, _, record), by_broker in zip(wanted, own, strict=True)
    ]
    assert found.epochs == [7] * len(wanted)
    for start, stop in [(0, 2**62), *((offset, offset + 2) for offset in found.offsets.tolist())]:
        part = found.between(start, stop)
        chosen = [first + record.offset for first, _, _, record in wanted if start <= first + record.offset < stop]
        assert part.offsets.tolist() == chosen
        assert len(part.values) == len(part.keys) == len(chosen)


@settings(max_examples=300, deadline=None)
@given(batches(), st.data())
def test_damaged_records_are_never_read_beyond_their_batch(
    given_batches: list[tuple[int, int, int, list[Record]]], data: st.DataObject
) -> None:
    """Whatever a byte is changed into: the records are refused, or every one of them lies in its batch."""
    damaged = bytearray(b"".join(batch(records, first, 0, 0) for first, _, _, records in given_batches))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(damaged))
        values, keys, headers = found.values, found.keys, found.headers
    except UnreadableError:
        return
    assert len(values) == len(keys) == len(headers) == len(found)
    for messages in (values, keys):
        assert (messages.starts >= found.starts).all()
        assert (messages.starts + messages.sizes.clip(0) <= found.ends).all()


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    whole = batch([Record(0, 0, None, b"a")]) + batch([Record(0, 0, None, b"b")], 1)
    for end in range(len(whole) // 2, len(whole)):
        assert [found.first for found in batches_of(memoryview(whole[:end]))] == [0]
    assert [found.first for found in batches_of(memoryview(whole))] == [0, 1]


@pytest.mark.parametrize(
    "data",
    [
        batch([Record(0, 0, None, b"a")])[:16] + b"\1" + batch([Record(0, 0, None, b"a")])[17:],
        HEAD.pack(0, 49 - 62, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 0),
        HEAD.pack(0, 50, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, -1) + b"\0",
        HEAD.pack(0, 50, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1 << 30) + b"\0",
        HEAD.pack(0, 50, 0, 2, 0, 5, 0, 0, 0, -1, -1, -1, 1) + b"\0",
        HEAD.pack(0, 53, 0, 2, 0, 1, 0, 0, 0, -1, -1, -1, 1) + b"none",
        HEAD.pack(0, 53, 0, 2, 0, 2, 0, 0, 0, -1, -1, -1, 1) + b"none",
        HEAD.pack(0, 55, 0, 2, 0, 2, 0, 0, 0, -1, -1, -1, 1) + b"\xff\xff\xff\xff\x7fx",
        HEAD.pack(0, 53, 0, 2, 0, 3, 0, 0, 0, -1, -1, -1, 1) + b"none",
        HEAD.pack(0, 53, 0, 2, 0, 4, 0, 0, 0, -1, -1, -1, 1) + b"none",
    ],
    ids=["old format", "length", "count", "many", "codec", "gzip", "snappy", "large", "lz4", "zstd"],
)
def test_what_is_no_batch_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        read(data)


def test_names_of_headers_that_are_no_text_are_refused() -> None:
    data = batch([Record(0, 0, None, b"a", (("xyz", b"1"),))]).replace(b"xyz", b"x\xff\xfe")
    found = read(data)
    assert list(found.values) == [b"a"]
    with pytest.raises(UnreadableError):
        _ = found.headers


@pytest.mark.parametrize(("kind", "aborts"), [(0, True), (1, False)])
def test_the_end_of_a_transaction(kind: int, aborts: bool) -> None:
    record = Record(0, 0, struct.pack(">hh", 0, kind), bytes(6))
    (found,) = batches_of(memoryview(batch([record], 0, 0, CONTROL)))
    assert found.control
    assert found.aborts == aborts
