"""Simplifies what is in a tree: conditions, constants, COALESCE, inputs known to be empty."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

from stateplan.common.types import LogicalType
from stateplan.functions.json import is_json
from stateplan.functions.rex import Call, InputRef, Literal, Rex, shift
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    Project,
    Rel,
    SetOperation,
    Sort,
    Union,
    Values,
    Window,
    field_names,
    transform_up,
    with_expressions,
)
from stateplan.planner.algebra.table_functions import TableAggregate
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.cases import push_into_cases
from stateplan.planner.expressions.normal import equal, key, member
from stateplan.planner.expressions.ops import (
    FALSE,
    Over,
    SubQuery,
    and_,
    call,
    cast,
    conjunctions,
    disjunctions,
    is_always_false,
    is_always_true,
    is_null_literal,
    kind,
    or_,
    rewrite,
    unwrap_cast,
    varies,
    with_operands,
)
from stateplan.planner.expressions.sarg import NullAs
from stateplan.planner.expressions.simplify import Simplifier, simplify_preserving_type
from stateplan.planner.metadata.predicates import constant_map, predicates_of
from stateplan.planner.passes.aggregates import means_taken_apart
from stateplan.planner.passes.build import empty, filtered

# Simplifies the conditions of filters and joins.
#
# Source: Flink's ``SimplifyFilterConditionRule`` and ``SimplifyJoinConditionRule``: simplification, then common factors
# of a disjunction pulled out.


def pull_factors(rex: Rex) -> Rex:
    """``(a AND b) OR (a AND c)`` as ``a AND (b OR c)``."""
    if kind(rex) == "AND":
        return and_(pull_factors(c) for c in conjunctions(rex))
    if kind(rex) != "OR":
        return rex
    operands = disjunctions(rex)
    factors = _common(operands)
    if not factors:
        return or_(operands)
    keys = {key(f) for f in factors}
    rest = [and_(c for c in conjunctions(o) if key(c) not in keys) for o in operands]
    return and_([*factors, or_(rest)])


def _common(operands: Sequence[Rex]) -> list[Rex]:
    first, *others = [conjunctions(o) for o in operands]
    other_keys = [{key(c) for c in o} for o in others]
    return [f for f in first if all(key(f) in keys for keys in other_keys)]


def _simplified(condition: Rex) -> Rex | None:
    if is_always_true(condition) or is_always_false(condition):
        return None
    new = pull_factors(Simplifier().simplify(condition, "FALSE"))
    return None if equal(new, condition) else new


def simplify_condition(rel: Rel) -> Rel | None:
    if not isinstance(rel, (Filter, Join)):
        return None
    condition = _simplified(rel.condition)
    return None if condition is None else replace(rel, condition=condition)


def simplify_subquery_filters(rel: Rel) -> Rel | None:
    """The condition of a filter, and those of all filters of the queries in it."""
    if not isinstance(rel, Filter):
        return None
    simplified = _simplified(rel.condition)
    condition = rewrite(rel.condition if simplified is None else simplified, _with_simple_filters)
    return None if condition == rel.condition else replace(rel, condition=condition)


def _with_simple_filters(rex: Rex) -> Rex | None:
    if not isinstance(rex, SubQuery):
        return None
    inside = transform_up(rex.rel, simplify_subquery_filters)
    return replace(rex, rel=inside, operands=tuple(rewrite(o, _with_simple_filters) for o in rex.operands))


def simplify_bound_join(rel: Rel) -> Rel | None:
    """The condition of ON simplified as Calcite's ``RelBuilder.join`` does, which also takes over a mere change of
    order."""
    if not isinstance(rel, Join):
        return None
    condition = Simplifier().simplify(rel.condition, "FALSE")
    return None if condition == rel.condition else replace(rel, condition=condition)


# COALESCE: arguments behind one that is never NULL go, and so do those made equal by the join below.
#
# Source: Flink's ``RemoveUnreachableCoalesceArgumentsRule`` and ``SimplifyCoalesceWithEquiJoinConditionRule``.


def _reachable(rex: Rex) -> Rex | None:
    if kind(rex) != "COALESCE" or not isinstance(rex, Call):
        return None
    operands = list(rex.operands)
    first = next((i for i, o in enumerate(operands) if not o.type.nullable), len(operands) - 1)
    if first == 0 and len(operands) > 0:
        return cast(operands[0], rex.type) if operands[0].type != rex.type else operands[0]
    return replace(rex, operands=tuple(operands[: first + 1])) if first + 1 < len(operands) else None


def remove_unreachable_coalesce_arguments(rel: Rel) -> Rel | None:
    return with_expressions(rel, lambda e: rewrite(e, _reachable))


def simplify_coalesce_of_join_keys(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Join) or rel.input.join_type == "FULL":
        return None
    join = rel.input
    pairs = {
        frozenset(c.index for c in t.children if isinstance(c, InputRef))
        for t in conjunctions(rel.input.condition)
        if kind(t) == "=" and all(isinstance(c, InputRef) for c in t.children)
    }

    def change(e: Rex) -> Rex | None:
        if kind(e) == "COALESCE" and len(e.children) == 2:
            a, b = e.children
            if isinstance(a, InputRef) and isinstance(b, InputRef) and frozenset((a.index, b.index)) in pairs:
                kept_ref = max(a, b, key=_index) if join.join_type == "RIGHT" else min(a, b, key=_index)
                if join.join_type == "INNER":
                    kept_ref = a
                return cast(kept_ref, e.type) if kept_ref.type.as_nullable() != e.type.as_nullable() else kept_ref
        return None

    return with_expressions(rel, lambda e: rewrite(e, change))


def _index(ref: InputRef) -> int:
    return ref.index


# Constant folding and simplification of projections, filters and joins, using what is known about the input.
#
# Source: Calcite's ``ReduceExpressionsRule``.


_CONSTANTS = ("PI", "E")
"""Functions without operands that always have the same value."""


class _Folder:
    """Replaces what is constant under the known constants by its value."""

    def __init__(self, constants: Sequence[tuple[Rex, Literal]], keep_types: bool, time_zone: str) -> None:
        self.constants = constants
        self.keep_types = keep_types
        self.time_zone = time_zone
        self.windows: list[Rex] = []
        self._are_constant: dict[int, tuple[Rex, bool]] = {}

    def known_value(self, rex: Rex) -> Literal | None:
        return next((v for r, v in self.constants if equal(r, rex)), None)

    def _constant(self, rex: Rex) -> bool:
        """Whether ``rex`` depends on constants only."""
        if isinstance(rex, Literal):
            return True
        if isinstance(rex, InputRef):
            return self.known_value(rex) is not None
        if id(rex) not in self._are_constant:
            is_value = kind(rex) != "ROW" and (bool(rex.children) or kind(rex) in _CONSTANTS)
            is_constant = is_value and not varies(rex) and all(self._constant(c) for c in rex.children)
            self._are_constant[id(rex)] = rex, is_constant
        return self._are_constant[id(rex)][1]

    def _inlined(self, rex: Rex) -> Rex:
        if isinstance(rex, InputRef):
            return self.known_value(rex) or rex
        return with_operands(rex, [self._inlined(c) for c in rex.children]) if rex.children else rex

    def fold(self, rex: Rex) -> Rex:
        """``rex`` with its constant parts as literals. Calls that make JSON stay: other JSON would quote their text."""
        if isinstance(unwrap_cast(rex), Literal):
            return rex
        if self._constant(rex) and not is_json(rex):
            value = fold.evaluate(self._inlined(rex), self.time_zone)
            if value is not None:
                self.windows.append(rex)
                return _of_type(value, rex.type) if self.keep_types else value
        if isinstance(rex, Over) or not rex.children:
            return rex
        return with_operands(rex, [self.fold(c) for c in rex.children])

    def fold_windows(self, rex: Rex) -> Rex:
        """``rex`` with the partitions of its windows folded that were found outside of windows too: Calcite looks for
        constants there only, and puts them in everywhere."""

        def change(e: Rex) -> Rex | None:
            if not isinstance(e, Over):
                return None
            return replace(e, partition=tuple(self.fold(p) if member(p, windows) else p for p in e.partition))

        windows = list(self.windows)
        return rewrite(rex, change) if windows else rex


def _of_type(value: Literal, target: LogicalType) -> Rex:
    if value.type == target:
        return value
    literal = fold.cast_literal(value, target)
    return literal if literal.type == target else call("CAST", (literal,), target)


def _reduced(
    exprs: Sequence[Rex],
    predicates: Sequence[Rex],
    unknown_as: NullAs,
    keep_types: bool,
    time_zone: str,
    same: Callable[[Rex, Rex], bool] = operator.eq,
) -> list[Rex] | None:
    """The expressions evaluated and simplified; None if the results are all the ``same``."""
    folder = _Folder(constant_map(predicates), keep_types, time_zone)
    folded_exprs = [folder.fold(push_into_cases(e)) for e in exprs]
    out = [simplify_preserving_type(folder.fold_windows(e), unknown_as, predicates, time_zone) for e in folded_exprs]
    return None if all(map(same, out, exprs)) else out


def _alike(a: Rex, b: Rex) -> bool:
    return equal(a, b) and a.type == b.type


def reduce_project(rel: Rel, time_zone: str) -> Rel | None:
    """Expressions as Calcite's ``RelBuilder`` makes them, which also takes over a mere change of order."""
    if not isinstance(rel, Project):
        return None
    exprs = _reduced(rel.exprs, predicates_of(rel.input), "UNKNOWN", keep_types=True, time_zone=time_zone)
    return None if exprs is None else replace(rel, exprs=tuple(exprs))


