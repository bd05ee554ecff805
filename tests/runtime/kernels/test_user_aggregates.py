"""User-defined aggregates in the kernel of GROUP BY, against Flink's GroupAggFunction row by row."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stateplan
from stateplan.common.errors import DataError, RunError
from stateplan.common.types import BIGINT, STRING
from stateplan.planner.catalog.udf import AggregateFunction, udaf
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.user_functions import Shipped
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Cells,
    Change,
    Row,
    fold,
    retracts,
)
from tests.runtime.kernels.support import (
    CLOCK,
    CUTS,
    anything,
    call,
    changes_of,
    frame,
    inserting,
    retracting,
    row_of,
    split,
)
from tests.runtime.kernels.user_functions import SUM, user
from tests.runtime.memory_state import MemoryState

ROW = row_of("ilsb")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, True, False]),
)


class Listed(AggregateFunction):
    """All rows in order of arrival; a retraction of one that is not there is kept as a debt."""

    def create_accumulator(self) -> list[Any]:
        return []

    def accumulate(self, accumulator: list[Any], *args: Any) -> None:
        debt = ("-", *args)
        if debt in accumulator:
            accumulator.remove(debt)
        else:
            accumulator.append(args)

    def retract(self, accumulator: list[Any], *args: Any) -> None:
        if args in accumulator:
            accumulator.remove(args)
        else:
            accumulator.append(("-", *args))

    def get_value(self, accumulator: list[Any]) -> str | None:
        return repr(accumulator) if accumulator else None


class Mean(AggregateFunction):
    """The accumulator of PyFlink's own examples: a row whose fields are set."""

    def create_accumulator(self) -> Any:
        return stateplan.Row(total=0, count=0)

    def accumulate(self, accumulator: Any, value: int | None) -> None:
        if value is not None:
            accumulator[0] += value
            accumulator.count += 1

    def retract(self, accumulator: Any, value: int | None) -> None:
        if value is not None:
            accumulator["total"] -= value
            accumulator[1] -= 1

    def get_value(self, accumulator: Any) -> int | None:
        return accumulator.total // accumulator[1] if accumulator["count"] else None


LISTED = udaf(Listed(), result_type="STRING")


CALLS = (user(LISTED, 1, 2), call("COUNT", None, BIGINT), user(SUM, 1, passes=3), call("MAX", 1, BIGINT))


class Reference:
    """GroupAggFunction."""

    def __init__(self, retract: bool, ttl: int) -> None:
        self.retract = retract
        self.state: Cells[dict[str, Any]] = Cells(ttl)

    def result(self, key: Row, state: dict[str, Any]) -> Row:
        values = [v for v in state["values"] if v is not None]
        return (
            *key,
            Listed().get_value(state["list"]),
            state["count"],
            state["sum"],
            max(values) if values else None,
        )

    def add(self, change: Change, now: int) -> list[Change]:
        kind, row = change
        sign = -1 if retracts(kind) else 1
        key = row[:1]
        before = self.state.get(key, now)
        if before is None:
            if sign < 0:
                return []
            before = {"list": [], "count": 0, "sum": 0, "values": []}
            first = True
        else:
            first = False
        old = None if first else self.result(key, before)
        after = {"list": list(before["list"]), "values": list(before["values"])}
        (Listed().accumulate if sign > 0 else Listed().retract)(after["list"], row[1], row[2])
        after["count"] = before["count"] + sign
        after["sum"] = before["sum"] + (sign * (row[1] or 0) if row[3] else 0)
        if sign > 0:
            after["values"].append(row[1])
        elif row[1] in after["values"]:
            after["values"].remove(row[1])
        if after["count"] == 0:
            self.state.remove(key)
            return [(DELETE, old)] if old is not None else []
        self.state.put(key, after, now)
        new = self.result(key, after)
        if old is None:
            return [(INSERT, new)]
        return [(UPDATE_BEFORE, old), (UPDATE_AFTER, new)]


def test_a_list_of_rows_grows_shrinks_and_expires() -> None:
    """The function lists the rows of a key. The TTL is 10 ms."""
    state = MemoryState(GroupAggregateKernel(ROW, (0,), (user(LISTED, 1, 2),), (True,), True, True))
    one, two = (1, 10, "a", True), (1, 20, "b", True)
    both, last = (1, "[(10, 'a'), (20, 'b')]"), (1, "[(20, 'b')]")
    assert changes_of(state.step([frame(ROW, [(INSERT, one), (INSERT, two)], True)], 0, [10])) == [(INSERT, both)]
    assert changes_of(state.step([frame(ROW, [(DELETE, one)])], 5, [10])) == [
        (UPDATE_BEFORE, both),
        (UPDATE_AFTER, last),
    ]
    assert changes_of(state.step([frame(ROW, [(INSERT, one)], True)], 15, [10])) == [(INSERT, (1, "[(10, 'a')]"))]


def kernel(retract: bool) -> MemoryState:
    return MemoryState(GroupAggregateKernel(ROW, (0,), CALLS, (retract,) * len(CALLS), True, retract))


