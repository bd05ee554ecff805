"""Aggregates and table aggregates on pandas and Arrow, against the same ones row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import SqlError
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.udf import AggregateFunction, udaf, udtaf
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.group_table_aggregate import GroupTableAggregateKernel
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Row,
    fold,
    retracts,
)
from tests.runtime.kernels.support import CUTS, changes_of, frame, inserting, retracting, row_of, split
from tests.runtime.kernels.user_functions import Best, user
from tests.runtime.memory_state import MemoryState

Flavour = Literal["pandas", "arrow"]
FLAVOURS: list[Flavour] = ["pandas", "arrow"]
ROW = row_of("ilsb")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 0, 1, 2, 3]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, True, False]),
)


def rows_of(columns: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The rows of Series or Arrays; pandas' missing values are None."""
    lists = [c.to_pylist() if isinstance(c, pa.Array) else [None if pd.isna(v) else v for v in c] for c in columns]
    return list(zip(*lists, strict=True))


class BestOfColumns(Best):
    """As :class:`Best`, many rows at once; gives its rows as a table."""

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour

    def accumulate(self, accumulator: Counter[Any], *args: Any) -> None:
        assert all(isinstance(a, pd.Series if self.flavour == "pandas" else pa.Array) for a in args)
        for row in rows_of(args):
            accumulator[self.whole(row)] += 1

    def retract(self, accumulator: Counter[Any], *args: Any) -> None:
        for row in rows_of(args):
            accumulator[self.whole(row)] -= 1

    @staticmethod
    def whole(row: tuple[Any, ...]) -> tuple[Any, ...]:
        number, text = row
        return None if number is None else int(number), text

    def emit_value(self, accumulator: Counter[Any]) -> Iterator[Any]:
        rows = [tuple(r) for r in super().emit_value(accumulator)]
        names = ("v", "s")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        return pd.DataFrame(columns) if self.flavour == "pandas" else pa.table(columns)  # type: ignore[return-value]


class Sum(AggregateFunction):
    """The sum and the number of values."""

    def create_accumulator(self) -> list[Any]:
        return [0, 0]

    def accumulate(self, accumulator: list[Any], values: Any) -> None:
        accumulator[0] += sum(v for (v,) in rows_of((values,)) if v is not None)
        accumulator[1] += len(values)

    def retract(self, accumulator: list[Any], values: Any) -> None:
        accumulator[0] -= sum(v for (v,) in rows_of((values,)) if v is not None)
        accumulator[1] -= len(values)

    def get_value(self, accumulator: list[Any]) -> Any:
        import numpy as np

        return np.int64(accumulator[0] * 100 + accumulator[1])


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_function_of_columns_adds_and_takes_back_rows(flavour: Flavour) -> None:
    """The result is a hundred times the sum, plus the number of rows: 3 and 5 are 802, and 5 alone is 501."""
    function: UserFunction = udaf(Sum(), ["BIGINT"], "BIGINT", func_type=flavour)
    state = MemoryState(GroupAggregateKernel(ROW, (0,), (user(function, 1),), (True,), True, True))
    three, five = (1, 3, "a", True), (1, 5, "b", True)
    arriving = frame(ROW, [(INSERT, three), (INSERT, five)], True)
    assert changes_of(state.step([arriving], 0, [10])) == [(INSERT, (1, 802))]
    assert changes_of(state.step([frame(ROW, [(DELETE, three)])], 5, [10])) == [
        (UPDATE_BEFORE, (1, 802)),
        (UPDATE_AFTER, (1, 501)),
    ]
    assert changes_of(state.step([frame(ROW, [(INSERT, three)], True)], 15, [10])) == [(INSERT, (1, 301))]


