"""The first rows within windows against a plain sort of the rows of each window."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.common.types import INT, row_type
from stateplan.execnodes.ranking import ConstantRange, SortField, SortSpec
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.common.topn import LocalTopN
from stateplan.runtime.kernels.window_rank import WindowRankKernel
from stateplan.runtime.kernels.window_slices import Slicing
from tests.runtime.kernels.reference import DELETE, INSERT, Row
from tests.runtime.kernels.support import CUTS, changes_of, frame, split
from tests.runtime.kernels.window_rows import EPOCH, TIMESTAMP, WATERMARKS
from tests.runtime.memory_state import MemoryState

ROW = row_type([("k", INT), ("v", INT), ("n", INT), ("end", TIMESTAMP)])
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2]), st.sampled_from([None, 0, 1, 2, 3]), st.integers(0, 9), st.integers(-1, 3)
    ),
    max_size=40,
)
SLICING = Slicing("TUMBLE", 4, 4, attached=True)
RANGES = st.tuples(st.integers(-1, 3), st.integers(1, 4)).filter(lambda r: r[0] <= r[1])


def kernel_of(keys: tuple[int, ...], up: bool, last: bool, start: int, end: int, numbered: bool) -> WindowRankKernel:
    order = SortSpec(fields=(SortField(index=1, is_ascending=up, null_is_last=last),))
    limits = ConstantRange(start=start, end=end)
    return WindowRankKernel(ROW, (*keys, 3), order, limits, numbered, False, 3, SLICING)


def ranked(rows: list[Row], keys: tuple[int, ...], up: bool, last: bool, limits: tuple[int, int]) -> list[Row]:
    """The rows of a window that are among the first of their partition, with their numbers."""
    out: list[Row] = []
    for key in {tuple(row[k] for k in keys) for row in rows}:
        mine = [row for row in rows if tuple(row[k] for k in keys) == key]
        valued = sorted((r for r in mine if r[1] is not None), key=lambda r: r[1] if up else -r[1])
        empty = [r for r in mine if r[1] is None]
        for number, row in enumerate([*valued, *empty] if last else [*empty, *valued], 1):
            if limits[0] <= number <= limits[1]:
                out.append((*row, number))
    return out


def test_the_least_value_of_a_window_comes_out_when_the_window_ends() -> None:
    """A window of the milliseconds 0 to 3. Until the watermark is 3, the state has the least row of each key."""
    state = MemoryState(kernel_of((0,), up=True, last=True, start=1, end=1, numbered=True))
    end = EPOCH + timedelta(milliseconds=4)
    arriving = [
        (INSERT, (1, 5, 0, end)),
        (INSERT, (1, 3, 1, end)),
        (INSERT, (2, 9, 2, end)),
    ]
    assert changes_of(state.step([frame(ROW, arriving)], 0, [0], Watermark(before=-1, now=2))) == []
    assert [(row["c0"], row["c1"], row["c3"]) for row in state.tables[0].values()] == [(1, 3, end), (2, 9, end)]
    assert changes_of(state.step([frame(ROW, [])], 1, [0], Watermark(before=2, now=3))) == [
        (INSERT, (1, 3, 1, end, 1)),
        (INSERT, (2, 9, 2, end, 1)),
    ]
    assert not state.tables[0]


@given(EVENTS, st.sampled_from([(0,), ()]), st.booleans(), st.booleans(), RANGES, st.booleans(), CUTS, WATERMARKS)
def test_rows_of_windows(events, keys, up, last, limits, numbered, cuts, marks) -> None:
    kernel = pickle.loads(pickle.dumps(kernel_of(keys, up, last, *limits, numbered)))
    state, before = MemoryState(kernel), NO_WATERMARK
    local = LocalTopN(kernel, limits[1], share=1.0)
    open_windows: dict[int, list[Row]] = {}
    batches = split([(k, v, n, w) for k, v, n, w in events], cuts)
    for now, batch in enumerate([*batches, []]):
        mark = marks[now % len(marks)]
        after = END_OF_TIME if now == len(batches) else before if not mark else max(before, -8) + mark
        rows = [(*row[:3], EPOCH + timedelta(milliseconds=4 * row[3])) for row in batch]
        for row, (*_, window) in zip(rows, batch, strict=True):
            if 4 * window - 1 > before:
                open_windows.setdefault(4 * window, []).append(row)
        given_ = local(frame(ROW, [(INSERT, row) for row in rows]), now)
        got = changes_of(state.step([given_], now, [0], Watermark(before, after)))
        expected: list[Row] = []
        for end in sorted(e for e in open_windows if after > before and e - 1 <= after):
            found = ranked(open_windows.pop(end), keys, up, last, limits)
            expected += found if numbered else [row[:-1] for row in found]
        assert all(kind == INSERT for kind, _ in got)
        assert sorted((row for _, row in got), key=repr) == sorted(expected, key=repr)
        assert [row[3] for _, row in got] == sorted(row[3] for _, row in got), "windows that end first come first"
        kept: dict[object, int] = {}
        for stored in state.tables[0].values():
            place = (stored["c3"], *(stored[f"c{k}"] for k in keys))
            kept[place] = kept.get(place, 0) + 1
        assert all(count <= limits[1] for count in kept.values()), "no row is kept that cannot be among the first"
        before = after
    assert not state.tables[0]


def test_only_insertions_are_taken() -> None:
    with pytest.raises(RunError, match="WindowRank received") as caught:
        MemoryState(kernel_of((0,), True, True, 1, 2, True)).step(
            [frame(ROW, [(DELETE, (1, 1, 1, EPOCH))])], 0, [0], Watermark()
        )
    assert caught.value.code == "RUN061"
