"""Has sources read only the columns and metadata that are needed.

Source: Flink's ``PushProjectIntoTableSourceScanRule``: columns in order of use, metadata in the source's order. Where
changes are normalized by primary key, its columns are needed too.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.connectors.registry import metadata_columns, source_abilities
from stateplan.planner.algebra.relations import Project, ProjectAbility, Rel, Scan, is_identity
from stateplan.planner.expressions.ops import refs, remap


def push_project_into_scan(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Scan):
        return None
    scan = rel.input
    if scan.projection is not None and scan.projection.projects:
        return None
    abilities = source_abilities(scan.table.options)
    if "ProjectPushDown" not in abilities:
        return None
    physical_count = len(scan.table.schema.physical)
    used = refs(*rel.exprs)
    if scan.normalized is not None:
        used += [i for i in scan.key or () if i not in used]
    if not used:
        used = [0]
    if len(used) == scan.width:
        return None
    physical = [i for i in used if i < physical_count]
    metadata = [i for i in used if i >= physical_count]
    keys = scan.projection.metadata if scan.projection is not None else ()
    order = list(metadata_columns(scan.table.options)) if keys else []
    metadata.sort(key=lambda i: order.index(keys[i - physical_count]))
    kept = [*physical, *metadata]
    names, types = tuple(scan.names[i] for i in kept), tuple(scan.types[i] for i in kept)
    ability = ProjectAbility(
        tuple(physical), tuple(keys[i - physical_count] for i in metadata), tuple(zip(names, types, strict=True))
    )
    others = tuple(a for a in scan.abilities if not isinstance(a, ProjectAbility))
    narrowed = replace(scan, names=names, types=types, abilities=(*others, ability))
    where = {f: i for i, f in enumerate(kept)}
    exprs = tuple(remap(e, where) for e in rel.exprs)
    if is_identity(exprs, narrowed):
        return narrowed
    return replace(rel, input=narrowed, exprs=exprs)
