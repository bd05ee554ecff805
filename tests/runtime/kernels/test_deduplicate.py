"""Deduplicate kernel against Flink's functions row by row."""

from __future__ import annotations

import pickle

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.common.types import DATE, LogicalType, row_type
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Deduplicate, Row, fold
from tests.runtime.kernels.support import CLOCK, CUTS, TYPES, changes_of, frame, inserting, legal, row_of, split
from tests.runtime.memory_state import MemoryState

ROW = row_of("lsi")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 0, 1, 2, -5, 2**62, -(2**63)]),
    st.sampled_from([None, "", "a", "ä", "日本"]),
    st.integers(0, 2),
)
KEYS = st.sampled_from([(0,), (1,), (0, 1), (1, 2), (2, 1, 0), ()])


def test_the_first_row_of_each_key_passes() -> None:
    """The state holds the keys alone, and the time of their row."""
    state = MemoryState(DeduplicateKernel(ROW, (0,), False, True))
    arriving = [
        (INSERT, (1, "a", 0)),
        (INSERT, (2, "b", 0)),
        (INSERT, (1, "c", 0)),  # the key 1 again
    ]
    assert changes_of(state.step([frame(ROW, arriving)], now=1000, ttl=[10])) == [
        (INSERT, (1, "a", 0)),
        (INSERT, (2, "b", 0)),
    ]
    assert list(state.tables[0].values()) == [
        {"c0": 1, "@t": 1000},
        {"c0": 2, "@t": 1000},
    ]
    assert changes_of(state.step([frame(ROW, [(INSERT, (2, "d", 0))])], now=1009, ttl=[10])) == []
    assert changes_of(state.step([frame(ROW, [(INSERT, (2, "e", 0))])], now=1010, ttl=[10])) == [(INSERT, (2, "e", 0))]


@given(inserting(ROWS, 40), KEYS, st.booleans(), st.booleans(), st.sampled_from([0, 10]), CLOCK)
def test_row_by_row_with_a_clock(changes, keys, last, update_before, ttl, clock) -> None:
    kernel = DeduplicateKernel(ROW, keys, last, update_before)
    state, flink = MemoryState(kernel), Deduplicate(keys, last, update_before, ttl)
    now = 1000
    for n, change in enumerate(changes):
        now += clock[n % len(clock)]
        assert changes_of(state.step([frame(ROW, [change])], now, [ttl])) == flink.add(change, now)


@given(inserting(ROWS, 60), KEYS, st.booleans(), st.sampled_from([0, 10_000]), CUTS)
def test_batches_give_the_same_rows(changes, keys, last, ttl, cuts) -> None:
    state, flink = MemoryState(DeduplicateKernel(ROW, keys, last, True)), Deduplicate(keys, last, True, ttl)
    out, expected = [], []
    for now, batch in enumerate(split(changes, cuts)):
        given_out = changes_of(state.step([frame(ROW, batch)], now, [ttl]))
        single = [c for change in batch for c in flink.add(change, now)]
        if not last:
            assert given_out == single
        else:
            touched = [tuple(r[i] for i in keys) for k, r in given_out if k != UPDATE_BEFORE]
            assert len(touched) == len(set(touched)), "a key changes once"
        out += given_out
        expected += single
        assert fold(out) == fold(expected)
    assert legal(out)


@given(inserting(ROWS, 30), CLOCK)
def test_ttl_applies_to_what_an_older_ttl_wrote(changes, clock) -> None:
    """Keep-first: a key is emitted again when the TTL of now has passed since the row of then."""
    state = MemoryState(DeduplicateKernel(ROW, (0,), False, True))
    written: dict[object, int] = {}
    now = 0
    for n, change in enumerate(changes):
        now += clock[n % len(clock)]
        ttl = [0, 5, 20][n % 3]
        key = change[1][0]
        fresh = key not in written or (ttl > 0 and written[key] + ttl <= now)
        assert changes_of(state.step([frame(ROW, [change])], now, [ttl])) == ([change] if fresh else [])
        if fresh:
            written[key] = now


def test_keep_last_within_and_across_batches() -> None:
    state = MemoryState(DeduplicateKernel(ROW, (0,), True, True))
    assert changes_of(state.step([frame(ROW, [(0, (1, "a", 1)), (0, (2, "b", 1)), (0, (1, "c", 2))])], 1, [0])) == [
        (INSERT, (2, "b", 1)),
        (INSERT, (1, "c", 2)),
    ]
    assert changes_of(state.step([frame(ROW, [(0, (1, "d", 3)), (0, (3, "x", 1)), (0, (2, "b", 1))])], 2, [0])) == [
        (UPDATE_BEFORE, (1, "c", 2)),
        (UPDATE_AFTER, (1, "d", 3)),
        (INSERT, (3, "x", 1)),
    ]


