"""What a top-N leaves out in front of the exchange makes no difference behind it."""

from __future__ import annotations

import pickle

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.execnodes.ranking import AppendFastStrategy, ConstantRange, SortField, SortSpec
from stateplan.runtime.kernels.common.topn import LocalTopN
from stateplan.runtime.kernels.rank import rank_kernel
from tests.runtime.kernels.reference import INSERT, Row
from tests.runtime.kernels.support import CLOCK, CUTS, changes_of, frame, row_of, split
from tests.runtime.memory_state import MemoryState

ROW = row_of("lsi")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 0, 1]), st.sampled_from([None, "a", "b"]), st.sampled_from([None, 0, 1, 2])
)
FIELDS = st.tuples(st.sampled_from([1, 2]), st.booleans(), st.booleans())
ORDERS = st.lists(FIELDS, max_size=2, unique_by=lambda field: field[0])


def test_rows_behind_the_second_of_their_key_are_left_out() -> None:
    """The two rows with the smallest third field, of each first field."""
    order = SortSpec(fields=(SortField(index=2, is_ascending=True, null_is_last=True),))
    kernel = rank_kernel(ROW, (0,), order, ConstantRange(start=1, end=2), AppendFastStrategy(), False, True)
    rows = [(1, "a", 5), (1, "b", 3), (2, "a", 9), (1, "c", 4)]
    less = LocalTopN(kernel, 2, share=1)(frame(ROW, [(INSERT, row) for row in rows]), 0)
    assert sorted(less.rows()) == [(1, "b", 3), (1, "c", 4), (2, "a", 9)]
    state = MemoryState(kernel)
    assert sorted(changes_of(state.step([less], 0, [10]))) == [(INSERT, row) for row in sorted(less.rows())]
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, "d", 7))])], 5, [10])) == []


@given(
    st.lists(st.lists(ROWS, max_size=15), max_size=6),
    ORDERS,
    st.sampled_from([(), (0,), (0, 1)]),
    st.sampled_from([(1, 1), (1, 2), (2, 3)]),
    st.booleans(),
    st.sampled_from([0, 15]),
    CUTS,
    CLOCK,
)
def test_same_changes(frames, order, partition, numbers, numbered, ttl, cuts, clock) -> None:
    """Micro-batches of several frames, each reduced by itself."""
    given = ConstantRange(start=numbers[0], end=numbers[1])
    fields = tuple(SortField(index=i, is_ascending=up, null_is_last=last) for i, up, last in order)
    kernel = rank_kernel(ROW, partition, SortSpec(fields=fields), given, AppendFastStrategy(), numbered, True)
    local = LocalTopN(pickle.loads(pickle.dumps(kernel)), given.end, share=1e9)
    whole, reduced = MemoryState(kernel), MemoryState(kernel)
    now = 1000
    for n, batch in enumerate(split(frames, cuts)):
        now += clock[n % len(clock)]
        arrived = [frame(ROW, [(INSERT, row) for row in rows]) for rows in batch] or [frame(ROW, [])]
        less = [local(f, now) for f in arrived]
        expected = changes_of(whole.step([pl.concat(arrived)], now, [ttl]))
        assert changes_of(reduced.step([pl.concat(less)], now, [ttl])) == expected


def test_frames_that_would_keep_most_rows_are_left_alone() -> None:
    order = SortSpec(fields=(SortField(index=2, is_ascending=True, null_is_last=True),))
    kernel = rank_kernel(ROW, (0,), order, ConstantRange(start=1, end=2), AppendFastStrategy(), False, True)
    many = frame(ROW, [(INSERT, (i % 3, "a", i)) for i in range(30)])
    assert LocalTopN(kernel, 2)(many, 0).height == 6
    few = frame(ROW, [(INSERT, (i, "a", i)) for i in range(30)])
    assert LocalTopN(kernel, 2)(few, 0) is few
