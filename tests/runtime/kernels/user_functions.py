"""Aggregate functions of a user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from stateplan.common.values.row import Row as FunctionRow
from stateplan.execnodes.specs import AggCall
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.udf import AggregateFunction, TableAggregateFunction, udaf, udtaf


class Sum(AggregateFunction):
    """Gives new accumulators instead of changing them."""

    def create_accumulator(self) -> int:
        return 0

    def accumulate(self, accumulator: int, *args: int | None) -> int:
        return accumulator + (args[0] or 0)

    def retract(self, accumulator: int, *args: int | None) -> int:
        return accumulator - (args[0] or 0)

    def get_value(self, accumulator: int) -> int:
        return accumulator


SUM = udaf(Sum(), ["BIGINT"], "BIGINT")


def user(function: UserFunction, *arguments: int, distinct: bool = False, passes: int = -1) -> AggCall:
    made = AggCall(
        name="x", system_name="f", arg_list=arguments, distinct=distinct, filter_arg=passes, type=function.result
    )
    return made.with_user_function(function.with_name("f"))


class Best(TableAggregateFunction):
    """The two largest pairs that are there, as often as they are, then how many there are."""

    def create_accumulator(self) -> Counter[Any]:
        return Counter()

    def accumulate(self, accumulator: Counter[Any], *args: Any) -> None:
        accumulator[args] += 1

    def retract(self, accumulator: Counter[Any], *args: Any) -> None:
        accumulator[args] -= 1

    def emit_value(self, accumulator: Counter[Any]) -> Iterator[Any]:
        there = sorted((k for k, n in accumulator.items() if n > 0), key=repr, reverse=True)[:2]
        for pair in there:
            yield from [FunctionRow(*pair)] * accumulator[pair]
        yield sum(n for n in accumulator.values() if n > 0), None


BEST = udtaf(Best(), result_type="ROW<v BIGINT, s STRING>")
