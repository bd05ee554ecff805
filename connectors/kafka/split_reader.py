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
from itertools import groupby
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.extras import require
from stateplan.connectors.kafka.client import NO_TOPIC, Brokers, passes, shared_consumer
from stateplan.connectors.kafka.splits import KafkaSplit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from confluent_kafka import KafkaError, Message

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


def concat(batches: Sequence[Batch]) -> Batch:
    """The messages of some batches, of any partitions, under the place of the first one."""
    import numpy as np

    first = batches[0]
    return Batch(
        first.topic,
        first.partition,
        np.concatenate([batch.offsets for batch in batches]),
        [value for batch in batches for value in batch.values],
        {key: [entry for batch in batches for entry in batch.metadata[key]] for key in first.metadata},
    )


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
        yield from _Reader(brokers, [split], metadata_keys).read()


def read_whole(
    brokers: Brokers, splits: Sequence[KafkaSplit], metadata_keys: Collection[str] = ()
) -> dict[KafkaSplit, list[Batch]]:
    """The messages of splits of different partitions, which are fetched together: a request to a broker takes as long
    for many partitions as for one. Splits are missing where all have too many bytes.

    Raises:
        RunError: as of :func:`read_split`.
    """
    return _Reader(brokers, splits, metadata_keys).read_whole()


def fetch_group(splits: Sequence[KafkaSplit]) -> list[KafkaSplit]:
    """The first split, which has messages, and those that can be fetched with it: of other partitions, with few
    messages in all."""
    out: dict[tuple[str, int], KafkaSplit] = {}
    messages = 0
    for split in splits:
        messages += split.stop - split.start
        if out and (messages > _MOST or (split.topic, split.partition) in out):
            break
        if split.start < split.stop:
            out[split.topic, split.partition] = split
    return list(out.values())


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


class _Range:
    """How far a split has been read, and its messages that have not been handed on."""

    def __init__(self, split: KafkaSplit, metadata_keys: Collection[str]) -> None:
        self.split = split
        self.at = split.start
        self.metadata_keys = metadata_keys
        self._empty()

    def _empty(self) -> None:
        self.offsets: list[int] = []
        self.values: list[bytes | None] = []
        self.size = 0
        self.metadata: dict[str, list[Any]] = {key: [] for key in self.metadata_keys}

    @property
    def left(self) -> int:
        """Offsets that have not been read."""
        return max(0, self.split.stop - self.at)

    def batches(self) -> Iterator[Batch]:
        """The messages that have arrived since the batches before."""
        import numpy as np

        offsets, values, metadata = self.offsets, self.values, self.metadata
        self._empty()
        for start in range(0, len(values), _MOST):
            part = slice(start, start + _MOST)
            some = {key: entries[part] for key, entries in metadata.items()}
            yield Batch(self.split.topic, self.split.partition, np.array(offsets[part], np.int64), values[part], some)

    def keep(self, messages: Sequence[Message], kind: type[Message]) -> None:
        """Keeps messages of the range, and notes how far it has been read."""
        first, last = messages[0].offset(), messages[-1].offset()
        self.at = max(self.at, last + 1)
        # Mostly there are no gaps.
        self.offsets += range(first, last + 1) if last - first + 1 == len(messages) else map(kind.offset, messages)
        values = list(map(kind.value, messages))
        self.size += sum(map(len, filter(None, values)))
        self.values += values
        for key, entries in self.metadata.items():
            entries += map(_METADATA[key], messages)


