"""Aggregates: the projection below merged in, unused calls dropped, unneeded groupings removed, AVG and SUM taken apart
where that leaves fewer calls.

Source: Flink's ``FlinkAggregateProjectMergeRule``, ``PruneAggregateCallRule``, ``FlinkAggregateRemoveRule`` and
Calcite's ``AggregateReduceFunctionsRule``; Flink chooses among them by cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stateplan.execnodes.functions import find_aggregate, make_call
from stateplan.execnodes.functions.aggregates import VARIANCES, WELFORD
from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.execnodes.types import BIGINT, INT, LogicalType
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Calc,
    Filter,
    Project,
    Rel,
    field_names,
    refs_to,
    unique_names,
)
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.expressions.ops import call, cast, compare, input_refs, remap, same_type
from stateplan.planner.metadata.unique_keys import are_unique


def merge_aggregate_project(rel: Rel) -> Rel | None:
    """Aggregates straight over the input of a projection that only picks fields, unless it leaves out some."""
    if not isinstance(rel, Aggregate) or not isinstance(rel.input, Project):
        return None
    project = rel.input
    used = {*rel.group, *(a for c in rel.calls for a in c.args), *(c.filter for c in rel.calls if c.filter >= 0)}
    if not all(isinstance(project.exprs[i], InputRef) for i in used):
        return None
    if project.input.width > max(1, project.width):
        return None
    if not used and isinstance(project.input, WatermarkAssigner):
        return None
    where = {i: e.index for i, e in enumerate(project.exprs) if isinstance(e, InputRef)}
    group = [where[g] for g in rel.group]
    if len(set(group)) < len(group) or (group != sorted(group) and isinstance(project.input, Filter)):
        return None
    calls = tuple(
        replace(c, args=tuple(where[a] for a in c.args), filter=where[c.filter] if c.filter >= 0 else -1)
        for c in rel.calls
    )
    merged = replace(rel, input=project.input, group=tuple(sorted(group)), calls=calls)
    if group == sorted(group):
        return merged
    width = len(group)
    refs = refs_to(merged, [*(merged.group.index(g) for g in group), *range(width, width + len(calls))])
    names = field_names(rel)
    named = tuple(replace(c, name=n) for c, n in zip(calls, names[width:], strict=True))
    return Project(replace(merged, calls=named), tuple(refs), tuple(names))


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
    """Drops aggregate calls that a projection above does not use."""
    if not isinstance(rel, Project) or not isinstance(rel.input, Aggregate):
        return None
    aggregate = rel.input
    keys = len(aggregate.group)
    used = {i for e in rel.exprs for i in input_refs(e)}
    kept = [i for i in range(len(aggregate.calls)) if keys + i in used]
    if len(kept) == len(aggregate.calls) or (not keys and not kept):
        return None
    names = field_names(aggregate)
    calls = tuple(replace(aggregate.calls[i], name=names[keys + i]) for i in kept)
    where = {**{g: g for g in range(keys)}, **{keys + old: keys + new for new, old in enumerate(kept)}}
    exprs = tuple(remap(e, where) for e in rel.exprs)
    return replace(rel, input=replace(aggregate, calls=calls), exprs=exprs)


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


def _reducible(c: AggCall, distinct: bool = False) -> bool:
    return c.function in ("AVG", "SUM") and (distinct or not c.distinct)


def reduce_aggregates(rel: Rel) -> Rel | None:
    """Writes AVG and SUM with ``$SUM0`` and COUNT, where these are fewer calls; variances always with the sum of
    squared differences."""
    if not isinstance(rel, Aggregate):
        return None
    variances = any(c.function in VARIANCES for c in rel.calls)
    if not variances and not any(_reducible(c) for c in rel.calls):
        return None
    keys = len(rel.group)
    made: list[AggCall] = []

    def add(c: AggCall) -> int:
        for i, other in enumerate(made):
            if replace(other, name=None) == replace(c, name=None):
                return keys + i
        made.append(c)
        return keys + len(made) - 1

    exprs: list[Rex] = [InputRef(t, i) for i, (_, t) in enumerate(rel.fields[:keys])]
    for c in rel.calls:
        if c.function in VARIANCES:
            exprs.append(_variance(c, rel, add))
        elif not _reducible(c, variances):
            exprs.append(InputRef(c.type, add(c)))
        elif c.function == "AVG" and c.args[0] in rel.group and c.filter < 0:
            key = rel.group.index(c.args[0])
            exprs.append(cast(InputRef(rel.fields[key][1], key), c.type))
        else:
            exprs.append(_reduced(c, rel, add, once=variances))
    if len(made) >= len(rel.calls) and not variances:
        return None
    return Project(replace(rel, calls=tuple(made)), tuple(exprs), tuple(field_names(rel)))


def _variance(c: AggCall, rel: Aggregate, add: Callable[[AggCall], int]) -> Rex:
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


def _reduced(c: AggCall, rel: Aggregate, add: Callable[[AggCall], int], once: bool) -> Rex:
    """SUM as ``CASE WHEN COUNT = 0 THEN NULL ELSE $SUM0 END``, AVG as that divided by COUNT; with ``once`` AVG as SUM
    divided by COUNT."""
    argument = rel.input.fields[c.args[0]][1]
    result = c.type
    if c.function == "AVG":
        sum_ = find_aggregate("SUM")
        if sum_ is None:
            raise AssertionError("SUM is not in the table of functions")
        result = sum_.infer([argument], None, grouped=bool(rel.group), filtered=c.filter >= 0)
    if once and c.function == "AVG":
        sum_ref = InputRef(result, add(_named("SUM", c, result)))
        mean = make_call("/", [cast(sum_ref, c.type), InputRef(BIGINT.not_null(), add(_count(c, argument)))])
        return mean if same_type(mean.type, c.type) else call("CAST", (mean,), c.type)
    total = InputRef(result.not_null(), add(_named("$SUM0", c, result.not_null())))
    count = InputRef(BIGINT.not_null(), add(_count(c, argument)))
    empty = compare("=", count, Literal(INT.not_null(), 0))
    value: Rex = call("CASE", (empty, Literal(result, None), total), result) if result.nullable else total
    if c.function == "SUM":
        return value
    quotient = make_call("/", [cast(value, c.type), count])
    return quotient if same_type(quotient.type, c.type) else call("CAST", (quotient,), c.type)


def _named(function: str, c: AggCall, type: LogicalType) -> AggCall:  # noqa: A002
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
