"""Moves filters towards the sources: through projections, aggregates and unions, into joins and to their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from stateplan.execnodes.specs import JoinType
from stateplan.functions.rex import InputRef, Literal, Rex, input_refs, remap, shift
from stateplan.planner.algebra.join_keys import equi_keys
from stateplan.planner.algebra.relations import (
    Aggregate,
    Expand,
    Filter,
    Join,
    Project,
    Rel,
    SetOperation,
    Union,
    refs_to,
    replace_inputs,
    some_fields,
)
from stateplan.planner.algebra.table_functions import TableAggregate
from stateplan.planner.algebra.temporal import TemporalJoin
from stateplan.planner.algebra.windows import GroupWindowAggregate
from stateplan.planner.binding.grouping import project_names
from stateplan.planner.expressions.comparison import is_not_true
from stateplan.planner.expressions.normal import collapsed, equal, member
from stateplan.planner.expressions.ops import (
    COMPARISONS,
    TRUE,
    Over,
    and_,
    call,
    cast,
    conjunctions,
    is_always_false,
    is_always_true,
    is_deterministic,
    is_null_literal,
    kind,
    may_move,
    or_,
    substitute,
    walk,
)
from stateplan.planner.expressions.simplify import Simplifier
from stateplan.planner.passes.build import filtered, typed_by

# Source: Flink's ``FlinkFilterJoinRule`` and ``FlinkFilterProjectTransposeRule``, Calcite's
# ``FilterAggregateTransposeRule``, ``FilterSetOpTransposeRule`` and ``FilterMergeRule``.


def merge_filters(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Filter):
        return None
    return filtered(rel.input.input, [rel.input.condition, rel.condition])


def filter_through_project(rel: Rel) -> Rel | None:
    """A filter on what a projection computes filters below it. It is not simplified there, as in Flink: it first makes
    an inner join of an outer one, the keys of which are not NULL then."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, Project):
        return None
    project = rel.input
    if any(isinstance(e, Over) for x in project.exprs for e in walk(x)):
        return None
    if not all(is_deterministic(project.exprs[i]) for i in input_refs(rel.condition)):
        return None
    condition = substitute(rel.condition, project.exprs)
    return replace(project, input=Filter(project.input, condition))


def filter_through_aggregate(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, (Aggregate, GroupWindowAggregate, TableAggregate)):
        return None
    aggregate = rel.input
    keys = len(aggregate.group)
    pushed_terms: list[Rex] = []
    kept_terms: list[Rex] = []
    for term in conjunctions(rel.condition):
        indexes = list(input_refs(term))
        if indexes and all(i < keys for i in indexes):
            pushed_terms.append(remap(term, aggregate.group.__getitem__))
        else:
            kept_terms.append(term)
    if not pushed_terms:
        return None
    return filtered(replace(aggregate, input=filtered(aggregate.input, pushed_terms)), kept_terms)


def filter_through_expand(rel: Rel) -> Rel | None:
    """A filter on keys that all sets of groups have filters what is grouped, as in Flink, where the sets are in the
    aggregate that a filter goes through."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, Expand):
        return None
    expand = rel.input
    first, *others = expand.projects
    kept_refs = {
        i: e for i, e in enumerate(first) if isinstance(e, InputRef) and all(project[i] == e for project in others)
    }
    terms = conjunctions(rel.condition)
    pushed_terms = [t for t in terms if (fields := set(input_refs(t))) and fields <= kept_refs.keys()]
    if not pushed_terms:
        return None
    below = filtered(expand.input, [remap(t, {i: e.index for i, e in kept_refs.items()}) for t in pushed_terms])
    return filtered(replace(expand, input=below), [t for t in terms if t not in pushed_terms])


def filter_through_union(rel: Rel) -> Rel | None:
    """Through INTERSECT and EXCEPT too."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, (Union, SetOperation)):
        return None
    return replace_inputs(rel.input, [filtered(i, [typed_by(rel.condition, i)]) for i in rel.input.inputs])


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
        pushable = may_move(term) and (bool(indexes) or is_always_false(term))
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


def correlated_join_condition_push(rel: Rel) -> Rel | None:
    """As :func:`join_condition_push`, but nothing is concluded for the other side (Calcite's ``FilterJoinRule``)."""
    return _perform(rel, [], infers=False) if isinstance(rel, Join) else None


