"""DISTINCT aggregates in two levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stateplan.common.settings import value
from stateplan.common.types import BIGINT, BOOLEAN, INT
from stateplan.functions.builder import make_call
from stateplan.functions.rex import Call, InputRef, Literal, Rex
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Expand,
    Project,
    Rel,
    field_names,
    is_identity,
    refs_to,
    transform_up,
    unique_names,
)
from stateplan.planner.expressions.ops import and_, cast, compare
from stateplan.planner.metadata.window_properties import window_properties
from stateplan.planner.passes.aggregates import sum_type

# DISTINCT aggregates in two levels, so that one key's values are spread over buckets: the values of a bucket are
# aggregated first, then the buckets of a key.
#
# Source: Flink's ``SplitAggregateRule``.


_SPLIT = frozenset({"COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "LISTAGG"})
_BY_VALUE = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"})
_ID = BIGINT.not_null()


def split_distinct(rel: Rel, options: Mapping[str, str]) -> Rel:
    """``rel`` with its DISTINCT aggregates split."""
    buckets = value(options, "table.optimizer.distinct-agg.split.bucket-num")
    assert isinstance(buckets, int)
    return transform_up(rel, lambda r: _split(r, buckets) if isinstance(r, Aggregate) else None)


def _is_splittable(c: AggCall) -> bool:
    return c.function in _SPLIT and (c.function != "LISTAGG" or len(c.args) == 1)


def _split(rel: Aggregate, buckets: int) -> Rel | None:
    if rel.level or not any(c.distinct for c in rel.calls) or not all(map(_is_splittable, rel.calls)):
        return None
    window = window_properties(rel.input)
    if window is not None and window.window.kind == "SESSION" and window.grouped_by(rel.group):
        return None
    hashed = sorted(
        {a for c in rel.calls if c.distinct or c.function in _BY_VALUE for a in c.args if a not in rel.group}
    )
    below = _bucketed(rel.input, hashed, buckets) if hashed else rel.input
    bucket = {a: rel.input.width + i for i, a in enumerate(hashed)}
    calls = [part for c in rel.calls for part in _parts(c, rel)]
    keys = [_keys(c, rel.group, bucket) for c in calls]
    full = (*rel.group, *bucket.values())
    if len(set(keys)) > 1:
        below, calls = _expanded(below, full, calls, keys)
    partial = Aggregate(below, full, tuple(calls), rel.hint, rel.place, "PARTIAL")
    merge_calls = tuple(_merging(c, len(full) + i, grouped=bool(rel.group)) for i, c in enumerate(calls))
    final = Aggregate(partial, tuple(range(len(rel.group))), merge_calls, rel.hint, rel.place, "FINAL")
    return _averages(rel, final)


def _bucketed(rel: Rel, hashed: Sequence[int], buckets: int) -> Project:
    """``rel`` with the bucket of each of the given fields."""
    refs = refs_to(rel)
    number = Literal(INT.not_null(), buckets)
    hashes = [Call(INT.as_nullable(refs[a].type.nullable), (refs[a],), "$HASH_CODE$1") for a in hashed]
    extra = [make_call("MOD", [h, number]) for h in hashes]
    names = [*field_names(rel), *(f"$f{rel.width + i}" for i in range(len(hashed)))]
    return Project(rel, (*refs, *extra), tuple(unique_names(names)))


def _parts(c: AggCall, rel: Aggregate) -> list[AggCall]:
    """The calls of the partial level, which has a row for each bucket: AVG as sum and count."""
    bare = replace(c, name=None)
    if c.function != "AVG":
        may_be_null = c.filter >= 0 or any(rel.input.fields[a][1].nullable for a in c.args)
        return [bare if may_be_null else replace(bare, type=c.type.not_null())]
    total = replace(bare, function="$SUM0", internal_name="$$SUM0$1", type=sum_type(c, rel).not_null())
    count = replace(bare, function="COUNT", internal_name="$COUNT$1", type=_ID, syntax="FUNCTION_STAR")
    return [total, count]


def _keys(c: AggCall, group: tuple[int, ...], bucket: Mapping[int, int]) -> tuple[int, ...]:
    """The keys by which a call is aggregated first: with one bucket field all by it, with several each by its own. A
    DISTINCT call of a key of the group has no bucket: each bucket would count the value once."""
    if len(bucket) == 1 and not (c.distinct and c.args and not set(c.args) & set(bucket)):
        return (*group, *bucket.values())
    own = [bucket[a] for a in c.args if a in bucket] if c.distinct or c.function in _BY_VALUE else []
    return (*group, *own)


def _expanded(
    rel: Rel, full: tuple[int, ...], calls: Sequence[AggCall], keys: Sequence[tuple[int, ...]]
) -> tuple[Rel, list[AggCall]]:
    """Each row once per set of keys, and each call filtered to the rows of its own set."""
    numbers = {k: sum(1 << (len(full) - 1 - i) for i, f in enumerate(full) if f not in k) for k in keys}
    fields = rel.fields
    rows = []
    for k in sorted(numbers, key=lambda k: numbers[k]):
        row: list[Rex] = [
            Literal(t.as_nullable(), None) if i in full and i not in k else InputRef(t, i)
            for i, (_, t) in enumerate(fields)
        ]
        rows.append((*row, Literal(_ID, numbers[k])))
    types = [t.as_nullable() if i in full and any(i not in k for k in keys) else t for i, (_, t) in enumerate(fields)]
    names = (*(n for n, _ in fields), "$e")
    expand = Expand(rel, tuple(rows), names, (*types, _ID), len(fields))
    exprs: list[Rex] = refs_to(expand, range(len(fields)))
    output_names = list(names[:-1])
    flags: dict[tuple[int, int], int] = {}
    output_exprs = []
    for c, k in zip(calls, keys, strict=True):
        flag = flags.get((numbers[k], c.filter))
        if flag is None:
            test: Rex = compare("=", InputRef(_ID, len(fields)), Literal(INT.not_null(), numbers[k]))
            if c.filter >= 0:
                test = and_([test, InputRef(BOOLEAN.not_null(), c.filter)])
            flag = flags[numbers[k], c.filter] = len(exprs)
            exprs.append(test)
            output_names.append(f"$g_{numbers[k]}")
        is_never_null = c.function in ("COUNT", "$SUM0")
        output_exprs.append(replace(c, filter=flag, type=c.type if is_never_null else c.type.as_nullable()))
    return Project(expand, tuple(exprs), tuple(unique_names(output_names))), output_exprs


def _merging(c: AggCall, position: int, grouped: bool) -> AggCall:
    """The call of the final level over the result of ``c``."""
    name = "$SUM0" if c.function == "COUNT" else c.function
    result = c.type if grouped or name == "$SUM0" else c.type.as_nullable()
    return AggCall(name, (position,), result, None, internal_name=f"${name}$1")


def _averages(rel: Aggregate, final: Aggregate) -> Rel:
    """The fields of the aggregate that was split, with its types: AVG from sum and count."""
    fields = final.fields
    exprs: list[Rex] = refs_to(final, range(len(rel.group)))
    names = [n for n, _ in fields[: len(rel.group)]]
    at = len(rel.group)
    for c in rel.calls:
        names.append(fields[at][0])
        result: Rex = InputRef(fields[at][1], at)
        if c.function == "AVG":
            count = InputRef(fields[at + 1][1], at + 1)
            none = compare("=", count, Literal(_ID, 0))
            mean = make_call("/", [result, count])
            result = make_call("IF", [none, Literal(c.type.as_nullable(), None), mean])
        exprs.append(cast(result, c.type))
        at += 2 if c.function == "AVG" else 1
    return final if is_identity(exprs, final) else Project(final, tuple(exprs), tuple(names))
