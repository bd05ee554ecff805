"""The workers' run cache: bounded in memory and on disk, and state is right where the disk is full or cannot be
written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from stateplan.runtime.kernel import StateTable, own_columns
from stateplan.runtime.memory import CacheSettings, cache_settings, rocksdb_settings
from stateplan.runtime.notices import Notices
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import encode_frame

POINT = StateTable("point", 0, ("k",), ("k",), own_columns({"k": pl.Int64(), "v": pl.Int64()}))


def frame(first: int, count: int = 1000) -> pl.DataFrame:
    return pl.DataFrame({"k": range(first, first + count), "@h": range(first, first + count)}).with_columns(
        pl.col("@h").cast(pl.UInt64)
    )


def data(first: int) -> bytes:
    return encode_frame(frame(first))


def files(folder: Path) -> dict[str, int]:
    return {f.stem: f.stat().st_size for f in folder.rglob("*.arrow")}


@pytest.mark.parametrize("dtype", [pl.String, pl.Binary])
def test_a_stored_frame_holds_no_text_but_its_own(dtype: pl.DataType) -> None:
    """A few rows of a long column share its text in memory, and are stored without the rest of it."""
    texts = pl.Series("k", [f"a text of more than twelve bytes {number}" for number in range(1000)])
    few = pl.DataFrame([texts.cast(dtype)]).with_row_index("@h")[[3, 999]]
    stored = encode_frame(few)
    assert b"bytes 999" in stored and b"bytes 998" not in stored
    file = pa.ipc.open_file(stored)
    assert file.num_record_batches == 1 and few.equals(pl.DataFrame(pl.from_arrow(file.read_all())))


def step(store: MemoryRunStore, cache: RunCache, number: int) -> KeyedState:
    """Writes 100 rows."""
    state = KeyedState(store, cache, [POINT], "dedup[3], key group 1")
    rows = pl.DataFrame({"k": range(number * 50, number * 50 + 100)}).with_columns(
        pl.lit(number, dtype=pl.Int64).alias("v"), pl.lit(number, dtype=pl.Int64).alias("@t")
    )
    state.lookup(POINT, rows.select("k"), number, 0)
    state.write(POINT, rows, None, number, 0)
    state.flush()
    return state


def run_state(store: MemoryRunStore, cache: RunCache, steps: int) -> list[tuple[Any, ...]]:
    """Writes 100 rows in each step and reads all rows back, all but the last through this process only."""
    for n in range(steps):
        step(store, cache, n)
    state = KeyedState(store, cache, [POINT], "dedup[3], key group 1")
    return sorted(state.lookup(POINT, pl.DataFrame({"k": range(steps * 50 + 100)}), steps, 0).rows())


@pytest.fixture
def expected() -> list[tuple[Any, ...]]:
    return run_state(MemoryRunStore(), RunCache(None), 20)


def refusing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Every write of a file fails, after half of it."""

    def write(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", write)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_takes_nothing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[tuple[Any, ...]]
) -> None:
    refusing(monkeypatch, number)
    cache = RunCache(str(tmp_path), memory=8_000)
    assert run_state(MemoryRunStore(), cache, 20) == expected
    assert [f for f in tmp_path.rglob("*") if f.is_file()] == []
    assert cache.unwritten > 20
    assert cache.failure == os.strerror(number)


def test_a_disk_with_little_left_is_not_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[tuple[Any, ...]]
) -> None:
    cache = RunCache(str(tmp_path), reserve=1 << 62)
    store = MemoryRunStore()
    assert run_state(store, cache, 20) == expected
    assert files(tmp_path) == {}
    state = KeyedState(store, cache, [POINT], "here")
    state.write(POINT, pl.DataFrame({"k": [1], "v": [1], "@t": [99]}), None, 99, 0)
    state.flush()
    assert state.stats.cache_unwritten == 1


def test_what_is_held_in_memory_is_bounded() -> None:
    one = len(data(0))
    cache = RunCache(None, memory=3 * one).of("here")
    for n in range(10):
        cache.add(f"r{n}", data(n))
    fetched: list[int] = []

    def fetch(n: int) -> Any:
        return lambda: (fetched.append(n), data(n))[1]

    assert [cache.load(f"r{n}", fetch(n)).frame["k"][0] for n in (9, 8, 7, 2, 9)] == [9, 8, 7, 2, 9]
    assert fetched == [2, 9]  # r2 took the place of r9


def test_a_run_larger_than_the_bound_is_not_held() -> None:
    cache = RunCache(None, memory=10).of("here")
    assert len(cache.add("big", data(0))) == 1000
    assert len(cache.load("big", lambda: data(7))) == 1000
    assert cache.load("big", lambda: data(7)).frame["k"][0] == 7


def test_files_keep_to_the_limit_and_those_not_opened_for_longest_go(tmp_path: Path) -> None:
    one = len(data(0))
    shared = RunCache(str(tmp_path), limit=8 * one)
    for n in range(30):
        owned = shared.of(f"group {n % 2}")
        owned.add(f"r{n}", data(n))
        for at, path in enumerate(sorted(tmp_path.rglob("*.arrow"), key=lambda p: int(p.stem[1:]))):
            os.utime(path, (at, at))
        assert sum(files(tmp_path).values()) <= 8 * one
    kept = {int(name[1:]) for name in files(tmp_path)}
    assert max(kept) == 29
    assert min(kept) >= 20
    assert shared.of("group 0").load("r0", lambda: data(0)).frame["k"][0] == 0


