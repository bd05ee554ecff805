"""Removes what cannot give rows.

Source: Calcite's ``PruneEmptyRules`` and Flink's ``FlinkPruneEmptyRules``.
"""

from __future__ import annotations

from dataclasses import replace

from planner.algebra import Aggregate, Filter, Join, Project, Rel, Union, Values, Window
from planner.passes.build import empty

__all__ = ["prune_empty"]


def _is_empty(rel: Rel) -> bool:
    return isinstance(rel, Values) and not rel.tuples


def prune_empty(rel: Rel) -> Rel | None:
    if isinstance(rel, Union):
        kept = [s for s in rel.sources if not _is_empty(s)]
        if len(kept) == len(rel.sources):
            return None
        if not kept:
            return empty(rel)
        if len(kept) == 1 and rel.all:
            return kept[0]
        return replace(rel, sources=tuple(kept))
    if isinstance(rel, Join):
        return empty(rel) if rel.join_type == "INNER" and any(_is_empty(i) for i in rel.inputs) else None
    if isinstance(rel, Aggregate):
        return empty(rel) if rel.group and _is_empty(rel.input) else None
    if isinstance(rel, (Project, Filter, Window)):
        return empty(rel) if _is_empty(rel.input) else None
    return None
