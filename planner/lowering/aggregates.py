"""The nodes of aggregates, in one phase and in several."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.planner.algebra.phased import GlobalAggregate, IncrementalAggregate, LocalAggregate
from stateplan.planner.algebra.relations import AggCall, Aggregate, Expand, MiniBatchAssigner, Rel, rel_type
from stateplan.planner.algebra.table_aggregates import TableAggregate
from stateplan.planner.algebra.windows import LocalWindowAggregate
from stateplan.planner.digest.operators import needed_retractions
from stateplan.planner.lowering.base import MINI_BATCH, Json, Lowering, NodeKind
from stateplan.planner.physical import Physical
from stateplan.planner.python_operators import is_python


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


def _aggregate(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, Aggregate)
    out: Json = {
        "grouping": list(rel.group),
        "aggCalls": agg_calls(rel.calls),
        "aggCallNeedRetractions": needed_retractions(node),
        "generateUpdateBefore": node.generates_update_before,
        "needRetraction": not node.input.is_insert_only,
    }
    if not is_python(rel):
        out["state"] = [lowering.state(0, rel.ttl, "groupAggregateState")]
    return out


def _table(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, TableAggregate)
    retracts = not node.input.is_insert_only
    return {
        "grouping": list(rel.group),
        "aggCalls": agg_calls([rel.call]),
        "aggCallNeedRetractions": [retracts],
        "generateUpdateBefore": node.generates_update_before,
        "needRetraction": retracts,
        "state": [lowering.state(0, rel.ttl, "groupAggregateState")],
    }


def _local(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, LocalAggregate)
    return {
        "grouping": list(rel.group),
        "aggCalls": agg_calls(rel.calls),
        "aggCallNeedRetractions": list(rel.retracts),
        "needRetraction": rel.retraction,
    }


def _global(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, GlobalAggregate)
    star = {} if rel.count_star is None else {"indexOfCountStar": rel.count_star}
    return {
        "grouping": list(rel.group),
        "aggCalls": agg_calls(rel.original.calls),
        "aggCallNeedRetractions": list(rel.retracts),
        "localAggInputRowType": rel_type(rel.before).to_json(),
        "generateUpdateBefore": node.generates_update_before,
        "needRetraction": rel.retraction,
        **star,
        "state": [lowering.state(0, rel.original.ttl, "globalGroupAggregateState")],
    }


def _incremental(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, IncrementalAggregate)
    local = rel.local
    return {
        "partialAggGrouping": list(range(len(local.group))),
        "finalAggGrouping": list(rel.final),
        "partialOriginalAggCalls": agg_calls(local.calls),
        "partialAggCallNeedRetractions": list(local.retracts),
        "partialLocalAggInputRowType": rel_type(local.input).to_json(),
        "partialAggNeedRetraction": local.retraction,
        "state": [lowering.state(0, rel.ttl, "incrementalGroupAggregateState")],
    }


def _mini_batch_assigner(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, MiniBatchAssigner)
    mode = "RowTime" if rel.rowtime else "ProcTime"
    return {"miniBatchInterval": {"interval": rel.interval, "mode": mode}}


def _expand(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, Expand)
    return {"projects": [[e.to_json() for e in row] for row in rel.projects]}


def nameless(data: Json, rel: Rel) -> Json:
    """A node without what does not keep two of its kind apart: the names of calls in local phases."""
    if not isinstance(rel, (LocalAggregate, LocalWindowAggregate, IncrementalAggregate)):
        return data
    nameless = {k: [{**c, "name": None} for c in v] for k, v in data.items() if k.endswith("ggCalls")}
    return {**data, **nameless}


NODES = {
    Aggregate: NodeKind("stream-exec-group-aggregate_1", _aggregate, MINI_BATCH),
    TableAggregate: NodeKind("stream-exec-group-table-aggregate_1", _table),
    LocalAggregate: NodeKind("stream-exec-local-group-aggregate_1", _local, MINI_BATCH),
    GlobalAggregate: NodeKind("stream-exec-global-group-aggregate_1", _global, MINI_BATCH),
    IncrementalAggregate: NodeKind("stream-exec-incremental-group-aggregate_1", _incremental, MINI_BATCH),
    MiniBatchAssigner: NodeKind("stream-exec-mini-batch-assigner_1", _mini_batch_assigner),
    Expand: NodeKind("stream-exec-expand_1", _expand),
}
