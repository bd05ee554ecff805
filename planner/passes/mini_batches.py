"""Mini-batches: an assigner above every source whose rows reach an operator that works by mini-batches.

Source: Flink's ``MiniBatchIntervalInferRule`` and ``MinibatchUtil``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.algebra import (
    Aggregate,
    ChangelogNormalize,
    Join,
    MiniBatchAssigner,
    MultiJoin,
    Rank,
    Rel,
    Scan,
    replace_inputs,
)
from planner.config import value

__all__ = ["assign_mini_batches", "mini_batches"]

_BY_MINI_BATCH = (Aggregate, ChangelogNormalize, Join, MultiJoin, Rank)


def mini_batches(options: Mapping[str, str]) -> bool:
    """Whether operators work by mini-batches."""
    return bool(value(options, "table.exec.mini-batch.enabled"))


def assign_mini_batches(rel: Rel, options: Mapping[str, str]) -> Rel:
    """``rel``, a sink with its plan, with assigners where mini-batches are on."""
    if not mini_batches(options):
        return rel
    interval = value(options, "table.exec.mini-batch.allow-latency")
    assert isinstance(interval, int)
    return _assigned(rel, interval, False)


def _assigned(rel: Rel, interval: int, below: bool) -> Rel:
    below = below or isinstance(rel, _BY_MINI_BATCH)
    if isinstance(rel, Scan):
        return MiniBatchAssigner(rel, interval) if below else rel
    out = replace_inputs(rel, [_assigned(i, interval, below) for i in rel.inputs])
    return replace(out, mini_batch=True) if isinstance(out, Join) else out
