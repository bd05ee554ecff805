"""Operators that order rows: deduplication, ranks, limits, sorts and OVER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.execnodes.rex import InputRef
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.over_frames import Bound
from stateplan.planner.algebra.relations import (
    AggCall,
    FullSort,
    Limit,
    Order,
    Rank,
    RankStrategy,
    Rel,
    Sort,
    SortLimit,
    TemporalSort,
    field_names,
)
from stateplan.planner.digest.expressions import (
    expression,
    key_names,
    order_text,
)
from stateplan.planner.digest.literals import charset
from stateplan.planner.metadata.monotonicity import monotonicity
from stateplan.planner.metadata.unique_keys import join_input_keys
from stateplan.planner.operators.aggregates import agg_calls
from stateplan.planner.operators.base import (
    ALL,
    INSERT,
    MINI_BATCH,
    Json,
    Lowering,
    Operator,
    exchanged,
    insert_only,
    rebuilt,
    update,
)
from stateplan.planner.physical import Deduplicate, Kinds, Physical, UpdateKind

_TOP_N = (("table.exec.rank.topn-cache-size", "10000"),)
_NEEDED: dict[str, UpdateKind] = {
    "AppendFast": "NONE",
    "UpdateFast": "ONLY_UPDATE_AFTER",
    "Retract": "BEFORE_AND_AFTER",
}


def sort_spec(order: Order) -> Json:
    """Flink's ``SortSpec``."""
    return {"fields": [{"index": i, "isAscending": a, "nullIsLast": last} for i, a, last in order]}


class RankOperator(Operator[Rank], of=Rank):
    name = "Rank"
    node = "stream-exec-rank_1"
    options = _TOP_N

    def describe(self, rel: Rank, node: Physical) -> list[str]:
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

    def lower(self, rel: Rank, node: Physical, lowering: Lowering) -> Json:
        given: Json = {"type": "Constant", "start": rel.start, "end": rel.end}
        if rel.end_index is not None:
            given = {"type": "Variable", "endIndex": rel.end_index}
        return _ranking(lowering, node, rel.partition, rel.order, given, rel.strategy, rel.rank_name is not None)

    def provided(self, rel: Rank, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        first_row_only = rel.is_deduplication and not rel.keeps_last and not mini_batch
        return INSERT if first_row_only and inputs[0].is_insert_only else ALL

    def update(self, rel: Rank, node: Physical, required: UpdateKind) -> Physical | None:
        return _ranked(node, required, rel, rel.partition)

    def distribute(self, rel: Rank, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], rel.partition))

    def waits_for_watermarks(self, rel: Rank) -> bool:
        return any(rel.input.fields[i][1].kind == "ROWTIME" for i, _, _ in rel.order)


class DeduplicateOperator(Operator[Rank], of=Deduplicate):
    name = "Deduplicate"
    node = "stream-exec-deduplicate_1"
    options = (
        ("table.exec.deduplicate.insert-update-after-sensitive-enabled", "true"),
        ("table.exec.deduplicate.mini-batch.compact-changes-enabled", "false"),
        *MINI_BATCH,
    )

    def describe(self, rel: Rank, node: Physical) -> list[str]:
        return [
            f"keep=[{'LastRow' if rel.keeps_last else 'FirstRow'}]",
            f"key=[{key_names(rel.partition, rel.input)}]",
            f"order=[{rel.fields[rel.order[0][0]][1].kind}]",
            f"outputInsertOnly=[{'true' if node.is_insert_only else 'false'}]",
        ]

    def lower(self, rel: Rank, node: Physical, lowering: Lowering) -> Json:
        return {
            "uniqueKeys": list(rel.partition),
            "isRowtime": rel.fields[rel.order[0][0]][1].kind == "ROWTIME",
            "keepLastRow": rel.keeps_last,
            "outputInsertOnly": node.is_insert_only,
            "generateUpdateBefore": node.generates_update_before,
            "state": [lowering.state(0, None, "deduplicateState")],
        }


