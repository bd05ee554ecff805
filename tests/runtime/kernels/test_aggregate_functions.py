"""Every aggregate function that keeps order or all values, and variances, against themselves value by value."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError
from stateplan.common.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, LogicalType, row_type
from stateplan.execnodes.specs import AggCall
from stateplan.functions.aggregates import VARIANCES, WELFORD, aggregates, is_mergeable
from stateplan.planner.algebra.phased import STATE_FIELDS
from stateplan.runtime.kernels.common.accumulators import MergeableFold, TrackedExtreme
from stateplan.runtime.kernels.common.functions import ACCUMULATORS
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from tests.runtime.kernels.aggregate_calls import CALLS as MERGED_CALLS
from tests.runtime.kernels.aggregate_calls import plain
from tests.runtime.kernels.aggregate_reference import FUNCTIONS, Slow
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Row,
    retracts,
    upsert_fold,
)
from tests.runtime.kernels.support import CUTS, changes_of, fewer, frame, inserting, retracting, split
from tests.runtime.memory_state import MemoryState

REWRITTEN = {*VARIANCES, "GROUPING", "GROUPING_ID", "GROUP_ID", "JSON_ARRAYAGG", "JSON_OBJECTAGG"}
"""Functions that the planner replaces by other calls."""


DOUBLES = LogicalType("ARRAY", children=(DOUBLE,))
ROW = row_type(
    [
        *(("g", INT), ("s", STRING), ("n", INT), ("sep", STRING), ("ok", BOOLEAN), ("d", DOUBLE)),
        *(("half", DOUBLE), ("several", DOUBLES), ("any", DOUBLE), ("frequency", BIGINT)),
    ]
)
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "", "a", "b,", "é"]),
    st.sampled_from([None, 0, 1, 2]),
    st.just("-"),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, 0.1, -3.5, 7.25]),
    st.just(0.5),
    st.just([0.9, 0.0, 1.0]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([None, -2, 0, 1, 3]),
)

REST = (0.5, [0.5], 0.5, 1)

CALLS: list[tuple[str, tuple[int, ...], LogicalType, bool, int]] = [
    ("FIRST_VALUE", (1,), STRING, False, -1),
    ("FIRST_VALUE", (2,), INT, True, 4),
    ("LAST_VALUE", (1,), STRING, False, -1),
    ("LAST_VALUE", (2,), INT, False, 4),
    ("LISTAGG", (1,), STRING, False, -1),
    ("LISTAGG", (1, 3), STRING, False, 4),
    ("LISTAGG", (1, 3), STRING, True, -1),
    ("ARRAY_AGG", (2,), LogicalType("ARRAY", children=(INT,)), False, -1),
    ("ARRAY_AGG", (1,), LogicalType("ARRAY", children=(STRING,)), True, 4),
    ("COLLECT", (1,), LogicalType("MULTISET", children=(STRING,)), False, -1),
    ("COLLECT", (2,), LogicalType("MULTISET", children=(INT,)), True, 4),
    ("JSON_ARRAYAGG_NULL_ON_NULL", (1,), STRING, False, -1),
    ("JSON_ARRAYAGG_ABSENT_ON_NULL", (1,), STRING, False, 4),
    (WELFORD, (5,), DOUBLE, False, -1),
    (WELFORD, (5,), DOUBLE, True, 4),
    ("PERCENTILE", (5, 6), DOUBLE, False, -1),
    ("PERCENTILE", (2, 6), DOUBLE, True, 4),
    ("PERCENTILE", (5, 7), DOUBLES, True, -1),
    ("PERCENTILE", (2, 7, 9), DOUBLES, False, 4),
    ("PERCENTILE", (5, 8, 9), DOUBLE, False, -1),
]
CHOSEN = st.lists(st.sampled_from(range(len(CALLS))), min_size=1, max_size=4, unique=True)
GROUPING = st.sampled_from([(0,), ()])


def made(chosen: list[int], grouping: tuple[int, ...], retract: bool) -> GroupAggregateKernel:
    calls = tuple(
        AggCall(name="x", internal_name=f"${n}$1", arg_list=args, distinct=distinct, filter_arg=passes, type=result)
        for n, args, result, distinct, passes in (CALLS[i] for i in chosen)
    )
    return GroupAggregateKernel(ROW, grouping, calls, (retract,) * len(calls), True, retract)


def first_call(function: str) -> int:
    """The number of the first call of a function."""
    return next(i for i, call in enumerate(CALLS) if call[0] == function)


class Groups:
    """GroupAggFunction over :class:`Slow` calls."""

    def __init__(self, chosen: list[int], grouping: tuple[int, ...]) -> None:
        self.chosen, self.grouping = chosen, grouping
        self.groups: dict[Row, tuple[list[Slow], list[int]]] = {}

    def add(self, change: Change) -> None:
        kind, row = change
        key = tuple(row[g] for g in self.grouping)
        sign = -1 if retracts(kind) else 1
        if key not in self.groups:
            if sign < 0:
                return
            calls = [
                Slow(n, args, distinct, passes) for n, args, _, distinct, passes in (CALLS[i] for i in self.chosen)
            ]
            self.groups[key] = (calls, [0])
        calls, rows = self.groups[key]
        for call in calls:
            call.change(row, sign)
        rows[0] += sign
        if rows[0] == 0:
            del self.groups[key]

    def rows(self) -> dict[Row, Row]:
        return {key: (*key, *(plain(c.value()) for c in calls)) for key, (calls, _) in self.groups.items()}


def check(changes: list[Change], chosen: list[int], grouping: tuple[int, ...], retract: bool, cuts: list[int]) -> None:
    state = MemoryState(made(chosen, grouping, retract))
    flink = Groups(chosen, grouping)
    out: list[Change] = []
    for now, batch in enumerate(split(changes, cuts)):
        out += [(k, tuple(map(plain, r))) for k, r in changes_of(state.step([frame(ROW, batch)], now, [0]))]
        for change in batch:
            flink.add(change)
        assert upsert_fold(out, range(len(grouping))) == flink.rows()
    shown: dict[Row, Row] = {}
    for kind, row in out:
        key = row[: len(grouping)]
        if retracts(kind):
            assert shown.pop(key) == row, "what is retracted was there"
        else:
            assert key not in shown
            shown[key] = row


def test_texts_of_a_group_are_joined() -> None:
    """FIRST_VALUE and LISTAGG of the second field."""
    state = MemoryState(made([0, 4], (0,), True))
    a, b = ((1, text, 0, "-", True, 0.1, *REST) for text in "ab")
    assert changes_of(state.step([frame(ROW, [(INSERT, a), (INSERT, b)], True)], 0, [10])) == [
        (INSERT, (1, "a", "a,b"))
    ]
    assert changes_of(state.step([frame(ROW, [(DELETE, a)])], 5, [10])) == [
        (UPDATE_BEFORE, (1, "a", "a,b")),
        (UPDATE_AFTER, (1, "b", "b")),
    ]
    assert changes_of(state.step([frame(ROW, [(INSERT, a)], True)], 15, [10])) == [(INSERT, (1, "a", "a"))]


def test_every_aggregate_function_can_run() -> None:
    missing = {f.name for f in aggregates() if f.supported} - set(ACCUMULATORS) - REWRITTEN
    assert not missing, f"add {missing} to ACCUMULATORS in runtime/kernels/common/functions.py, or rewrite its calls"


def test_accumulators_of_mergeable_functions_can_be_merged() -> None:
    """Both of them: for input without and with retractions."""
    for name in sorted(name for name in ACCUMULATORS if is_mergeable(name)):
        for make in ACCUMULATORS[name]:
            kind = make.func if isinstance(make, partial) else make
            assert issubclass(kind, (TrackedExtreme, MergeableFold)), name


def test_plans_have_the_accumulators_of_mergeable_functions() -> None:
    mergeable = {f.name for f in aggregates() if f.mergeable}
    assert mergeable == set(STATE_FIELDS), "name the accumulators in STATE_FIELDS of planner/algebra/phased.py"


OTHER_TESTS = {"SINGLE_VALUE", "JSON_OBJECTAGG_NULL_ON_NULL", "JSON_OBJECTAGG_ABSENT_ON_NULL"}
"""Functions with tests of their own."""


def test_every_aggregate_function_is_called() -> None:
    merged = {call.function for call in MERGED_CALLS}
    uncalled = {name for name in ACCUMULATORS if is_mergeable(name)} - merged
    assert not uncalled, f"call {uncalled} in CALLS of tests/runtime/kernels/aggregate_calls.py"
    uncalled = set(ACCUMULATORS) - merged - {name for name, *_ in CALLS} - OTHER_TESTS
    assert not uncalled, f"call {uncalled} in CALLS of this file"
    unknown = {name for name, *_ in CALLS} - set(FUNCTIONS)
    assert not unknown, f"write {unknown} row by row in FUNCTIONS of tests/runtime/kernels/aggregate_reference.py"


@given(st.data(), CHOSEN, GROUPING, CUTS)
def test_insertions(data: st.DataObject, chosen: list[int], grouping: tuple[int, ...], cuts: list[int]) -> None:
    check(data.draw(inserting(ROWS, 50)), chosen, grouping, False, cuts)


@given(st.data(), CHOSEN, GROUPING, CUTS)
def test_retractions(data: st.DataObject, chosen: list[int], grouping: tuple[int, ...], cuts: list[int]) -> None:
    check(data.draw(retracting(ROWS, 40)), chosen, grouping, True, cuts)


@pytest.mark.parametrize("number", range(len(CALLS)))
@pytest.mark.parametrize("retract", [False, True])
def test_each_function(number: int, retract: bool) -> None:
    @fewer(0.5)
    @given(retracting(ROWS, 40) if retract else inserting(ROWS, 40), GROUPING, CUTS)
    def run(changes: list[Change], grouping: tuple[int, ...], cuts: list[int]) -> None:
        check(changes, [number], grouping, retract, cuts)

    run()


OBJECTS = row_type([("g", INT), ("k", STRING), ("v", STRING)])


def objects(on_null: str, retract: bool) -> MemoryState:
    call = AggCall(
        name="x", internal_name=f"$JSON_OBJECTAGG_{on_null}_ON_NULL$1", arg_list=(1, 2), filter_arg=-1, type=STRING
    )
    return MemoryState(GroupAggregateKernel(OBJECTS, (0,), (call,), (retract,), True, retract))


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from([None, "1", '"x"']), st.booleans()), max_size=30),
    st.sampled_from(["NULL", "ABSENT"]),
    CUTS,
)
def test_json_objects(drawn: list[tuple[str, str | None, bool]], on_null: str, cuts: list[int]) -> None:
    """Keys come and go, never one that is there."""
    there: dict[str, str | None] = {}
    changes: list[Change] = [(INSERT, (1, "@", "0"))]
    for key, value, _ in drawn:
        if key in there:
            changes.append((DELETE, (1, key, there.pop(key))))
        else:
            there[key] = value
            changes.append((INSERT, (1, key, value)))
    state, slow = objects(on_null, True), Slow(f"JSON_OBJECTAGG_{on_null}_ON_NULL", (1, 2))
    out: list[Change] = []
    for now, batch in enumerate(split(changes, cuts)):
        out += changes_of(state.step([frame(OBJECTS, batch, True)], now, [0]))
        for kind, row in batch:
            slow.change(row, -1 if retracts(kind) else 1)
        assert upsert_fold(out, [0])[(1,)] == (1, slow.value())


@pytest.mark.parametrize("rows", [[("a", "1"), ("a", "2")], [(None, "1")]])
def test_json_objects_refuse_keys(rows: list[tuple[str | None, str]]) -> None:
    with pytest.raises(DataError) as caught:
        objects("NULL", False).step([frame(OBJECTS, [(INSERT, (1, k, v)) for k, v in rows])], 1, [0])
    assert caught.value.code == "DATA302"


def test_elements_expire_by_themselves() -> None:
    """As Flink's ListView with a TTL: the group is refreshed, its older elements are not."""
    state = MemoryState(made([first_call("ARRAY_AGG")], (0,), False))

    def step(n: int, now: int) -> Any:
        out = changes_of(state.step([frame(ROW, [(INSERT, (1, "a", n, "-", True, 0.5, *REST))])], now, [10]))
        return [r[1] for k, r in out if k != UPDATE_BEFORE]

    assert step(1, 0) == [[1]]
    assert step(2, 8) == [[1, 2]]
    assert step(3, 11) == [[2, 3]]


