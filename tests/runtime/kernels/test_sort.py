"""Sorts that wait for the end of their input."""

from __future__ import annotations

import pickle
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stateplan.execnodes.ranking import SortField, SortSpec
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.sort import SortKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.runtime.kernels.reference import DELETE, INSERT, Change, Row, retracts
from tests.runtime.kernels.support import CUTS, anything, changes_of, fewer, frame, row_of, split
from tests.runtime.memory_state import MemoryState, ttls

ROW = row_of("si")
ROWS: st.SearchStrategy[Row] = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
END = Watermark(NO_WATERMARK, END_OF_TIME)


def kernel(ascending: bool, nulls_last: bool) -> SortKernel:
    spec = SortSpec(fields=(SortField(index=1, is_ascending=ascending, null_is_last=nulls_last),))
    return pickle.loads(pickle.dumps(SortKernel(ROW, spec)))


class StreamSort:
    """Flink's operator, which fails where this one counts."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()
        self.missed = 0

    def take(self, changes: list[Change]) -> None:
        for kind, row in changes:
            if not retracts(kind):
                self.rows[row] += 1
            elif self.rows[row]:
                self.rows[row] -= 1
            else:
                self.missed += 1


def test_rows_that_remain_come_out_sorted_at_the_end() -> None:
    """``ORDER BY v``: the state has the rows, until the input ends."""
    state = MemoryState(kernel(ascending=True, nulls_last=True))
    arriving = [(INSERT, ("a", 2)), (INSERT, ("b", None)), (INSERT, ("c", 1)), (INSERT, ("d", 0)), (DELETE, ("d", 0))]
    assert changes_of(state.step([frame(ROW, arriving)], 0, [0])) == []
    assert sorted(row["c0"] for row in state.tables[0].values()) == ["a", "b", "c"]
    assert changes_of(state.step([frame(ROW, [])], 1, [0], END)) == [
        (INSERT, ("c", 1)),
        (INSERT, ("a", 2)),
        (INSERT, ("b", None)),
    ]


@fewer(0.5)
@given(st.lists(st.tuples(anything(ROWS, 20), CUTS), min_size=1, max_size=2), st.booleans(), st.booleans())
def test_rows_come_out_in_order_when_the_input_ends(runs, ascending, nulls_last) -> None:
    made = kernel(ascending, nulls_last)
    state, store, cache = MemoryState(made), MemoryRunStore(), RunCache(None)
    for changes, cuts in runs:
        flink = StreamSort()
        state.missed = 0
        for batch in split(changes, cuts):
            flink.take(batch)
            for out in (
                state.step([frame(ROW, batch)], 1, (0,), Watermark()),
                KeyedState(store, cache, made.tables, "here").step(
                    made, [frame(ROW, batch)], 1, ttls([0]), Watermark()
                ),
            ):
                assert out.height == 0
        keyed = KeyedState(store, cache, made.tables, "here")
        for out in (
            state.step([frame(ROW, [])], 1, (0,), END),
            keyed.step(made, [frame(ROW, [])], 1, ttls([0]), END),
        ):
            got = changes_of(out)
            assert Counter(got) == Counter({(INSERT, r): n for r, n in flink.rows.items() if n})
            values = [r[1] for _, r in got]
            known = [v for v in values if v is not None]
            nulls = [None] * (len(values) - len(known))
            known.sort(reverse=not ascending)
            assert values == (known + nulls if nulls_last else nulls + known)
        assert state.missed == flink.missed
    assert not state.tables[0]


def test_the_last_rows_come_with_the_end() -> None:
    state = MemoryState(kernel(True, False))
    state.step([frame(ROW, [(INSERT, ("a", 2))])], 1, (0,), Watermark())
    out = state.step([frame(ROW, [(INSERT, ("b", 1)), (INSERT, ("a", 2))])], 2, (0,), END)
    assert changes_of(out) == [(INSERT, ("b", 1)), (INSERT, ("a", 2)), (INSERT, ("a", 2))]
