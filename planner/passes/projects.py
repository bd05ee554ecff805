"""Projections: merged, moved towards the sources, and turned into calcs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stateplan.connectors.registry import find_connector
from stateplan.functions.rex import InputRef, Rex, input_refs, remap
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    Calc,
    ChangelogNormalize,
    Exchange,
    Filter,
    Join,
    Project,
    Rel,
    Scan,
    SetOperation,
    Union,
    field_names,
    is_identity,
    refs_to,
    replace_inputs,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.temporal import TemporalJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import WindowTable
from stateplan.planner.expressions.normal import equal
from stateplan.planner.expressions.ops import (
    Over,
    and_,
    conjunctions,
    is_always_true,
    is_deterministic,
    may_move,
    refs,
    substitute,
    walk,
)
from stateplan.planner.expressions.simplify import Simplifier
from stateplan.planner.passes.build import typed_by

# Merges a projection into the one below it, and drops projections that change nothing.
#
# Source: Flink's ``FlinkProjectMergeRule`` and Calcite's ``ProjectRemoveRule``.


def mergeable(top: Iterable[Rex], bottom: Sequence[Rex]) -> bool:
    """Whether ``top`` may be computed in one step with ``bottom``: what is not deterministic must not be computed
    twice."""
    uses = Counter(e.index for t in top for e in walk(t) if isinstance(e, InputRef))
    return all(uses[i] <= 1 or is_deterministic(b) for i, b in enumerate(bottom))


def merge_projects(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Project):
        return None
    below = rel.input
    if (_has_window(rel.exprs) and _has_window(below.exprs)) or not mergeable(rel.exprs, below.exprs):
        return None
    exprs = tuple(substitute(e, below.exprs) for e in rel.exprs)
    if exprs == below.exprs:
        return below
    return replace(rel, input=below.input, exprs=exprs)


def remove_trivial_project(rel: Rel) -> Rel | None:
    return rel.input if isinstance(rel, Project) and is_identity(rel.exprs, rel.input) else None


# Narrows the inputs of filters, joins and unions to the fields that are needed above.
#
# Source: Calcite's ``ProjectFilterTransposeRule`` and ``ProjectSetOpTransposeRule`` and Flink's
# ``FlinkProjectJoinTransposeRule``, all on ``PushProjector`` (no expressions are moved, only fields).


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
    if _has_window(rel.exprs) or not all(may_move(e) for e in rel.exprs):
        return None
    sources = [Project(s, tuple(typed_by(e, s) for e in rel.exprs), rel.names) for s in rel.input.inputs]
    return replace_inputs(rel.input, sources)


def project_through_watermark(rel: Rel) -> Rel | None:
    """Narrows the input of a watermark assigner to the fields that it or the projection above needs.

    Source: Flink's ``ProjectWatermarkAssignerTransposeRule``: the fields are in the order of their first use.
    """
    if not isinstance(rel, Project) or not isinstance(rel.input, WatermarkAssigner):
        return None
    if any(isinstance(e, Over) for x in rel.exprs for e in walk(x)):
        return None
    assigner = rel.input
    if not _narrows(assigner.input):
        return None
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


def _narrows(rel: Rel) -> bool:
    """Whether fewer fields can be had of ``rel`` without one more projection: for Flink's planner that costs more than
    it saves."""
    return not isinstance(rel, Scan) or "ProjectPushDown" in find_connector(rel.table.options).abilities


def _saves(project: Project, used: list[int]) -> bool:
    """Whether less is read or computed when only the fields ``used`` of ``project`` are asked for: Flink's planner goes
    by the cost."""
    kept = [project.exprs[i] for i in used]
    computed = [sum(not isinstance(e, InputRef) for e in exprs) for exprs in (project.exprs, kept)]
    scan = project.input
    needed = set(scan.key or ()) if isinstance(scan, Scan) and scan.normalized is not None else set()
    read = [len({*refs(*exprs), *needed}) for exprs in (project.exprs, kept)]
    return computed[0] > computed[1] or (read[0] > read[1] and _narrows(scan))


def project_through_window(rel: Rel) -> Rel | None:
    """Narrows the input of a window table function to the fields that the projection above needs.

    Source: Flink's ``ProjectWindowTableFunctionTransposeRule``: the fields stay in their order.
    """
    if not isinstance(rel, Project) or not isinstance(rel.input, WindowTable):
        return None
    if any(isinstance(e, Over) for x in rel.exprs for e in walk(x)):
        return None
    table = rel.input
    width = table.input.width
    kept = sorted({i for i in refs(*rel.exprs) if i < width} | {table.time, *table.window.keys})
    if len(kept) == width:
        return None
    names = field_names(table.input)
    where = {f: i for i, f in enumerate(kept)} | {width + i: len(kept) + i for i in range(3)}
    below = Project(table.input, tuple(refs_to(table.input, kept)), tuple(names[i] for i in kept))
    window = replace(table.window, keys=tuple(where[k] for k in table.window.keys))
    narrowed = replace(table, input=below, window=window, time=where[table.time], names=())
    return replace(rel, input=narrowed, exprs=tuple(remap(e, where) for e in rel.exprs))


# Joins chains of projections and filters into calcs.
#
# Source: Flink's ``FlinkCalcMergeRule`` and Calcite's ``ProjectToCalcRule``, ``FilterToCalcRule`` and
# ``CalcRemoveRule``.


def _as_calc(rel: Rel) -> Calc | None:
    if isinstance(rel, Calc):
        return rel
    if isinstance(rel, Project):
        return Calc(rel.input, rel.exprs, rel.names)
    if isinstance(rel, Filter):
        return Calc(rel.input, tuple(refs_to(rel.input)), tuple(field_names(rel.input)), rel.condition)
    return None


def merged_calcs(top: Calc, below: Calc) -> Calc | None:
    """``top`` over ``below`` as one calc; None where something would be computed twice."""
    condition = [top.condition] if top.condition is not None else []
    if not mergeable([*top.exprs, *condition], below.exprs):
        return None
    exprs = tuple(substitute(e, below.exprs) for e in top.exprs)
    terms = [*conjunctions(below.condition), *(substitute(c, below.exprs) for c in conjunctions(top.condition))]
    if not terms:
        return Calc(below.input, exprs, top.names, input_names=below.input_names)
    from stateplan.planner.expressions.ops import and_

    merged = and_(terms)
    if condition:
        simplified = Simplifier().simplify(merged, "FALSE")
        merged = merged if equal(simplified, merged) else simplified
    left = None if is_always_true(merged) else merged
    return Calc(below.input, exprs, top.names, left, input_names=below.input_names)


def to_calcs(rel: Rel) -> Rel:
    """``rel`` with every chain of projections, filters and calcs as few calcs as possible."""
    calc = _as_calc(rel)
    if calc is None:
        return replace_inputs(rel, [to_calcs(i) for i in rel.inputs])
    while (below := _as_calc(calc.input)) is not None and (merged := merged_calcs(calc, below)) is not None:
        calc = merged
    calc = replace(calc, input=to_calcs(calc.input))
    return calc.input if is_trivial(calc) else calc


def is_trivial(calc: Calc) -> bool:
    """Whether a calc gives all rows of its input, with all their fields in order, under whatever names."""
    return calc.condition is None and is_identity(calc.exprs, calc.input)


def to_named_calcs(rel: Rel) -> Rel:
    """As :func:`to_calcs`, where a calc still knows the names that its input had."""
    calc = _as_calc(rel)
    if calc is None:
        if isinstance(rel, OverAggregate) and isinstance(rel.input, Calc) and is_trivial(rel.input):
            rel = replace(rel, input_names=rel.input.input_names)
        return replace_inputs(rel, [to_named_calcs(i) for i in rel.inputs])
    if calc.input_names is None:
        calc = replace(calc, input_names=tuple(field_names(calc.input)))
    while (below := _as_calc(calc.input)) is not None:
        if is_trivial(below):
            calc = replace(calc, input=below.input)
        elif (merged := merged_calcs(calc, below)) is not None:
            calc = replace(merged, input_names=merged.input_names or tuple(field_names(below.input)))
        else:
            break
    calc = replace(calc, input=to_named_calcs(calc.input))
    return calc.input if is_trivial(calc) else calc


def push_calc_past_normalize(rel: Rel) -> Rel | None:
    """Moves what a calc does to normalized changes to where it saves state: conditions on the key and the choice of
    fields in front of the normalization, other conditions into it.

    Source: Flink's ``PushCalcPastChangelogNormalizeRule``.
    """
    if not isinstance(rel, Calc) or not isinstance(rel.input, ChangelogNormalize):
        return None
    normalize = rel.input
    if not isinstance(normalize.input, Exchange):
        return None
    terms = conjunctions(rel.condition)
    on_key = [t for t in terms if set(refs(t)) <= set(normalize.key)]
    others = [t for t in terms if t not in on_key]
    used = sorted({*refs(*rel.exprs, *others, normalize.condition), *normalize.key})
    if not terms and len(used) == normalize.width:
        return None
    below = normalize.input.input
    where = {f: i for i, f in enumerate(used)}
    key = normalize.key
    if on_key or len(used) < below.width:
        names = tuple(below.fields[i][0] for i in used)
        below = Calc(below, tuple(refs_to(below, used)), names, and_(on_key) if on_key else None)
        key = tuple(sorted(where[k] for k in key))
    inside = [remap(t, where) for t in (*conjunctions(normalize.condition), *others)]
    condition = and_(inside) if inside else None
    moved = replace(normalize, input=Exchange(below, key), key=key, condition=condition)
    exprs = tuple(remap(e, where) for e in rel.exprs)
    if is_identity(exprs, moved):
        return moved
    return Calc(moved, exprs, rel.names)
