"""Avro's container files: a header with the schema and the codec, then blocks of values.

Source: "Object Container Files" in the specification of Avro 1.12. Compression is that of Arrow and of Python, so that
``snappy``, Flink's default, needs no other library.
"""

from __future__ import annotations

import bz2
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from stateplan.connectors.formats.avro_schema import Schema, schema_text

MAGIC = b"Obj\x01"

_SYNC = 16
_BLOCK_BYTES = 64_000


class ContainerError(ValueError):
    """A file that is not one, or is damaged. Its text says how."""


def write_long(value: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte, the lowest first."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _take(stream: BinaryIO, size: int) -> bytes:
    if size < 0:
        raise ContainerError("a length is negative")
    data = stream.read(size)
    if len(data) < size:
        raise ContainerError("the file ends too early")
    return data


def _read_long(stream: BinaryIO, first: bytes = b"") -> int:
    """A number, of which ``first`` has been read."""
    value = shift = 0
    while True:
        byte = (first or _take(stream, 1))[0]
        first = b""
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > 63:
            raise ContainerError("a number is too long")


def _header(stream: BinaryIO) -> tuple[Schema, str, bytes]:
    if stream.read(4) != MAGIC:
        raise ContainerError("it does not begin as an Avro container file does")
    entries: dict[str, bytes] = {}
    while count := _read_long(stream):
        if count < 0:
            count = -count
            _read_long(stream)
        for _ in range(count):
            key = _take(stream, _read_long(stream)).decode("utf-8", "replace")
            entries[key] = _take(stream, _read_long(stream))
    try:
        schema = json.loads(entries["avro.schema"])
    except (KeyError, ValueError) as error:
        raise ContainerError("its header has no schema") from error
    return schema, entries.get("avro.codec", b"null").decode("utf-8", "replace"), _take(stream, _SYNC)


def blocks(stream: BinaryIO) -> Iterator[tuple[Schema, int, bytes]]:
    """The blocks of a file: its schema, and the number and the bytes of the values of each.

    Raises:
        ContainerError: when the file is not one, or is damaged.
    """
    schema, codec, sync = _header(stream)
    if codec not in _EXPAND:
        raise ContainerError(f"its codec is '{codec}', which is not one of {', '.join(_EXPAND)}")
    while first := stream.read(1):
        count = _read_long(stream, first)
        data = _take(stream, _read_long(stream))
        if _take(stream, _SYNC) != sync:
            raise ContainerError("the mark at the end of a block is missing")
        try:
            yield schema, count, _EXPAND[codec](data)
        except ContainerError:
            raise
        except Exception as error:  # of five libraries for compression
            raise ContainerError(f"a block is not compressed with {codec} ({str(error)[:80]})") from error


def container_file(schema: Schema, codec: str, values: Sequence[bytes]) -> bytes:
    """The bytes of a file.

    Args:
        schema: the schema of the values.
        codec: one of those of the option.
        values: the bytes of each.
    """
    sync = os.urandom(_SYNC)
    entries = {"avro.schema": schema_text(schema).encode(), "avro.codec": codec.encode()}
    header = b"".join(
        write_long(len(key)) + key.encode() + write_long(len(value)) + value for key, value in entries.items()
    )
    out = [MAGIC, write_long(len(entries)), header, b"\0", sync]
    start = size = 0
    for i, value in enumerate(values):
        size += len(value)
        if size >= _BLOCK_BYTES or i == len(values) - 1:
            data = _SHRINK[codec](b"".join(values[start : i + 1]))
            out += [write_long(i + 1 - start), write_long(len(data)), data, sync]
            start, size = i + 1, 0
    return b"".join(out)


def _snappy() -> Any:
    import pyarrow as pa

    return pa.Codec("snappy")


def snappy_size(data: bytes | memoryview) -> int:
    """How many bytes a block of Snappy has without compression. It begins with that."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return size


def _snappy_expand(data: bytes) -> bytes:
    content = bytes(_snappy().decompress(data[:-4], decompressed_size=snappy_size(data)))
    if zlib.crc32(content).to_bytes(4, "big") != data[-4:]:
        raise ContainerError("the checksum of a block is wrong")
    return content


def _zstandard_expand(data: bytes) -> bytes:
    import pyarrow as pa

    return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read())


def _deflate_shrink(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


def _same(data: bytes) -> bytes:
    return data


_EXPAND: dict[str, Callable[[bytes], bytes]] = {
    "null": _same,
    "deflate": lambda data: zlib.decompress(data, -15),
    "snappy": _snappy_expand,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
    "zstandard": _zstandard_expand,
}
_SHRINK: dict[str, Callable[[bytes], bytes]] = {
    "null": _same,
    "deflate": _deflate_shrink,
    "snappy": lambda data: bytes(_snappy().compress(data)) + zlib.crc32(data).to_bytes(4, "big"),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
