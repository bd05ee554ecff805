"""Asynchronous functions: many calls at the same time, results in order, further attempts, a time that is enough."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from stateplan.common.errors import DataError, RunError, SqlError
from stateplan.common.types import BIGINT
from stateplan.execnodes.nodes.python_calc import PythonAsyncCalc
from stateplan.functions.asynchronous import limits_of, with_limits
from stateplan.functions.render.user import user_values
from stateplan.functions.rex import Call
from stateplan.functions.user import AsyncLimits, UserFunction
from stateplan.planner.catalog.udf import AsyncScalarFunction, udf, udtf
from stateplan.runtime.operators import operator_of
from stateplan.runtime.user_functions import Shipped
from tests.execnodes.node_plans import frozen

PREFIX = "table.exec.async-scalar."


def given(function: UserFunction, values: list[int | None], **limits: int) -> list[Any]:
    call = with_limits(Call(BIGINT, (), system_name="f", function=function), AsyncLimits(**limits))
    assert isinstance(call, Call)
    assert call.function is not None
    return user_values(call.function, [pl.Series(values, dtype=pl.Int64)], [BIGINT], BIGINT, len(values)).to_list()


class Meeting(AsyncScalarFunction):
    """Every call waits until as many are there as may be."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.here, self.most = wanted, 0, 0

    async def eval(self, value: int | None) -> int | None:
        self.here += 1
        self.most = max(self.most, self.here)
        for _ in range(50):
            if self.most >= self.wanted:
                break
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001 * (5 - (value or 0) % 5))
        self.here -= 1
        return None if value is None else value + 1


def test_calls_are_awaited_together_and_results_keep_their_order() -> None:
    body = Meeting(4)
    values = [*range(20), None]
    assert given(udf(body, ["BIGINT"], "BIGINT"), values, concurrent=4) == [*range(1, 21), None]
    assert body.most == 4


def test_a_function_without_arguments() -> None:
    async def one() -> int:
        return 1

    function = udf(one, [], "BIGINT")
    assert user_values(function, [], [], BIGINT, 3).to_list() == [1, 1, 1]


class Fails(AsyncScalarFunction):
    def __init__(self, times: int) -> None:
        self.times, self.calls = times, 0

    async def eval(self, value: int) -> int:
        self.calls += 1
        if self.calls <= self.times:
            raise ValueError("busy")
        return value


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_call_that_fails_is_made_again(times: int) -> None:
    body = Fails(times)
    assert given(udf(body, ["BIGINT"], "BIGINT"), [7], retries=3, delay=0) == [7]
    assert body.calls == times + 1


def test_a_call_that_fails_for_good_stops_the_job() -> None:
    for times, retries in ((4, 3), (1, 0)):
        with pytest.raises(DataError) as caught:
            given(udf(Fails(times), ["BIGINT"], "BIGINT", name="busy"), [7], retries=retries, delay=0)
        assert caught.value.code == "DATA310"
        assert "busy raised ValueError: busy" in caught.value.message
        assert "(7)" in caught.value.message


def test_a_call_that_takes_too_long_stops_the_job() -> None:
    async def forever(value: int) -> int:
        await asyncio.sleep(3600)
        return value

    with pytest.raises(DataError) as caught:
        given(udf(forever, ["BIGINT"], "BIGINT"), [7, 8], timeout=20)
    assert caught.value.code == "DATA310"
    assert "no result after 20 ms" in caught.value.message


def test_a_result_of_another_type_is_told() -> None:
    async def text(value: int) -> str:
        return "x"

    with pytest.raises(DataError) as caught:
        given(udf(text, ["BIGINT"], "BIGINT"), [7])
    assert caught.value.code == "DATA311"


def test_limits_are_those_of_the_options() -> None:
    assert limits_of({}) == AsyncLimits()
    options = {f"{PREFIX}timeout": "1 min", f"{PREFIX}max-concurrent-operations": "3", f"{PREFIX}retry-delay": "2 s"}
    assert limits_of(options) == AsyncLimits(3, 60_000, 3, 2_000)
    assert limits_of({f"{PREFIX}retry-strategy": "NO_RETRY"}).retries == 0
    assert limits_of({f"{PREFIX}buffer-capacity": "5"}).concurrent == 5
    with pytest.raises(RunError) as refused:
        limits_of({f"{PREFIX}max-attempts": "many"})
    assert refused.value.code == "RUN077"


def test_the_operator_takes_the_options_of_the_session() -> None:
    function = udf(Fails(1), ["BIGINT"], "BIGINT")
    plan = frozen("stream-exec-python-async-calc_1", "scalar")
    data = next(n for n in plan["nodes"] if n["type"] == "stream-exec-python-async-calc_1")
    node = PythonAsyncCalc.model_validate(data)
    bound = replace(function, body=Shipped("f", function.body))
    calls = tuple(replace(e, function=bound) if isinstance(e, Call) else e for e in node.projection)
    made = operator_of(node.replace(projection=calls), [], {f"{PREFIX}max-concurrent-operations": "2"})
    (transform,) = made.transforms
    found = [e.function for e in transform.projection if isinstance(e, Call)]  # type: ignore[attr-defined]
    assert [f.asynchronous.concurrent for f in found] == [2]


@pytest.mark.parametrize("declare", ["pandas", "table"])
def test_only_plain_scalar_functions_can_be_asynchronous(declare: str) -> None:
    async def one(value: Any) -> Any:
        return value

    with pytest.raises(SqlError) as refused:
        if declare == "table":
            udtf(one, ["BIGINT"], ["BIGINT"])
        else:
            udf(one, ["BIGINT"], "BIGINT", func_type="pandas")
    assert refused.value.code == "SQL214"
    assert "coroutine" in refused.value.message
