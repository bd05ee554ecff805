"""Clients of Kafka: how they are made of a table's options, what they wait for, and their errors.

Clients are librdkafka's. They live in the process that uses them, at most one consumer for the same settings, and
nothing of them is pickled: :class:`Brokers` has the options as written, without what references to secrets stand for.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from stateplan.common.errors import OptionError, RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import options_below
from stateplan.common.redaction import is_secret, without
from stateplan.common.secrets import resolve_references, unresolved
from stateplan.connectors.extras import require
from stateplan.connectors.kafka.properties import LOGIN, OWN, PREFIX, time_out, translated
from stateplan.connectors.protocol import Table

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

T = TypeVar("T")

TIME_OUT = 30_000
"""After how many milliseconds without an answer a call fails, where the table says nothing else."""

_MALLOC_LIMITS = ((-3, 32 << 20), (-1, 64 << 20))
"""glibc's ``M_MMAP_THRESHOLD`` and ``M_TRIM_THRESHOLD``, at the highest values that it would choose itself."""

_SLICE = 1.0
_QUIET = {"log_level": 2, "log.connection.close": "false"}
_DEFAULTS = {"isolation.level": "read_uncommitted", "group.id": "stateplan"}
"""What Java's client does unless configured otherwise; librdkafka reads only what is committed."""

