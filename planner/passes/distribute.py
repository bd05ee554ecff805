"""Puts an exchange in front of every operator that keeps state by key, and behind a source whose changes have to be
normalized the operator that does it.

Source: Flink's physical rules (``StreamPhysicalGroupAggregateRule``, ``StreamPhysicalJoinRule``,
``StreamPhysicalRankRule``, ``StreamPhysicalTableSourceScanRule``) with ``FlinkExpandConversionRule``: streaming
operators but those that sort promise no distribution of their output, so each of these gets its own exchange.
"""

from __future__ import annotations

from stateplan.planner.algebra.relations import Rel
from stateplan.planner.operators import operator_of


def distribute(rel: Rel) -> Rel:
    """``rel`` with the exchanges that its operators need."""
    return operator_of(type(rel)).distribute(rel, [distribute(i) for i in rel.inputs])
