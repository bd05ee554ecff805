"""Ranges of offsets of a Kafka partition, as a worker reads them: their messages and batches, and when the client stops
asking for more; and what the process has that plans them."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import Producer

from stateplan.common.errors import DataError, RunError
from stateplan.common.types import parse_type
from stateplan.connectors.kafka import split_reader
from stateplan.connectors.kafka.client import Brokers, close_consumers
from stateplan.connectors.kafka.source import KafkaSource
from stateplan.connectors.kafka.splits import KafkaSplit
from stateplan.connectors.protocol import SourceTable
from stateplan.connectors.registry import find_connector, find_format
from stateplan.connectors.rejects import collecting
from tests.connectors.kafka_sources import EARLIEST, made, table
from tests.support.kafka import SILENT, Kafka

ALL = ("key", "timestamp", "headers")
TOTAL = 1000
VALUES = [str(i).encode() for i in range(TOTAL)]


def brokers(kafka: Kafka, **more: str) -> Brokers:
    return Brokers("t", "kafka", {"bootstrap.servers": kafka.servers, **more})


@pytest.mark.parametrize(
    ("start", "stop", "held", "most"),
    [(0, TOTAL, TOTAL, 300), (0, TOTAL, 400, 400), (7, 993, 250, 100), (10, 11, 5, 5), (5, 5, 5, 5)],
)
def test_batches_are_small_and_hold_the_whole_range(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, start: int, stop: int, held: int, most: int
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, VALUES, keys=VALUES)
    for name, value in (("_MOST_MESSAGES", held), ("_MOST", most), ("_TAKE", 50)):
        monkeypatch.setattr(split_reader, name, value)
    found, fetching = [], []
    for batch in split_reader.read_split(brokers(kafka), KafkaSplit(topic, 0, start, stop), ["key"]):
        assert len(batch.values) == len(batch.offsets) == len(batch.metadata["key"]) <= most
        assert list(batch.metadata["key"]) == list(batch.values)
        found += list(zip(batch.offsets, batch.values, strict=True))
        fetching.append(_fetching())
    assert found == [(i, VALUES[i]) for i in range(start, stop)]
    # Nothing is fetched while what comes last is decoded, which is all of a range that is not larger than what is held.
    assert fetching[-1:] in ([False], [])
    assert any(fetching) == (stop - start > held)
    assert not _fetching()
    close_consumers()


def _fetching() -> bool:
    """Whether a consumer of this process has a partition to fetch."""
    from stateplan.connectors.kafka.client import _shared_consumers

    return any(shared.consumer.assignment() for shared in _shared_consumers.values())


def test_a_reader_that_stops_early_stops_fetching(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.topic()
    kafka.produce(topic, VALUES)
    for name in ("_MOST_MESSAGES", "_MOST", "_TAKE"):
        monkeypatch.setattr(split_reader, name, 100)
    batches = split_reader.read_split(brokers(kafka), KafkaSplit(topic, 0, 0, TOTAL))
    assert list(next(batches).offsets) == list(range(100))
    assert _fetching()
    assert isinstance(batches, Generator)
    batches.close()
    assert not _fetching()
    close_consumers()


def messages(kafka: Kafka, topic: str, start: int, stop: int, **more: str) -> list[tuple[Any, ...]]:
    """Offset, value, key, time and headers of each message of a range."""
    found: list[tuple[Any, ...]] = []
    for batch in split_reader.read_split(brokers(kafka, **more), KafkaSplit(topic, 0, start, stop), ALL):
        key, when, headers = (batch.metadata[name] for name in ALL)
        found += zip(batch.offsets.tolist(), batch.values, key, when, [of or None for of in headers], strict=True)
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("together", [1, 100])
def test_messages_of_several_shapes(kafka: Kafka, codec: str, together: int) -> None:
    """With and without key, value and headers; they are new, because brokers remove old ones."""
    topic, now, produced = kafka.topic(), int(time.time() * 1000), []
    own: dict[str, Any] = {"compression.type": codec, "batch.num.messages": together, "linger.ms": 20}
    producer = Producer({"bootstrap.servers": kafka.servers, **own, **SILENT})
    for i in range(300):
        value = None if i % 7 == 3 else f"{i} {'x' * (i % 150)}".encode()
        key = None if i % 5 == 2 else f"key{i}".encode()
        headers: list[tuple[str, bytes | None]] = [(f"h{j}", None if j else str(i).encode()) for j in range(i % 3)]
        producer.produce(topic, value, key, 0, timestamp=now + i * 37 % 1000, headers=headers)
        produced.append((i, value, key, now + i * 37 % 1000, headers or None))
    assert producer.flush(20) == 0
    for start, stop in [(0, 300), (17, 297), (299, 300), (100, 101)]:
        assert messages(kafka, topic, start, stop) == produced[start:stop]
    close_consumers()


def test_transactions(kafka: Kafka) -> None:
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
    for level, expected in (
        ("read_committed", {"before", "better", *(f"good{i}" for i in range(n))}),
        ("read_uncommitted", {"before", "better", "worse", *(f"{k}{i}" for i in range(n) for k in ("good", "bad"))}),
    ):
        whole = messages(kafka, topic, 0, end, **{"isolation.level": level})
        assert {row[1].decode() for row in whole} == expected
        assert len(whole) == len(expected)
        for start in (1, n, 2 * n):
            part = messages(kafka, topic, start, end, **{"isolation.level": level})
            assert part == [row for row in whole if row[0] >= start]
    close_consumers()


def test_splits_of_several_partitions_one_after_another(kafka: Kafka) -> None:
    """The same client reads them, with nothing of one in another, also when one is not read to its end."""
    topic = kafka.topic(4)
    for partition in range(4):
        kafka.produce(topic, [f"{partition} {i}" for i in range(100)], partition=partition)
    of = brokers(kafka)
    next(split_reader.read_split(of, KafkaSplit(topic, 3, 0, 50)))
    for _ in range(3):
        for partition in range(4):
            batches = split_reader.read_split(of, KafkaSplit(topic, partition, 10, 90))
            found = [v for batch in batches for v in batch.values]
            assert found == [f"{partition} {i}".encode() for i in range(10, 90)]
    close_consumers()


def test_splits_of_many_partitions_together(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its own messages and no more, also where a range ends in what a transaction left, or has nothing."""
    topic = kafka.topic(40)
    for partition in range(40):
        kafka.produce(topic, [f"{partition} {i}" for i in range(partition + 5)], partition=partition)
    with kafka.transaction(commit=False) as bad:
        bad.produce(topic, b"bad", partition=7)
    of = brokers(kafka, **{"isolation.level": "read_committed"})
    splits = [KafkaSplit(topic, partition, 3, partition + 5) for partition in range(39)]
    splits[7] = KafkaSplit(topic, 7, 3, 14)  # behind its last message are the aborted one and a marker
    some = [splits[0], KafkaSplit(topic, 39, 4, 4), *splits[1:], splits[0], KafkaSplit(topic, 39, 4, 5)]
    assert split_reader.fetch_group(some) == splits
    read = split_reader.read_whole(of, splits, ["timestamp"])
    assert read.keys() == set(splits)
    for split, batches in read.items():
        assert all((batch.topic, batch.partition) == (topic, split.partition) for batch in batches)
        offsets = [offset for batch in batches for offset in batch.offsets]
        assert offsets == list(range(3, split.partition + 5))
        assert [v for batch in batches for v in batch.values] == [f"{split.partition} {i}".encode() for i in offsets]
        assert sum(len(batch.metadata["timestamp"]) for batch in batches) == len(offsets)
    assert not _fetching()
    monkeypatch.setattr(split_reader, "_MOST", 10)
    assert split_reader.fetch_group(splits) == splits[:3]
    monkeypatch.setattr(split_reader, "_MOST_BYTES", 20)
    monkeypatch.setattr(split_reader, "_TAKE", 5)
    few = split_reader.read_whole(of, splits, [])
    assert len(few) < len(splits)
    assert all(
        len(batch.values) == split.stop - 3 for split, some in few.items() for batch in some if split.partition != 7
    )
    close_consumers()


