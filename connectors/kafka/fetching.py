"""Fetching a range of offsets of a partition without an object for each message: the batches of its log are read as
they are on the wire.

It serves brokers that may be read without TLS and login, while the leader of the partition answers. Everything else is
left to the client, which reads on where this ends: errors of brokers, other leaders, batches of before Kafka 0.11. The
client also has the coded errors, so nothing is raised here.

Source: Kafka's protocol, ``Fetch`` version 4, which brokers since Kafka 0.11 know; for transactions
``CompletedFetch.consumeAbortedTransactionsUpTo`` of Java's client.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeAlias

from stateplan.connectors.formats.messages import Ints, Messages
from stateplan.connectors.kafka.batches import RecordBatch, Records, UnreadableError, batches_of

_FETCH, _VERSION = 1, 4
_MOST_BYTES = 1 << 22
"""Bytes of batches in an answer, about."""

_LEAST_BYTES = 64 << 10
_LARGEST = 100 << 20
"""Bytes of an answer at most: one batch comes whole, however large. As librdkafka's ``receive.message.max.bytes``."""

_GUESS = 512
"""Bytes of a message, before any has come."""

_SPARSE = 4
_MANY = 64
"""Where this many batches have fewer than ``_SPARSE`` messages each, the client is faster."""

_WAIT = 20
_PATIENCE = 2.0
_IDLE = 30.0
"""Brokers close connections that nobody uses. One that was not used for so long is made anew."""

_TOLD: Mapping[str, str] = {
    "key": "keys",
    "timestamp": "times",
    "timestamp-type": "time_types",
    "headers": "headers",
    "leader-epoch": "epochs",
}


Address: TypeAlias = tuple[str, int]
"""Host and port."""

Part: TypeAlias = tuple[Ints, Messages, dict[str, Any]]
"""Offsets and values of messages, and what else was wanted of them, by key."""


@dataclass
class Link:
    """A connection to a broker."""

    stream: socket.socket
    client_id: bytes
    asked: int = 0
    used: float = field(default_factory=time.monotonic)

    @staticmethod
    def to(address: Address, client_id: str) -> Link:
        """A new one. Raises OSError."""
        stream = socket.create_connection(address, timeout=_PATIENCE)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Link(stream, client_id.encode())

    def ask(self, topic: str, partition: int, offset: int, size: int, committed: bool) -> None:
        """Asks for about ``size`` bytes of a partition. Raises OSError."""
        self.asked += 1
        name, own = topic.encode(), self.client_id
        head = struct.pack(f">hhih{len(own)}s", _FETCH, _VERSION, self.asked, len(own), own)
        body = struct.pack(">iiiib", -1, _WAIT, 1, size, committed)
        body += struct.pack(f">ih{len(name)}siiqi", 1, len(name), name, 1, partition, offset, size)
        self.stream.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def answer(self, topic: str, partition: int) -> tuple[list[tuple[int, int]], memoryview]:
        """Producer and first offset of aborted transactions, and the bytes of batches.

        Raises:
            OSError: the connection is broken.
            UnreadableError: the broker says something else.
        """
        (size,) = struct.unpack(">i", self._read(4))
        if not 0 <= size <= _LARGEST:
            raise UnreadableError
        data, name = self._read(size), topic.encode()
        try:
            number, throttled, topics, length = struct.unpack_from(">iiih", data)
            found, partitions, place, error, _, _, aborted = struct.unpack_from(f">{len(name)}siihqqi", data, 14)
            if (number, throttled, topics, length) != (self.asked, 0, 1, len(name)) or found != name:
                raise UnreadableError
            if (partitions, place, error) != (1, partition, 0):
                raise UnreadableError
            at = 14 + length + 30
            gone = [struct.unpack_from(">qq", data, at + 16 * i) for i in range(aborted)]
            at += 16 * len(gone)
            (size,) = struct.unpack_from(">i", data, at)
        except struct.error as cause:
            raise UnreadableError from cause
        self.used = time.monotonic()
        return [(producer, first) for producer, first in gone], data[at + 4 :][: max(0, size)]

    def close(self) -> None:
        """Ends it."""
        self.stream.close()

    def __del__(self) -> None:
        """With a client that is given up, its connections end too."""
        self.stream.close()

    def _read(self, size: int) -> memoryview:
        data = memoryview(bytearray(size))
        got = 0
        while got < size:
            taken = self.stream.recv_into(data[got:])
            if not taken:
                raise ConnectionResetError
            got += taken
        return data


