"""Turns correlates into joins: conditions that compare with the row around become conditions of the join; where they do
not, the rows around come in as a distinct set of the values that are referred to.

Source: Calcite's ``RelDecorrelator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from stateplan.common.errors import SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, LogicalType
from stateplan.functions.rex import Call, InputRef, Literal, Rex, input_refs, shift
from stateplan.functions.typerules import same_type
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Correlate,
    Filter,
    Join,
    Project,
    Rel,
    Sort,
    field_names,
    refs_to,
    replace_inputs,
    some_fields,
    unique_names,
)
from stateplan.planner.algebra.relations import walk as walk_rels
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.expressions.normal import collapsed, not_distinct
from stateplan.planner.expressions.ops import (
    TRUE,
    Over,
    and_,
    call,
    cast,
    compare,
    conjunctions,
    is_null_literal,
    kind,
    outer_of,
    retyped,
    rewrite,
    substitute,
    test,
    unwrap_cast,
    walk,
    with_operands,
)
from stateplan.planner.metadata.unique_keys import are_unique
from stateplan.planner.passes import hep
from stateplan.planner.passes.build import filtered
from stateplan.planner.passes.correlated_ranks import first_of_each, rank_of_groups
from stateplan.planner.passes.filters import (
    correlated_join_condition_push,
    filter_into_correlated_join,
    filter_through_project,
)
from stateplan.planner.passes.projects import merge_projects
from stateplan.planner.passes.python_functions import filter_through_function
from stateplan.planner.passes.subqueries import expressions_of, same_fields
from stateplan.planner.positions import not_supported

Outer: TypeAlias = tuple[int, int]
"""A field of a row around: number of the subquery, index of the field."""


def decorrelate(rel: Rel) -> Rel:
    """Raises SqlError SQL150 for a reference to the outside that cannot be taken out."""
    if not _correlates(rel):
        return rel
    rel = hep.sequence(rel, (rank_of_groups, _remove_single_value, _pull_up_projection))
    correlates = _correlates(rel)
    if not correlates:
        return rel
    rel = hep.sequence(rel, _BEFORE)
    if not any(isinstance(r, Correlate) for r in correlates):
        return rel
    return hep.sequence(_Decorrelator(rel).run(), (filter_into_correlated_join, correlated_join_condition_push))


def _correlates(rel: Rel) -> list[Rel]:
    return [r for r in walk_rels(rel) if isinstance(r, (Correlate, FunctionCorrelate))]


# rules before


def _is_single_value(rel: Rel) -> bool:
    return isinstance(rel, Aggregate) and not rel.group and [c.function for c in rel.calls] == ["SINGLE_VALUE"]


def _remove_single_value(rel: Rel) -> Rel | None:
    """The only value of an expression over aggregates of all rows (``RemoveSingleAggregateRule``)."""
    if not isinstance(rel, Aggregate) or not _is_single_value(rel) or not isinstance(rel.input, Project):
        return None
    project = rel.input
    if project.width != 1 or not isinstance(project.input, Aggregate) or project.input.group:
        return None
    return replace(project, exprs=(cast(project.exprs[0], rel.fields[0][1]),))


def _pull_up_projection(rel: Rel) -> Rel | None:
    """The value of a row that is found by a unique key: an outer join (``RemoveCorrelationForScalarProjectRule``)."""
    if not isinstance(rel, Correlate) or rel.join_type != "LEFT" or not _is_single_value(rel.right):
        return None
    project = rel.right.inputs[0]
    if not isinstance(project, Project) or not isinstance(project.input, Filter):
        return None
    below = project.input.input
    if any(outer_of(x) for r in walk_rels(below) for e in expressions_of(r) for x in walk(e)):
        return None
    pairs: list[tuple[Rex, Rex]] = []
    own: list[Rex] = []
    for term in conjunctions(project.input.condition):
        if not any(outer_of(e) for e in walk(term)):
            own.append(term)
            continue
        sides = list(term.children) if kind(term) == "=" else []
        inner = [s for s in sides if outer_of(s) is None]
        outer = [s for s in sides if outer_of(s) is not None]
        if len(inner) != 1 or any(outer_of(e) for e in walk(inner[0])):
            return None
        pairs.append((inner[0], outer[0]))
    fields = [i.index for i, _ in pairs if isinstance(i, InputRef)]
    if not pairs or len(fields) < len(pairs) or not are_unique(below, frozenset(fields)):
        return None
    right = filtered(below, own)
    width = rel.left.width
    terms = [compare("=", shift(i, width), InputRef(o.type, _index(o))) for i, o in pairs]
    join = Join(rel.left, right, and_(terms), "LEFT", *rel.hints)
    refs = refs_to(join)
    value = _over_both(project.exprs[0], refs, width, test("IS NULL", refs[width + fields[0]]))
    expected_type = rel.fields[width][1]
    value = value if same_type(value.type, expected_type) else cast(value, expected_type)
    names = [*field_names(rel.left), project.names[0]]
    return Project(join, (*refs[:width], value), tuple(unique_names(names)))


def _index(rex: Rex) -> int:
    outer = outer_of(rex)
    assert outer is not None
    return outer[1]


def _over_both(rex: Rex, refs: list[Rex], width: int, is_padded: Rex) -> Rex:
    """``rex`` over a row around and its match. As in Flink, each call, constant and field of the row around is NULL of
    its own where there is no match."""
    if outer_of(rex) is not None:
        rex = refs[_index(rex)]
    elif isinstance(rex, Call):
        new = with_operands(rex, [_over_both(o, refs, width, is_padded) for o in rex.operands])
        keeps_type = kind(rex) == "CAST" or kind(rex).startswith("IS ")
        rex = new if keeps_type or new is rex else replace(new, type=new.type.as_nullable())
    elif not isinstance(rex, Literal) or rex.sarg is not None or is_null_literal(rex):  # Flink fails on ranges here
        return substitute(rex, {e.index: refs[width + e.index] for e in walk(rex) if isinstance(e, InputRef)})
    nullable = rex.type.as_nullable()
    return call("CASE", (is_padded, Literal(nullable, None), rex), nullable)


def _pull_up_aggregate(rel: Rel) -> Rel | None:
    """The projection over aggregates is above the correlate, and counts of nothing are 0
    (``AdjustProjectForCountAggregateRule``)."""
    if not isinstance(rel, Correlate) or rel.join_type != "LEFT":
        return None
    project = rel.right if isinstance(rel.right, Project) else None
    aggregate = rel.right if project is None else project.input
    if not isinstance(aggregate, Aggregate) or aggregate.group:
        return None
    counts = {i for i, c in enumerate(aggregate.calls) if c.function == "COUNT"}
    if rel.adjusted or (project is None and not counts):
        return None
    correlate = replace(rel, right=aggregate, adjusted=True)
    width = rel.left.width
    values: list[Rex] = []
    for i, ref in enumerate(refs_to(correlate)[width:]):
        zero = Literal(BIGINT.not_null(), 0)
        values.append(call("CASE", (test("IS NULL", ref), zero, ref), BIGINT) if i in counts else ref)
    exprs = (
        values if project is None else [substitute(retyped(e, [v.type for v in values]), values) for e in project.exprs]
    )

    def own(e: Rex) -> Rex | None:
        outer = outer_of(e)
        return InputRef(e.type, outer[1]) if outer is not None and outer[0] == rel.number else None

    exprs = [rewrite(e, own) for e in exprs]
    names = [*field_names(rel.left), *field_names(rel.right)]
    expected_types = [t for _, t in rel.fields[width:]]
    exprs = [e if same_type(e.type, t) else cast(e, t) for e, t in zip(exprs, expected_types, strict=True)]
    return Project(correlate, (*refs_to(correlate, range(width)), *exprs), tuple(unique_names(names)))


def _filter_through_project(rel: Rel) -> Rel | None:
    if isinstance(rel, Filter) and any(outer_of(e) for e in walk(rel.condition)):
        return None
    return filter_through_project(rel)


def _filter_into_correlate(rel: Rel) -> Rel | None:
    """Conditions over the left side alone go below (``FilterCorrelateRule``)."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, Correlate):
        return None
    width = rel.input.left.width
    terms = conjunctions(rel.condition)
    left = [t for t in terms if (fields := list(input_refs(t))) and all(i < width for i in fields)]
    if not left:
        return None
    below = replace(rel.input, left=filtered(rel.input.left, left))
    return filtered(below, [t for t in terms if t not in left])