def test_what_is_behind_the_splits_is_not_taken(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.topic(8)
    for partition in range(8):
        kafka.produce(topic, VALUES * 20, partition=partition)
    taken = []
    by_range = split_reader._Reader._by_range

    def counted(reader: Any, messages: list[Any]) -> Any:
        taken.append(len(messages))
        return by_range(reader, messages)

    monkeypatch.setattr(split_reader._Reader, "_by_range", counted)
    splits = [KafkaSplit(topic, partition, 5, 505) for partition in range(8)]
    for _ in range(2):  # the second time, in partitions that were left
        taken.clear()
        read = split_reader.read_whole(brokers(kafka), splits)
        assert [sum(len(batch.values) for batch in read[split]) for split in splits] == [500] * 8
        assert sum(taken) < 8 * len(VALUES) * 20 / 2
    close_consumers()


def test_messages_that_are_gone_are_named_where_partitions_are_read_together(kafka: Kafka) -> None:
    topic = kafka.topic(3)
    for partition in range(3):
        kafka.produce(topic, VALUES[:50], partition=partition)
    kafka.cut(topic, 1, 20)
    splits = [KafkaSplit(topic, partition, 10, 50) for partition in range(3)]
    with pytest.raises(RunError, match="RUN114") as error:
        split_reader.read_whole(brokers(kafka), splits)
    assert "partition 1" in str(error.value)
    splits = [KafkaSplit(topic, partition, 30, 50 + partition % 2) for partition in range(3)]
    with pytest.raises(RunError, match="RUN115") as error:
        split_reader.read_whole(brokers(kafka), splits)
    assert "partition 1" in str(error.value)
    assert not _fetching()
    close_consumers()


PARTITIONS = 12
_UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}


