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
    some_fields,
    unique_names,
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
from stateplan.planner.expressions.simplify import Simplifier, simplify_preserving_type
from stateplan.planner.passes.build import filtered, typed_by

# Merges a projection into the one below it, and drops projections that change nothing. What comes together is
# simplified, as by any ``RelBuilder``, but constants are not evaluated any more.
#
# Source: Flink's ``FlinkProjectMergeRule`` and Calcite's ``ProjectRemoveRule``.


def mergeable(top: Iterable[Rex], bottom: Sequence[Rex]) -> bool:
    """Whether ``top`` may be computed in one step with ``bottom``: what is not deterministic must not be computed
    twice. An OVER window is computed once, however often it is used."""
    uses = Counter(e.index for t in top for e in walk(t) if isinstance(e, InputRef))
    return all(uses[i] <= 1 or all(map(is_deterministic, _outside_windows(b))) for i, b in enumerate(bottom))


def _outside_windows(rex: Rex) -> list[Rex]:
    """The parts of an expression that are not OVER windows: itself, or the operands of the windows in it."""
    if isinstance(rex, Over):
        return [part for child in rex.children for part in _outside_windows(child)]
    return [part for child in rex.children for part in _outside_windows(child)] if _has_window([rex]) else [rex]


def merge_projects(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Project):
        return None
    below = rel.input
    if (_has_window(rel.exprs) and _has_window(below.exprs)) or not mergeable(rel.exprs, below.exprs):
        return None
    exprs = tuple(substitute(e, below.exprs) for e in rel.exprs)
    if exprs == below.exprs:
        return below
    if rel.width < below.width and is_identity(exprs, below.input):
        return below.input
    exprs = tuple(simplify_preserving_type(e, "UNKNOWN") for e in exprs)
    return replace(rel, input=below.input, exprs=exprs)


def remove_trivial_project(rel: Rel) -> Rel | None:
    return rel.input if isinstance(rel, Project) and is_identity(rel.exprs, rel.input) else None


# Narrows the inputs of filters, joins and unions to the fields that are needed above.
#
# Source: Calcite's ``ProjectFilterTransposeRule`` and ``ProjectSetOpTransposeRule`` and Flink's
# ``FlinkProjectJoinTransposeRule``, all on ``PushProjector`` (no expressions are moved, only fields). It builds filters
# anew, which may change the order of their conditions.


def _has_window(exprs: Iterable[Rex]) -> bool:
    return any(isinstance(e, Over) for x in exprs for e in walk(x))


def project_through_filter(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Filter) or _has_window(rel.exprs):
        return None
    below = rel.input.input
    if isinstance(below, FunctionCorrelate) and below.join_type == "INNER" and not below.is_unnest:
        return None  # in Flink the filter is inside of the correlate here
    used_fields = {i for e in (*rel.exprs, rel.input.condition) for i in input_refs(e)}
    if not used_fields:
        if below.width == 1:
            return None
        used_fields = {0}
    if len(used_fields) == below.width:
        return None
    kept_fields = sorted(used_fields)
    field_map = {f: i for i, f in enumerate(kept_fields)}
    filter_ = filtered(some_fields(below, kept_fields), [remap(rel.input.condition, field_map)])
    top = replace(rel, input=filter_, exprs=tuple(remap(e, field_map) for e in rel.exprs))
    return filter_ if is_identity(top.exprs, filter_) else top


def project_through_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, (Join, TemporalJoin)) or _has_window(rel.exprs):
        return None
    join = rel.input
    one_sided = join.join_type in ("SEMI", "ANTI")
    width, total = join.left.width, join.left.width + join.right.width
    used_fields = {i for e in (*rel.exprs, join.condition) for i in input_refs(e)}
    if isinstance(join, TemporalJoin):
        used_fields |= {join.left_time, *(() if join.right_time is None else (width + join.right_time,))}
    if not any(i < width for i in used_fields):
        used_fields.add(0)
    if not one_sided and not any(i >= width for i in used_fields):
        used_fields.add(width)
    if len(used_fields) == total:
        return None
    kept_fields = sorted(used_fields)
    field_map = {f: i for i, f in enumerate(kept_fields)}
    left = some_fields(join.left, [i for i in kept_fields if i < width])
    right = some_fields(join.right, [i - width for i in kept_fields if i >= width])
    narrow_join = replace(join, left=left, right=right, condition=remap(join.condition, field_map))
    if isinstance(join, TemporalJoin) and isinstance(narrow_join, TemporalJoin):
        right_time = None if join.right_time is None else field_map[width + join.right_time] - left.width
        narrow_join = replace(narrow_join, left_time=field_map[join.left_time], right_time=right_time)
    exprs = tuple(remap(e, field_map) for e in rel.exprs)
    if is_identity(exprs, narrow_join):
        return narrow_join
    return replace(rel, input=narrow_join, exprs=exprs)


