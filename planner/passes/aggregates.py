"""Rewrites of aggregates."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace

from stateplan.common.types import BIGINT, BOOLEAN, INT, LogicalType
from stateplan.functions.aggregates import VARIANCES, WELFORD, find_aggregate
from stateplan.functions.builder import make_call
from stateplan.functions.literals import number_literal
from stateplan.functions.rex import Call, InputRef, Literal, Rex, input_refs, remap
from stateplan.functions.typerules import same_type
from stateplan.planner.algebra.join_keys import equi_keys, is_equi_key
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Calc,
    Expand,
    Filter,
    Join,
    Project,
    Rel,
    Sort,
    Values,
    field_names,
    refs_to,
    replace_inputs,
    some_fields,
    unique_names,
    with_expressions,
)
from stateplan.planner.algebra.windows import GroupWindowAggregate
from stateplan.planner.binding.grouping import project_names
from stateplan.planner.binding.grouping_sets import expanded_names
from stateplan.planner.expressions.ops import call, cast, compare, conjunctions, kind, rewrite
from stateplan.planner.expressions.simplify import simplify_preserving_type
from stateplan.planner.metadata.row_counts import row_count
from stateplan.planner.metadata.sizes import row_size
from stateplan.planner.metadata.unique_keys import are_unique
from stateplan.planner.metadata.window_properties import window_properties

# Aggregates: the projection below merged in, unused calls dropped, unneeded groupings removed, AVG and SUM split
# where that leaves fewer calls.
#
# Source: Flink's ``FlinkAggregateProjectMergeRule``, ``PruneAggregateCallRule``, ``FlinkAggregateRemoveRule`` and
# Calcite's ``AggregateReduceFunctionsRule``; Flink chooses among them by cost.


def _leaves_unread(rel: Aggregate | GroupWindowAggregate, used_fields: Set[int]) -> bool:
    """Whether the projection below has fields that only dropped calls have read. They stay where they are, but for
    windows of table functions, and where there is something to compute."""
    assert isinstance(rel.input, Project)
    exprs = rel.input.exprs
    if isinstance(rel, Aggregate):
        windows = window_properties(rel.input)
        if windows is not None and windows.grouped_by(rel.group):
            return False
        if any(not isinstance(e, (InputRef, Literal)) for e in exprs):
            return False
    read = {e.index for i in used_fields if isinstance(e := exprs[i], InputRef)}
    return not read >= {e.index for e in exprs if isinstance(e, InputRef)}


def _tells_the_time(rel: GroupWindowAggregate, project: Project) -> bool:
    """Whether windows by the clock are of a time that ``project`` passes on, or makes by PROCTIME."""
    time = project.exprs[rel.time]
    return rel.clock is not None and (isinstance(time, InputRef) or kind(time) == "PROCTIME")


def merge_aggregate_project(rel: Rel) -> Rel | None:
    """Aggregates straight over the input of a projection of which only picked fields are used, unless it does nothing
    but make rows smaller."""
    if not isinstance(rel, (Aggregate, GroupWindowAggregate)) or not isinstance(rel.input, Project):
        return None
    project = rel.input
    times = [rel.time] if isinstance(rel, GroupWindowAggregate) and not _tells_the_time(rel, project) else []
    used_fields = {
        *times,
        *rel.group,
        *(a for c in rel.calls for a in c.args),
        *(c.filter for c in rel.calls if c.filter >= 0),
    }
    if not all(isinstance(project.exprs[i], InputRef) for i in used_fields):
        return None
    has_expressions = any(not isinstance(e, (InputRef, Literal)) for e in project.exprs)
    field_map = {i: e.index for i, e in enumerate(project.exprs) if isinstance(e, InputRef)}
    group = [field_map[g] for g in rel.group]
    if row_size(project.input) > row_size(project) and not has_expressions and len(set(group)) == len(group):
        return None
    if isinstance(project.input, Filter) and (group != sorted(group) or _leaves_unread(rel, used_fields)):
        return None
    calls = tuple(
        replace(c, args=tuple(field_map[a] for a in c.args), filter=field_map[c.filter] if c.filter >= 0 else -1)
        for c in rel.calls
    )
    merged_aggregate = replace(rel, input=project.input, group=tuple(sorted(set(group))), calls=calls)
    if isinstance(rel, GroupWindowAggregate):
        assert isinstance(merged_aggregate, GroupWindowAggregate)
        merged_aggregate = replace(merged_aggregate, time=field_map.get(rel.time, 0))
    if list(merged_aggregate.group) == group:
        return merged_aggregate
    width, names = len(merged_aggregate.group), field_names(rel)[len(group) : len(group) + len(calls)]
    if width == len(group):
        merged_aggregate = replace(
            merged_aggregate, calls=tuple(replace(c, name=n) for c, n in zip(calls, names, strict=True))
        )
    order = [*(merged_aggregate.group.index(g) for g in group), *range(width, merged_aggregate.width)]
    return Project(
        merged_aggregate,
        tuple(refs_to(merged_aggregate, order)),
        tuple(unique_names([merged_aggregate.fields[i][0] for i in order])),
    )


def keep_names_of_filtered_groups(rel: Rel) -> Rel | None:
    """A filter keeps the names that its rows have before the projection below their grouping goes away."""
    if not isinstance(rel, Filter) or not isinstance(rel.input, Aggregate):
        return None
    aggregate, project = rel.input, rel.input.input
    if not isinstance(project, Project):
        return None
    fields = {g: e.index for g in aggregate.group if isinstance(e := project.exprs[g], InputRef)}
    if all(project.input.fields[f][0] == project.names[g] for g, f in fields.items()):
        return None
    return Calc(aggregate, tuple(refs_to(aggregate)), tuple(field_names(rel)), rel.condition)


def prune_aggregate_calls(rel: Rel) -> Rel | None:
    """Drops aggregate calls that a projection above does not use. Where there was a SUM or AVG, those left are taken
    apart if that leaves fewer calls, as Flink considers it before it drops any."""
    if not isinstance(rel, Project) or not isinstance(rel.input, (Aggregate, GroupWindowAggregate)):
        return None
    aggregate = rel.input
    keys, count = len(aggregate.group), len(aggregate.calls)
    used_fields = {i for e in rel.exprs for i in input_refs(e)}
    kept_calls = [i for i in range(count) if keys + i in used_fields] or ([] if keys else [*range(count)][:1])
    if len(kept_calls) == count:
        return None
    calls = tuple(aggregate.calls[i] for i in kept_calls)
    left = [*range(keys), *(keys + i for i in kept_calls), *range(keys + count, aggregate.width)]
    field_map = {old: new for new, old in enumerate(left)}
    exprs = tuple(remap(e, field_map) for e in rel.exprs)
    new_aggregate = replace(aggregate, calls=calls)
    if any(is_reducible(c, distinct=True) for c in aggregate.calls):
        new_calls, reduced = _taken_apart(new_aggregate, once=False)
        # Flink takes DISTINCT calls apart, too: they are two calls.
        cost = len(new_calls) + sum(
            c.distinct and c.type.nullable and is_reducible(c, distinct=True) for c in new_calls
        )
        return replace(rel, input=reduced if cost < len(calls) else new_aggregate, exprs=exprs)
    return replace(rel, input=new_aggregate, exprs=exprs)


def remove_aggregate(rel: Rel) -> Rel | None:
    """A grouping by a unique key of the input groups nothing: SUM, MIN and MAX of one row are its value."""
    if not isinstance(rel, Aggregate) or not rel.group:
        return None
    if any(c.function not in ("SUM", "MIN", "MAX") or c.filter >= 0 or len(c.args) != 1 for c in rel.calls):
        return None
    if not are_unique(rel.input, frozenset(rel.group)):
        return None
    refs = refs_to(rel.input, [*rel.group, *(c.args[0] for c in rel.calls)])
    exprs = tuple(cast(e, t) for e, (_, t) in zip(refs, rel.fields, strict=True))
    names = field_names(rel)
    if all(e is r for e, r in zip(exprs, refs, strict=True)):
        names = [rel.input.fields[r.index][0] for r in refs if isinstance(r, InputRef)]
    return Project(rel.input, exprs, tuple(unique_names(names)))


def remove_aggregates_below_projects(rel: Rel) -> Rel | None:
    """As :func:`remove_aggregate`, in time for the source to read only the fields that the projection leaves. A filter
    on that keeps the names that its rows have before."""
    new_inputs = [_ungrouped(i) if isinstance(i, Project) else None for i in rel.inputs]
    if all(r is None for r in new_inputs):
        return None
    out = replace_inputs(rel, [i if r is None else r for i, r in zip(rel.inputs, new_inputs, strict=True)])
    if not isinstance(out, Filter):
        return out
    return Calc(out.input, tuple(refs_to(out.input)), tuple(field_names(rel)), out.condition)


def _ungrouped(rel: Project) -> Rel | None:
    new_input = remove_aggregate(rel.input)
    return None if new_input is None else replace(rel, input=new_input)


def replace_empty_aggregate(rel: Rel) -> Rel | None:
    """GROUP BY () without aggregates is one row, whatever its input (Calcite's ``RelBuilder.aggregate``)."""
    if not isinstance(rel, Aggregate) or rel.group or rel.calls:
        return None
    return Values((("dummy", BOOLEAN.not_null()),), ((Literal(BOOLEAN.not_null(), True),),), rel.place)


def remove_distinct_of_one_row(rel: Rel) -> Rel | None:
    """DISTINCT over a LIMIT of one row leaves it as it is (Calcite's ``RelMdMaxRowCount``)."""
    if not isinstance(rel, Aggregate) or rel.calls or not rel.group or not _is_one_row(rel.input):
        return None
    return some_fields(rel.input, rel.group)


def _is_one_row(rel: Rel) -> bool:
    if isinstance(rel, (Filter, Project)):
        return _is_one_row(rel.input)
    return isinstance(rel, Sort) and rel.fetch == 1


_OF_KEY = ("AVG", "MIN", "MAX")
"""Functions whose value is the key of the group, where they are of that key."""


def is_key(c: AggCall, rel: Aggregate | GroupWindowAggregate) -> bool:
    """Whether the value of a call is a key of the group."""
    return c.function in _OF_KEY and c.args[0] in rel.group and c.filter < 0


def is_reducible(c: AggCall, distinct: bool = False) -> bool:
    """Whether a call is an AVG or a SUM; with ``distinct`` those of DISTINCT too."""
    return c.function in ("AVG", "SUM") and (distinct or not c.distinct)


def reduce_aggregates(rel: Rel) -> Rel | None:
    """Writes AVG and SUM with ``$SUM0`` and COUNT, where these are fewer calls; variances always with the sum of
    squared differences."""
    if not isinstance(rel, (Aggregate, GroupWindowAggregate)):
        return None
    variances = any(c.function in VARIANCES for c in rel.calls)
    if not variances and not any(is_reducible(c) for c in rel.calls):
        return None
    new_calls, reduced = _taken_apart(rel, once=variances)
    return None if len(new_calls) >= len(rel.calls) and not variances else reduced


def means_taken_apart(rel: Aggregate | GroupWindowAggregate) -> Project:
    """AVG as SUM divided by COUNT, whether or not that leaves fewer calls."""
    return _taken_apart(rel, once=True)[1]


def _taken_apart(rel: Aggregate | GroupWindowAggregate, once: bool) -> tuple[list[AggCall], Project]:
    """The calls that AVG, SUM and the variances of ``rel`` are made of, and the projection over them. With ``once``,
    AVG is SUM divided by COUNT."""
    keys = len(rel.group)
    new_calls: list[AggCall] = []
    positions: dict[AggCall, int] = {}

    def add(c: AggCall) -> int:
        position = positions.setdefault(replace(c, name=None), len(new_calls))
        if position == len(new_calls):
            new_calls.append(c)
        return keys + position

    exprs: list[Rex] = [InputRef(t, i) for i, (_, t) in enumerate(rel.fields[:keys])]
    for c in rel.calls:
        if c.function in VARIANCES:
            exprs.append(_variance(c, rel, add))
        elif is_key(c, rel) and (once or not c.distinct):
            key = rel.group.index(c.args[0])
            exprs.append(cast(InputRef(rel.fields[key][1], key), c.type))
        elif not is_reducible(c, once):
            exprs.append(InputRef(c.type, add(c)))
        else:
            exprs.append(_reduced(c, rel, add, once=once))
    inner = replace(rel, calls=tuple(new_calls))
    exprs += refs_to(inner, range(keys + len(new_calls), inner.width))
    return new_calls, Project(inner, tuple(exprs), tuple(field_names(rel)))


def _variance(c: AggCall, rel: Aggregate | GroupWindowAggregate, add: Callable[[AggCall], int]) -> Rex:
    """A variance as the sum of squared differences divided by COUNT (of a sample: by one less); a deviation as the root
    of that."""
    sample, root = VARIANCES[c.function]
    argument = rel.input.fields[c.args[0]][1]
    welford = find_aggregate(WELFORD)
    assert welford is not None
    squares_type = welford.infer([argument], None, grouped=bool(rel.group), filtered=c.filter >= 0)
    squares = add(replace(c, function=WELFORD, internal_name=welford.internal_name, type=squares_type, name=None))
    count: Rex = InputRef(BIGINT.not_null(), add(_count(c, argument)))
    if sample:
        one = Literal(INT.not_null(), 1)
        less = make_call("-", [count, one])
        count = call("CASE", (compare("=", count, one), Literal(BIGINT, None), less), BIGINT)
    value: Rex = make_call("/", [InputRef(squares_type, squares), count])
    if root:
        value = make_call("POWER", [value, Literal(LogicalType("DECIMAL", False, precision=2, scale=1), "0.5")])
    return value if same_type(value.type, c.type) else call("CAST", (value,), c.type)


def _reduced(c: AggCall, rel: Aggregate | GroupWindowAggregate, add: Callable[[AggCall], int], once: bool) -> Rex:
    """SUM as ``CASE WHEN COUNT = 0 THEN NULL ELSE $SUM0 END``, AVG as that divided by COUNT; with ``once`` AVG as SUM
    divided by COUNT."""
    argument = rel.input.fields[c.args[0]][1]
    result = sum_type(c, rel) if c.function == "AVG" else c.type
    if once and c.function == "AVG":
        sum_ref = InputRef(result, add(_named_call("SUM", c, result)))
        mean = make_call("/", [cast(sum_ref, c.type), InputRef(BIGINT.not_null(), add(_count(c, argument)))])
        return mean if same_type(mean.type, c.type) else call("CAST", (mean,), c.type)
    total = InputRef(result.not_null(), add(_named_call("$SUM0", c, result.not_null())))
    count = InputRef(BIGINT.not_null(), add(_count(c, argument)))
    empty = compare("=", count, Literal(INT.not_null(), 0))
    value: Rex = call("CASE", (empty, Literal(result, None), total), result) if result.nullable else total
    if c.function == "SUM":
        return value
    quotient = make_call("/", [cast(value, c.type), count])
    return quotient if same_type(quotient.type, c.type) else call("CAST", (quotient,), c.type)


def sum_type(c: AggCall, rel: Aggregate | GroupWindowAggregate) -> LogicalType:
    """The type of the sum of what ``c`` aggregates."""
    sum_ = find_aggregate("SUM")
    assert sum_ is not None
    return sum_.infer([rel.input.fields[c.args[0]][1]], None, grouped=bool(rel.group), filtered=c.filter >= 0)


def _named_call(function: str, c: AggCall, type: LogicalType) -> AggCall:  # noqa: A002
    name = c.name if c.function == "SUM" else None
    return replace(c, function=function, internal_name=f"${function}$1", type=type, name=name, syntax=None)


def _count(c: AggCall, argument: LogicalType) -> AggCall:
    args = c.args if argument.nullable else ()
    return replace(
        c,
        function="COUNT",
        internal_name="$COUNT$1",
        type=BIGINT.not_null(),
        name=None,
        args=args,
        syntax="FUNCTION_STAR",
    )


def prune_count_star(rel: Rel) -> Rel | None:
    """COUNT(*) over all rows needs no column of its input.

    Source: Flink's ``PruneCountStarInputRule``.
    """
    if not isinstance(rel, Aggregate) or rel.group or len(rel.calls) != 1 or rel.input.width <= 1:
        return None
    count = rel.calls[0]
    if count.function != "COUNT" or count.args or count.filter >= 0:
        return None
    return replace(rel, input=Project(rel.input, (number_literal("0"),), ("$f0",)))


_FEW = 0.2
"""Rows of the other side, as a share of those with duplicates, that leave so little that these are cheaper to remove
above. Flink does so at 0.15, and not at 0.25."""


def distinct_below_join(rel: Rel) -> Rel | None:
    """Removes duplicates below an inner join instead of above it: of a side by its join keys, where the other side has
    at most one row per key, and the rows differ in all keys.

    Source: Flink's ``FlinkAggregateJoinTransposeRule``, which is applied where the cost is lower; of its cases this is
    the one in which no grouping is left above the join.
    """
    if not isinstance(rel, Aggregate) or rel.calls or not rel.group:
        return None
    fields = _fields(rel)
    join = rel.input.input if isinstance(rel.input, Project) else rel.input
    if fields is None or not isinstance(join, Join) or join.join_type != "INNER":
        return None
    width = join.left.width
    if not all(is_equi_key(t, width) for t in conjunctions(join.condition)):
        return None
    pairs = equi_keys(join.condition, width)
    keys = [tuple(dict.fromkeys(p[side] for p in pairs)) for side in (0, 1)]
    grouped = [{f for f in fields if f < width}, {f - width for f in fields if f >= width}]
    for side, other in ((0, 1), (1, 0)):
        rows = join.inputs[side]
        if not pairs or not grouped[side] <= set(keys[side]) or are_unique(rows, frozenset(keys[side])):
            continue
        known_keys = sum(pair[0] in grouped[0] or pair[1] in grouped[1] for pair in pairs)
        if known_keys < len(pairs) or row_count(join.inputs[other]) < _FEW * row_count(rows):
            continue
        if not are_unique(join.inputs[other], frozenset(keys[other])):
            continue
        order = sorted(keys[side])
        distinct = Aggregate(
            some_fields(rows, order),
            tuple(range(len(order))),
            (),
            rel.hint,
            rel.place,
        )
        return _joined_with_distinct(rel, join, distinct, side, order, fields)
    return None


def _fields(rel: Aggregate) -> list[int] | None:
    """The fields of the join that are grouped by; None if there are expressions."""
    if not isinstance(rel.input, Project):
        return list(rel.group)
    exprs = [rel.input.exprs[g] for g in rel.group]
    return [e.index for e in exprs if isinstance(e, InputRef)] if all(isinstance(e, InputRef) for e in exprs) else None


def _joined_with_distinct(
    rel: Aggregate, join: Join, distinct: Aggregate, side: int, order: list[int], fields: list[int]
) -> Rel:
    """The join with ``distinct``, which holds the fields ``order`` of its side."""
    width, more = join.left.width, join.right.width
    if side == 0:
        field_map = {k: i for i, k in enumerate(order)} | {width + i: len(order) + i for i in range(more)}
        new = replace(join, left=distinct, condition=remap(join.condition, field_map))
    else:
        field_map = {i: i for i in range(width)} | {width + k: width + i for i, k in enumerate(order)}
        new = replace(join, right=distinct, condition=remap(join.condition, field_map))
    return Project(new, tuple(refs_to(new, [field_map[f] for f in fields])), tuple(n for n, _ in rel.fields))


def _comparison_of_sets(rex: Rex) -> Rex | None:
    if kind(rex) != "GROUPING" or not isinstance(rex, Call):
        return None
    return simplify_preserving_type(call("CASE", rex.operands, rex.type), "UNKNOWN")


def reveal_groupings(rel: Rel) -> Rel | None:
    """GROUPING and the like become comparisons with the number of the grouping set, once nothing is simplified any
    more.

    Source: Flink's ``DecomposeGroupingSetsRule``, which runs that late.
    """
    return with_expressions(rel, lambda e: rewrite(e, _comparison_of_sets))


def name_expanded_fields(rel: Rel) -> Rel | None:
    """The fields of an Expand, and of the projection that drops the number of the grouping set, have the names that the
    input has by now.

    Source: Flink's ``DecomposeGroupingSetsRule``, which makes both that late.
    """
    if isinstance(rel, Project) and isinstance(rel.input, Aggregate) and isinstance(rel.input.input, Expand):
        number = rel.input.input.id_field
        others = [i for i in range(rel.input.width) if rel.input.group[i : i + 1] != (number,)]
        names = tuple(field_names(rel.input)[i] for i in others)
        drops_number = list(rel.exprs) == refs_to(rel.input, others)
        return replace(rel, names=names) if drops_number and rel.names != names else None
    if not isinstance(rel, Expand):
        return None
    copies = [e.index for e in rel.projects[0][rel.id_field + 1 :] if isinstance(e, InputRef)]
    names = tuple(expanded_names(field_names(rel.input), copies))
    return None if names == rel.names else replace(rel, names=names)


# Makes JSON text of the values of JSON_OBJECTAGG and JSON_ARRAYAGG before they are aggregated.
#
# Source: Flink's ``WrapJsonAggFunctionArgumentsRule``.


def wrap_json_aggregates(rel: Rel) -> Rel | None:
    """The aggregate over its input's fields and, behind them, their JSON text."""
    if not isinstance(rel, Aggregate):
        return None
    values = list(dict.fromkeys(c.args[-1] for c in rel.calls if c.function.startswith("JSON_")))
    if not values or (isinstance(rel.input, Project) and kind(rel.input.exprs[values[0]]) == "JSON_STRING"):
        return None
    refs = refs_to(rel.input)
    exprs = [*refs, *(make_call("JSON_STRING", [refs[v]]) for v in values)]
    names = project_names(exprs, [*field_names(rel.input), *[None] * len(values)], rel.input)
    place = {v: len(refs) + i for i, v in enumerate(values)}
    calls = tuple(
        replace(c, args=(*c.args[:-1], place[c.args[-1]])) if c.function.startswith("JSON_") else c for c in rel.calls
    )
    return replace(rel, input=Project(rel.input, tuple(exprs), tuple(names)), calls=calls)