def _perform(join: Join, above: list[Rex], *, infers: bool = True) -> Rel | None:
    width = join.left.width
    original = conjunctions(join.condition)
    if not above and not original:
        return None
    join_type = _stricter(join, above)
    pads_left, pads_right = join_type in ("RIGHT", "FULL"), join_type in ("LEFT", "FULL")
    left, right, rest = _classify(above, width, not pads_left, not pads_right)
    into, upper = (rest, []) if join_type in ("INNER", "SEMI", "ANTI") else ([], rest)
    join_terms = [*original, *(t for t in into if t not in original)]
    if join_type != "ANTI":
        # A side that is padded where it has no match may be filtered before: what is filtered would not match either.
        inner_left, inner_right, join_terms = _classify(join_terms, width, not pads_right, not pads_left)
        left += inner_left
        right += inner_right
    unmoved = len(upper) == len(above) and len(join_terms) == len(original)
    if not left and not right and unmoved and join_type == join.join_type:
        return None
    condition = and_(join_terms)
    if infers and join_type in ("INNER", "LEFT", "RIGHT"):
        _infer(join, condition, above, left, right, join_type)
    if infers and join_type == "INNER":
        _infer(join, None, original, left, right, join_type)
    new = replace(
        join,
        left=filtered(join.left, [typed_by(t, join.left) for t in left]),
        right=filtered(join.right, [typed_by(t, join.right) for t in right]),
        condition=condition,
        join_type=join_type,
    )
    if join_type == "INNER" and join.join_type != "INNER":
        fields = (*join.left.fields, *join.right.fields)
        new = replace(new, condition=substitute(condition, [InputRef(t, i) for i, (_, t) in enumerate(fields)]))
    return filtered(_with_old_fields(new, join), upper)


def _stricter(join: Join, above: Sequence[Rex]) -> JoinType:
    """The type of the join, as outer as ``above`` lets it be: a condition that cannot be TRUE for a padded row drops
    the padded rows (``RelOptUtil.simplifyJoin``)."""
    width = join.left.width
    left, right = frozenset(range(width)), frozenset(range(width, width + join.right.width))
    join_type = join.join_type
    for term in above:
        if join_type in ("RIGHT", "FULL") and is_not_true(term, lambda e: is_null(e, left)):
            join_type = "INNER" if join_type == "RIGHT" else "LEFT"
        if join_type in ("LEFT", "FULL") and is_not_true(term, lambda e: is_null(e, right)):
            join_type = "INNER" if join_type == "LEFT" else "RIGHT"
    return join_type


def _with_old_fields(new: Join, old: Join) -> Rel:
    """``new`` with the types of ``old``: fields that are no longer padded stay nullable."""
    if new.fields == old.fields:
        return new
    refs = (InputRef(t, i) for i, (_, t) in enumerate(new.fields))
    exprs = tuple(cast(r, t) for r, (_, t) in zip(refs, old.fields, strict=True))
    return Project(new, exprs, tuple(n for n, _ in old.fields))