def project_through_union(rel: Rel) -> Rel | None:
    """Projections move below UNION ALL; below INTERSECT ALL and EXCEPT ALL too, as in Calcite, though rows that differ
    in other fields only become the same there."""
    if not isinstance(rel, Project) or not isinstance(rel.input, (Union, SetOperation)) or not rel.input.all:
        return None
    if _has_window(rel.exprs) or not all(may_move(e) for e in rel.exprs):
        return None
    sources = [Project(s, tuple(typed_by(e, s) for e in rel.exprs), rel.names) for s in rel.input.inputs]
    return replace_inputs(rel.input, sources)


def project_into_branches(rel: Rel) -> Rel | None:
    """As :func:`project_through_union`, where a branch has a projection of its own: with that, it costs less."""
    if not isinstance(rel, Project) or not isinstance(rel.input, Union):
        return None
    branches = rel.input.inputs
    return project_through_union(rel) if any(isinstance(b, (Project, Filter)) for b in branches) else None


def project_through_watermark(rel: Rel) -> Rel | None:
    """Narrows the input of a watermark assigner to the fields that it or the projection above needs.

    Source: Flink's ``ProjectWatermarkAssignerTransposeRule``: the fields are in the order of their first use.
    """
    if not isinstance(rel, Project) or not isinstance(rel.input, WatermarkAssigner):
        return None
    if any(isinstance(e, Over) for x in rel.exprs for e in walk(x)):
        return None
    assigner = rel.input
    used_fields = refs(*rel.exprs, assigner.watermark)
    if assigner.rowtime not in used_fields:
        used_fields.append(assigner.rowtime)
    if not _narrows(assigner.input, used_fields):
        return None
    if len(used_fields) == assigner.width:
        return None
    field_map = {f: i for i, f in enumerate(used_fields)}
    below = some_fields(assigner.input, used_fields)
    narrow_assigner = replace(
        assigner, input=below, rowtime=field_map[assigner.rowtime], watermark=remap(assigner.watermark, field_map)
    )
    exprs = tuple(remap(e, field_map) for e in rel.exprs)
    if is_identity(exprs, narrow_assigner):
        return narrow_assigner
    if isinstance(assigner.input, Project) and not _saves(assigner.input, used_fields):
        return None
    return replace(rel, input=narrow_assigner, exprs=exprs)


def _narrows(rel: Rel, used_fields: Sequence[int]) -> bool:
    """Whether fewer fields can be had of ``rel`` without one more projection, where only ``used_fields`` are requested:
    for Flink's planner that costs more than it saves. Changes that are normalized need their key too."""
    if not isinstance(rel, Scan):
        return True
    if rel.normalized is not None and len({*used_fields, *(rel.key or ())}) == rel.width:
        return False
    return "ProjectPushDown" in find_connector(rel.table.options).abilities


def _saves(project: Project, used_fields: list[int]) -> bool:
    """Whether less is read or computed when only the fields ``used_fields`` of ``project`` are requested: Flink's
    planner goes by the cost."""
    kept_exprs = [project.exprs[i] for i in used_fields]
    computed_counts = [sum(not isinstance(e, InputRef) for e in exprs) for exprs in (project.exprs, kept_exprs)]
    scan = project.input
    key_fields = set(scan.key or ()) if isinstance(scan, Scan) and scan.normalized is not None else set()
    read = [len({*refs(*exprs), *key_fields}) for exprs in (project.exprs, kept_exprs)]
    return computed_counts[0] > computed_counts[1] or (read[0] > read[1] and _narrows(scan, refs(*kept_exprs)))


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
    kept_fields = sorted({i for i in refs(*rel.exprs) if i < width} | {table.time, *table.window.keys})
    if len(kept_fields) == width:
        return None
    field_map = {f: i for i, f in enumerate(kept_fields)} | {width + i: len(kept_fields) + i for i in range(3)}
    below = some_fields(table.input, kept_fields)
    window = replace(table.window, keys=tuple(field_map[k] for k in table.window.keys))
    narrow_table = replace(table, input=below, window=window, time=field_map[table.time], names=())
    return replace(rel, input=narrow_table, exprs=tuple(remap(e, field_map) for e in rel.exprs))