def reduce_json(rel: Rel, time_zone: str) -> Rel | None:
    """Evaluates the JSON text of constants, which aggregates have as arguments."""
    if not isinstance(rel, Project):
        return None
    places = [i for i, e in enumerate(rel.exprs) if kind(e) == "JSON_STRING"]
    texts = [rel.exprs[i] for i in places]
    reduced = _reduced(texts, predicates_of(rel.input), "UNKNOWN", keep_types=True, time_zone=time_zone)
    if reduced is None:
        return None
    new = dict(zip(places, reduced, strict=True))
    return replace(rel, exprs=tuple(new.get(i, e) for i, e in enumerate(rel.exprs)))


def reduce_filter(rel: Rel, time_zone: str) -> Rel | None:
    if not isinstance(rel, Filter):
        return None
    below = predicates_of(rel.input)
    reduced = _reduced([rel.condition], below, "FALSE", keep_types=False, time_zone=time_zone, same=_alike)
    condition = rel.condition if reduced is None else reduced[0]
    if is_always_true(condition):
        return rel.input
    if is_always_false(condition) or is_null_literal(condition):
        return empty(rel)
    if reduced is None:
        return None
    new = filtered(rel.input, [condition])
    return None if isinstance(new, Filter) and equal(new.condition, rel.condition) else new


