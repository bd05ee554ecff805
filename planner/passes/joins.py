"""Rewrites of joins, and the joins with operators of their own: interval, window, temporal, lookup and multi-joins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from stateplan.common.errors import SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.registry import connectors, find_connector
from stateplan.functions.rex import InputRef, Literal, Rex, input_refs, remap
from stateplan.functions.typerules import least_restrictive, same_type
from stateplan.planner.algebra.join_keys import common_keys, equi_keys, is_equi_key, null_filters
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    Filter,
    Join,
    MultiJoin,
    Project,
    Rel,
    Scan,
    field_names,
    identity,
    is_identity,
    replace_inputs,
    some_fields,
)
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, Snapshot, TemporalJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import WindowJoin, WindowPosition
from stateplan.planner.expressions.fold import evaluate_constant
from stateplan.planner.expressions.normal import collapsed, not_distinct, to_cnf
from stateplan.planner.expressions.ops import (
    MIRRORED,
    TRUE,
    Over,
    and_,
    cast,
    compare,
    conjunctions,
    has_user_call,
    kind,
    retyped,
    rewrite,
    walk,
    with_operands,
)
from stateplan.planner.metadata.row_counts import row_count
from stateplan.planner.metadata.unique_keys import are_unique, unique_keys
from stateplan.planner.metadata.window_properties import WindowProperties, window_properties
from stateplan.planner.physical import Physical

# Returns both sides of an equality in a join's condition one type.
#
# Source: Flink's ``JoinConditionTypeCoerceRule``, which leaves IS NOT DISTINCT FROM out: its key has two types there.


def coerce_join_conditions(rel: Rel) -> Rel | None:
    """Raises SqlError SQL203 for types that have none in common."""
    if not isinstance(rel, Join):
        return None
    terms = conjunctions(rel.condition)
    coerced = [_coerced(t) for t in terms]
    return None if coerced == terms else replace(rel, condition=and_(coerced))


def _coerced(term: Rex) -> Rex:
    equality = collapsed(term)
    if kind(equality) not in ("=", "IS NOT DISTINCT FROM"):
        return term
    a, b = equality.children
    if not isinstance(a, InputRef) or not isinstance(b, InputRef) or same_type(a.type, b.type):
        return term
    common = least_restrictive([a.type, b.type])
    if common is None:
        raise SqlError("SQL203.incomparable", left=a.type, right=b.type, name="the condition")
    left, right = _ensured(a, common), _ensured(b, common)
    return compare("=", left, right) if kind(equality) == "=" else not_distinct(left, right)


def _ensured(field: Rex, target: LogicalType) -> Rex:
    """``field`` as a value of this type, which is nullable if the field is (``RexBuilder.ensureType``)."""
    return cast(field, target.as_nullable(field.type.nullable))


def semi_join_below_join(rel: Rel) -> Rel | None:
    """Moves a semi or anti join below an inner join, to the side that it compares with, where that leaves no more rows.

    Source: Flink's ``FlinkSemiAntiJoinJoinTransposeRule`` and ``FlinkSemiAntiJoinProjectTransposeRule``, which are
    applied where the cost is lower.
    """
    if not isinstance(rel, Join) or rel.join_type not in ("SEMI", "ANTI"):
        return None
    if isinstance(rel.left, Project):
        return _below_projection(rel, rel.left)
    join = rel.left
    if not isinstance(join, Join) or join.join_type != "INNER":
        return None
    outer, inner = join.width, join.left.width
    used_fields = {i for i in input_refs(rel.condition) if i < outer}
    if not used_fields:
        return None
    if all(i < inner for i in used_fields):
        pushed_join = replace(
            rel, left=join.left, condition=remap(rel.condition, lambda i: i - outer + inner if i >= outer else i)
        )
        new_join = replace(join, left=pushed_join)
    elif all(i >= inner for i in used_fields):
        pushed_join = replace(rel, left=join.right, condition=remap(rel.condition, lambda i: i - inner))
        new_join = replace(join, right=pushed_join)
    else:
        return None
    return new_join if row_count(pushed_join) <= row_count(join) else None


def _below_projection(rel: Join, project: Project) -> Rel | None:
    width = project.width
    used_fields = {i for i in input_refs(rel.condition) if i < width}
    fields = {i: e.index for i in used_fields if isinstance(e := project.exprs[i], InputRef)}
    if len(fields) < len(used_fields):
        return None
    below = project.input.width
    condition = remap(rel.condition, lambda i: i - width + below if i >= width else fields[i])
    below_join = replace(rel, left=project.input, condition=condition)
    pushed_join = semi_join_below_join(below_join)
    if pushed_join is None and _is_reordering(project):
        pushed_join = below_join
    return None if pushed_join is None else replace(project, input=pushed_join)


def _is_reordering(project: Project) -> bool:
    """Whether it only puts all fields of its input in another order: for fewer rows that costs less."""
    fields = [e.index for e in project.exprs if isinstance(e, InputRef)]
    return fields != sorted(fields) and sorted(fields) == [*range(project.input.width)] and len(fields) == project.width


# Removes an outer join that adds nothing: no column of its padded side is used, and that side has at most one match
# per row, or duplicates do not count.
#
# Source: Calcite's ``ProjectJoinRemoveRule`` and ``AggregateJoinRemoveRule``.


def _kept_side(join: Join | TemporalJoin, used_fields: Iterable[int]) -> tuple[Rel, int] | None:
    """The side whose rows are all kept, and where its fields begin, if ``used_fields`` are of it alone; else None."""
    width = join.left.width
    if join.join_type == "LEFT" and all(i < width for i in used_fields):
        return join.left, 0
    if join.join_type == "RIGHT" and all(i >= width for i in used_fields):
        return join.right, width
    return None


def remove_join_below_project(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Join):
        return None
    join = rel.input
    kept_side = _kept_side(join, [i for e in rel.exprs for i in input_refs(e)])
    if kept_side is None:
        return None
    side, offset = kept_side
    pairs = equi_keys(join.condition, join.left.width)
    other, keys = (join.right, {r for _, r in pairs}) if offset == 0 else (join.left, {k for k, _ in pairs})
    if not are_unique(other, frozenset(keys)):
        return None
    return replace(rel, input=side, exprs=tuple(remap(e, lambda i: i - offset) for e in rel.exprs))


def remove_join_below_aggregate(rel: Rel) -> Rel | None:
    """For groupings without calls, or with DISTINCT calls only."""
    if not isinstance(rel, Aggregate) or not all(c.distinct for c in rel.calls):
        return None
    below = rel.input
    if isinstance(below, Project) and isinstance(below.input, (Join, TemporalJoin)):
        if not all(isinstance(e, InputRef) for e in below.exprs):
            return None
        project, join = below, below.input
    elif isinstance(below, (Join, TemporalJoin)):
        project, join = identity(below), below
    else:
        return None
    fields = [e.index for e in project.exprs if isinstance(e, InputRef)]
    used_fields = {*rel.group, *(a for c in rel.calls for a in c.args), *(c.filter for c in rel.calls if c.filter >= 0)}
    kept_side = _kept_side(join, [fields[i] for i in used_fields])
    if kept_side is None:
        return None
    side, offset = kept_side
    order = sorted(used_fields)
    field_map = {f: i for i, f in enumerate(order)}
    exprs = tuple(InputRef(side.fields[fields[i] - offset][1], fields[i] - offset) for i in order)
    calls = tuple(
        replace(c, args=tuple(field_map[a] for a in c.args), filter=field_map.get(c.filter, -1)) for c in rel.calls
    )
    return replace(
        rel,
        input=Project(side, exprs, tuple(project.names[i] for i in order)),
        group=tuple(field_map[g] for g in rel.group),
        calls=calls,
    )


# Makes one operator of joins that follow each other on a common key.
#
# Source: Flink's ``JoinToMultiJoinRule`` and ``AttributeBasedJoinKeyExtractor`` (FLIP-516). Every INNER or LEFT join
# of a query that asks for it becomes a multi-join; one whose left input is a multi-join already is added to that, if
# all of its inputs then have a key in common.


def every_join(rel: Rel) -> Rel:
    """``rel`` with all joins asking to become multi-joins, as ``table.optimizer.multi-join.enabled`` does."""
    rebuilt = replace_inputs(rel, [every_join(i) for i in rel.inputs])
    looked_up = isinstance(rebuilt, Join) and isinstance(rebuilt.right, Snapshot)
    return replace(rebuilt, multi=True) if isinstance(rebuilt, Join) and not looked_up else rebuilt


def to_multi_joins(rel: Rel) -> Rel:
    rel = replace_inputs(rel, [to_multi_joins(i) for i in rel.inputs])
    if (
        not isinstance(rel, Join)
        or not rel.multi
        or rel.join_type not in ("INNER", "LEFT")
        or has_user_call(rel.condition)
        or to_interval_join(rel, *rel.inputs) is not None
    ):
        return rel
    left = rel.left
    if isinstance(left, MultiJoin):
        longer = _longer(left, rel)
        if all(common_keys(longer)):
            return longer
    types, texts = (rel.left_hint, rel.right_hint), rel.ttl_texts
    conditions: tuple[Rex, Rex] = (TRUE, rel.condition)
    return MultiJoin(
        rel.inputs, ("INNER", rel.join_type), conditions, tuple(field_names(rel)), types, texts, place=rel.place
    )


def _longer(left: MultiJoin, join: Join) -> MultiJoin:
    return replace(
        left,
        sources=(*left.sources, join.right),
        join_types=(*left.join_types, "LEFT" if join.join_type == "LEFT" else "INNER"),
        conditions=(*left.conditions, join.condition),
        names=tuple(field_names(join)),
        hints=(*left.hints, join.right_hint),
        ttl_texts=(*left.ttl_texts, join.ttl_texts[1]),
    )


def project_through_multi_join(rel: Rel) -> Rel | None:
    """The sources give the fields that the projection or a condition needs, at least one each."""
    if not isinstance(rel, Project) or not isinstance(rel.input, MultiJoin):
        return None
    if any(isinstance(e, Over) for x in rel.exprs for e in walk(x)):
        return None
    join = rel.input
    offsets = join.offsets
    used_fields = {i for e in (*rel.exprs, *join.conditions) for i in input_refs(e)}
    for begin, end in pairwise(offsets):
        if not any(begin <= i < end for i in used_fields):
            used_fields.add(begin)
    if len(used_fields) == offsets[-1]:
        return None
    kept_fields = sorted(used_fields)
    field_map = {f: i for i, f in enumerate(kept_fields)}
    sources = []
    for source, begin in zip(join.sources, offsets, strict=False):
        own = [i - begin for i in kept_fields if begin <= i < begin + source.width]
        sources.append(source if len(own) == source.width else some_fields(source, own))
    narrow_join = replace(
        join,
        sources=tuple(sources),
        conditions=tuple(remap(c, field_map) for c in join.conditions),
        names=tuple(join.names[i] for i in kept_fields),
    )
    exprs = tuple(remap(e, field_map) for e in rel.exprs)
    if is_identity(exprs, narrow_join) and list(rel.names) == list(narrow_join.names):
        return narrow_join
    return replace(rel, input=narrow_join, exprs=exprs)


# Joins whose condition bounds the times of both sides by each other.
#
# Source: Flink's ``IntervalJoinUtil``, ``StreamPhysicalIntervalJoinRule`` and ``RelTimeIndicatorConverter``.


_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class _Bound:
    """A term that bounds left time - right time: from below (>), from above (<), or to one value (=), in ms."""

    op: str
    left_time: int
    right_time: int
    event_time: bool
    value: int | None


def to_interval_join(join: Join, left: Rel, right: Rel) -> IntervalJoin | None:
    """``join`` over its new inputs as an interval join; None if it is none: without two bounds on a time attribute of
    each side, or one equality.

    Raises:
        SqlError: SQL151, times that cannot be compared, or event time below a join by processing time.
    """
    if join.join_type not in ("INNER", "LEFT", "RIGHT", "FULL"):
        return None
    types = [t for _, t in (*left.fields, *right.fields)]
    condition = retyped(join.condition, types)
    bounds: list[_Bound] = []
    rest: list[Rex] = []
    for term in conjunctions(to_cnf(condition)):
        bound = _bound(term, types, left.width)
        if bound is None:
            rest.append(term)
        else:
            bounds.append(bound)
    bounded_interval = _interval(bounds)
    if bounded_interval is None:
        return None
    first = bounds[0]
    times = types[first.left_time], types[left.width + first.right_time]
    if first.event_time and times[0].root != times[1].root:
        raise SqlError("SQL151", root=times[0].root, times_root=times[1].root, place=join.place)
    if not first.event_time and any(t.kind == "ROWTIME" for t in types):
        raise SqlError("SQL151.emits_rowtime", place=join.place)
    lower, upper = bounded_interval
    return IntervalJoin(
        left,
        right,
        condition,
        and_(rest),
        join.join_type,
        first.event_time,
        lower,
        upper,
        first.left_time,
        first.right_time,
        join.place,
        join.left_hint,
        join.right_hint,
    )


def _interval(bounds: list[_Bound]) -> tuple[int, int] | None:
    if any(b.value is None for b in bounds):
        return None
    comparisons = sorted((b.op, b.value or 0) for b in bounds)
    if [op for op, _ in comparisons] == ["="]:
        return comparisons[0][1], comparisons[0][1]
    if [op for op, _ in comparisons] == ["<", ">"]:
        return comparisons[1][1], comparisons[0][1]
    return None


def _bound(term: Rex, types: list[LogicalType], width: int) -> _Bound | None:
    """What a comparison of a time attribute of each side says; None for anything else."""
    op = kind(term)
    if op not in ("=", "<", "<=", ">", ">="):
        return None
    a, b = term.children
    attributes = [_attribute(side, types) for side in (a, b)]
    if attributes[0] is None or attributes[1] is None or (attributes[0] < width) == (attributes[1] < width):
        return None
    if types[attributes[0]].kind != types[attributes[1]].kind:
        return None
    if attributes[0] >= width:
        a, b, op = b, a, MIRRORED[op]
        attributes.reverse()
    assert attributes[0] is not None and attributes[1] is not None
    offsets = [_offset(side) for side in (a, b)]
    value = None
    if offsets[0] is not None and offsets[1] is not None:
        value = offsets[1] - offsets[0] + {"<": -1, ">": 1}.get(op, 0)
    return _Bound(op[0], attributes[0], attributes[1] - width, types[attributes[0]].kind == "ROWTIME", value)


def _attribute(rex: Rex, types: list[LogicalType]) -> int | None:
    """The one field that an expression reads, once, where it is a time attribute."""
    read = [e.index for e in walk(rex) if isinstance(e, InputRef)]
    return read[0] if len(read) == 1 and types[read[0]].kind is not None else None


def _offset(rex: Rex) -> int | None:
    """The milliseconds of an expression over a time attribute, which counts as 1970-01-01; None for one that fails.

    In another time zone both sides of a comparison would move alike.
    """

    def epoch(inner: Rex) -> Rex | None:
        if not isinstance(inner, InputRef):
            return None
        return Literal(replace(inner.type, kind=None, nullable=False), "1970-01-01 00:00:00")

    value = rewrite(rex, epoch)
    literal = value if isinstance(value, Literal) else evaluate_constant(value, "UTC")
    if literal is None or not isinstance(literal.value, str):
        return None
    return round((dt.datetime.fromisoformat(literal.value) - _EPOCH) / dt.timedelta(milliseconds=1))


# Joins of rows that are in the same window.
#
# Source: Flink's ``WindowJoinUtil`` and ``StreamPhysicalWindowJoinRule``.


def to_window_join(join: Join, left: Rel, right: Rel) -> WindowJoin | None:
    """``join`` over its new inputs as a join within windows; None if its condition does not say that both starts and
    both ends of windows are equal, or where these are different windows.
    """
    windows = window_properties(left), window_properties(right)
    if windows[0] is None or windows[1] is None or not windows[0].same(windows[1]):
        return None
    width = left.width
    condition = retyped(join.condition, [t for _, t in (*left.fields, *right.fields)])
    pairs = equi_keys(condition, width)
    starts = [(a, b) for a, b in pairs if a in windows[0].starts and b in windows[1].starts]
    ends = [(a, b) for a, b in pairs if a in windows[0].ends and b in windows[1].ends]
    if not starts or not ends:
        return None
    terms = conjunctions(condition)
    keys = [t for t in terms if is_equi_key(t, width) and equi_keys(t, width)[0] not in (*starts, *ends)]
    keys = [with_operands(t, sorted(t.children, key=lambda side: min(input_refs(side)))) for t in map(collapsed, keys)]
    others = [t for t in terms if not is_equi_key(t, width)]

    def position(side: int) -> WindowPosition:
        window = windows[side]
        assert isinstance(window, WindowProperties)
        return WindowPosition(window.window, window.time_type, start=starts[0][side], end=ends[0][side])

    rest = and_([*keys, *others])
    hints = join.left_hint, join.right_hint
    return WindowJoin(left, right, rest, join.join_type, position(0), position(1), join.place, *hints)


# Joins with a versioned table: by which key versions are distinguished, and what keeps such a join from running.
#
# Source: Flink's ``TemporalJoinRewriteWithUniqueKeyRule`` and ``StreamPhysicalTemporalJoinRule``.


def key_of_versions(rel: Rel) -> Rel | None:
    """The join with its primary key: a unique key of the versioned table within the join's own key.

    Raises:
        SqlError: SQL147, no join key; SQL148, no such unique key; SQL149, what Flink has no operator for.
    """
    if not isinstance(rel, TemporalJoin) or rel.primary_key:
        return None
    pairs = equi_keys(rel.condition, rel.left.width)
    if not pairs:
        raise SqlError("SQL147.empty_key", place=rel.place)
    if rel.join_type not in ("INNER", "LEFT"):
        raise SqlError("SQL149.join_type", join_type=rel.join_type, kind="temporal", place=rel.place)
    if rel.right_time is None:
        raise SqlError("SQL149", what="a view or a query", place=rel.place)
    keys = frozenset(k for _, k in pairs)
    keys_within = sorted(
        (tuple(sorted(k)) for k in unique_keys(rel.right) if k and k <= keys), key=lambda k: (len(k), k)
    )
    if not keys_within:
        names = field_names(rel.right)
        raise SqlError("SQL148.no_primary_key", keys=", ".join(names[k] for k in sorted(keys)), place=rel.place)
    return replace(rel, right=_without_normalization(rel.right), primary_key=keys_within[0])


def _without_normalization(rel: Rel) -> Rel:
    """The versions of a table as its source sends them. The join keeps one row per key and time, so a change that comes
    twice, or without its old row, leaves the same versions (``EventTimeTemporalJoinRewriteRule``)."""
    if isinstance(rel, Scan):
        return replace(rel, normalized=None)
    if isinstance(rel, (Project, Calc, WatermarkAssigner)):
        return replace_inputs(rel, [_without_normalization(rel.input)])
    return rel


# Joins with a table whose rows are looked up.
#
# Source: Flink's ``ProjectSnapshotTransposeRule``, ``CommonLookupJoinRule`` and ``LookupJoinUtil``.


def project_through_snapshot(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Snapshot):
        return None
    return replace(rel.input, input=replace(rel, input=rel.input.input))


def filter_through_snapshot(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Snapshot):
        return None
    return replace(rel.input, input=replace(rel, input=rel.input.input))


def lookup_joins(rel: Rel) -> Rel | None:
    """The lookup in place of a join with a table as it is now.

    Raises:
        SqlError: SQL147, no key to look up by; SQL149, what Flink has no operator for.
    """
    if not isinstance(rel, Join) or not isinstance(rel.right, Snapshot):
        return None
    below = rel.right.input
    calc = below if isinstance(below, Calc) else None
    table = below.input if isinstance(below, Calc) else below
    assert isinstance(table, Scan)
    summary = table.table.identifier.summary
    if not find_connector(table.table.options).can_look_up or table.normalized is not None:
        able = " or ".join(c.name for c in connectors() if c.can_look_up)
        raise SqlError("SQL149", lookup_connectors=able, what=f"'{summary}'", place=rel.place)
    if rel.join_type not in ("INNER", "LEFT"):
        raise SqlError("SQL149.join_type", join_type=rel.join_type, kind="lookup", place=rel.place)
    width = rel.left.width
    if not all(null_filters(rel.condition, width)):
        raise SqlError("SQL149.lookup_of_null", place=rel.place)
    keys = tuple((field, k) for k, r in equi_keys(rel.condition, width) if (field := _field(calc, r)) is not None)
    constants = tuple(_constants(calc))
    if not keys and not constants:
        raise SqlError("SQL147", summary=summary, place=rel.place)
    looked_up = {field for field, _ in keys}
    rest: list[Rex] = []
    before: list[Rex] = []
    for term in conjunctions(rel.condition):
        if is_equi_key(term, width) and looked_up & set(_right_fields(term, calc, width)):
            continue
        alone = rel.join_type == "LEFT" and all(i < width for i in input_refs(term))
        (before if alone else rest).append(term)
    return LookupJoin(
        rel.left,
        table,
        calc,
        rel.join_type,
        keys,
        constants,
        and_(before) if before else None,
        and_(rest) if rest else None,
        hint=rel.left_hint,
        retry=rel.right.retry,
    )


def keep_lookups(node: Physical) -> Physical:
    """``node`` with lookups of rows that are updated or deleted keeping what they found
    (``StreamNonDeterministicUpdatePlanVisitor``)."""
    inputs = tuple(keep_lookups(i) for i in node.inputs)
    rel = replace_inputs(node.rel, [i.rel for i in inputs])
    if isinstance(rel, LookupJoin) and not inputs[0].is_insert_only:
        rel = replace(rel, materialize=True)
    return replace(node, rel=rel, inputs=inputs)


def _field(calc: Calc | None, index: int) -> int | None:
    """The table's field that is field ``index`` of what is found."""
    if calc is None:
        return index
    expr = calc.exprs[index]
    return expr.index if isinstance(expr, InputRef) else None


def _right_fields(term: Rex, calc: Calc | None, width: int) -> Iterator[int]:
    for i in input_refs(term):
        field = _field(calc, i - width) if i >= width else None
        if field is not None:
            yield field


def _constants(calc: Calc | None) -> Iterator[tuple[int, Rex]]:
    """Fields of the table that its condition makes equal to a constant."""
    for term in conjunctions(calc.condition) if calc is not None else ():
        if kind(term) != "=":
            continue
        a, b = term.children
        if isinstance(a, Literal):
            a, b = b, a
        if isinstance(a, InputRef) and isinstance(b, Literal):
            yield a.index, b
