"""Moves a semi or anti join below an inner join, to the side that it compares with, where that leaves no more rows.

Source: Flink's ``FlinkSemiAntiJoinJoinTransposeRule`` and ``FlinkSemiAntiJoinProjectTransposeRule``, which are applied
where the cost is lower.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import InputRef
from stateplan.planner.algebra.relations import Join, Project, Rel
from stateplan.planner.expressions.ops import input_refs, remap
from stateplan.planner.metadata.row_counts import row_count


def semi_join_below_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, Join) or rel.join_type not in ("SEMI", "ANTI"):
        return None
    if isinstance(rel.left, Project):
        return _below_projection(rel, rel.left)
    join = rel.left
    if not isinstance(join, Join) or join.join_type != "INNER":
        return None
    outer, inner = join.width, join.left.width
    used = {i for i in input_refs(rel.condition) if i < outer}
    if not used:
        return None
    if all(i < inner for i in used):
        pushed = replace(
            rel, left=join.left, condition=remap(rel.condition, lambda i: i - outer + inner if i >= outer else i)
        )
        made = replace(join, left=pushed)
    elif all(i >= inner for i in used):
        pushed = replace(rel, left=join.right, condition=remap(rel.condition, lambda i: i - inner))
        made = replace(join, right=pushed)
    else:
        return None
    return made if row_count(pushed) <= row_count(join) else None


def _below_projection(rel: Join, project: Project) -> Rel | None:
    width = project.width
    used = {i for i in input_refs(rel.condition) if i < width}
    fields = {i: e.index for i in used if isinstance(e := project.exprs[i], InputRef)}
    if len(fields) < len(used):
        return None
    below = project.input.width
    condition = remap(rel.condition, lambda i: i - width + below if i >= width else fields[i])
    pushed = semi_join_below_join(replace(rel, left=project.input, condition=condition))
    return None if pushed is None else replace(project, input=pushed)
