"""Reads a changelog of a partition of Spark's state store: what a micro-batch put and removed.

Values can be large, and most questions need few of them. So a value is decompressed when it is read: a changelog of LZ4
consists of blocks, each of which says how long it is.

Source: Spark's ``StateStoreChangelogReader`` (v2 to v4), lz4-java's ``LZ4BlockInputStream``.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from stateplan.common.files import rooted_path
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.runtime.spark.store_snapshot import StoreFileError

_LZ4, _ZSTD = b"LZ4Block", b"\x28\xb5\x2f\xfd"
_LZ4_HEAD = 21
_LZ4_PLAIN = 0x10
_END, _PUT, _DELETE = 0x00, 0x01, 0x10
_VERSIONS = ("v2", "v3", "v4")
_WITH_LINEAGE = ("v3", "v4")


class _Content(Protocol):
    """The content of a file that Spark has compressed."""

    size: int

    def read(self, at: int, size: int) -> memoryview:
        """Bytes of it. Raises StoreFileError."""
        ...


class _PlainContent:
    """Content that is decompressed as a whole."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.size = len(data)

    def read(self, at: int, size: int) -> memoryview:
        return self._data[at : at + size]


class _Blocks:
    """Content in blocks of LZ4, each of which is decompressed when it is needed."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._codec = pa.Codec("lz4_raw")
        self._starts: list[int] = []
        self._places: list[tuple[int, int, int, bool]] = []
        self._latest: tuple[int, memoryview] = (-1, memoryview(b""))
        self.size = at = 0
        while at < len(data):
            if data[at : at + 8] != _LZ4:
                raise StoreFileError("it is compressed by an unknown method")
            size, plain_size, _ = struct.unpack_from("<III", data, at + 9)
            if plain_size:
                self._starts.append(self.size)
                self._places.append((at + _LZ4_HEAD, size, plain_size, data[at + 8] & 0xF0 == _LZ4_PLAIN))
                self.size += plain_size
            at += _LZ4_HEAD + size

    def read(self, at: int, size: int) -> memoryview:
        number = bisect_right(self._starts, at) - 1
        parts = []
        while size > 0 and 0 <= number < len(self._starts):
            offset = at - self._starts[number]
            part = self._block(number)[offset : offset + size]
            parts.append(part)
            at, size, number = at + len(part), size - len(part), number + 1
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _block(self, number: int) -> memoryview:
        if self._latest[0] != number:
            at, size, plain_size, is_plain = self._places[number]
            block = self._data[at : at + size]
            plain = block if is_plain else memoryview(self._codec.decompress(block, plain_size, asbytes=True))
            if len(plain) != plain_size:
                raise StoreFileError("it ends too early")
            self._latest = number, plain
        return self._latest[1]


@dataclass(frozen=True)
class StoredValue:
    """A value in a changelog."""

    content: _Content
    at: int
    size: int

    def read(self) -> memoryview:
        """The value. Raises StoreFileError."""
        return _decompressed(self.content, self.at, self.size)


class Changelog:
    """A changelog.

    Attributes:
        version: of its form.
        lineage: which attempts wrote the versions in front of it, as Spark has written it.
    """

    def __init__(self, content: _Content) -> None:
        self._content = content
        self.version, at = self._text(0)
        if self.version not in _VERSIONS:
            raise StoreFileError(f"it has the unknown version {self.version[:20]!r}")
        text, at = self._text(at) if self.version in _WITH_LINEAGE else ("[]", at)
        self.lineage: list[dict[str, Any]] = json.loads(text)
        self._start = at

    @staticmethod
    def of(path: AnyPath) -> Changelog:
        """The changelog in a file.

        Raises:
            StoreFileError, ValueError, struct.error: it is damaged.
            OSError: it cannot be read.
        """
        local = Path(rooted_path(str(path))) if isinstance(path, Path) else path
        data = local.read_bytes()
        return Changelog(_plain_content(data) if data[:4] == _ZSTD else _Blocks(data))

    def records(self) -> Iterator[tuple[bytes, StoredValue | None]]:
        """Keys, and what is put there; None if they are removed. Raises StoreFileError."""
        at = self._start
        while at < self._content.size:
            kind = self._bytes(at, 1)[0]
            if kind == _END:
                return
            if kind not in (_PUT, _DELETE):
                raise StoreFileError(f"it has records of the unknown kind {kind}")
            key_size, at = self._size(at + 1)
            key, at = bytes(self._bytes(at, key_size)), at + key_size
            size, at = self._size(at)
            if at + size > self._content.size:
                raise StoreFileError("it ends too early")
            yield key, StoredValue(self._content, at, size) if kind == _PUT else None
            at += size
        raise StoreFileError("it ends too early")

    def _text(self, at: int) -> tuple[str, int]:
        size = int.from_bytes(self._bytes(at, 2), "big")
        return bytes(self._bytes(at + 2, size)).decode(), at + 2 + size

    def _size(self, at: int) -> tuple[int, int]:
        return max(0, int.from_bytes(self._bytes(at, 4), "big", signed=True)), at + 4

    def _bytes(self, at: int, size: int) -> memoryview:
        if at + size > self._content.size:
            raise StoreFileError("it ends too early")
        return _decompressed(self._content, at, size)


def _plain_content(data: bytes) -> _PlainContent:
    try:
        return _PlainContent(bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()))
    except (pa.ArrowInvalid, OSError) as cause:  # an OSError of Arrow: the bytes are in memory
        raise StoreFileError(f"it cannot be decompressed ({cause})") from cause


def _decompressed(content: _Content, at: int, size: int) -> memoryview:
    try:
        return content.read(at, size)
    except (pa.ArrowInvalid, OSError) as cause:
        raise StoreFileError(f"it cannot be decompressed ({cause})") from cause
