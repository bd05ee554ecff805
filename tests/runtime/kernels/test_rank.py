"""Rank kernels against Flink's functions row by row."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.common.types import LogicalType, row_type
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    ConstantRange,
    RetractStrategy,
    SortField,
    SortSpec,
    UpdateFastStrategy,
    VariableRange,
)
from stateplan.runtime.kernels.rank import (
    AppendTopNKernel,
    FirstNKernel,
    RetractTopNKernel,
    Top1Kernel,
    UpdateTopNKernel,
    rank_kernel,
)
from tests.runtime.kernels import topn_reference as reference
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Row,
    fold,
    upsert_fold,
)
from tests.runtime.kernels.support import (
    CLOCK,
    CUTS,
    TYPES,
    anything,
    changes_of,
    frame,
    inserting,
    legal,
    retracting,
    row_of,
    split,
)
from tests.runtime.memory_state import MemoryState

ROW = row_of("sili")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, "a", "é"]), st.sampled_from([None, 1, 2, 3, 7]), st.integers(0, 2), st.sampled_from([2, 3])
)
PARTITIONS = st.sampled_from([(0,), (), (0, 2)])
ORDERS = st.lists(
    st.tuples(st.sampled_from([1, 2]), st.booleans(), st.booleans()), min_size=1, max_size=2, unique_by=lambda o: o[0]
)
RANGES = st.sampled_from([(1, 2), (1, 3), (2, 3), (3, 3), (1, 50), (-1, 2), (0, 0)])
"""Numbers that are emitted; (0, 0) stands for a variable range, up to the value of the last field."""


def spec(order: reference.Order) -> SortSpec:
    return SortSpec(fields=tuple(SortField(index=i, is_ascending=a, null_is_last=n) for i, a, n in order))


def both(
    cls: type[reference.TopN],
    strategy: Any,
    partition: tuple[int, ...],
    order: reference.Order,
    numbers: tuple[int, int],
    number: bool,
    update_before: bool,
    ttl: int,
    row: LogicalType = ROW,
) -> tuple[MemoryState, Any]:
    """The kernel with its state, and the function of Flink."""
    variable = numbers == (0, 0)
    given_range = VariableRange(end_index=3) if variable else ConstantRange(start=numbers[0], end=numbers[1])
    kernel = rank_kernel(row, partition, spec(order), given_range, strategy, number, update_before)
    start, end = (1, 3) if variable else (max(1, numbers[0]), numbers[1])
    flink = cls(partition, order, start, end, variable=variable, number=number, update_before=update_before, ttl=ttl)
    if isinstance(strategy, UpdateFastStrategy) and isinstance(flink, reference.UpdateTopN):
        flink.primary = strategy.primary_keys
    return MemoryState(kernel), flink


def row_by_row(state: MemoryState, flink: Any, changes: Sequence[Change], clock: Sequence[int], ttl: int) -> None:
    now = 1000
    for n, change in enumerate(changes):
        now += clock[n % len(clock)]
        assert changes_of(state.step([frame(ROW, [change])], now, [ttl])) == flink.add(change, now)


def in_batches(state: MemoryState, flink: Any, batches: Sequence[Sequence[Change]], kind: bool | None = None) -> None:
    out: list[Change] = []
    expected: list[Change] = []
    for now, batch in enumerate(batches):
        out += changes_of(state.step([frame(ROW, batch, kind)], now, [0]))
        expected += [c for change in batch for c in flink.add(change, now)]
        assert fold(out) == fold(expected)
    assert legal(out)


def test_a_smaller_value_pushes_the_others_down() -> None:
    """``ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2``, the number is the last field of the output."""
    first_two = ConstantRange(start=1, end=2)
    state = MemoryState(rank_kernel(ROW, (0,), spec([(1, True, False)]), first_two, AppendFastStrategy(), True, True))
    out = state.step([frame(ROW, [(INSERT, ("a", 3, 0, 2)), (INSERT, ("a", 7, 1, 2))])], now=1000, ttl=[0])
    assert changes_of(out) == [
        (INSERT, ("a", 3, 0, 2, 1)),
        (INSERT, ("a", 7, 1, 2, 2)),
    ]
    out = state.step([frame(ROW, [(INSERT, ("a", 1, 2, 2))])], now=1001, ttl=[0])
    assert changes_of(out) == [
        (UPDATE_BEFORE, ("a", 3, 0, 2, 1)),
        (UPDATE_BEFORE, ("a", 7, 1, 2, 2)),
        (UPDATE_AFTER, ("a", 1, 2, 2, 1)),
        (UPDATE_AFTER, ("a", 3, 0, 2, 2)),
    ]
    assert sorted((row["c0"], row["c1"]) for row in state.tables[0].values()) == [("a", 1), ("a", 3)]


@given(inserting(ROWS, 25), PARTITIONS, ORDERS, RANGES, st.booleans(), st.booleans(), st.sampled_from([0, 10]), CLOCK)
def test_append_row_by_row(changes, partition, order, numbers, number, update_before, ttl, clock) -> None:
    setup = (AppendFastStrategy(), partition, order, numbers, number, update_before, ttl)
    state, flink = both(reference.AppendTopN, *setup)
    assert isinstance(state.kernel, AppendTopNKernel)
    row_by_row(state, flink, changes, clock, ttl)


@given(inserting(ROWS, 40), PARTITIONS, ORDERS, RANGES, st.booleans(), CUTS)
def test_append_in_batches(changes, partition, order, numbers, number, cuts) -> None:
    setup = (AppendFastStrategy(), partition, order, numbers, number, True, 0)
    in_batches(*both(reference.AppendTopN, *setup), split(changes, cuts))


@given(inserting(ROWS, 30), PARTITIONS, ORDERS, st.booleans(), st.booleans(), st.sampled_from([0, 10]), CLOCK, CUTS)
def test_top_1(changes, partition, order, number, update_before, ttl, clock, cuts) -> None:
    setup = (partition, order, (1, 1), number, update_before, ttl)
    for strategy in (AppendFastStrategy(), UpdateFastStrategy(primary_keys=(0, 2))):
        state, flink = both(reference.Top1, strategy, *setup)
        assert isinstance(state.kernel, Top1Kernel)
        row_by_row(state, flink, changes, clock, ttl)
    in_batches(
        *both(reference.Top1, AppendFastStrategy(), partition, order, (1, 1), number, True, 0), split(changes, cuts)
    )


@given(inserting(ROWS, 40), PARTITIONS, RANGES, st.booleans(), st.sampled_from([0, 10]), CLOCK, CUTS)
def test_first_n(changes, partition, numbers, number, ttl, clock, cuts) -> None:
    setup = (AppendFastStrategy(), partition, [], numbers, number, False)
    state, flink = both(reference.FirstN, *setup, ttl)
    assert isinstance(state.kernel, FirstNKernel)
    row_by_row(state, flink, changes, clock, ttl)
    state, flink = both(reference.FirstN, *setup, 0)
    for now, batch in enumerate(split(changes, cuts)):
        expected = [c for change in batch for c in flink.add(change, now)]
        got = changes_of(state.step([frame(ROW, batch)], now, [0]))
        assert sorted(map(repr, got)) == sorted(map(repr, expected))


def climbing(changes: Sequence[Change], order: reference.Order, primary: Sequence[int]) -> list[Change]:
    """The rows as updates by primary key that only move up: later rows of a key that are not before are left out."""
    compare = reference.TopN((), order, 1, 1).compare
    there: dict[Row, Row] = {}
    out = []
    for _, row in changes:
        key = tuple(row[i] for i in primary)
        if key not in there or compare(row, there[key]) <= 0:
            out.append((UPDATE_AFTER if key in there else INSERT, row))
            there[key] = row
    return out


UPDATED = st.sampled_from([((0,), (0, 2)), ((), (2,)), ((0,), (0, 2, 3))])
"""Partition and primary key."""


@given(inserting(ROWS, 30), UPDATED, ORDERS, RANGES, st.booleans(), st.booleans(), st.sampled_from([0, 10]), CLOCK)
def test_update_row_by_row(changes, keys, order, numbers, number, update_before, ttl, clock) -> None:
    partition, primary = keys
    if numbers == (0, 0) and 3 not in primary:
        numbers = (1, 4)
    setup = (UpdateFastStrategy(primary_keys=primary), partition, order, numbers, number, update_before, ttl)
    state, flink = both(reference.UpdateTopN, *setup)
    assert isinstance(state.kernel, UpdateTopNKernel)
    row_by_row(state, flink, changes, clock, ttl)


@given(inserting(ROWS, 50), UPDATED, ORDERS, RANGES, st.booleans(), CUTS)
def test_update_in_batches(changes, keys, order, numbers, number, cuts) -> None:
    partition, primary = keys
    setup = (UpdateFastStrategy(primary_keys=primary), partition, order, numbers, number, True, 0)
    in_batches(*both(reference.UpdateTopN, *setup), split(climbing(changes, order, primary), cuts), True)


@given(retracting(ROWS, 25), PARTITIONS, ORDERS, RANGES, st.booleans(), st.booleans(), st.sampled_from([0, 10]), CLOCK)
def test_retract_row_by_row(changes, partition, order, numbers, number, update_before, ttl, clock) -> None:
    setup = (RetractStrategy(), partition, order, numbers, number, update_before, ttl)
    state, flink = both(reference.RetractTopN, *setup)
    assert isinstance(state.kernel, RetractTopNKernel)
    row_by_row(state, flink, changes, clock, ttl)


@given(retracting(ROWS, 40), PARTITIONS, st.one_of(st.just([]), ORDERS), RANGES, st.booleans(), CUTS)
def test_retract_in_batches(changes, partition, order, numbers, number, cuts) -> None:
    setup = (RetractStrategy(), partition, order, numbers, number, True, 0)
    in_batches(*both(reference.RetractTopN, *setup), split(changes, cuts), True)


@given(anything(ROWS, 30), PARTITIONS, ORDERS, st.booleans(), CUTS)
def test_retracting_what_is_not_there(changes, partition, order, number, cuts) -> None:
    setup = (RetractStrategy(), partition, order, (1, 2), number, True, 0)
    state, flink = both(reference.RetractTopN, *setup)
    in_batches(state, flink, split(changes, cuts), True)
    assert state.missed == flink.missed


@given(retracting(ROWS, 25), st.booleans(), CLOCK)
def test_retracting_what_has_expired_is_counted(changes, number, clock) -> None:
    setup = (RetractStrategy(), (0,), [(1, True, False)], (1, 2), number, True, 10)
    state, flink = both(reference.RetractTopN, *setup)
    row_by_row(state, flink, changes, clock, 10)
    assert state.missed == flink.missed


@given(retracting(ROWS, 40), CUTS)
def test_without_update_before_the_last_row_of_a_number_counts(changes, cuts) -> None:
    state, flink = both(reference.RetractTopN, RetractStrategy(), (0,), [(1, False, True)], (1, 3), True, False, 0)
    out: list[Change] = []
    expected: list[Change] = []
    for now, batch in enumerate(split(changes, cuts)):
        out += changes_of(state.step([frame(ROW, batch, True)], now, [0]))
        expected += [c for change in batch for c in flink.add(change, now)]
        assert upsert_fold(out, (0, 4)) == upsert_fold(expected, (0, 4))


def test_first_n_by_processing_time() -> None:
    clock = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3, kind="PROCTIME")
    row = row_type([("k", TYPES["i"]), ("pt", clock)])
    for ascending, cls in ((True, FirstNKernel), (False, AppendTopNKernel)):
        kernel = rank_kernel(
            row, (0,), spec([(1, ascending, False)]), ConstantRange(start=1, end=2), AppendFastStrategy(), True, True
        )
        assert isinstance(kernel, cls)


@pytest.mark.parametrize("strategy", [AppendFastStrategy(), UpdateFastStrategy(primary_keys=(0, 2))])
@pytest.mark.parametrize("end", [1, 2])
def test_retractions_are_refused_where_none_can_come(strategy: Any, end: int) -> None:
    kernel = rank_kernel(ROW, (0,), spec([(1, True, True)]), ConstantRange(start=1, end=end), strategy, False, True)
    with pytest.raises(RunError, match="RUN065"):
        MemoryState(kernel).step([frame(ROW, [(DELETE, ("a", 1, 1, 2))])], 1, [0])


@pytest.mark.parametrize("strategy", [AppendFastStrategy(), UpdateFastStrategy(primary_keys=(0, 2)), RetractStrategy()])
@pytest.mark.parametrize("end", [1, 3])
def test_pickle_and_values_of_every_type(strategy: Any, end: int) -> None:
    types = [
        LogicalType("DECIMAL", precision=20, scale=3),
        LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3),
        LogicalType("DOUBLE"),
        TYPES["b"],
        LogicalType("VARBINARY", length=9),
    ]
    values: list[list[Any]] = [
        ["1.5", None, "-2"],
        [2, None, 1],
        [float("nan"), None, 0.5],
        [True, None, False],
        [b"a", None, b""],
    ]
    for ltype, column in zip(types, values, strict=True):
        row = row_type(
            [("k", TYPES["s"]), ("v", ltype), ("id", TYPES["i"]), ("x", LogicalType("ARRAY", children=(TYPES["i"],)))]
        )
        kernel = rank_kernel(row, (0,), spec([(1, False, True)]), ConstantRange(start=1, end=end), strategy, True, True)
        kernel = pickle.loads(pickle.dumps(kernel))
        rows = pl.DataFrame(
            {
                "c0": ["a"] * 3,
                "c1": pl.Series(column, strict=False).cast(ltype.polars()),
                "c2": [1, 2, 3],
                "c3": [[1], None, []],
            }
        ).with_columns(pl.col("c2").cast(pl.Int32), pl.col("c3").cast(pl.List(pl.Int32)))
        state = MemoryState(kernel)
        out = state.step([rows], 1, [0])
        assert out.filter(pl.col("c4") == 1)["c2"].to_list() == [1], ltype
        assert out.height == end
        assert state.step([rows.with_columns(pl.col("c2") + 3)], 2, [0]).height <= 2 * end
