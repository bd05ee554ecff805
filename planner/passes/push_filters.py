"""Moves filters towards the sources: through projections, aggregates and unions, into joins and to their inputs.

Source: Flink's ``FlinkFilterJoinRule`` and ``FlinkFilterProjectTransposeRule``, Calcite's
``FilterAggregateTransposeRule``, ``FilterSetOpTransposeRule`` and ``FilterMergeRule``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.join_keys import equi_keys
from stateplan.planner.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    Project,
    Rel,
    SetOperation,
    Union,
    replace_inputs,
)
from stateplan.planner.algebra.table_aggregates import TableAggregate
from stateplan.planner.expressions.distinct import collapsed
from stateplan.planner.expressions.normal import member
from stateplan.planner.expressions.ops import (
    Over,
    and_,
    cast,
    conjunctions,
    input_refs,
    is_always_false,
    is_deterministic,
    remap,
    shift,
    substitute,
    walk,
)
from stateplan.planner.expressions.strong import is_not_true, is_null
from stateplan.planner.passes.build import filtered


def merge_filters(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Filter):
        return None
    return filtered(rel.input.input, [rel.input.condition, rel.condition])


def filter_through_project(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Project):
        return None
    project = rel.input
    if any(isinstance(e, Over) for x in project.exprs for e in walk(x)):
        return None
    if not all(is_deterministic(project.exprs[i]) for i in input_refs(rel.condition)):
        return None
    condition = substitute(rel.condition, project.exprs)
    return replace(project, input=filtered(project.input, [condition]))


def filter_through_aggregate(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, (Aggregate, TableAggregate)):
        return None
    aggregate = rel.input
    keys = len(aggregate.group)
    pushed: list[Rex] = []
    kept: list[Rex] = []
    for term in conjunctions(rel.condition):
        indexes = list(input_refs(term))
        if indexes and all(i < keys for i in indexes):
            pushed.append(remap(term, aggregate.group.__getitem__))
        else:
            kept.append(term)
    if not pushed:
        return None
    return filtered(replace(aggregate, input=filtered(aggregate.input, pushed)), kept)


def filter_through_union(rel: Rel) -> Rel | None:
    """Through INTERSECT and EXCEPT too."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, (Union, SetOperation)):
        return None
    return replace_inputs(rel.input, [filtered(i, [_retyped(rel.condition, i)]) for i in rel.input.inputs])


def _retyped(rex: Rex, rel: Rel) -> Rex:
    """``rex`` with references of the types of ``rel``."""
    return substitute(rex, [InputRef(t, i) for i, (_, t) in enumerate(rel.fields)])


def filter_into_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Join):
        return None
    return _perform(rel.input, [collapsed(t) for t in conjunctions(rel.condition)])


def join_condition_push(rel: Rel) -> Rel | None:
    return _perform(rel, []) if isinstance(rel, Join) else None


def _classify(
    terms: Sequence[Rex], width: int, to_left: bool, to_right: bool
) -> tuple[list[Rex], list[Rex], list[Rex]]:
    """Terms over the left input only, over the right one only (shifted to it), and the others; all are others where
    they must not go."""
    left: list[Rex] = []
    right: list[Rex] = []
    rest: list[Rex] = []
    for term in terms:
        indexes = list(input_refs(term))
        pushable = is_deterministic(term) and (bool(indexes) or is_always_false(term))
        if to_left and all(i < width for i in indexes) and pushable:
            left.append(term)
        elif to_right and all(i >= width for i in indexes) and pushable:
            right.append(shift(term, -width))
        else:
            rest.append(term)
    return left, right, rest


