"""The texts by which Flink's plans describe aggregates in phases.

Source: Flink's ``RelExplainUtil.streamGroupAggregationToString`` and ``toStringForLocal`` and the like.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.planner.algebra.phased import (
    Accumulators,
    GlobalAggregate,
    IncrementalAggregate,
    LocalAggregate,
    PhasedCall,
)
from stateplan.planner.algebra.relations import MiniBatchAssigner, Rel, field_names
from stateplan.planner.physical import Physical


def mini_batch(node: Physical) -> list[str]:
    """The arguments of a MiniBatchAssigner."""
    rel = node.rel
    assert isinstance(rel, MiniBatchAssigner)
    return [f"interval=[{rel.interval}ms]", f"mode=[{'RowTime' if rel.rowtime else 'ProcTime'}]"]


def local_aggregate(node: Physical) -> list[str]:
    """The arguments of a LocalGroupAggregate."""
    rel = node.rel
    assert isinstance(rel, LocalAggregate)
    names = field_names(rel.input)
    parts = [*(names[g] for g in rel.group), *accumulators(rel.kept, rel.input)]
    return [*grouped(rel.group, rel.input, rel.level), f"select=[{', '.join(parts)}]"]


def accumulators(kept: Accumulators, row: Rel) -> list[str]:
    """What a local phase keeps of ``row``."""
    names = field_names(row)
    parts = []
    for c in kept.calls:
        arguments = ", ".join(names[a] for a in c.call.args) or "*"
        shown = f"{_function(c)}({_view(c)}{arguments})"
        passed = f" FILTER {names[c.call.filter]}" if c.call.filter >= 0 else ""
        parts.append(f"{shown}{passed} AS {_accumulated(c)}")
    return parts + [f"DISTINCT({names[a]}) AS distinct${i}" for i, (a, _) in enumerate(kept.maps)]


def merged(call: PhasedCall) -> str:
    """A call that merges its own accumulators."""
    return f"{_function(call)}({_view(call)}{_accumulated(call)})"


def global_aggregate(node: Physical) -> list[str]:
    """The arguments of a GlobalGroupAggregate."""
    rel = node.rel
    assert isinstance(rel, GlobalAggregate)
    below = rel.input.inputs[0]
    kept = (below.local if isinstance(below, IncrementalAggregate) else rel).kept
    own = rel.kept.calls
    outputs = field_names(rel)
    keys = field_names(rel.input)
    parts = [keys[g] if keys[g] == outputs[g] else f"{keys[g]} AS {outputs[g]}" for g in rel.group]
    for c, merged, name in zip(kept.calls, own, outputs[len(rel.group) :], strict=False):
        view = "" if isinstance(below, IncrementalAggregate) else _view(merged)
        parts.append(f"{_function(merged)}({view}{_accumulated(c)}) AS {name}")
    star = [] if rel.count_star is None else [f"indexOfCountStar=[{rel.count_star}]"]
    return [*grouped(rel.group, rel.input, rel.original.level), f"select=[{', '.join(parts)}]", *star]


def incremental_aggregate(node: Physical) -> list[str]:
    """The arguments of an IncrementalGroupAggregate."""
    rel = node.rel
    assert isinstance(rel, IncrementalAggregate)
    names = field_names(rel.local)
    parts = [names[k] for k in rel.final]
    parts += [f"{_function(c)}({_view(c)}{_accumulated(c)}) AS {_accumulated(c)}" for c in rel.local.kept.calls]
    return [
        f"partialAggGrouping=[{', '.join(names[: len(rel.local.group)])}]",
        f"finalAggGrouping=[{', '.join(names[k] for k in rel.final)}]",
        f"select=[{', '.join(parts)}]",
    ]


def _function(c: PhasedCall) -> str:
    return c.call.function + ("_RETRACT" if c.retract else "")


def _view(c: PhasedCall) -> str:
    return "" if c.distinct is None else f"distinct${c.distinct} "


def _accumulated(c: PhasedCall) -> str:
    return c.names[0] if len(c.names) == 1 else f"({', '.join(c.names)})"


def grouped(group: Sequence[int], rel: Rel, level: str) -> list[str]:
    """The group keys, fields of ``rel``, and which half of a split aggregate it is."""
    names = field_names(rel)
    out = [f"groupBy=[{', '.join(names[k] for k in group)}]"] if group else []
    return [*out, f"partialFinalType=[{level}]"] if level else out
