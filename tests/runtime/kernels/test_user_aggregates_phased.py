"""User-defined aggregates in two phases, as in Flink's plans that call functions with ``merge``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError, RunError
from stateplan.common.types import BIGINT
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.udf import AggregateFunction, udaf
from stateplan.runtime.kernels.common.partials import LocalTransform, Partials
from stateplan.runtime.kernels.phased_aggregates import GlobalGroupAggregateKernel
from tests.runtime.kernels.reference import (
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Row,
    retracts,
    upsert_fold,
)
from tests.runtime.kernels.support import CUTS, call, changes_of, frame, inserting, retracting, row_of, split
from tests.runtime.kernels.user_functions import SUM, user
from tests.runtime.memory_state import MemoryState

ROW = row_of("ilsb")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, True, False]),
)
PARTS = st.lists(st.integers(0, 50), max_size=3)


class Bag(AggregateFunction):
    """How often each row came less how often it went."""

    def create_accumulator(self) -> Counter[Any]:
        return Counter()

    def accumulate(self, accumulator: Counter[Any], *args: Any) -> None:
        accumulator[args] += 1

    def retract(self, accumulator: Counter[Any], *args: Any) -> None:
        accumulator[args] -= 1

    def merge(self, accumulator: Counter[Any], accumulators: Iterable[Counter[Any]]) -> None:
        for other in accumulators:
            accumulator.update(other)

    def get_value(self, accumulator: Counter[Any]) -> str | None:
        return shown(accumulator)


class Total(AggregateFunction):
    """Gives new accumulators instead of changing them."""

    def create_accumulator(self) -> int:
        return 0

    def accumulate(self, accumulator: int, *args: int | None) -> int:
        return accumulator + (args[0] or 0)

    def retract(self, accumulator: int, *args: int | None) -> int:
        return accumulator - (args[0] or 0)

    def merge(self, accumulator: int, accumulators: Iterable[int]) -> int:
        return accumulator + sum(accumulators)

    def get_value(self, accumulator: int) -> int:
        return accumulator


def shown(bag: Counter[Any]) -> str | None:
    there = sorted((repr(k), n) for k, n in bag.items() if n)
    return repr(there) if there else None


BAG = udaf(Bag(), result_type="STRING")
TOTAL = udaf(Total(), ["BIGINT"], "BIGINT")
CALLS = (user(BAG, 1, 2), call("COUNT", None, BIGINT), user(TOTAL, 1, passes=3), user(BAG, 1, distinct=True))


class Two:
    """A local and a global phase."""

    def __init__(self, retract: bool, calls: Any = CALLS) -> None:
        flags = (retract,) * len(calls)
        keys = [ROW.fields[0].type]
        self.local = LocalTransform(Partials.of(ROW, keys, calls, flags, retract), (0,))
        merged = Partials.of(ROW, keys, calls, flags, retract, True, "globalGroupAggregateState")
        self.state = MemoryState(GlobalGroupAggregateKernel(merged))

    def step(self, parts: list[list[Change]], now: int, retract: bool) -> list[Change]:
        found = [self.local(frame(ROW, p, retract), now) for p in parts if p]
        return changes_of(self.state.step([pl.concat(found)], now, [0])) if found else []


def rows_of(changes: list[Change]) -> dict[Row, Row]:
    """The groups and their results, from all changes at once."""
    groups: dict[Any, list[tuple[int, Row]]] = {}
    for kind, row in changes:
        groups.setdefault(row[0], []).append((-1 if retracts(kind) else 1, row))
    out: dict[Row, Row] = {}
    for key, rows in groups.items():
        count = sum(sign for sign, _ in rows)
        if not count:
            continue
        both: Counter[Any] = Counter()
        values: Counter[Any] = Counter()
        for sign, row in rows:
            both[row[1], row[2]] += sign
            values[row[1:2]] += sign
        total = sum(sign * (row[1] or 0) for sign, row in rows if row[3])
        once = Counter({value: 1 for value, n in values.items() if n > 0})
        out[(key,)] = (key, shown(both), count, total, shown(once))
    return out


def test_totals_of_parts_are_merged() -> None:
    made = Two(False, (user(TOTAL, 1),))

    def rows(*pairs: tuple[int, int]) -> list[Change]:
        return [(INSERT, (key, number, "a", True)) for key, number in pairs]

    assert made.step([rows((1, 2), (1, 3)), rows((1, 4), (2, 5))], 0, False) == [(INSERT, (1, 9)), (INSERT, (2, 5))]
    assert made.step([rows((1, 1))], 1, False) == [(UPDATE_BEFORE, (1, 9)), (UPDATE_AFTER, (1, 10))]


@given(st.one_of(inserting(ROWS, 12), retracting(ROWS, 12)), CUTS, PARTS)
def test_any_mini_batches_in_any_parts(changes: list[Change], cuts: list[int], parts: list[int]) -> None:
    retract = any(retracts(k) for k, _ in changes)
    made, out, seen = Two(retract), [], []
    for now, batch in enumerate(split(changes, cuts)):
        out += made.step(split(batch, parts), now, retract)
        seen += batch
        assert upsert_fold(out, range(1)) == rows_of(seen)


def test_a_function_without_merge_is_refused() -> None:
    with pytest.raises(RunError) as error:
        Two(False, (user(SUM, 1),))
    assert error.value.code == "RUN063"


class Fails(Total):
    def merge(self, accumulator: int, accumulators: Iterable[int]) -> int:
        raise ValueError("no")


def test_an_exception_in_merge_names_the_function() -> None:
    function: UserFunction = udaf(Fails(), ["BIGINT"], "BIGINT")
    made = Two(False, (user(function, 1),))
    with pytest.raises(DataError) as error:
        made.step([[(INSERT, (1, 2, "a", True))]], 0, False)
    assert error.value.code == "DATA310"
