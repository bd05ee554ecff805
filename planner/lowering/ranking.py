"""The nodes that order rows: deduplication, ranks, limits, sorts."""

from __future__ import annotations

from stateplan.execnodes.rex import InputRef
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.over_frames import Bound
from stateplan.planner.algebra.relations import (
    FullSort,
    Limit,
    Order,
    Rank,
    RankStrategy,
    Sort,
    SortLimit,
    TemporalSort,
)
from stateplan.planner.lowering.aggregates import agg_calls
from stateplan.planner.lowering.base import MINI_BATCH, Json, Lowering, NodeKind, sort_spec
from stateplan.planner.physical import Deduplicate, Physical

_TOP_N = (("table.exec.rank.topn-cache-size", "10000"),)


def _deduplicate(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, Rank)
    return {
        "uniqueKeys": list(rel.partition),
        "isRowtime": rel.fields[rel.order[0][0]][1].kind == "ROWTIME",
        "keepLastRow": rel.keeps_last,
        "outputInsertOnly": node.is_insert_only,
        "generateUpdateBefore": node.generates_update_before,
        "state": [lowering.state(0, None, "deduplicateState")],
    }


def _rank(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, Rank)
    given: Json = {"type": "Constant", "start": rel.start, "end": rel.end}
    if rel.end_index is not None:
        given = {"type": "Variable", "endIndex": rel.end_index}
    return _ranking(lowering, node, rel.partition, rel.order, given, rel.strategy, rel.rank_name is not None)


def _limit(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, Sort)
    given: Json = {"type": "Constant", "start": rel.offset + 1, "end": rel.offset + (rel.fetch or 0)}
    if isinstance(rel, SortLimit):
        strategy = rel.strategy
    else:
        strategy = RankStrategy("AppendFast" if node.input.is_insert_only else "Retract")
    return _ranking(lowering, node, (), rel.order, given, strategy, False)


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


def _sort(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, (TemporalSort, FullSort))
    return {"orderBy": sort_spec(rel.order)}


def _over(lowering: Lowering, node: Physical) -> Json:
    rel = node.rel
    assert isinstance(rel, OverAggregate)
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


NODES = {
    OverAggregate: NodeKind("stream-exec-over-aggregate_1", _over),
    Deduplicate: NodeKind(
        "stream-exec-deduplicate_1",
        _deduplicate,
        (
            ("table.exec.deduplicate.insert-update-after-sensitive-enabled", "true"),
            ("table.exec.deduplicate.mini-batch.compact-changes-enabled", "false"),
            *MINI_BATCH,
        ),
    ),
    Rank: NodeKind("stream-exec-rank_1", _rank, _TOP_N),
    Limit: NodeKind("stream-exec-limit_1", _limit, _TOP_N),
    SortLimit: NodeKind("stream-exec-sort-limit_1", _limit, _TOP_N),
    TemporalSort: NodeKind("stream-exec-temporal-sort_1", _sort),
    FullSort: NodeKind("stream-exec-sort_1", _sort),
}
