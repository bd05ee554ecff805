"""Mini-batches: an assigner above every source whose rows reach an operator that does more than pass them on, and above
watermarks.

Source: Flink's ``MiniBatchIntervalInferRule``, and what Flink 2.3 plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.execnodes.settings import value
from stateplan.planner.algebra.relations import Join, MiniBatchAssigner, Rel, Scan, replace_inputs
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.operators import operator_of


def mini_batches(options: Mapping[str, str]) -> bool:
    """Whether operators work by mini-batches."""
    return bool(value(options, "table.exec.mini-batch.enabled"))


def assign_mini_batches(rel: Rel, options: Mapping[str, str]) -> Rel:
    """``rel``, a sink with its plan, with assigners where mini-batches are on."""
    if not mini_batches(options):
        return rel
    interval = value(options, "table.exec.mini-batch.allow-latency")
    assert isinstance(interval, int)
    return _assigned(rel, interval, False, False)


def _assigned(rel: Rel, interval: int, below: bool, rowtime: bool) -> Rel:
    """``rel`` with its assigners; ``below`` and ``rowtime`` tell of the operators above."""
    if isinstance(rel, WatermarkAssigner):
        return MiniBatchAssigner(rel, interval, rowtime)
    if isinstance(rel, Scan):
        return MiniBatchAssigner(rel, interval, rowtime) if below else rel
    operator = operator_of(type(rel))
    below = below or operator.waits_for_mini_batches
    rowtime = rowtime or operator.waits_for_watermarks(rel)
    out = replace_inputs(rel, [_assigned(i, interval, below, rowtime) for i in rel.inputs])
    return replace(out, mini_batch=True) if isinstance(out, Join) else out