def test_little_address_space_limits_what_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    one = len(data(0))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (16 * one, 16 * one))
    shared = RunCache(str(tmp_path))
    for n in range(10):
        shared.of("here").add(f"r{n}", data(n))
    assert len(shared._mapped_runs) == 4
    assert shared._mapped_bytes <= 4 * one
    assert shared.of("here").load("r0", lambda: b"").frame["k"][0] == 0


def test_files_of_failed_tasks_are_removed(tmp_path: Path) -> None:
    store, cache = MemoryRunStore(), RunCache(str(tmp_path))
    run_state(store, cache, 3)
    before = store.text, dict(store.values)
    run_state(store, cache, 1)
    store.text, store.values = before  # the commit failed
    (next(tmp_path.iterdir()) / "0123.99.tmp").write_bytes(b"half")
    stranger = tmp_path / "another group"
    stranger.mkdir()
    (stranger / "x.arrow").write_bytes(b"")
    left = {f.name for f in tmp_path.rglob("*.*")}
    assert len(left) > len(store.values) + 1
    KeyedState(store, RunCache(str(tmp_path)), [POINT], "dedup[3], key group 1")
    assert {f.name for f in tmp_path.rglob("*.*")} == {
        "x.arrow",
        *(f"{key.split('/')[0]}.arrow" for key in store.values if f"{key.split('/')[0]}.arrow" in left),
    }


def test_a_damaged_file_on_local_disk_does_not_matter(tmp_path: Path, expected: list[tuple[Any, ...]]) -> None:
    store = MemoryRunStore()
    run_state(store, RunCache(str(tmp_path)), 20)
    for n, path in enumerate(tmp_path.rglob("*.arrow")):
        path.write_bytes([b"", b"garbage", encode_frame(frame(0, 3)), path.read_bytes()[:-9]][n % 4])
    again = run_state_again(store, RunCache(str(tmp_path)))
    assert again == expected


def run_state_again(store: MemoryRunStore, cache: RunCache) -> list[tuple[Any, ...]]:
    state = KeyedState(store, cache, [POINT], "dedup[3], key group 1")
    return sorted(state.lookup(POINT, pl.DataFrame({"k": range(1100)}), 20, 0).rows())


def test_merges_wait_for_the_second_micro_batch_of_a_start(tmp_path: Path, expected: list[tuple[Any, ...]]) -> None:
    store, merged = MemoryRunStore(), list[int]()
    for start in range(4):
        cache = RunCache(str(tmp_path / str(start)))
        for n in range(5 * start, 5 * start + 5):
            state = step(store, cache, n)
            merged.append(state.stats.merged_rows)
    assert run_state_again(store, RunCache(None)) == expected
    # Eight runs become one. The second time, the eighth comes in the first micro-batch of a start.
    assert [n for n, rows in enumerate(merged) if rows] == [7, 16]


def test_merges_do_not_wait_for_ever_in_jobs_of_one_micro_batch(tmp_path: Path) -> None:
    store = MemoryRunStore()
    merged = [step(store, RunCache(str(tmp_path / str(n))), n).stats.merged_rows for n in range(40)]
    assert [n for n, rows in enumerate(merged) if rows] == [8, 16, 24, 32]
    assert len(json.loads(store.text or "")["tables"]["point"]) < 12


def test_merges_do_not_wait_where_local_disk_takes_no_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (None, str(tmp_path / "file")):
        store = MemoryRunStore()
        merged = [step(store, RunCache(folder), n).stats.merged_rows for n in range(8)]
        assert [n for n, rows in enumerate(merged) if rows] == [7]


def test_the_user_is_told_once() -> None:
    said: list[str] = []
    disk = Notices([], "/tmp/runs", said.append)
    disk.look({"a": {"rows_in": 1}})
    disk.look({"a": {"cache_unwritten": 3}})
    disk.look({"a": {"cache_unwritten": 4}})
    assert len(said) == 1
    assert "/tmp/runs" in said[0]


def test_settings(tmp_path: Path) -> None:
    options = {
        "taskmanager.memory.managed.size": "256 mb",
        "parallelism.default": "4",
        "state.backend.forst.cache.dir": str(tmp_path / "a" / "b"),
        "state.backend.forst.cache.size-based-limit": "10 gb",
        "state.backend.forst.cache.reserve-size": "1 kb",
    }
    found = cache_settings(options, [].append)
    assert found == CacheSettings(found.folder, 16 << 20, 10 << 30, 1024)
    assert Path(found.folder or "").is_relative_to(tmp_path / "a" / "b")
    assert rocksdb_settings(options)["spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"] == "128"


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said: list[str] = []
    place = str(tmp_path / "file" / "runs")
    assert cache_settings({"state.backend.forst.cache.dir": place}, said.append).folder is None
    assert len(said) == 1
    assert place in said[0]


def test_runs_that_another_process_has_merged_are_not_mapped_any_more(tmp_path: Path) -> None:
    store, one, other = MemoryRunStore(), RunCache(str(tmp_path)), RunCache(str(tmp_path))
    run_state(store, one, 7)
    asked = pl.DataFrame({"k": [0, 1]})
    found = KeyedState(store, other, [POINT], "dedup[3], key group 1").lookup(POINT, asked, 7, 0)
    before = set(other._mapped_runs)
    assert len(before) == 7
    step(store, one, 7)  # the eighth run: one takes their place
    state = KeyedState(store, other, [POINT], "dedup[3], key group 1")
    assert not other._mapped_runs
    assert other._mapped_bytes == 0
    assert state.lookup(POINT, asked, 8, 0)["k"].sort().to_list() == found["k"].sort().to_list()
    assert {f"{run}.arrow" for run in other._mapped_runs} == {path.name for path in tmp_path.rglob("*.arrow")}
