"""Reads the files in which RocksDB keeps the values of Spark's state store (``.sst``), without RocksDB.

A file is a list of blocks. The index block, whose place the footer says, has a key at or after the last one of every
block of data, and where the block is. Blocks of data hold keys and values in ascending order of the keys; each key
says how many of its bytes it has in common with the one before. Behind a key are eight bytes: a sequence number, and
whether it is a value or a deletion. Of several files, the entry with the largest number decides.

Source: RocksDB's ``BlockBasedTable``, ``Footer`` and ``BlockBuilder``, format versions 2 to 5.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

import pyarrow as pa

Buffer: TypeAlias = "bytes | memoryview"

_MAGIC = (0x88E241B785F4CFF7).to_bytes(8, "little")
_FOOTER = 53
_TRAILER = 5
"""Bytes behind a block: how it is compressed, and its checksum."""
_VERSIONS = range(2, 6)
_CODECS = {4: "lz4_raw", 5: "lz4_raw", 7: "zstd"}
"""RocksDB's number of a compression to Arrow's name. In front of such a block is how long it is without it."""
_SNAPPY = 1
_DELETIONS = (0, 7)
_VALUE = 1


class StoreFileError(ValueError):
    """A file of Spark's state store is damaged, or written in a way that is not known here."""


class Entry(NamedTuple):
    """An entry of a file.

    Attributes:
        key: its key.
        number: of two entries with the same key, the one with the larger number is newer.
        value: its value; None for a deletion.
    """

    key: bytes
    number: int
    value: memoryview | None


class SortedTable:
    """A file of RocksDB.

    Args:
        data: its bytes; a file that is mapped into memory is read where it is needed.

    Raises:
        StoreFileError: it is not such a file.
    """

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data)
        footer = self._data[-_FOOTER:]
        if len(footer) < _FOOTER or bytes(footer[-8:]) != _MAGIC:
            raise StoreFileError("it is no table of RocksDB")
        version = int.from_bytes(footer[-12:-8], "little")
        if version not in _VERSIONS:
            raise StoreFileError(f"it is a table of RocksDB of the unknown version {version}")
        self._footer = footer

    @cached_property
    def _index(self) -> tuple[list[bytes], list[tuple[int, int]]]:
        """Of each block of data, a key at or after its last one; and where it is, and how long."""
        _, at = _varint(self._footer, 1)
        _, at = _varint(self._footer, at)
        offset, at = _varint(self._footer, at)
        size, _ = _varint(self._footer, at)
        keys: list[bytes] = []
        places: list[tuple[int, int]] = []
        block, end = self._block(offset, size)
        at, key = 0, b""
        while at < end:
            prefix, at = _varint(block, at)
            length, at = _varint(block, at)
            key = key[:prefix] + bytes(block[at : at + length])
            at += length
            if prefix:  # only the size, as a difference from the size of the block before
                change, at = _varint(block, at)
                before = places[-1]
                places.append((sum(before) + _TRAILER, before[1] + (change >> 1 ^ -(change & 1))))
            else:
                offset, at = _varint(block, at)
                size, at = _varint(block, at)
                places.append((offset, size))
            keys.append(key)
        return keys, places

    def _block(self, offset: int, size: int) -> tuple[memoryview, int]:
        """A block, and where its entries end."""
        if offset + size + _TRAILER > len(self._data):
            raise StoreFileError("it ends too early")
        kind = self._data[offset + size]
        block = memoryview(_decompress(kind, self._data[offset : offset + size]))
        restarts = int.from_bytes(block[-4:], "little")
        if restarts >> 31:
            raise StoreFileError("it has blocks with an index of hashes")
        end = len(block) - 4 * (restarts + 1)
        if end < 0:
            raise StoreFileError("a block of it is damaged")
        return block, end

    def scan(self, low: bytes, high: bytes) -> Iterator[Entry]:
        """The entries with keys from ``low`` to before ``high``.

        Raises:
            StoreFileError: the file is damaged, or has entries of another kind.
        """
        try:
            yield from self._scan(low, high)
        except (IndexError, OverflowError, pa.ArrowInvalid, OSError) as cause:
            raise StoreFileError(f"a block of it is damaged ({str(cause)[:100]})") from cause

    def _scan(self, low: bytes, high: bytes) -> Iterator[Entry]:
        keys, places = self._index
        for number in range(bisect_left(keys, low), len(keys)):
            block, end = self._block(*places[number])
            at, key = 0, b""
            while at < end:
                prefix, at = _varint(block, at)
                length, at = _varint(block, at)
                size, at = _varint(block, at)
                key = key[:prefix] + bytes(block[at : at + length])
                at += length
                own_key = key[:-8]
                if own_key >= high:
                    return
                if own_key >= low:
                    yield _entry(key, block[at : at + size])
                at += size


def _entry(key: bytes, value: memoryview) -> Entry:
    tag = int.from_bytes(key[-8:], "little")
    kind = tag & 0xFF
    if kind in _DELETIONS:
        return Entry(key[:-8], tag >> 8, None)
    if kind != _VALUE:
        raise StoreFileError(f"it has entries of the unknown kind {kind}")
    return Entry(key[:-8], tag >> 8, value)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, and where it ends."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    out, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        out |= (byte & 0x7F) << shift
        shift += 7
    return out, at + 1


def _decompress(kind: int, data: memoryview) -> Buffer:
    if kind == 0:
        return data
    size, at = _varint(data, 0)
    if kind == _SNAPPY:
        return bytes(pa.Codec("snappy").decompress(data, size, asbytes=True))
    if kind not in _CODECS:
        raise StoreFileError(f"it is compressed by the unknown method {kind}")
    return bytes(pa.Codec(_CODECS[kind]).decompress(data[at:], size, asbytes=True))
