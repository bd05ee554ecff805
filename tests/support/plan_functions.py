"""User-defined functions for the golden plans; what they compute does not matter there."""

from __future__ import annotations

from typing import Any

from stateplan.planner.catalog.udf import AggregateFunction, DataTypes, udaf, udf, udtaf, udtf

f = udf(lambda value: value, ["BIGINT"], "BIGINT")
g = udf(lambda text: text, ["STRING"], "STRING")
h = udf(lambda number, text: text, ["INT", "STRING"], "STRING")
p = udf(lambda column: column, ["BIGINT"], "BIGINT", func_type="pandas")
q = udf(lambda *values: 1, None, "BIGINT NOT NULL")
z = udf(lambda: 4, [], "INT", deterministic=False)


async def _same(*values: Any) -> Any:
    return values[0] if values else 0


af = udf(_same, ["BIGINT"], "BIGINT")
ag = udf(_same, ["STRING"], "STRING")
aq = udf(_same, None, "BIGINT NOT NULL")
isok = udf(lambda text: True, ["STRING"], "BOOLEAN")
upper = udf(lambda text: text, ["STRING"], "STRING")
spl = udtf(lambda text: [], ["STRING"], "ROW<w STRING, n INT>")
words = udtf(lambda text: [], ["STRING"], DataTypes.ROW([DataTypes.FIELD("EXPR$0", DataTypes.STRING())]))


class _First(AggregateFunction):
    def create_accumulator(self) -> list[Any]:
        return []

    def accumulate(self, accumulator: list[Any], *args: Any) -> None:
        accumulator.append(args)

    def retract(self, accumulator: list[Any], *args: Any) -> None:
        accumulator.remove(args)

    def get_value(self, accumulator: list[Any]) -> int:
        return len(accumulator)


wavg = udaf(_First(), ["BIGINT", "INT"], "BIGINT", "ROW<s BIGINT, n BIGINT>")
one = udaf(_First(), ["BIGINT"], "BIGINT", "BIGINT")
top = udtaf(_First(), ["INT"], "ROW<v INT>")
top2 = udtaf(_First(), ["BIGINT"], "ROW<v BIGINT, r INT>")
cnt = udaf(_First(), ["STRING"], "BIGINT", "BIGINT")
pmean = udaf(lambda column: column.mean(), ["DOUBLE"], "DOUBLE", func_type="pandas")
pwavg = udaf(lambda column, weights: (column * weights).sum(), ["BIGINT", "INT"], "DOUBLE", func_type="pandas")
pmax = udaf(_First(), ["BIGINT"], "BIGINT", "BIGINT", func_type="pandas")