_BEFORE = (
    _pull_up_aggregate,
    filter_into_correlated_join,
    _filter_through_project,
    _filter_into_correlate,
    filter_through_function,
)
"""Each once, in this order: a filter that a later rule moves stays where only an earlier one would take it further."""


# the rewriting


@dataclass(frozen=True)
class _Frame:
    """A relation without references to the outside, where its former fields are, and the fields that hold what was
    referred to."""

    rel: Rel
    field_map: Mapping[int, int]
    outer: Mapping[Outer, int]


class _Decorrelator:
    def __init__(self, root: Rel) -> None:
        self.root = root
        self.around: dict[int, _Frame] = {}
        self.also_null: set[Outer] = set()
        """Outside fields in IS NOT DISTINCT FROM, which also holds for NULL. Flink's plans lose these rows."""

    def run(self) -> Rel:
        return self.frame(self.root).rel

    def frame(self, rel: Rel) -> _Frame:
        if isinstance(rel, Project):
            return self._project(rel)
        if isinstance(rel, Filter):
            return self._filter(rel)
        if isinstance(rel, Aggregate):
            return self._aggregate(rel)
        if isinstance(rel, Join) and rel.join_type not in ("SEMI", "ANTI"):
            return self._join(rel)
        if isinstance(rel, Correlate):
            return self._correlate(rel)
        if isinstance(rel, Sort) and (frame := self.frame(rel.input)).outer:
            return replace(frame, rel=first_of_each(rel, frame.rel, frame.field_map, sorted(set(frame.outer.values()))))
        frames = [self.frame(i) for i in rel.inputs]
        inputs = []
        for f, old in zip(frames, rel.inputs, strict=True):
            if f.outer:
                raise not_supported("a reference to the row around in this part of a query", rel.written_at)
            inputs.append(_with_old_fields(f, old))
        return _Frame(replace_inputs(rel, inputs), same_fields(rel.width), {})

    def _filter(self, rel: Filter) -> _Frame:
        frame = self._with_outer(rel, self.frame(rel.input), rel.condition)
        return replace(frame, rel=filtered(frame.rel, [_inside(rel.condition, frame)]))

    def _with_outer(self, rel: Rel, frame: _Frame, *exprs: Rex) -> _Frame:
        """``frame`` with fields for everything that ``exprs`` refer to outside."""
        outer_fields = sorted({o for e in exprs for x in walk(e) if (o := outer_of(x)) is not None})
        missing_fields = [o for o in outer_fields if o not in frame.outer]
        if not missing_fields:
            return frame
        if isinstance(rel, Filter):
            positions: dict[Outer, int] = {}
            new_exprs: list[Rex] = []
            for o in missing_fields:
                equal = _equivalent(o, rel.condition)
                if equal is None:
                    continue
                equal = _inside(equal, frame)
                if isinstance(equal, InputRef):
                    positions[o] = equal.index
                else:
                    positions[o] = frame.rel.width + len(new_exprs)
                    new_exprs.append(equal)
            if len(positions) == len(outer_fields):
                below = frame.rel
                if new_exprs:
                    names = [*field_names(below), *(f"$f{below.width + i}" for i in range(len(new_exprs)))]
                    below = Project(below, (*refs_to(below), *new_exprs), tuple(unique_names(names)))
                return _Frame(below, frame.field_map, {**positions, **frame.outer})
            self.also_null |= set(_not_distinct_from(rel.condition))
        values, value_positions = self._values(outer_fields)
        join = Join(frame.rel, values, TRUE)
        width = frame.rel.width
        return _Frame(join, frame.field_map, {**frame.outer, **{o: width + i for o, i in value_positions.items()}})

    def _values(self, outer_fields: Iterable[Outer]) -> tuple[Rel, dict[Outer, int]]:
        """The distinct values of the outside fields."""
        by_number: dict[int, list[int]] = {}
        for number, index in outer_fields:
            by_number.setdefault(number, []).append(index)
        out: Rel | None = None
        positions: dict[Outer, int] = {}
        for number, indexes in by_number.items():
            around = self.around[number]
            fields = [around.field_map[i] for i in indexes]
            distinct = Aggregate(some_fields(around.rel, fields), tuple(range(len(fields))), ())
            base = 0 if out is None else out.width
            positions |= {(number, i): base + k for k, i in enumerate(indexes)}
            out = distinct if out is None else Join(out, distinct, TRUE)
        assert out is not None
        return out, positions

    def _project(self, rel: Project) -> _Frame:
        frame = self._with_outer(rel, self.frame(rel.input), *rel.exprs)
        exprs = [_inside(e, frame) for e in rel.exprs]
        for over in [e for x in exprs for e in walk(x) if isinstance(e, Over)]:
            # Otherwise rows for different rows around would be numbered together, as Flink does it.
            partition_fields = {p.index for p in over.partition if isinstance(p, InputRef)}
            if not set(frame.outer.values()) <= partition_fields:
                unsupported_clause = "OVER that is not partitioned by what is compared with the row around"
                raise not_supported(unsupported_clause, over.place, "PARTITION BY that column")
        names = list(rel.names)
        outer: dict[Outer, int] = {}
        for o, field in sorted(frame.outer.items()):
            outer[o] = len(exprs)
            exprs.append(refs_to(frame.rel, [field])[0])
            names.append(frame.rel.fields[field][0])
        names = unique_names(names, by_position=True)
        return _Frame(_one_projection(Project(frame.rel, tuple(exprs), tuple(names))), same_fields(rel.width), outer)

    def _aggregate(self, rel: Aggregate) -> _Frame:
        frame = self.frame(rel.input)
        below = frame.rel
        by_constant = isinstance(below, Project) and any(
            isinstance(below.exprs[frame.field_map[g]], Literal) for g in rel.group
        )
        if not frame.outer and not by_constant:
            return _Frame(replace(rel, input=_with_old_fields(frame, rel.input)), same_fields(rel.width), {})
        constants: list[tuple[int, Literal]] = []
        order: list[int] = []
        field_map: dict[int, int] = {}
        for i, g in enumerate(rel.group):
            constant = below.exprs[frame.field_map[g]] if isinstance(below, Project) else None
            if isinstance(constant, Literal):
                constants.append((i, constant))
                continue
            field_map[i] = len(order)
            order.append(frame.field_map[g])
        outer: dict[Outer, int] = {}
        for o, field in sorted(frame.outer.items()):
            outer[o] = len(order)
            order.append(field)
        count = len(order)
        read = {frame.field_map[a] for c in rel.calls for a in (*c.args, *((c.filter,) if c.filter >= 0 else ()))}
        order += sorted(read - set(order))
        position = {f: i for i, f in reversed(list(enumerate(order)))}
        names = field_names(below)
        project = _one_projection(
            Project(below, tuple(refs_to(below, order)), tuple(unique_names([names[i] for i in order])))
        )
        calls = tuple(
            replace(
                c,
                args=tuple(position[frame.field_map[a]] for a in c.args),
                filter=position[frame.field_map[c.filter]] if c.filter >= 0 else -1,
            )
            for c in rel.calls
        )
        new_rel: Rel = replace(rel, input=project, group=tuple(range(count)), calls=_grouped(calls, rel, count))
        field_map |= {len(rel.group) + k: count + k for k in range(len(calls))}
        if constants:
            exprs = list(refs_to(new_rel))
            names = field_names(new_rel)
            for i, constant in constants:
                field_map[i] = len(exprs)
                exprs.append(constant)
                names.append(f"$f{len(names)}")
            new_rel = Project(new_rel, tuple(exprs), tuple(unique_names(names)))
        return _Frame(new_rel, field_map, outer)

    def _join(self, rel: Join) -> _Frame:
        left, right = self.frame(rel.left), self.frame(rel.right)
        width, old = left.rel.width, rel.left.width
        field_map = {**left.field_map, **{old + i: width + k for i, k in right.field_map.items()}}
        outer = {**left.outer, **{o: width + f for o, f in right.outer.items()}}
        if (left.outer and rel.join_type not in ("INNER", "LEFT")) or (
            right.outer and rel.join_type not in ("INNER", "RIGHT")
        ):
            raise not_supported("a reference to the row around below an outer join", rel.place)
        if any(outer_of(e) is not None and outer_of(e) not in outer for e in walk(rel.condition)):
            raise not_supported("a reference to the row around in the condition of a join", rel.place)
        frame = _Frame(replace(rel, left=left.rel, right=right.rel, condition=TRUE), field_map, outer)
        new_join = replace(rel, left=left.rel, right=right.rel, condition=_inside(rel.condition, frame))
        return replace(frame, rel=new_join)

    def _correlate(self, rel: Correlate) -> _Frame:
        left = self.frame(rel.left)
        self.around[rel.number] = left
        try:
            right = self.frame(rel.right)
        except SqlError as error:
            error.place = error.place or rel.place
            raise
        width, old = left.rel.width, rel.left.width
        terms = []
        outer = dict(left.outer)
        for (number, index), field in sorted(right.outer.items()):
            if number != rel.number:
                outer[number, index] = width + field
                continue
            this, other = refs_to(left.rel, [left.field_map[index]])[0], shift(refs_to(right.rel, [field])[0], width)
            nulls = this.type.nullable and (number, index) in self.also_null
            terms.append(not_distinct(this, other) if nulls else compare("=", this, other))
        field_map = {**left.field_map, **{old + i: width + k for i, k in right.field_map.items()}}
        join = Join(left.rel, right.rel, and_(terms), rel.join_type, *rel.hints)
        return _Frame(join, field_map, outer)


