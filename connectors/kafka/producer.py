"""A producer of Kafka: messages in a frame go out, and what is not delivered is an error."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from stateplan.common.errors import DataError, RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import shorten
from stateplan.connectors.kafka.client import NO_TOPIC, Brokers, Complaints
from stateplan.connectors.kafka.encode import HEADERS, KEY, TIMESTAMP, TOPIC, VALUE
from stateplan.connectors.kafka.partitioner import Partitioner, side_by_side

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from confluent_kafka import KafkaError, Message
    from numpy.typing import NDArray

T = TypeVar("T")

DELIVERY = 120_000
"""For how many milliseconds a message may wait, where the table says nothing else; of Kafka's Java client."""

_LARGEST = 1_048_576
_BATCH = 1_000_000
_MOST_WAITING = 500_000
_SLICE = 20_000
_MANY = 20
_WAIT = 1.0
_APPEARS = 5.0
_KNOWN_FOR = 60.0

LATE = frozenset({"_MSG_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "REQUEST_TIMED_OUT"})
_INVALID = frozenset({"INVALID_RECORD", "INVALID_TIMESTAMP", "INVALID_MSG", "POLICY_VIOLATION"})
_STATES = frozenset(
    {
        *("_STATE", "_FATAL", "_FENCED", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_INCONSISTENT"),
        *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"),
        *("UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER", "TRANSACTION_COORDINATOR_FENCED"),
    }
)
_TOO_LARGE = "MSG_SIZE_TOO_LARGE"


def is_idempotent(brokers: Brokers) -> bool:
    """Whether the settings of a table leave it to the client that messages are neither repeated nor out of order: what
    Kafka's Java client does unless a setting contradicts."""
    properties = brokers.properties
    acks = properties.get("acks", properties.get("request.required.acks", "all"))
    retries = properties.get("retries", properties.get("message.send.max.retries", "1"))
    flying = properties.get("max.in.flight.requests.per.connection", properties.get("max.in.flight", "5"))
    return acks in ("all", "-1") and retries != "0" and flying in ("1", "2", "3", "4", "5")


@dataclass
class Outbox:
    """A producer.

    Attributes:
        brokers: the brokers of the table.
        seconds: for how long a message may wait.
        limit: bytes of the largest message that the producer takes.
        batch: bytes of the messages that it sends together, at most; a larger message goes alone.
        client: the producer itself.
        complaints: what it last said about its connections.
        should_stop: whether nothing may wait any longer.
        transaction_seconds: for how long brokers keep a transaction open; 0 for a producer without.
        failed: messages that were not delivered, and why.
    """

    brokers: Brokers
    seconds: float
    limit: int
    batch: int = _BATCH
    client: Any = None
    complaints: Complaints = field(default_factory=Complaints)
    should_stop: Callable[[], bool] = bool
    transaction_seconds: float = 0.0
    failed: list[tuple[KafkaError, Message]] = field(default_factory=list)
    _pending: int = 0
    _partitions: dict[str, tuple[float, int]] = field(default_factory=dict)

    @staticmethod
    def of(
        brokers: Brokers, fixed_settings: dict[str, Any] | None = None, is_stopped: Callable[[], bool] = bool
    ) -> Outbox:
        """The producer of a table.

        Args:
            brokers: the brokers of the table.
            fixed_settings: settings of librdkafka that the table cannot override.
            is_stopped: whether nothing may wait any longer.

        Raises:
            OptionError: OPT120 to OPT122, OPT131, OPT132.
        """
        settings = brokers.settings(producer=True) | (fixed_settings or {})
        longest = int(settings.get("delivery.timeout.ms", settings.get("message.timeout.ms", DELIVERY)))
        limit = int(settings["transaction.timeout.ms"]) if "transactional.id" in settings else 0
        longest = min(longest, limit or longest)
        largest = int(settings.get("message.max.bytes", _LARGEST))
        batch = int(settings.get("batch.size", _BATCH))
        outbox = Outbox(
            brokers, longest / 1000, largest, batch, should_stop=is_stopped, transaction_seconds=limit / 1000
        )
        own = {
            "delivery.timeout.ms": longest,
            "delivery.report.only.error": True,
            "on_delivery": partial(_report, outbox.failed),  # which does not hold the producer
            "partitioner": "murmur2_random",
            **(fixed_settings or {}),
        }
        idempotent = {"enable_idempotence": True} if is_idempotent(brokers) else {}
        outbox.client = brokers.producer(
            outbox.complaints,
            own,
            message_max_bytes=_LARGEST,
            queue_buffering_max_messages=_MOST_WAITING,
            # With 'rebootstrap', librdkafka 2.16 does not continue with a transaction after all brokers were away.
            metadata_recovery_strategy="none",
            **idempotent,
        )
        return outbox

    def send(
        self,
        messages: pl.DataFrame,
        topic: str | None,
        partitioner: Partitioner,
        writer: int = 0,
        first: int = 0,
    ) -> None:
        """Hands messages to the client, those of a partition in order; it may still be sending them.

        Args:
            messages: see :mod:`.encode`.
            topic: to which they go; None where each says it.
            partitioner: which partition they go to.
            writer: number of the task that writes.
            first: how many messages arrived before.

        Raises:
            StateplanError: as :meth:`flush`.
        """
        for start in range(0, messages.height, _SLICE):
            part = messages.slice(start, _SLICE)
            for some in [part] if topic is not None else part.partition_by(TOPIC, maintain_order=True):
                name = topic or some[TOPIC][0]
                has_keys, default = some[KEY].null_count() < some.height, partitioner.kind == "default"
                partition_count = self.partitions(name) if (has_keys and some.height >= _MANY) or not default else 1
                if default and partition_count > 1:
                    some = some[side_by_side(some[KEY], partition_count)]
                partition_numbers = partitioner.choose(some.height, partition_count, writer, first)
                first += some.height
                self._send(some, name, partition_numbers)
            self.poll()
            if self.failed:
                raise self.undelivered()

    def _send(self, part: pl.DataFrame, topic: str, partition_numbers: NDArray[np.int32]) -> None:
        values, keys, partitions = part[VALUE].to_list(), part[KEY].to_list(), partition_numbers.tolist()
        has = part.columns
        times: Sequence[int | None] = part[TIMESTAMP].to_list() if TIMESTAMP in has else ()
        headers = part[HEADERS].to_list() if HEADERS in has else ()
        if times or headers:
            rows: Iterator[tuple[Any, ...]] = (
                (topic, value, key, at, None, None, when or 0, heads)
                for value, key, at, when, heads in zip(
                    values,
                    keys,
                    partitions,
                    times or repeat(0),
                    map(_header_list, headers) if headers else repeat(None),
                    strict=False,
                )
            )
        else:
            rows = zip(repeat(topic), values, keys, partitions, strict=False)
        self._produce(rows)

    def _produce(self, rows: Iterator[tuple[Any, ...]]) -> None:
        from confluent_kafka import KafkaException

        produce = self.client.produce
        row: tuple[Any, ...] = ()
        try:
            for row in rows:
                try:
                    produce(*row)
                except BufferError:
                    self._produce_later(row)
        except KafkaException as error:
            if self._of_transaction(error.args[0]):
                raise
            raise self._refusal(error.args[0], row) from None

    def _of_transaction(self, error: KafkaError) -> bool:
        """Whether an error is about the transaction, or about its producer, and not about a message."""
        return bool(self.transaction_seconds) and (error.fatal() or error.name() in _STATES)

    def _produce_later(self, row: tuple[Any, ...]) -> None:
        """Waits for room in the queue of the client, which empties when messages are delivered, or are too late."""
        while True:
            self.served(lambda: self.client.poll(0.05))
            self._check()
            try:
                self.client.produce(*row)
            except BufferError:
                continue
            return

    def poll(self) -> None:
        """Lets the client report the state of messages and connections. Raises the same errors as :meth:`flush`."""
        self.served(lambda: self.client.poll(0))

    def served(self, call: Callable[[], T]) -> T:
        """What a call of the client returns that calls back.

        A client that cannot continue raises that from a call, and the next callback stumbles over it, or loses it. A
        call to abort the transaction then reports what was lost.
        """
        try:
            return call()
        except (SystemError, _client_error()) as error:
            if self.transaction_seconds:
                raise _cause(error) from None
            raise self.brokers.error(_cause(error).args[0], self.complaints, self.seconds) from None

    def flush(self) -> None:
        """Waits until all messages are delivered.

        Raises:
            RunError: RUN130, they were not in time; RUN111 to RUN113 and RUN118, the brokers do not take them.
            DataError: DATA421, a message is too large; DATA422, it is not one for the topic.
        """
        while True:
            left = self.served(lambda: self.client.flush(_WAIT))
            if not left and not self.failed:
                self._pending = 0
                self.complaints.forget()
                return
            self._pending = left or self._pending
            self._check()

    def _check(self) -> None:
        """Raises what makes further waiting useless."""
        if self.failed:
            raise self.undelivered()
        if self.complaints.final is not None:
            raise self.brokers.error(self.complaints.final)
        if self.should_stop():
            table, servers = self.brokers.table, self.brokers.servers
            raise RunError("RUN134", reason="the job is being stopped", table=table, servers=servers)

    def undelivered(self) -> Exception:
        """What the messages failed of that were not delivered: a StateplanError, or the client's where it concerns
        the transaction."""
        from confluent_kafka import KafkaException

        failures = self.failed.copy()
        self.failed.clear()
        # What becomes of the other messages of a transaction says nothing about the cause.
        causes = [one for one in failures if not self._of_transaction(one[0])] or failures
        error, message = causes[0]
        topic = message.topic() or ""
        if self._of_transaction(error):
            first_failure: Exception = KafkaException(error)
            return first_failure
        if error.name() in LATE:
            return self.late(topic, len(failures) + len(self.client or ()))
        if error.name() == _TOO_LARGE:
            return self._too_large([other for cause, other in causes if cause.name() == _TOO_LARGE])
        return self._cannot_take(error, topic, message.key(), message.value())

    def late(self, topic: str, count: int = 0) -> RunError:
        """Says that messages were not delivered in time, at least ``count``."""
        return RunError(
            "RUN130",
            count=max(count, self._pending),
            table=self.brokers.table,
            topic=topic,
            servers=self.brokers.servers,
            reason=self.brokers.without_secrets(self.complaints.text),
            seconds=self.seconds,
        )

    def _refusal(self, error: KafkaError, row: tuple[Any, ...]) -> StateplanError:
        topic, value, key, *_ = row
        if error.name() == _TOO_LARGE:
            size = _size(key, value)
            return DataError("DATA421", row=_message_text(key, value), topic=topic, size=size, limit=self.limit)
        return self._cannot_take(error, topic, key, value)

    def _too_large(self, large_messages: Sequence[Message]) -> DataError:
        """The error for messages that brokers refuse for their size. They refuse a batch as a whole, and librdkafka
        does not try its messages again in smaller ones."""
        largest = max(large_messages, key=lambda message: _size(message.key(), message.value()))
        size = _size(largest.key(), largest.value())
        alone = len(large_messages) == 1 or size > self.batch
        key = "DATA421.broker" if alone else "DATA421.batch"
        row = _message_text(largest.key(), largest.value())
        return DataError(key, row=row, topic=largest.topic(), size=size, limit=self.batch)

    def _cannot_take(self, error: KafkaError, topic: str, key: Any, value: Any) -> StateplanError:
        if error.name() in _INVALID:
            reason = self.brokers.without_secrets(error.str())
            return DataError("DATA422", row=_message_text(key, value), topic=topic, reason=reason)
        return self.brokers.error(error, self.complaints, self.seconds, topic)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has. A broker that creates topics when they are first requested creates it.

        Raises:
            RunError: RUN110 to RUN113, RUN118.
        """
        when, count = self._partitions.get(topic, (0.0, 0))
        if count and time.monotonic() < when + _KNOWN_FOR:
            return count
        until = time.monotonic() + min(_APPEARS, self.brokers.time_out)
        while True:
            topic_info = self._ask(lambda wait: self.client.list_topics(topic, timeout=wait)).topics[topic]
            if topic_info.error is None and topic_info.partitions:
                self._partitions[topic] = (time.monotonic(), len(topic_info.partitions))
                return len(topic_info.partitions)
            waits = topic_info.error is None or topic_info.error.name() in {*NO_TOPIC, "LEADER_NOT_AVAILABLE"}
            if not waits or time.monotonic() > until:
                raise self._no_topic(topic, topic_info.error)
            time.sleep(0.1)

    def connect(self) -> None:
        """Waits for a connection to a broker, by asking for topics once more: the first answer only says which brokers
        there are. A client without one begins its transactions half a second later. Raises the same errors as
        :meth:`partitions`."""
        first_topics = [*self._partitions][:1]
        self._ask(lambda wait: self.client.list_topics(*first_topics, timeout=wait))

    def topics(self) -> list[str]:
        """The names of all topics. Raises the same errors as :meth:`partitions`."""
        return sorted(self._ask(lambda wait: self.client.list_topics(timeout=wait)).topics)

    def _no_topic(self, topic: str, error: KafkaError | None) -> RunError:
        if error is not None and error.name() not in NO_TOPIC:
            return self.brokers.error(error, self.complaints, topic=topic)
        from stateplan.common.errors import nearest

        hint = nearest(topic, [name for name in self.topics() if name != topic])
        return RunError("RUN112", topic=topic, hint=hint, table=self.brokers.table, servers=self.brokers.servers)

    def close(self) -> None:
        """Ends the client; what it has not sent is not sent."""
        with contextlib.suppress(StateplanError, _client_error()):
            self.client.purge()
            self.poll()
        self.client = None

    def _ask(self, call: Callable[[float], Any]) -> Any:
        return self.brokers.ask(call, self.poll, self.complaints, self.brokers.time_out)


def _report(failures: list[tuple[KafkaError, Message]], error: KafkaError | None, message: Message) -> None:
    """The client calls it when a message is delivered, or never will be."""
    if error is not None:
        failures.append((error, message))


def _client_error() -> type[Exception]:
    from confluent_kafka import KafkaException

    kind: type[Exception] = KafkaException
    return kind


def _cause(error: BaseException) -> Exception:
    """The client's error behind one that a callback stumbled over."""
    from confluent_kafka import KafkaError

    cause: BaseException | None = error
    while isinstance(cause, SystemError):
        cause = cause.__cause__
    if isinstance(cause, _client_error()):
        return cause
    return _client_error()(KafkaError(KafkaError._FATAL, "the producer cannot continue"))  # noqa: SLF001 - its name


def _header_list(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes]] | None:
    """The headers of a message; those without a name or a value are omitted, as in Flink."""
    if headers is None:
        return None
    return [(h["key"], h["value"]) for h in headers if h["key"] is not None and h["value"] is not None]


def _size(key: bytes | None, value: bytes | None) -> int:
    return len(key or b"") + len(value or b"")


def _message_text(key: bytes | None, value: bytes | None) -> str:
    """A message, for people: its key, or how its value begins."""
    data = value if key is None else key
    short = shorten((data or b"").decode("utf-8", "replace"))
    return f"with the key '{short}'" if key is not None else f"'{short}'"


_shared_outboxes: dict[tuple[object, ...], Outbox] = {}


def shared_outbox(brokers: Brokers) -> Outbox:
    """The producer of this process for some brokers, created when it is first requested; ended when the process ends,
    or by :func:`give_up` or :func:`forget`."""
    key = _key(brokers)
    if key not in _shared_outboxes:
        _shared_outboxes[key] = Outbox.of(brokers)
    return _shared_outboxes[key]


def give_up(brokers: Brokers) -> None:
    """Ends the producer of this process for some brokers, which has failed."""
    outbox = _shared_outboxes.pop(_key(brokers), None)
    if outbox is not None:
        outbox.close()


def forget(brokers: Brokers) -> None:
    """Leaves the producer of this process for some brokers to those who use it."""
    _shared_outboxes.pop(_key(brokers), None)


def _key(brokers: Brokers) -> tuple[object, ...]:
    return (brokers.table, *brokers.key)
