"""Mini-batches: an assigner above every source, and above watermarks, unless nothing works by mini-batches.

Aggregates in two phases, a local one in front of the exchange and a global one behind it; the two halves of a split
DISTINCT aggregate joined by an incremental one.

Source: Flink's ``MiniBatchIntervalInferRule``; ``TwoStageOptimizedAggregateRule``, ``IncrementalAggregateRule`` and
``TwoStageOptimizedWindowAggregateRule``, which come after changelog modes are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.common.settings import value
from stateplan.planner.algebra.phased import GlobalAggregate, IncrementalAggregate, LocalAggregate, merges
from stateplan.planner.algebra.relations import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    MiniBatchAssigner,
    Project,
    Rel,
    Scan,
    Sink,
    Union,
    Values,
    replace_inputs,
    transform_up,
)
from stateplan.planner.algebra.relations import walk as walk_rels
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.algebra.windows import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
    WindowPosition,
)
from stateplan.planner.expressions.ops import RANKING, Over, walk
from stateplan.planner.operators import operator_of
from stateplan.planner.operators.aggregates import needed_retractions
from stateplan.planner.physical import Kinds, Physical


def in_two_phases(node: Physical, options: Mapping[str, str]) -> Physical:
    """``node``, a sink with its plan, with aggregates in two phases where the options ask for it."""
    if not _mini_batches(options) or value(options, "table.optimizer.agg-phase-strategy") == "ONE_PHASE":
        return node
    return _phased(node, bool(value(options, "table.optimizer.incremental-agg-enabled")))


def _phased(node: Physical, incremental: bool) -> Physical:
    rel = node.rel
    if not isinstance(rel, Aggregate) or not isinstance(node.input.rel, Exchange) or not merges(rel):
        inputs = tuple(_phased(i, incremental) for i in node.inputs)
        return replace(node, rel=replace_inputs(rel, [i.rel for i in inputs]), inputs=inputs)
    retracts = tuple(needed_retractions(node))
    retraction = not node.input.is_insert_only
    below = _phased(node.input.input, incremental)
    if incremental and rel.level == "FINAL" and isinstance(below.rel, GlobalAggregate):
        return _incremental(node, rel, below, below.rel)
    local = LocalAggregate(below.rel, rel.group, rel.calls, retracts, retraction, rel.level)
    keys = tuple(range(len(rel.group)))
    exchange = Exchange(local, keys)
    global_aggregate = GlobalAggregate(exchange, rel, retracts, retraction, below.rel)
    inserts: Kinds = frozenset({"INSERT"})
    lower = Physical(local, (below,), inserts, "NONE")
    return replace(node, rel=global_aggregate, inputs=(Physical(exchange, (lower,), lower.kinds, "NONE"),))


def _incremental(node: Physical, rel: Aggregate, partial: Physical, lower: GlobalAggregate) -> Physical:
    """The final half over an incremental aggregate that takes the place of the partial half's global phase."""
    local = lower.input.inputs[0]
    assert isinstance(local, LocalAggregate)
    middle = IncrementalAggregate(lower.input, local, rel.group, rel.hint)
    exchange = Exchange(middle, tuple(range(len(rel.group))))
    calls = lower.original.calls
    star = next((i for i, c in enumerate(calls) if c.function == "COUNT" and not c.args and c.filter < 0), None)
    global_aggregate = GlobalAggregate(
        exchange,
        rel,
        lower.retracts,
        lower.retraction,
        lower,
        star if lower.retraction else None,
    )
    step = Physical(middle, partial.inputs, partial.inputs[0].kinds, "NONE")
    return replace(node, rel=global_aggregate, inputs=(Physical(exchange, (step,), step.kinds, "NONE"),))


def windows_in_two_phases(node: Physical, options: Mapping[str, str]) -> Physical:
    """``node``, a sink with its plan, with aggregates of windows of event time in two phases, unless the options ask
    for one."""
    return node if value(options, "table.optimizer.agg-phase-strategy") == "ONE_PHASE" else _windows_phased(node)


def _windows_phased(node: Physical) -> Physical:
    rel = node.rel
    if (
        not isinstance(rel, WindowAggregate)
        or not isinstance(node.input.rel, Exchange)
        or not rel.position.is_rowtime
        or rel.position.window.kind == "SESSION"
        or not merges(Aggregate(rel.input, rel.group, rel.calls))
    ):
        inputs = tuple(_windows_phased(i) for i in node.inputs)
        return replace(node, rel=replace_inputs(rel, [i.rel for i in inputs]), inputs=inputs)
    retraction = not node.input.is_insert_only
    below = _windows_phased(node.input.input)
    local = LocalWindowAggregate(below.rel, rel.group, rel.calls, rel.position, retraction)
    exchange = Exchange(local, tuple(range(len(rel.group))))
    window, time_type = rel.position.window, rel.position.time_type
    end = local.width - 1
    if rel.position.time is not None:
        position = WindowPosition(window, time_type, slice_end=end)
    else:
        position = WindowPosition(window, time_type, end=end)
    original = replace(rel, input=below.rel)
    global_aggregate = GlobalWindowAggregate(exchange, original, position, retraction, below.rel)
    inserts: Kinds = frozenset({"INSERT"})
    lower = Physical(local, (below,), inserts, "NONE")
    return replace(node, rel=global_aggregate, inputs=(Physical(exchange, (lower,), lower.kinds, "NONE"),))


_ENABLED = "table.exec.mini-batch.enabled"


def _mini_batches(options: Mapping[str, str]) -> bool:
    return bool(value(options, _ENABLED))


def without_mini_batches(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options to plan with where no operator works by mini-batches."""
    return {**options, _ENABLED: "false"} if _mini_batches(options) else options


def works_row_by_row(sink: Rel) -> bool:
    """Whether no operator of a bound INSERT works by mini-batches.

    What is inside of a subquery does not count (``StreamCommonSubGraphBasedOptimizer.shouldSkipMiniBatch``).
    """
    return all(_is_row_by_row(rel) for rel in walk_rels(sink))


def _is_row_by_row(rel: Rel) -> bool:
    if isinstance(rel, Project):
        return not any(isinstance(e, Over) and e.function in RANKING for x in rel.exprs for e in walk(x))
    return isinstance(rel, (Sink, Filter, Scan, Values)) or (isinstance(rel, Union) and rel.all)


def joins_by_mini_batches(rel: Rel, options: Mapping[str, str]) -> Rel:
    """``rel``, a sink with its plan, whose joins record that mini-batches are on: in any case, as in Flink."""
    if not _mini_batches(options):
        return rel
    return transform_up(rel, lambda r: replace(r, mini_batch=True) if isinstance(r, Join) else None)


def assign_mini_batches(rel: Rel, options: Mapping[str, str]) -> Rel:
    """``rel``, a sink with its plan, with assigners where operators work by mini-batches."""
    if not _mini_batches(options):
        return rel
    interval = value(options, "table.exec.mini-batch.allow-latency")
    assert isinstance(interval, int)
    return _with_assigner(rel, interval, False)


def _with_assigner(rel: Rel, interval: int, rowtime: bool) -> Rel:
    """``rel`` with its assigners; ``rowtime`` is about the operators above."""
    if isinstance(rel, (WatermarkAssigner, Scan)):
        return MiniBatchAssigner(rel, interval, rowtime)
    operator = operator_of(type(rel))
    if operator.stops_mini_batches:
        return rel
    rowtime = rowtime or operator.waits_for_watermarks(rel)
    return replace_inputs(rel, [_with_assigner(i, interval, rowtime) for i in rel.inputs])
