"""The index of a run's hashes against a binary search."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.hashing import Hashes
from stateplan.runtime.state.hash_index import HashIndex
from stateplan.runtime.state.runs import HASH, Rows

LAST = (1 << 64) - 1
HASHES = st.one_of(
    st.integers(0, LAST),
    st.integers(0, 40),
    st.integers(LAST - 40, LAST),
    st.builds(lambda high, low: (high << 32) + low, st.integers(0, 3), st.integers(0, 3)),
)


def array(values: list[int]) -> Hashes:
    return np.array(sorted(values), np.uint64)


@given(st.lists(HASHES, min_size=1, max_size=200), st.sets(HASHES, max_size=60))
def test_the_first_row_of_each_hash_is_found(stored: list[int], sought: set[int]) -> None:
    hashes = array(stored)
    inside = array([h for h in sought | set(stored[::3]) if stored and min(stored) <= h <= max(stored)])
    rows, found = HashIndex(hashes).find(inside)
    ordered = hashes.tolist()
    assert found.tolist() == [h for h in inside.tolist() if h in ordered]
    assert rows.tolist() == [ordered.index(h) for h in found.tolist()]


@pytest.mark.parametrize("most_of_one", [False, True])
def test_rows_are_those_of_a_binary_search(most_of_one: bool) -> None:
    """Also where a quarter of the rows have the same hash."""
    random = np.random.default_rng(7)
    hashes = random.integers(0, LAST, 20_000, dtype=np.uint64, endpoint=True)
    if most_of_one:
        hashes[5_000:10_000] = hashes[5_000]
    hashes.sort()
    rows = Rows(pl.DataFrame({HASH: hashes}))
    for share in (0.0, 0.3, 1.0):
        known = random.choice(hashes, int(4_000 * share))
        others = random.integers(0, LAST, 4_000 - len(known), dtype=np.uint64, endpoint=True)
        sought = np.unique(np.concatenate([known, others]))
        expected = np.flatnonzero(np.isin(hashes, sought))
        for _ in range(4):  # the first search makes no index, the later ones use it
            assert np.array_equal(rows.hits(sought), expected)


def test_an_index_is_made_when_it_pays() -> None:
    rows = Rows(pl.DataFrame({HASH: np.arange(100_000, dtype=np.uint64) << np.uint64(40)}))
    few, many = (np.arange(n, dtype=np.uint64) << np.uint64(40) for n in (10, 10_000))
    for _ in range(2_000):
        assert len(rows.hits(few)) == 10
    assert rows._index is None
    assert len(rows.hits(many)) == 10_000
    assert rows._index is not None
    small = Rows(pl.DataFrame({HASH: np.arange(1_000, dtype=np.uint64)}))
    assert len(small.hits(np.arange(1_000, dtype=np.uint64))) == 1_000
    assert small._index is None
