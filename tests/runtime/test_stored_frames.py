"""Frames as Spark's state store has them: compressed, and without hashes. What is read is what was written."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from stateplan.common.errors import CheckpointError
from stateplan.runtime.kernel import StateTable, own_columns
from stateplan.runtime.spark.query import SparkRunStore
from stateplan.runtime.state import stored_frames
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import HASH, TOMBSTONE, decode_frame, encode_frame

POINT = StateTable("point", 0, ("k",), ("k",), own_columns({"k": pl.Int64(), "v": pl.String()}))
ROWS = 10_000


class CompactStore(MemoryRunStore):
    """Frames as in Spark's state store, in memory."""

    is_compact = True


def points(first: int, count: int = ROWS, now: int = 1) -> pl.DataFrame:
    keys = range(first, first + count)
    return pl.DataFrame({"k": keys, "v": [f"row {k % 97}" for k in keys], "@t": [now] * count})


def write(store: MemoryRunStore, frame: pl.DataFrame, table: StateTable = POINT, now: int = 1) -> KeyedState:
    state = KeyedState(store, RunCache(None), [table], "dedup[3], key group 1")
    state.write(table, frame, None, now, 0)
    state.flush()
    return state


def rows_of(store: MemoryRunStore, table: StateTable = POINT, folder: Path | None = None) -> pl.DataFrame:
    """All rows, as a process reads them that has none in its cache."""
    cache = RunCache(str(folder) if folder is not None else None)
    state = KeyedState(store, cache, [table], "dedup[3], key group 1")
    return pl.concat([frame for _, frame in state.runs(table)])


def test_spark_gets_compact_frames() -> None:
    assert SparkRunStore.is_compact
    assert not MemoryRunStore.is_compact


def test_large_frames_are_stored_compressed_and_without_hashes(tmp_path: Path) -> None:
    plain, compact = MemoryRunStore(), CompactStore()
    states = [write(store, points(0)) for store in (plain, compact)]
    sizes = [sum(map(len, store.values.values())) for store in (plain, compact)]
    assert 3 * sizes[1] < sizes[0]
    assert [state.stats.bytes_written for state in states] == sizes
    (in_plain,), (in_compact,) = (state._runs["point"].parts for state in states)
    assert in_compact.width == in_plain.width  # merges go on in steps of as many rows
    (stored,) = (decode_frame(pa.py_buffer(data)) for data in compact.values.values())
    assert stored.columns == ["k", "v", "@t", TOMBSTONE]
    for folder in (None, tmp_path):
        assert_frame_equal(rows_of(compact, folder=folder), rows_of(plain))
    # What is mapped is as it was before: not compressed, and with hashes.
    (file,) = tmp_path.rglob("*.arrow")
    (plain_data,) = plain.values.values()
    assert_frame_equal(decode_frame(pa.py_buffer(file.read_bytes())), decode_frame(pa.py_buffer(plain_data)))
    assert file.stat().st_size > sizes[0] // 2


def test_small_frames_are_stored_as_they_are() -> None:
    store = CompactStore()
    write(store, points(0, 100))
    (data,) = store.values.values()
    assert HASH in decode_frame(pa.py_buffer(data)).columns


def test_frames_of_both_kinds_are_merged() -> None:
    """As those of an earlier release, and those of this one."""
    store, reference = CompactStore(), MemoryRunStore()
    for n in range(20):
        store.is_compact = n % 3 > 0
        for one in (store, reference):
            write(one, points(n * 5_000, now=n), now=n)
    assert_frame_equal(rows_of(store), rows_of(reference), check_row_order=False)
    asked = pl.DataFrame({"k": [0, 5_000, 104_999, 105_000]})
    state = KeyedState(store, RunCache(None), [POINT], "dedup[3], key group 1")
    assert state.lookup(POINT, asked, 20, 0)["k"].sort().to_list() == [0, 5_000, 104_999]


COLUMNS: dict[str, tuple[pl.DataType, Any]] = {
    "integer": (pl.Int32(), lambda n: n % 50_000),
    "text": (pl.String(), lambda n: f"käse {n}" if n % 7 else ""),
    "bytes": (pl.Binary(), lambda n: b"\x00" * (n % 3) + str(n).encode()),
    "float": (pl.Float64(), lambda n: [0.0, -0.0, float("nan"), n / 3][n % 4]),
    "boolean": (pl.Boolean(), lambda n: n % 2 == 0),
    "nanoseconds": (pl.Int128(), lambda n: 10**20 + n),
    "decimal": (pl.Decimal(38, 18), lambda n: n),
    "list": (pl.List(pl.Int128()), lambda n: [10**20 + n, None]),
    "row": (pl.Struct({"a": pl.Int64(), "b": pl.String()}), lambda n: {"a": n, "b": None}),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_hashes_of_keys_of_any_type_are_those_that_were_left_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_frames, "_COMPACT", 0)
    dtype, value = COLUMNS[name]
    table = StateTable("t", 0, ("k", "n"), ("k", "n"), own_columns({"k": dtype, "n": pl.Int64()}))
    keys = [None if n % 11 == 0 else value(n) for n in range(3_000)]
    frame = pl.DataFrame({"k": pl.Series(keys, dtype=dtype), "n": range(3_000), "@t": [1] * 3_000})
    compact, plain = CompactStore(), MemoryRunStore()
    for store in (compact, plain):
        write(store, frame, table)
    assert_frame_equal(rows_of(compact, table, tmp_path), rows_of(plain, table))
    state = KeyedState(compact, RunCache(str(tmp_path / "other")), [table], "here")
    found = state.lookup(table, frame.select("k", "n")[::100], 2, 0)
    assert found["n"].sort().to_list() == list(range(0, 3_000, 100))


def test_tables_without_a_key_have_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_frames, "_COMPACT", 0)
    table = StateTable("all", 0, (), ("k",), own_columns({"k": pl.Int64()}))
    store = CompactStore()
    write(store, pl.DataFrame({"k": range(100), "@t": [1] * 100}), table)
    assert rows_of(store, table)["k"].sort().to_list() == list(range(100))


def test_rows_in_another_order_are_damage() -> None:
    store = CompactStore()
    write(store, points(0))
    ((key, data),) = store.values.items()
    damaged = encode_frame(decode_frame(pa.py_buffer(data)).reverse())
    store.values[key] = damaged
    state = KeyedState(store, RunCache(None), [POINT], "dedup[3], key group 1")
    runs = state._runs["point"]
    runs.parts = [part._replace(size=len(damaged), check=zlib.crc32(damaged)) for part in runs.parts]
    with pytest.raises(CheckpointError, match="not in the order of their hashes") as error:
        state.lookup(POINT, pl.DataFrame({"k": [3]}), 1, 0)
    assert error.value.code == "CKPT012"


def test_a_key_column_that_is_missing_is_damage() -> None:
    store = CompactStore()
    write(store, points(0))
    table = replace(POINT, lookup=("other",), identity=("other",))
    with pytest.raises(CheckpointError) as error:
        rows_of(store, table)
    assert error.value.code in ("CKPT012", "CKPT013")
