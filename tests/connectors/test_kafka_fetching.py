"""Ranges of offsets as they are fetched past the client, next to what the client reads of a real broker; and what is
left to the client."""

from __future__ import annotations

import gc
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import Producer

from stateplan.connectors.kafka import fetching, reading
from stateplan.connectors.kafka.client import Brokers, close_consumers, forget_consumers
from stateplan.connectors.kafka.fetching import Fetched, Links
from stateplan.connectors.kafka.reading import Range, read_range
from tests.connectors.test_kafka_batches import Record
from tests.connectors.test_kafka_batches import batch as written
from tests.support.kafka import SILENT, Kafka

ALL = ("key", "timestamp", "timestamp-type", "headers", "leader-epoch")
CLIENT = {"check.crcs": "true"}
"""A setting with which the client reads."""


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_consumers()


def brokers(kafka: Kafka, **more: str) -> Brokers:
    return Brokers("t", "kafka", {"bootstrap.servers": kafka.servers, **more})


def messages(of: Brokers, span: Range, following: Range | None = None) -> list[tuple[Any, ...]]:
    """Offset, value and all else of each message of a range."""
    found: list[tuple[Any, ...]] = []
    for batch in read_range(of, span, ALL, following):
        told = [
            [tuple(map(tuple, value or ())) for value in batch.told[key]] if key == "headers" else list(batch.told[key])
            for key in ALL
        ]
        found += zip(batch.offsets.tolist(), batch.values, *told, strict=True)
    return found


@contextmanager
def fetched_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the block the client must not read."""

    def read(_: object) -> Iterator[reading.Batch]:
        raise AssertionError("the client reads")

    with monkeypatch.context() as patch:
        patch.setattr(reading._Consumed, "read", read)
        yield


def resting(of: Brokers) -> set[str]:
    """Topics of which something was left to the client."""
    from stateplan.connectors.kafka.client import _shared

    return {topic for key, shared in _shared.items() if key[0] == of.key for topic in shared.resting}


def produce(kafka: Kafka, topic: str, count: int, **settings: Any) -> None:
    """Messages of several shapes: with and without key, value and headers. They are new: brokers remove old ones."""
    now = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20, **settings, **SILENT})
    for i in range(count):
        value = None if i % 7 == 3 else f'{{"a": {i}, "text": "{"x" * (i % 150)}"}}'.encode()
        key = None if i % 5 == 2 else f"key{i}".encode()
        headers: list[tuple[str, bytes | None]] = [(f"h{j}", None if j else str(i).encode()) for j in range(i % 3)]
        producer.produce(topic, value, key, 0, timestamp=now + i * 37 % 1000, headers=headers)
    assert producer.flush(20) == 0


def cut(monkeypatch: pytest.MonkeyPatch, size: int) -> list[int]:
    """Has answers end after some bytes, though not within their first batch, as brokers do: the one of the tests gives
    all that it has not written to disk yet. Returns the bytes of each answer from now on."""
    whole, sizes = fetching.Link.answer, []

    def answer(self: fetching.Link, *of: Any) -> Any:
        aborted, data = whole(self, *of)
        data = data[: max(size, 12 + int.from_bytes(data[8:12], "big"))]
        sizes.append(len(data))
        return aborted, data

    monkeypatch.setattr(fetching.Link, "answer", answer)
    return sizes


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("most", [1 << 12, 1 << 22])
def test_fetched_messages_are_those_of_the_client(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, codec: str, most: int
) -> None:
    topic, count = kafka.topic(), 3000
    produce(kafka, topic, count, **{"compression.type": codec, "batch.num.messages": 100})
    monkeypatch.setattr(fetching, "_MOST_BYTES", most)
    sizes = cut(monkeypatch, most)
    for start, stop in [(0, count), (17, count - 3), (count - 1, count), (1000, 1001)]:
        span = Range(topic, 0, start, stop)
        with fetched_only(monkeypatch):
            found = messages(brokers(kafka), span)
        assert [row[0] for row in found] == list(range(start, stop))
        assert found == messages(brokers(kafka, **CLIENT), span)
    assert (len(sizes) > 8) == (most < 1 << 20)


def test_transactions(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed and aborted ones, of several producers at a time, and of one that aborts and then commits."""
    topic, n = kafka.topic(), 40
    kafka.produce(topic, [b"before"])
    with kafka.transaction() as good, kafka.transaction(commit=False) as bad:
        for i in range(n):
            for producer, name in ((good, "good"), (bad, "bad")):
                producer.produce(topic, f"{name}{i}".encode(), partition=0)
                if i % 10 == 0:
                    producer.flush(10)
    with kafka.transaction() as changes:
        changes.produce(topic, b"worse", partition=0)
        changes.flush(10)
        changes.abort_transaction(10)
        changes.begin_transaction()
        changes.produce(topic, b"better", partition=0)
    end = max(message.offset() for message in kafka.consume(topic)) + 1
    cut(monkeypatch, 300)
    for level, wanted in (
        ("read_committed", {"before", "better", *(f"good{i}" for i in range(n))}),
        ("read_uncommitted", {"before", "better", "worse", *(f"{k}{i}" for i in range(n) for k in ("good", "bad"))}),
    ):
        own = {"isolation.level": level}
        for start in (0, 1, n, 2 * n):
            with fetched_only(monkeypatch):
                found = messages(brokers(kafka, **own), Range(topic, 0, start, end))
            assert found == messages(brokers(kafka, **own, **CLIENT), Range(topic, 0, start, end))
            assert start or {row[1].decode() for row in found} == wanted


