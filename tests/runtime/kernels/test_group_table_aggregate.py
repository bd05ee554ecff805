"""Table aggregates against Flink's GroupTableAggFunction row by row."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError, RunError
from stateplan.execnodes.specs import AggCall
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.udf import TableAggregateFunction, udaf, udtaf
from stateplan.runtime.kernels.group_table_aggregate import GroupTableAggregateKernel
from stateplan.runtime.user_functions import Shipped
from tests.runtime.kernels.reference import DELETE, INSERT, Cells, Change, Row, fold, retracts
from tests.runtime.kernels.support import CLOCK, CUTS, anything, changes_of, frame, inserting, retracting, row_of, split
from tests.runtime.kernels.user_functions import BEST, SUM, Best, user
from tests.runtime.memory_state import MemoryState

ROW = row_of("ilsb")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 0, 1, 2, 3]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, True, False]),
)


def kernel(retract: bool, call: AggCall, grouping: tuple[int, ...] = (0,)) -> MemoryState:
    return MemoryState(GroupTableAggregateKernel(ROW, grouping, (call,), (retract,), True, retract))


class Reference:
    """GroupTableAggFunction, with PyFlink's way with retractions of what is not there."""

    def __init__(self, retract: bool, ttl: int, passes: bool = False) -> None:
        self.retract = retract
        self.passes = passes
        self.state: Cells[tuple[Counter[Any], int]] = Cells(ttl)
        self.missed = 0

    def add(self, change: Change, now: int) -> list[Change]:
        kind, row = change
        key, best = row[:1], Best()
        found = self.state.get(key, now)
        if found is None and retracts(kind):
            self.missed += 1
            return []
        before, count = found if found is not None else (Counter(), 0)
        out = [(DELETE, (*key, *r)) for r in best.emit_value(before)] if found is not None else []
        after = Counter(before)
        sign = -1 if retracts(kind) else 1
        if row[3] or not self.passes:
            (best.retract if sign < 0 else best.accumulate)(after, row[1], row[2])
        if self.retract and count + sign == 0:
            self.state.remove(key)
            return out
        self.state.put(key, (after, count + sign), now)
        return [*out, *((INSERT, (*key, *r)) for r in best.emit_value(after))]


def check(
    changes: list[Change], cuts: list[int], clock: list[int], ttl: int, retract: bool, passes: bool = False
) -> None:
    call = user(BEST, 1, 2, passes=3 if passes else -1)
    state, flink = kernel(retract, call), Reference(retract, ttl, passes)
    out: list[Change] = []
    wanted: list[Change] = []
    now = 0
    for i, batch in enumerate(split(changes, cuts)):
        now += clock[i % len(clock)]
        mine = changes_of(state.step([frame(ROW, batch, retract)], now, [ttl]))
        assert {k for k, _ in mine} <= {INSERT, DELETE}
        if ttl == 0:
            assert len(mine) == sum(map(abs, fold(mine).values())), "nothing is taken back and emitted again"
        out += mine
        for change in batch:
            wanted += flink.add(change, now)
        assert fold(out) == fold(wanted)
    assert state.missed == flink.missed


def test_the_two_best_rows_of_a_group() -> None:
    """The function emits the two largest pairs, and then how many pairs there are."""
    state = kernel(False, user(BEST, 1, 2))
    out = state.step([frame(ROW, [(INSERT, (7, 1, "a", None)), (INSERT, (7, 3, "b", None))])], now=0, ttl=[0])
    assert changes_of(out) == [
        (INSERT, (7, 3, "b")),
        (INSERT, (7, 1, "a")),
        (INSERT, (7, 2, None)),
    ]
    out = state.step([frame(ROW, [(INSERT, (7, 2, "a", None))])], now=1, ttl=[0])
    assert Counter(changes_of(out)) == {
        (DELETE, (7, 1, "a")): 1,
        (DELETE, (7, 2, None)): 1,
        (INSERT, (7, 2, "a")): 1,
        (INSERT, (7, 3, None)): 1,
    }


@given(inserting(ROWS, 12), CUTS, CLOCK, st.sampled_from([0, 10]))
def test_insertions(changes: list[Change], cuts: list[int], clock: list[int], ttl: int) -> None:
    check(changes, cuts, clock, ttl, False)


@given(retracting(ROWS, 12), CUTS, CLOCK, st.sampled_from([0, 10]), st.booleans())
def test_retractions(changes: list[Change], cuts: list[int], clock: list[int], ttl: int, passes: bool) -> None:
    check(changes, cuts, clock, ttl, True, passes)


