"""The hash of a key, the key group it falls into, and the Spark grouping key of a key group.

The hash is part of the state format: it must never change, on any machine or with any library version, so it
is computed here and not by a library. It is an index, never an identity: keys are compared as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl

Hashes = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0x5851F42D4C957F2D)
_SEED = np.uint64(0x2545F4914F6CDD1D)
_S27, _S30, _S31, _S32, _S33 = (np.uint64(n) for n in (27, 30, 31, 32, 33))

_LONG_TEXT = 256
"""Texts longer than this many bytes are hashed one by one; shorter ones eight bytes at a time, all rows at once."""


def _mix(x: Hashes) -> Hashes:
    """The finalizer of splitmix64, in place."""
    x ^= x >> _S30
    x *= _MIX1
    x ^= x >> _S27
    x *= _MIX2
    x ^= x >> _S31
    return x


def _hash_bytes(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> Hashes:
    lengths = offsets[1:] - offsets[:-1]
    out = lengths.astype(np.uint64) * _GOLDEN
    starts = offsets[:-1]
    padded_data = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(padded_data) - 7,), "<u8", padded_data.data, strides=(1,))
    position = 0
    active: npt.NDArray[np.int64] | None = None
    while True:
        left = lengths - position if active is None else lengths[active] - position
        going = (left > 0) & (lengths <= _LONG_TEXT if active is None else True)
        if not going.all():
            active = np.flatnonzero(going) if active is None else active[going]
            left = left[going]
        if len(left) == 0:
            break
        word = words[(starts if active is None else starts[active]) + position]
        short = left < 8
        if short.any():
            keep = (np.uint64(1) << (left[short].astype(np.uint64) * np.uint64(8))) - np.uint64(1)
            word[short] &= keep
        if active is None:
            out = _mix((out ^ word) * _GOLDEN)
        else:
            out[active] = _mix((out[active] ^ word) * _GOLDEN)
        position += 8
    for row in np.flatnonzero(lengths > _LONG_TEXT):
        text = data[offsets[row] : offsets[row + 1]].tobytes()
        out[row] = np.frombuffer(hashlib.blake2b(text, digest_size=8).digest(), "<u8")[0]
    return out


def _hash_series(series: pl.Series) -> Hashes:
    """What a NULL is hashed to does not depend on what a column holds in its place. The buffers of Arrow are read as
    they are: for what concerns NULL, Polars takes a hundred microseconds for any number of rows."""
    dtype = series.dtype
    n = len(series)
    if dtype == pl.Null or n == 0:
        return np.full(n, _NULL, np.uint64)
    if dtype in (pl.Float32, pl.Float64):
        array = series.cast(pl.Float64).to_arrow()
        floats = np.frombuffer(array.buffers()[1], np.float64)[array.offset : array.offset + n].copy()
        floats[floats == 0.0] = 0.0
        floats[np.isnan(floats)] = np.nan
        out = _mix(floats.view(np.uint64) * _GOLDEN)
    elif dtype.is_integer() or dtype.is_temporal() or dtype == pl.Boolean:
        array = series.cast(pl.Int64, wrap_numerical=dtype in (pl.UInt64, pl.Int128)).to_arrow()
        out = _mix(np.frombuffer(array.buffers()[1], np.uint64)[array.offset : array.offset + n] * _GOLDEN)
    else:
        if dtype == pl.String:
            text = series.cast(pl.Binary)
        elif dtype == pl.Binary:
            text = series
        elif isinstance(dtype, pl.Decimal):
            text = series.cast(pl.String).cast(pl.Binary)
        else:
            values = [None if v is None else repr(v).encode() for v in series.to_list()]
            text = pl.Series(series.name, values, dtype=pl.Binary)
        array = text.to_arrow(compat_level=pl.CompatLevel.oldest())
        buffers = array.buffers()
        offsets = np.frombuffer(buffers[1], np.int64)[array.offset : array.offset + n + 1]
        data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.zeros(0, np.uint8)
        out = _hash_bytes(offsets, data)
    if series.null_count():
        bits = np.frombuffer(array.buffers()[0], np.uint8)
        out[np.unpackbits(bits, bitorder="little")[array.offset : array.offset + n] == 0] = _NULL
    return out


def hash_rows(frame: pl.DataFrame, columns: Sequence[str]) -> Hashes:
    """One 64-bit hash per row over ``columns``; NULL equals NULL, -0.0 equals 0.0, NaN equals NaN.

    Integers of any width, booleans, dates and times of equal physical value hash alike. With no columns every
    row has the same hash (one key, the global group).
    """
    total = np.full(frame.height, _SEED, np.uint64)
    for name in columns:
        total = _mix(total * _GOLDEN + _hash_series(frame[name]))
    return total


def key_groups(hashes: Hashes, count: int) -> npt.NDArray[np.uint16]:
    """The key group (0 .. count-1, at most 32768) of each hash: ranges of the hash's upper half, so rows sorted by
    hash are sorted by key group too."""
    return (((hashes >> _S32) * np.uint64(count)) >> _S32).astype(np.uint16)


SLOT_CYCLE = 5040
"""Slot labels spread evenly over any number of partitions that divides this number (2 to 10, 12, 14, 15, 16, ...)."""


def _murmur3_int(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Spark's hash of an INT column (Murmur3_x86_32 of four bytes, seed 42)."""

    def rotl(x: npt.NDArray[np.uint32], r: int) -> npt.NDArray[np.uint32]:
        return (x << np.uint32(r)) | (x >> np.uint32(32 - r))

    k = rotl(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = rotl(np.uint32(42) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h.astype(np.uint32).view(np.int32)


@cache
def _labels() -> npt.NDArray[np.int32]:
    """For each residue r of SLOT_CYCLE the smallest non-negative int whose Spark hash is congruent to r."""
    label_of_slot = np.full(SLOT_CYCLE, -1, np.int32)
    candidates = np.arange(40 * SLOT_CYCLE, dtype=np.uint32)
    residues = np.mod(_murmur3_int(candidates).astype(np.int64), SLOT_CYCLE)
    label_of_slot[residues[::-1]] = candidates[::-1].astype(np.int32)
    assert (label_of_slot >= 0).all()
    return label_of_slot


def slot_label(slot: int) -> int:
    """The Spark grouping key of slot number ``slot``.

    Spark sends a grouping key to partition ``pmod(hash(key), partitions)``. Hashing the numbers 0, 1, 2, ... leaves
    some partitions with several and some with none; these labels are chosen so that slot ``s`` goes to partition
    ``s mod partitions`` for every number of partitions that divides :data:`SLOT_CYCLE`.
    """
    return int(_labels()[slot % SLOT_CYCLE]) + 0 if slot < SLOT_CYCLE else _beyond(slot)


def _beyond(slot: int) -> int:
    turn, residue = divmod(slot, SLOT_CYCLE)
    start = np.uint64(40 * SLOT_CYCLE)
    block = np.arange(int(start) * (turn + 1), int(start) * (turn + 2), dtype=np.int64).astype(np.uint32)
    hits = np.flatnonzero(np.mod(_murmur3_int(block).astype(np.int64), SLOT_CYCLE) == residue)
    return int(block[hits[0]])


def partition_of(label: int, partitions: int) -> int:
    """The partition to which Spark sends a grouping key."""
    return int(np.mod(int(_murmur3_int(np.array([label], np.uint32))[0]), partitions))
