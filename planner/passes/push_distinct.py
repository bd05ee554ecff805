"""Removes duplicates below an inner join instead of above it: of a side by its join keys, where the other side has at
most one row per key.

Source: Flink's ``FlinkAggregateJoinTransposeRule``, which is applied where the cost is lower; of its cases this is the
one in which no grouping is left above the join.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import InputRef
from stateplan.planner.algebra.join_keys import equi_keys, is_equi_key
from stateplan.planner.algebra.relations import Aggregate, Join, Project, Rel, refs_to
from stateplan.planner.expressions.ops import conjunctions, remap
from stateplan.planner.metadata.row_counts import row_count
from stateplan.planner.metadata.unique_keys import are_unique

_FEW = 2e7
"""Rows of the other side that leave so little that duplicates are cheaper to remove above."""


def distinct_below_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, Aggregate) or rel.calls or not rel.group:
        return None
    fields = _fields(rel)
    join = rel.input.input if isinstance(rel.input, Project) else rel.input
    if fields is None or not isinstance(join, Join) or join.join_type != "INNER":
        return None
    width = join.left.width
    if not all(is_equi_key(t, width) for t in conjunctions(join.condition)):
        return None
    pairs = equi_keys(join.condition, width)
    keys = [tuple(dict.fromkeys(p[side] for p in pairs)) for side in (0, 1)]
    grouped = [{f for f in fields if f < width}, {f - width for f in fields if f >= width}]
    for side, other in ((0, 1), (1, 0)):
        rows = join.inputs[side]
        if not pairs or grouped[side] != set(keys[side]) or are_unique(rows, frozenset(keys[side])):
            continue
        if not are_unique(join.inputs[other], frozenset(keys[other])) or row_count(join.inputs[other]) < _FEW:
            continue
        order = sorted(keys[side])
        distinct = Aggregate(
            Project(rows, tuple(refs_to(rows, order)), tuple(rows.fields[k][0] for k in order)),
            tuple(range(len(order))),
            (),
            rel.ttl,
            rel.place,
        )
        return _joined(rel, join, distinct, side, order, fields)
    return None


def _fields(rel: Aggregate) -> list[int] | None:
    """The fields of the join that are grouped by; None where there are expressions."""
    if not isinstance(rel.input, Project):
        return list(rel.group)
    exprs = [rel.input.exprs[g] for g in rel.group]
    return [e.index for e in exprs if isinstance(e, InputRef)] if all(isinstance(e, InputRef) for e in exprs) else None


def _joined(rel: Aggregate, join: Join, distinct: Aggregate, side: int, order: list[int], fields: list[int]) -> Rel:
    """The join with ``distinct``, which holds the fields ``order`` of its side."""
    width, more = join.left.width, join.right.width
    if side == 0:
        where = {k: i for i, k in enumerate(order)} | {width + i: len(order) + i for i in range(more)}
        new = replace(join, left=distinct, condition=remap(join.condition, where))
    else:
        where = {i: i for i in range(width)} | {width + k: width + i for i, k in enumerate(order)}
        new = replace(join, right=distinct, condition=remap(join.condition, where))
    return Project(new, tuple(refs_to(new, [where[f] for f in fields])), tuple(n for n, _ in rel.fields))
