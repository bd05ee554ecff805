"""Operators that order rows: deduplication, ranks, limits, sorts and OVER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.deduplicate import Deduplicate as DeduplicateNode
from stateplan.execnodes.nodes.limit import Limit as LimitNode
from stateplan.execnodes.nodes.over_aggregate import Bound as NodeBound
from stateplan.execnodes.nodes.over_aggregate import OverAggregate as OverAggregateNode
from stateplan.execnodes.nodes.over_aggregate import OverGroup, OverSpec, PythonOverAggregate
from stateplan.execnodes.nodes.rank import Rank as RankNode
from stateplan.execnodes.nodes.sort import Sort as SortNode
from stateplan.execnodes.nodes.sort_limit import SortLimit as SortLimitNode
from stateplan.execnodes.nodes.temporal_sort import TemporalSort as TemporalSortNode
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    ConstantRange,
    PartitionSpec,
    RetractStrategy,
    SortField,
    SortSpec,
    UndefinedStrategy,
    UpdateFastStrategy,
    VariableRange,
)
from stateplan.functions.rex import InputRef
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.over_frames import Bound
from stateplan.planner.algebra.relations import (
    AggCall,
    FullSort,
    Limit,
    Order,
    Rank,
    RankStrategy,
    Sort,
    SortLimit,
    TemporalSort,
    field_names,
)
from stateplan.planner.algebra.table_functions import is_python
from stateplan.planner.digest.expressions import Notation, key_names, order_text, with_name
from stateplan.planner.digest.literals import typed_literal
from stateplan.planner.metadata.monotonicity import monotonicity
from stateplan.planner.metadata.unique_keys import first_key_of_set, join_input_keys
from stateplan.planner.operators.aggregates import agg_calls
from stateplan.planner.operators.base import (
    ALL,
    INSERT,
    MINI_BATCH,
    Lowering,
    Operator,
    insert_only,
    rebuilt,
    update,
)
from stateplan.planner.physical import Deduplicate, Kinds, Physical, UpdateKind

_TOP_N = ("table.exec.rank.topn-cache-size",)
_UPDATE_KINDS: dict[str, UpdateKind] = {
    "AppendFast": "NONE",
    "UpdateFast": "ONLY_UPDATE_AFTER",
    "Retract": "BEFORE_AND_AFTER",
}


def sort_spec(order: Order) -> SortSpec:
    """Flink's ``SortSpec``."""
    return SortSpec(fields=tuple(SortField(index=i, is_ascending=a, null_is_last=last) for i, a, last in order))


