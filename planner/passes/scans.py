"""Pushes filters, partitions and projections into scans."""

from __future__ import annotations

from dataclasses import replace

from stateplan.common.types import BIGINT, STRING
from stateplan.connectors.registry import find_connector, metadata_columns, partitions_of
from stateplan.functions.rex import Call, InputRef, Rex, remap
from stateplan.planner.algebra.relations import (
    Calc,
    Filter,
    FilterAbility,
    PartitionAbility,
    Project,
    ProjectAbility,
    Rel,
    Scan,
    is_identity,
)
from stateplan.planner.expressions.convertible import convert
from stateplan.planner.expressions.ops import (
    and_,
    call,
    cast,
    conjunctions,
    disjunctions,
    is_always_true,
    is_deterministic,
    is_dynamic,
    kind,
    not_,
    or_,
    refs,
    substitute,
    walk,
)
from stateplan.planner.expressions.search import expand_search
from stateplan.planner.expressions.simplify import Simplifier
from stateplan.planner.passes.build import empty, filtered

# Hands filters to sources that can use them; the filter itself stays where the source does not say that it applies it.
#
# Source: Flink's ``PushFilterIntoTableSourceScanRule`` with ``RexNodeExtractor``.


MOST_LEVELS = 100
"""A condition with more levels stays above the source. An IN of ``n`` values has ``n`` levels, and its text in the plan
grows with their square. Flink hands over any; Jackson refuses to read a plan with 1,000 levels of JSON."""


def push_filter_into_scan(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter) or not isinstance(rel.input, Scan):
        return None
    scan = rel.input
    if scan.is_filtered or "FilterPushDown" not in find_connector(scan.table.options).abilities:
        return None
    condition = rel.condition
    if kind(condition) == "SEARCH":
        condition = expand_search(condition)
    filters: list[Rex] = []
    other_terms: list[Rex] = []
    for term in conjunctions(to_cnf(condition)):
        table_filter = convert(term)
        if table_filter is None or _depth(table_filter) > MOST_LEVELS:
            other_terms.append(term)
        else:
            filters.append(table_filter)
    if not filters:
        return None
    accepted_filters, left = find_connector(scan.table.options).takes_filters(scan.table.options, filters)
    ability = FilterAbility(tuple(accepted_filters), scan.names)
    rest = Simplifier().simplify(and_([*left, *other_terms]), "FALSE")
    return filtered(replace(scan, abilities=(*scan.abilities, ability)), [rest])


def _depth(rex: Rex) -> int:
    """How many levels of calls there are; the first operands of OR are the deep ones."""
    depth, level = 0, [rex]
    while level:
        depth, level = depth + 1, [child for e in level for child in e.children]
    return depth


def _calls(rex: Rex) -> int:
    return sum(isinstance(e, Call) for e in walk(rex))


class _TooLargeError(Exception):
    """The normal form would be more than twice as large as the condition."""


def to_cnf(rex: Rex) -> Rex:
    """``rex`` in conjunctive normal form; ``rex`` itself where that would be much larger."""
    limit = 2 * _calls(rex)
    try:
        return _cnf(rex, limit)
    except _TooLargeError:
        return rex


def _conjunction(terms: list[Rex]) -> Rex:
    flat = [c for t in terms for c in conjunctions(t)]
    unique: list[Rex] = []
    for t in flat:
        if t not in unique:
            unique.append(t)
    if len(unique) == 1:
        return unique[0]
    from stateplan.common.types import BOOLEAN

    return call("AND", unique, BOOLEAN.as_nullable(any(t.type.nullable for t in unique)))


def _cnf(rex: Rex, limit: int) -> Rex:
    op = kind(rex)
    if op == "AND":
        result = _conjunction([_cnf(c, limit) for c in conjunctions(rex)])
    elif op == "OR":
        operands = disjunctions(rex)
        if not any(kind(operand) in ("AND", "NOT") for operand in operands):  # a long IN, for example
            return or_(operands)
        heads = conjunctions(_cnf(operands[0], limit))
        tails = conjunctions(_cnf(or_(operands[1:]), limit))
        result = _conjunction([or_([h, t]) for h in heads for t in tails])
    elif op == "NOT":
        inner = rex.children[0]
        if kind(inner) == "NOT":
            return _cnf(inner.children[0], limit)
        if kind(inner) == "OR":
            return _cnf(_conjunction([not_(c) for c in disjunctions(inner)]), limit)
        if kind(inner) == "AND":
            return _cnf(or_([not_(c) for c in conjunctions(inner)]), limit)
        return rex
    else:
        return rex
    if _calls(result) > limit:
        raise _TooLargeError
    return result