def test_ranges_that_follow_each_other_come_by_the_same_connections(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, made = kafka.topic(4), []
    for partition in range(4):
        kafka.produce(topic, [f"{partition} {i}" for i in range(100)], partition=partition)
    new = fetching.Link.to
    monkeypatch.setattr(fetching.Link, "to", staticmethod(lambda *to: made.append(to) or new(*to)))
    spans = [Range(topic, partition, 0, 100) for partition in range(4)]
    of = brokers(kafka)
    with fetched_only(monkeypatch):
        for _ in range(3):
            for span, following in zip(spans, [*spans[1:], None], strict=True):
                found = messages(of, span, following)
                assert [row[1].decode() for row in found] == [f"{span.partition} {i}" for i in range(100)]
    assert len(made) == 2


def test_a_range_that_was_begun_and_is_not_read_is_given_up(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.topic(2)
    for partition in range(2):
        kafka.produce(topic, [b"a", b"b"], partition=partition)
    of = brokers(kafka)
    with fetched_only(monkeypatch):
        messages(of, Range(topic, 0, 0, 2), Range(topic, 1, 0, 2))
        assert [row[1] for row in messages(of, Range(topic, 1, 1, 2))] == [b"b"]
        batches = read_range(of, Range(topic, 0, 0, 2), ALL, Range(topic, 1, 0, 2))
        next(batches)
        assert messages(of, Range(topic, 0, 1, 1), Range(topic, 1, 2, 2)) == []
        assert len(messages(of, Range(topic, 0, 0, 2), Range(topic, 1, 2, 2))) == 2
        assert len(messages(of, Range(topic, 1, 0, 2))) == 2
    assert not resting(of)


@pytest.mark.parametrize(
    ("more", "past_it"),
    [
        ({}, True),
        ({"group.id": "g", "client.id": "c", "isolation.level": "read_committed", "acks": "all"}, True),
        ({"security.protocol": "plaintext", "request.timeout.ms": "1000", "max.poll.records": "5"}, True),
        ({"check.crcs": "false"}, False),
        ({"fetch.max.bytes": "100000"}, False),
        ({"client.rack": "a"}, False),
        ({"security.protocol": "SSL"}, False),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, False),
    ],
)
def test_settings_that_only_the_client_honours_are_left_to_it(more: dict[str, str], past_it: bool) -> None:
    links = Brokers("t", "kafka", {"bootstrap.servers": "nowhere:1", **more}).links()
    assert (links is not None) == past_it
    if links is not None:
        assert links.client_id == more.get("client.id", "rdkafka")
        assert links.committed == ("isolation.level" in more)


def test_connections_end_with_the_client_that_is_given_up(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    for partition in range(2):
        kafka.produce(topic, [b"a"], partition=partition)
    of = brokers(kafka)
    assert len(messages(of, Range(topic, 0, 0, 1), Range(topic, 1, 0, 1))) == 1
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        forget_consumers(of)
        gc.collect()
    assert not told


def test_batches_of_few_messages_are_left_to_the_client(kafka: Kafka) -> None:
    topic, count = kafka.topic(), 300
    producer = Producer({"bootstrap.servers": kafka.servers, "batch.num.messages": 1, **SILENT})
    for i in range(count):
        producer.produce(topic, str(i).encode(), partition=0)
    assert producer.flush(20) == 0
    of = brokers(kafka)
    assert [row[1] for row in messages(of, Range(topic, 0, 0, count))] == [str(i).encode() for i in range(count)]


# ---- what goes wrong -------------------------------------------------------------------------------------------


@contextmanager
def broker_that_says(answers: Sequence[bytes | None]) -> Iterator[tuple[str, int]]:
    """Host and port of one that answers each request with the next of some bytes, or ends the connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            left = iter(answers)
            while True:
                try:
                    stream, _ = server.accept()
                except OSError:
                    return
                with closing(stream), suppress(OSError):
                    while stream.recv(1 << 16):
                        answer = next(left, None)
                        if answer is None:
                            break
                        stream.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[:2]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def answer(body: bytes = b"", error: int = 0, number: int = 1, topic: bytes = b"t", throttled: int = 0) -> bytes:
    """An answer to a fetch of partition 0."""
    data = number.to_bytes(4, "big") + throttled.to_bytes(4, "big") + (1).to_bytes(4, "big")
    data += len(topic).to_bytes(2, "big") + topic + (1).to_bytes(4, "big") + (0).to_bytes(4, "big")
    data += error.to_bytes(2, "big") + bytes(16) + (0).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
    return len(data).to_bytes(4, "big") + data


def fetched(address: tuple[str, int], start: int, stop: int, wanted: Sequence[str] = ()) -> tuple[list[int], int]:
    """The offsets that are read of partition 0, and up to which offset."""
    links = Links("c", committed=False)
    with closing(links):
        found = Fetched(links, address, "t", 0, start, stop, wanted)
        read = [offset for offsets, _, _ in found.read() for offset in offsets.tolist()]
    return read, found.at


@pytest.mark.parametrize(
    "said",
    [
        [],
        [b"\0"],
        [b"\xff\xff\xff\xff"],
        [(1 << 30).to_bytes(4, "big")],
        [(4).to_bytes(4, "big") + b"none"],
        [b"HTTP/1.1 400 Bad Request\r\n\r\n", None],
        [answer(error=6)],
        [answer(number=2)],
        [answer(topic=b"u")],
        [answer(throttled=5)],
        [answer()],
        [answer(bytes(100))],
        [answer(b"\1" * 200)],
    ],
    ids=str,
)
def test_what_a_broker_should_not_say_ends_fetching(monkeypatch: pytest.MonkeyPatch, said: list[bytes | None]) -> None:
    monkeypatch.setattr(fetching, "_PATIENCE", 0.3)
    with broker_that_says([*said, None]) as address:
        assert fetched(address, 5, 10) == ([], 5)


def test_what_cannot_be_read_is_left_to_the_client_whole() -> None:
    """Also if it is found late that a message cannot be read: here a header, of the second of two batches."""
    good, bad = (Record(0, 0, None, b"a", ((name, b"1"),)) for name in ("x", "yz"))
    data = written([good], 5) + written([bad], 6).replace(b"yz", b"\xff\xfe")
    for most, wanted, end in ((1, ["headers"], 6), (1 << 20, ["headers"], 5), (1 << 20, [], 7)):
        with broker_that_says([answer(data), None]) as address, pytest.MonkeyPatch.context() as patch:
            patch.setattr(fetching, "_MOST_BYTES", most)
            read, at = fetched(address, 5, 7, wanted)
        assert read == list(range(5, end))
        assert at == end


@pytest.mark.parametrize(
    ("first", "offsets", "read"),
    [(5, [0, 4], [5, 9]), (5, [2, 3], [7, 8]), (20, [0], []), (5, [0, 20], [5]), (4, [0, 1, 20], [5]), (0, [9], [9])],
)
def test_offsets_that_were_compacted_away(first: int, offsets: list[int], read: list[int]) -> None:
    data = written([Record(0, offset, None, b"a") for offset in offsets], first)
    data += written([Record(0, 0, None, b"b")], 30)
    with broker_that_says([answer(data), None]) as address:
        found, at = fetched(address, 5, 10)
    assert found == read
    assert at >= 10


def test_nobody_answers() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = server.getsockname()[:2]
    assert fetched(address, 5, 10) == ([], 5)


def test_the_client_reads_on_where_fetching_ends(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, count = kafka.topic(), 2000
    for first in range(0, count, 200):
        kafka.produce(topic, [str(i) for i in range(first, first + 200)])
    cut(monkeypatch, 2000)
    whole = fetching.Link.answer
    calls = iter(range(1000))

    def broken(self: fetching.Link, *of: Any) -> Any:
        if next(calls) == 2:
            raise ConnectionResetError
        return whole(self, *of)

    monkeypatch.setattr(fetching.Link, "answer", broken)
    of = brokers(kafka)
    found = messages(of, Range(topic, 0, 0, count))
    assert [(row[0], row[1]) for row in found] == [(i, str(i).encode()) for i in range(count)]
    assert resting(of) == {topic}
    assert next(calls) == 3, "it is not tried again at once"
    assert len(messages(of, Range(topic, 0, 0, count))) == count
    assert next(calls) == 4


def test_another_broker_leads(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while the leaders are looked for again."""
    topic = kafka.topic()
    kafka.produce(topic, [b"a"])
    of, span = brokers(kafka), Range(topic, 0, 0, 1)
    assert len(messages(of, span)) == 1
    from stateplan.connectors.kafka.client import _shared

    (shared,) = (found for key, found in _shared.items() if key[0] == of.key)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        shared.leaders[topic] = {0: server.getsockname()[:2]}
    assert len(messages(of, span)) == 1
    assert resting(of) == {topic}
    shared.resting[topic] = 0.0
    with fetched_only(monkeypatch):
        assert len(messages(of, span)) == 1
