"""Single messages that planning reads: how large they are, and whether a topic is the one that was read.

Brokers before Kafka 2.8 report no ids of topics. For some partitions of each of their topics a checkpoint keeps a mark:
the offset of a message, and its fingerprint. In a topic that was deleted and created again, another message has the
offset.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from stateplan.common.errors import RunError
from stateplan.connectors.kafka.client import Brokers, SharedConsumer, shared_consumer

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

Offsets: TypeAlias = dict[Place, int]

_SAMPLE = 200
_SAMPLED_FOR = 0.5
_MARKED_PARTITIONS = 3
"""How many partitions of a topic have marks that are renewed."""

_MARKED_EVERY = 60.0
_LOOKED_FOR = 5.0
_LITTLE = 65_536


def mean_size(brokers: Brokers, place: Place, end: int, rows: int) -> float | None:
    """The mean size of the last messages before an offset, in bytes; None if none of them comes.

    Args:
        brokers: the brokers of the table.
        place: the partition.
        end: the offset.
        rows: how many there are at most.

    Raises:
        RunError: RUN110, RUN111, RUN118.
    """
    count = min(_SAMPLE, rows)
    with consumer_at(brokers, {place: end - count}) as consumer:
        messages = [message for message in consumer.consume(count, _SAMPLED_FOR) if message.error() is None]
    sizes = [len(message.value() or b"") + len(message.key() or b"") for message in messages]
    return max(1.0, sum(sizes) / len(sizes)) if sizes else None


class Marks:
    """The marks of the partitions of a table, whose brokers report no ids of topics.

    Args:
        brokers: the brokers of the table.
        stored_marks: ``topic -> partition -> [offset, fingerprint]`` in an offset of the source, of a checkpoint.
    """

    def __init__(self, brokers: Brokers, stored_marks: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        self.brokers = brokers
        self._marks: dict[Place, tuple[int, str]] = {
            (topic, int(number)): (at, mark)
            for topic, numbers in stored_marks.items()
            for number, (at, mark) in numbers.items()
        }
        self._renewed: dict[str, float] = {}

    def to_offset(self) -> dict[str, dict[str, list[Any]]]:
        """What a checkpoint keeps."""
        out: dict[str, dict[str, list[Any]]] = {}
        for (topic, number), mark in sorted(self._marks.items()):
            out.setdefault(topic, {})[str(number)] = [*mark]
        return out

    def renew(self, spans: Mapping[Place, tuple[int, int]]) -> None:
        """Checks the marks of topics, and makes new ones, once a minute for each topic.

        A mark is before the offset that is read next, so that a topic without its offset is shorter than what has been
        read.

        Args:
            spans: of partitions, the offset at which a micro-batch begins, and the one at which it ends.

        Raises:
            RunError: RUN115, as :meth:`check`.
        """
        now = time.monotonic()
        late = now - _MARKED_EVERY
        due = {p: span for p, span in spans.items() if span[0] < span[1] and self._renewed.get(p[0], late) <= late}
        topics = {topic for topic, _ in due}
        places = [place for topic in topics for place in sorted(p for p in due if p[0] == topic)[:_MARKED_PARTITIONS]]
        self.check(places)
        for place, message in self._first({place: due[place][0] for place in places}).items():
            if message.offset() < due[place][1]:
                self._marks[place] = message.offset(), _fingerprint(message)
        self._renewed |= dict.fromkeys(topics, now)

    def check(self, places: Collection[Place]) -> set[Place]:
        """Checks that topics are those that were read. Messages that brokers have deleted since say nothing.

        Returns:
            The partitions that are known again.

        Raises:
            RunError: RUN115.
        """
        confirmed_places = set()
        marks = {place: self._marks[place] for place in places if place in self._marks}
        for place, message in self._first({place: at for place, (at, _) in marks.items()}).items():
            at, mark = marks[place]
            if message.offset() != at:
                continue
            if _fingerprint(message) != mark:
                raise RunError("RUN115.other", topic=place[0], table=self.brokers.table)
            confirmed_places.add(place)
        return confirmed_places

    def _first(self, offsets: Offsets) -> dict[Place, Message]:
        """The first message of each partition from an offset on; partitions without one are omitted."""
        messages: dict[Place, Message] = {}
        if not offsets:
            return messages
        left, until = set(offsets), time.monotonic() + _LOOKED_FOR
        with consumer_at(self.brokers, offsets) as consumer:
            while left and time.monotonic() < until:
                message = consumer.poll(0.1)
                if message is None or (place := _place(message)) not in left:
                    continue
                left.discard(place)
                if message.error() is None:
                    messages[place] = message
        return messages


def _place(message: Message) -> tuple[Any, Any]:
    return message.topic(), message.partition()


@contextmanager
def consumer_at(brokers: Brokers, offsets: Offsets) -> Iterator[Consumer]:
    """A consumer that reads some partitions from offsets on, for a few messages, and reports their ends. Raises
    RunError RUN110, RUN111, RUN118."""
    client: SharedConsumer = shared_consumer(
        brokers,
        client_id="stateplan-sample",
        queued_min_messages=_SAMPLE,
        fetch_message_max_bytes=_LITTLE,
        fetch_queue_backoff_ms=20,
        enable_partition_eof=True,
    )
    client.assign(brokers, offsets)
    try:
        yield client.consumer
    finally:
        client.consumer.unassign()


def _fingerprint(message: Message) -> str:
    content = repr((message.timestamp()[1], message.key(), message.value()))
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