def test_an_equal_row_refreshes_keep_last_without_ttl_change_too() -> None:
    state = MemoryState(DeduplicateKernel(ROW, (0,), True, True))
    same = frame(ROW, [(0, (1, "a", 1))])
    state.step([same], 0, [10])
    assert changes_of(state.step([same], 6, [10])) == [(UPDATE_BEFORE, (1, "a", 1)), (UPDATE_AFTER, (1, "a", 1))]
    assert [k for k, _ in changes_of(state.step([same], 12, [10]))] == [UPDATE_BEFORE, UPDATE_AFTER]
    assert changes_of(state.step([same], 22, [10])) == [(INSERT, (1, "a", 1))]


def test_processing_time_is_neither_compared_nor_kept() -> None:
    clock = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3, kind="PROCTIME")
    row = row_type([("k", TYPES["i"]), ("pt", clock), ("v", TYPES["i"])])
    kernel = DeduplicateKernel(row, (0,), True, True)
    assert list(kernel.tables[0].schema) == ["c0", "c2"]
    state = MemoryState(kernel)

    def at(instant: int, v: int) -> pl.DataFrame:
        return pl.DataFrame({"c0": [1], "c1": [instant], "c2": [v]}).with_columns(
            pl.col("c0", "c2").cast(pl.Int32), pl.col("c1").cast(pl.Datetime("ms", "UTC"))
        )

    state.step([at(1, 7)], 1, [0])
    assert state.step([at(2, 7)], 2, [0]).height == 0
    out = state.step([at(3, 8)], 3, [0])
    assert out["kind"].to_list() == [UPDATE_BEFORE, UPDATE_AFTER]
    assert out["c2"].to_list() == [7, 8] and out["c1"].to_list()[0] is None


@pytest.mark.parametrize("kind", [UPDATE_BEFORE, UPDATE_AFTER, DELETE])
@pytest.mark.parametrize("last", [False, True])
def test_only_insertions_are_taken(kind: int, last: bool) -> None:
    state = MemoryState(DeduplicateKernel(ROW, (0,), last, True))
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, "a", 1))], kind=True)], 1, [0])) == [(INSERT, (1, "a", 1))]
    with pytest.raises(RunError, match="RUN061"):
        state.step([frame(ROW, [(kind, (1, "a", 1))])], 2, [0])


@pytest.mark.parametrize("last", [False, True])
def test_values_of_every_type(last: bool) -> None:
    types = [
        LogicalType("DECIMAL", precision=20, scale=3),
        LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3),
        DATE,
        LogicalType("DOUBLE"),
        LogicalType("ARRAY", children=(TYPES["i"],)),
        row_type([("x", TYPES["s"])]),
        LogicalType("VARBINARY", length=9),
        LogicalType("TIME_WITHOUT_TIME_ZONE", precision=0),
    ]
    values = [
        ["1.500", None, "-2.250", "1.500"],
        [1, None, 2, 1],
        [1, None, 2, 1],
        [float("nan"), None, 0.5, float("nan")],
        [[1, None], None, [], [1, None]],
        [{"x": "é"}, None, {"x": None}, {"x": "é"}],
        [b"a", None, b"", b"a"],
        [10**9, None, 2 * 10**9, 10**9],
    ]
    for ltype, column in zip(types, values, strict=True):
        row = row_type([("k", ltype), ("v", TYPES["i"])])
        keys = pl.Series("c0", column, strict=False)
        rows = pl.DataFrame([keys.cast(ltype.polars()), pl.Series("c1", [1, 2, 3, 4], dtype=pl.Int32)])
        state = MemoryState(DeduplicateKernel(row, (0,), last, True))
        out = state.step([rows], 1, [0])
        assert sorted(out["c1"].to_list()) == ([2, 3, 4] if last else [1, 2, 3]), ltype
        again = state.step([rows], 2, [0])
        assert again.height == 0, ltype


def test_empty_input_and_pickle() -> None:
    for last in (False, True):
        kernel = pickle.loads(pickle.dumps(DeduplicateKernel(ROW, (0,), last, True)))
        state = MemoryState(kernel)
        assert state.step([frame(ROW, [])], 1, [0]).height == 0
        assert kernel.keys([frame(ROW, [])]) == [None]
        assert pickle.loads(pickle.dumps(kernel)) == kernel
