"""Reading a split, a range of offsets of a partition, in a worker.

A range may have gaps: offsets that the log compacted away, markers of transactions, and messages of transactions that
were aborted. It has been read when a message at its end or behind it has come, or when the log says that there is no
more.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.extras import require
from stateplan.connectors.kafka.client import NO_TOPIC, Brokers, passes, shared_consumer
from stateplan.connectors.kafka.splits import KafkaSplit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from confluent_kafka import Consumer, KafkaError, Message

_MOST = 50_000
"""Messages in one batch at most: as many as are decoded in one go."""

_MOST_MESSAGES = 200_000
"""Messages that are taken before the first of them is decoded, at most: a range of fewer is fetched to its end, and
fetching has stopped by then. A client at the end of a partition asks again and again, of some brokers without pause."""

_QUEUED = 5_000
"""The client asks for more messages when fewer than this wait in its queue. With a longer queue it asks again and again
at the end of a partition, while the last messages are taken."""

_MOST_BYTES = 64 << 20
"""Bytes of values that are taken before the first is decoded, about."""

_TAKE = 5_000
_WAIT = 0.02
_BEGIN, _END = -2, -1
"""What stands for the first offset and for the end of a partition where offsets are requested by time."""


_METADATA: Mapping[str, Callable[[Message], Any]] = {
    "key": lambda message: message.key(),
    "timestamp": lambda message: message.timestamp()[1],
    "timestamp-type": lambda message: message.timestamp()[0],
    "headers": lambda message: message.headers(),
    "leader-epoch": lambda message: message.leader_epoch(),
}


@dataclass(frozen=True)
class Batch:
    """Messages of a partition, in order.

    Attributes:
        topic, partition: where they are from.
        offsets: shape (messages,).
        values: of each; None for a tombstone.
        metadata: what else was requested: ``key``; ``timestamp``, ms since 1970; ``timestamp-type``, by librdkafka's
            numbers; ``headers``; ``leader-epoch``.
    """

    topic: str
    partition: int
    offsets: npt.NDArray[np.int64]
    values: Sequence[bytes | None]
    metadata: Mapping[str, Sequence[Any]]


def read_split(brokers: Brokers, split: KafkaSplit, metadata_keys: Collection[str] = ()) -> Iterator[Batch]:
    """The messages of a split, in order, in batches of bounded size.

    Args:
        brokers: the brokers of the table.
        split: to read.
        metadata_keys: what of messages besides values: keys of :attr:`Batch.metadata`.

    Raises:
        RunError: RUN110, no broker answers; RUN111 to RUN113 and RUN118, brokers refuse; RUN114, messages are gone;
            RUN115, the partition ends before ``stop``.
    """
    if split.start < split.stop:
        yield from _Reader(brokers, split, metadata_keys).read()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cyclic garbage, which looks at every message again and again: half of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Reader:
    """Reads a split."""

    def __init__(self, brokers: Brokers, split: KafkaSplit, metadata_keys: Collection[str]) -> None:
        self.brokers = brokers
        self.client = shared_consumer(
            brokers,
            auto_offset_reset="error",
            enable_partition_eof=True,
            fetch_wait_max_ms=20,
            fetch_error_backoff_ms=50,
            fetch_queue_backoff_ms=20,
            reconnect_backoff_max_ms=1000,
            queued_min_messages=_QUEUED,
        )
        self.topic, self.partition, self.at, self.stop = split.topic, split.partition, split.start, split.stop
        self.metadata_keys = metadata_keys
        self.kind = require("kafka", "confluent_kafka", f"the connector '{brokers.connector}'").Message
        self._empty()

    def _empty(self) -> None:
        self.offsets: list[int] = []
        self.values: list[bytes | None] = []
        self.size = 0
        self.metadata: dict[str, list[Any]] = {key: [] for key in self.metadata_keys}

    def _batches(self) -> Iterator[Batch]:
        """The messages that have arrived since the batches before."""
        import numpy as np

        offsets, values, metadata = self.offsets, self.values, self.metadata
        self._empty()
        for start in range(0, len(values), _MOST):
            part = slice(start, start + _MOST)
            some = {key: entries[part] for key, entries in metadata.items()}
            yield Batch(self.topic, self.partition, np.array(offsets[part], np.int64), values[part], some)

    def read(self) -> Iterator[Batch]:
        consumer: Consumer = self.client.consumer
        self.client.assign(self.brokers, {(self.topic, self.partition): self.at})
        fetching = True
        try:
            last_message = time.monotonic()
            while self.at < self.stop:
                before = self.at
                with _uncollected():
                    self._take(consumer.consume(min(_TAKE, self.stop - self.at), _WAIT))
                if self.at > before:
                    last_message = time.monotonic()
                    self.client.complaints.forget()
                elif (
                    self.client.complaints.final is not None or time.monotonic() - last_message > self.brokers.time_out
                ):
                    raise self._silent()
                if self.at < self.stop and (len(self.values) >= _MOST_MESSAGES or self.size >= _MOST_BYTES):
                    yield from self._batches()
            consumer.unassign()
            fetching = False
            yield from self._batches()
        finally:
            if fetching:
                consumer.unassign()

    def _take(self, messages: list[Message]) -> None:
        """Keeps the messages that belong to the range, and notes how far it has been read."""
        kind = self.kind
        if any(map(kind.error, messages)) or (messages and messages[-1].offset() >= self.stop):
            messages = list(self._messages_of_range(messages))
        if not messages:
            return
        first, last = messages[0].offset(), messages[-1].offset()
        self.at = max(self.at, last + 1)
        # Mostly there are no gaps.
        self.offsets += range(first, last + 1) if last - first + 1 == len(messages) else map(kind.offset, messages)
        values = list(map(kind.value, messages))
        self.size += sum(map(len, filter(None, values)))
        self.values += values
        for key, entries in self.metadata.items():
            entries += map(_METADATA[key], messages)

    def _messages_of_range(self, messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            error = message.error()
            if error is not None:
                self._event(message, error)
            elif message.offset() < self.stop:
                yield message
            else:
                self.at = self.stop

    def _event(self, message: Message, error: KafkaError) -> None:
        name = error.name()
        if message.topic() is None and not error.fatal():  # about the group, which reading does without
            self.client.complaints(error)
        elif name == "_PARTITION_EOF":
            end = message.offset()
            if end >= self.stop:
                self.at = self.stop
            elif self._edge(_END) < self.stop:
                raise self._shorter(end)
        elif name in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            first = self._edge(_BEGIN)
            raise (
                lost_messages(self.brokers, self.topic, self.partition, self.at, first)
                if first > self.at
                else self._shorter(self._edge(_END))
            )
        elif name in NO_TOPIC or not passes(error):
            raise self.brokers.error(error, self.client.complaints, topic=self.topic)

    def _shorter(self, end: int) -> RunError:
        return RunError(
            "RUN115", topic=self.topic, partition=self.partition, table=self.brokers.table, last=end, offset=self.stop
        )

    def _edge(self, end: int) -> int:
        """The first offset of the partition, or its end."""
        from confluent_kafka import TopicPartition

        questions = [TopicPartition(self.topic, self.partition, end)]

        def ask(wait: float) -> int:
            return int(self.client.consumer.offsets_for_times(questions, timeout=wait)[0].offset)

        return self.brokers.ask(ask, lambda: None, self.client.complaints, self.brokers.time_out, lambda: None)

    def _silent(self) -> RunError:
        """The error for brokers that send nothing. The caller raises it: a name for it in the frame that raises would
        make a cycle, which keeps the client alive."""
        complaints = self.client.complaints
        last_error = None if complaints.last is None else self.brokers.error(complaints.last)
        if last_error is not None and last_error.code == "RUN111":
            return last_error
        return RunError(
            "RUN110.reading",
            topic=self.topic,
            partition=self.partition,
            offset=self.at,
            table=self.brokers.table,
            servers=self.brokers.servers,
            reason=self.brokers.without_secrets(complaints.text),
            seconds=self.brokers.time_out,
        )


def lost_messages(brokers: Brokers, topic: str, partition: int, offset: int, first: int) -> RunError:
    """The error for messages that were removed before they were read."""
    return RunError(
        "RUN114", topic=topic, partition=partition, table=brokers.table, first=first, offset=offset, lost=first - offset
    )
