"""Puts an exchange in front of every operator that keeps state by key, and behind a source whose changes have to be
normalized the operator that does it.

Source: Flink's physical rules (``StreamPhysicalGroupAggregateRule``, ``StreamPhysicalJoinRule``,
``StreamPhysicalRankRule``, ``StreamPhysicalTableSourceScanRule``) with ``FlinkExpandConversionRule``: streaming
operators promise no distribution of their output, so each of these gets its own exchange.
"""

from __future__ import annotations

from dataclasses import replace

from planner.algebra import Aggregate, ChangelogNormalize, Exchange, Join, MultiJoin, Rank, Rel, Scan, replace_inputs
from planner.passes.multi_joins import common_keys
from planner.passes.push_filters import equi_keys

__all__ = ["distribute"]


def distribute(rel: Rel) -> Rel:
    inputs = [distribute(i) for i in rel.inputs]
    if isinstance(rel, Scan) and rel.normalized is not None:
        assert rel.key is not None
        reads_metadata = rel.projection is not None and bool(rel.projection.metadata)
        required = rel.normalized == "duplicates" or reads_metadata
        return ChangelogNormalize(Exchange(rel, rel.key), rel.key, required=required)
    if isinstance(rel, Aggregate):
        return replace(rel, input=Exchange(inputs[0], rel.group))
    if isinstance(rel, Rank):
        return replace(rel, input=Exchange(inputs[0], rel.partition))
    if isinstance(rel, Join):
        keys = equi_keys(rel.condition, rel.left.width)
        return replace(
            rel,
            left=Exchange(inputs[0], tuple(k for k, _ in keys)),
            right=Exchange(inputs[1], tuple(k for _, k in keys)),
        )
    if isinstance(rel, MultiJoin):
        return replace(rel, sources=tuple(map(Exchange, inputs, common_keys(rel))))
    return replace_inputs(rel, inputs)
