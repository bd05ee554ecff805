"""Which partition a message goes to, and an order in which librdkafka takes messages fast.

Messages are spread over the partitions as by Kafka's own producer (the murmur2 hash of the key), by writer, or in turn.
Source: Flink's ``KafkaConnectorOptionsUtil.getFlinkKafkaPartitioner``, Kafka's ``Utils.murmur2``.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stateplan.common.lazy_dataclass import dataclass

_ANY = -1
_SEED, _FACTOR = 0x9747B28C, 0x5BD1E995
_LONGEST = 1024


@dataclass(frozen=True)
class Partitioner:
    """Which partition a message goes to.

    Attributes:
        kind: ``default``, ``fixed`` or ``round-robin``.
    """

    kind: str = "default"

    def choose(self, messages: int, partitions: int, writer: int, first: int) -> NDArray[np.int32]:
        """The partition of each of some messages.

        Args:
            messages: how many.
            partitions: how many the topic has.
            writer: number of the task that writes.
            first: how many messages arrived before.
        """
        if self.kind == "round-robin":
            return np.arange(first, first + messages).astype(np.int32) % partitions
        return np.full(messages, writer % partitions if self.kind == "fixed" else _ANY, np.int32)


def side_by_side(keys: pl.Series, partitions: int) -> NDArray[np.intp]:
    """An order of messages in which those of a partition are together, as they arrived.

    The client still chooses the partition of each. It takes half the time for messages that come in this order. Those
    of a key keep their order, whatever the number of partitions is by then.

    Args:
        keys: Binary; NULL for messages without.
        partitions: how many the topic has.

    Returns:
        Their positions.
    """
    partition_of_key = (murmur2(keys.fill_null(b"")) & 0x7FFFFFFF) % partitions
    return np.argsort(partition_of_key.astype(np.min_scalar_type(partitions)), kind="stable")


def murmur2(data: pl.Series) -> NDArray[np.uint32]:
    """Kafka's hash of values of bytes, of the first 1,024 of each.

    Args:
        data: Binary, without NULL.
    """
    array = data.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, ends, data_buffer = array.buffers()
    places = np.frombuffer(ends, np.int64, count=len(array) + 1, offset=8 * array.offset)
    octets = np.frombuffer(data_buffer or b"", np.uint8)
    words = np.ndarray(max(len(octets) - 3, 0), "<u4", octets, strides=1)
    at, size = places[:-1], np.minimum(np.diff(places), _LONGEST)
    factor = np.uint32(_FACTOR)
    hashes = np.uint32(_SEED) ^ size.astype(np.uint32)
    rows = np.arange(len(array))
    for start in range(0, int(size.max(initial=0)) - 3, 4):
        rows = rows[size[rows] >= start + 4]
        word = words[at[rows] + start] * factor
        word ^= word >> np.uint32(24)
        hashes[rows] = hashes[rows] * factor ^ word * factor
    rest = size % 4
    for place in range(3):
        rows = np.flatnonzero(rest > place)
        octet = octets[at[rows] + size[rows] - rest[rows] + place].astype(np.uint32)
        hashes[rows] ^= octet << np.uint32(8 * place)
    hashes[rest > 0] *= factor
    hashes ^= hashes >> np.uint32(13)
    hashes *= factor
    return hashes ^ hashes >> np.uint32(15)
