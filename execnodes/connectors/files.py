"""Paths and bytes: URLs through fsspec, compressed files by their ending, big files in pieces of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from stateplan.execnodes.errors import DataError, Place

CHUNK_BYTES = 32 << 20
"""How many bytes of lines are decoded at once, so that memory stays bounded for files of any size."""

COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
"""File ending to Arrow's codec name; the bytes of other files are read as they are."""


def local_path(path: str) -> str | None:
    """The path on the local disk of a plain path or ``file:`` URL; None for any other URL."""
    if path.startswith("file:"):
        rest = path[len("file:") :]
        return "/" + rest.lstrip("/") if rest.startswith("/") else rest
    return None if "://" in path or path.startswith("memory:") else path


def filesystem_of(path: str) -> tuple[Any, str]:
    """The fsspec filesystem of a path or URL, and the path on it.

    Raises:
        DataError: DATA101, for a URL whose protocol is unknown or not installed.
    """
    import fsspec

    local = local_path(path)
    try:
        if local is not None:
            return fsspec.filesystem("file"), local
        fs, inner = fsspec.core.url_to_fs(path)
        return fs, str(inner)
    except (ValueError, ImportError) as error:
        raise DataError("DATA101", path=path, error=error, place=Place(file=path)) from error


def _codec(path: str) -> str | None:
    return next((codec for ending, codec in COMPRESSIONS.items() if path.lower().endswith(ending)), None)


def open_input(path: str) -> BinaryIO:
    """The bytes of a file as a stream, decompressed by the file's ending.

    Raises:
        DataError: DATA102, when the file cannot be opened.
    """
    try:
        local = local_path(path)
        if local is not None:
            raw: Any = open(local, "rb")  # noqa: SIM115 - handed to the caller
        else:
            fs, inner = filesystem_of(path)
            raw = fs.open(inner, "rb")
    except OSError as error:
        raise DataError("DATA102", strerror=error.strerror or error, place=Place(file=path)) from error
    codec = _codec(path)
    if codec is None:
        return cast("BinaryIO", raw)
    import pyarrow as pa

    return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec))


def _read(stream: BinaryIO, size: int, path: str) -> bytes:
    try:
        return stream.read(size)
    except OSError as error:
        raise DataError(
            "DATA103",
            error=error,
            place=Place(file=path),
            hint="the file is damaged or not compressed as its ending says" if _codec(path) else None,
        ) from error


def line_chunks(path: str, size: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Pieces of whole lines of a file: (number of the first line from 1, bytes ending in a newline).

    A line longer than ``size`` makes a piece of its own length. An empty file gives nothing.

    Raises:
        DataError: DATA102 or DATA103, when it cannot be opened or read.
    """
    line = 1
    with open_input(path) as stream:
        parts: list[bytes] = []
        while True:
            block = _read(stream, size, path)
            if not block:
                break
            cut = block.rfind(b"\n") + 1
            if not cut:
                parts.append(block)
                continue
            chunk = b"".join((*parts, memoryview(block)[:cut])) if parts or cut < len(block) else block
            parts = [block[cut:]] if cut < len(block) else []
            yield line, chunk
            line += chunk.count(b"\n")
        rest = b"".join(parts)
        if rest:
            yield line, rest + b"\n"