class _Reader:
    """Reads splits of different partitions."""

    def __init__(self, brokers: Brokers, splits: Sequence[KafkaSplit], metadata_keys: Collection[str]) -> None:
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
        self.ranges = {(split.topic, split.partition): _Range(split, metadata_keys) for split in splits}
        self.kind = require("kafka", "confluent_kafka", f"the connector '{brokers.connector}'").Message
        self.last_message = time.monotonic()

    @property
    def left(self) -> int:
        """Offsets that have not been read."""
        return sum(one.left for one in self.ranges.values())

    def read(self) -> Iterator[Batch]:
        """The messages of the only split."""
        (only,) = self.ranges.values()
        with self._fetching():
            while only.left:
                self._take()
                if only.left and (len(only.values) >= _MOST_MESSAGES or only.size >= _MOST_BYTES):
                    yield from only.batches()
        yield from only.batches()

    def read_whole(self) -> dict[KafkaSplit, list[Batch]]:
        """The messages of the splits that come to their end before all of them have too many bytes."""
        with self._fetching():
            pending = list(self.ranges.values())
            while pending and sum(one.size for one in self.ranges.values()) < _MOST_BYTES:
                self._take()
                self._leave([one.split for one in pending if not one.left])
                pending = [one for one in pending if one.left]
        return {one.split: list(one.batches()) for one in self.ranges.values() if not one.left}

    def _leave(self, splits: Sequence[KafkaSplit]) -> None:
        """Stops fetching partitions whose splits have been read: there may be many messages behind a split."""
        from confluent_kafka import TopicPartition

        if splits:
            self.client.consumer.incremental_unassign([TopicPartition(one.topic, one.partition) for one in splits])

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        """The client fetches messages from where the splits begin."""
        self.client.assign(self.brokers, {place: one.at for place, one in self.ranges.items()})
        try:
            self.last_message = time.monotonic()
            yield
        finally:
            self.client.consumer.unassign()

    def _take(self) -> None:
        """Keeps the messages that have come, or waits a moment for some."""
        left = self.left
        with _uncollected():
            messages = self.client.consumer.consume(min(_TAKE, left), _WAIT)
            for one, some in self._by_range(messages):
                if any(map(self.kind.error, some)) or (some and some[-1].offset() >= one.split.stop):
                    some = list(self._messages_of_range(one, some))
                if some:
                    one.keep(some, self.kind)
        if self.left < left:
            self.last_message = time.monotonic()
            self.client.complaints.forget()
        elif self.client.complaints.final is not None or time.monotonic() - self.last_message > self.brokers.time_out:
            raise self._silent()

    def _by_range(self, messages: list[Message]) -> Iterator[tuple[_Range, list[Message]]]:
        """Messages that follow each other in a partition, and its range."""
        if len(self.ranges) == 1:
            yield next(iter(self.ranges.values())), messages
            return
        for place, group in groupby(messages, lambda message: (message.topic(), message.partition())):
            if place in self.ranges:
                yield self.ranges[place], list(group)
            else:  # errors of a topic or of the group have no partition
                of_topic = (one for one in self.ranges.values() if one.split.topic == place[0])
                one = next(of_topic, next(iter(self.ranges.values())))
                yield one, [message for message in group if message.error() is not None]

    def _messages_of_range(self, one: _Range, messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            error = message.error()
            if error is not None:
                self._event(one, message, error)
            elif message.offset() < one.split.stop:
                yield message
            else:
                one.at = one.split.stop

    def _event(self, one: _Range, message: Message, error: KafkaError) -> None:
        name, split = error.name(), one.split
        if message.topic() is None and not error.fatal():  # about the group, which reading does without
            self.client.complaints(error)
        elif name == "_PARTITION_EOF":
            end = message.offset()
            if end >= split.stop:
                one.at = split.stop
            elif self._edge(split, _END) < split.stop:
                raise self._shorter(split, end)
        elif name in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            first = self._edge(split, _BEGIN)
            raise (
                lost_messages(self.brokers, split.topic, split.partition, one.at, first)
                if first > one.at
                else self._shorter(split, self._edge(split, _END))
            )
        elif name in NO_TOPIC or not passes(error):
            raise self.brokers.error(error, self.client.complaints, topic=split.topic)

    def _shorter(self, split: KafkaSplit, end: int) -> RunError:
        return RunError(
            "RUN115",
            topic=split.topic,
            partition=split.partition,
            table=self.brokers.table,
            last=end,
            offset=split.stop,
        )

    def _edge(self, split: KafkaSplit, end: int) -> int:
        """The first offset of the partition of a split, or its end."""
        from confluent_kafka import TopicPartition

        questions = [TopicPartition(split.topic, split.partition, end)]

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
        first = next(one for one in self.ranges.values() if one.left)
        return RunError(
            "RUN110.reading",
            topic=first.split.topic,
            partition=first.split.partition,
            offset=first.at,
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