@given(anything(ROWS, 12), CUTS, CLOCK, st.sampled_from([0, 10]))
def test_retractions_of_rows_that_are_not_there(
    changes: list[Change], cuts: list[int], clock: list[int], ttl: int
) -> None:
    check(changes, cuts, clock, ttl, True)


def test_rows_that_stay_are_not_mentioned_without_a_ttl() -> None:
    rows = [[(INSERT, (1, v, None, None))] for v in (3, 2, 1)]
    for ttl, last in ((0, [(DELETE, (1, 2, None)), (INSERT, (1, 3, None))]), (10, None)):
        state = kernel(False, user(BEST, 1, 2))
        outs = [changes_of(state.step([frame(ROW, r)], 1, [ttl])) for r in rows]
        assert outs[0] == [(INSERT, (1, 3, None)), (INSERT, (1, 1, None))]
        if last is not None:
            assert outs[2] == last
        else:
            assert [k for k, _ in outs[2]] == [DELETE] * 3 + [INSERT] * 3
        assert fold([c for o in outs for c in o]) == {(1, 3, None): 2, (1, 2, None): 1}


def test_without_group_key_and_without_rows() -> None:
    state = kernel(True, user(BEST, 1, 2), ())
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, 5, "a", True))])], 1, [0])) == [
        (INSERT, (5, "a")),
        (INSERT, (1, None)),
    ]
    gone = changes_of(state.step([frame(ROW, [(DELETE, (1, 5, "a", True))])], 1, [0]))
    assert gone == [(DELETE, (5, "a")), (DELETE, (1, None))]
    assert not state.tables[0]


class Nothing(Best):
    def emit_value(self, accumulator: Counter[Any]) -> Iterator[Any]:
        return iter(())


class Wrong(Best):
    def emit_value(self, accumulator: Counter[Any]) -> Iterator[Any]:
        yield 1, 2, 3


class Raises(Best):
    def emit_value(self, accumulator: Counter[Any]) -> Iterator[Any]:
        raise ValueError("no")


def test_a_function_may_give_no_rows() -> None:
    state = kernel(False, user(udtaf(Nothing(), result_type="ROW<v BIGINT>"), 1))
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, 5, "a", True))])], 1, [0])) == []


def test_one_column_needs_no_row() -> None:
    class Last(Best):
        def emit_value(self, accumulator: Counter[Any]) -> Iterator[Any]:
            yield max(v for (v,) in accumulator)

    function: UserFunction = udtaf(Last(), ["BIGINT"], "BIGINT")
    assert [f.name for f in function.result.fields] == ["f0"]
    state = kernel(False, user(function, 1))
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, 5, "a", True))])], 1, [0])) == [(INSERT, (1, 5))]


@pytest.mark.parametrize(("body", "code"), [(Wrong(), "DATA311"), (Raises(), "DATA310")])
def test_what_goes_wrong_has_a_code(body: Best, code: str) -> None:
    state = kernel(False, user(udtaf(body, result_type="ROW<v BIGINT, s STRING>"), 1))
    with pytest.raises(DataError) as caught:
        state.step([frame(ROW, [(INSERT, (1, 5, "a", True))])], 1, [0])
    assert caught.value.code == code


def test_functions_that_cannot_do_it_are_refused() -> None:
    with pytest.raises(RunError) as refused:
        state = kernel(False, user(udaf(SUM.body, ["BIGINT"], "ROW<v BIGINT>"), 1))
        state.step([frame(ROW, [(INSERT, (1, 5, "a", True))])], 1, [0])
    assert refused.value.code == "RUN071"

    class Growing(TableAggregateFunction):
        def accumulate(self, accumulator: Any, *args: Any) -> Any:
            return None

    with pytest.raises(RunError) as needs:
        kernel(True, user(udtaf(Growing(), result_type="ROW<v BIGINT>"), 1))
    assert needs.value.code == "RUN075"


def test_a_kernel_is_sent_to_workers() -> None:
    sent = replace(BEST, body=Shipped("f", BEST.body))
    whole = GroupTableAggregateKernel(ROW, (0,), (user(sent, 1, 2),), (False,), True, False)
    state = MemoryState(pickle.loads(pickle.dumps(whole)))
    assert changes_of(state.step([frame(ROW, [(INSERT, (1, 5, "a", True))])], 1, [0])) == [
        (INSERT, (1, 5, "a")),
        (INSERT, (1, 1, None)),
    ]
