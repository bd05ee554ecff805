"""A sink that waits for watermarks to find conflicts, against Flink's operator row by row."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.runtime.kernel import END_OF_TIME, Watermark
from stateplan.runtime.kernels.sink_materializer import SinkConflictKernel
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Row,
    SinkConflicts,
    upsert_fold,
)
from tests.runtime.kernels.support import CLOCK, CUTS, anything, changes_of, frame, retracting, row_of, split
from tests.runtime.memory_state import MemoryState

ROW = row_of("lsi")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 0, 1]), st.sampled_from([None, "a", "b"]), st.sampled_from([None, 0, 1])
)
KEYS = st.sampled_from(
    [((0,), (1,)), ((0,), ()), ((0,), (0,)), ((2, 0), (1,)), ((0,), (1, 2)), ((0, 1, 2), (0, 1, 2)), ((1, 2, 0), ())]
)
CHANGES = st.one_of(anything(ROWS, 40), retracting(ROWS, 40))


def kernel(keys: tuple[tuple[int, ...], tuple[int, ...]], fails: bool = False) -> SinkConflictKernel:
    return SinkConflictKernel(ROW, *keys, table="t", fails=fails)


def test_the_first_of_two_rows_of_one_key_wins() -> None:
    """Rows wait for the watermark. The primary key is the first field in the sink, and the second in the changelog."""
    state = MemoryState(kernel(((0,), (1,))))
    arriving = [(INSERT, (1, "a", 1)), (INSERT, (1, "b", 2)), (INSERT, (2, "x", 0))]
    assert changes_of(state.step([frame(ROW, arriving)], 1, [0], Watermark(before=5, now=5))) == []
    assert changes_of(state.step([frame(ROW, [])], 2, [0], Watermark(before=5, now=6))) == [
        (INSERT, (1, "a", 1)),
        (INSERT, (2, "x", 0)),
    ]
    assert [list(table.values()) for table in state.tables] == [
        [],  # rows that wait
        [{"c0": 1, "c1": "a", "c2": 1, "@t": 2}, {"c0": 2, "c1": "x", "c2": 0, "@t": 2}],
    ]


@given(CHANGES, KEYS, st.booleans(), st.sampled_from([0, 15]), CLOCK, CUTS, st.lists(st.booleans(), min_size=1))
def test_as_flink(changes, keys, fails, ttl, clock, cuts, advances) -> None:
    """Rows of a micro-batch at one time; its watermark releases them all, or none."""
    state, flink = MemoryState(kernel(keys, fails)), SinkConflicts(*keys, fails, ttl)
    now, time = 1000, 0
    out: list[Change] = []
    expected: list[Change] = []
    for n, batch in enumerate([*split(changes, cuts), []]):
        now += clock[n % len(clock)]
        before, last = time, not batch
        time += 7 * advances[n % len(advances)] + last
        for change in batch:
            flink.add(change, now)
        try:
            told = flink.advance(now) if time > before else []
        except ValueError:
            with pytest.raises(RunError):
                state.step([frame(ROW, batch)], now, [ttl], Watermark(before, time))
            return
        mine = changes_of(state.step([frame(ROW, batch)], now, [ttl], Watermark(before, time)))
        touched = [tuple(r[i] for i in keys[0]) for _, r in mine]
        assert len(touched) == len(set(touched)), "a key changes once"
        assert sorted(mine, key=str) == sorted(told, key=str)
        out += mine
        expected += told
    assert upsert_fold(out, keys[0]) == upsert_fold(expected, keys[0])
    if ttl == 0:
        assert state.missed == flink.missed


def test_a_row_waits_for_the_watermark_and_the_first_one_stays() -> None:
    state = MemoryState(kernel(((0,), (1,))))
    first = frame(ROW, [(INSERT, (1, "a", 1)), (INSERT, (2, "x", 0))])
    assert state.step([first], 1, [0], Watermark(5, 5)).height == 0
    assert changes_of(state.step([frame(ROW, [])], 2, [0], Watermark(5, 6))) == [
        (INSERT, (1, "a", 1)),
        (INSERT, (2, "x", 0)),
    ]
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, "b", 2))])], 3, [0], Watermark(6, 9))) == []
    moved = [(UPDATE_BEFORE, (1, "a", 1)), (UPDATE_AFTER, (1, "a", 5)), (DELETE, (2, "x", 0))]
    assert changes_of(state.step([frame(ROW, moved)], 4, [0], Watermark(9, END_OF_TIME))) == [
        (UPDATE_AFTER, (1, "a", 5)),
        (DELETE, (2, "x", 0)),
    ]


def test_a_retraction_may_come_before_its_row() -> None:
    state = MemoryState(kernel(((0,), (1,)), fails=True))
    early = [(DELETE, (1, "a", 1)), (INSERT, (1, "b", 2)), (INSERT, (1, "a", 1))]
    assert changes_of(state.step([frame(ROW, early)], 1, [0], Watermark(0, 1))) == [(INSERT, (1, "b", 2))]
    assert state.missed == 0


def test_a_conflict_names_the_key() -> None:
    state = MemoryState(kernel(((0, 1), ()), fails=True))
    rows = [(INSERT, (1, None, 1)), (INSERT, (1, None, 2))]
    with pytest.raises(RunError) as error:
        state.step([frame(ROW, rows)], 1, [0], Watermark(0, 1))
    assert error.value.code == "RUN024"
    assert "[f0=1, f1=null]" in error.value.message


def test_protocol_and_pickle() -> None:
    made = pickle.loads(pickle.dumps(kernel(((0,), (1,)))))
    assert made.by_event_time and made.first_keys([frame(ROW, [])]) == [None, None]
    assert made.keys([frame(ROW, [])]) == [None, None]
    assert MemoryState(made).step([frame(ROW, [])], 1, [0], Watermark(0, 5)).height == 0
