"""UNION is UNION ALL and a grouping by all columns; such a grouping makes those of its inputs needless.

Source: Calcite's ``UnionToDistinctRule`` and ``AggregateUnionAggregateRule``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from stateplan.planner.algebra.relations import Aggregate, Rel, Union


def union_to_distinct(rel: Rel) -> Rel | None:
    if not isinstance(rel, Union) or rel.all:
        return None
    return Aggregate(replace(rel, all=True), tuple(range(rel.width)), ())


def drop_distinct_below_union(rel: Rel) -> Rel | None:
    if not isinstance(rel, Aggregate) or rel.calls or not isinstance(rel.input, Union) or not rel.input.all:
        return None
    union = rel.input
    sources = tuple(s.input if _is_distinct(s) else s for s in union.sources)
    if sources == union.sources:
        return None
    return replace(rel, input=replace(union, sources=sources))


def _is_distinct(rel: Rel) -> TypeGuard[Aggregate]:
    """Whether it only removes duplicate rows."""
    return isinstance(rel, Aggregate) and not rel.calls and rel.group == tuple(range(rel.input.width))
