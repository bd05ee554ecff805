"""A Kafka broker for tests, from the package ``noida-db``: one in each test process, with topics for each test.

It speaks Kafka's protocol: transactions, groups, idempotence, offsets by time. It does not compact topics, and has
neither TLS nor SASL.
"""

from __future__ import annotations

import itertools
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.support.waiting import until

SILENT = {"log_level": 0}
_NUMBERS = itertools.count()

Data: TypeAlias = bytes | str | None

# The broker ends with the process that started it, however that ends.
_LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))
os.execv(sys.argv[1], sys.argv[1:])
"""


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Kafka:
    """A broker.

    Attributes:
        folder: with its data.
        port: on this machine.
    """

    folder: Path
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None
    _admin: AdminClient | None = None
    _producer: Producer | None = None

    @property
    def servers(self) -> str:
        """What tables have as ``properties.bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    def json_table(self, topic: str) -> dict[str, str]:
        """The options of a table over a topic, from its first message."""
        return {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": self.servers,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
        }

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        package = find_spec("noida_db")
        assert package is not None and package.origin is not None
        program = Path(package.origin).with_name("noida-db")
        command = [
            str(program),
            "start",
            "--data-dir",
            str(self.folder),
            "--only",
            "kafka",
            "--kafka-port",
            str(self.port),
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self.stop()
                    raise
                time.sleep(0.05)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stops it. Its data stays."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Within the block it holds its connections and does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @property
    def admin(self) -> AdminClient:
        """Creates and deletes topics."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.servers, **SILENT})
        return self._admin

    def topic(self, partitions: int = 1, name: str | None = None, config: dict[str, str] | None = None) -> str:
        """A new topic, with settings of its own."""
        name = name or f"topic{next(_NUMBERS)}"
        made = NewTopic(name, partitions, 1, config=config or {})
        for future in self.admin.create_topics([made], request_timeout=10).values():
            future.result(10)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        """Gives a topic more partitions: then it has ``total``."""
        self._producer = None  # it remembers how many there were
        for future in self.admin.create_partitions([NewPartitions(topic, total)], request_timeout=10).values():
            future.result(10)

    def delete(self, topic: str) -> None:
        """Deletes a topic."""
        self._producer = None
        for future in self.admin.delete_topics([topic], request_timeout=10).values():
            future.result(10)

    def cut(self, topic: str, partition: int, offset: int) -> None:
        """Removes the messages before an offset, as a topic's retention does."""
        for future in self.admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            future.result(10)

    def produce(
        self,
        topic: str,
        values: Sequence[Data],
        *,
        keys: Sequence[Data] | None = None,
        partition: int = 0,
        timestamps: Sequence[int] | None = None,
        headers: list[tuple[str, Data]] | None = None,
    ) -> None:
        """Appends messages to a partition."""
        if self._producer is None:
            self._producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 1, **SILENT})
        more: dict[str, Any] = {} if headers is None else {"headers": headers}
        failed: list[object] = []
        for i, value in enumerate(values):
            stamp = {} if timestamps is None else {"timestamp": timestamps[i]}
            key = None if keys is None else keys[i]
            self._producer.produce(
                topic,
                value,
                key,
                partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
                **stamp,
                **more,
            )
            if i % 10_000 == 9_999:
                self._producer.poll(0)
        assert self._producer.flush(20) == 0
        assert not failed, failed[0]

    @contextmanager
    def transaction(self, commit: bool = True) -> Iterator[Producer]:
        """A transaction, which is committed in the end, or aborted."""
        name = f"transaction{next(_NUMBERS)}"
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": name, **SILENT})
        producer.init_transactions(10)
        producer.begin_transaction()
        yield producer
        producer.flush(10)
        if commit:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)

    def _ends(self, topic: str, isolation: str) -> dict[int, int]:
        """By partition, the offset up to which messages can be read."""
        partitions = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        questions = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
        level = IsolationLevel[isolation.upper()]
        answers = self.admin.list_offsets(questions, isolation_level=level, request_timeout=10)
        return {question.partition: answer.result(10).offset for question, answer in answers.items()}

    def consume(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """All messages that a topic has now, by partition and offset.

        A broker may answer that a transaction is committed a moment before consumers see its messages. So this waits
        up to 2 s while a transaction is open.
        """
        if isolation == "read_committed":
            with suppress(AssertionError):
                until(lambda: self._ends(topic, isolation) == self._ends(topic, "read_uncommitted"), 2)
        settings: Mapping[str, Any] = {
            "bootstrap.servers": self.servers,
            "group.id": "test",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,
            **SILENT,
        }
        out: list[Message] = []
        with closing(Consumer(dict(settings))) as consumer:
            left = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
            deadline = time.monotonic() + 20
            while left:
                assert time.monotonic() < deadline, f"partitions {left} of {topic} cannot be read"
                for message in consumer.consume(10_000, 0.02):
                    error = message.error()
                    if error is None:
                        out.append(message)
                    elif error.name() == "_PARTITION_EOF":
                        left.discard(message.partition())
                    else:
                        raise KafkaException(error)
        return sorted(out, key=lambda m: (m.partition(), m.offset()))


@contextmanager
def running() -> Iterator[Kafka]:
    """A broker that runs."""
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        broker = Kafka(Path(folder))
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()
