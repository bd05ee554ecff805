"""The nodes of joins."""

from __future__ import annotations

from stateplan.execnodes.rex import Rex
from stateplan.execnodes.types import row_type
from stateplan.planner.algebra.join_keys import common_keys, equal_fields, equi_keys, is_equi_key, null_filters
from stateplan.planner.algebra.relations import Join, MultiJoin
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, TemporalJoin
from stateplan.planner.expressions.ops import TRUE, and_, call, conjunctions, is_always_true
from stateplan.planner.lowering.base import Json, Lowering, NodeKind
from stateplan.planner.lowering.tables import table_source
from stateplan.planner.metadata.unique_keys import join_input_keys, smallest_key, upsert_keys
from stateplan.planner.physical import Physical, changelog_mode


def join_spec(join_type: str, condition: Rex, width: int, rest: Rex) -> Json:
    """Flink's ``JoinSpec``.

    Args:
        join_type: As :class:`planner.algebra.relations.Join` has it.
        condition: The whole condition, over the fields of both inputs.
        width: How many of these are the left input's.
        rest: What of the condition is not an equality of two keys; TRUE for nothing.
    """
    pairs = equi_keys(condition, width)
    return {
        "joinType": join_type,
        "leftKeys": [k for k, _ in pairs],
        "rightKeys": [k for _, k in pairs],
        "filterNulls": null_filters(condition, width),
        "nonEquiCondition": None if is_always_true(rest) else rest.to_json(),
    }


def _join(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, Join)
    width = rel.left.width
    pairs = equi_keys(rel.condition, width)
    rest: Rex = and_(t for t in conjunctions(rel.condition) if not is_equi_key(t, width))
    out: Json = {"joinSpec": join_spec(rel.join_type, rel.condition, width, rest)}
    for side, name in enumerate(("leftUpsertKeys", "rightUpsertKeys")):
        keys = join_input_keys(rel.inputs[side], [p[side] for p in pairs])
        if keys:
            out[name] = [list(k) for k in keys]
    out["state"] = [lowering.state(0, rel.left_ttl, "leftState"), lowering.state(1, rel.right_ttl, "rightState")]
    return out


def _multi_join(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, MultiJoin)
    whole: Rex = and_(t for c in rel.conditions for t in conjunctions(c))
    attributes: dict[str, list[Json]] = {}
    for n, pairs in enumerate(equal_fields(rel)):
        for source, field, own in pairs:
            if source == 0:
                attributes.setdefault("0", []).append(_attribute(-1, -1, 0, field))
            attributes.setdefault(str(n), []).append(_attribute(source, field, n, own))
    out: Json = {"joinTypes": list(rel.join_types), "joinConditions": [c.to_json() for c in rel.conditions]}
    if not is_always_true(whole):
        out["multiJoinCondition"] = whole.to_json()
    if attributes:
        out["joinAttributeMap"] = dict(sorted(attributes.items()))
    shared = zip(rel.sources, common_keys(rel), strict=True)
    out["inputUniqueKeys"] = [[list(k) for k in join_input_keys(source, keys)] for source, keys in shared]
    out["state"] = [lowering.state(i, ttl, f"input-state-{i}") for i, ttl in enumerate(rel.ttls)]
    return out


def _attribute(left_input: int, left_field: int, right_input: int, right_field: int) -> Json:
    return {
        "leftInputId": left_input,
        "leftFieldIndex": left_field,
        "rightInputId": right_input,
        "rightFieldIndex": right_field,
    }


def _temporal_join(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, TemporalJoin)
    width = rel.left.width
    rest: Rex = and_(t for t in conjunctions(rel.condition) if not is_equi_key(t, width))
    if not is_always_true(rest):
        # Flink has TRUE where it took out the condition on time.
        rest = call("AND", [*conjunctions(rest), TRUE], rest.type)
    return {
        "joinSpec": join_spec(rel.join_type, rel.condition, width, rest),
        "isTemporalFunctionJoin": False,
        "leftTimeAttributeIndex": rel.left_time,
        "rightTimeAttributeIndex": rel.right_time,
        "state": [lowering.state(0, rel.left_ttl, "leftState"), lowering.state(1, rel.right_ttl, "rightState")],
    }


def _interval_join(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, IntervalJoin)
    width = rel.left.width
    rest = and_(t for t in conjunctions(rel.rest) if not is_equi_key(t, width))
    bounds = {
        "isEventTime": rel.event_time,
        "leftLowerBound": rel.lower,
        "leftUpperBound": rel.upper,
        "leftTimeIndex": rel.left_time,
        "rightTimeIndex": rel.right_time,
    }
    spec = join_spec(rel.join_type, rel.rest, width, rest)
    return {"intervalJoinSpec": {"joinSpec": spec, "windowBounds": bounds}}


def _lookup_join(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, LookupJoin)
    keys: dict[int, Json] = {f: {"type": "FieldRef", "index": k} for f, k in rel.keys}
    for f, constant in rel.constants:
        kind = rel.table.types[f].to_json()
        keys.setdefault(f, {"type": "Constant", "sourceType": kind, "literal": constant.to_json()})
    out: Json = {"joinType": rel.join_type}
    if rel.before is not None:
        out["preFilterCondition"] = rel.before.to_json()
    calc = rel.calc
    condition = None if calc is None else calc.condition
    primary = rel.table.key
    out |= {
        "joinCondition": None if rel.rest is None else rel.rest.to_json(),
        "temporalTable": {
            "lookupTableSource": table_source(lowering, rel.table),
            "outputType": row_type(list(rel.table.fields), nullable=False).to_json(),
        },
        "lookupKeys": {str(f): keys[f] for f in sorted(keys)},
        "projectionOnTemporalTable": None if calc is None else [e.to_json() for e in calc.exprs],
        "filterOnTemporalTable": None if condition is None else condition.to_json(),
        "lookupKeyContainsPrimaryKey": primary is not None and set(primary) <= {f for f, _ in rel.keys},
    }
    if rel.materialize:
        out["requireUpsertMaterialize"] = True
    out["inputChangelogMode"] = changelog_mode(node.input)
    upsert_key = smallest_key(upsert_keys(rel.input))
    if upsert_key is not None:
        out["inputUpsertKey"] = list(upsert_key)
    if rel.materialize:
        out["state"] = [lowering.state(0, rel.ttl, "lookupJoinState")]
    return out | {"preferCustomShuffle": False}


def _function_correlate(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, FunctionCorrelate)
    out = {"joinType": rel.join_type, "functionCall": rel.plan_call.to_json()}
    return out if rel.condition is None else {**out, "condition": rel.condition.to_json()}


NODES = {
    Join: NodeKind("stream-exec-join_1", _join),
    MultiJoin: NodeKind("stream-exec-multi-join_1", _multi_join),
    TemporalJoin: NodeKind("stream-exec-temporal-join_1", _temporal_join),
    IntervalJoin: NodeKind("stream-exec-interval-join_1", _interval_join),
    LookupJoin: NodeKind("stream-exec-lookup-join_1", _lookup_join),
    FunctionCorrelate: NodeKind("stream-exec-correlate_1", _function_correlate),
}