def test_an_extreme_value_is_not_null_where_a_distinct_call_sees_nulls() -> None:
    """MAX of what may be retracted shares the values of DISTINCT calls, unless NULL is among them."""
    calls = tuple(
        AggCall(name="x", internal_name=f"${n}$1", arg_list=(2,), distinct=distinct, filter_arg=-1, type=result)
        for n, distinct, result in (
            ("ARRAY_AGG", True, LogicalType("ARRAY", children=(INT,))),
            ("MAX", False, INT),
            ("MIN", False, INT),
        )
    )
    state = MemoryState(GroupAggregateKernel(ROW, (0,), calls, (True,) * 3, True, True))

    def step(*changes: tuple[int, int | None]) -> Any:
        batch: list[Change] = [(kind, (1, "a", n, "-", True, 0.5, *REST)) for kind, n in changes]
        return changes_of(state.step([frame(ROW, batch, True)], 1, [0]))[-1][1][1:]

    assert step((INSERT, None)) == ([None], None, None)
    assert step((INSERT, -4), (INSERT, -2)) == ([None, -4, -2], -2, -4)
    assert step((DELETE, -2)) == ([None, -4], -4, -4)


PERCENTILES = row_type([("g", INT), ("v", DOUBLE), ("p", DOUBLE), ("several", DOUBLES)])