def _one_projection(project: Project) -> Project:
    """``project`` merged with the projection below it, with its own names, as Calcite's ``RelBuilder`` does it."""
    one = merge_projects(project)
    return replace(one, names=project.names) if isinstance(one, Project) else project


def _grouped(calls: tuple[AggCall, ...], rel: Aggregate, count: int) -> tuple[AggCall, ...]:
    """``calls`` with the types they have in a grouping: over at least one row."""
    if rel.group or not count:
        return calls
    out: list[AggCall] = []
    for c in calls:
        nullable = any(rel.input.fields[a][1].nullable for a in rel.calls[len(out)].args) or c.filter >= 0
        out.append(replace(c, type=c.type.as_nullable(nullable)) if c.function != "COUNT" else c)
    return tuple(out)


def _with_old_fields(frame: _Frame, old: Rel) -> Rel:
    """The relation of ``frame`` with the fields of ``old``."""
    rel = frame.rel
    if rel.width == old.width and all(i == k for i, k in frame.field_map.items()):
        return rel
    fields = [frame.field_map[i] for i in range(old.width)]
    return Project(rel, tuple(refs_to(rel, fields)), tuple(field_names(old)))


def _inside(rex: Rex, frame: _Frame) -> Rex:
    """``rex`` over the new fields."""
    fields = refs_to(frame.rel)

    def change(e: Rex) -> Rex | None:
        if isinstance(e, InputRef):
            return fields[frame.field_map[e.index]]
        outer = outer_of(e)
        return fields[frame.outer[outer]] if outer is not None and outer in frame.outer else None

    return rewrite(rex, change)


def _equivalent(outer_field: Outer, condition: Rex) -> Rex | None:
    """What ``condition`` makes equal to an outside field."""
    for term in conjunctions(condition):
        if kind(term) != "=":
            continue
        for this, other in (term.children, term.children[::-1]):
            inner = this
            if kind(inner) == "CAST" and _widens(inner.type, inner.children[0].type):
                inner = inner.children[0]
            if outer_of(inner) == outer_field:
                return other
    return None


def _not_distinct_from(condition: Rex) -> Iterator[Outer]:
    """Outside fields that terms of a condition compare by IS NOT DISTINCT FROM."""
    for term in map(collapsed, conjunctions(condition)):
        if kind(term) == "IS NOT DISTINCT FROM":
            yield from (field for field in map(outer_of, map(unwrap_cast, term.children)) if field is not None)


def _widens(new: LogicalType, old: LogicalType) -> bool:
    return (
        new.root == old.root and (new.length or 0) >= (old.length or 0) and (new.precision or 0) >= (old.precision or 0)
    )