_LOG = logging.getLogger("stateplan.kafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False

_CREDENTIALS = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"})
_CUT = re.compile("handshake failed: Local: (Broker transport failure|Timed out)")
"""What a client says of a broker that has gone while it was asked how to log in."""

_RIGHTS = frozenset(
    {
        *("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"),
        *("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
    }
)
NO_TOPIC = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"})
"""Names of the errors that say that a topic or partition does not exist."""

_TOPIC_GONE = re.compile(r"ProduceRequest for (\S+) \[\d+\].* UNKNOWN_TOPIC_OR_PART")
"""What an idempotent producer says of the messages behind the first one that found no topic."""

_ALERT = "SSL alert number"
"""In what a client says of brokers that end TLS. With TLS 1.3 they refuse its certificate after the handshake."""

_OF_CERTIFICATES = ("certificate", "unknown ca")

_NO_ANSWER = frozenset(
    {
        *("_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT", "_RESOLVE", "REQUEST_TIMED_OUT", "_SSL"),
        "_DESTROY_BROKER",  # the client found another broker in its place
    }
)
_CLOSED = ("Disconnected", "Send failed", "Receive failed")
"""What librdkafka says, if anything, of a connection that brokers have closed."""

_PASSING = frozenset(
    {
        *_NO_ANSWER,
        *("_WAIT_COORD", "_TIMED_OUT_QUEUE", "_IN_PROGRESS", "_PREV_IN_PROGRESS", "_LEADER_NOT_AVAILABLE"),
        *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE"),
        *("NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
        *("KAFKA_STORAGE_ERROR", "OFFSET_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
    }
)


@dataclass(frozen=True)
class _Log:
    """What a client writes its log to: without the secrets of the table, which brokers may repeat."""

    brokers: Brokers

    def log(self, level: int, text: str, *values: object) -> None:
        if _LOG.isEnabledFor(level):
            _LOG.log(level, "%s", self.brokers.without_secrets(text % values))


def _refuses(error: KafkaError) -> bool:
    """Whether an error says that brokers refuse credentials, which no waiting mends."""
    return error.name() in _CREDENTIALS and _CUT.search(error.str()) is None


def passes(error: KafkaError) -> bool:
    """Whether an error is one that waiting may mend."""
    return error.name() in _PASSING


class Complaints:
    """What a client last said about its connections; the client calls it."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if self.last is None or error.name() != "_ALL_BROKERS_DOWN":  # which says nothing about the cause
            self.last = error

    def forget(self) -> None:
        """The client has got an answer."""
        self.last = None

    @property
    def final(self) -> KafkaError | None:
        """The last error, if waiting cannot help, because Kafka refuses the credentials; else None."""
        return self.last if self.last is not None and _refuses(self.last) else None

    @property
    def text(self) -> str:
        """What follows in a message: ``: Connection refused``."""
        return f": {self.last.str()}" if self.last is not None else ""


@dataclass(frozen=True)
class Brokers:
    """The brokers of a table.

    Attributes:
        table: its name, for messages.
        connector: the connector of the table, for messages.
        properties: options of the client as written, without ``properties.``.
    """

    table: str
    connector: str
    properties: Mapping[str, str] = field(repr=False)

    @staticmethod
    def of(table: Table) -> Brokers:
        """Those of a table, whose options have been checked."""
        return Brokers(table.name, table.connector.name, options_below(table.options, PREFIX))

    @property
    def key(self) -> tuple[object, ...]:
        """Under what clients of this process are kept; begins with the process."""
        return (os.getpid(), self.connector, *sorted(self.properties.items()))

    @property
    def servers(self) -> str:
        """Where they are, as written."""
        return self.properties.get("bootstrap.servers") or self.properties.get("metadata.broker.list", "")

    @property
    def time_out(self) -> float:
        """After how many seconds without an answer a call fails."""
        return time_out(self.properties, TIME_OUT) / 1000

    @property
    def group(self) -> str | None:
        """The consumer group."""
        return self.properties.get("group.id")

    def own(self, name: str) -> str | None:
        """A setting that Flink's connector keeps and not the client, or its default."""
        return self.properties.get(name, OWN[name])

    def settings(self, producer: bool) -> dict[str, Any]:
        """The settings of a client, with the secrets. Raises OptionError OPT120, OPT121, OPT131, OPT132."""
        properties = {key.removeprefix(PREFIX): text for key, text in self._resolved_properties().items()}
        return {**_QUIET, "logger": _Log(self), **translated(properties, producer)}

    def _resolved_properties(self) -> dict[str, str]:
        return {
            PREFIX + name: text if name == LOGIN else resolve_references(text, PREFIX + name)
            for name, text in self.properties.items()
        }

    def without_secrets(self, text: str) -> str:
        """``text`` of a client without the secrets of the table, and with its references as written."""
        try:
            settings_in_use = self.settings(producer=False) | self._resolved_properties()
            secrets = {value for key, value in settings_in_use.items() if isinstance(value, str) and is_secret(key)}
            return without(unresolved(text, self.properties), secrets)
        except StateplanError:
            return text

    def consumer(self, complaints: Complaints, **more: Any) -> Consumer:
        """A new consumer that joins no group. ``more`` are settings of librdkafka, with ``_`` for ``.``."""
        kafka = require("kafka", "confluent_kafka", f"the connector '{self.connector}'")
        fixed_settings = {"enable.auto.commit": False, "enable.auto.offset.store": False, "error_cb": complaints}
        return self._make_client(
            kafka.Consumer, {**_DEFAULTS, **_dotted(more), **self.settings(producer=False), **fixed_settings}
        )

    def producer(self, complaints: Complaints, own: Mapping[str, Any], **more: Any) -> Producer:
        """A new producer. ``own`` are settings of librdkafka that the table may not override; ``more`` those that it
        may, with ``_`` for ``.``."""
        kafka = require("kafka", "confluent_kafka", f"the connector '{self.connector}'")
        own = {**own, "error_cb": complaints}
        return self._make_client(kafka.Producer, {**_dotted(more), **self.settings(producer=True), **own})

    def _make_client(self, kind: Callable[[dict[str, Any]], T], settings: dict[str, Any]) -> T:
        kafka = require("kafka", "confluent_kafka", f"the connector '{self.connector}'")
        _keep_memory()
        try:
            return kind(settings)
        except (kafka.KafkaException, ValueError, TypeError) as error:
            cause = error.args[0] if error.args else error
            reason = cause.str() if isinstance(cause, kafka.KafkaError) else str(error)
            raise OptionError("OPT132.client", reason=self.without_secrets(reason)) from None

    def ask(
        self,
        call: Callable[[float], T],
        poll: Callable[[], object],
        complaints: Complaints,
        wait: float,
        explain_missing: Callable[[], None] | None = None,
    ) -> T:
        """The answer to a call that takes a time-out in seconds; asked again while brokers are away.

        Args:
            call: to make.
            poll: lets the client report errors.
            complaints: of the client.
            wait: seconds after which it fails.
            explain_missing: called when a topic or partition does not exist, to make sure and to raise the error that
                says so: a client that lost its brokers says this too.

        Raises:
            RunError: RUN110 to RUN113, RUN118.
        """
        from confluent_kafka import KafkaException

        until = time.monotonic() + wait
        while True:
            left = until - time.monotonic()
            try:
                answer = call(max(0.1, min(_SLICE, left)))
            except KafkaException as error:
                poll()
                cause: KafkaError = error.args[0]
                is_missing = cause.name() in NO_TOPIC
                if is_missing and explain_missing is not None:
                    explain_missing()
                late = time.monotonic() >= until
                if (
                    complaints.final is not None
                    or late
                    or not (passes(cause) or (is_missing and explain_missing is not None))
                ):
                    raise self.error(cause, complaints, wait) from None
                time.sleep(min(0.1, max(0.0, left)))
                continue
            complaints.forget()
            return answer

    def error(
        self, cause: KafkaError, complaints: Complaints | None = None, wait: float | None = None, topic: str = ""
    ) -> RunError:
        """The coded error for one of a client: RUN110 to RUN113, RUN118.

        Args:
            cause: the error of the client.
            complaints: of the client; they may know the cause of a time-out.
            wait: for how many seconds the client waited.
            topic: the topic that it is about.
        """
        if complaints is not None and cause.name() in _NO_ANSWER and complaints.last is not None:
            cause = complaints.last
        name, reason = cause.name(), self.without_secrets(cause.str())
        run_error = partial(RunError, table=self.table, servers=self.servers)
        if _refuses(cause):
            return run_error("RUN111", reason=reason, problem="refuse the credentials")
        if name == "_SSL" or (name in _NO_ANSWER and _ALERT in reason):
            ours = _ALERT in reason and any(word in reason for word in _OF_CERTIFICATES)
            problem = "refuse the certificate of the client" if ours else "cannot be reached by TLS"
            return run_error("RUN111", problem=problem, reason=reason)
        if name in _NO_ANSWER and "SSL_HANDSHAKE" in reason:
            return run_error("RUN111", reason=reason, problem="do not speak TLS")
        if name in _RIGHTS:
            return run_error("RUN113", reason=reason)
        topic_match = _TOPIC_GONE.search(reason)
        if name in NO_TOPIC or topic_match is not None:
            return run_error("RUN112", topic=topic or (topic_match[1] if topic_match is not None else ""))
        if name in _NO_ANSWER or name in _CREDENTIALS:
            is_closed = name == "_ALL_BROKERS_DOWN" or any(words in reason for words in _CLOSED)
            key = "RUN110.closed" if is_closed else "RUN110"
            return run_error(key, reason=f": {reason}", seconds=wait or self.time_out)
        if name == "_BAD_MSG" or "APIVERSION_QUERY" in reason:
            return run_error("RUN110.strange", reason=reason)
        return run_error("RUN118", reason=reason)


def _keep_memory() -> None:
    """Makes glibc keep freed memory. Otherwise it returns memory to the system after each answer of a broker, and asks
    for it again for the next one. Other C libraries are left alone."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        for option, size in _MALLOC_LIMITS:
            ctypes.CDLL(None).mallopt(option, size)


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


@dataclass
class SharedConsumer:
    """A consumer of this process, which all who have the same settings use in turn.

    Attributes:
        consumer: the client.
        complaints: what it last said.
    """

    consumer: Consumer
    complaints: Complaints
    _topics: set[str] = field(default_factory=set)

    def assign(self, brokers: Brokers, offsets: Mapping[tuple[str, int], int]) -> None:
        """Begins to read partitions, given by topic and number, at offsets. Raises RunError RUN110, RUN111, RUN118."""
        from confluent_kafka import TopicPartition

        self.poll()
        self.complaints.forget()  # what it said while nobody read may be over
        for topic in {topic for topic, _ in offsets} - self._topics:
            self._locate(brokers, topic)
        self.consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])

    def _locate(self, brokers: Brokers, topic: str) -> None:
        """Makes the client look up the leaders of a topic's partitions. By itself, it does so only once in a second."""

        def ask(wait: float) -> object:
            return self.consumer.list_topics(topic, timeout=wait)

        brokers.ask(ask, self.poll, self.complaints, brokers.time_out)
        self._topics.add(topic)

    def poll(self) -> None:
        """Lets the client report errors while it reads nothing."""
        self.consumer.poll(0)


_shared_consumers: dict[tuple[tuple[object, ...], ...], SharedConsumer] = {}


def shared_consumer(brokers: Brokers, **more: Any) -> SharedConsumer:
    """The consumer of this process for some brokers, created when it is first requested; closed when the process
    ends."""
    key = (brokers.key, *sorted(more.items()))
    if key not in _shared_consumers:
        if not _shared_consumers:
            atexit.register(close_consumers)
        complaints = Complaints()
        _shared_consumers[key] = SharedConsumer(brokers.consumer(complaints, **more), complaints)
    return _shared_consumers[key]


def close_consumers() -> None:
    """Closes all consumers of this process; the next caller gets a new one."""
    for key in list(_shared_consumers):
        entry = _shared_consumers.pop(key)
        if key[0][0] == os.getpid():
            entry.consumer.close()


def forget_consumers(brokers: Brokers) -> None:
    """Leaves the consumers of this process for some brokers to those who use them; the next caller gets a new one."""
    for key in list(_shared_consumers):
        if key[0] == brokers.key:
            _shared_consumers.pop(key, None)
