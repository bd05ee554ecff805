"""Makes one operator of joins that follow each other on a common key.

Source: Flink's ``JoinToMultiJoinRule`` and ``AttributeBasedJoinKeyExtractor`` (FLIP-516). Every INNER or LEFT join of a
query that asks for it becomes a multi-join; one whose left input is a multi-join already is added to that, if all
of its inputs then have a key in common.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from stateplan.execnodes.rex import Rex
from stateplan.planner.algebra.join_keys import common_keys
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
from stateplan.planner.expressions.ops import TRUE, Over, has_user_call, input_refs, remap, walk


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