def push_partition_into_scan(rel: Rel, time_zone: str) -> Rel | None:
    """Makes sources read only the partitions for which conditions on partition columns hold. The query then omits these
    conditions.

    Source: Flink's ``PushPartitionIntoTableSourceScanRule`` with ``PartitionPruner``.
    """
    if not isinstance(rel, Filter) or not isinstance(rel.input, Scan):
        return None
    scan = rel.input
    keys = scan.table.partition_keys
    if not keys or any(isinstance(a, PartitionAbility) for a in scan.abilities):
        return None
    fields = {scan.names.index(k): n for n, k in enumerate(keys) if k in scan.names}
    terms = conjunctions(rel.condition)
    partition_terms = [
        t for t in terms if refs(t) and set(refs(t)) <= set(fields) and is_deterministic(t) and not is_dynamic(t)
    ]
    if not partition_terms:
        return None
    partitions = partitions_of(scan.table.options, keys)
    if partitions is None:
        return None
    texts = {f: cast(InputRef(STRING, n), scan.types[f]) for f, n in fields.items()}
    condition = substitute(and_(partition_terms), texts)
    left = _passing(partitions, condition, time_zone)
    if not left:
        return empty(rel)
    ability = PartitionAbility(tuple(tuple(p.items()) for p in left))
    pruned_scan = replace(scan, abilities=(*scan.abilities, ability))
    return filtered(pruned_scan, [t for t in terms if t not in partition_terms])


def _passing(partitions: list[dict[str, str | None]], condition: Rex, time_zone: str) -> list[dict[str, str | None]]:
    """The partitions for which ``condition``, over their values as text, is TRUE."""
    import polars as pl

    from stateplan.common.changelog import column
    from stateplan.runtime.transforms.calc import CalcTransform

    if not partitions:
        return []
    frame = pl.DataFrame(
        {column(i): pl.Series([p[k] for p in partitions], dtype=pl.String) for i, k in enumerate(partitions[0])}
    ).with_columns(pl.int_range(pl.len()).alias(column(len(partitions[0]))))
    place = CalcTransform((InputRef(BIGINT, len(partitions[0])),), condition, time_zone)
    return [partitions[i] for i in place(frame, 0).to_series().to_list()]


def push_project_into_scan(rel: Rel) -> Rel | None:
    """Makes sources read only the columns and metadata that the query needs.

    Source: Flink's ``PushProjectIntoTableSourceScanRule``: columns in order of use, metadata in the source's order.
    Where changes are normalized by primary key, its columns are needed too.
    """
    if not isinstance(rel, Project) or not isinstance(rel.input, Scan):
        return None
    scan = rel.input
    if scan.projection is not None and scan.projection.projects:
        return None
    abilities = find_connector(scan.table.options).abilities
    if "ProjectPushDown" not in abilities:
        return None
    physical_count = len(scan.table.schema.physical)
    used_fields = refs(*rel.exprs)
    if scan.normalized is not None:
        used_fields += [i for i in scan.key or () if i not in used_fields]
    if not used_fields:
        used_fields = [0]
    if len(used_fields) == scan.width:
        return None
    physical = [i for i in used_fields if i < physical_count]
    metadata = [i for i in used_fields if i >= physical_count]
    keys = scan.projection.metadata if scan.projection is not None else ()
    order = list(metadata_columns(scan.table.options)) if keys else []
    metadata.sort(key=lambda i: order.index(keys[i - physical_count]))
    kept_fields = [*physical, *metadata]
    names, types = tuple(scan.names[i] for i in kept_fields), tuple(scan.types[i] for i in kept_fields)
    ability = ProjectAbility(
        tuple(physical), tuple(keys[i - physical_count] for i in metadata), tuple(zip(names, types, strict=True))
    )
    others = tuple(a for a in scan.abilities if not isinstance(a, ProjectAbility))
    narrow_scan = replace(scan, names=names, types=types, abilities=(*others, ability))
    field_map = {f: i for i, f in enumerate(kept_fields)}
    exprs = tuple(remap(e, field_map) for e in rel.exprs)
    if is_identity(exprs, narrow_scan):
        return narrow_scan
    return replace(rel, input=narrow_scan, exprs=exprs)


def push_calc_filter_into_scan(rel: Rel) -> Rel | None:
    """Hands the condition of a calc to the source below it, where no filter reached the source before.

    Source: Flink's ``PushFilterInCalcIntoTableSourceScanRule``.
    """
    if not isinstance(rel, Calc) or rel.condition is None or not isinstance(rel.input, Scan):
        return None
    pushed_rel = push_filter_into_scan(Filter(rel.input, rel.condition))
    if pushed_rel is None:
        return None
    if isinstance(pushed_rel, Filter):
        condition = None if is_always_true(pushed_rel.condition) else pushed_rel.condition
        return replace(rel, input=pushed_rel.input, condition=condition)
    return replace(rel, input=pushed_rel, condition=None)
