"""Mini-batches: an assigner above every source whose rows reach an operator that does more than pass them on, and above
watermarks.

Source: Flink's ``MiniBatchIntervalInferRule``, and what Flink 2.3 plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.execnodes.settings import value
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    Calc,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    Join,
    MiniBatchAssigner,
    Rank,
    Rel,
    Scan,
    Sink,
    Union,
    replace_inputs,
)
from stateplan.planner.algebra.temporal import IntervalJoin, TemporalJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import WindowAggregate, WindowJoin, WindowTable

_PASSES_ON = (Calc, ChangelogNormalize, DropUpdateBefore, Exchange, OverAggregate, Sink, Union, WatermarkAssigner)
"""Operators for which alone no mini-batches are made."""


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
    below = below or not isinstance(rel, _PASSES_ON)
    rowtime = rowtime or _waits(rel)
    out = replace_inputs(rel, [_assigned(i, interval, below, rowtime) for i in rel.inputs])
    return replace(out, mini_batch=True) if isinstance(out, Join) else out


def _waits(rel: Rel) -> bool:
    """Whether the operator works by event time (``requireWatermark`` of Flink's physical nodes)."""
    if isinstance(rel, TemporalJoin):
        return rel.right_time is not None
    if isinstance(rel, IntervalJoin):
        return rel.event_time
    if isinstance(rel, WindowJoin):
        return rel.left_position.is_rowtime
    if isinstance(rel, (WindowAggregate, WindowTable)):
        return rel.position.is_rowtime
    return isinstance(rel, (OverAggregate, Rank)) and any(
        rel.input.fields[i][1].kind == "ROWTIME" for i, _, _ in rel.order
    )
