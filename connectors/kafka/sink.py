"""Writing Kafka topics.

With ``at-least-once`` and ``none`` workers send the messages of their rows, and wait until the brokers have them.

With ``exactly-once`` workers only make the messages, and the driver sends all of a micro-batch in one transaction. It
also notes the epoch there, as an offset of a consumer group of its own, so that a micro-batch that runs again after its
commit is omitted.

Source: Flink's ``KafkaDynamicSink`` and ``KafkaSinkBuilder``. Flink has a transaction for each writer and checkpoint
instead, and resumes them after a failure.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import polars as pl
import pyarrow as pa

from stateplan.common.errors import OptionError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.kafka.client import Brokers
from stateplan.connectors.kafka.encode import RowEncoder
from stateplan.connectors.kafka.partitioner import Partitioner
from stateplan.connectors.kafka.producer import forget, give_up, shared_outbox
from stateplan.connectors.kafka.tables import check_sink, topics_of
from stateplan.connectors.kafka.transactions import Transactions
from stateplan.connectors.protocol import Sink, SinkTable

_HEAD = struct.Struct("<i")


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Sends messages from workers.

    Attributes:
        brokers: where to.
        rows: makes the messages.
        topic: the topic of all messages; None where each row says it.
        partitioner: which partition of it.
        topics: names of the topics, of which a row chooses one; empty with ``pattern``.
        pattern: the pattern that the topics match.
    """

    brokers: Brokers
    rows: RowEncoder
    topic: str | None
    partitioner: Partitioner
    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @staticmethod
    def of(table: SinkTable, upsert: bool) -> Sink:
        """The sink of a table.

        Args:
            table: the table that is written.
            upsert: whether its rows have a key, of which a message says what the row is now.

        Raises:
            OptionError: as :func:`check_sink`; OPT140, OPT144.
        """
        check_sink(table.options)
        topics, pattern = topics_of(table.options), table.options.get("topic-pattern")
        topic = topics[0] if len(topics) == 1 else None
        if topic is None and "topic" not in dict(table.metadata):
            raise OptionError("OPT144")
        rows = RowEncoder.of(table, upsert, topics, pattern)
        partitioner = Partitioner("default" if upsert else table.value("sink.partitioner"))
        brokers = Brokers.of(table)
        if table.value("sink.delivery-guarantee") != "exactly-once":
            return KafkaSink(brokers, rows, topic, partitioner, topics, pattern)
        name = f"{table.value('sink.transactional-id-prefix')}-{table.uid}"
        return TransactionalSink(brokers, rows, topic, partitioner, topics, pattern, name)

    def prepare(self, epoch: int) -> None:
        """Looks whether the topics are there. Raises the same errors as :meth:`Outbox.partitions`."""
        outbox = shared_outbox(self.brokers)
        try:
            for topic in self.topics:
                outbox.partitions(topic)
        except StateplanError:
            forget(self.brokers)  # it would log in again and again, with the password that it was made with
            raise

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        messages = self.rows.messages(frame)
        outbox = shared_outbox(self.brokers)
        try:
            outbox.send(messages, self.topic, self.partitioner, _writer(), int(part[:8], 16))
            outbox.flush()
        except BaseException:
            give_up(self.brokers)
            raise
        return b""

    def close(self) -> None:
        forget(self.brokers)


@dataclass(frozen=True)
class TransactionalSink(KafkaSink):
    """Sends all messages of a micro-batch from the driver, in a transaction.

    Attributes:
        name: the name of the transactions, and of the group that has the epochs.
    """

    name: str = ""
    _open: list[Transactions] = field(default_factory=list, repr=False, compare=False)
    _looked: list[int] = field(default_factory=list, repr=False, compare=False)
    keeps_order = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": []}

    def prepare(self, epoch: int) -> None:
        """Looks whether the topics are there. What an earlier run has left open is ended while the workers work."""
        self._transactions().begin()

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        table = self.rows.messages(frame).to_arrow(compat_level=pl.CompatLevel.oldest())
        out = io.BytesIO()
        out.write(_HEAD.pack(_writer()))
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
        return out.getvalue()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        def decoded() -> Iterator[tuple[int, pl.DataFrame]]:
            for part in parts:
                stream = pa.ipc.open_stream(memoryview(part)[_HEAD.size :])
                yield _HEAD.unpack_from(part)[0], pl.DataFrame(stream.read_all())

        if parts:
            self._transactions().commit(decoded, epoch, self.ledger)
        elif not self._looked:
            self._transactions().is_done(self.ledger, epoch)
        self._looked.append(epoch)
        del self._looked[:-1]

    def release(self) -> None:
        for transactions in self._open:
            transactions.should_stop = True

    def close(self) -> None:
        while self._open:
            self._open.pop().close()

    def _transactions(self) -> Transactions:
        if not self._open:
            target = (self.topic, self.topics, self.pattern)
            self._open.append(Transactions(self.brokers, self.name, *target, self.partitioner, self.rows.upsert))
        return self._open[0]


def _writer() -> int:
    """The number of the task that writes, which is the same in each micro-batch."""
    spark = sys.modules.get("pyspark")
    task = spark.TaskContext.get() if spark is not None else None
    return 0 if task is None else int(task.partitionId())