@pytest.mark.parametrize("flavour", FLAVOURS)
@given(changes=st.one_of(inserting(ROWS, 12), retracting(ROWS, 12)), cuts=CUTS)
def test_table_aggregates_give_what_they_give_row_by_row(
    flavour: Flavour, changes: list[Change], cuts: list[int]
) -> None:
    retract = any(retracts(k) for k, _ in changes)
    functions = [udtaf(Best(), result_type="ROW<v BIGINT, s STRING>")]
    functions.append(udtaf(BestOfColumns(flavour), result_type="ROW<v BIGINT, s STRING>", func_type=flavour))
    states = [
        MemoryState(GroupTableAggregateKernel(ROW, (0,), (user(f, 1, 2),), (retract,), True, retract))
        for f in functions
    ]
    for batch in split(changes, cuts):
        one, other = (fold(changes_of(s.step([frame(ROW, batch, retract)], 1, [0]))) for s in states)
        assert one == other


@pytest.mark.parametrize("flavour", FLAVOURS)
@given(changes=st.one_of(inserting(ROWS, 12), retracting(ROWS, 12)), cuts=CUTS)
def test_aggregates_give_what_they_give_row_by_row(flavour: Flavour, changes: list[Change], cuts: list[int]) -> None:
    retract = any(retracts(k) for k, _ in changes)
    function: UserFunction = udaf(Sum(), ["BIGINT"], "BIGINT", func_type=flavour)
    calls = (user(function, 1), user(function, 1, passes=3))
    state = MemoryState(GroupAggregateKernel(ROW, (0,), calls, (retract, retract), True, retract))
    out = [c for b in split(changes, cuts) for c in changes_of(state.step([frame(ROW, b, retract)], 1, [0]))]
    groups: dict[Any, list[tuple[int, Row]]] = {}
    for kind, row in changes:
        groups.setdefault(row[0], []).append((-1 if retracts(kind) else 1, row))
    wanted: Counter[Row] = Counter()
    for key, rows in groups.items():
        if not sum(s for s, _ in rows):
            continue
        whole = sum(s * ((r[1] or 0) * 100 + 1) for s, r in rows)
        passing = sum(s * ((r[1] or 0) * 100 + 1) for s, r in rows if r[3])
        wanted[(key, whole, passing)] += 1
    assert fold(out) == wanted


def test_rows_of_a_group_come_at_once() -> None:
    calls: list[int] = []

    class Counting(Sum):
        def accumulate(self, accumulator: list[Any], values: Any) -> None:
            calls.append(len(values))
            super().accumulate(accumulator, values)

        def retract(self, accumulator: list[Any], values: Any) -> None:
            calls.append(-len(values))
            super().retract(accumulator, values)

    function = udaf(Counting(), ["BIGINT"], "BIGINT", func_type="pandas")
    state = MemoryState(GroupAggregateKernel(ROW, (0,), (user(function, 1),), (True,), True, True))
    one, two = (1, 3, None, None), (2, 5, None, None)
    state.step([frame(ROW, [(INSERT, one), (INSERT, two), (INSERT, one), (DELETE, one), (INSERT, two)])], 1, [0])
    assert calls == [2, -1, 2]


def test_missing_values_of_pandas_are_null() -> None:
    class Mean(Sum):
        def get_value(self, accumulator: list[Any]) -> Any:
            return float("nan")

    function = udaf(Mean(), ["BIGINT"], "DOUBLE", func_type="pandas")
    state = MemoryState(GroupAggregateKernel(ROW, (0,), (user(function, 1),), (False,), True, False))
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, 3, None, None))])], 1, [0])) == [(INSERT, (1, None))]


def test_a_function_of_all_rows_is_for_frames_of_columns() -> None:
    assert udaf(lambda v: v.mean(), ["BIGINT"], "DOUBLE", func_type="arrow").vector == "arrow"
    kinds: list[tuple[Any, Literal["general", "pandas"]]] = [(udaf, "general"), (udtaf, "pandas")]
    for declare, func_type in kinds:
        with pytest.raises(SqlError) as refused:
            declare(lambda v: v.mean(), ["BIGINT"], "DOUBLE", func_type=func_type)
        assert refused.value.code == "SQL214"
        assert "one after another" in (refused.value.hint or "")
