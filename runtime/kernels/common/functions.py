"""The aggregate functions that can be run, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from stateplan.common.errors import RunError, nearest
from stateplan.common.readable import amount
from stateplan.common.types import LogicalType
from stateplan.execnodes.specs import AggCall
from stateplan.functions.aggregates import WELFORD
from stateplan.runtime.kernels.common.accumulators import (
    Accumulator,
    Average,
    Count,
    Extreme,
    SingleValue,
    Total,
    TotalOrZero,
    TrackedExtreme,
)
from stateplan.runtime.kernels.common.collections import (
    Arrays,
    ArraysOfValues,
    First,
    FirstOf,
    JsonArray,
    JsonArrayAbsent,
    JsonObject,
    JsonObjectAbsent,
    Last,
    LastOf,
    ListedText,
    Text,
    ValueCounts,
)
from stateplan.runtime.kernels.common.percentiles import Percentiles
from stateplan.runtime.kernels.common.statistics import SquaredDifferences
from stateplan.runtime.kernels.common.user_aggregates import user_fold

_Make: TypeAlias = Callable[[int, LogicalType | None, LogicalType], Accumulator]

ACCUMULATORS: dict[str, tuple[_Make, _Make]] = {
    "COUNT": (Count, Count),
    "SUM": (Total, Total),
    "$SUM0": (TotalOrZero, TotalOrZero),
    "AVG": (Average, Average),
    "MIN": (partial(Extreme, largest=False), partial(TrackedExtreme, largest=False)),
    "MAX": (partial(Extreme, largest=True), partial(TrackedExtreme, largest=True)),
    "SINGLE_VALUE": (SingleValue, SingleValue),
    "FIRST_VALUE": (First, FirstOf),
    "LAST_VALUE": (Last, LastOf),
    "LISTAGG": (Text, ListedText),
    "ARRAY_AGG": (Arrays, Arrays),
    "COLLECT": (ValueCounts, ValueCounts),
    "PERCENTILE": (Percentiles, Percentiles),
    WELFORD: (SquaredDifferences, SquaredDifferences),
    "JSON_ARRAYAGG_NULL_ON_NULL": (JsonArray, JsonArray),
    "JSON_ARRAYAGG_ABSENT_ON_NULL": (JsonArrayAbsent, JsonArrayAbsent),
    "JSON_OBJECTAGG_NULL_ON_NULL": (JsonObject, JsonObject),
    "JSON_OBJECTAGG_ABSENT_ON_NULL": (JsonObjectAbsent, JsonObjectAbsent),
}
"""By plain name how a function is kept: for input that is only accumulated, and for input that may be retracted."""


def is_distinct(call: AggCall) -> bool:
    """Whether DISTINCT makes a difference: for MIN and MAX, and for the number of all rows, it does not."""
    return call.distinct and call.function not in ("MIN", "MAX") and bool(call.arg_list)


def accumulator(number: int, call: AggCall, arguments: Sequence[LogicalType], retract: bool) -> Accumulator:
    """The accumulator of call ``number``.

    Args:
        arguments: types of its arguments; none for COUNT(*).
        retract: whether its values may be retracted.

    Raises:
        RunError: RUN063, for a function without a row in :data:`ACCUMULATORS`; RUN075, for a user-defined one that
            cannot retract.
    """
    if call.user_function is not None:
        return user_fold(call.user_function)(number, call.user_function, arguments, call.type, retract)
    argument = arguments[0] if arguments else None
    function = ACCUMULATORS.get(call.function)
    if function is not None and (argument is not None or call.function == "COUNT"):
        if call.function == "PERCENTILE" and call.distinct and len(call.arg_list) > 2:
            raise RunError("RUN063", what="PERCENTILE of DISTINCT values with a frequency")
        make = ArraysOfValues if call.ignore_nulls and call.function == "ARRAY_AGG" else function[retract]
        accumulator_of_call = make(number, argument, call.type)
        if len(call.arg_list) <= accumulator_of_call.arguments:
            return accumulator_of_call
    problem = f"{call.function:.80} of {amount(len(call.arg_list), 'argument')}"
    raise RunError("RUN063", known=tuple(ACCUMULATORS), what=problem, hint=nearest(call.function, ACCUMULATORS))