def _infer(
    join: Join, condition: Rex | None, terms: Sequence[Rex], left: list[Rex], right: list[Rex], join_type: JoinType
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
            new_term = substitute(term, {i: InputRef(join.right.fields[r][1], r) for i, r in to_right.items()})
            if not member(new_term, right):
                right.append(new_term)
        elif join_type != "LEFT" and all(i in to_left for i in indexes):
            new_term = substitute(term, {i: InputRef(join.left.fields[k][1], k) for i, k in to_left.items()})
            if not member(new_term, left):
                left.append(new_term)


def derive_join_filters(rel: Rel) -> Rel | None:
    """Derives filters of the inputs from a disjunction in a join's condition: of ``(l.a = 1 AND r.b = 2) OR (l.a = 3
    AND r.b = 4)`` follow ``l.a = 1 OR l.a = 3`` and ``r.b = 2 OR r.b = 4``.

    Source: Flink's ``JoinDependentConditionDerivationRule``.
    """
    if not isinstance(rel, Join) or rel.join_type != "INNER":
        return None
    width = rel.left.width
    of_left = _extract_expressions(rel.condition, lambda i: i < width)
    of_right = _extract_expressions(rel.condition, lambda i: i >= width)
    if is_always_true(of_left) and is_always_true(of_right):
        return None
    condition = Simplifier().simplify(and_([rel.condition, of_left, of_right]), "FALSE")
    return None if equal(condition, rel.condition) else replace(rel, condition=condition)


def _extract_expressions(rex: Rex, belongs: Callable[[int], bool]) -> Rex:
    """What follows from ``rex`` for the fields that belong to one side; TRUE for nothing."""
    if kind(rex) == "AND":
        return and_(_extract_expressions(c, belongs) for c in rex.children)
    if kind(rex) == "OR":
        return or_(_extract_expressions(c, belongs) for c in rex.children)
    return rex if is_deterministic(rex) and all(belongs(i) for i in input_refs(rex)) else TRUE


def push_join_expressions(rel: Rel) -> Rel | None:
    """Computes expressions of equi-join keys below the join: ``a.x + 1 = b.y`` joins on a field of the left input.
    A condition that only looks for an expression in a list of values is computed there too.

    Source: Calcite's ``JoinPushExpressionsRule`` (``RelOptUtil.pushDownJoinConditions``).
    """
    if not isinstance(rel, (Join, TemporalJoin)):
        return None
    width, total = rel.left.width, rel.left.width + rel.right.width
    extra_left: list[Rex] = []
    extra_right: list[Rex] = []
    terms: list[Rex] = []
    for term in conjunctions(rel.condition):
        sides = [_side(o, width) for o in term.children] if kind(term) in ("=", "IS NOT DISTINCT FROM") else []
        if set(sides) == {0, 1} and any(not isinstance(o, InputRef) for o in term.children):
            operands = [
                _on_one_side(o, side, total, extra_left, extra_right)
                for o, side in zip(term.children, sides, strict=True)
            ]
            terms.append(call(kind(term), operands, term.type))
        elif term is rel.condition and kind(term) == "SEARCH":
            terms.append(_on_one_side(term, _side(term, width), total, extra_left, extra_right))
        else:
            terms.append(term)
    if not extra_left and not extra_right:
        return None
    left = _extended(rel.left, extra_left)
    right = _extended(rel.right, [shift(e, -width) for e in extra_right])
    more = len(extra_left)

    def new(i: int) -> int:
        if i < width:
            return i
        if i < total:
            return i + more
        return width + (i - total) if i < total + 1000 else total + more + (i - total - 1000)

    condition = and_(remap(t, new) for t in terms)
    join = replace(rel, left=left, right=right, condition=condition)
    one_sided = rel.join_type in ("SEMI", "ANTI")
    kept_fields = [*range(width), *(() if one_sided else range(width + more, width + more + rel.right.width))]
    return some_fields(join, kept_fields)


def _side(rex: Rex, width: int) -> int | None:
    indexes = list(input_refs(rex))
    if not indexes:
        return None
    if all(i < width for i in indexes):
        return 0
    return 1 if all(i >= width for i in indexes) else None


def _on_one_side(rex: Rex, side: int | None, total: int, left: list[Rex], right: list[Rex]) -> Rex:
    """A reference to ``rex``, which is added to the input if it is not one of its fields: the n-th addition to the left
    (right) is numbered ``total + n`` (``total + 1000 + n``)."""
    if isinstance(rex, InputRef):
        return rex
    extra, base = (left, total) if side == 0 else (right, total + 1000)
    if rex not in extra:
        extra.append(rex)
    return InputRef(rex.type, base + extra.index(rex))


def _extended(rel: Rel, extra: list[Rex]) -> Rel:
    if not extra:
        return rel
    exprs = [*refs_to(rel), *extra]
    return Project(rel, tuple(exprs), tuple(project_names(exprs, [None] * len(exprs), rel)))


# Whether an expression is NULL where given fields are NULL. Source: Calcite's ``Strong``.

_ANY = frozenset(
    {*COMPARISONS, "+", "-", "*", "/", "%", "MOD", "NEGATE", "NOT", "CAST", "LIKE", "BETWEEN", "REINTERPRET"}
)
"""Operators that are NULL as soon as an operand is."""


def is_null(rex: Rex, fields: Set[int]) -> bool:
    """Whether ``rex`` is NULL whenever all of ``fields`` are."""
    if isinstance(rex, InputRef):
        return rex.index in fields
    if isinstance(rex, Literal):
        return is_null_literal(rex)
    op = kind(rex)
    if op in _ANY:
        return any(is_null(c, fields) for c in rex.children)
    if op in ("OR", "COALESCE", "AND"):
        return all(is_null(c, fields) for c in rex.children)
    if op == "CASE":
        values = [*rex.children[1::2], rex.children[-1]]
        return all(is_null(v, fields) for v in values)
    return False
