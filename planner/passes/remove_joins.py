"""Removes an outer join that adds nothing: no column of its padded side is used, and that side has at most one match
per row, or duplicates do not count.

Source: Calcite's ``ProjectJoinRemoveRule`` and ``AggregateJoinRemoveRule``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stateplan.execnodes.rex import InputRef
from stateplan.planner.algebra.join_keys import equi_keys
from stateplan.planner.algebra.relations import Aggregate, Join, Project, Rel, field_names, refs_to
from stateplan.planner.expressions.ops import input_refs, remap
from stateplan.planner.metadata.unique_keys import are_unique


def _kept_side(join: Join, used: Iterable[int]) -> tuple[Rel, int] | None:
    """The side whose rows are all kept, and where its fields begin, if ``used`` are of it alone; else None."""
    width = join.left.width
    if join.join_type == "LEFT" and all(i < width for i in used):
        return join.left, 0
    if join.join_type == "RIGHT" and all(i >= width for i in used):
        return join.right, width
    return None


def remove_join_below_project(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Join):
        return None
    join = rel.input
    kept = _kept_side(join, [i for e in rel.exprs for i in input_refs(e)])
    if kept is None:
        return None
    side, offset = kept
    pairs = equi_keys(join.condition, join.left.width)
    other, keys = (join.right, {r for _, r in pairs}) if offset == 0 else (join.left, {k for k, _ in pairs})
    if not are_unique(other, frozenset(keys)):
        return None
    return replace(rel, input=side, exprs=tuple(remap(e, lambda i: i - offset) for e in rel.exprs))


def remove_join_below_aggregate(rel: Rel) -> Rel | None:
    """For groupings without calls, or with DISTINCT calls only."""
    if not isinstance(rel, Aggregate) or not all(c.distinct for c in rel.calls):
        return None
    below = rel.input
    if isinstance(below, Project) and isinstance(below.input, Join):
        if not all(isinstance(e, InputRef) for e in below.exprs):
            return None
        project, join = below, below.input
    elif isinstance(below, Join):
        project, join = Project(below, tuple(refs_to(below)), tuple(field_names(below))), below
    else:
        return None
    fields = [e.index for e in project.exprs if isinstance(e, InputRef)]
    used = {*rel.group, *(a for c in rel.calls for a in c.args), *(c.filter for c in rel.calls if c.filter >= 0)}
    kept = _kept_side(join, [fields[i] for i in used])
    if kept is None:
        return None
    side, offset = kept
    order = sorted(used)
    where = {f: i for i, f in enumerate(order)}
    exprs = tuple(InputRef(side.fields[fields[i] - offset][1], fields[i] - offset) for i in order)
    calls = tuple(replace(c, args=tuple(where[a] for a in c.args), filter=where.get(c.filter, -1)) for c in rel.calls)
    return replace(
        rel,
        input=Project(side, exprs, tuple(project.names[i] for i in order)),
        group=tuple(where[g] for g in rel.group),
        calls=calls,
    )
