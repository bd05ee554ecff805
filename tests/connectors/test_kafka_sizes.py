"""Messages that are too large for a Kafka topic, alone or together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from stateplan.common.errors import DataError
from stateplan.connectors.kafka import producer
from tests.connectors.kafka_sinks import EXACT, make, rows, shown, write
from tests.support.kafka import Kafka


@pytest.mark.parametrize("options", [{}, EXACT])
def test_a_message_that_is_too_large(kafka: Kafka, options: dict[str, str]) -> None:
    topic = kafka.topic()
    keyed = {"key.format": "json", "key.fields": "v", "key.json.encode.ignore-null-fields": "true", **options}
    for more, text in (
        ({}, "producer takes 1,048,576"),
        ({"properties.max.request.size": "9000000"}, "than the topic takes"),
    ):
        sink = make(kafka.servers, topic, **keyed, **more, uid=topic)
        with pytest.raises(DataError) as caught:
            write(sink, rows(("a", 1), ("x" * 4_000_000, 7), *(("b", n) for n in range(10, 200))))
        assert caught.value.code == "DATA421"
        assert text in caught.value.message
        assert """'{"v":7}'""" in caught.value.message
        assert "4,000,0" in caught.value.message
    if options:
        assert shown(kafka, topic) == []
        write(sink, rows(("a", 1)))
        assert len(shown(kafka, topic)) == 1


def test_a_message_is_too_large_while_others_are_handed_over(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine: the transaction has failed before the producer has all messages."""
    real = producer.Outbox._produce

    def slowly(self: producer.Outbox, rows: Iterator[tuple[Any, ...]]) -> None:
        def each() -> Iterator[tuple[Any, ...]]:
            for number, row in enumerate(rows):
                if number == 20:
                    time.sleep(0.5)
                yield row

        real(self, each())

    monkeypatch.setattr(producer.Outbox, "_produce", slowly)
    topic = kafka.topic()
    sink = make(kafka.servers, topic, **EXACT, **{"properties.max.request.size": "9000000"}, uid=topic)
    with pytest.raises(DataError, match=r"DATA421.*has 4,000,0.. bytes, which is more than the topic takes"):
        write(sink, rows(("x" * 4_000_000, 7), *(("b", n) for n in range(10, 200))))
    write(sink, rows(("a", 1)))
    assert shown(kafka, topic) == [(None, b'{"k":"a","v":1}')]


@pytest.mark.parametrize("options", [{}, EXACT])
def test_messages_that_are_too_large_together(kafka: Kafka, options: dict[str, str]) -> None:
    topic = kafka.topic(config={"max.message.bytes": "20000"})
    frame = rows(*(("x" * 100, n) for n in range(1000)), ("y" * 200, 1000))
    with pytest.raises(DataError) as caught:
        write(make(kafka.servers, topic, **options, uid=topic), frame)
    assert caught.value.code == "DATA421"
    assert f"topic {topic} refuses messages that were sent together, in up to 1,000,000 bytes" in caught.value.message
    assert "'properties.batch.size' no greater than max.message.bytes" in str(caught.value)
    assert shown(kafka, topic) == []
    small = {"properties.batch.size": "16384"}
    write(make(kafka.servers, topic, **options, **small, uid=topic), frame)
    assert len(shown(kafka, topic)) == 1001
    with pytest.raises(DataError, match=r"has 30,0.. bytes, which is more than the topic takes"):
        write(make(kafka.servers, topic, **options, **small, uid=topic), rows(("a", 1), ("x" * 30_000, 2)), 1)