def _ranked(
    node: Physical, required: UpdateKind, rank: Rank | SortLimit, partition: tuple[int, ...]
) -> Physical | None:
    """A rank in the first way that its input allows (``RankProcessStrategy.analyzeRankProcessStrategies``)."""
    for strategy in _strategies(node, partition, rank.order):
        made = rebuilt(
            replace(node, rel=replace(rank, strategy=strategy)), [update(node.input, _NEEDED[strategy.name])], required
        )
        if made is not None:
            return made
    return None


def _strategies(node: Physical, partition: tuple[int, ...], order: Order) -> list[RankStrategy]:
    if node.input.is_insert_only:
        return [RankStrategy("AppendFast")]
    below = node.rel.inputs[0]
    keys = join_input_keys(below, partition)
    known = monotonicity(below)
    up = {True: "DECREASING", False: "INCREASING"}
    if (
        any(set(partition) <= set(k) for k in keys)
        and known is not None
        and order
        and all(known[i] in ("CONSTANT", up[ascending]) for i, ascending, _ in order)
    ):
        return [RankStrategy("UpdateFast", keys[0]), RankStrategy("Retract")]
    return [RankStrategy("Retract")]


def _ranking(
    lowering: Lowering,
    node: Physical,
    partition: tuple[int, ...],
    order: Order,
    given: Json,
    strategy: RankStrategy | None,
    numbered: bool,
) -> Json:
    how: Json = {"type": "Undefined" if strategy is None else strategy.name}
    if strategy is not None and strategy.name == "UpdateFast":
        how["primaryKeys"] = list(strategy.keys)
    return {
        "rankType": "ROW_NUMBER",
        "partition": {"fields": list(partition)},
        "orderBy": sort_spec(order),
        "rankRange": given,
        "rankStrategy": how,
        "outputRowNumber": numbered,
        "generateUpdateBefore": node.generates_update_before,
        "state": [lowering.state(0, None, "rankState")],
    }


def _limits(rel: Sort) -> list[str]:
    return [f"offset=[{rel.offset}]", f"fetch=[{rel.fetch}]"]


def _limit(rel: Sort, node: Physical, lowering: Lowering, strategy: RankStrategy | None) -> Json:
    given: Json = {"type": "Constant", "start": rel.offset + 1, "end": rel.offset + (rel.fetch or 0)}
    return _ranking(lowering, node, (), rel.order, given, strategy, False)


class LimitOperator(Operator[Limit], of=Limit):
    name = "Limit"
    node = "stream-exec-limit_1"
    options = _TOP_N

    def describe(self, rel: Limit, node: Physical) -> list[str]:
        return _limits(rel)

    def lower(self, rel: Limit, node: Physical, lowering: Lowering) -> Json:
        return _limit(rel, node, lowering, RankStrategy("AppendFast" if node.input.is_insert_only else "Retract"))

    def provided(self, rel: Limit, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return INSERT if inputs[0].is_insert_only else ALL

    def update(self, rel: Limit, node: Physical, required: UpdateKind) -> Physical | None:
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required)

    def distribute(self, rel: Limit, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], ()))


class SortLimitOperator(Operator[SortLimit], of=SortLimit):
    name = "SortLimit"
    node = "stream-exec-sort-limit_1"
    options = _TOP_N

    def describe(self, rel: SortLimit, node: Physical) -> list[str]:
        strategy = rel.strategy or "UndefinedStrategy"
        return [f"orderBy=[{order_text(rel.order, rel)}]", *_limits(rel), f"strategy=[{strategy}]"]

    def lower(self, rel: SortLimit, node: Physical, lowering: Lowering) -> Json:
        return _limit(rel, node, lowering, rel.strategy)

    def provided(self, rel: SortLimit, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL

    def update(self, rel: SortLimit, node: Physical, required: UpdateKind) -> Physical | None:
        return _ranked(node, required, rel, ())

    def distribute(self, rel: SortLimit, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], ()))


