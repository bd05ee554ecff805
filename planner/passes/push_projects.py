"""Narrows the inputs of filters, joins and unions to the fields that are needed above.

Source: Calcite's ``ProjectFilterTransposeRule`` and ``ProjectSetOpTransposeRule`` and Flink's
``FlinkProjectJoinTransposeRule``, all on ``PushProjector`` (no expressions are moved, only fields).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import (
    Filter,
    Join,
    Project,
    Rel,
    SetOperation,
    Union,
    field_names,
    is_identity,
    refs_to,
    replace_inputs,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.temporal import TemporalJoin
from stateplan.planner.expressions.ops import Over, input_refs, is_deterministic, remap, walk


def _has_window(exprs: Iterable[Rex]) -> bool:
    return any(isinstance(e, Over) for x in exprs for e in walk(x))


def _fields(rel: Rel, indexes: list[int]) -> Project:
    names = field_names(rel)
    return Project(rel, tuple(refs_to(rel, indexes)), tuple(names[i] for i in indexes))


def project_through_filter(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Filter) or _has_window(rel.exprs):
        return None
    below = rel.input.input
    if isinstance(below, FunctionCorrelate) and below.join_type == "INNER":
        return None  # in Flink the filter stands inside of the correlate here
    used = {i for e in (*rel.exprs, rel.input.condition) for i in input_refs(e)}
    if not used:
        if below.width == 1:
            return None
        used = {0}
    if len(used) == below.width:
        return None
    kept = sorted(used)
    where = {f: i for i, f in enumerate(kept)}
    filter_ = Filter(_fields(below, kept), remap(rel.input.condition, where))
    top = replace(rel, input=filter_, exprs=tuple(remap(e, where) for e in rel.exprs))
    return filter_ if is_identity(top.exprs, filter_) else top


def project_through_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, (Join, TemporalJoin)) or _has_window(rel.exprs):
        return None
    join = rel.input
    one_sided = join.join_type in ("SEMI", "ANTI")
    width, total = join.left.width, join.left.width + join.right.width
    used = {i for e in (*rel.exprs, join.condition) for i in input_refs(e)}
    if isinstance(join, TemporalJoin):
        used |= {join.left_time, *(() if join.right_time is None else (width + join.right_time,))}
    if not any(i < width for i in used):
        used.add(0)
    if not one_sided and not any(i >= width for i in used):
        used.add(width)
    if len(used) == total:
        return None
    kept = sorted(used)
    where = {f: i for i, f in enumerate(kept)}
    left = _fields(join.left, [i for i in kept if i < width])
    right = _fields(join.right, [i - width for i in kept if i >= width])
    narrowed = replace(join, left=left, right=right, condition=remap(join.condition, where))
    if isinstance(join, TemporalJoin) and isinstance(narrowed, TemporalJoin):
        right_time = None if join.right_time is None else where[width + join.right_time] - left.width
        narrowed = replace(narrowed, left_time=where[join.left_time], right_time=right_time)
    exprs = tuple(remap(e, where) for e in rel.exprs)
    if is_identity(exprs, narrowed):
        return narrowed
    return replace(rel, input=narrowed, exprs=exprs)


def project_through_union(rel: Rel) -> Rel | None:
    """Projections move below UNION ALL; below INTERSECT ALL and EXCEPT ALL too, as in Calcite, though rows that differ
    in other fields only become the same there."""
    if not isinstance(rel, Project) or not isinstance(rel.input, (Union, SetOperation)) or not rel.input.all:
        return None
    if _has_window(rel.exprs) or not all(is_deterministic(e) for e in rel.exprs):
        return None
    sources = [Project(s, tuple(_retyped(e, s) for e in rel.exprs), rel.names) for s in rel.input.inputs]
    return replace_inputs(rel.input, sources)


def _retyped(rex: Rex, rel: Rel) -> Rex:
    from stateplan.planner.expressions.ops import substitute

    return substitute(rex, [InputRef(t, i) for i, (_, t) in enumerate(rel.fields)])
