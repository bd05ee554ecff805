"""Keyed state as sorted runs: one state table of one key group.

A *run* is a list of immutable frames of state rows, its *parts*, each for a range of hashes and sorted by the hash of
the lookup columns: ``@h`` (UInt64 hash), the table's columns, ``@t`` (last access, ms) and ``@x`` (true for a
tombstone: the row with this identity is gone). A micro-batch writes at most one run per table. Of all parts for the
hash of a row, the newest one that has its identity decides about it. How runs are merged, :mod:`~.runlist` says.

Expired rows are ignored when read and dropped when a merge reaches the oldest part, as are tombstones: dropped
earlier, they could uncover an older version of the row. (FLIP-25's compaction filter and full-snapshot filter.)
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from stateplan.common.small_frames import rows_at, rows_where, stack
from stateplan.common.values.nanoseconds import portable_frame, stored_dtype, with_counts
from stateplan.runtime.hashing import Hashes, hash_rows
from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.state.hash_index import HashIndex

HASH = "@h"
TOMBSTONE = "@x"
WRITE_TIME = "@w"
"""Column of a run: when the kernel wrote the row, ms. It is there where some row was last accessed at another time."""

LAST_PREFIX = (1 << 32) - 1
"""The largest prefix of a hash; ranges of hashes go by their upper 32 bits."""

_NEWEST = pl.CompatLevel.newest()
_PLAIN = frozenset([*(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt64, pl.Float32, pl.Float64), pl.Boolean, pl.Date])

_TEXT = frozenset([pl.String, pl.Binary])
_SHORT = 256
"""Up to this number of rows, a stream and its copy as a file take less time than Polars' own writer of files."""

_EQUATABLE = frozenset([pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt64, pl.Boolean, pl.Date, pl.String, pl.Binary])
"""Types of which Python takes for equal what Polars does."""
_FEW = 64
"""Up to this number of rows Python compares sooner than Polars gets to it."""
_FEW_SOUGHT = 64
"""Up to this number of hashes, a search takes less time than what would shorten it."""
_UNINDEXED = 1024
"""Fewer hashes than this are in the caches of the processor, where a search is fast."""


class RunInfo(NamedTuple):
    """What the manifest says of a part of a run; an entry of the manifest is the list of these.

    Attributes:
        id: unique for all time; names the stored frame.
        rows: rows, tombstones included, whose hashes are in range.
        newest: no ``@t`` in it is larger, milliseconds.
        size: bytes of the stored frame.
        chunks: values it is stored as.
        oldest: no ``@t`` in it is smaller.
        middle: about half of the ``@t`` in it are at most so large.
        dead: about so many tombstones.
        check: CRC-32 of the stored frame.
        low, high: the first and the last prefix (upper 32 bits) of the hashes it is for. The stored frame may hold
            rows outside of the range, which a merge has already moved: they do not count.
        run: which run it is a part of, a number within the table; 0 until it has one.
        into: the run that its rows are being merged into; 0 for none.
        stored_rows: rows of the stored frame.
        version: the version of the columns of the stored frame.
        frame_size: bytes of the frame as it is mapped. 0 in lists of earlier releases, which stored it like that.
    """

    id: str
    rows: int
    newest: int
    size: int
    chunks: int
    oldest: int
    middle: int
    dead: int
    check: int
    low: int
    high: int
    run: int
    into: int
    stored_rows: int
    version: int = 0
    frame_size: int = 0

    @property
    def width(self) -> int:
        """Bytes of a row as it is mapped, about."""
        return (self.frame_size or self.size) // max(1, self.stored_rows)

    @property
    def covers_all(self) -> bool:
        """Whether it covers all hashes."""
        return self.low == 0 and self.high == LAST_PREFIX

    def overlaps(self, low: int, high: int) -> bool:
        """Whether it covers any hash from ``low`` to ``high``."""
        return self.low <= high and low <= self.high


