"""Joins within windows against all pairs of the rows of each window when the watermark closes it."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.common.types import BOOLEAN, INT, row_type
from stateplan.execnodes.specs import JoinSpec
from stateplan.functions.rex import Call, InputRef
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.window_join import WindowJoinKernel
from stateplan.runtime.kernels.window_slices import Slicing
from tests.runtime.kernels.reference import DELETE, INSERT, Row
from tests.runtime.kernels.support import CUTS, changes_of, frame, split
from tests.runtime.kernels.window_rows import EPOCH, TIMESTAMP, WATERMARKS
from tests.runtime.memory_state import MemoryState

ROW = row_type([("k", INT), ("v", INT), ("end", TIMESTAMP)])
KEY = st.sampled_from([None, 1, 2])
EVENTS = st.lists(st.tuples(st.booleans(), KEY, st.integers(0, 3), st.integers(-1, 3)), max_size=30)
JOINS = st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
LESS = Call(BOOLEAN, (InputRef(INT, 1), InputRef(INT, 4)), internal_name="$<$1", syntax="BINARY")


def spec_of(join: str, keyed: bool, filters: bool, rest: bool) -> JoinSpec:
    keys = (0,) if keyed else ()
    return JoinSpec(
        join_type=join,
        left_keys=keys,
        right_keys=keys,
        filter_nulls=(filters,) * len(keys),
        non_equi_condition=LESS if rest else None,
    )


class Windows:
    """Flink's operator, row by row."""

    def __init__(self, join: str, keyed: bool, filters: bool, rest: bool) -> None:
        self.join, self.keyed, self.filters, self.rest = join, keyed, filters, rest
        self.rows: list[tuple[bool, Row]] = []

    def meets(self, a: Row, b: Row) -> bool:
        if self.keyed and (a[0] != b[0] or (a[0] is None and self.filters)):
            return False
        return not self.rest or a[1] < b[1]

    def step(self, batch: list[tuple[bool, Row]], before: int, now: int) -> list[Row]:
        def due(row: Row) -> int:
            return int((row[2] - EPOCH) / timedelta(milliseconds=1)) - 1

        self.rows += [(side, row) for side, row in batch if due(row) > before]
        if now <= before:
            return []
        out: list[Row] = []
        for end in sorted({row[2] for _, row in self.rows if due(row) <= now}):
            left = [row for side, row in self.rows if not side and row[2] == end]
            right = [row for side, row in self.rows if side and row[2] == end]
            pairs = [(a, b) for a in left for b in right if self.meets(a, b)]
            alone = [a for a in left if not any(self.meets(a, b) for b in right)]
            single = [b for b in right if not any(self.meets(a, b) for a in left)]
            if self.join in ("SEMI", "ANTI"):
                out += alone if self.join == "ANTI" else [a for a in left if any(self.meets(a, b) for b in right)]
                continue
            out += [(*a, *b) for a, b in pairs]
            out += [(*a, None, None, None) for a in alone] if self.join in ("LEFT", "FULL") else []
            out += [(None, None, None, *b) for b in single] if self.join in ("RIGHT", "FULL") else []
        self.rows = [(side, row) for side, row in self.rows if due(row) > now]
        return out


def test_rows_of_one_key_meet_within_their_window() -> None:
    """Windows end at 4 and 8. Only the first one has ended, and of its rows only those of key 1 meet."""
    kernel = WindowJoinKernel(
        ROW, ROW, spec_of("INNER", True, True, False), (2, 2), Slicing("TUMBLE", 4, 4, attached=True)
    )
    state = MemoryState(kernel)
    four, eight = (EPOCH + timedelta(milliseconds=n) for n in (4, 8))
    left = frame(ROW, [(INSERT, (1, 5, four)), (INSERT, (2, 6, four))])
    right = frame(ROW, [(INSERT, (1, 50, four)), (INSERT, (2, 60, eight))])
    assert changes_of(state.step([left, right], 0, [0, 0], Watermark(before=-1, now=2))) == []
    out = state.step([frame(ROW, []), frame(ROW, [])], 1, [0, 0], Watermark(before=2, now=3))
    assert changes_of(out) == [(INSERT, (1, 5, four, 1, 50, four))]
    assert not state.tables[0]
    assert [(row["c0"], row["c1"], row["c2"]) for row in state.tables[1].values()] == [(2, 60, eight)]


@given(EVENTS, JOINS, st.booleans(), st.booleans(), st.booleans(), CUTS, WATERMARKS)
def test_joins(events, join, keyed, filters, rest, cuts, marks) -> None:
    kernel = WindowJoinKernel(
        ROW, ROW, spec_of(join, keyed, filters, rest), (2, 2), Slicing("TUMBLE", 4, 4, attached=True)
    )
    state, flink = MemoryState(pickle.loads(pickle.dumps(kernel))), Windows(join, keyed, filters, rest)
    rows = [(side, (k, v, EPOCH + timedelta(milliseconds=4 * w))) for side, k, v, w in events]
    before = NO_WATERMARK
    batches = split(rows, cuts)
    for now, batch in enumerate([*batches, []]):
        step = marks[now % len(marks)]
        after = END_OF_TIME if now == len(batches) else before if not step else max(before, -8) + step
        inputs = [frame(ROW, [(INSERT, r) for side, r in batch if side == own]) for own in (False, True)]
        got = changes_of(state.step(inputs, now, [0, 0], Watermark(before, after)))
        assert all(kind == INSERT for kind, _ in got)
        expected = flink.step(batch, before, after)
        assert sorted((r for _, r in got), key=repr) == sorted(expected, key=repr)
        before = after
    assert not state.tables[0]
    assert not state.tables[1]


def test_only_insertions_are_taken() -> None:
    kernel = WindowJoinKernel(ROW, ROW, spec_of("INNER", True, True, False), (2, 2), Slicing("TUMBLE", 4, 4))
    with pytest.raises(RunError, match="RUN061"):
        MemoryState(kernel).step([frame(ROW, [(DELETE, (1, 1, EPOCH))]), frame(ROW, [])], 0, [0, 0], Watermark())
