"""Takes constant keys out of a grouping, and puts them back above it.

Source: Calcite's ``AggregateProjectPullUpConstantsRule`` (with its config for a projection below).
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.relations import Aggregate, Project, Rel, field_names
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.ops import call
from stateplan.planner.metadata.predicates import constant_map, predicates_of


def _pruned(aggregate: Aggregate, project: Project) -> Aggregate:
    """``aggregate`` over ``project`` without the fields it does not use."""
    used = sorted(
        {
            *aggregate.group,
            *(a for c in aggregate.calls for a in c.args),
            *(c.filter for c in aggregate.calls if c.filter >= 0),
        }
    )
    if len(used) == project.width:
        return aggregate
    where = {f: i for i, f in enumerate(used)}
    calls = tuple(
        replace(c, args=tuple(where[a] for a in c.args), filter=where.get(c.filter, -1)) for c in aggregate.calls
    )
    below = replace(project, exprs=tuple(project.exprs[i] for i in used), names=tuple(project.names[i] for i in used))
    return replace(aggregate, input=below, group=tuple(where[g] for g in aggregate.group), calls=calls)


def pull_up_constants(rel: Rel) -> Rel | None:
    if not isinstance(rel, Aggregate) or not isinstance(rel.input, Project) or len(rel.group) <= 1:
        return None
    constants: dict[int, Literal] = {}
    for ref, value in constant_map(predicates_of(rel.input)):
        if isinstance(ref, InputRef) and ref.index in rel.group:
            constants[ref.index] = value
    if not constants:
        return None
    kept = tuple(g for g in rel.group if g not in constants)
    if not kept:
        kept = (rel.group[0],)
        del constants[rel.group[0]]
        if not constants:
            return None
    names = field_names(rel)
    calls = tuple(replace(c, name=n) for c, n in zip(rel.calls, names[len(rel.group) :], strict=True))
    below = _pruned(replace(rel, group=kept, calls=calls), rel.input)
    exprs: list[Rex] = []
    for i, g in enumerate(rel.group):
        t = rel.fields[i][1]
        if g in constants:
            constant: Rex = fold.cast_literal(constants[g], t)
            exprs.append(constant if constant.type == t else call("CAST", (constant,), t))
        else:
            exprs.append(InputRef(t, kept.index(g)))
    exprs += [InputRef(c.type, len(kept) + k) for k, c in enumerate(calls)]
    return Project(below, tuple(exprs), tuple(names))