def unnamed_function_fields(rel: Rel) -> Rel | None:
    """UNNEST gets the names of its function. What is above keeps those of the query."""
    return replace(rel, query_names=False) if isinstance(rel, FunctionCorrelate) and rel.query_names else None


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

    merged_condition = and_(terms)
    if condition:
        simplified = Simplifier().simplify(merged_condition, "FALSE")
        merged_condition = merged_condition if equal(simplified, merged_condition) else simplified
    left = None if is_always_true(merged_condition) else merged_condition
    return Calc(below.input, exprs, top.names, left, input_names=below.input_names)


def to_calcs(rel: Rel) -> Rel:
    """``rel`` with every chain of projections, filters and calcs merged into as few calcs as possible."""
    calc = _as_calc(rel)
    if calc is None:
        return replace_inputs(rel, [to_calcs(i) for i in rel.inputs])
    while (below := _as_calc(calc.input)) is not None and (merged_calc := merged_calcs(calc, below)) is not None:
        calc = merged_calc
    calc = replace(calc, input=to_calcs(calc.input))
    return calc.input if is_trivial(calc) else calc


def is_trivial(calc: Calc) -> bool:
    """Whether a calc emits all rows of its input, with all their fields in order, under whatever names."""
    return calc.condition is None and is_identity(calc.exprs, calc.input)


def to_named_calcs(rel: Rel) -> Rel:
    """As :func:`to_calcs`. Each calc also records the names of the fields of its input, which its description shows."""
    calc = _as_calc(rel)
    if calc is None:
        if isinstance(rel, OverAggregate):
            rel = replace(rel, input_names=_names_of_trivial(rel.input), physical=True)
        return replace_inputs(rel, [to_named_calcs(i) for i in rel.inputs])
    if calc.input_names is None:
        calc = replace(calc, input_names=tuple(field_names(calc.input)))
    while (below := _as_calc(calc.input)) is not None:
        if is_trivial(below):
            calc = replace(calc, input=below.input)
        elif (merged_calc := merged_calcs(calc, below)) is not None:
            calc = replace(merged_calc, input_names=merged_calc.input_names or tuple(field_names(below.input)))
        else:
            break
    calc = replace(calc, input=to_named_calcs(calc.input), names=tuple(unique_names(calc.names)))
    return calc.input if is_trivial(calc) else calc


def _names_of_trivial(rel: Rel) -> tuple[str, ...] | None:
    """What a trivial calc calls the fields of its input, each by a name of its own; None for any other relation."""
    if not isinstance(rel, Calc) or not is_trivial(rel) or rel.input_names is None:
        return None
    return tuple(unique_names(rel.input_names))


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
    used_fields = sorted({*refs(*rel.exprs, *others, normalize.condition), *normalize.key})
    if not terms and len(used_fields) == normalize.width:
        return None
    below = normalize.input.input
    field_map = {f: i for i, f in enumerate(used_fields)}
    key = normalize.key
    if on_key or len(used_fields) < below.width:
        names = tuple(below.fields[i][0] for i in used_fields)
        below = Calc(below, tuple(refs_to(below, used_fields)), names, and_(on_key) if on_key else None)
        key = tuple(sorted(field_map[k] for k in key))
    inside = [remap(t, field_map) for t in (*conjunctions(normalize.condition), *others)]
    condition = and_(inside) if inside else None
    new_normalize = replace(normalize, input=Exchange(below, key), key=key, condition=condition)
    exprs = tuple(remap(e, field_map) for e in rel.exprs)
    if is_identity(exprs, new_normalize):
        return new_normalize
    return Calc(new_normalize, exprs, rel.names)
