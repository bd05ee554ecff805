"""The stored frames behind the runs of one key group: read through the cache, checked, and written with the step."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

import polars as pl
import pyarrow as pa

from stateplan.common.errors import CheckpointError
from stateplan.runtime.hashing import hash_rows
from stateplan.runtime.kernel import ACCESS_TIME, FormerColumns, StateTable
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import (
    HASH,
    LAST_PREFIX,
    TOMBSTONE,
    WRITE_TIME,
    Rows,
    RunInfo,
    decode_frame,
    decode_table,
    encode_frame,
    encode_table,
    in_memory,
    state_schema,
)

CHUNK_SIZE = 8 << 20
"""Frames are stored in values of at most this number of bytes: larger values halve the throughput of Spark's state
API."""

_COMPACT = 64 << 10
"""Frames of fewer bytes are stored as they are: to make them smaller takes longer than it saves."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)

_OF_ROWS = (ACCESS_TIME, WRITE_TIME, HASH, TOMBSTONE)
"""Columns of runs that are not those of a table."""

_RESTORE = "restore the checkpoint directory from a copy, or start from an empty one"


class RunStore(Protocol):
    """Where manifests and runs live; commits are the owner's (Spark's state store).

    Attributes:
        is_compact: whether frames are compressed and have no hashes. They are read both ways.
    """

    is_compact: bool

    def manifest(self) -> str | None: ...

    def set_manifest(self, text: str) -> None: ...

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes | None: ...

    def remove(self, key: str) -> None: ...


class _Fresh(NamedTuple):
    """A frame that is not stored yet: its rows, its bytes to be mapped, and those to be stored."""

    rows: Rows
    data: bytes
    stored_data: bytes


