"""Sorted runs against a dictionary: whatever is written, merged and expired, a lookup finds what a dict would."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import CheckpointError
from stateplan.runtime.kernel import StateTable, own_columns
from stateplan.runtime.state import stored_frames
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.run_list import due_merges, tier

POINT = StateTable("point", 0, ("k",), ("k",), own_columns({"k": pl.Int64(), "v": pl.Int64()}))
MANY = StateTable("many", 0, ("k",), ("k", "e"), own_columns({"k": pl.Int64(), "e": pl.String(), "v": pl.Int64()}))

KEYS = st.one_of(st.none(), st.integers(0, 12))
ENTRIES = st.sampled_from(["a", "b", "c"])

Step: TypeAlias = tuple[list[tuple[object, str, int]], list[tuple[object, str]], int]
"""Upserts, deletes, and how much later it is."""


@dataclass
class Reference:
    """State as a dict from identity to (value, last access)."""

    rows: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)

    def live(self, keys: set[object], now: int, ttl: int) -> set[tuple[object, ...]]:
        return {(*i, *row) for i, row in self.rows.items() if i[0] in keys and (ttl == 0 or row[1] + ttl > now)}


def rows(table: StateTable, values: list[tuple[object, ...]], now: int) -> pl.DataFrame:
    return pl.DataFrame([(*v, now) for v in values], schema={**table.schema, "@t": pl.Int64()}, orient="row")


def found(frame: pl.DataFrame, keys: set[object]) -> set[tuple[object, ...]]:
    listed = [r for r in frame.rows() if r[0] in keys]
    assert len(listed) == len(set(listed))
    return set(listed)


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(KEYS, ENTRIES, st.integers(0, 99)), max_size=8),
            st.lists(st.tuples(KEYS, ENTRIES), max_size=4),
            st.integers(1, 400),
        ),
        max_size=40,
    ),
    st.sampled_from([0, 300, 1000]),
    st.booleans(),
)
def test_like_a_dict(steps: list[Step], ttl: int, is_compact: bool) -> None:
    """Also where frames are stored as in Spark's state store, and read from there each time."""
    store = MemoryRunStore()
    store.is_compact = is_compact
    with patch.object(stored_frames, "_COMPACT", 0):
        compare(steps, ttl, store, RunCache(None, memory=0 if is_compact else 1 << 20))


def compare(steps: list[Step], ttl: int, store: MemoryRunStore, cache: RunCache) -> None:
    reference, now = Reference(), 0
    for upserts, deletes, wait in steps:
        now += wait
        state = KeyedState(store, cache, [MANY], "test")
        keys = {u[0] for u in upserts} | {d[0] for d in deletes} | {0, None}
        asked = pl.DataFrame({"k": list(keys)}, schema={"k": pl.Int64})
        assert found(state.lookup(MANY, asked, now, ttl), keys) == reference.live(keys, now, ttl)
        new = {(u[0], u[1]): u[2] for u in upserts}
        gone = {d for d in deletes if d not in new}
        state.write(
            MANY,
            rows(MANY, [(*i, v) for i, v in new.items()], now),
            pl.DataFrame(list(gone), schema={"k": pl.Int64, "e": pl.String}, orient="row"),
            now,
            ttl,
        )
        state.flush()
        reference.rows.update({i: (v, now) for i, v in new.items()})
        for identity in gone:
            reference.rows.pop(identity, None)
        assert set(store.values) == {f"{run}/0" for run in _runs(store)}


def _runs(store: MemoryRunStore) -> list[str]:
    import json

    return (
        [] if store.text is None else [e[0] for entries in json.loads(store.text)["tables"].values() for e in entries]
    )


def _write(store: MemoryRunStore, cache: RunCache, first: int, count: int, now: int, ttl: int = 0) -> KeyedState:
    state = KeyedState(store, cache, [POINT], "test")
    state.write(POINT, rows(POINT, [(k, k) for k in range(first, first + count)], now), None, now, ttl)
    state.flush()
    return state


def test_lengthened_ttl_finds_rows_that_would_have_expired() -> None:
    store, cache = MemoryRunStore(), RunCache(None)
    _write(store, cache, 0, 10, now=1_000, ttl=500)
    asked = pl.DataFrame({"k": [3]})
    assert KeyedState(store, cache, [POINT], "test").lookup(POINT, asked, 2_000, 5_000).rows() == [(3, 3, 1_000)]


def test_shortened_ttl_hides_rows_written_before() -> None:
    store, cache = MemoryRunStore(), RunCache(None)
    _write(store, cache, 0, 10, now=1_000)
    asked = pl.DataFrame({"k": [3]})
    assert KeyedState(store, cache, [POINT], "test").lookup(POINT, asked, 2_000, 0).height == 1
    assert KeyedState(store, cache, [POINT], "test").lookup(POINT, asked, 2_000, 1_000).is_empty()