class Rows:
    """A frame of state rows sorted by hash, and its hashes.

    Attributes:
        frame: the rows.
        hashes: its column ``@h``.
        is_checked: whether the columns have been compared with those of its table.
    """

    __slots__ = ("_index", "_sought", "frame", "hashes", "is_checked")

    def __init__(self, frame: pl.DataFrame, hashes: Hashes | None = None) -> None:
        self.frame = frame
        self.hashes: Hashes = frame[HASH].to_numpy() if hashes is None else hashes
        self.is_checked = False
        self._index: HashIndex | None = None
        self._sought = 0

    def __len__(self) -> int:
        return len(self.hashes)

    def before(self, prefix: int) -> int:
        """How many rows have a hash with a smaller prefix."""
        if prefix <= 0 or prefix > LAST_PREFIX:
            return 0 if prefix <= 0 else len(self.hashes)
        return int(np.searchsorted(self.hashes, np.uint64(prefix << 32)))

    def ranged(self, low: int, high: int) -> Rows:
        """The rows whose hashes have a prefix from ``low`` to ``high``."""
        start, stop = self.before(low), self.before(high + 1)
        if stop - start == len(self.hashes):
            return self
        return Rows(self.frame[start:stop], self.hashes[start:stop])

    def hits(self, sought_hashes: Hashes) -> npt.NDArray[np.int64]:
        """Numbers of the rows whose hash is in ``sought_hashes`` (ascending, each once)."""
        hashes = self.hashes
        n = len(hashes)
        if n == 0:
            return np.zeros(0, np.int64)
        if len(sought_hashes) > _FEW_SOUGHT:
            sought_hashes = sought_hashes[
                np.searchsorted(sought_hashes, hashes[0]) : np.searchsorted(sought_hashes, hashes[-1], side="right")
            ]
        if self._is_worth_an_index(len(sought_hashes)):
            self._index = self._index or HashIndex(hashes)
            starts, found_hashes = self._index.find(sought_hashes)
        else:
            starts = np.searchsorted(hashes, sought_hashes)
            is_there = hashes.take(starts, mode="clip") == sought_hashes
            starts, found_hashes = starts[is_there], sought_hashes[is_there]
        stops = starts + 1
        several = np.flatnonzero(hashes.take(stops, mode="clip") == found_hashes)
        if len(several):
            stops[several] = np.searchsorted(hashes, found_hashes[several], side="right")
        return _ranges(starts, stops)

    def _is_worth_an_index(self, count: int) -> bool:
        """Whether so many hashes are found sooner with an index, which takes as long as a search for some of them."""
        self._sought += count
        return count > _FEW_SOUGHT and len(self) >= _UNINDEXED and 8 * self._sought >= len(self)


def state_schema(table: StateTable) -> dict[str, pl.DataType]:
    """Columns of a state frame handed to a kernel: those of the table and ``@t``."""
    return {**table.schema, ACCESS_TIME: pl.Int64()}


def encode_frame(frame: pl.DataFrame) -> bytes:
    """The frame as one uncompressed Arrow IPC file of a single batch, so that it can be memory-mapped."""
    # Polars' own writer of files takes 0.2 ms to start, and Arrow's leaves behind what a text column holds and does not
    # show. Polars' stream of few rows holds what they show, and Arrow makes a file of it.
    if all(dtype in _PLAIN for dtype in frame.dtypes):
        table = frame.rechunk().to_arrow(compat_level=_NEWEST)
    elif 0 < frame.height <= _SHORT and all(dtype in _PLAIN or dtype in _TEXT for dtype in frame.dtypes):
        stream = io.BytesIO()
        frame.rechunk().write_ipc_stream(stream, compression="uncompressed", compat_level=_NEWEST)
        table = pa.ipc.open_stream(stream.getbuffer()).read_all()
    else:
        frame = portable_frame(frame)
        sink = io.BytesIO()
        frame.write_ipc(sink, compression="uncompressed", compat_level=_NEWEST, record_batch_size=max(1, frame.height))
        return sink.getvalue()
    return encode_table(table)


