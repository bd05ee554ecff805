"""Aggregates of windows in two phases, a local one in front of the exchange and a global one behind it.

Source: Flink's ``TwoStageOptimizedWindowAggregateRule``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.execnodes.settings import value
from stateplan.planner.algebra.phased import merges
from stateplan.planner.algebra.relations import Aggregate, Exchange, replace_inputs
from stateplan.planner.algebra.windows import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
    WindowPosition,
)
from stateplan.planner.physical import Kinds, Physical


def windows_in_two_phases(node: Physical, options: Mapping[str, str]) -> Physical:
    """``node``, a sink with its plan, with aggregates of windows of event time in two phases, unless the options ask
    for one."""
    return node if value(options, "table.optimizer.agg-phase-strategy") == "ONE_PHASE" else _phased(node)


def _phased(node: Physical) -> Physical:
    rel = node.rel
    if (
        not isinstance(rel, WindowAggregate)
        or not isinstance(node.input.rel, Exchange)
        or not rel.position.is_rowtime
        or not merges(Aggregate(rel.input, rel.group, rel.calls))
    ):
        inputs = tuple(_phased(i) for i in node.inputs)
        return replace(node, rel=replace_inputs(rel, [i.rel for i in inputs]), inputs=inputs)
    retraction = not node.input.is_insert_only
    below = _phased(node.input.input)
    local = LocalWindowAggregate(below.rel, rel.group, rel.calls, rel.position, retraction)
    exchange = Exchange(local, tuple(range(len(rel.group))))
    window, time_type = rel.position.window, rel.position.time_type
    end = local.width - 1
    if rel.position.time is not None:
        position = WindowPosition(window, time_type, slice_end=end)
    else:
        position = WindowPosition(window, time_type, end=end)
    original = replace(rel, input=below.rel)
    made = GlobalWindowAggregate(exchange, original, position, retraction, below.rel)
    inserts: Kinds = frozenset({"INSERT"})
    lower = Physical(local, (below,), inserts, "NONE")
    return replace(node, rel=made, inputs=(Physical(exchange, (lower,), lower.kinds, "NONE"),))
