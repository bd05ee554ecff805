"""Changelog normalization against Flink's function row by row."""

from __future__ import annotations

import pickle

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND
from stateplan.common.types import BOOLEAN, INT, LogicalType, row_type
from stateplan.functions.rex import Call, InputRef, Literal
from stateplan.runtime.kernels.changelog_functions import DropUpdateBeforeTransform
from stateplan.runtime.kernels.changelog_normalize import ChangelogNormalizeKernel
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangelogNormalize,
    Row,
    fold,
    upsert_fold,
)
from tests.runtime.kernels.support import CLOCK, CUTS, anything, changes_of, frame, legal, row_of, split
from tests.runtime.memory_state import MemoryState

ROW = row_of("lsi")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 0, 1, -5, 2**62]), st.sampled_from([None, "", "a", "ä"]), st.sampled_from([None, 0, 1, 2, 3])
)
KEYS = st.sampled_from([(0,), (1,), (1, 0), (2, 0, 1)])
CONDITION = Call(BOOLEAN, (InputRef(INT, 2), Literal(INT.not_null(), 1)), "$>$1", "BINARY")
CONDITIONS = st.sampled_from([(None, None), (CONDITION, lambda row: row[2] is not None and row[2] > 1)])


def test_upserts_become_complete_changes() -> None:
    """A deletion has the key alone: the state completes it."""
    state = MemoryState(ChangelogNormalizeKernel(ROW, (0,), True))
    arriving = [(INSERT, (1, "a", 1)), (INSERT, (2, "b", 2))]
    assert changes_of(state.step([frame(ROW, arriving)], now=1000, ttl=[0])) == arriving
    arriving = [(UPDATE_AFTER, (1, "c", 3)), (DELETE, (2, None, None))]
    assert changes_of(state.step([frame(ROW, arriving)], now=1001, ttl=[0])) == [
        (UPDATE_BEFORE, (1, "a", 1)),
        (UPDATE_AFTER, (1, "c", 3)),
        (DELETE, (2, "b", 2)),
    ]
    assert list(state.tables[0].values()) == [{"c0": 1, "c1": "c", "c2": 3, "@t": 1001}]


@given(anything(ROWS, 40), KEYS, st.booleans(), CONDITIONS, st.sampled_from([0, 10]), CLOCK)
def test_row_by_row_with_a_clock(changes, keys, update_before, condition, ttl, clock) -> None:
    state = MemoryState(ChangelogNormalizeKernel(ROW, keys, update_before, condition[0]))
    flink = ChangelogNormalize(keys, update_before, ttl, condition[1])
    now = 1000
    for n, change in enumerate(changes):
        now += clock[n % len(clock)]
        assert changes_of(state.step([frame(ROW, [change])], now, [ttl])) == flink.add(change, now)
    assert state.missed == flink.missed


@given(anything(ROWS, 60), KEYS, st.booleans(), CONDITIONS, st.sampled_from([0, 10_000]), CUTS)
def test_batches_give_the_same_rows(changes, keys, update_before, condition, ttl, cuts) -> None:
    state = MemoryState(ChangelogNormalizeKernel(ROW, keys, update_before, condition[0]))
    flink = ChangelogNormalize(keys, update_before, ttl, condition[1])
    out, expected = [], []
    for now, batch in enumerate(split(changes, cuts)):
        mine = changes_of(state.step([frame(ROW, batch)], now, [ttl]))
        touched = [tuple(r[i] for i in keys) for k, r in mine if k != UPDATE_BEFORE]
        assert len(touched) == len(set(touched)), "a key changes once"
        out += mine
        expected += [c for change in batch for c in flink.add(change, now)]
        if update_before:
            assert fold(out) == fold(expected)
        assert upsert_fold(out, keys) == upsert_fold(expected, keys)
    assert not update_before or legal(out)


@given(anything(ROWS, 40), KEYS, st.booleans(), CONDITIONS, st.sampled_from([0, 10_000]), CUTS)
def test_every_version_in_batches(changes, keys, update_before, condition, ttl, cuts) -> None:
    kernel = ChangelogNormalizeKernel(ROW, keys, update_before, condition[0])
    state = MemoryState(kernel.with_every_version())
    flink = ChangelogNormalize(keys, update_before, ttl, condition[1])
    for now, batch in enumerate(split(changes, cuts)):
        mine = changes_of(state.step([frame(ROW, batch)], now, [ttl]))
        assert mine == [c for change in batch for c in flink.add(change, now)]