def encode_table(table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> bytes:
    """The Arrow table as an IPC file."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def decode_table(source: pa.Buffer | pa.NativeFile) -> pa.Table:
    """The Arrow table of an IPC file. Raises ValueError if it is damaged."""
    try:
        return pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid as cause:
        raise ValueError(str(cause)) from cause


def decode_frame(source: pa.Buffer | pa.NativeFile) -> pl.DataFrame:
    """The frame of :func:`encode_frame`. Raises ValueError if it is damaged."""
    frame = pl.from_arrow(decode_table(source), rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame if frame.n_chunks() <= 1 else frame.rechunk()


def in_memory(frame: pl.DataFrame, table: StateTable) -> pl.DataFrame:
    """A stored frame as kernels have it; see :func:`stored_dtype`. Earlier versions stored TIMESTAMP(7) to (9) as
    Datetimes. Lists and rows of these, among the columns that rows are found by, had other hashes: they stay as they
    are, and are refused."""
    casts = []
    for name, dtype in table.schema.items():
        stored_type = frame.schema.get(name)
        if stored_type is None or stored_type == dtype:
            continue
        before = with_counts(stored_type) == dtype and (name not in table.lookup or not stored_type.is_nested())
        if before or stored_dtype(dtype) == stored_type:
            casts.append(pl.col(name).cast(dtype))
    return frame.with_columns(casts) if casts else frame


def build_run(
    table: StateTable, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None, now: int
) -> pl.DataFrame | None:
    """The run that records a step's changes to ``table``; None if there are none."""
    parts: list[pl.DataFrame] = []
    order = [*table.schema, ACCESS_TIME]
    if upserts is not None and upserts.height:
        if WRITE_TIME in upserts.columns:
            order.append(WRITE_TIME)
        parts.append(upserts[order])
    dead = 0
    if deletes is not None and deletes.height:
        dead = deletes.height
        rest = [
            pl.lit(None, dtype=dtype).alias(name) for name, dtype in table.schema.items() if name not in deletes.columns
        ]
        times = [pl.lit(now, dtype=pl.Int64).alias(name) for name in order[len(table.schema) :]]
        parts.append(deletes.with_columns(*rest, *times)[order])
    if not parts:
        return None
    frame = stack(parts)
    hashes = hash_rows(frame, table.lookup)
    flags = np.zeros(frame.height, bool)
    if dead:
        flags[-dead:] = True
    frame = frame.hstack([pl.Series(HASH, hashes), pl.Series(TOMBSTONE, flags)])
    return rows_at(frame, np.argsort(hashes))


def _ranges(starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The concatenation of arange(start, stop) over all pairs."""
    lengths = stops - starts
    total = int(lengths.sum())
    if total == len(lengths):
        return starts
    offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return offsets + np.arange(total)


def live_rows(frame: pl.DataFrame, now: int, ttl: int) -> pl.DataFrame:
    """Rows that are neither tombstones nor expired."""
    keep: pl.Series | None = None
    flags = frame[TOMBSTONE]
    if flags.any():
        keep = ~flags
    if ttl > 0 and frame.height:
        fresh = frame[ACCESS_TIME] > now - ttl
        keep = fresh if keep is None else keep & fresh
    return frame if keep is None or keep.all() else rows_where(frame, keep)


def wanted_hashes(table: StateTable, keys: pl.DataFrame) -> Hashes:
    """The hashes of ``keys`` (the lookup columns of ``table``, repeats allowed), ascending and each once."""
    return _unique(hash_rows(keys, table.lookup))


def lookup(table: StateTable, parts: Iterable[Rows], sought_hashes: Hashes, now: int, ttl: int) -> pl.DataFrame:
    """The live state rows whose hashes are ``sought_hashes``.

    Args:
        parts: newest first; read one by one.
        sought_hashes: of :func:`wanted_hashes`.

    Returns:
        Frame of :func:`state_schema`, with :data:`WRITE_TIME` where any row has it. It may hold rows of other keys
        whose hash is the same; kernels match by key.
    """
    rows = newest_versions(table, parts, sought_hashes)
    if rows is None:
        return pl.DataFrame(schema=state_schema(table))
    return state_rows(table, live_rows(rows, now, ttl))


def newest_versions(table: StateTable, parts: Iterable[Rows], sought_hashes: Hashes) -> pl.DataFrame | None:
    """Of each row whose hash is in ``sought_hashes`` the newest version, be it expired or a tombstone, with all columns
    of runs; None if there are none. The arguments are those of :func:`lookup`."""
    hits: list[pl.DataFrame] = []
    for part in parts:
        index = part.hits(sought_hashes)
        if len(index):
            hits.append(rows_at(part.frame, index))
    if not hits:
        return None
    return hits[0] if len(hits) == 1 else _first_of_each(stack(aligned(hits)), _identity(table))


def state_rows(table: StateTable, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a run with the columns that :func:`lookup` gives."""
    extra = [WRITE_TIME] if WRITE_TIME in rows.columns else []
    return rows[[*table.schema, ACCESS_TIME, *extra]]


def due_rows(table: StateTable, name: str, parts: Sequence[Rows], upto: int, now: int, ttl: int) -> pl.DataFrame:
    """The live state rows whose column ``name`` is ``upto`` at most, as a frame of :func:`state_schema`; ``parts`` are
    newest first."""
    due_parts = [rows for rows in (rows_where(part.frame, part.frame[name] <= upto) for part in parts) if rows.height]
    if not due_parts:
        return pl.DataFrame(schema=state_schema(table))
    sought_hashes = _unique(np.concatenate([rows[HASH].to_numpy() for rows in due_parts]))
    rows = lookup(table, parts, sought_hashes, now, ttl)
    return rows_where(rows, rows[name] <= upto)


def aligned(runs: Sequence[pl.DataFrame]) -> Sequence[pl.DataFrame]:
    """The runs with the same columns: with :data:`WRITE_TIME` if any has it."""
    wide = next((run.columns for run in runs if WRITE_TIME in run.columns), None)
    if wide is None:
        return runs
    return [
        (run if WRITE_TIME in run.columns else run.with_columns(pl.col(ACCESS_TIME).alias(WRITE_TIME))).select(wide)
        for run in runs
    ]


def _unique(hashes: Hashes) -> Hashes:
    sorted_hashes = np.sort(hashes)
    first = np.ones(len(sorted_hashes), bool)
    np.not_equal(sorted_hashes[1:], sorted_hashes[:-1], out=first[1:])
    return sorted_hashes[first]


def _first_of_each(frame: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """The first row of all that agree in ``columns``, in their order."""
    if frame.height > _FEW or any(frame.schema[name] not in _EQUATABLE for name in columns):
        return frame.unique(subset=columns, keep="first", maintain_order=True)
    first: dict[tuple[object, ...], int] = {}
    for number, row in enumerate(frame[columns].iter_rows()):
        first.setdefault(row, number)
    return rows_at(frame, np.fromiter(first.values(), np.int64, len(first)))


def _identity(table: StateTable) -> list[str]:
    return list(table.identity) or [HASH]


def merge_runs(table: StateTable, runs: Sequence[pl.DataFrame], now: int, ttl: int, oldest: bool) -> pl.DataFrame:
    """One run in place of ``runs`` (oldest first). With ``oldest`` the first of them is the table's oldest run, and
    tombstones and expired rows are dropped."""
    rows = pl.concat(list(reversed(aligned(runs))), rechunk=True)
    hashes = rows[HASH].to_numpy()
    order = np.argsort(hashes, kind="stable")
    if len(runs) > 1:
        sorted_hashes = hashes[order]
        twin = np.zeros(len(order), bool)
        np.equal(sorted_hashes[1:], sorted_hashes[:-1], out=twin[1:])
        if twin.any():
            twin[:-1] |= twin[1:]
            suspects = order[twin]
            newest = (
                rows[suspects].with_row_index("@i").unique(subset=_identity(table), keep="first", maintain_order=True)
            )
            keep = ~twin
            keep[np.flatnonzero(twin)[newest["@i"].to_numpy()]] = True
            order = order[keep]
    rows_of_runs = rows_at(rows, order)
    return live_rows(rows_of_runs, now, ttl) if oldest else rows_of_runs
