"""The state of a sink against Flink's SinkUpsertMaterializer row by row."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.kernels.sink_materializer import SinkMaterializerKernel
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Row,
    SinkMaterializer,
    upsert_fold,
)
from tests.runtime.kernels.support import CLOCK, CUTS, anything, changes_of, frame, retracting, row_of, split
from tests.runtime.memory_state import MemoryState

ROW = row_of("lsi")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 0, 1]), st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, 0, 1])
)
KEYS = st.sampled_from(
    [
        ((0,), (1,)),
        ((0,), ()),
        ((0,), (0,)),
        ((2, 0), (1,)),
        ((0,), (1, 2)),
        ((2,), (0, 1)),
        ((0, 1, 2), (0, 1, 2)),
        ((1, 2, 0), (1,)),
    ]
)
CHANGES = st.one_of(anything(ROWS, 60), retracting(ROWS, 60))


def test_the_row_before_returns_when_the_last_one_is_deleted() -> None:
    """The sink has the primary key of the first field. Two rows of key 1 arrive, told apart by the second field."""
    state = MemoryState(SinkMaterializerKernel(ROW, (0,), (1,)))
    arriving = [(INSERT, (1, "a", 1)), (INSERT, (1, "b", 2))]
    assert changes_of(state.step([frame(ROW, arriving)], now=1000, ttl=[0])) == [(INSERT, (1, "b", 2))]
    assert sorted((row["n"], row["c0"], row["c1"], row["c2"]) for row in state.tables[0].values()) == [
        (0, 1, "a", 1),
        (1, 1, "b", 2),
    ]
    arriving = [(DELETE, (1, "b", 2))]
    assert changes_of(state.step([frame(ROW, arriving)], now=1001, ttl=[0])) == [(UPDATE_AFTER, (1, "a", 1))]
    assert [(row["n"], row["c0"], row["c1"], row["c2"]) for row in state.tables[0].values()] == [(0, 1, "a", 1)]


@given(CHANGES, KEYS, st.sampled_from([0, 10]), CLOCK)
def test_row_by_row_with_a_clock(changes, keys, ttl, clock) -> None:
    state, flink = MemoryState(SinkMaterializerKernel(ROW, *keys)), SinkMaterializer(*keys, ttl)
    now = 1000
    for n, change in enumerate(changes):
        now += clock[n % len(clock)]
        assert changes_of(state.step([frame(ROW, [change])], now, [ttl])) == flink.add(change, now)
    assert state.missed == flink.missed


@given(CHANGES, KEYS, st.sampled_from([0, 15]), CLOCK, CUTS)
def test_batches_show_the_same_table(changes, keys, ttl, clock, cuts) -> None:
    """Each batch is at one time, so that both sides expire alike."""
    state, flink = MemoryState(SinkMaterializerKernel(ROW, *keys)), SinkMaterializer(*keys, ttl)
    out, expected = [], []
    now = 1000
    for n, batch in enumerate(split(changes, cuts)):
        now += clock[n % len(clock)]
        mine = changes_of(state.step([frame(ROW, batch)], now, [ttl]))
        touched = [tuple(r[i] for i in keys[0]) for _, r in mine]
        assert len(touched) == len(set(touched)), "a key changes once"
        out += mine
        expected += [c for change in batch for c in flink.add(change, now)]
        assert upsert_fold(out, keys[0]) == upsert_fold(expected, keys[0])
    assert state.missed == flink.missed


def test_the_row_that_came_last_is_shown() -> None:
    state = MemoryState(SinkMaterializerKernel(ROW, (0,), (1,)))
    first = frame(ROW, [(INSERT, (1, "a", 1)), (INSERT, (1, "b", 2)), (INSERT, (2, "x", 0))])
    assert changes_of(state.step([first], 1, [0])) == [(INSERT, (1, "b", 2)), (INSERT, (2, "x", 0))]
    assert changes_of(state.step([frame(ROW, [(DELETE, (1, "b", 2))])], 2, [0])) == [(UPDATE_AFTER, (1, "a", 1))]
    assert changes_of(state.step([frame(ROW, [(DELETE, (1, "a", None))])], 3, [0])) == [(DELETE, (1, "a", 1))]
    assert changes_of(state.step([frame(ROW, [(UPDATE_BEFORE, (1, "a", 1))])], 4, [0])) == []
    assert state.missed == 1


def test_a_list_lives_as_long_as_its_key_is_touched() -> None:
    state = MemoryState(SinkMaterializerKernel(ROW, (0,), ()))
    for now, name in ((0, "a"), (8, "b"), (16, "c")):
        state.step([frame(ROW, [(INSERT, (1, name, 0))])], now, [10])
    out = [changes_of(state.step([frame(ROW, [(DELETE, (1, n, 0))])], 20, [10])) for n in "cba"]
    assert out == [[(UPDATE_AFTER, (1, "b", 0))], [(UPDATE_AFTER, (1, "a", 0))], [(DELETE, (1, "a", 0))]]


def test_empty_input_and_pickle() -> None:
    kernel = pickle.loads(pickle.dumps(SinkMaterializerKernel(ROW, (0,), (1,))))
    state = MemoryState(kernel)
    assert kernel.keys([frame(ROW, [])]) == [None]
    assert state.step([frame(ROW, [])], 1, [0]).height == 0
