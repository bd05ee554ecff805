"""Writes files of Spark's state store, as Spark and RocksDB write them: for tests without Spark."""

from __future__ import annotations

import io
import json
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rocksdict import Options, Rdict

from stateplan.common.paths import AnyPath

MANIFEST, RUNS = 2, 3

Changes = Mapping[bytes, bytes | None]
"""Values by their keys; None for what is removed."""


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


def snapshot(folder: AnyPath, version: int, writer: str, files: Sequence[Changes] = ()) -> None:
    """A snapshot of a partition: a database of RocksDB, whose files with values hold some changes each."""
    assert isinstance(folder, Path)
    (folder / "SSTs").mkdir(parents=True, exist_ok=True)
    name = f"{version}_{writer}" if writer else str(version)
    tables: list[dict[str, Any]] = []
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(out, "w") as archive:
        _write(place, files)
        for path in sorted(Path(place).iterdir()):
            if path.suffix == ".sst":
                tables.append({"localFileName": path.name, "dfsSstFileName": f"{path.stem}-{name}.sst"})
                tables[-1] |= {"sizeBytes": path.stat().st_size}
                shutil.copyfile(path, folder / "SSTs" / tables[-1]["dfsSstFileName"])
            elif path.is_file() and path.name.startswith(("CURRENT", "MANIFEST", "OPTIONS")):
                archive.write(path, path.name)
        facts = {
            "sstFiles": tables,
            "numKeys": 0,
            "columnFamilyMapping": {"default": 1, "manifest": MANIFEST, "runs": RUNS},
        }
        archive.writestr("metadata", "v1\n" + json.dumps(facts))
    (folder / f"{name}.zip").write_bytes(out.getvalue())


def _write(folder: str, files: Sequence[Changes]) -> None:
    options = Options(raw_mode=True)
    options.set_disable_auto_compactions(True)
    database = Rdict(folder, options)
    for changes in files:
        for key, value in changes.items():
            if value is None:
                database.delete(key)
            else:
                database.put(key, value)
        database.flush()
    database.close()
