"""Keyed state as sorted runs: one state table of one key group.

A *run* is an immutable frame of state rows sorted by the hash of their lookup columns: ``@h`` (UInt64 hash), the
table's columns, ``@t`` (last access, ms) and ``@x`` (true for a tombstone: the row with this identity is gone).
A micro-batch writes at most one run per table. The newest run that has an identity decides about it. Runs are merged
in size tiers, so a row is rewritten O(log n) times in its life and a lookup searches O(log n) runs.

Expired rows are ignored when read and dropped when a merge reaches the oldest run, as are tombstones: dropped
earlier, they could uncover an older version of the row. The oldest runs are dropped unread once all their rows
have expired. (FLIP-25's compaction filter and full-snapshot filter.)
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from execnodes.runtime.hashing import Hashes, hash_rows
from execnodes.runtime.kernel import ACCESS_TIME, StateTable

__all__ = [
    "HASH",
    "MERGE_FACTOR",
    "TOMBSTONE",
    "RunInfo",
    "build_run",
    "due_merge",
    "due_rows",
    "encode_frame",
    "expired_rows",
    "lookup",
    "merge_runs",
    "state_schema",
]

HASH = "@h"
TOMBSTONE = "@x"

MERGE_FACTOR = 8
"""So many runs of one size tier are merged into one."""

_NEWEST = pl.CompatLevel.newest()


@dataclass(frozen=True)
class RunInfo:
    """What the manifest says of a run.

    Attributes:
        id: unique for all time.
        rows: rows, tombstones included.
        newest: the largest ``@t`` in it, milliseconds.
        size: bytes of its serialized form.
        chunks: values it is stored as.
    """

    id: str
    rows: int
    newest: int
    size: int
    chunks: int


def state_schema(table: StateTable) -> dict[str, pl.DataType]:
    """Columns of a state frame handed to a kernel: those of the table and ``@t``."""
    return {**table.schema, ACCESS_TIME: pl.Int64()}


def encode_frame(frame: pl.DataFrame) -> bytes:
    """The frame as one uncompressed Arrow IPC file of a single batch, so that it can be memory-mapped."""
    sink = io.BytesIO()
    frame.write_ipc(sink, compression="uncompressed", compat_level=_NEWEST, record_batch_size=max(1, frame.height))
    return sink.getvalue()


def build_run(
    table: StateTable, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None, now: int
) -> pl.DataFrame | None:
    """The run that records a step's changes to ``table``; None when there are none."""
    parts: list[pl.DataFrame] = []
    order = [*table.schema, ACCESS_TIME]
    if upserts is not None and upserts.height:
        parts.append(upserts.select(order))
    dead = 0
    if deletes is not None and deletes.height:
        dead = deletes.height
        rest = [
            pl.lit(None, dtype=dtype).alias(name) for name, dtype in table.schema.items() if name not in deletes.columns
        ]
        parts.append(deletes.with_columns(*rest, pl.lit(now, dtype=pl.Int64).alias(ACCESS_TIME)).select(order))
    if not parts:
        return None
    frame = pl.concat(parts) if len(parts) > 1 else parts[0]
    hashes = hash_rows(frame, table.lookup)
    flags = np.zeros(frame.height, bool)
    if dead:
        flags[-dead:] = True
    frame = frame.with_columns(pl.Series(HASH, hashes), pl.Series(TOMBSTONE, flags))
    return frame[np.argsort(hashes)]


