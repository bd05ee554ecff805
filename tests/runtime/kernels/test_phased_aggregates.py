"""Aggregates in phases against the group aggregate row by row: any micro-batches, each in any parts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import columns
from stateplan.common.errors import RunError
from stateplan.common.types import INT, STRING, LogicalType, row_type
from stateplan.runtime.kernels.common.partials import LocalTransform, Partials
from stateplan.runtime.kernels.phased_aggregates import (
    GlobalGroupAggregateKernel,
    IncrementalGroupAggregateKernel,
    final_call,
)
from tests.runtime.kernels.aggregate_calls import CALLS, PARTS, ROW, ROWS, Reference, plain
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    upsert_fold,
)
from tests.runtime.kernels.support import CUTS, call, changes_of, fewer, frame, inserting, retracting, split
from tests.runtime.memory_state import MemoryState

SPLIT = [0, 1, 2, 3, 5, 6, 8, 9]
"""Calls whose DISTINCT values and extremes are of the column that makes the bucket, or that need none."""


def keys_of(grouping: tuple[int, ...]) -> list[LogicalType]:
    return [ROW.fields[g].type for g in grouping]


def pickled(value: object) -> object:
    return pickle.loads(pickle.dumps(value))


class Two:
    """A local and a global phase."""

    def __init__(self, chosen: Sequence[int], grouping: tuple[int, ...], retract: bool) -> None:
        calls = tuple(CALLS[i] for i in chosen)
        flags = (retract,) * len(calls)
        self.local = pickled(LocalTransform(Partials.of(ROW, keys_of(grouping), calls, flags, retract), grouping))
        merged = Partials.of(ROW, keys_of(grouping), calls, flags, retract, True, "globalGroupAggregateState")
        self.state = MemoryState(GlobalGroupAggregateKernel(merged))

    def step(self, parts: list[list[Change]], now: int, retract: bool) -> list[Change]:
        found = [self.local(frame(ROW, p, retract), now) for p in parts if p]  # type: ignore[operator]
        return changes_of(self.state.step([pl.concat(found)], now, [0])) if found else []


class Three:
    """A split aggregate: local phase by key and bucket, incremental phase, global phase."""

    def __init__(self, chosen: Sequence[int], grouping: tuple[int, ...], retract: bool) -> None:
        calls = tuple(CALLS[i] for i in chosen)
        flags = (retract,) * len(calls)
        fine = (*grouping, 6)
        keys = keys_of(fine)
        partials = Partials.of(ROW, keys, calls, flags, retract, state_name="incrementalGroupAggregateState")
        self.local = pickled(LocalTransform(partials, fine))
        row = row_type([(f"f{i}", t) for i, t in enumerate([*keys, *(c.type for c in calls)])])
        finals = tuple(final_call(c, len(keys) + i) for i, c in enumerate(calls))
        final = Partials.of(row, keys[:-1], finals, flags, retract, True, "globalGroupAggregateState")
        self.middle = MemoryState(IncrementalGroupAggregateKernel(partials, final, tuple(range(len(grouping)))))
        self.state = MemoryState(GlobalGroupAggregateKernel(final))

    def step(self, parts: list[list[Change]], now: int, retract: bool) -> list[Change]:
        found = [self.local(frame(ROW, p, retract), now) for p in parts if p]  # type: ignore[operator]
        if not found:
            return []
        return changes_of(self.state.step([self.middle.step([pl.concat(found)], now, [0])], now, [0]))


def check(
    made: Two | Three,
    changes: list[Change],
    chosen: Sequence[int],
    grouping: tuple[int, ...],
    retract: bool,
    cuts: list[int],
    parts: list[int],
) -> None:
    flink = Reference(chosen, grouping, retract)
    out: list[Change] = []
    for now, batch in enumerate(split(changes, cuts)):
        mine = made.step(split(batch, parts), now, retract)
        out += [(k, tuple(map(plain, r))) for k, r in mine]
        for change in batch:
            flink.add(change, now)
        assert upsert_fold(out, range(len(grouping))) == flink.rows()
        seen = [row[: len(grouping)] for kind, row in mine if kind != UPDATE_BEFORE]
        assert len(seen) == len(set(seen)), "a group changes once"


CHOSEN = st.lists(st.sampled_from(range(len(CALLS))), min_size=1, max_size=5, unique=True)
GROUPING = st.sampled_from([(0,), (0, 1), ()])


def test_counts_and_sums_of_parts_add_up() -> None:
    """COUNT(*) and SUM of the third field. A micro-batch has two parts, and each of them one row per group."""
    made = Two([0, 2], (0,), False)

    def rows(*pairs: tuple[int, int]) -> list[Change]:
        return [(INSERT, (g, "a", n, True, 0.5, "-", n % 2, 0.5)) for g, n in pairs]

    part = made.local(frame(ROW, rows((1, 3), (1, 4))), 0)  # type: ignore[operator]
    assert part.height == 1
    assert made.step([rows((1, 3), (1, 4)), rows((1, 5), (2, 1))], 0, False) == [
        (INSERT, (1, 3, 12)),
        (INSERT, (2, 1, 1)),
    ]
    assert made.step([rows((1, 8))], 1, False) == [(UPDATE_BEFORE, (1, 3, 12)), (UPDATE_AFTER, (1, 4, 20))]


@given(st.data(), CHOSEN, GROUPING, st.booleans(), CUTS, PARTS)
def test_two_phases(data, chosen, grouping, retract, cuts, parts) -> None:
    changes = data.draw(retracting(ROWS, 40) if retract else inserting(ROWS, 50))
    check(Two(chosen, grouping, retract), changes, chosen, grouping, retract, cuts, parts)


@pytest.mark.halved
@pytest.mark.parametrize("number", range(len(CALLS)))
@pytest.mark.parametrize("retract", [False, True])
def test_each_function_in_two_phases(number: int, retract: bool) -> None:
    @fewer(0.5)
    @given(retracting(ROWS, 40) if retract else inserting(ROWS, 40), CUTS, PARTS)
    def run(changes: list[Change], cuts: list[int], parts: list[int]) -> None:
        check(Two([number], (0,), retract), changes, [number], (0,), retract, cuts, parts)

    run()


@given(
    st.data(),
    st.lists(st.sampled_from(SPLIT), min_size=1, max_size=4, unique=True),
    st.sampled_from([(0,), ()]),
    st.booleans(),
    CUTS,
    PARTS,
)
def test_split_aggregates(data, chosen, grouping, retract, cuts, parts) -> None:
    changes = data.draw(retracting(ROWS, 40) if retract else inserting(ROWS, 50))
    check(Three(chosen, grouping, retract), changes, chosen, grouping, retract, cuts, parts)


@given(st.data(), st.sampled_from([5, 6]), CUTS, PARTS)
def test_extremes_are_looked_for(data, which, cuts, parts) -> None:
    rows = st.integers(0, 30).map(lambda n: (1, "a", n, True, 0.5, "-", n % 2, 0.5))
    changes = data.draw(retracting(rows, 60))
    check(Two([which, 8], (0,), True), changes, [which, 8], (0,), True, cuts, parts)
    check(Three([which, 8], (0,), True), changes, [which, 8], (0,), True, cuts, parts)


def test_nothing_is_left_of_a_group_that_is_gone() -> None:
    made = Two([5, 8, 2], (0,), True)
    row = (1, "a", 3, True, 0.5, "-", 1, 0.5)
    made.step([[(INSERT, row)]], 1, True)
    assert changes_of(made.state.step([made.local(frame(ROW, [(DELETE, row)], True), 2)], 2, [0])) == [  # type: ignore[operator]
        (DELETE, (1, 3, 1, 3))
    ]
    assert not any(made.state.tables)


def test_groups_and_values_expire() -> None:
    made = Two([0, 8], (0,), False)

    def step(n: int, now: int) -> list[Change]:
        rows: list[Change] = [(INSERT, (1, "a", n, True, 0.5, "-", 1, 0.5))]
        return changes_of(made.state.step([made.local(frame(ROW, rows), now)], now, [10]))  # type: ignore[operator]

    assert step(1, 0) == [(INSERT, (1, 1, 1))]
    assert step(1, 8)[-1][1] == (1, 2, 1)
    assert step(1, 11)[-1][1] == (1, 3, 2), "the value has expired, the group has not"
    assert step(1, 40) == [(INSERT, (1, 1, 1))]


def test_a_function_that_cannot_be_merged_is_refused() -> None:
    with pytest.raises(RunError) as caught:
        Partials.of(ROW, [INT], (call("FIRST_VALUE", 1, STRING),), (False,), False)
    assert caught.value.code == "RUN063"


def test_partial_results_are_few() -> None:
    """A part of a micro-batch gives one row per group, and each value once."""
    rows: list[Change] = [(INSERT, (n % 3, "a", n % 5, True, 0.5, "-", 0, 0.5)) for n in range(300)]
    local = Two([8, 2], (0,), False).local
    found = local(frame(ROW, rows), 1)  # type: ignore[operator]
    assert found.height == 3
    assert found["@values0"].list.len().to_list() == [5, 5, 5]
    assert columns((8,)) == [found.columns[0]]
    assert int(np.sum(found["count1"].to_numpy())) == 300