class TemporalSortOperator(Operator[TemporalSort], of=TemporalSort):
    name = "TemporalSort"
    node = "stream-exec-temporal-sort_1"

    def describe(self, rel: TemporalSort, node: Physical) -> list[str]:
        return [f"orderBy=[{order_text(rel.order, rel)}]"]

    def lower(self, rel: TemporalSort, node: Physical, lowering: Lowering) -> Json:
        return {"orderBy": sort_spec(rel.order)}

    def provided(self, rel: TemporalSort, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return insert_only("ORDER BY a time attribute", inputs, rel.place)

    def distribute(self, rel: TemporalSort, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], ()))


class FullSortOperator(Operator[FullSort], of=FullSort):
    name = "Sort"
    node = "stream-exec-sort_1"

    def describe(self, rel: FullSort, node: Physical) -> list[str]:
        return [f"orderBy=[{order_text(rel.order, rel)}]"]

    def lower(self, rel: FullSort, node: Physical, lowering: Lowering) -> Json:
        return {"orderBy": sort_spec(rel.order)}

    def provided(self, rel: FullSort, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return INSERT

    def update(self, rel: FullSort, node: Physical, required: UpdateKind) -> Physical | None:
        return rebuilt(node, [update(node.input, "BEFORE_AND_AFTER")], required)

    def distribute(self, rel: FullSort, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], ()))


class OverAggregateOperator(Operator[OverAggregate], of=OverAggregate):
    name = "OverAggregate"
    node = "stream-exec-over-aggregate_1"
    waits_for_mini_batches = False

    def describe(self, rel: OverAggregate, node: Physical) -> list[str]:
        inputs = field_names(rel.input)
        names = [*inputs, *(charset(c.value) if c.type.is_string else expression(c, ()) for c in rel.constants)]

        def text(call: AggCall, name: str) -> str:
            arguments = ", ".join(names[a] for a in call.args) or "*"
            return f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments}) AS {name}"

        keys = ", ".join(inputs[k] for k in rel.partition)
        return [
            *([f"partitionBy=[{keys}]"] if keys else []),
            f"orderBy=[{order_text(rel.order, rel.input)}]",
            f"window=[ {rel.frame.text}]",
            f"select=[{', '.join([*inputs, *map(text, rel.calls, field_names(rel)[len(inputs) :])])}]",
        ]

    def lower(self, rel: OverAggregate, node: Physical, lowering: Lowering) -> Json:
        width = rel.input.width

        def bound(given: Bound) -> Json:
            if given.offset is None:
                return {"kind": given.kind}
            place = width + rel.constants.index(given.offset)
            side = "isPreceding" if given.kind == "PRECEDING" else "isFollowing"
            return {"kind": "BOUNDED_WINDOW", side: True, "offset": InputRef(given.offset.type, place).to_json()}

        return {
            "overSpec": {
                "partition": {"fields": list(rel.partition)},
                "groups": [
                    {
                        "orderBy": sort_spec(rel.order),
                        "isRows": rel.frame.rows,
                        "lowerBound": bound(rel.frame.lower),
                        "upperBound": bound(rel.frame.upper),
                        "aggCalls": agg_calls(rel.calls),
                    }
                ],
                "constants": [c.to_json() for c in rel.constants],
                "originalInputFields": width,
            },
            "unboundedOverVersion": int(lowering.options.get("table.exec.unbounded-over.version", "2")),
        }

    def provided(self, rel: OverAggregate, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return insert_only("OVER", inputs, rel.place)

    def distribute(self, rel: OverAggregate, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], rel.partition))

    def waits_for_watermarks(self, rel: OverAggregate) -> bool:
        return any(rel.input.fields[i][1].kind == "ROWTIME" for i, _, _ in rel.order)