def _ranges(starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The concatenation of arange(start, stop) over all pairs."""
    lengths = stops - starts
    total = int(lengths.sum())
    if total == len(lengths):
        return starts
    offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return offsets + np.arange(total)


def _hits(run: pl.DataFrame, wanted: Hashes) -> npt.NDArray[np.int64]:
    """Row numbers in ``run`` whose hash is in ``wanted`` (sorted, unique)."""
    hashes = run[HASH].to_numpy()
    n = len(hashes)
    if n == 0 or len(wanted) == 0:
        return np.zeros(0, np.int64)
    inside = wanted[(wanted >= hashes[0]) & (wanted <= hashes[-1])] if len(wanted) > n // 2 else wanted
    low = np.searchsorted(hashes, inside)
    low[low == n] = n - 1
    match = hashes[low] == inside
    low = low[match]
    high = np.searchsorted(hashes, inside[match], side="right")
    return _ranges(low, high)


def _live(frame: pl.DataFrame, now: int, ttl: int) -> pl.DataFrame:
    """Rows that are neither tombstones nor expired."""
    keep: pl.Series | None = None
    flags = frame[TOMBSTONE]
    if flags.any():
        keep = ~flags
    if ttl > 0 and frame.height:
        fresh = frame[ACCESS_TIME] > now - ttl
        keep = fresh if keep is None else keep & fresh
    return frame if keep is None or keep.all() else frame.filter(keep)


def expired_rows(runs: Sequence[pl.DataFrame], now: int, ttl: int) -> int:
    """How many rows of ``runs`` have expired; those that only say that a row is gone do not count."""
    if ttl <= 0:
        return 0
    return sum(int(((run[ACCESS_TIME] <= now - ttl) & ~run[TOMBSTONE]).sum()) for run in runs)


def lookup(table: StateTable, runs: Sequence[pl.DataFrame], keys: pl.DataFrame, now: int, ttl: int) -> pl.DataFrame:
    """The live state rows for ``keys``.

    Args:
        runs: oldest first.
        keys: frame holding the lookup columns, repeats allowed.

    Returns:
        Frame of :func:`state_schema`. It may hold rows of other keys (hash collisions); kernels match by key.
    """
    wanted = _unique(hash_rows(keys, table.lookup))
    parts: list[pl.DataFrame] = []
    for run in reversed(runs):
        index = _hits(run, wanted)
        if len(index):
            parts.append(run[index])
    if not parts:
        return pl.DataFrame(schema=state_schema(table))
    if len(parts) == 1:
        found = parts[0]
    else:
        found = pl.concat(parts, rechunk=False).unique(subset=_identity(table), keep="first", maintain_order=True)
    return _live(found, now, ttl).select([*table.schema, ACCESS_TIME])


def due_rows(table: StateTable, runs: Sequence[pl.DataFrame], upto: int, now: int, ttl: int) -> pl.DataFrame:
    """The live state rows that are due at ``upto``, as a frame of :func:`state_schema`; ``runs`` are oldest first."""
    assert table.due is not None
    late = pl.col(table.due) <= upto
    found = [part for part in (run.lazy().filter(late).collect() for run in runs) if part.height]
    if not found:
        return pl.DataFrame(schema=state_schema(table))
    due = pl.concat(found)
    return lookup(table, runs, due.select(table.lookup) if table.lookup else due[:1], now, ttl).filter(late)


def _unique(hashes: Hashes) -> Hashes:
    ordered = np.sort(hashes)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def _identity(table: StateTable) -> list[str]:
    return list(table.identity) or [HASH]


def merge_runs(table: StateTable, runs: Sequence[pl.DataFrame], now: int, ttl: int, oldest: bool) -> pl.DataFrame:
    """One run in place of ``runs`` (oldest first). With ``oldest`` the first of them is the table's oldest run, and
    tombstones and expired rows are dropped."""
    stacked = pl.concat(list(reversed(runs)), rechunk=True)
    hashes = stacked[HASH].to_numpy()
    order = np.argsort(hashes, kind="stable")
    if len(runs) > 1:
        ordered = hashes[order]
        twin = np.zeros(len(order), bool)
        np.equal(ordered[1:], ordered[:-1], out=twin[1:])
        if twin.any():
            twin[:-1] |= twin[1:]
            suspects = order[twin]
            kept = (
                stacked[suspects]
                .with_row_index("@i")
                .unique(subset=_identity(table), keep="first", maintain_order=True)
            )
            keep = ~twin
            keep[np.flatnonzero(twin)[kept["@i"].to_numpy()]] = True
            order = order[keep]
    merged = stacked[order]
    return _live(merged, now, ttl) if oldest else merged


def _tier(rows: int) -> int:
    tier = 0
    size = 256
    while size < rows:
        size *= MERGE_FACTOR
        tier += 1
    return tier


def due_merge(rows: Sequence[int]) -> int | None:
    """Index of the first run of a suffix that should be merged now, or None.

    Args:
        rows: run sizes, oldest first.
    """
    start: int | None = None
    for i in range(len(rows) - 1, -1, -1):
        same = [r for r in rows[i:] if _tier(r) <= _tier(rows[i])]
        if (
            len(same) == len(rows) - i
            and len(same) >= MERGE_FACTOR
            and sum(1 for r in rows[i:] if _tier(r) == _tier(rows[i])) >= MERGE_FACTOR
        ):
            start = i
    return start


def newest_access(frame: pl.DataFrame) -> int:
    """The largest ``@t`` of a run, 0 when it is empty."""
    value = frame[ACCESS_TIME].max()
    return int(value) if isinstance(value, int) else 0
