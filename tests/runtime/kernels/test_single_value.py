"""SINGLE_VALUE: one row per group, replaced in any order within a micro-batch; more than one is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError
from stateplan.common.types import INT, row_type
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Change, Row, upsert_fold
from tests.runtime.kernels.support import CUTS, call, changes_of, frame, split
from tests.runtime.memory_state import MemoryState

ROW = row_type([("g", INT), ("v", INT)])
STEPS = st.lists(
    st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 0, 1, "gone"]), st.booleans()), max_size=40
)


def made(grouping: tuple[int, ...] = (0,)) -> MemoryState:
    return MemoryState(GroupAggregateKernel(ROW, grouping, (call("SINGLE_VALUE", 1, INT),), (True,), True, True))


def test_a_value_replaces_another() -> None:
    """``SELECT g, SINGLE_VALUE(v) GROUP BY g``."""
    state = made()
    out = state.step([frame(ROW, [(INSERT, (1, 4)), (INSERT, (2, 5))], True)], now=0, ttl=[0])
    assert changes_of(out) == [(INSERT, (1, 4)), (INSERT, (2, 5))]
    out = state.step([frame(ROW, [(UPDATE_BEFORE, (1, 4)), (UPDATE_AFTER, (1, 6))], True)], now=1, ttl=[0])
    assert changes_of(out) == [(UPDATE_BEFORE, (1, 4)), (UPDATE_AFTER, (1, 6))]
    assert [(row["c0"], row["value0"], row["rows"]) for row in state.tables[0].values()] == [(1, 6, 1), (2, 5, 1)]


@given(STEPS, CUTS)
def test_the_row_of_each_group(steps: list[tuple[int | None, int | str | None, bool]], cuts: list[int]) -> None:
    """Each step sets or removes the row of a group; ``early`` adds the new row before it takes back the old."""
    state, out = made(), list[Change]()
    there: dict[Row, Row] = {}
    for now, batch in enumerate(split(steps, cuts)):  # type: ignore[type-var]
        changes: list[Change] = []
        for group, value, early in batch:  # type: ignore[misc]
            old = there.pop((group,), None)
            if value == "gone":
                changes += [] if old is None else [(DELETE, old)]
                continue
            there[(group,)] = new = (group, value)
            if old is None:
                changes.append((INSERT, new))
            else:
                pair: list[Change] = [(UPDATE_BEFORE, old), (UPDATE_AFTER, new)]
                changes += pair[::-1] if early else pair
        out += changes_of(state.step([frame(ROW, changes, True)], now, [0]))
        assert upsert_fold(out, (0,)) == there


def test_more_than_one_row_is_an_error() -> None:
    state = made(())
    state.step([frame(ROW, [(INSERT, (1, None))], True)], 0, [0])
    with pytest.raises(DataError, match="more than one row") as caught:
        state.step([frame(ROW, [(INSERT, (1, 4))], True)], 1, [0])
    assert caught.value.code == "DATA320"


def test_a_row_that_was_never_there_is_not_taken_back() -> None:
    state = made()
    assert changes_of(state.step([frame(ROW, [(DELETE, (1, 4))], True)], 0, [0])) == []