class Parts:
    """The parts of the runs of one key group of one operator.

    Args:
        store: holds them.
        cache: the cache of decoded frames; correctness does not depend on it.
        place: names operator and key group in errors.
        version: the version of the columns that its tables have now.
        former_columns: the columns of former versions.

    Attributes:
        bytes_written, bytes_dropped: put into the store and removed from it so far.
        loads: frames read, those excepted that were new.
        misses: of these, from the store.
        unwritten: frames that local disk did not take.
        version: the version of the columns that are written.
    """

    def __init__(
        self, store: RunStore, cache: RunCache, place: str, version: int, former_columns: FormerColumns
    ) -> None:
        self._store = store
        self._disk = cache
        self._unwritten = cache.unwritten
        self._cache = cache.of(place)
        self._place = place
        self.version = version
        self._former_columns = former_columns
        self._fresh: dict[str, _Fresh] = {}
        self.bytes_written = 0
        self.bytes_dropped = 0
        self.loads = 0
        self.misses = 0

    @property
    def unwritten(self) -> int:
        return self._disk.unwritten - self._unwritten

    def _rows(self, table: StateTable, info: RunInfo) -> Rows:
        """The stored frame with the columns of the table. Raises the same errors as :meth:`load`."""
        if info.id in self._fresh:
            return self._fresh[info.id].rows

        def get() -> bytes:
            self.misses += 1
            chunks = list(self._chunks(table, info))
            return self._with_hashes(b"".join(chunks) if len(chunks) > 1 else chunks[0], table, info)

        self.loads += 1
        try:
            rows = self._cache.load(info.id, get)
            if len(rows) != info.stored_rows:
                # The file on local disk is not what was written; what is in the store counts.
                self._cache.discard(info.id)
                rows = self._cache.load(info.id, get)
            frame = rows.frame if rows.is_checked else in_memory(self._present_columns(rows.frame, table, info), table)
        except (pl.exceptions.PolarsError, OSError, ValueError) as cause:
            raise self._damage_error(table, info, str(cause)) from cause
        if not rows.is_checked:
            want, schema = state_schema(table), frame.schema
            if any(schema.get(name) != dtype for name, dtype in want.items()):
                raise CheckpointError(
                    "CKPT013", id=info.id, name=table.name, where=self._place, dict=dict(schema), expected=str(want)
                )
            rows.frame, rows.is_checked = frame, True
        return rows

    def _with_hashes(self, data: bytes, table: StateTable, info: RunInfo) -> bytes:
        """A stored frame as it is mapped: not compressed, and with hashes. Raises ValueError if it is not in order."""
        frame = decode_frame(pa.py_buffer(data))
        if HASH in frame.columns:
            return data
        hashes = hash_rows(in_memory(self._present_columns(frame, table, info), table), table.lookup)
        if (hashes[1:] < hashes[:-1]).any():
            raise ValueError("its rows are not in the order of their hashes")
        return encode_frame(frame.insert_column(frame.columns.index(TOMBSTONE), pl.Series(HASH, hashes)))

    def _present_columns(self, frame: pl.DataFrame, table: StateTable, info: RunInfo) -> pl.DataFrame:
        """A stored frame with the columns of the present version, as far as it has them, and NULL in the others."""
        if info.version == self.version:
            return frame
        names = self._former_columns[info.version][table.name]
        columns = [pl.col(old).alias(new) for new, old in names.items() if old in frame.columns]
        nulls = [pl.lit(None, dtype).alias(name) for name, dtype in table.schema.items() if name not in names]
        return frame.select(*columns, *nulls, *(name for name in _OF_ROWS if name in frame.columns))

    def _chunks(self, table: StateTable, info: RunInfo) -> Iterator[bytes]:
        """The values of a stored frame. Raises CheckpointError CKPT011; CKPT012, after the last one."""
        size = check = 0
        for n in range(info.chunks):
            chunk = self._store.get(f"{info.id}/{n}")
            if chunk is None:
                raise CheckpointError("CKPT011", id=info.id, name=table.name, where=self._place, hint=_RESTORE)
            size, check = size + len(chunk), zlib.crc32(chunk, check)
            yield chunk
        if size != info.size:
            raise self._damage_error(table, info, f"it has {size} bytes", f"{info.size} bytes")
        if check != info.check:
            raise self._damage_error(table, info, f"its bytes have the CRC-32 {check}", str(info.check))

    def load(self, table: StateTable, info: RunInfo) -> Rows:
        """The rows of a part, those in its range only.

        Raises:
            CheckpointError: CKPT011, it is missing; CKPT012, it is damaged; CKPT013, its columns are not those of
                ``table``.
        """
        rows = self._rows(table, info)
        if not info.covers_all:
            rows = rows.ranged(info.low, info.high)
        if len(rows) != info.rows:
            raise self._damage_error(table, info, f"it has {len(rows)} rows", f"{info.rows} rows")
        return rows

    def _damage_error(
        self, table: StateTable, info: RunInfo, why: str, expectation: str | None = None
    ) -> CheckpointError:
        return CheckpointError(
            "CKPT012", id=info.id, name=table.name, where=self._place, why=why, expected=expectation, hint=_RESTORE
        )

    def first_visit(self) -> bool:
        """See :meth:`OwnedCache.first_visit`."""
        return self._cache.first_visit()

    def tidy(self, current: Collection[str]) -> None:
        """See :meth:`OwnedCache.tidy`."""
        self._cache.tidy(current)

    def put(self, frame: pl.DataFrame) -> RunInfo:
        """Keeps a frame sorted by its hashes; it is stored by :meth:`flush`, if it is not dropped before."""
        data = encode_frame(frame)
        stored_data = _compact(data) if self._store.is_compact and len(data) >= _COMPACT else data
        run = uuid.uuid4().hex
        self._fresh[run] = _Fresh(Rows(frame), data, stored_data)
        times = frame[ACCESS_TIME].to_numpy()
        middle = times.copy()
        middle.partition(len(middle) // 2)
        return RunInfo(
            run,
            frame.height,
            newest=int(times.max()),
            size=len(stored_data),
            chunks=max(1, -(-len(stored_data) // CHUNK_SIZE)),
            oldest=int(times.min()),
            middle=int(middle[len(middle) // 2]),
            dead=int(frame[TOMBSTONE].sum()),
            check=zlib.crc32(stored_data),
            low=0,
            high=LAST_PREFIX,
            run=0,
            into=0,
            stored_rows=frame.height,
            version=self.version,
            frame_size=len(data),
        )

    def drop(self, info: RunInfo) -> None:
        """Removes a part."""
        if self._fresh.pop(info.id, None) is not None:
            return
        for n in range(info.chunks):
            self._store.remove(f"{info.id}/{n}")
        self._cache.discard(info.id)
        self.bytes_dropped += info.size

    def flush(self) -> None:
        """Stores what is new."""
        for run, fresh in self._fresh.items():
            data = fresh.stored_data
            if len(data) <= CHUNK_SIZE:
                self._store.put(f"{run}/0", data)
            else:
                view = memoryview(data)
                for n in range(0, len(data), CHUNK_SIZE):
                    self._store.put(f"{run}/{n // CHUNK_SIZE}", bytes(view[n : n + CHUNK_SIZE]))
            self._cache.add(run, fresh.data)
            self.bytes_written += len(data)
        self._fresh.clear()


def _compact(data: bytes) -> bytes:
    """A frame as it is stored: compressed, and without hashes, which are random and follow from the other columns."""
    return encode_table(decode_table(pa.py_buffer(data)).drop_columns([HASH]), _COMPRESSED)