class RankOperator(Operator[Rank], of=Rank, node=RankNode):
    options = _TOP_N
    hint_fields = ("hint",)
    key_field = "partition"

    def describe(self, rel: Rank, node: Physical, notation: Notation) -> list[str]:
        order = order_text(rel.order, rel.input)
        if any(rel.fields[i][1].kind == "ROWTIME" for i, _, _ in rel.order):
            order = f"ROWTIME {order}"
        end = rel.end if rel.end_index is None else field_names(rel.input)[rel.end_index]
        start = f"rankStart={rel.start}, " if rel.end_index is None else ""
        return [
            f"strategy=[{rel.strategy or 'UndefinedStrategy'}]",
            "rankType=[ROW_NUMBER]",
            f"rankRange=[{start}rankEnd={end}]",
            f"partitionBy=[{key_names(rel.partition, rel.input)}]",
            f"orderBy=[{order}]",
            f"select=[{', '.join(field_names(rel))}]",
        ]

    def lower(self, rel: Rank, node: Physical, lowering: Lowering) -> ExecNode:
        if rel.end_index is None:
            rank_range: ConstantRange | VariableRange = ConstantRange(start=rel.start, end=rel.end)
        else:
            rank_range = VariableRange(end_index=rel.end_index)
        own = _ranking(node, rel.partition, rel, rank_range, rel.rank_name is not None)
        return RankNode(**self.common(rel, node, lowering), **own)

    def provided(self, rel: Rank, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        first_row_only = rel.is_deduplication and not rel.keeps_last and not mini_batch
        stays = rel.is_by_time or not rel.takes_back
        return INSERT if first_row_only and stays and inputs[0].is_insert_only else ALL

    def update(self, rel: Rank, node: Physical, required_kind: UpdateKind) -> Physical | None:
        return _ranked(node, required_kind, rel, rel.partition)

    def waits_for_watermarks(self, rel: Rank) -> bool:
        return any(rel.input.fields[i][1].kind == "ROWTIME" for i, _, _ in rel.order)


class DeduplicateOperator(Operator[Rank], of=Deduplicate, node=DeduplicateNode):
    options = (
        "table.exec.deduplicate.insert-update-after-sensitive-enabled",
        "table.exec.deduplicate.mini-batch.compact-changes-enabled",
        *MINI_BATCH,
    )
    hint_fields = ("hint",)

    def describe(self, rel: Rank, node: Physical, notation: Notation) -> list[str]:
        return [
            f"keep=[{'LastRow' if rel.keeps_last else 'FirstRow'}]",
            f"key=[{key_names(rel.partition, rel.input)}]",
            f"order=[{rel.fields[rel.order[0][0]][1].kind}]",
            f"outputInsertOnly=[{'true' if node.is_insert_only else 'false'}]",
        ]

    def lower(self, rel: Rank, node: Physical, lowering: Lowering) -> ExecNode:
        return DeduplicateNode(
            **self.common(rel, node, lowering),
            unique_keys=rel.partition,
            is_rowtime=rel.fields[rel.order[0][0]][1].kind == "ROWTIME",
            keep_last_row=rel.keeps_last,
            output_insert_only=node.is_insert_only,
            generate_update_before=node.generates_update_before,
        )


def _ranked(
    node: Physical, required_kind: UpdateKind, rank: Rank | SortLimit, partition: tuple[int, ...]
) -> Physical | None:
    """A rank in the first way that its input allows (``RankProcessStrategy.analyzeRankProcessStrategies``)."""
    for strategy in _strategies(node, partition, rank.order):
        new_node = rebuilt(
            replace(node, rel=replace(rank, strategy=strategy)),
            [update(node.input, _UPDATE_KINDS[strategy.name])],
            required_kind,
        )
        if new_node is not None:
            return new_node
    return None


def _strategies(node: Physical, partition: tuple[int, ...], order: Order) -> list[RankStrategy]:
    if node.input.is_insert_only:
        return [RankStrategy("AppendFast")]
    below = node.rel.inputs[0]
    keys = join_input_keys(below, partition)
    monotonicities = monotonicity(below)
    up = {True: "DECREASING", False: "INCREASING"}
    if (
        any(set(partition) <= set(k) for k in keys)
        and monotonicities is not None
        and order
        and all(monotonicities[i] in ("CONSTANT", up[ascending]) for i, ascending, _ in order)
    ):
        return [RankStrategy("UpdateFast", first_key_of_set(keys)), RankStrategy("Retract")]
    return [RankStrategy("Retract")]


def _ranking(
    node: Physical,
    partition: tuple[int, ...],
    rel: Rank | Limit | SortLimit,
    rank_range: ConstantRange | VariableRange,
    numbered: bool = False,
) -> dict[str, Any]:
    """The fields that ranks and limits have in common."""
    strategy_spec: UndefinedStrategy | AppendFastStrategy | RetractStrategy | UpdateFastStrategy = UndefinedStrategy()
    strategy = rel.strategy if not isinstance(rel, Limit) else _strategies(node, (), ())[0]
    if strategy is not None and strategy.name == "UpdateFast":
        strategy_spec = UpdateFastStrategy(primary_keys=strategy.keys)
    elif strategy is not None:
        strategy_spec = AppendFastStrategy() if strategy.name == "AppendFast" else RetractStrategy()
    return {
        "rank_type": "ROW_NUMBER",
        "partition": PartitionSpec(fields=partition),
        "order_by": sort_spec(rel.order),
        "rank_range": rank_range,
        "rank_strategy": strategy_spec,
        "output_row_number": numbered,
        "generate_update_before": node.generates_update_before,
    }


def _limits(rel: Sort) -> list[str]:
    return [f"offset=[{rel.offset}]", f"fetch=[{rel.fetch}]"]


def _limit(rel: Limit | SortLimit, node: Physical) -> dict[str, Any]:
    rank_range = ConstantRange(start=rel.offset + 1, end=rel.offset + (rel.fetch or 0))
    return _ranking(node, (), rel, rank_range)


class LimitOperator(Operator[Limit], of=Limit, node=LimitNode):
    options = _TOP_N
    hint_fields = ("hint",)
    key_field = ""

    def describe(self, rel: Limit, node: Physical, notation: Notation) -> list[str]:
        return _limits(rel)

    def lower(self, rel: Limit, node: Physical, lowering: Lowering) -> ExecNode:
        return LimitNode(**self.common(rel, node, lowering), **_limit(rel, node))

    def provided(self, rel: Limit, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return INSERT if inputs[0].is_insert_only else ALL

    def update(self, rel: Limit, node: Physical, required_kind: UpdateKind) -> Physical | None:
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required_kind)


class SortLimitOperator(Operator[SortLimit], of=SortLimit, node=SortLimitNode):
    options = _TOP_N
    hint_fields = ("hint",)
    key_field = ""

    def describe(self, rel: SortLimit, node: Physical, notation: Notation) -> list[str]:
        strategy = rel.strategy or "UndefinedStrategy"
        return [f"orderBy=[{order_text(rel.order, rel)}]", *_limits(rel), f"strategy=[{strategy}]"]

    def lower(self, rel: SortLimit, node: Physical, lowering: Lowering) -> ExecNode:
        return SortLimitNode(**self.common(rel, node, lowering), **_limit(rel, node))

    def provided(self, rel: SortLimit, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL

    def update(self, rel: SortLimit, node: Physical, required_kind: UpdateKind) -> Physical | None:
        return _ranked(node, required_kind, rel, ())


class TemporalSortOperator(
    Operator[TemporalSort], of=TemporalSort, node=TemporalSortNode, clause="ORDER BY a time attribute"
):
    key_field = ""

    def describe(self, rel: TemporalSort, node: Physical, notation: Notation) -> list[str]:
        return [f"orderBy=[{order_text(rel.order, rel)}]"]

    def late_hints(self, rel: TemporalSort) -> Sequence[InputHint | None]:
        return (rel.hint,)

    def lower(self, rel: TemporalSort, node: Physical, lowering: Lowering) -> ExecNode:
        return TemporalSortNode(**self.common(rel, node, lowering), order_by=sort_spec(rel.order))


class FullSortOperator(Operator[FullSort], of=FullSort, node=SortNode):
    key_field = ""

    def describe(self, rel: FullSort, node: Physical, notation: Notation) -> list[str]:
        return [f"orderBy=[{order_text(rel.order, rel)}]"]

    def lower(self, rel: FullSort, node: Physical, lowering: Lowering) -> ExecNode:
        return SortNode(**self.common(rel, node, lowering), order_by=sort_spec(rel.order))


class OverAggregateOperator(Operator[OverAggregate], of=OverAggregate, node=OverAggregateNode, clause="OVER"):
    hint_fields = ("hint",)
    key_field = "partition"

    def describe(self, rel: OverAggregate, node: Physical, notation: Notation) -> list[str]:
        inputs = field_names(rel.input)
        names = [*inputs, *map(typed_literal, rel.constants)]

        def text(call: AggCall, name: str) -> str:
            arguments = ", ".join(names[a] for a in call.args) or "*"
            return f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments}) AS {name}"

        keys = ", ".join(inputs[k] for k in rel.partition)
        output_names = field_names(rel)
        details = [*map(with_name, inputs, output_names), *map(text, rel.calls, output_names[len(inputs) :])]
        return [
            *([f"partitionBy=[{keys}]"] if keys else []),
            f"orderBy=[{order_text(rel.order, rel.input)}]",
            f"window=[ {rel.frame.text}]",
            f"select=[{', '.join(details)}]",
        ]

    def lower(self, rel: OverAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        width = rel.input.width

        def bound(frame_bound: Bound) -> NodeBound:
            if frame_bound.kind != "PRECEDING" and frame_bound.kind != "FOLLOWING":
                return NodeBound(kind=frame_bound.kind)
            assert frame_bound.offset is not None
            offset = InputRef(frame_bound.offset.type, width + rel.constants.index(frame_bound.offset))
            if frame_bound.kind == "PRECEDING":
                return NodeBound(kind="BOUNDED_WINDOW", is_preceding=True, offset=offset)
            return NodeBound(kind="BOUNDED_WINDOW", is_following=True, offset=offset)

        group = OverGroup(
            order_by=sort_spec(rel.order),
            is_rows=rel.frame.rows,
            lower_bound=bound(rel.frame.lower),
            upper_bound=bound(rel.frame.upper),
            agg_calls=agg_calls(rel.calls),
        )
        spec = OverSpec(
            partition=PartitionSpec(fields=rel.partition),
            groups=(group,),
            constants=rel.constants,
            original_input_fields=width,
        )
        if is_python(rel):
            return PythonOverAggregate(**self.common(rel, node, lowering), over_spec=spec)
        return OverAggregateNode(
            **self.common(rel, node, lowering),
            over_spec=spec,
            unbounded_over_version=int(lowering.options.get("table.exec.unbounded-over.version", "2")),
        )

    def provided(self, rel: OverAggregate, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return insert_only(self.clause, inputs, rel.place) if rel.by_time else ALL

    def update(self, rel: OverAggregate, node: Physical, required_kind: UpdateKind) -> Physical | None:
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required_kind)

    def waits_for_watermarks(self, rel: OverAggregate) -> bool:
        return any(rel.input.fields[i][1].kind == "ROWTIME" for i, _, _ in rel.order)