def percentiles(*rows: tuple[float | None, float, list[float]]) -> tuple[Any, ...]:
    """PERCENTILE(v, p) and PERCENTILE(v, several) of the rows."""
    calls = tuple(
        AggCall(name="x", internal_name="$PERCENTILE$1", arg_list=args, filter_arg=-1, type=result)
        for args, result in (((1, 2), DOUBLE), ((1, 3), DOUBLES))
    )
    state = MemoryState(GroupAggregateKernel(PERCENTILES, (0,), calls, (False, False), True, False))
    batch: list[Change] = [(INSERT, (1, *row)) for row in rows]
    return changes_of(state.step([frame(PERCENTILES, batch)], 1, [0]))[-1][1][1:]


def test_percentiles_of_odd_numbers() -> None:
    """In the order of Java: -0.0 is before 0.0, NaN is last; the percentages are those of the first row."""
    single, several = percentiles((math.nan, 0.0, [0.0, 1.0]), (0.0, 1.0, [0.5]), (-0.0, 0.5, []), (math.inf, 0.5, []))
    assert math.copysign(1.0, single) == -1.0
    assert math.copysign(1.0, several[0]) == -1.0
    assert math.isnan(several[1])
    assert percentiles((None, 0.5, [0.5])) == (None, None)
    assert percentiles((1.0, 0.5, [])) == (1.0, [])


