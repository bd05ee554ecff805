"""Narrows the input of a watermark assigner to the fields that it or the projection above needs.

Source: Flink's ``ProjectWatermarkAssignerTransposeRule``: the fields are in the order of their first use.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import InputRef
from stateplan.planner.algebra.relations import (
    Project,
    Rel,
    Scan,
    field_names,
    is_identity,
    refs_to,
)
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.expressions.ops import Over, refs, remap, walk


def project_through_watermark(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, WatermarkAssigner):
        return None
    if any(isinstance(e, Over) for x in rel.exprs for e in walk(x)):
        return None
    assigner = rel.input
    used = refs(*rel.exprs, assigner.watermark)
    if assigner.rowtime not in used:
        used.append(assigner.rowtime)
    if len(used) == assigner.width:
        return None
    names = field_names(assigner)
    where = {f: i for i, f in enumerate(used)}
    below = Project(assigner.input, tuple(refs_to(assigner.input, used)), tuple(names[i] for i in used))
    narrowed = replace(
        assigner, input=below, rowtime=where[assigner.rowtime], watermark=remap(assigner.watermark, where)
    )
    exprs = tuple(remap(e, where) for e in rel.exprs)
    if is_identity(exprs, narrowed):
        return narrowed
    if isinstance(assigner.input, Project) and not _saves(assigner.input, used):
        return None
    return replace(rel, input=narrowed, exprs=exprs)


def _saves(project: Project, used: list[int]) -> bool:
    """Whether less is read or computed when only the fields ``used`` of ``project`` are asked for: Flink's planner goes
    by the cost."""
    kept = [project.exprs[i] for i in used]
    computed = [sum(not isinstance(e, InputRef) for e in exprs) for exprs in (project.exprs, kept)]
    scan = project.input
    needed = set(scan.key or ()) if isinstance(scan, Scan) and scan.normalized is not None else set()
    read = [len({*refs(*exprs), *needed}) for exprs in (project.exprs, kept)]
    return computed[0] > computed[1] or read[0] > read[1]
