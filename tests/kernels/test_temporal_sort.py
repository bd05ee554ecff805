"""The sort of rows of the same processing time."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from execnodes.ranking import SortField, SortSpec
from execnodes.runtime.kernels.temporal_sort import ProctimeSortKernel
from execnodes.runtime.memory_state import MemoryState
from tests.kernels.reference import INSERT, Row
from tests.kernels.support import CUTS, changes_of, frame, inserting, row_of, split

ROW = row_of("si")
ROWS: st.SearchStrategy[Row] = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
ORDERS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.booleans(), st.booleans()), min_size=1, max_size=2, unique_by=lambda o: o[0]
)


def ordered(rows: list[Row], order: list[tuple[int, bool, bool]]) -> list[Row]:
    """The rows sorted one field after another, the last one first."""
    for index, ascending, nulls_last in reversed(order):
        known = [r for r in rows if r[index] is not None]
        nulls = [r for r in rows if r[index] is None]
        known.sort(key=lambda r, i=index: r[i], reverse=not ascending)
        rows = known + nulls if nulls_last else nulls + known
    return rows


@given(inserting(ROWS, 30), CUTS, ORDERS)
def test_each_micro_batch_is_sorted(
    changes: list[tuple[int, Row]], cuts: list[int], order: list[tuple[int, bool, bool]]
) -> None:
    kernel = ProctimeSortKernel(
        ROW, SortSpec(fields=tuple(SortField(index=i, is_ascending=a, null_is_last=n) for i, a, n in order))
    )
    state = MemoryState(pickle.loads(pickle.dumps(kernel)))
    for now, batch in enumerate(split(changes, cuts)):
        got = changes_of(state.step([frame(ROW, batch)], now, []))
        assert got == [(INSERT, r) for r in ordered([r for _, r in batch], order)]