def test_a_merge_never_uncovers_an_older_version() -> None:
    store, cache = MemoryRunStore(), RunCache(None)
    _write(store, cache, 0, 3000, now=1)
    for n in range(1, 40):
        _write(store, cache, 5, 1, now=n * 10, ttl=15)
    state = KeyedState(store, cache, [POINT], "test")
    assert state.lookup(POINT, pl.DataFrame({"k": [5]}), 10_000, 0).rows() == [(5, 5, 390)]


def test_runs_stay_few_and_rows_are_rewritten_seldom() -> None:
    store, cache, written, batches, size = MemoryRunStore(), RunCache(None), 0, 200, 300
    state = None
    for n in range(batches):
        state = _write(store, cache, n * size, size, now=n)
        written += state.stats.bytes_written
    assert state is not None
    assert state.stats.rows["point"] == batches * size
    assert len(_runs(store)) < 30
    live = sum(len(v) for v in store.values.values())
    assert written < 5 * live


def test_expired_runs_are_dropped_unread() -> None:
    store, cache = MemoryRunStore(), RunCache(None)
    for n in range(5):
        _write(store, cache, n * 100, 100, now=n, ttl=50)
    state = KeyedState(store, cache, [POINT], "test")
    assert state.lookup(POINT, pl.DataFrame({"k": [1]}), 1_000, 50).is_empty()
    state.flush()
    assert state.stats.expired_runs == 5
    assert store.values == {}


@pytest.mark.parametrize(
    ("sizes", "due"),
    [
        ([], []),
        ([10] * 7, []),
        ([10] * 8, [(0, 8)]),
        ([10_000, *[10] * 8], [(1, 9)]),
        ([3_000] * 7 + [400] * 7 + [10] * 7, []),
        ([5, 10_000] + [10] * 7, []),
        ([10_000, 10] * 8, [(0, 16)]),
        ([10] * 8 + [10_000] + [10] * 9, [(0, 8), (9, 18)]),
        ([10] * 4 + [None] + [10] * 7, []),
        ([10] * 8 + [None] + [400] * 8, [(0, 8), (9, 17)]),
    ],
)
def test_due_merges(sizes: list[int | None], due: list[tuple[int, int]]) -> None:
    assert due_merges([None if rows is None else tier(rows) for rows in sizes]) == due


def test_cached_run_files_are_shared_and_replaceable(tmp_path: Path) -> None:
    store = MemoryRunStore()
    _write(store, RunCache(str(tmp_path)), 0, 10, now=1)
    files = [f for f in tmp_path.rglob("*") if f.is_file()]
    assert [f.suffix for f in files] == [".arrow"]
    asked = pl.DataFrame({"k": [3]})
    store_values, store.values = store.values, {}
    assert KeyedState(store, RunCache(str(tmp_path)), [POINT], "test").lookup(POINT, asked, 2, 0).height == 1
    store.values = store_values
    files[0].write_bytes(b"garbage")
    assert KeyedState(store, RunCache(str(tmp_path)), [POINT], "test").lookup(POINT, asked, 2, 0).height == 1
    files[0].unlink()
    assert KeyedState(store, RunCache(str(tmp_path)), [POINT], "test").lookup(POINT, asked, 2, 0).height == 1


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("missing", "CKPT011"),
        ("short", "CKPT012"),
        ("garbage", "CKPT012"),
        ("one byte", "CKPT012"),
        ("manifest", "CKPT010"),
        ("format", "CKPT010"),
        ("columns", "CKPT013"),
    ],
)
def test_damage_is_named(damage: str, code: str) -> None:
    store = MemoryRunStore()
    _write(store, RunCache(None), 0, 10, now=1)
    key = next(iter(store.values))
    table = POINT
    if damage == "missing":
        store.values.clear()
    elif damage == "short":
        store.values[key] = store.values[key][:-1]
    elif damage == "garbage":
        store.values[key] = b"x" * len(store.values[key])
    elif damage == "one byte":
        at = store.values[key].index((7).to_bytes(8, "little"))  # of a row's value: it can be read all the same
        store.values[key] = store.values[key][:at] + b"\x08" + store.values[key][at + 1 :]
    elif damage == "manifest":
        store.text = '{"format": 1'
    elif damage == "format":
        store.text = '{"format": 99, "tables": {}}'
    else:
        table = StateTable("point", 0, ("k",), ("k",), own_columns({"k": pl.String(), "v": pl.Int64()}))
    with pytest.raises(CheckpointError) as error:
        KeyedState(store, RunCache(None), [table], "dedup[3], key group 2").lookup(
            table, pl.DataFrame({"k": [3]}).cast({"k": table.schema["k"]}), 2, 0
        )
    assert error.value.code == code
    assert "dedup[3], key group 2" in error.value.message
