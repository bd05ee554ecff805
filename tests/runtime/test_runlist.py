"""Merges in steps, and the sweep: whatever is done in between, state is what a dictionary says, and no micro-batch
moves more than a bounded number of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.kernel import FormerColumns, StateTable, own_columns
from stateplan.runtime.state import run_list as runlist
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.runs import LAST_PREFIX, RunInfo
from tests.runtime.memory_state import ttls
from tests.support.long_runs import LONG

MANY = StateTable("many", 0, ("k",), ("k", "e"), own_columns(dict.fromkeys(("k", "e", "v", "w"), pl.Int64())))
POINT = StateTable("point", 0, ("k",), ("k",), own_columns({"k": pl.Int64(), "v": pl.Int64()}))

KEYS = range(24)


@contextmanager
def small_steps(rows: int) -> Iterator[None]:
    """Merges of few rows already take several steps."""
    with mock.patch.multiple(runlist, QUANTUM_ROWS=rows, TIER_ROWS=4, MERGE_FACTOR=3, PART_BYTES=40 * rows):
        yield


def parts_of(store: MemoryRunStore, table: StateTable) -> list[RunInfo]:
    return [] if store.text is None else [RunInfo(*entry) for entry in json.loads(store.text)["tables"][table.name]]


def check_structure(store: MemoryRunStore, table: StateTable) -> None:
    """Every stored frame belongs to one part, and no two parts of a run are for one hash."""
    parts = parts_of(store, table)
    assert set(store.values) == {f"{p.id}/{n}" for p in parts for n in range(p.chunks)}
    for i, part in enumerate(parts):
        assert 0 <= part.low <= part.high <= LAST_PREFIX
        assert part.rows > 0
        for other in parts[:i]:
            assert not (other.run == part.run and other.overlaps(part.low, part.high))


@dataclass
class Row:
    value: int
    time: int
    ever_expired: bool = False


@dataclass
class Reference:
    """The newest version of every row; the rest is gone for good."""

    rows: dict[tuple[int, int], Row] = field(default_factory=dict)

    def look(self, now: int, ttl: int) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
        """The rows that must be found, and those that may be found: what once had expired may have been dropped."""
        must, may = set(), set()
        for identity, row in self.rows.items():
            row.ever_expired |= ttl > 0 and row.time + ttl <= now
            if ttl == 0 or row.time + ttl > now:
                may.add((*identity, row.value, row.time))
                if not row.ever_expired:
                    must.add((*identity, row.value, row.time))
        return must, may


STEP = st.tuples(
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 2), st.integers(0, 99), st.integers(0, 60)), max_size=12),
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 2)), max_size=6),
    st.integers(0, 60),
    st.sampled_from([0, 40, 150, 1000]),
    st.booleans(),
    st.sampled_from([True, *[False] * 5]),
)


def versions(last: int) -> FormerColumns:
    """In each version, ``v`` and ``w`` have changed places. One of them is the negative of the other."""
    names = {
        version: dict(zip("kevw", "kewv" if (last - version) % 2 else "kevw", strict=True)) for version in range(last)
    }
    return {version: {"many": columns} for version, columns in names.items()}


@given(st.lists(STEP, max_size=40), st.integers(1, 12))
def test_state_is_that_of_a_dictionary_whatever_merges_and_sweeps_do(
    steps: list[tuple[list[tuple[int, int, int, int]], list[tuple[int, int]], int, int, bool, bool]], quantum: int
) -> None:
    store, cache, reference, now, version = MemoryRunStore(), RunCache(None), Reference(), 1000, 0
    everything = pl.DataFrame({"k": list(KEYS)})
    with small_steps(quantum):
        for upserts, deletes, wait, ttl, idle, changes in steps:
            now += wait
            if changes:
                version, cache = version + 1, RunCache(None)
            place, other = "vw" if version % 2 == 0 else "wv"
            state = KeyedState(store, cache, [MANY], "test", version, versions(version))
            must, may = reference.look(now, ttl)
            if idle:
                state.sweep(now, ttls([ttl]))
            else:
                # Times of access need not ascend: by event time a later change may be of an earlier time.
                new = {(k, e): (v, now - back) for k, e, v, back in upserts}
                gone = sorted({d for d in deletes if d not in new})
                rows = [(*i, *row) for i, row in new.items()]
                state.write(
                    MANY,
                    pl.DataFrame(rows, schema=["k", "e", place, "@t"], orient="row", schema_overrides=MANY.schema)
                    .with_columns((-pl.col(place)).alias(other))
                    .select(*MANY.schema, "@t"),
                    pl.DataFrame(gone, schema={"k": pl.Int64, "e": pl.Int64}, orient="row"),
                    now,
                    ttl,
                )
                state.flush()
                reference.rows.update({i: Row(*row) for i, row in new.items()})
                for identity in gone:
                    reference.rows.pop(identity, None)
                must, may = reference.look(now, ttl)
            state = KeyedState(store, cache, [MANY], "test", version, versions(version))
            frame = state.lookup(MANY, everything, now, ttl)
            assert frame["v"].to_list() == (-frame["w"]).to_list()
            found = frame.select("k", "e", place, "@t").rows()
            state.flush()
            check_structure(store, MANY)
            assert len(found) == len(set(found))
            assert must <= set(found) <= may


def write(store: MemoryRunStore, keys: np.ndarray, now: int, ttl: int = 0) -> KeyedState:
    state = KeyedState(store, RunCache(None), [POINT], "test")
    frame = pl.DataFrame({"k": keys, "v": keys}, schema=POINT.schema).with_columns(
        pl.lit(now, dtype=pl.Int64).alias("@t")
    )
    state.write(POINT, frame, None, now, ttl)
    state.flush()
    return state


def depth(store: MemoryRunStore) -> int:
    """The largest number of parts that are for one hash."""
    parts = parts_of(store, POINT)
    return max(sum(p.low <= at <= p.high for p in parts) for at in {p.low for p in parts})


def test_no_micro_batch_moves_many_rows_and_a_lookup_searches_few_parts() -> None:
    store, size, batches, moved, deepest = MemoryRunStore(), 40, 400, [], 0
    with small_steps(64):
        for n in range(batches):
            state = write(store, np.arange(n * size, (n + 1) * size), n)
            moved.append(state.stats.merged_rows)
            if n % 10 == 0:
                deepest = max(deepest, depth(store))
    # Four steps of at most twice max(64, 2 * 40) rows, and as much again for merges of very few rows.
    assert max(moved) <= 10 * 2 * size
    # Between 40 and 16,000 rows lie six tiers of three runs.
    assert sum(moved) <= 7 * size * batches
    assert deepest <= 2 * 3 * 6
    assert sum(p.rows for p in parts_of(store, POINT)) == size * batches


def test_huge_runs_are_merged_in_steps() -> None:
    size, writes = (10_000, 600) if LONG else (5_000, 300)
    store, moved, everything = MemoryRunStore(), [], pl.DataFrame({"k": range(3 * size)})
    for n in range(3):
        write(store, np.arange(n * size, (n + 1) * size), n)
    huge = {p.run for p in parts_of(store, POINT)}
    with small_steps(64):
        for n in range(3, writes):
            moved.append(write(store, np.array([n % 7]), n).stats.merged_rows)
            if n % 100 == 0:
                found = KeyedState(store, RunCache(None), [POINT], "t").lookup(POINT, everything, n, 0)
                assert found.height == 3 * size
        check_structure(store, POINT)
    assert max(moved) <= 10 * 64
    assert 3 * size < sum(moved) < 6 * size
    assert not huge & {p.run for p in parts_of(store, POINT)}


def test_rows_of_one_hash_are_merged_at_once() -> None:
    """They cannot be told apart by it; a lookup of that key reads them all as well."""
    table = StateTable("one", 0, (), ("k",), own_columns({"k": pl.Int64()}))
    store = MemoryRunStore()
    with small_steps(8):
        for n in range(9):
            state = KeyedState(store, RunCache(None), [table], "test")
            frame = pl.DataFrame({"k": range(n * 50, n * 50 + 50)}).with_columns(pl.lit(n, dtype=pl.Int64).alias("@t"))
            state.write(table, frame, None, n, 0)
            state.flush()
    assert len({p.run for p in parts_of(store, table)}) <= 3
    assert KeyedState(store, RunCache(None), [table], "t").lookup(table, pl.DataFrame({"x": [1]}), 9, 0).height == 450


def test_a_sweep_drops_what_has_expired_without_reading_it() -> None:
    store = MemoryRunStore()
    for n in range(5):
        write(store, np.arange(n * 10, n * 10 + 10), 100 * n)
    store.values = dict.fromkeys(store.values, b"not to be read")
    state = KeyedState(store, RunCache(None), [POINT], "test")
    state.sweep(600, ttls([250]))
    assert [p.newest for p in parts_of(store, POINT)] == [400]
    assert (state.stats.expired_rows[0], state.stats.expired_runs, state.stats.merged_rows) == (40, 4, 0)
    KeyedState(store, RunCache(None), [POINT], "test").sweep(600, ttls([0]))
    assert len(parts_of(store, POINT)) == 1


def test_a_sweep_rewrites_what_has_mostly_expired_part_by_part() -> None:
    store = MemoryRunStore()
    with small_steps(64):
        for n in range(60):
            write(store, np.arange(n * 20, n * 20 + 20), n)
        before = sum(p.rows for p in parts_of(store, POINT))
        moved = []
        for _ in range(200):
            state = KeyedState(store, RunCache(None), [POINT], "test")
            state.sweep(60, ttls([20]))
            moved.append(state.stats.merged_rows)
            check_structure(store, POINT)
    assert before == 1200
    live = sum(p.rows for p in parts_of(store, POINT))
    assert 20 * 19 <= live <= 2 * 20 * 19
    assert 0 < max(moved) <= 10 * 64
    assert moved[-1] == 0


def test_a_sweep_drops_tombstones_that_hide_nothing() -> None:
    store = MemoryRunStore()
    state = KeyedState(store, RunCache(None), [POINT], "test")
    state.write(POINT, None, pl.DataFrame({"k": list(range(10))}), 5, 0)
    state.flush()
    KeyedState(store, RunCache(None), [POINT], "test").sweep(6, ttls([0]))
    assert store.values == {}
