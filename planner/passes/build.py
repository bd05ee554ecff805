"""Building nodes with the small simplifications of Calcite's ``RelBuilder``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stateplan.functions.aggregates import find_aggregate
from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Filter,
    Rel,
    Values,
    some_fields,
)
from stateplan.planner.expressions.ops import conjunctions, is_always_false, is_always_true, is_null_literal, substitute
from stateplan.planner.expressions.simplify import simplify_filter
from stateplan.planner.operators import operator_of


def empty(rel: Rel) -> Values:
    """No rows, with the fields of ``rel``."""
    return Values(rel.fields, ())


def filtered(rel: Rel, predicates: Iterable[Rex]) -> Rel:
    """``rel`` filtered by the simplified conjunction; ``rel`` itself where that is TRUE."""
    terms = [c for p in predicates for c in conjunctions(p)]
    if not terms:
        return rel
    condition = simplify_filter(terms)
    if is_always_true(condition):
        return rel
    if is_always_false(condition) or is_null_literal(condition):
        return empty(rel)
    if isinstance(rel, Filter) and rel.condition == condition:
        return rel
    return Filter(rel, condition)


def typed_by(rex: Rex, rel: Rel) -> Rex:
    """``rex`` with references of the types of ``rel``."""
    return substitute(rex, [InputRef(t, i) for i, (_, t) in enumerate(rel.fields)])


def first_fields(rel: Rel, count: int) -> Rel:
    """``rel`` without the fields behind the first ``count``."""
    return rel if rel.width == count else some_fields(rel, range(count))


def aggregate_call(function: str, rel: Rel, args: Sequence[int], name: str | None, *, grouped: bool) -> AggCall:
    """The call of an aggregate function of fields of ``rel``."""
    definition = find_aggregate(function)
    if definition is None:
        raise AssertionError(f"{function} is not in the table of functions")
    result = definition.infer([rel.fields[a][1] for a in args], None, grouped=grouped, filtered=False)
    syntax = "FUNCTION_STAR" if function == "COUNT" else definition.syntax
    return AggCall(definition.plan_name, tuple(args), result, name, False, -1, definition.internal_name, syntax)


def minimum(rel: Rel, name: str) -> Aggregate:
    """The least value of the only field of ``rel``; NULL if there is no row."""
    return Aggregate(rel, (), (aggregate_call("MIN", rel, (0,), name, grouped=False),))


def distribute(rel: Rel) -> Rel:
    """``rel`` with the exchanges that its operators need, and the operators that normalize changes of sources.

    Source: Flink's physical rules (``StreamPhysicalGroupAggregateRule``, ``StreamPhysicalJoinRule``,
    ``StreamPhysicalRankRule``, ``StreamPhysicalTableSourceScanRule``) with ``FlinkExpandConversionRule``: streaming
    operators but those that sort promise no distribution of their output, so each of these gets its own exchange.
    """
    return operator_of(type(rel)).distribute(rel, [distribute(i) for i in rel.inputs])
