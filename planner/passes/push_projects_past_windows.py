"""Narrows the input of a window table function to the fields that the projection above needs.

Source: Flink's ``ProjectWindowTableFunctionTransposeRule``: the fields stay in their order.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.planner.algebra.relations import Project, Rel, field_names, refs_to
from stateplan.planner.algebra.windows import WindowTable
from stateplan.planner.expressions.ops import Over, refs, remap, walk


def project_through_window(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, WindowTable):
        return None
    if any(isinstance(e, Over) for x in rel.exprs for e in walk(x)):
        return None
    table = rel.input
    width = table.input.width
    kept = sorted({i for i in refs(*rel.exprs) if i < width} | {table.time})
    if len(kept) == width:
        return None
    names = field_names(table.input)
    where = {f: i for i, f in enumerate(kept)} | {width + i: len(kept) + i for i in range(3)}
    below = Project(table.input, tuple(refs_to(table.input, kept)), tuple(names[i] for i in kept))
    narrowed = replace(table, input=below, time=where[table.time])
    return replace(rel, input=narrowed, exprs=tuple(remap(e, where) for e in rel.exprs))
