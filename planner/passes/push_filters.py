"""Moves filters towards the sources: through projections, aggregates and unions, into joins and to their inputs.

Source: Flink's ``FlinkFilterJoinRule`` and ``FlinkFilterProjectTransposeRule``, Calcite's
``FilterAggregateTransposeRule``, ``FilterSetOpTransposeRule`` and ``FilterMergeRule``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from execnodes.rex import InputRef, Rex
from planner.algebra import Aggregate, Filter, Join, Project, Rel, Union
from planner.expressions.normal import member
from planner.expressions.ops import (
    Over,
    and_,
    conjunctions,
    input_refs,
    is_deterministic,
    kind,
    remap,
    shift,
    substitute,
    walk,
)
from planner.passes.build import filtered

__all__ = [
    "equi_keys",
    "filter_into_join",
    "filter_through_aggregate",
    "filter_through_project",
    "filter_through_union",
    "is_equi_key",
    "join_condition_push",
    "merge_filters",
]


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
    if not isinstance(rel, Filter) or not isinstance(rel.input, Aggregate):
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
    if not isinstance(rel, Filter) or not isinstance(rel.input, Union):
        return None
    inputs = tuple(filtered(i, [_retyped(rel.condition, i)]) for i in rel.input.inputs)
    return replace(rel.input, sources=inputs)


def _retyped(rex: Rex, rel: Rel) -> Rex:
    """``rex`` with references of the types of ``rel``."""
    return substitute(rex, [InputRef(t, i) for i, (_, t) in enumerate(rel.fields)])


def filter_into_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Join):
        return None
    return _perform(rel.input, conjunctions(rel.condition))


def join_condition_push(rel: Rel) -> Rel | None:
    return _perform(rel, []) if isinstance(rel, Join) else None


def _classify(terms: Sequence[Rex], width: int) -> tuple[list[Rex], list[Rex], list[Rex]]:
    """Terms over the left input only, over the right one only (shifted to it), and the others."""
    left: list[Rex] = []
    right: list[Rex] = []
    rest: list[Rex] = []
    for term in terms:
        indexes = list(input_refs(term))
        if all(i < width for i in indexes) and is_deterministic(term) and indexes:
            left.append(term)
        elif all(i >= width for i in indexes) and is_deterministic(term) and indexes:
            right.append(shift(term, -width))
        else:
            rest.append(term)
    return left, right, rest


def _perform(join: Join, above: list[Rex]) -> Rel | None:
    if join.join_type != "INNER":
        return None
    width = join.left.width
    original = conjunctions(join.condition)
    if not above and not original:
        return None
    left, right, rest = _classify(above, width)
    inner_left, inner_right, kept = _classify([*original, *rest], width)
    left += inner_left
    right += inner_right
    if not left and not right and len(kept) == len(original):
        return None
    condition = and_(kept)
    _infer(join, condition, above, left, right)
    _infer(join, None, original, left, right)
    return replace(join, left=filtered(join.left, left), right=filtered(join.right, right), condition=condition)


def _equi_pair(term: Rex, width: int) -> tuple[int, int] | None:
    if kind(term) != "=":
        return None
    a, b = term.children
    if not isinstance(a, InputRef) or not isinstance(b, InputRef):
        return None
    low, high = sorted((a.index, b.index))
    return (low, high - width) if low < width <= high else None


def equi_keys(condition: Rex, width: int) -> list[tuple[int, int]]:
    """Pairs of fields (left, right) that a join's condition makes equal, in order."""
    return [p for t in conjunctions(condition) if (p := _equi_pair(t, width)) is not None]


def is_equi_key(term: Rex, width: int) -> bool:
    """Whether ``term`` makes a field of the left input equal to one of the right."""
    return _equi_pair(term, width) is not None


def _infer(join: Join, condition: Rex | None, terms: Sequence[Rex], left: list[Rex], right: list[Rex]) -> None:
    """Filters of one side that hold for the other side too, through the join's keys."""
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
        if all(i in to_right for i in indexes):
            moved = substitute(term, {i: InputRef(join.right.fields[r][1], r) for i, r in to_right.items()})
            if not member(moved, right):
                right.append(moved)
        elif all(i in to_left for i in indexes):
            moved = substitute(term, {i: InputRef(join.left.fields[k][1], k) for i, k in to_left.items()})
            if not member(moved, left):
                left.append(moved)