def filter_into_correlated_join(rel: Rel) -> Rel | None:
    """As :func:`filter_into_join`, but nothing is concluded for the other side (Calcite's ``FilterJoinRule``)."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, Join):
        return None
    return _perform(rel.input, [collapsed(t) for t in conjunctions(rel.condition)], infers=False)


def _perform(join: Join, above: list[Rex], *, infers: bool = True) -> Rel | None:
    width = join.left.width
    original = conjunctions(join.condition)
    if not above and not original:
        return None
    join_type = _stricter(join, above)
    pads_left, pads_right = join_type in ("RIGHT", "FULL"), join_type in ("LEFT", "FULL")
    left, right, rest = _classify(above, width, not pads_left, not pads_right)
    into, upper = (rest, []) if join_type in ("INNER", "SEMI", "ANTI") else ([], rest)
    kept = [*original, *(t for t in into if t not in original)]
    if join_type != "ANTI":
        # A side that is padded where it has no match may be filtered before: what is filtered would not match either.
        inner_left, inner_right, kept = _classify(kept, width, not pads_right, not pads_left)
        left += inner_left
        right += inner_right
    unmoved = len(upper) == len(above) and len(kept) == len(original)
    if not left and not right and unmoved and join_type == join.join_type:
        return None
    condition = and_(kept)
    if infers and join_type in ("INNER", "LEFT", "RIGHT"):
        _infer(join, condition, above, left, right, join_type)
    if infers and join_type == "INNER":
        _infer(join, None, original, left, right, join_type)
    new = replace(
        join,
        left=filtered(join.left, [_retyped(t, join.left) for t in left]),
        right=filtered(join.right, [_retyped(t, join.right) for t in right]),
        condition=condition,
        join_type=join_type,
    )
    if join_type == "INNER" and join.join_type != "INNER":
        fields = (*join.left.fields, *join.right.fields)
        new = replace(new, condition=substitute(condition, [InputRef(t, i) for i, (_, t) in enumerate(fields)]))
    return filtered(_converted(new, join), upper)


def _stricter(join: Join, above: Sequence[Rex]) -> str:
    """The type of the join, as outer as ``above`` lets it be: a condition that cannot be TRUE for a padded row drops
    the padded rows (``RelOptUtil.simplifyJoin``)."""
    width = join.left.width
    left, right = frozenset(range(width)), frozenset(range(width, width + join.right.width))
    join_type = join.join_type
    for term in above:
        if join_type in ("RIGHT", "FULL") and is_not_true(term, left):
            join_type = "INNER" if join_type == "RIGHT" else "LEFT"
        if join_type in ("LEFT", "FULL") and is_not_true(term, right):
            join_type = "INNER" if join_type == "LEFT" else "RIGHT"
    return join_type


def _converted(new: Join, old: Join) -> Rel:
    """``new`` with the types of ``old``: fields that are no longer padded stay nullable."""
    if new.fields == old.fields:
        return new
    refs = (InputRef(t, i) for i, (_, t) in enumerate(new.fields))
    exprs = tuple(cast(r, t) for r, (_, t) in zip(refs, old.fields, strict=True))
    return Project(new, exprs, tuple(n for n, _ in old.fields))


def _infer(
    join: Join, condition: Rex | None, terms: Sequence[Rex], left: list[Rex], right: list[Rex], join_type: str
) -> None:
    """Filters of one side that hold for the other side too, through the join's keys; not for a side that is kept
    whether it matches or not."""
    width = join.left.width
    keys = equi_keys(join.condition, width)
    if not keys:
        if condition is None:
            return
        keys = equi_keys(condition, width)
    if not keys:
        return
    to_right = dict(reversed(keys))
    to_left = {r + width: k for k, r in reversed(keys)}
    for term in terms:
        indexes = list(input_refs(term))
        if not indexes:
            continue
        if join_type != "INNER" and not is_null(term, frozenset(indexes)):
            continue  # what holds for NULL says nothing about rows that match
        if join_type != "RIGHT" and all(i in to_right for i in indexes):
            moved = substitute(term, {i: InputRef(join.right.fields[r][1], r) for i, r in to_right.items()})
            if not member(moved, right):
                right.append(moved)
        elif join_type != "LEFT" and all(i in to_left for i in indexes):
            moved = substitute(term, {i: InputRef(join.left.fields[k][1], k) for i, k in to_left.items()})
            if not member(moved, left):
                left.append(moved)
