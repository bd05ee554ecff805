"""The nodes of window table functions and of aggregates of windows."""

from __future__ import annotations

from stateplan.planner.algebra.join_keys import is_equi_key
from stateplan.planner.algebra.relations import rel_type
from stateplan.planner.algebra.windows import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
    WindowJoin,
    WindowTable,
)
from stateplan.planner.expressions.ops import and_, conjunctions
from stateplan.planner.lowering.aggregates import agg_calls
from stateplan.planner.lowering.base import Json, Lowering, NodeKind
from stateplan.planner.lowering.joins import join_spec
from stateplan.planner.physical import Physical

_TIME_ZONE = (("table.local-time-zone", "default"),)


def _properties(rel: WindowAggregate) -> list[Json]:
    reference = {"name": "w$", "type": rel.position.time_type.to_json()}
    return [{"name": n, "property": {"kind": kind, "reference": reference}} for n, kind in rel.properties]


def _table(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, WindowTable)
    return {"windowing": rel.position.to_json()}


def _aggregate(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, WindowAggregate)
    return {
        "grouping": list(rel.group),
        "aggCalls": agg_calls(rel.calls),
        "windowing": rel.position.to_json(),
        "namedWindowProperties": _properties(rel),
        "needRetraction": not node.input.is_insert_only,
    }


def _local(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, LocalWindowAggregate)
    return {
        "grouping": list(rel.group),
        "aggCalls": agg_calls(rel.calls),
        "windowing": rel.position.to_json(),
        "needRetraction": rel.retraction,
    }


def _global(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, GlobalWindowAggregate)
    return {
        "grouping": list(rel.group),
        "aggCalls": agg_calls(rel.original.calls),
        "windowing": rel.position.to_json(),
        "namedWindowProperties": _properties(rel.original),
        "needRetraction": rel.retraction,
        "localAggInputRowType": rel_type(rel.before).to_json(),
    }


def _join(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, WindowJoin)
    width = rel.left.width
    rest = and_(t for t in conjunctions(rel.condition) if not is_equi_key(t, width))
    return {
        "joinSpec": join_spec(rel.join_type, rel.condition, width, rest),
        "leftWindowing": rel.left_position.to_json(),
        "rightWindowing": rel.right_position.to_json(),
    }


NODES = {
    WindowJoin: NodeKind("stream-exec-window-join_1", _join, _TIME_ZONE),
    WindowTable: NodeKind("stream-exec-window-table-function_1", _table, _TIME_ZONE),
    WindowAggregate: NodeKind("stream-exec-window-aggregate_1", _aggregate, _TIME_ZONE),
    LocalWindowAggregate: NodeKind("stream-exec-local-window-aggregate_1", _local, _TIME_ZONE),
    GlobalWindowAggregate: NodeKind("stream-exec-global-window-aggregate_1", _global, _TIME_ZONE),
}