@dataclass
class Links:
    """Connections of a process to brokers, for fetching.

    Attributes:
        client_id: under which brokers know it.
        committed: whether messages of transactions that are not committed are left out.
    """

    client_id: str
    committed: bool
    _kept: dict[Address, list[Link]] = field(default_factory=dict)

    def take(self, address: Address) -> Link:
        """A connection that nobody else uses. Raises OSError."""
        kept = self._kept.get(address, [])
        while kept:
            link = kept.pop()
            if time.monotonic() - link.used < _IDLE:
                return link
            link.close()
        return Link.to(address, self.client_id)

    def give(self, address: Address, link: Link) -> None:
        """Keeps a connection of which no answer is awaited."""
        self._kept.setdefault(address, []).append(link)

    def close(self) -> None:
        """Closes all that are kept."""
        for link in [link for kept in self._kept.values() for link in kept]:
            link.close()
        self._kept.clear()


@dataclass
class Fetched:
    """A range that is being fetched.

    Attributes:
        links: of the process.
        leader: of the partition.
        at: the offset up to which it has been read.
        stop: the offset at which it ends.
        wanted: keys of what to tell of messages besides values.
        asked: whether all of it has been asked for, as far as sizes can be foreseen.
    """

    links: Links
    leader: Address
    topic: str
    partition: int
    at: int
    stop: int
    wanted: Collection[str]
    asked: bool = False
    _link: Link | None = None

    def begin(self) -> None:
        """Asks for the first messages, which come while others are decoded."""
        with contextlib.suppress(OSError):
            self._link = self.links.take(self.leader)
            self._ask(self._link, self.at, _GUESS)

    def close(self) -> None:
        """Gives up what is on its way."""
        if self._link is not None:
            self._link.close()

    def read(self) -> Iterator[Part]:
        """The messages from :attr:`at` on, in order, in parts of bounded size. They may end before :attr:`stop`."""
        if self._link is None:
            self.begin()
        try:
            if self._link is not None:
                yield from self._read(self._link)
                self.links.give(self.leader, self._link)
                self._link = None
        except (OSError, UnreadableError):
            return
        finally:
            self.close()

    def _read(self, link: Link) -> Iterator[Part]:
        while self.at < self.stop:
            aborted, data = link.answer(self.topic, self.partition)
            come = [batch for batch in batches_of(data) if batch.last >= self.at]
            if not come:
                raise UnreadableError  # the client finds out why nothing comes
            found = [batch for batch in come if batch.first < self.stop]
            # Where a batch behind the end has come, what is missing before it was compacted away.
            end = found[-1].last + 1 if len(found) == len(come) else self.stop
            sparse = len(found) > _MANY and sum(batch.count for batch in found) < _SPARSE * len(found)
            if end >= self.stop:
                self.asked = True
            elif not sparse:
                self._ask(link, end, len(data) / (end - self.at))  # on its way while this answer is decoded
            for batches in _in_parts(found if not self.links.committed else _committed(found, aborted)):
                records = Records.of(batches).between(self.at, self.stop)
                part = records.offsets, records.values, {key: getattr(records, _TOLD[key]) for key in self.wanted}
                self.at = batches[-1].last + 1  # not before all of it could be read
                if len(records):
                    yield part
            self.at = end
            if sparse and end < self.stop:
                raise UnreadableError

    def _ask(self, link: Link, offset: int, size: float) -> None:
        """Asks for the rest, whose messages have about ``size`` bytes each."""
        left = int(max(_LEAST_BYTES, 1.1 * size * (self.stop - offset)))
        link.ask(self.topic, self.partition, offset, min(_MOST_BYTES, left), self.links.committed)
        self.asked = left <= _MOST_BYTES


def _committed(batches: Iterable[RecordBatch], aborted: Iterable[tuple[int, int]]) -> Iterator[RecordBatch]:
    """The batches without those of aborted transactions, which are given by producer and first offset.

    Raises:
        UnreadableError: the end of a transaction cannot be read.
    """
    left = sorted(aborted, key=itemgetter(1), reverse=True)
    now: set[int] = set()
    for batch in batches:
        while left and left[-1][1] <= batch.last:
            now.add(left.pop()[0])
        if batch.control:
            if batch.aborts:
                now.discard(batch.producer)
        elif not (batch.transactional and batch.producer in now):
            yield batch


def _in_parts(batches: Iterable[RecordBatch]) -> Iterator[list[RecordBatch]]:
    """The batches that hold messages, without compression, in parts of bounded size. Raises UnreadableError."""
    some: list[RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.control or not batch.count:
            continue
        some.append(batch.expanded())
        size += len(some[-1].records)
        if size >= _MOST_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