@given(st.one_of(inserting(ROWS, 12), retracting(ROWS, 12)), CUTS)
def test_micro_batches_give_flinks_rows(changes: list[Change], cuts: list[int]) -> None:
    retract = any(retracts(k) for k, _ in changes)
    state, flink = kernel(retract), Reference(retract, 0)
    wanted = [c for i, change in enumerate(changes) for c in flink.add(change, i)]
    out = [
        c for n, batch in enumerate(split(changes, cuts)) for c in changes_of(state.step([frame(ROW, batch)], n, [0]))
    ]
    assert fold(out) == fold(wanted)


@given(inserting(ROWS, 12), CLOCK, st.sampled_from([0, 10]))
def test_groups_expire_row_by_row(changes: list[Change], clock: list[int], ttl: int) -> None:
    state, flink = kernel(False), Reference(False, ttl)
    now = 0
    for i, change in enumerate(changes):
        now += clock[i % len(clock)]
        out = changes_of(state.step([frame(ROW, [change])], now, [ttl]))
        assert fold(out) == fold(flink.add(change, now))


@given(anything(ROWS.filter(lambda row: row[1] is not None), 12), CUTS, CLOCK)
def test_retractions_of_rows_that_are_not_there_do_no_harm(
    changes: list[Change], cuts: list[int], clock: list[int]
) -> None:
    state = kernel(True)
    now = 0
    for i, batch in enumerate(split(changes, cuts)):
        now += clock[i % len(clock)]
        state.step([frame(ROW, batch)], now, [10])


def test_distinct_calls_see_a_value_once() -> None:
    calls = (user(LISTED, 1, distinct=True),)
    state = MemoryState(GroupAggregateKernel(ROW, (0,), calls, (True,), True, True))
    rows = [(INSERT, (1, 5, "a", True)), (INSERT, (1, 5, "b", True)), (DELETE, (1, 5, "a", True))]
    out = [c for r in rows for c in changes_of(state.step([frame(ROW, [r])], 1, [0]))]
    assert fold(out) == {(1, "[(5,)]"): 1}


def test_without_arguments() -> None:
    calls = (user(LISTED),)
    state = MemoryState(GroupAggregateKernel(ROW, (), calls, (False,), True, False))
    out = changes_of(state.step([frame(ROW, [(INSERT, (1, 5, "a", True))] * 2)], 1, [0]))
    assert out == [(INSERT, ("[(), ()]",))]


def test_an_accumulator_that_is_a_row() -> None:
    """Its fields are set, by position and by name, over micro-batches and retractions."""
    mean = udaf(Mean(), ["BIGINT"], "BIGINT")
    state = MemoryState(GroupAggregateKernel(ROW, (0,), (user(mean, 1),), (True,), True, True))
    first = [(INSERT, (1, 4, "a", True)), (INSERT, (1, 8, "a", True)), (INSERT, (1, None, "a", True))]
    assert changes_of(state.step([frame(ROW, first)], 1, [0])) == [(INSERT, (1, 6))]
    second = [(DELETE, (1, 4, "a", True))]
    assert changes_of(state.step([frame(ROW, second)], 2, [0])) == [(UPDATE_BEFORE, (1, 6)), (UPDATE_AFTER, (1, 8))]


class Growing(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def accumulate(self, accumulator: int, *args: int) -> int:
        return accumulator + 1 // args[0]

    def get_value(self, accumulator: int) -> int:
        return accumulator


def test_what_goes_wrong_has_a_code() -> None:
    growing = udaf(Growing(), ["BIGINT"], "STRING")
    with pytest.raises(RunError) as refused:
        GroupAggregateKernel(ROW, (0,), (user(growing, 1),), (True,), True, True)
    assert refused.value.code == "RUN075"
    state = MemoryState(GroupAggregateKernel(ROW, (0,), (user(growing, 1),), (False,), True, False))
    for value, code in ((0, "DATA310"), (1, "DATA311")):
        with pytest.raises(DataError) as caught:
            state.step([frame(ROW, [(INSERT, (1, value, "a", True))])], 1, [0])
        assert caught.value.code == code
    keeping = udaf(Keeping(), ["BIGINT"], "BIGINT")
    state = MemoryState(GroupAggregateKernel(ROW, (0,), (user(keeping, 1),), (False,), True, False))
    with pytest.raises(RunError) as kept:
        state.step([frame(ROW, [(INSERT, (1, 1, "a", True))])], 1, [0])
    assert kept.value.code == "RUN076"


class Keeping(Growing):
    def accumulate(self, accumulator: int, *args: int) -> Any:
        return iter([accumulator]), (lambda: 1)


def test_a_kernel_with_functions_is_sent_to_workers() -> None:
    from dataclasses import replace

    sent = replace(LISTED, body=Shipped("f", LISTED.body))
    whole = GroupAggregateKernel(ROW, (0,), (user(sent, 1, 2),), (False,), True, False)
    state = MemoryState(pickle.loads(pickle.dumps(whole)))
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, 5, "a", True))])], 1, [0])) == [(INSERT, (1, "[(5, 'a')]"))]
    assert LISTED.result == STRING
