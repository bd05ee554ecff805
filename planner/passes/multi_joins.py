"""Makes one operator of joins that follow each other on a common key.

Source: Flink's ``JoinToMultiJoinRule`` and ``AttributeBasedJoinKeyExtractor`` (FLIP-516). Every INNER or LEFT join of a
query that asks for it becomes a multi-join; one whose left input is a multi-join already is added to that, if all
of its inputs then have a key in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import (
    Join,
    MultiJoin,
    Project,
    Rel,
    field_names,
    is_identity,
    refs_to,
    replace_inputs,
)
from stateplan.planner.algebra.temporal import Snapshot
from stateplan.planner.expressions.ops import TRUE, Over, conjunctions, has_user_call, input_refs, kind, remap, walk


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
    ):
        return rel
    left = rel.left
    if isinstance(left, MultiJoin):
        longer = _longer(left, rel)
        if all(common_keys(longer)):
            return longer
    types, texts = (rel.left_ttl, rel.right_ttl), rel.ttl_texts
    conditions: tuple[Rex, Rex] = (TRUE, rel.condition)
    return MultiJoin(
        rel.inputs, ("INNER", rel.join_type), conditions, tuple(field_names(rel)), types, texts, place=rel.place
    )


def _longer(left: MultiJoin, join: Join) -> MultiJoin:
    return replace(
        left,
        sources=(*left.sources, join.right),
        join_types=(*left.join_types, join.join_type),
        conditions=(*left.conditions, join.condition),
        names=tuple(field_names(join)),
        ttls=(*left.ttls, join.right_ttl),
        ttl_texts=(*left.ttl_texts, join.ttl_texts[1]),
    )


def equal_fields(rel: MultiJoin) -> list[list[tuple[int, int, int]]]:
    """Per source, (source, field, own field) of the pairs that its condition wants to be equal."""
    offsets = rel.offsets
    out: list[list[tuple[int, int, int]]] = [[]]
    for n, condition in enumerate(rel.conditions[1:], 1):
        pairs = []
        for term in conjunctions(condition):
            if kind(term) != "=" or not all(isinstance(c, InputRef) for c in term.children):
                continue
            low, high = sorted(c.index for c in term.children if isinstance(c, InputRef))
            if low < offsets[n] <= high:
                source = max(i for i in range(n) if offsets[i] <= low)
                pairs.append((source, low - offsets[source], high - offsets[n]))
        out.append(pairs)
    return out


def common_keys(rel: MultiJoin) -> list[tuple[int, ...]]:
    """Per source the fields of the key that all have in common; those of one place in them are equal to each other."""
    groups: list[list[tuple[int, int]]] = []
    for n, pairs in enumerate(equal_fields(rel)):
        for source, field, own in pairs:
            one, two = (source, field), (n, own)
            met = [g for g in groups if one in g or two in g]
            groups = [g for g in groups if g not in met]
            groups.append(list(dict.fromkeys([*(a for g in met for a in g), one, two])))
    size = _table_size(sum(map(len, groups)))
    complete = [g for g in groups if {n for n, _ in g} == set(range(len(rel.sources)))]
    chosen = [[_chosen(g, n, size) for n in range(len(rel.sources))] for g in complete]
    chosen.sort()
    return [tuple(fields[n] for fields in chosen) for n in range(len(rel.sources))]


def _chosen(group: Sequence[tuple[int, int]], source: int, size: int) -> int:
    """Which field of ``source`` stands for the group: the one that a Java ``HashMap`` lists first, as Flink takes."""
    fields = [field for n, field in group if n == source]
    return min(fields, key=lambda field: ((31 * (31 + source) + field) % size, fields.index(field)))


def _table_size(entries: int) -> int:
    size = 16
    while entries > size * 3 // 4:
        size *= 2
    return size


def project_through_multi_join(rel: Rel) -> Rel | None:
    """The sources give the fields that the projection or a condition needs, at least one each."""
    if not isinstance(rel, Project) or not isinstance(rel.input, MultiJoin):
        return None
    if any(isinstance(e, Over) for x in rel.exprs for e in walk(x)):
        return None
    join = rel.input
    offsets = join.offsets
    used = {i for e in (*rel.exprs, *join.conditions) for i in input_refs(e)}
    for begin, end in pairwise(offsets):
        if not any(begin <= i < end for i in used):
            used.add(begin)
    if len(used) == offsets[-1]:
        return None
    kept = sorted(used)
    where = {f: i for i, f in enumerate(kept)}
    sources = []
    for source, begin in zip(join.sources, offsets, strict=False):
        own = [i - begin for i in kept if begin <= i < begin + source.width]
        names = field_names(source)
        whole = len(own) == source.width
        sources.append(source if whole else Project(source, tuple(refs_to(source, own)), tuple(names[i] for i in own)))
    narrowed = replace(
        join,
        sources=tuple(sources),
        conditions=tuple(remap(c, where) for c in join.conditions),
        names=tuple(join.names[i] for i in kept),
    )
    exprs = tuple(remap(e, where) for e in rel.exprs)
    if is_identity(exprs, narrowed) and list(rel.names) == list(narrowed.names):
        return narrowed
    return replace(rel, input=narrowed, exprs=exprs)
