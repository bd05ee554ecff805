"""Aggregates of groups, in one phase and in several, and table aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.planner.algebra.phased import (
    Accumulators,
    GlobalAggregate,
    IncrementalAggregate,
    LocalAggregate,
    PhasedCall,
)
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Rel,
    field_names,
    rel_type,
)
from stateplan.planner.algebra.table_aggregates import TableAggregate
from stateplan.planner.digest.expressions import (
    call_text,
    named,
)
from stateplan.planner.metadata.monotonicity import monotonicity
from stateplan.planner.operators.base import (
    ALL,
    MINI_BATCH,
    Json,
    Lowering,
    Operator,
    exchanged,
    rebuilt,
    update,
)
from stateplan.planner.physical import Kinds, Physical, UpdateKind
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


def needed_retractions(node: Physical) -> list[bool]:
    """Per call of an aggregate, whether it must be able to take back values."""

    rel = node.rel
    assert isinstance(rel, Aggregate)
    out = [not node.input.is_insert_only] * len(rel.calls)
    known = monotonicity(rel) if any(out) else None
    if known is not None:
        for i, c in enumerate(rel.calls):
            change = known[len(rel.group) + i]
            if (c.function, change) in (("MIN", "DECREASING"), ("MAX", "INCREASING")):
                out[i] = False
    return out


def grouped(group: Sequence[int], rel: Rel, level: str) -> list[str]:
    """The group keys, fields of ``rel``, and which half of a split aggregate it is."""
    names = field_names(rel)
    out = [f"groupBy=[{', '.join(names[k] for k in group)}]"] if group else []
    return [*out, f"partialFinalType=[{level}]"] if level else out


class AggregateOperator(Operator[Aggregate], of=Aggregate):
    name = "GroupAggregate"
    node = "stream-exec-group-aggregate_1"
    options = MINI_BATCH

    def describe(self, rel: Aggregate, node: Physical) -> list[str]:
        names = field_names(rel.input)
        outputs = field_names(rel)
        parts = [named(names[g], o) for g, o in zip(rel.group, outputs, strict=False)]
        for c, o, r in zip(rel.calls, outputs[len(rel.group) :], needed_retractions(node), strict=True):
            parts.append(f"{call_text(c, names, r)} AS {o}")
        return [*grouped(rel.group, rel.input, rel.level), f"select=[{', '.join(parts)}]"]

    def lower(self, rel: Aggregate, node: Physical, lowering: Lowering) -> Json:
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

    def provided(self, rel: Aggregate, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        shrinks = bool(inputs[0].kinds & {"UPDATE", "DELETE"})
        return ALL if shrinks else frozenset({"INSERT", "UPDATE"})

    def update(self, rel: Aggregate, node: Physical, required: UpdateKind) -> Physical | None:
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required)

    def distribute(self, rel: Aggregate, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], rel.group))


class TableAggregateOperator(Operator[TableAggregate], of=TableAggregate):
    name = "GroupTableAggregate"
    node = "stream-exec-group-table-aggregate_1"

    def describe(self, rel: TableAggregate, node: Physical) -> list[str]:
        names, outputs = field_names(rel.input), field_names(rel)
        arguments = ", ".join(names[a] for a in rel.call.args)
        function = rel.call.function + ("" if node.input.is_insert_only else "_RETRACT")
        given = ", ".join(outputs[len(rel.group) :])
        parts = [*(names[g] for g in rel.group), f"{function}({arguments}) AS ({given})"]
        return [*grouped(rel.group, rel.input, ""), f"select=[{', '.join(parts)}]"]

    def lower(self, rel: TableAggregate, node: Physical, lowering: Lowering) -> Json:
        retracts = not node.input.is_insert_only
        return {
            "grouping": list(rel.group),
            "aggCalls": agg_calls([rel.call]),
            "aggCallNeedRetractions": [retracts],
            "generateUpdateBefore": node.generates_update_before,
            "needRetraction": retracts,
            "state": [lowering.state(0, rel.ttl, "groupAggregateState")],
        }

    def provided(self, rel: TableAggregate, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL

    def update(self, rel: TableAggregate, node: Physical, required: UpdateKind) -> Physical | None:
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required)

    def distribute(self, rel: TableAggregate, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], rel.group))


class LocalAggregateOperator(Operator[LocalAggregate], of=LocalAggregate):
    name = "LocalGroupAggregate"
    node = "stream-exec-local-group-aggregate_1"
    options = MINI_BATCH
    named_calls = False

    def describe(self, rel: LocalAggregate, node: Physical) -> list[str]:
        names = field_names(rel.input)
        parts = [*(names[g] for g in rel.group), *accumulators(rel.kept, rel.input)]
        return [*grouped(rel.group, rel.input, rel.level), f"select=[{', '.join(parts)}]"]

    def lower(self, rel: LocalAggregate, node: Physical, lowering: Lowering) -> Json:
        return {
            "grouping": list(rel.group),
            "aggCalls": agg_calls(rel.calls),
            "aggCallNeedRetractions": list(rel.retracts),
            "needRetraction": rel.retraction,
        }


class GlobalAggregateOperator(Operator[GlobalAggregate], of=GlobalAggregate):
    name = "GlobalGroupAggregate"
    node = "stream-exec-global-group-aggregate_1"
    options = MINI_BATCH

    def describe(self, rel: GlobalAggregate, node: Physical) -> list[str]:
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

    def lower(self, rel: GlobalAggregate, node: Physical, lowering: Lowering) -> Json:
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


class IncrementalAggregateOperator(Operator[IncrementalAggregate], of=IncrementalAggregate):
    name = "IncrementalGroupAggregate"
    node = "stream-exec-incremental-group-aggregate_1"
    options = MINI_BATCH
    named_calls = False

    def describe(self, rel: IncrementalAggregate, node: Physical) -> list[str]:
        names = field_names(rel.local)
        parts = [names[k] for k in rel.final]
        parts += [f"{_function(c)}({_view(c)}{_accumulated(c)}) AS {_accumulated(c)}" for c in rel.local.kept.calls]
        return [
            f"partialAggGrouping=[{', '.join(names[: len(rel.local.group)])}]",
            f"finalAggGrouping=[{', '.join(names[k] for k in rel.final)}]",
            f"select=[{', '.join(parts)}]",
        ]

    def lower(self, rel: IncrementalAggregate, node: Physical, lowering: Lowering) -> Json:
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


def _function(c: PhasedCall) -> str:
    return c.call.function + ("_RETRACT" if c.retract else "")


def _view(c: PhasedCall) -> str:
    return "" if c.distinct is None else f"distinct${c.distinct} "


def _accumulated(c: PhasedCall) -> str:
    return c.names[0] if len(c.names) == 1 else f"({', '.join(c.names)})"
