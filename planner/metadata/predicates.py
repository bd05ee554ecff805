"""Predicates that hold for every row of a relation, and the constants they pin down.

Source: Calcite's ``RelMdPredicates`` and ``RexUtil.predicateConstants``.
"""

from __future__ import annotations

from collections.abc import Iterable

from stateplan.functions.rex import InputRef, Literal, Rex, input_refs, remap, shift
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    Exchange,
    Filter,
    Join,
    MiniBatchAssigner,
    Project,
    Rel,
    SetOperation,
    Sink,
    Sort,
    Union,
    Window,
    refs_to,
)
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.temporal import TemporalJoin
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.comparison import is_null_with
from stateplan.planner.expressions.normal import equal, key, member
from stateplan.planner.expressions.ops import compare, conjunctions, is_deterministic, is_null_literal, kind, or_, test


def predicates_of(rel: Rel) -> list[Rex]:
    """Conditions over the fields of ``rel`` that are TRUE for each of its rows."""
    if isinstance(rel, Filter):
        own = [c for c in conjunctions(rel.condition) if is_deterministic(c)]
        return _distinct([*predicates_of(rel.input), *own])
    if isinstance(rel, Project):
        return _through(rel.input, rel.exprs, predicates_of(rel.input))
    if isinstance(rel, Calc):
        below = [*predicates_of(rel.input), *(c for c in conjunctions(rel.condition) if is_deterministic(c))]
        return _through(rel.input, rel.exprs, _distinct(below))
    if isinstance(rel, Join):
        return _of_join(rel)
    if isinstance(rel, TemporalJoin):
        return [c for c in conjunctions(rel.condition) if is_deterministic(c)] if rel.join_type == "INNER" else []
    if isinstance(rel, Aggregate):
        field_map = {g: i for i, g in enumerate(rel.group)}
        return [
            remap(p, field_map)
            for p in predicates_of(rel.input)
            if rel.group and all(i in field_map for i in input_refs(p))
        ]
    if isinstance(rel, Union):
        first, *rest = [predicates_of(i) for i in rel.inputs]
        return [p for p in first if all(member(p, other) for other in rest)]
    if isinstance(rel, SetOperation):
        both = predicates_of(rel.left)
        return both if rel.operator == "EXCEPT" else _distinct([*both, *predicates_of(rel.right)])
    if isinstance(rel, (FunctionCorrelate, OverAggregate, Window, Exchange, MiniBatchAssigner, Sink, Sort)):
        return predicates_of(rel.input)
    return []


def _of_join(rel: Join) -> list[Rex]:
    if rel.join_type == "FULL":
        return []
    if rel.join_type in ("LEFT", "SEMI", "ANTI"):
        return predicates_of(rel.left)
    right = [shift(p, rel.left.width) for p in predicates_of(rel.right)]
    if rel.join_type == "RIGHT":
        return right
    own = [c for c in conjunctions(rel.condition) if is_deterministic(c)]
    return _distinct([*predicates_of(rel.left), *right, *own])


def _distinct(predicates: Iterable[Rex]) -> list[Rex]:
    out: dict[object, Rex] = {}
    for p in predicates:
        out.setdefault(key(p), p)
    return list(out.values())


def _through(below: Rel, exprs: tuple[Rex, ...], predicates: list[Rex]) -> list[Rex]:
    """``predicates`` over the input, carried over a projection; constants of the projection added. What is left of a
    predicate that is also about other fields is that those of the projection are not all NULL."""
    field_map: dict[int, int] = {}
    for i, e in enumerate(exprs):
        if isinstance(e, InputRef):
            field_map.setdefault(e.index, i)
    out = []
    for p in predicates:
        used_fields = set(input_refs(p))
        if not used_fields <= field_map.keys():
            null_refs = [
                r
                for r in refs_to(below, sorted(used_fields & field_map.keys()))
                if r.type.nullable and is_null_with(p, r)
            ]
            if not null_refs:
                continue
            p = or_(test("IS NOT NULL", r) for r in null_refs)
        out.append(remap(p, field_map))
    for i, e in enumerate(exprs):
        ref = InputRef(e.type, i)
        if is_null_literal(e):
            out.append(test("IS NULL", ref))
        elif isinstance(e, Literal) and e.value is not None and not e.type.nullable:
            out.append(compare("=", ref, e))
    return out


def _keeps_values(cast: Rex, value: Literal) -> bool:
    """Whether the operand of ``cast`` is known where its value is."""
    if cast.type.is_string:
        return cast.children[0].type.root == cast.type.root
    return not (value.type.root == "DECIMAL" and value.type.scale)


def constant_map(predicates: Iterable[Rex]) -> list[tuple[Rex, Literal]]:
    """Expressions that the predicates fix to one value, with that value; as in Flink without those of fields that other
    predicates than equalities are about."""
    pairs: list[tuple[Rex, Literal]] = []
    variables: list[Rex] = []
    others: set[int] = set()

    def add(rex: Rex, value: Literal) -> None:
        if any(equal(rex, e) for e in variables):
            return
        previous = next((v for r, v in pairs if equal(r, rex)), None)
        if previous is None:
            pairs.append((rex, value))
        elif previous != value:
            variables.append(rex)
            pairs[:] = [(r, v) for r, v in pairs if not equal(r, rex)]

    for p in predicates:
        op = kind(p)
        if op == "IS NULL":
            add(p.children[0], Literal(p.children[0].type.as_nullable(), None))
        elif op == "=":
            left, right = p.children
            if isinstance(left, Literal):
                left, right = right, left
            if not isinstance(right, Literal) or isinstance(left, Literal) or is_null_literal(right):
                continue
            if not is_deterministic(left):
                continue
            add(left, right)
            if kind(left) == "CAST" and _keeps_values(left, right):
                inner = fold.cast_literal(right, left.children[0].type.not_null())
                if isinstance(inner, Literal):
                    add(left.children[0], inner)
        else:
            others.update(input_refs(p))
    return [(rex, value) for rex, value in pairs if others.isdisjoint(input_refs(rex))]
