"""Puts an exchange in front of every operator that keeps state by key.

Source: Flink's physical rules (``StreamPhysicalGroupAggregateRule``, ``StreamPhysicalJoinRule``,
``StreamPhysicalRankRule``) with ``FlinkExpandConversionRule``: streaming operators promise no distribution of their
output, so each of these gets its own exchange.
"""

from __future__ import annotations

from dataclasses import replace

from planner.algebra import Aggregate, Exchange, Join, Rank, Rel, replace_inputs
from planner.passes.push_filters import equi_keys

__all__ = ["distribute"]


def distribute(rel: Rel) -> Rel:
    inputs = [distribute(i) for i in rel.inputs]
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
    return replace_inputs(rel, inputs)
