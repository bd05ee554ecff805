"""The fields of the exec nodes of aggregates in phases.

Source: ``translateToExecNode`` of Flink's physical nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from planner.algebra import AggCall, MiniBatchAssigner, Rel, rel_type
from planner.phased import GlobalAggregate, IncrementalAggregate, LocalAggregate
from planner.physical import Physical

__all__ = ["agg_calls", "nameless", "phased_fields"]

Json: TypeAlias = dict[str, Any]
State: TypeAlias = Callable[[int, int | None, str], Json]


def agg_calls(calls: Sequence[AggCall]) -> list[Json]:
    """Aggregate calls as plans have them."""
    out = []
    for c in calls:
        call: Json = {"name": c.name}
        if c.syntax is not None:
            call["syntax"] = c.syntax
        call |= _function_name(c)
        call |= {
            "argList": list(c.args),
            "filterArg": c.filter,
            "distinct": c.distinct,
            "approximate": False,
            "ignoreNulls": False,
            "type": c.type.to_json(),
        }
        out.append(call)
    return out


def _function_name(call: AggCall) -> Json:
    if call.system_name is not None:
        return {"systemName": call.system_name}
    return {"internalName": call.internal_name} if call.catalog_name is None else {"catalogName": call.catalog_name}


def phased_fields(node: Physical, state: State) -> Json:
    """The fields of the node's own type; ``state`` makes a state entry of index, TTL hint and name."""
    rel = node.rel
    if isinstance(rel, MiniBatchAssigner):
        mode = "RowTime" if rel.rowtime else "ProcTime"
        return {"miniBatchInterval": {"interval": rel.interval, "mode": mode}}
    if isinstance(rel, LocalAggregate):
        return {
            "grouping": list(rel.group),
            "aggCalls": agg_calls(rel.calls),
            "aggCallNeedRetractions": list(rel.retracts),
            "needRetraction": rel.retraction,
        }
    if isinstance(rel, GlobalAggregate):
        star = {} if rel.count_star is None else {"indexOfCountStar": rel.count_star}
        return {
            "grouping": list(rel.group),
            "aggCalls": agg_calls(rel.original.calls),
            "aggCallNeedRetractions": list(rel.retracts),
            "localAggInputRowType": rel_type(rel.before).to_json(),
            "generateUpdateBefore": node.generates_update_before,
            "needRetraction": rel.retraction,
            **star,
            "state": [state(0, rel.original.ttl, "globalGroupAggregateState")],
        }
    assert isinstance(rel, IncrementalAggregate)
    local = rel.local
    return {
        "partialAggGrouping": list(range(len(local.group))),
        "finalAggGrouping": list(rel.final),
        "partialOriginalAggCalls": agg_calls(local.calls),
        "partialAggCallNeedRetractions": list(local.retracts),
        "partialLocalAggInputRowType": rel_type(local.input).to_json(),
        "partialAggNeedRetraction": local.retraction,
        "state": [state(0, rel.ttl, "incrementalGroupAggregateState")],
    }


def nameless(data: Json, rel: Rel) -> Json:
    """A node without what does not keep two of its kind apart: the names of calls in local phases."""
    if not isinstance(rel, (LocalAggregate, IncrementalAggregate)):
        return data
    nameless = {k: [{**c, "name": None} for c in v] for k, v in data.items() if k.endswith("ggCalls")}
    return {**data, **nameless}
