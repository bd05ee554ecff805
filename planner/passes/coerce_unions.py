"""Casts the inputs of a UNION, INTERSECT or EXCEPT to its column types, nullability included.

Source: Calcite's ``CoerceInputsRule``.
"""

from __future__ import annotations

from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.execnodes.types import LogicalType
from stateplan.planner.algebra.relations import Project, Rel, SetOperation, Union, field_names, replace_inputs
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.ops import cast, same_type


def coerce_unions(rel: Rel) -> Rel | None:
    if not isinstance(rel, (Union, SetOperation)):
        return None
    wanted = rel.fields
    inputs = []
    for source in rel.inputs:
        fields = source.fields
        if all(a == b for (_, a), (_, b) in zip(fields, wanted, strict=True)):
            inputs.append(source)
            continue
        exprs = (
            source.exprs if isinstance(source, Project) else tuple(InputRef(t, i) for i, (_, t) in enumerate(fields))
        )
        below = source.input if isinstance(source, Project) else source
        exprs = tuple(_cast(e, t) for e, (_, t) in zip(exprs, wanted, strict=True))
        inputs.append(Project(below, exprs, tuple(field_names(source))))
    if all(a is b for a, b in zip(inputs, rel.inputs, strict=True)):
        return None
    return replace_inputs(rel, inputs)


def _cast(rex: Rex, target: LogicalType) -> Rex:
    if isinstance(rex, Literal) and not same_type(rex.type, target):
        return fold.cast_literal(rex, target.as_nullable(rex.type.nullable))
    return cast(rex, target)
