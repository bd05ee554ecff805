"""How user-defined scalar functions run: row by row, or on whole columns as pandas or Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from stateplan.common.errors import RunError, StateplanError
from stateplan.common.types import LogicalType
from stateplan.functions.render.base import USER_DEFINED, Renderer, renders
from stateplan.functions.render.rowwise import shielded
from stateplan.functions.rex import Call
from stateplan.functions.user import UserFunction
from stateplan.functions.values import column_of, plain_value, python_values, vector_columns


@renders(USER_DEFINED)
def user_call(r: Renderer, call: Call) -> pl.Expr:
    """The call of a user-defined function, which only sees rows that Flink would call it for.

    Raises:
        RunError: RUN301, for a function that the session does not know.
    """
    function = call.function
    if function is None:
        raise RunError("RUN301.unknown_function", name=call.name)
    types = [o.type for o in call.operands]
    guard = r.guarded()
    result = call.type

    @shielded
    def run(series: Sequence[pl.Series]) -> pl.Series:
        height = len(series[0])
        inputs = [s if len(s) == height else s.new_from_index(0, height) for s in series[1 : 1 + len(types)]]
        if guard is None:
            return user_values(function, inputs, types, result, height)
        is_used = series[-1].fill_null(False)
        if len(is_used) != height:
            is_used = is_used.new_from_index(0, height)
        rows = is_used.arg_true()
        values = user_values(function, [s.gather(rows) for s in inputs], types, result, len(rows))
        place = pl.Series([None], dtype=pl.UInt32).new_from_index(0, height).scatter(rows, range(len(rows)))
        return values.gather(place) if len(rows) else pl.Series([None], dtype=values.dtype).new_from_index(0, height)

    exprs = [pl.int_range(pl.len()), *(r.expr(o) for o in call.operands)]
    if guard is not None:
        exprs.append(guard)
    return pl.map_batches(exprs, run, return_dtype=result.polars(), is_elementwise=True)


def user_values(
    function: UserFunction, inputs: Sequence[pl.Series], types: Sequence[LogicalType], result: LogicalType, height: int
) -> pl.Series:
    """What the function returns for columns of arguments.

    Raises:
        DataError: DATA310 to DATA312, for an exception inside, a result of a wrong type, too many or few results.
    """
    if height == 0:
        return pl.Series([], dtype=result.polars())
    if function.vector != "general":
        return _vector(function, inputs, types, result, height)
    call = function.caller()
    if function.asynchronous is not None:
        columns = [python_values(s, t) for s, t in zip(inputs, types, strict=True)]
        rows = list(zip(*columns, strict=True)) if columns else [()] * height
        from stateplan.functions.render.awaiting import awaited

        out = awaited(function, call, rows)
    elif not inputs:
        out = [function.call(call, ()) for _ in range(height)]
    else:
        lists = [python_values(s, t) for s, t in zip(inputs, types, strict=True)]
        out = []
        row: tuple[Any, ...] = ()
        try:  # around the loop, which would spend a good part of its time in function.call
            for row in zip(*lists, strict=True):
                out.append(call(*row))
        except StateplanError:
            raise
        except Exception as cause:  # whatever a user's code raises
            raise function.failed(cause, row) from cause
    return column_of(out, result, function)


def _vector(
    function: UserFunction, inputs: Sequence[pl.Series], types: Sequence[LogicalType], result: LogicalType, height: int
) -> pl.Series:
    arguments = vector_columns(function, inputs, types)
    try:
        output = function.caller()(*arguments)
    except Exception as cause:  # whatever a user's code raises
        raise function.failed(cause, [f"{height} rows"]) from cause
    if not hasattr(output, "__len__") or isinstance(output, (str, bytes)):
        raise function.wrong_rows(type(output).__name__, height)
    if len(output) != height:
        raise function.wrong_rows(len(output), height)
    values = output.to_pylist() if hasattr(output, "to_pylist") else list(output)
    return column_of([plain_value(v, result) for v in values], result, function)
