"""Writes files of Spark's state store, as Spark and RocksDB write them: for tests without Spark."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from stateplan.common.paths import AnyPath

MANIFEST, RUNS = 2, 3
_MAGIC = 0x88E241B785F4CFF7
_TRAILER = b"\0" * 4

Entries = Iterable[tuple[bytes, int, bytes | None]]
"""Key, sequence number, and the value; None for a deletion."""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _block(entries: Sequence[tuple[bytes, bytes]], restart: int) -> bytes:
    out, restarts, before = bytearray(), [], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % restart == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(before), len(key)) and before[shared] == key[shared]:
                shared += 1
        out += _varint(shared) + _varint(len(key) - shared) + _varint(len(value)) + key[shared:] + value
        before = key
    restarts = restarts or [0]
    return bytes(out) + b"".join(struct.pack("<I", r) for r in (*restarts, len(restarts)))


def _stored(block: bytes, codec: str | None) -> bytes:
    if codec is None:
        return block + b"\0" + _TRAILER
    kind = {"lz4_raw": 4, "zstd": 7, "snappy": 1}[codec]
    data = pa.Codec(codec).compress(block, asbytes=True)
    head = b"" if kind == 1 else _varint(len(block))
    return head + data + bytes([kind]) + _TRAILER


def sorted_table(entries: Entries, block_size: int = 200, codec: str | None = "lz4_raw") -> bytes:
    """A file of RocksDB with these entries."""
    ordered = sorted(entries, key=lambda e: (e[0], -e[1]))
    out, index, pending = bytearray(), [], []

    def close() -> None:
        stored = _stored(_block(pending, 4), codec)
        index.append((pending[-1][0][:-8], len(out), len(stored) - 5))
        out.extend(stored)
        pending.clear()

    for key, number, value in ordered:
        tag = struct.pack("<Q", number << 8 | (value is not None))
        pending.append((key + tag, value or b""))
        if sum(len(k) + len(v) for k, v in pending) >= block_size:
            close()
    if pending:
        close()
    body = b"".join(_varint(0) + _varint(len(k)) + k + _varint(o) + _varint(n) for k, o, n in index)
    starts, at = [], 0
    for key, offset, size in index:
        starts.append(at)
        at += len(_varint(0) + _varint(len(key)) + key + _varint(offset) + _varint(size))
    block = body + b"".join(struct.pack("<I", s) for s in (*(starts or [0]), len(starts or [0])))
    place, stored = len(out), _stored(block, codec)
    out += stored
    handles = _varint(0) + _varint(0) + _varint(place) + _varint(len(stored) - 5)
    out += b"\x04" + handles.ljust(40, b"\0") + struct.pack("<IQ", 5, _MAGIC)
    return bytes(out)


def _row(field: bytes) -> bytes:
    """A row of Spark with one field of bytes."""
    padded = field + b"\0" * (-len(field) % 8)
    return b"\0" + b"\0" * 8 + struct.pack("<II", len(field), 16) + padded


def manifest_entry(slot: int, text: str) -> tuple[bytes, bytes]:
    """Key and value of the list of runs of a slot."""
    return struct.pack("<H", MANIFEST) + b"\0" * 9 + struct.pack("<i4x", slot), _row(text.encode())


def run_key(slot: int, run: str) -> bytes:
    """The key of a stored value of a run."""
    prefix = struct.pack("<H", RUNS) + struct.pack("<IB8xII8xi4x", 33, 0, 16, 16, slot)
    data = run.encode()
    nested = b"\0" * 8 + struct.pack("<II", len(data), 16) + data + b"\0" * (-len(data) % 8)
    return prefix + b"\0" + b"\0" * 8 + struct.pack("<II", len(nested), 16) + nested


def run_entry(slot: int, run: str, data: bytes) -> tuple[bytes, bytes]:
    """Key and value of a stored value of a run."""
    return run_key(slot, run), _row(data)


def changelog(
    changes: Mapping[bytes, bytes | None], lineage: Sequence[tuple[int, str]] | None = None, plain: bool = False
) -> bytes:
    """A changelog: of version 4 with a lineage, else of version 2."""
    out = bytearray()
    out += struct.pack(">H", 2) + (b"v2" if lineage is None else b"v4")
    if lineage is not None:
        text = json.dumps([{"version": v, "checkpointUniqueId": u} for v, u in lineage]).encode()
        out += struct.pack(">H", len(text)) + text
    for key, value in changes.items():
        out += b"\x01" if value is not None else b"\x10"
        out += struct.pack(">i", len(key)) + key
        out += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return _framed(bytes(out) + b"\0", plain)


def _framed(data: bytes, plain: bool) -> bytes:
    out, step = bytearray(), 1 << 15
    for start in range(0, len(data), step):
        part = data[start : start + step]
        stored = part if plain else pa.Codec("lz4_raw").compress(part, asbytes=True)
        out += b"LZ4Block" + bytes([0x10 if plain else 0x20]) + struct.pack("<III", len(stored), len(part), 0) + stored
    return bytes(out) + b"LZ4Block" + b"\x10" + struct.pack("<III", 0, 0, 0)


def snapshot(folder: AnyPath, version: int, writer: str, tables: Mapping[str, bytes] | None = None) -> None:
    """A snapshot of a partition that consists of some files of RocksDB."""
    assert isinstance(folder, Path)
    (folder / "SSTs").mkdir(parents=True, exist_ok=True)
    facts = {
        "sstFiles": [
            {"localFileName": name, "dfsSstFileName": name, "sizeBytes": len(data)}
            for name, data in (tables or {}).items()
        ],
        "numKeys": 0,
        "columnFamilyMapping": {"default": 1, "manifest": MANIFEST, "runs": RUNS},
    }
    for name, data in (tables or {}).items():
        (folder / "SSTs" / name).write_bytes(data)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(facts))
    name = f"{version}_{writer}" if writer else str(version)
    (folder / f"{name}.zip").write_bytes(out.getvalue())
