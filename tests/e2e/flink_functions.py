"""The user-defined functions of Flink's test programs in Python, called as their classes are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from stateplan.functions.user import FunctionContext
from stateplan.planner.catalog.udf import AggregateFunction, ScalarFunction, udaf, udf, udtf


@udf(input_types=["BIGINT"], result_type="BIGINT NOT NULL")
def JavaFunc0(value: int) -> int:  # noqa: N802
    return value + 1


@udf(input_types=["INT", "INT", "TIMESTAMP(3)"], result_type="STRING")
def JavaFunc1(a: int | None, b: int, c: dt.datetime | None) -> str:  # noqa: N802
    millis = None if c is None else round(c.replace(tzinfo=dt.UTC).timestamp() * 1000)
    return f"{'null' if a is None else a} and {b} and {'null' if millis is None else millis}"


@udf(result_type="STRING")
def JavaFunc2(text: str, *numbers: int) -> str:  # noqa: N802
    product = 1
    for number in numbers:
        product *= number
    return f"{text}{product}"


class _WithOpen(ScalarFunction):
    def open(self, function_context: FunctionContext) -> None:
        self.prefix = "$"

    def eval(self, text: str) -> str:
        return self.prefix + text


UdfWithOpen = udf(_WithOpen(), ["STRING"], "STRING")


@udf(input_types=["TIMESTAMP(3)", "INT"], result_type="TIMESTAMP(3)")
def JavaFunc5(at: dt.datetime | None, offset: int | None) -> dt.datetime | None:  # noqa: N802
    return None if at is None or offset is None else at - dt.timedelta(milliseconds=offset)


@udtf(result_types=["STRING"])
def TableFunc1(text: str, prefix: str = "") -> Iterator[str]:  # noqa: N802
    if "#" in text:
        for part in text.split("#"):
            yield prefix + part


class _VarSum(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], *args: int | None) -> None:
        accumulator[0] += sum(a for a in args if a is not None)

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]


VarSum1AggFunction = udaf(_VarSum(), result_type="BIGINT")


class _VarSumLost(_VarSum):
    """Adds to a number of its own, which nobody sees."""

    def accumulate(self, accumulator: list[int], *args: int | None) -> None:
        return None


VarSum2AggFunction = udaf(_VarSumLost(), result_type="BIGINT")


class _WeightedAvg(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        value, weight = args
        accumulator[0] += value * weight
        accumulator[1] += weight

    def get_value(self, accumulator: list[int]) -> int | None:
        total, weight = accumulator
        if weight == 0:
            return None
        return abs(total) // abs(weight) * (1 if (total < 0) == (weight < 0) else -1)

    def merge(self, accumulator: list[int], accumulators: list[list[int]]) -> None:
        for other in accumulators:
            accumulator[0] += other[0]
            accumulator[1] += other[1]


WeightedAvg = udaf(_WeightedAvg(), ["BIGINT", "BIGINT"], "BIGINT")
WeightedAvgWithMerge = WeightedAvg


class _ConcatDistinct(AggregateFunction):
    def create_accumulator(self) -> list[str]:
        return []

    def accumulate(self, accumulator: list[str], *args: str | None) -> None:
        if args[0] is not None and args[0] not in accumulator:
            accumulator.append(args[0])

    def get_value(self, accumulator: list[str]) -> str | None:
        return "|".join(accumulator) or None

    def merge(self, accumulator: list[str], accumulators: list[list[str]]) -> None:
        for other in accumulators:
            accumulator.extend(v for v in other if v not in accumulator)


ConcatDistinctAggFunction = udaf(_ConcatDistinct(), ["STRING"], "STRING")


class _LargerThanCount(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], *args: int | None) -> None:
        accumulator[0] += self._larger(*args)

    def retract(self, accumulator: list[int], *args: int | None) -> None:
        accumulator[0] -= self._larger(*args)

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]

    @staticmethod
    def _larger(a: int | None, b: int | None) -> bool:
        return a is not None and b is not None and a > b


LargerThanCount = udaf(_LargerThanCount(), ["BIGINT", "BIGINT"], "BIGINT")

AsyncJavaFunc0 = JavaFunc0
AsyncJavaFunc1 = JavaFunc1
AsyncJavaFunc2 = JavaFunc2
AsyncUdfWithOpen = UdfWithOpen
AsyncJavaFunc5 = JavaFunc5

_SCOPES = {"temporary-system": "TEMPORARY SYSTEM ", "temporary-catalog": "TEMPORARY ", "catalog": ""}


def statements(functions: list[dict[str, str]]) -> list[str]:
    """CREATE FUNCTION for the functions of a program that are written here."""
    out = []
    for function in functions:
        name = (function.get("class") or "").replace("$", ".").rpartition(".")[2]
        if name in globals() and function["kind"] in _SCOPES:
            scope = _SCOPES[function["kind"]]
            out.append(f"CREATE {scope}FUNCTION {function['name']} AS '{__name__}.{name}' LANGUAGE PYTHON")
    return out