def reduce_join(rel: Rel, time_zone: str) -> Rel | None:
    if not isinstance(rel, Join) or rel.join_type == "ANTI":
        return None
    width = rel.left.width
    predicates = [*predicates_of(rel.left), *(shift(p, width) for p in predicates_of(rel.right))]
    reduced = _reduced([rel.condition], predicates, "FALSE", keep_types=False, time_zone=time_zone, same=_alike)
    if reduced is None:
        return None
    return replace(rel, condition=FALSE if is_null_literal(reduced[0]) else reduced[0])


def _pruned_aggregate(aggregate: Aggregate, project: Project) -> Aggregate:
    """``aggregate`` over ``project`` without the fields it does not use."""
    used_fields = sorted(
        {
            *aggregate.group,
            *(a for c in aggregate.calls for a in c.args),
            *(c.filter for c in aggregate.calls if c.filter >= 0),
        }
    )
    if len(used_fields) == project.width:
        return aggregate
    field_map = {f: i for i, f in enumerate(used_fields)}
    calls = tuple(
        replace(c, args=tuple(field_map[a] for a in c.args), filter=field_map.get(c.filter, -1))
        for c in aggregate.calls
    )
    below = replace(
        project, exprs=tuple(project.exprs[i] for i in used_fields), names=tuple(project.names[i] for i in used_fields)
    )
    return replace(aggregate, input=below, group=tuple(field_map[g] for g in aggregate.group), calls=calls)