@given(anything(ROWS, 30), st.sampled_from([5, 10]), CLOCK, CUTS)
def test_state_expires_between_batches(changes, ttl, clock, cuts) -> None:
    """A batch is what its last change of each key is, whatever has expired before it."""
    state = MemoryState(ChangelogNormalizeKernel(ROW, (0,), True))
    flink = ChangelogNormalize((0,), True, ttl)
    now = 0
    for n, batch in enumerate(split(changes, cuts)):
        now += clock[n % len(clock)]
        last = {change[1][0]: change for change in batch}
        mine = changes_of(state.step([frame(ROW, batch)], now, [ttl]))
        expected = [c for change in last.values() for c in flink.add(change, now)]
        assert sorted(mine, key=repr) == sorted(expected, key=repr)


def test_keys_deleted_after_their_row_expired_are_counted_once_each() -> None:
    state = MemoryState(ChangelogNormalizeKernel(ROW, (0,), True))
    state.step([frame(ROW, [(INSERT, (k, "a", 1)) for k in (1, 2, 3)])], 1, [10])
    late = [(DELETE, (1, "a", 1)), (DELETE, (1, "a", 1)), (INSERT, (2, "b", 1)), (DELETE, (2, "b", 1))]
    state.step([frame(ROW, [*late, (UPDATE_BEFORE, (3, "a", 1)), (UPDATE_AFTER, (3, "b", 1))])], 20, [10])
    assert state.missed == 2
    state.step([frame(ROW, [(DELETE, (3, "b", 1))])], 25, [10])
    assert state.missed == 2


def test_what_is_deleted_comes_from_the_state() -> None:
    state = MemoryState(ChangelogNormalizeKernel(ROW, (0,), False))
    state.step([frame(ROW, [(INSERT, (1, "a", 1))])], 1, [0])
    assert changes_of(state.step([frame(ROW, [(DELETE, (1, None, None))])], 2, [0])) == [(DELETE, (1, "a", 1))]
    assert changes_of(state.step([frame(ROW, [(DELETE, (1, None, None))])], 3, [0])) == []


def test_the_condition_lets_rows_come_and_go() -> None:
    state = MemoryState(ChangelogNormalizeKernel(ROW, (0,), True, CONDITION))
    steps = [
        (INSERT, 1, []),
        (UPDATE_AFTER, 2, [(INSERT, (7, "a", 2))]),
        (UPDATE_AFTER, 3, [(UPDATE_BEFORE, (7, "a", 2)), (UPDATE_AFTER, (7, "a", 3))]),
        (UPDATE_AFTER, 0, [(DELETE, (7, "a", 3))]),
        (UPDATE_AFTER, None, []),
        (DELETE, 3, []),
    ]
    for now, (kind, value, expected) in enumerate(steps):
        assert changes_of(state.step([frame(ROW, [(kind, (7, "a", value))], kind=True)], now, [0])) == expected


@pytest.mark.parametrize("ttype", [LogicalType("DOUBLE"), LogicalType("ARRAY", children=(INT,))])
def test_equal_values_of_other_types(ttype: LogicalType) -> None:
    row = row_type([("k", INT), ("v", ttype)])
    values = [1.5, None, float("nan")] if ttype.root == "DOUBLE" else [[1, None], None, []]
    rows = pl.DataFrame([pl.Series("c0", [1, 2, 3], dtype=pl.Int32), pl.Series("c1", values, dtype=ttype.polars())])
    state = MemoryState(ChangelogNormalizeKernel(row, (0,), True))
    assert state.step([rows], 1, [0]).height == 3
    assert state.step([rows], 2, [0]).height == 0
    assert state.step([rows], 3, [1000]).height == 6


def test_empty_input_and_pickle() -> None:
    kernel = pickle.loads(pickle.dumps(ChangelogNormalizeKernel(ROW, (0,), True, CONDITION)))
    state = MemoryState(kernel)
    assert kernel.keys([frame(ROW, [])]) == [None]
    assert state.step([frame(ROW, [])], 1, [0]).height == 0


@given(anything(ROWS, 20))
def test_drop_update_before(changes) -> None:
    mine = changes_of(DropUpdateBeforeTransform()(frame(ROW, changes), 0))
    assert mine == [(kind, row) for kind, row in changes if kind != UPDATE_BEFORE]
    assert KIND not in DropUpdateBeforeTransform()(frame(ROW, [(INSERT, (1, "a", 1))]), 0).columns
