"""Aggregates in two phases: a local one per mini-batch, a global one that merges; between them, for split DISTINCT
aggregates, an incremental one.

Source: Flink's ``StreamPhysicalLocalGroupAggregate``, ``StreamPhysicalGlobalGroupAggregate``,
``StreamPhysicalIncrementalGroupAggregate`` and, for the accumulators between them, ``AggregateUtil``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, STRING, LogicalType
from stateplan.functions.aggregates import WELFORD, is_mergeable
from stateplan.planner.accumulators import (
    array_list,
    collect_map,
    distinct_map,
    extreme,
    list_views,
    percentile,
    welford,
)
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import AggCall, Aggregate, Field, Rel, Single
from stateplan.planner.algebra.table_functions import is_python

_StateFields: TypeAlias = Callable[[LogicalType, LogicalType, bool], list[Field]]
"""From the types of the argument and of the result, and whether values may be retracted."""


def merges(rel: Aggregate) -> bool:
    """Whether all calls can be computed in two phases; Python operators are not (``StreamPhysicalPythonGroupAggregate``
    is none of those that Flink's rule splits), whether their functions have ``merge`` or not."""
    if is_python(rel):
        return False
    types = [t for _, t in rel.input.fields]
    arrays = (types[c.args[0]] for c in rel.calls if c.function == "ARRAY_AGG")
    return all(is_mergeable(c.function) for c in rel.calls) and all(array_list(t) is not None for t in arrays)


@dataclass(frozen=True)
class PhasedCall:
    """A call with its accumulators: their names and types, and the number of its distinct values' map."""

    call: AggCall
    retract: bool
    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    distinct: int | None


@dataclass(frozen=True)
class Accumulators:
    """All accumulators of an aggregate: those of its calls, then the maps of distinct values.

    ``maps`` has, per map, its arguments and type; ``has_hidden_count`` says that the last call is a COUNT(*) that only
    counts rows.
    """

    calls: tuple[PhasedCall, ...]
    maps: tuple[tuple[tuple[int, ...], LogicalType], ...]
    has_hidden_count: bool

    @property
    def fields(self) -> list[Field]:
        out = [(n, t) for c in self.calls for n, t in zip(c.names, c.types, strict=True)]
        return out + [(f"distinct${i}", t) for i, (_, t) in enumerate(self.maps)]


def phased_calls(
    calls: Sequence[AggCall], retracts: Sequence[bool], retraction: bool, row: Rel, counts_rows: bool | None = None
) -> Accumulators:
    """The accumulators of ``calls`` over ``row``.

    Args:
        retracts: per call, whether its values may be retracted.
        retraction: whether rows may be retracted.
        counts_rows: whether a call counts the rows; by default, if rows may be retracted.
    """
    types = [t for _, t in row.fields]
    every = list(zip(calls, retracts, strict=True))
    has_hidden_count = (retraction if counts_rows is None else counts_rows) and not any(
        c.function == "COUNT" and not c.args and c.filter < 0 for c in calls
    )
    if has_hidden_count:
        every.append((AggCall("COUNT", (), BIGINT.not_null()), retraction))
    distinct: dict[tuple[int, ...], list[int]] = {}
    for call, _ in every:
        if call.distinct and call.args:
            distinct.setdefault(call.args, []).append(call.filter)
    order = list(distinct)
    phased, number = [], 0
    for call, retract in every:
        state_fields = _state_fields(call, retract, types)
        names = tuple(f"{name}${number + i}" for i, (name, _) in enumerate(state_fields))
        number += len(state_fields)
        view = order.index(call.args) if call.distinct and call.args else None
        phased.append(PhasedCall(call, retract, names, tuple(t for _, t in state_fields), view))
    maps = tuple(
        (a, distinct_map([types[i] for i in a], len(f) if retraction or len(f) > 64 else 1))
        for a, f in distinct.items()
    )
    return Accumulators(tuple(phased), maps, has_hidden_count)


def _state_fields(call: AggCall, retract: bool, types: Sequence[LogicalType]) -> list[Field]:
    """Name and type of each accumulator of a call."""
    if not call.args:
        return [("count1", BIGINT)]
    if call.function == "LISTAGG" and retract:
        return [("listagg", list_views(has_separator=len(call.args) > 1))]
    return STATE_FIELDS[call.function](types[call.args[0]].as_nullable(), call.type.as_nullable(), retract)


def _sum_of(argument: LogicalType) -> LogicalType:
    """What AVG sums in."""
    if argument.root == "DECIMAL":
        return LogicalType("DECIMAL", precision=38, scale=argument.scale)
    return BIGINT if argument.is_integer else LogicalType("DOUBLE")


def _extreme(name: str) -> _StateFields:
    """Texts of any length have one function in Flink, so their accumulators have none."""

    def fields(argument: LogicalType, result: LogicalType, retract: bool) -> list[Field]:
        if retract:
            return [(name, extreme(name, argument))]
        return [(name, STRING if argument.is_string else argument)]

    return fields


def _arrays(argument: LogicalType, result: LogicalType, retract: bool) -> list[Field]:
    values = array_list(argument)
    assert values is not None
    return [("array_agg", values)]


STATE_FIELDS: dict[str, _StateFields] = {
    "COUNT": lambda argument, result, retract: [("count", BIGINT)],
    "$SUM0": lambda argument, result, retract: [("sum", result)],
    "SUM": lambda argument, result, retract: [("sum", result), *([("count", BIGINT)] if retract else [])],
    "AVG": lambda argument, result, retract: [("sum", _sum_of(argument)), ("count", BIGINT)],
    "MIN": _extreme("min"),
    "MAX": _extreme("max"),
    "LISTAGG": lambda argument, result, retract: [("accDelimiter", STRING), ("concatAcc", STRING)],
    "COLLECT": lambda argument, result, retract: [("collect", collect_map(argument))],
    "ARRAY_AGG": _arrays,
    "PERCENTILE": lambda argument, result, retract: [("percentile", percentile())],
    WELFORD: lambda argument, result, retract: [(WELFORD.lower(), welford())],
}
"""Function to the names and types of its accumulators in plans, for each function whose accumulators can be merged."""


@dataclass(frozen=True)
class LocalAggregate(Single):
    """Partial results of a mini-batch: group keys, accumulators, maps of distinct values."""

    group: tuple[int, ...]
    calls: tuple[AggCall, ...]
    retracts: tuple[bool, ...]
    retraction: bool
    level: str = ""

    @property
    def accumulators(self) -> Accumulators:
        return phased_calls(self.calls, self.retracts, self.retraction, self.input)

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*(self.input.fields[g] for g in self.group), *self.accumulators.fields)


@dataclass(frozen=True)
class GlobalAggregate(Single):
    """Merges partial results of ``original``; ``count_star`` is the call that counts rows where that is not the hidden
    one. ``before`` is the row of the local phase's input."""

    original: Aggregate
    retracts: tuple[bool, ...]
    retraction: bool
    before: Rel
    count_star: int | None = None

    @property
    def group(self) -> tuple[int, ...]:
        return tuple(range(len(self.original.group)))

    @property
    def accumulators(self) -> Accumulators:
        return phased_calls(self.original.calls, self.retracts, self.retraction, self.before)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.original.fields


@dataclass(frozen=True)
class IncrementalAggregate(Single):
    """Merges partial results by the keys and bucket of a split DISTINCT aggregate, and passes on by the keys what
    changed.

    ``local`` is the local phase below; ``final`` are the group keys that stay.
    """

    local: LocalAggregate
    final: tuple[int, ...]
    hint: InputHint | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        keys = [self.local.fields[k] for k in self.final]
        return (*keys, *(f for f in self.local.accumulators.fields if not f[0].startswith("distinct$")))
