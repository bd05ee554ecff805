"""What a producer does with the messages of a frame: partitions, order, headers and times."""

from __future__ import annotations

import gc
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.connectors.kafka import producer
from stateplan.connectors.kafka.client import Brokers
from stateplan.connectors.kafka.encode import HEADERS, KEY, TIMESTAMP, TOPIC, VALUE
from stateplan.connectors.kafka.partitioner import Partitioner, murmur2, side_by_side
from tests.support.kafka import Kafka

_NUMBERS = itertools.count()


def frame(messages: list[tuple[bytes | None, bytes | None]], **more: list[Any]) -> pl.DataFrame:
    keys, values = zip(*messages, strict=True)
    return pl.DataFrame({KEY: keys, VALUE: values, **more}, schema_overrides={KEY: pl.Binary, VALUE: pl.Binary})


def outbox(servers: str, **more: str) -> producer.Outbox:
    properties = {"bootstrap.servers": servers, **{name.replace("_", "."): text for name, text in more.items()}}
    fixed = {"transactional.id": f"producer-{next(_NUMBERS)}", "transaction.timeout.ms": 60_000}
    made = producer.Outbox.of(Brokers("t", "kafka", properties), fixed)
    made.client.init_transactions(10)
    return made


def sent(out: producer.Outbox, messages: pl.DataFrame, topic: str | None, **more: Any) -> None:
    out.client.begin_transaction()
    out.send(messages, topic, more.pop("partitioner", Partitioner()), **more)
    out.flush()
    out.client.commit_transaction(10)


def found(kafka: Kafka, topic: str) -> dict[int, list[tuple[Any, Any]]]:
    """The messages of each partition, in order."""
    made = defaultdict(list)
    for message in kafka.consume(topic):
        made[message.partition()].append((message.key(), message.value()))
    return made


@pytest.fixture(scope="module")
def transactional(kafka: Kafka) -> Iterator[producer.Outbox]:
    made = outbox(kafka.servers)
    yield made
    made.close()


def test_a_part_of_a_frame_has_its_own_bytes(kafka: Kafka, transactional: producer.Outbox) -> None:
    messages = [(b"key %d" % n, b"value %d" % n) for n in range(100)]
    topic = kafka.topic()
    sent(transactional, frame(messages)[40:70], topic)
    assert found(kafka, topic) == {0: messages[40:70]}
    empty = kafka.topic()
    sent(transactional, frame([(b"", b"")] * 3), empty)
    assert found(kafka, empty) == {0: [(b"", b"")] * 3}


@pytest.mark.parametrize(("kind", "expected"), [("default", None), ("fixed", [2]), ("round-robin", [0, 1, 2, 3])])
def test_partitions(kafka: Kafka, transactional: producer.Outbox, kind: str, expected: list[int] | None) -> None:
    messages = [(b"key %d" % n, b"%d" % n) for n in range(30)]
    topic = kafka.topic(4)
    sent(transactional, frame(messages), topic, partitioner=Partitioner(kind), writer=6)
    arrived = found(kafka, topic)
    assert sorted(m for part in arrived.values() for m in part) == sorted(messages)
    assert sorted(arrived) == (expected or [0, 1, 2, 3])
    for number, part in arrived.items():
        if kind == "default":
            assert {(slow_murmur2(key) & 0x7FFFFFFF) % 4 for key, _ in part} == {number}
        else:
            assert part == [m for n, m in enumerate(messages) if kind == "fixed" or n % 4 == number]


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 5))
def test_the_hash_is_that_of_kafka(keys: list[bytes], left_out: int) -> None:
    assert murmur2(pl.Series(keys, dtype=pl.Binary)[left_out:]).tolist() == [
        slow_murmur2(key) for key in keys[left_out:]
    ]


def slow_murmur2(key: bytes) -> int:
    """Of Kafka's Java client, a byte at a time."""
    factor, most = 0x5BD1E995, 0xFFFFFFFF
    made = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * factor & most
        word = (word ^ word >> 24) * factor & most
        made = made * factor & most ^ word
    if key[whole:]:
        made = (made ^ int.from_bytes(key[whole:], "little")) * factor & most
    made = (made ^ made >> 13) * factor & most
    return made ^ made >> 15


def test_messages_of_a_partition_stand_together_and_those_of_a_key_in_order(
    kafka: Kafka, transactional: producer.Outbox
) -> None:
    messages = [(b"%d" % (n % 7) * (n % 7) if n % 5 else None, b"%d" % n) for n in range(200)]
    messages += [(b"long" * 1000, b"%d" % n) for n in range(5)]
    topic = kafka.topic(3)
    sent(transactional, frame(messages), topic)
    arrived = found(kafka, topic)
    for key in {key for key, _ in messages} - {None}:
        where = [part for part in arrived.values() if key in dict(part)]
        assert [[m for m in part if m[0] == key] for part in where] == [[m for m in messages if m[0] == key]]
    assert sorted(m for part in arrived.values() for m in part if m[0] is None) == sorted(
        m for m in messages if m[0] is None
    )
    short = pl.Series([key for key, _ in messages[:200] if key is not None])
    order = side_by_side(short, 3)
    placed = {key: partition for partition, part in arrived.items() for key, _ in part}
    numbers = [placed[key] for key in short[order]]
    assert numbers == sorted(numbers)
    for number in range(3):
        mine = [at for at in order.tolist() if placed[short[at]] == number]
        assert mine == sorted(mine)


def test_rows_name_their_topics(kafka: Kafka, transactional: producer.Outbox) -> None:
    one, other = kafka.topic(2), kafka.topic(2)
    messages = [(None, b"%d" % n) for n in range(12)]
    names = [one] * 5 + [other] * 4 + [one] * 3
    sent(transactional, frame(messages, **{TOPIC: names}), None, partitioner=Partitioner("round-robin"))
    assert found(kafka, one) == {
        0: [messages[n] for n in (0, 2, 4, 10)],
        1: [messages[n] for n in (1, 3, 9, 11)],
    }
    assert found(kafka, other) == {0: [messages[n] for n in (5, 7)], 1: [messages[n] for n in (6, 8)]}


def test_headers_and_times_go_with_their_messages(kafka: Kafka, transactional: producer.Outbox) -> None:
    topic = kafka.topic()
    headers = [[{"key": "h", "value": b"%d" % n}] for n in range(3)]
    sent(transactional, frame([(None, b"v")] * 3, **{HEADERS: headers, TIMESTAMP: [5, 6, 7]}), topic)
    arrived = kafka.consume(topic)
    assert [m.headers() for m in arrived] == [[("h", b"%d" % n)] for n in range(3)]
    assert [m.timestamp()[1] for m in arrived] == [5, 6, 7]


def test_a_full_queue_is_waited_for(kafka: Kafka) -> None:
    out = outbox(kafka.servers, queue_buffering_max_messages="50")
    messages = [(None, b"%d" % n) for n in range(3000)]
    topic = kafka.topic()
    sent(out, frame(messages), topic)
    assert found(kafka, topic) == {0: messages}
    out.close()


def test_a_producer_that_is_given_up_ends(kafka: Kafka) -> None:
    out = outbox(kafka.servers)
    client = id(out.client)
    out.close()
    gc.collect()
    assert client not in map(id, gc.get_objects())
