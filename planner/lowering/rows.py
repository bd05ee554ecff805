"""The nodes that look at each row by itself, and those that change what kind of change a row is."""

from __future__ import annotations

from stateplan.execnodes.changelog import RowKind
from stateplan.execnodes.rex import Literal
from stateplan.execnodes.types import STRING, LogicalType
from stateplan.planner.algebra.relations import (
    Calc,
    ChangelogFunction,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    Union,
    Values,
    rel_type,
)
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.lowering.base import MINI_BATCH, Json, Lowering, NodeKind
from stateplan.planner.physical import Physical


def nothing(lowering: Lowering, node: Physical) -> Json:
    """Of a node that has no fields of its own."""
    return {}


def _calc(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, Calc)
    if rel.python:
        return {"projection": [e.to_json() for e in rel.exprs]}
    return {
        "projection": [e.to_json() for e in rel.exprs],
        "condition": None if rel.condition is None else rel.condition.to_json(),
    }


def _values(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, Values)
    return {"tuples": [[value.to_json() for value in row] for row in rel.tuples]}


def _watermark(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, WatermarkAssigner)
    return {"watermarkExpr": rel.watermark.to_json(), "rowtimeFieldIndex": rel.rowtime}


def _changelog_function(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, ChangelogFunction)

    def default(kind: str) -> Json:
        return {"kind": "CALL", "syntax": "SPECIAL", "internalName": "$DEFAULT$1", "type": kind}

    op = default("DESCRIPTOR")
    if rel.op is not None:
        name = Literal(LogicalType("CHAR", False, length=len(rel.op)), rel.op)
        op = {"kind": "CALL", "internalName": "$DESCRIPTOR$1", "operands": [name.to_json()]}
        op["type"] = "DESCRIPTOR NOT NULL"
    text = str(STRING)
    table = {"kind": "TABLE_ARG_CALL", "inputIndex": 0, "partitionKeys": [], "orderKeys": [], "orderDirections": []}
    call: Json = {"kind": "CALL", "internalName": f"${rel.name}$1"}
    call["operands"] = [
        {**table, "type": rel_type(rel.input).not_null().to_json()},
        op,
        default(f"MAP<{text}, {text}>") if rel.mapping is None else rel.mapping.to_json(),
        default("DESCRIPTOR"),
        default(text),
    ]
    call["type"] = rel_type(rel).not_null().to_json()
    rows, changes = ["INSERT"], [kind.name for kind in RowKind]
    modes = (rows, changes) if rel.name == "FROM_CHANGELOG" else (changes, rows)
    return {
        "uid": None,
        "functionCall": call,
        "inputChangelogModes": [modes[0]],
        "outputChangelogMode": modes[1],
    }


def _normalize(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, ChangelogNormalize)
    out: Json = {
        "uniqueKeys": list(rel.key),
        "generateUpdateBefore": node.generates_update_before,
        "state": [lowering.state(0, None, "changelogNormalizeState")],
    }
    if rel.condition is not None:
        out["filterCondition"] = rel.condition.to_json()
    return out


NODES = {
    Calc: NodeKind("stream-exec-calc_1", _calc),
    Values: NodeKind("stream-exec-values_1", _values),
    Union: NodeKind("stream-exec-union_1", nothing),
    Exchange: NodeKind("stream-exec-exchange_1", nothing),
    WatermarkAssigner: NodeKind("stream-exec-watermark-assigner_1", _watermark),
    ChangelogFunction: NodeKind("stream-exec-process-table-function_1", _changelog_function),
    ChangelogNormalize: NodeKind("stream-exec-changelog-normalize_1", _normalize, MINI_BATCH),
    DropUpdateBefore: NodeKind("stream-exec-drop-update-before_1", nothing),
}
