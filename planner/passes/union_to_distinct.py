"""UNION is UNION ALL and a grouping by all columns.

Source: Calcite's ``UnionToDistinctRule``.
"""

from __future__ import annotations

from dataclasses import replace

from planner.algebra import Aggregate, Rel, Union

__all__ = ["union_to_distinct"]


def union_to_distinct(rel: Rel) -> Rel | None:
    if not isinstance(rel, Union) or rel.all:
        return None
    return Aggregate(replace(rel, all=True), tuple(range(rel.width)), ())