def pull_up_constants(rel: Rel) -> Rel | None:
    """Takes constant keys out of a grouping, and puts them back above it.

    Source: Calcite's ``AggregateProjectPullUpConstantsRule`` (with its config for a projection below).
    """
    if not isinstance(rel, Aggregate) or not isinstance(rel.input, Project) or len(rel.group) <= 1:
        return None
    constants: dict[int, Literal] = {}
    for ref, value in constant_map(predicates_of(rel.input)):
        if isinstance(ref, InputRef) and ref.index in rel.group:
            constants[ref.index] = value
    if not constants:
        return None
    group = tuple(g for g in rel.group if g not in constants)
    if not group:
        group = (rel.group[0],)
        del constants[rel.group[0]]
        if not constants:
            return None
    names = field_names(rel)
    calls = tuple(replace(c, name=n) for c, n in zip(rel.calls, names[len(rel.group) :], strict=True))
    below = _pruned_aggregate(replace(rel, group=group, calls=calls), rel.input)
    exprs: list[Rex] = []
    for i, g in enumerate(rel.group):
        t = rel.fields[i][1]
        if g in constants:
            constant: Rex = fold.cast_literal(constants[g], t)
            exprs.append(constant if constant.type == t else call("CAST", (constant,), t))
        else:
            exprs.append(InputRef(t, group.index(g)))
    exprs += [InputRef(c.type, len(group) + k) for k, c in enumerate(calls)]
    return Project(below, tuple(exprs), tuple(names))


def _is_empty(rel: Rel) -> bool:
    return isinstance(rel, Values) and not rel.tuples


def prune_empty(rel: Rel) -> Rel | None:
    """Removes what cannot give rows.

    Source: Calcite's ``PruneEmptyRules`` and Flink's ``FlinkPruneEmptyRules``.
    """
    if isinstance(rel, Union):
        sources = [s for s in rel.sources if not _is_empty(s)]
        if len(sources) == len(rel.sources):
            return None
        if not sources:
            return empty(rel)
        if len(sources) == 1 and rel.all:
            return sources[0]
        return replace(rel, sources=tuple(sources))
    if isinstance(rel, Join):
        return _pruned_join(rel)
    if isinstance(rel, SetOperation):
        left, right = map(_is_empty, rel.inputs)
        if left or (right and rel.operator == "INTERSECT"):
            return empty(rel)
        if right:
            return rel.left if rel.all else Aggregate(rel.left, tuple(range(rel.width)), ())
        return None
    if isinstance(rel, Aggregate):
        if not _is_empty(rel.input):
            return None
        return empty(rel) if rel.group else _of_nothing(rel)
    if isinstance(rel, (OverAggregate, Project, Filter, Sort, TableAggregate, Window)):
        return empty(rel) if _is_empty(rel.input) else None
    return None


def answer_mean_of_nothing(rel: Rel) -> Rel | None:
    """The one row of an aggregate with AVG over no rows. Flink knows it only once AVG is split, so calls that nobody
    reads are gone by then."""
    if not isinstance(rel, Aggregate) or rel.group or not _is_empty(rel.input):
        return None
    apart = means_taken_apart(rel)
    sums = _of_nothing(apart.input) if isinstance(apart.input, Aggregate) else None
    return None if sums is None else replace(apart, input=sums)


def _of_nothing(rel: Aggregate) -> Rel | None:
    """The one row of an aggregate without group keys over no rows (``AggregateValuesRule``)."""
    if any(c.function not in ("COUNT", "$SUM0", "SUM", "MIN", "MAX") for c in rel.calls):
        return None
    row = tuple(Literal(c.type, 0 if c.function in ("COUNT", "$SUM0") else None) for c in rel.calls)
    return Values(rel.fields, (row,))


def _pruned_join(rel: Join) -> Rel | None:
    """A join with an empty side: nothing, or the rows of the other side, padded where the join pads."""
    left, right = map(_is_empty, rel.inputs)
    if not left and not right:
        return None
    if (left and rel.join_type not in ("RIGHT", "FULL")) or (right and rel.join_type in ("INNER", "RIGHT", "SEMI")):
        return empty(rel)
    if left and right:
        return empty(rel)
    if rel.join_type == "ANTI":
        return rel.left
    other_side = rel.right if left else rel.left
    offset = rel.left.width if left else 0
    exprs: list[Rex] = []
    for i, (_, t) in enumerate(rel.fields):
        inside = offset <= i < offset + other_side.width
        exprs.append(cast(InputRef(other_side.fields[i - offset][1], i - offset), t) if inside else Literal(t, None))
    return Project(other_side, tuple(exprs), tuple(n for n, _ in rel.fields))
