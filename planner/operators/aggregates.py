"""Aggregates of groups, in one phase and in several, and table aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes import specs
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate, PythonGroupAggregate
from stateplan.execnodes.nodes.group_table_aggregate import GroupTableAggregate
from stateplan.execnodes.nodes.phased_aggregates import (
    GlobalGroupAggregate,
    IncrementalGroupAggregate,
    LocalGroupAggregate,
)
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.phased import (
    Accumulators,
    GlobalAggregate,
    IncrementalAggregate,
    LocalAggregate,
    PhasedCall,
)
from stateplan.planner.algebra.relations import AggCall, Aggregate, Rel, field_names, rel_type
from stateplan.planner.algebra.table_functions import TableAggregate, is_python
from stateplan.planner.digest.expressions import Notation, call_text, with_name
from stateplan.planner.metadata.monotonicity import monotonicity
from stateplan.planner.operators.base import ALL, MINI_BATCH, Lowering, Operator
from stateplan.planner.physical import Kinds, Physical


def agg_calls(calls: Sequence[AggCall]) -> tuple[specs.AggCall, ...]:
    """Aggregate calls as plans have them."""
    return tuple(
        specs.AggCall(
            name=c.name,
            syntax=c.syntax,
            internal_name=c.internal_name if c.system_name is None and c.catalog_name is None else None,
            system_name=c.system_name,
            catalog_name=c.catalog_name if c.system_name is None else None,
            arg_list=c.args,
            filter_arg=c.filter,
            distinct=c.distinct,
            ignore_nulls=c.ignore_nulls,
            type=c.type,
        )
        for c in calls
    )


def needed_retractions(node: Physical) -> tuple[bool, ...]:
    """Per call of an aggregate, whether it must be able to retract values."""

    rel = node.rel
    assert isinstance(rel, Aggregate)
    out = [not node.input.is_insert_only] * len(rel.calls)
    monotonicities = monotonicity(rel) if any(out) else None
    if monotonicities is not None:
        for i, c in enumerate(rel.calls):
            change = monotonicities[len(rel.group) + i]
            if (c.function, change) in (("MIN", "DECREASING"), ("MAX", "INCREASING")):
                out[i] = False
    return tuple(out)


def grouped(group: Sequence[int], rel: Rel, level: str) -> list[str]:
    """The group keys, fields of ``rel``, and which half of a split aggregate it is."""
    names = field_names(rel)
    out = [f"groupBy=[{', '.join(names[k] for k in group)}]"] if group else []
    return [*out, f"partialFinalType=[{level}]"] if level else out


class AggregateOperator(Operator[Aggregate], of=Aggregate, node=GroupAggregate):
    options = MINI_BATCH
    key_field = "group"

    def describe(self, rel: Aggregate, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel.input)
        outputs = field_names(rel)
        parts = [with_name(names[g], o) for g, o in zip(rel.group, outputs, strict=False)]
        for c, o, r in zip(rel.calls, outputs[len(rel.group) :], needed_retractions(node), strict=True):
            parts.append(f"{call_text(c, names, r)} AS {o}")
        return [*grouped(rel.group, rel.input, rel.level), f"select=[{', '.join(parts)}]"]

    def lower(self, rel: Aggregate, node: Physical, lowering: Lowering) -> ExecNode:
        cls = PythonGroupAggregate if is_python(rel) else GroupAggregate
        return cls(
            **self.common(rel, node, lowering),
            grouping=rel.group,
            agg_calls=agg_calls(rel.calls),
            agg_call_need_retractions=needed_retractions(node),
            generate_update_before=node.generates_update_before,
            need_retraction=not node.input.is_insert_only,
        )

    def state_hints(self, rel: Aggregate) -> Sequence[InputHint | None]:
        return () if is_python(rel) else (rel.hint,)

    def provided(self, rel: Aggregate, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        shrinks = bool(inputs[0].kinds & {"UPDATE", "DELETE"})
        return ALL if shrinks else frozenset({"INSERT", "UPDATE"})


class TableAggregateOperator(Operator[TableAggregate], of=TableAggregate, node=GroupTableAggregate):
    hint_fields = ("hint",)
    key_field = "group"

    def describe(self, rel: TableAggregate, node: Physical, notation: Notation) -> list[str]:
        names, outputs = field_names(rel.input), field_names(rel)
        arguments = ", ".join(names[a] for a in rel.call.args)
        function = rel.call.function + ("" if node.input.is_insert_only else "_RETRACT")
        result_names = ", ".join(outputs[len(rel.group) :])
        parts = [*(names[g] for g in rel.group), f"{function}({arguments}) AS ({result_names})"]
        return [*grouped(rel.group, rel.input, ""), f"select=[{', '.join(parts)}]"]

    def lower(self, rel: TableAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        retracts = not node.input.is_insert_only
        return GroupTableAggregate(
            **self.common(rel, node, lowering),
            grouping=rel.group,
            agg_calls=agg_calls([rel.call]),
            agg_call_need_retractions=(retracts,),
            generate_update_before=node.generates_update_before,
            need_retraction=retracts,
        )

    def provided(self, rel: TableAggregate, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL


class LocalAggregateOperator(Operator[LocalAggregate], of=LocalAggregate, node=LocalGroupAggregate):
    options = MINI_BATCH
    named_calls = False

    def describe(self, rel: LocalAggregate, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel.input)
        parts = [*(names[g] for g in rel.group), *accumulators(rel.accumulators, rel.input)]
        return [*grouped(rel.group, rel.input, rel.level), f"select=[{', '.join(parts)}]"]

    def lower(self, rel: LocalAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        return LocalGroupAggregate(
            **self.common(rel, node, lowering),
            grouping=rel.group,
            agg_calls=agg_calls(rel.calls),
            agg_call_need_retractions=rel.retracts,
            need_retraction=rel.retraction,
        )


class GlobalAggregateOperator(Operator[GlobalAggregate], of=GlobalAggregate, node=GlobalGroupAggregate):
    options = MINI_BATCH

    def describe(self, rel: GlobalAggregate, node: Physical, notation: Notation) -> list[str]:
        below = rel.input.inputs[0]
        local_accumulators = (below.local if isinstance(below, IncrementalAggregate) else rel).accumulators
        own = rel.accumulators.calls
        outputs = field_names(rel)
        keys = field_names(rel.input)
        parts = [keys[g] if keys[g] == outputs[g] else f"{keys[g]} AS {outputs[g]}" for g in rel.group]
        for c, own_call, name in zip(local_accumulators.calls, own, outputs[len(rel.group) :], strict=False):
            view = "" if isinstance(below, IncrementalAggregate) else _view(own_call)
            parts.append(f"{_function(own_call)}({view}{_accumulated(c)}) AS {name}")
        star = [] if rel.count_star is None else [f"indexOfCountStar=[{rel.count_star}]"]
        return [*grouped(rel.group, rel.input, rel.original.level), f"select=[{', '.join(parts)}]", *star]

    def lower(self, rel: GlobalAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        return GlobalGroupAggregate(
            **self.common(rel, node, lowering),
            grouping=rel.group,
            agg_calls=agg_calls(rel.original.calls),
            agg_call_need_retractions=rel.retracts,
            local_agg_input_row_type=rel_type(rel.before),
            generate_update_before=node.generates_update_before,
            need_retraction=rel.retraction,
            index_of_count_star=rel.count_star,
        )

    def state_hints(self, rel: GlobalAggregate) -> Sequence[InputHint | None]:
        return (rel.original.hint,)


class IncrementalAggregateOperator(
    Operator[IncrementalAggregate], of=IncrementalAggregate, node=IncrementalGroupAggregate
):
    options = MINI_BATCH
    named_calls = False
    hint_fields = ("hint",)

    def describe(self, rel: IncrementalAggregate, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel.local)
        parts = [names[k] for k in rel.final]
        parts += [
            f"{_function(c)}({_view(c)}{_accumulated(c)}) AS {_accumulated(c)}" for c in rel.local.accumulators.calls
        ]
        return [
            f"partialAggGrouping=[{', '.join(names[: len(rel.local.group)])}]",
            f"finalAggGrouping=[{', '.join(names[k] for k in rel.final)}]",
            f"select=[{', '.join(parts)}]",
        ]

    def lower(self, rel: IncrementalAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        local = rel.local
        return IncrementalGroupAggregate(
            **self.common(rel, node, lowering),
            partial_agg_grouping=tuple(range(len(local.group))),
            final_agg_grouping=rel.final,
            partial_original_agg_calls=agg_calls(local.calls),
            partial_agg_call_need_retractions=local.retracts,
            partial_local_agg_input_row_type=rel_type(local.input),
            partial_agg_need_retraction=local.retraction,
        )


def accumulators(values: Accumulators, row: Rel) -> list[str]:
    """What a local phase keeps of ``row``."""
    names = field_names(row)
    parts = []
    for c in values.calls:
        arguments = ", ".join(names[a] for a in c.call.args) or "*"
        call_text = f"{_function(c)}({_view(c)}{arguments})"
        filter_text = f" FILTER {names[c.call.filter]}" if c.call.filter >= 0 else ""
        parts.append(f"{call_text}{filter_text} AS {_accumulated(c)}")
    return parts + [
        f"DISTINCT({', '.join(names[a] for a in arguments)}) AS distinct${i}"
        for i, (arguments, _) in enumerate(values.maps)
    ]


def merge_text(call: PhasedCall) -> str:
    """A call that merges its own accumulators."""
    return f"{_function(call)}({_view(call)}{_accumulated(call)})"


def _function(c: PhasedCall) -> str:
    return c.call.function + ("_RETRACT" if c.retract else "")


def _view(c: PhasedCall) -> str:
    return "" if c.distinct is None else f"distinct${c.distinct} "


def _accumulated(c: PhasedCall) -> str:
    return c.names[0] if len(c.names) == 1 else f"({', '.join(c.names)})"
