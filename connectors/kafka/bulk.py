"""Many messages in one call of librdkafka, without an object of Python for each.

confluent-kafka takes one message per call. librdkafka also takes an array of them (``rd_kafka_produce_batch``), and the
client has loaded its library. Only the client's handle is missing. It is a pointer, the first field of the producer's
object. The field behind it proves that: it must be the callback that the producer was made with.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

_COPY = 0x2
_POINTER = ctypes.sizeof(ctypes.c_void_p)


@dataclass(frozen=True)
class Bulk:
    """Hands messages of a producer to librdkafka.

    Attributes:
        client: the producer, which lives as long as this.
    """

    client: Any
    _library: Any
    _handle: int

    @staticmethod
    def of(client: Any, error_cb: object) -> Bulk | None:
        """For a producer of confluent-kafka; None where librdkafka cannot be reached through it.

        Args:
            client: the producer.
            error_cb: that it was made with.
        """
        head = object.__basicsize__
        if sys.implementation.name != "cpython" or type(client).__basicsize__ < head + 2 * _POINTER:
            return None
        handle, callback = (ctypes.c_void_p * 2).from_address(id(client) + head)
        if not handle or callback != id(error_cb):
            return None
        try:
            from confluent_kafka import cimpl

            library = ctypes.CDLL(cimpl.__file__)
            library.rd_kafka_topic_new.restype = ctypes.c_void_p
            library.rd_kafka_topic_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            library.rd_kafka_topic_destroy.argtypes = [ctypes.c_void_p]
            library.rd_kafka_produce_batch.argtypes = [
                ctypes.c_void_p,
                ctypes.c_int32,
                ctypes.c_int,
                ctypes.c_void_p,
                ctypes.c_int,
            ]
        except (ImportError, OSError, AttributeError):
            return None
        return Bulk(client, library, handle)

    def hand_over(self, topic: str, keys: pl.Series, values: pl.Series, partition: int) -> NDArray[np.intp]:
        """Puts messages into the queue of the client, in order. No report says what becomes of them; a transaction
        does not commit when one is not delivered.

        Args:
            topic: to which they go.
            keys: Binary; NULL for a message without.
            values: Binary, as many; NULL for a tombstone.
            partition: of all; -1 lets the client choose that of each.

        Returns:
            Positions of those that librdkafka did not take: its queue is full, or it refuses them.
        """
        import numpy as np

        message = np.dtype(
            [
                *(("err", np.int32), ("topic", np.uintp), ("partition", np.int32)),
                *(("payload", np.uintp), ("len", np.uintp), ("key", np.uintp), ("key_len", np.uintp)),
                *(("offset", np.int64), ("private", np.uintp)),
            ],
            align=True,
        )  # rd_kafka_message_t
        made = np.zeros(len(values), message)
        held = [_placed(made, values, "payload", "len"), _placed(made, keys, "key", "key_len")]
        topic_handle = self._library.rd_kafka_topic_new(self._handle, topic.encode(), None)
        if not topic_handle:
            return np.arange(len(made))
        try:
            self._library.rd_kafka_produce_batch(topic_handle, partition, _COPY, made.ctypes.data, len(made))
        finally:
            self._library.rd_kafka_topic_destroy(topic_handle)
        del held  # the bytes are copied
        return np.flatnonzero(made["err"])


def _placed(made: NDArray[Any], data: pl.Series, address: str, size: str) -> object:
    """Notes where the bytes of each row are, and how many; nothing for NULL.

    Returns:
        What holds the bytes.
    """
    import numpy as np
    import polars as pl

    if data.null_count() == len(data):
        return None
    array = data.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, ends, joined = array.buffers()
    places = np.frombuffer(ends, np.int64, count=len(array) + 1, offset=8 * array.offset)
    made[address] = places[:-1] + (joined.address if joined is not None else ends.address)
    made[size] = np.diff(places)
    if data.null_count():
        gone = data.is_null().to_numpy()
        made[address][gone] = 0
        made[size][gone] = 0
    return array