@pytest.mark.parametrize(
    ("options", "metadata"),
    [
        ({"connector": "kafka", "format": "json"}, ()),
        ({"connector": "kafka", "format": "json"}, ("offset", "timestamp")),
        ({"connector": "kafka", "format": "json"}, ("partition",)),
        ({"connector": "kafka", "key.format": "json", "key.fields": "a", "value.format": "json"}, ("offset",)),
        (_UPSERT, ("offset",)),
    ],
)
def test_rows_are_the_same_together(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], metadata: tuple[str, ...]
) -> None:
    """In any order of reading, with tombstones and keys, with and without metadata of messages."""
    topic = kafka.topic(PARTITIONS)
    for partition in range(PARTITIONS):
        keys = [b'{"a": %d}' % (i % 3) for i in range(10)]
        values = [None if i % 4 == 3 else b'{"a": %d, "b": "%d"}' % (i % 3, partition) for i in range(10)]
        kafka.produce(topic, values, keys=keys, partition=partition)
    where = {"topic": topic, "properties.bootstrap.servers": kafka.servers}
    starts = EARLIEST if options["connector"] == "kafka" else {}
    asked = table(
        where | starts | options, "a INT, b STRING", key=("a",) if options is _UPSERT else (), metadata=metadata
    )
    groups = []

    def counted(of: Brokers, some: Any, keys: Any) -> Any:
        groups.append(len(some))
        return split_reader.read_whole(of, some, keys)

    monkeypatch.setattr("stateplan.connectors.kafka.source.read_whole", counted)
    reader = made(asked)
    splits = [KafkaSplit(topic, partition, 2, 10 - partition % 2) for partition in range(PARTITIONS)]

    def found(split: KafkaSplit) -> list[Any]:
        return [row for frame in reader.read(split) for row in frame.rows()]

    alone = {split: found(split) for split in splits}
    assert all(alone.values()) and not groups
    reader.expect(splits)
    others = [KafkaSplit(topic, 3, 0, 10), splits[5], KafkaSplit(topic, 4, 3, 3)]
    for split in (splits[0], *reversed(splits[1:]), *others):
        assert found(split) == (alone[split] if split in alone else found(split))
    assert groups == [PARTITIONS]
    reader.expect(splits[4:])
    assert found(splits[8]) == alone[splits[8]] and groups == [PARTITIONS, PARTITIONS - 8]
    close_consumers()


def test_a_bad_message_is_named_when_its_split_is_read(kafka: Kafka) -> None:
    topic = kafka.topic(3)
    for partition in range(3):
        kafka.produce(topic, [b'{"a": 1}', b"{bad" if partition == 1 else b'{"a": 2}'], partition=partition)
    options = {"connector": "kafka", "topic": topic, "properties.bootstrap.servers": kafka.servers, "format": "json"}
    reader = made(table(options | EARLIEST))
    splits = [KafkaSplit(topic, partition, 0, 2) for partition in range(3)]
    reader.expect(splits)
    assert [frame.rows() for frame in reader.read(splits[0])] == [[(1,), (2,)]]
    with pytest.raises(DataError) as error:
        list(reader.read(splits[1]))
    assert f"topic {topic}, partition 1, offset 1" in str(error.value)
    reader = made(table(options | EARLIEST | {"json.ignore-parse-errors": "true"}))
    reader.expect(splits)
    with collecting() as rejects:
        assert [len(frame) for frame in reader.read(splits[0])] == [2] and not rejects
    with collecting() as rejects:
        assert [len(frame) for frame in reader.read(splits[1])] == [1]
    (reject,) = rejects
    assert (reject.partition, reject.offset) == (1, 1)
    close_consumers()


def test_planning_starts_without_what_reading_needs(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, VALUES[:7], partition=1)
    options = kafka.json_table(topic)
    fields = (("a", parse_type("INT")),)
    table = SourceTable("t", find_connector(options), options, fields, find_format(options, "source"), projection=(0,))
    source = find_connector(options).source(table)
    assert isinstance(source, KafkaSource)
    source.idle_timeout = 5000
    code = (
        "import pickle, sys; source = pickle.load(sys.stdin.buffer); start = source.initial_offset(); "
        "splits = source.plan(start, source.latest_offset(start)); "
        "print(source.idle_timeout, sum(s.stop - s.start for s in splits), 'polars' in sys.modules)"
    )
    data = pickle.dumps(source.for_planning())
    run = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True, timeout=60)
    assert run.stdout.split() == [b"5000", b"7", b"False"]
    assert source.rows is not None
