"""First and last rows within windows against a plain loop over the rows of each window."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.common.types import INT, row_type
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.deduplicate_rowtime import WindowDeduplicateKernel
from stateplan.runtime.kernels.window_slices import Slicing
from tests.runtime.kernels.reference import DELETE, INSERT, Row
from tests.runtime.kernels.support import CUTS, changes_of, frame, split
from tests.runtime.kernels.window_rows import EPOCH, TIMESTAMP, WATERMARKS
from tests.runtime.memory_state import MemoryState

ROW = row_type([("k", INT), ("v", INT), ("ts", TIMESTAMP), ("end", TIMESTAMP)])
KEYS = st.sampled_from([(0,), (0, 1), ()])
EVENTS = st.lists(
    st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 2), st.integers(0, 3), st.integers(-1, 3)), max_size=30
)
SLICING = Slicing("TUMBLE", 4, 4, attached=True)


def millis(row: Row, field: int) -> int:
    return int((row[field] - EPOCH) / timedelta(milliseconds=1))


class Windows:
    """Flink's operator, row by row."""

    def __init__(self, keys: tuple[int, ...], last: bool) -> None:
        self.keys, self.last = keys, last
        self.kept: dict[tuple[object, ...], Row] = {}

    def step(self, batch: list[Row], before: int, now: int) -> list[Row]:
        for row in batch:
            if millis(row, 3) - 1 <= before:
                continue
            key = (row[3], *(row[k] for k in self.keys))
            kept = self.kept.get(key)
            wins = kept is None or (row[2] >= kept[2] if self.last else row[2] < kept[2])
            self.kept[key] = row if wins else self.kept[key]
        closed = [k for k, row in self.kept.items() if now > before and millis(row, 3) - 1 <= now]
        return [self.kept.pop(k) for k in closed]


def test_the_latest_row_of_a_window_comes_out_when_the_window_ends() -> None:
    """The third field is the event time: the row of millisecond 2 is the latest, though another one arrives later."""
    state = MemoryState(WindowDeduplicateKernel(ROW, (0,), 2, True, 3, SLICING))
    one, two, end = (EPOCH + timedelta(milliseconds=n) for n in (1, 2, 4))
    arriving = [
        (INSERT, (1, 10, EPOCH, end)),
        (INSERT, (1, 20, two, end)),
        (INSERT, (1, 30, one, end)),
    ]
    assert changes_of(state.step([frame(ROW, arriving)], 0, [0], Watermark(before=-1, now=2))) == []
    assert [(row["c0"], row["c1"], row["c2"]) for row in state.tables[0].values()] == [(1, 20, two)]
    out = state.step([frame(ROW, [])], 1, [0], Watermark(before=2, now=3))
    assert changes_of(out) == [(INSERT, (1, 20, two, end))]
    assert not state.tables[0]


@given(EVENTS, KEYS, st.booleans(), CUTS, WATERMARKS)
def test_rows_of_windows(events, keys, last, cuts, marks) -> None:
    kernel = WindowDeduplicateKernel(ROW, keys, 2, last, 3, SLICING)
    state, flink = MemoryState(pickle.loads(pickle.dumps(kernel))), Windows(keys, last)
    rows = [
        (k, v, EPOCH + timedelta(milliseconds=4 * w + t - 4), EPOCH + timedelta(milliseconds=4 * w))
        for k, v, t, w in events
    ]
    before = NO_WATERMARK
    batches = split(rows, cuts)
    for now, batch in enumerate([*batches, []]):
        mark = marks[now % len(marks)]
        after = END_OF_TIME if now == len(batches) else before if not mark else max(before, -8) + mark
        changes = state.step([frame(ROW, [(INSERT, r) for r in batch])], now, [0], Watermark(before, after))
        got = changes_of(changes)
        assert all(kind == INSERT for kind, _ in got)
        expected = flink.step(batch, before, after)
        assert sorted((r for _, r in got), key=repr) == sorted(expected, key=repr)
        assert [r[3] for _, r in got] == sorted(r[3] for _, r in got), "windows that end first come first"
        before = after
    assert not state.tables[0]


def test_only_insertions_are_taken() -> None:
    kernel = WindowDeduplicateKernel(ROW, (0,), 2, True, 3, SLICING)
    with pytest.raises(RunError, match="WindowDeduplicate received") as caught:
        MemoryState(kernel).step([frame(ROW, [(DELETE, (1, 1, EPOCH, EPOCH))])], 0, [0], Watermark())
    assert caught.value.code == "RUN061"
