"""Conditions on the MIN, MAX or AVG of a group key: they are on the key, and filter rows before they are grouped."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeAlias

from stateplan.functions.aggregates import VARIANCES
from stateplan.functions.rex import Rex, input_refs, remap
from stateplan.planner.algebra.relations import Aggregate, Calc, Filter, Project, Rel
from stateplan.planner.algebra.windows import GroupWindowAggregate
from stateplan.planner.expressions.ops import conjunctions, substitute
from stateplan.planner.passes.aggregates import is_key, is_reducible, means_taken_apart


def filter_keys_of_groups(rel: Rel) -> Rel | None:
    """A filter on a MIN or MAX that was taken for the key it is of goes below the grouping, which has no calls left."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, Aggregate):
        return None
    aggregate = rel.input
    if aggregate.calls or not aggregate.group:
        return None
    condition = remap(rel.condition, aggregate.group.__getitem__)
    return replace(aggregate, input=Filter(aggregate.input, condition))


def name_keys_in_conditions(rel: Rel) -> Rel | None:
    """A condition on the MIN, MAX or AVG of a group key becomes one on the key, which can go below the grouping. As in
    Flink, this is found where a SUM, AVG or variance is taken apart, and all of them are, though that may leave more
    calls: fewer rows outweigh them."""
    if not isinstance(rel, (Calc, Filter)) or rel.condition is None:
        return None
    project = rel.input if isinstance(rel.input, Project) else None
    aggregate = rel.input if project is None else project.input
    if not isinstance(aggregate, (Aggregate, GroupWindowAggregate)):
        return None
    if not any(c.function in VARIANCES or is_reducible(c, distinct=True) for c in aggregate.calls):
        return None
    condition = rel.condition if project is None else substitute(rel.condition, project.exprs)
    keys = len(aggregate.group)
    key_calls = {keys + i for i, c in enumerate(aggregate.calls) if is_key(c, aggregate)}
    key_fields = key_calls | set(range(keys))
    terms = [set(input_refs(term)) for term in conjunctions(condition)]
    if not any(fields <= key_fields and fields & key_calls for fields in terms):
        return None
    groups = means_taken_apart(aggregate)
    out = Filter(groups if project is None else replace(project, input=groups), rel.condition)
    return out if isinstance(rel, Filter) else Project(out, rel.exprs, rel.names)


Rows: TypeAlias = tuple[tuple[int, ...], tuple[Rex, ...], Rex]
"""What a grouping groups: by which fields, of which expressions, where."""


def filtered_rows(rel: Rel) -> Rows | None:
    """The rows of a grouping over a projection of a filter; None for other relations."""
    if not isinstance(rel, (Aggregate, GroupWindowAggregate)) or not isinstance(rel.input, Project):
        return None
    project = rel.input
    return (rel.group, project.exprs, project.input.condition) if isinstance(project.input, Filter) else None


def keep_order_below_groups(rel: Rel, before: Collection[Rows]) -> Rel | None:
    """A projection over a filter that came below a grouping stays, though it may only order fields. Those of ``before``
    were there already."""
    rows = filtered_rows(rel)
    if rows is None or rows in before:
        return None
    assert isinstance(rel, (Aggregate, GroupWindowAggregate)) and isinstance(rel.input, Project)
    return replace(rel, input=Calc(rel.input.input.inputs[0], rel.input.exprs, rel.input.names, rows[2]))