@pytest.mark.parametrize("row", [(1.0, 1.1, [0.5]), (1.0, -0.1, [0.5]), (1.0, 0.5, [0.5, 2.0]), (None, 7.0, [0.5])])
def test_percentages_from_the_data_are_looked_at(row: tuple[float | None, float, list[float]]) -> None:
    with pytest.raises(DataError) as caught:
        percentiles(row)
    assert caught.value.code == "DATA303"


def test_values_of_percentiles_expire_by_themselves() -> None:
    """As Flink's MapView with a TTL: each value has its own age, which a further row of it renews."""
    call = AggCall(name="x", internal_name="$PERCENTILE$1", arg_list=(1, 2), filter_arg=-1, type=DOUBLE)
    state = MemoryState(GroupAggregateKernel(PERCENTILES, (0,), (call,), (False,), True, False))

    def step(value: float, now: int) -> Any:
        out = changes_of(state.step([frame(PERCENTILES, [(INSERT, (1, value, 0.0, []))])], now, [10]))
        return [r[1] for k, r in out if k != UPDATE_BEFORE]

    assert [step(1.0, 0), step(2.0, 8), step(1.0, 9), step(3.0, 18), step(4.0, 20)] == [
        [1.0],
        [1.0],
        [1.0],
        [1.0],
        [3.0],
    ]


def test_many_rows_of_a_group_are_merged() -> None:
    """Past a number of rows a batch is merged as a whole: the same up to rounding, back and forth."""
    values = [((7919 * i) % 1000) / 7 for i in range(500)]
    kernel = made([first_call(WELFORD)], (), True)
    one, whole = MemoryState(kernel), MemoryState(kernel)
    rows: list[Change] = [(INSERT, (1, "a", 1, "-", True, v, *REST)) for v in values]
    gone: list[Change] = [(DELETE, row) for _, row in rows[100:400]]
    for batch in (rows, gone):
        single = [changes_of(one.step([frame(ROW, [c], True)], 1, [0]))[-1] for c in batch][-1]
        merged = changes_of(whole.step([frame(ROW, batch, True)], 1, [0]))[-1]
        assert merged[1][0] == pytest.approx(single[1][0], rel=1e-9)
    assert isinstance(merged[1][0], float)
    assert pl.Series([merged[1][0]]).is_finite().all()
