"""Removes what cannot give rows.

Source: Calcite's ``PruneEmptyRules`` and Flink's ``FlinkPruneEmptyRules``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    Project,
    Rel,
    SetOperation,
    Sort,
    Union,
    Values,
    Window,
)
from stateplan.planner.algebra.table_aggregates import TableAggregate
from stateplan.planner.expressions.ops import cast
from stateplan.planner.passes.build import empty


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
        return _pruned_join(rel)
    if isinstance(rel, SetOperation):
        left, right = map(_is_empty, rel.inputs)
        if left or (right and rel.operator == "INTERSECT"):
            return empty(rel)
        if right:
            return rel.left if rel.all else Aggregate(rel.left, tuple(range(rel.width)), ())
        return None
    if isinstance(rel, Aggregate):
        if not _is_empty(rel.input):
            return None
        return empty(rel) if rel.group else _of_nothing(rel)
    if isinstance(rel, (OverAggregate, Project, Filter, Sort, TableAggregate, Window)):
        return empty(rel) if _is_empty(rel.input) else None
    return None


def _of_nothing(rel: Aggregate) -> Values | None:
    """The one row of an aggregate without group keys over no rows (``AggregateValuesRule``)."""
    if any(c.function not in ("COUNT", "$SUM0", "SUM", "MIN", "MAX") for c in rel.calls):
        return None
    row = tuple(Literal(c.type, 0 if c.function in ("COUNT", "$SUM0") else None) for c in rel.calls)
    return Values(rel.fields, (row,))


def _pruned_join(rel: Join) -> Rel | None:
    """A join with an empty side: nothing, or the rows of the other side, padded where the join pads."""
    left, right = map(_is_empty, rel.inputs)
    if not left and not right:
        return None
    if (left and rel.join_type not in ("RIGHT", "FULL")) or (right and rel.join_type in ("INNER", "RIGHT", "SEMI")):
        return empty(rel)
    if left and right:
        return empty(rel)
    if rel.join_type == "ANTI":
        return rel.left
    kept = rel.right if left else rel.left
    offset = rel.left.width if left else 0
    exprs: list[Rex] = []
    for i, (_, t) in enumerate(rel.fields):
        inside = offset <= i < offset + kept.width
        exprs.append(cast(InputRef(kept.fields[i - offset][1], i - offset), t) if inside else Literal(t, None))
    return Project(kept, tuple(exprs), tuple(n for n, _ in rel.fields))
