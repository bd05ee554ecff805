"""The messages of a micro-batch in one transaction of Kafka, with the epoch of the micro-batch.

The epoch is an offset that a consumer group, which only this sink uses, commits for the first partition of a topic of
the sink: the transaction makes it visible together with the messages. Whoever starts with the same transactional id
ends what an earlier run left open, and reads the epoch.

Source: Kafka's KIP-98 (transactions) and KIP-447 (``sendOffsetsToTransaction``).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.kafka.client import Brokers, Complaints
from stateplan.connectors.kafka.encode import TOPIC
from stateplan.connectors.kafka.partitioner import Partitioner
from stateplan.connectors.kafka.producer import LATE, Outbox
from stateplan.connectors.sink_epochs import (
    EpochOrder,
    Ledger,
    Mark,
    is_of_other_checkpoint,
    refusal,
    written_before,
)

if TYPE_CHECKING:
    import polars as pl
    from confluent_kafka import KafkaError

LIMIT = 900_000
"""After how many milliseconds brokers abort a transaction, where the table says nothing else: the most that they allow
unless configured otherwise."""

_ATTEMPTS = 3
_SLICE = 2.0
_ABORT = 5.0

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_NO_TRANSACTIONS = frozenset(
    {"_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "TRANSACTIONAL_ID_NOT_FOUND"}
)
_RETRIABLE = frozenset({"_TIMED_OUT", "_TRANSPORT", "_WAIT_COORD", "_IN_PROGRESS", "_ALL_BROKERS_DOWN"})

Part = tuple[int, "pl.DataFrame"]
"""Number of the task that made some messages, and the messages."""


@dataclass
class Transactions:
    """The transactions of a sink, one after another.

    Attributes:
        brokers: the brokers of the table.
        name: transactional id, and name of the group that has the epoch.
        topic: the topic of all messages; None where each says it.
        topics: the topics of the sink; empty with ``pattern``.
        pattern: the pattern that the topics match.
        partitioner: which partition messages go to.
        has_keys: whether a message says what the row with its key is now.
        should_stop: whether the job is being stopped, so that nothing may wait any longer.
    """

    brokers: Brokers
    name: str
    topic: str | None
    topics: tuple[str, ...]
    pattern: str | None
    partitioner: Partitioner
    has_keys: bool = False
    should_stop: bool = False
    _outbox: Outbox | None = None
    _coming: Future[Outbox] | None = None
    _group: Any = None
    _last_mark: Mark | None = None
    _begun: float = field(default=0.0)

    def begin(self) -> None:
        """If there is no producer: makes one, looks whether the topics are there, and begins in the background to end
        what an earlier run left open.

        Raises:
            RunError: RUN110 to RUN113, RUN118.
        """
        if self._outbox is not None or self._coming is not None:
            return
        settings = self.brokers.settings(producer=True)
        own_settings: dict[str, Any] = (
            {"transaction.timeout.ms": LIMIT} if "transaction.timeout.ms" not in settings else {}
        )
        own_settings |= {"transactional.id": self.name, "enable.idempotence": True}
        outbox = Outbox.of(self.brokers, own_settings, lambda: self.should_stop)
        try:
            for topic in self.topics:
                outbox.partitions(topic)
        except BaseException:
            outbox.close()
            raise
        coming = self._coming = Future[Outbox]()

        def run() -> None:
            try:
                coming.set_result(self._initialised(outbox))
            except BaseException as error:
                outbox.close()
                coming.set_exception(error)

        threading.Thread(target=run, name="stateplan-transactions", daemon=True).start()

    def ready(self) -> Outbox:
        """The producer, when all that :meth:`begin` began is done, and the epoch is known.

        Raises:
            RunError: RUN110 to RUN113, RUN118, RUN131, RUN133.
        """
        if self._outbox is None:
            self.begin()
            coming, self._coming = self._coming, None
            assert coming is not None
            self._outbox = coming.result()
        return self._outbox

    def _initialised(self, outbox: Outbox) -> Outbox:
        from confluent_kafka import KafkaException

        self._begun = time.monotonic()
        outbox.connect()
        try:
            self._call(outbox, outbox.client.init_transactions)
        except KafkaException as error:
            raise self._coded(outbox, error.args[0]) from None
        self._last_mark = self._last(outbox)
        return outbox

    def _last(self, outbox: Outbox) -> Mark | None:
        """The last micro-batch that was committed; None for none."""
        from confluent_kafka import TopicPartition

        # An offset that a transaction is about to commit is waited for, and not read as missing.
        own = {**self.brokers.properties, "group.id": self.name, "isolation.level": "read_committed"}
        brokers, complaints = replace(self.brokers, properties=own), Complaints()
        consumer = brokers.consumer(complaints)
        try:
            self._group = consumer.consumer_group_metadata()
            names = self.topics or [t for t in outbox.topics() if re.fullmatch(self.pattern or "", t)]
            questions = [TopicPartition(name, 0) for name in names]
            wait = self.brokers.time_out
            if not questions:
                return None
            answers = brokers.ask(
                lambda s: consumer.committed(questions, timeout=s), lambda: consumer.poll(0), complaints, wait
            )
        finally:
            consumer.close()
        for answer in answers:
            if answer.error is not None:
                raise self.brokers.error(answer.error, complaints, topic=answer.topic)
        last = max(answers, key=lambda answer: int(answer.offset))
        return Mark(last.offset - 1, last.metadata or "") if last.offset > 0 else None

    def is_done(self, ledger: Ledger, epoch: int) -> bool:
        """Whether a micro-batch is committed.

        Raises:
            StateplanError: as :meth:`ready`; RUN002, the brokers have other micro-batches than the checkpoint.
        """
        self.ready()
        last_mark, expected_epoch = self._last_mark, ledger.expected(self.name)
        if not ledger.input:  # nobody knows what the micro-batch reads: only its number identifies it
            return last_mark is not None and epoch <= last_mark.epoch

        def refuse(order: EpochOrder) -> StateplanError | None:
            # Brokers forget the offsets of a group that has been idle for long.
            return (
                None
                if order is EpochOrder.NO_EPOCHS
                else refusal(order, f"table {self.brokers.table}", last_mark, epoch, expected_epoch)
            )

        return ledger.is_done(epoch, last_mark, self.name, refuse, self._others)

    def _others(self) -> str | None:
        """The note for the user if the brokers have a group of the same statement with another checkpoint. They name
        the groups that the user may see."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        complaints, wait = Complaints(), self.brokers.time_out
        admin = AdminClient({**self.brokers.settings(producer=False), "error_cb": complaints})
        try:
            groups = admin.list_consumer_groups(request_timeout=wait).result().valid
        except KafkaException:
            return None
        if not any(is_of_other_checkpoint(group.group_id, self.name) for group in groups):
            return None
        return written_before(f"table {self.brokers.table}", self.has_keys)

    def commit(self, parts: Callable[[], Iterable[Part]], epoch: int, ledger: Ledger) -> None:
        """Sends the messages of a micro-batch in a transaction; nothing if it is committed.

        Args:
            parts: returns them, in order, as often as it is asked.
            epoch: the epoch of the micro-batch.
            ledger: the ledger of the sink.

        Raises:
            StateplanError: as :meth:`Outbox.flush` and :meth:`is_done`; RUN131, RUN132, RUN134.
        """
        from confluent_kafka import KafkaException

        for attempt in range(1, _ATTEMPTS + 1):
            if self.is_done(ledger, epoch):
                return
            outbox = self.ready()
            try:
                self._transaction(outbox, parts(), ledger.hand(epoch))
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                abort_error = self._abort(outbox, keep=not cause.fatal() and cause.name() not in _RETRIABLE)
                failure = self._coded(outbox, cause)
                if abort_error is not None and abort_error.fatal():  # such as that another producer has taken over
                    failure = self._coded(outbox, abort_error)
                if failure.code != "RUN134" or attempt == _ATTEMPTS or self.should_stop:
                    raise failure from None
            except BaseException as error:
                away = isinstance(error, RunError) and error.code in ("RUN110", "RUN130")
                self._abort(outbox, keep=not away)
                raise
            else:
                self._last_mark = ledger.hand(epoch)
                ledger.note(self.name, epoch)
                return

    def _transaction(self, outbox: Outbox, parts: Iterable[Part], hand: Mark) -> None:
        from confluent_kafka import TopicPartition

        outbox.failed.clear()
        outbox.client.begin_transaction()
        self._begun = time.monotonic()
        row_count, marked_topic = 0, self.topic or ""
        for writer, messages in parts:
            outbox.send(messages, self.topic, self.partitioner, writer, row_count)
            row_count += messages.height
            marked_topic = marked_topic or (messages[TOPIC][0] if messages.height else "")
        outbox.flush()
        if marked_topic:
            mark = [TopicPartition(marked_topic, 0, hand.epoch + 1, hand.input)]
            self._call(outbox, lambda s: outbox.client.send_offsets_to_transaction(mark, self._group, s))
        self._call(outbox, outbox.client.commit_transaction)

    def _call(self, outbox: Outbox, call: Callable[[float], object]) -> None:
        """Makes a call that takes a time-out in seconds, again where its answer is late. Raises KafkaException."""
        from confluent_kafka import KafkaException

        until = time.monotonic() + self.brokers.time_out
        while True:
            try:
                outbox.served(lambda: call(_SLICE))
            except KafkaException as error:
                outbox.poll()
                cause: KafkaError = error.args[0]
                may_retry = (cause.retriable() or cause.name() in _RETRIABLE) and not cause.txn_requires_abort()
                if not may_retry or self.should_stop or outbox.complaints.final or time.monotonic() > until:
                    raise
                time.sleep(0.05)
                continue
            outbox.complaints.forget()
            return

    def _coded(self, outbox: Outbox, cause: KafkaError) -> StateplanError:
        name, limit = cause.name(), outbox.transaction_seconds
        table, servers = self.brokers.table, self.brokers.servers
        reason = self.brokers.without_secrets(cause.str())
        if outbox.failed and not cause.fatal():
            delivery_error = outbox.undelivered()
            if isinstance(delivery_error, StateplanError):
                return delivery_error
        if name in LATE and cause.txn_requires_abort():
            return outbox.late(self.topic or "")
        if name in _FENCED:
            elapsed = time.monotonic() - self._begun
            if elapsed >= limit:
                return RunError("RUN132", seconds=elapsed, limit=limit, table=table)
            return RunError("RUN131", id=self.name, table=table)
        if name == "INVALID_TRANSACTION_TIMEOUT":
            return RunError("RUN133", limit=int(1000 * limit), reason=reason, table=table)
        if name in _NO_TRANSACTIONS:
            return RunError("RUN133.unknown", reason=reason, table=table, servers=servers)
        coded_error = self.brokers.error(cause, outbox.complaints, self.brokers.time_out, self.topic or "")
        if coded_error.code != "RUN118":
            return coded_error
        return RunError("RUN134", reason=reason, table=table, servers=servers)

    def _abort(self, outbox: Outbox, keep: bool) -> KafkaError | None:
        """Aborts the transaction, and waits for the reports of its messages, of which one may be the cause. A producer
        that cannot continue, or whose fate is not known, is discarded: the next one aborts what it has left open, or
        finds out that it was committed.

        Args:
            outbox: the producer.
            keep: whether it may continue.

        Returns:
            Why it cannot be aborted.
        """
        from confluent_kafka import KafkaException

        abort_error: KafkaError | None = None
        if keep:
            try:
                outbox.served(lambda: outbox.client.abort_transaction(_ABORT))
                outbox.poll()
                return None
            except KafkaException as error:
                abort_error = error.args[0]
        self.close()
        return abort_error

    def close(self) -> None:
        """Discards the producer."""
        outbox, self._outbox = self._outbox, None
        if outbox is not None:
            outbox.close()
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.add_done_callback(_closed)


def _closed(coming: Future[Outbox]) -> None:
    """Discards a producer that is still being created."""
    if coming.exception() is None:
        coming.result().close()
