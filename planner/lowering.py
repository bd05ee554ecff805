"""From the physical plan to exec nodes: ids in Flink's order, equal sub-plans made once.

Source: Flink's ``ExecNodeGraphGenerator``, ``SubplanReuser`` and the ``translateToExecNode`` of its physical nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from execnodes.changelog import RowKind
from execnodes.graph import FLINK_VERSION, ExecGraph
from execnodes.nodes.base import ExecNode
from execnodes.registry import node_from_json
from execnodes.rex import Literal, Rex
from execnodes.ttl import format_ttl, parse_ttl
from execnodes.types import STRING, LogicalType, row_type
from planner.algebra import (
    Aggregate,
    Calc,
    ChangelogFunction,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    Expand,
    FilterAbility,
    Join,
    Limit,
    LimitAbility,
    MiniBatchAssigner,
    MultiJoin,
    Order,
    PartitionAbility,
    ProjectAbility,
    Rank,
    RankStrategy,
    Rel,
    Scan,
    Sink,
    Sort,
    SortLimit,
    TemporalSort,
    Union,
    Values,
    rel_type,
)
from planner.catalog import CatalogTable, Column, TableSchema
from planner.config import value
from planner.digest import describe, needed_retractions
from planner.expressions.ops import TRUE, and_, call, conjunctions, is_always_true
from planner.metadata.unique_keys import join_input_keys, smallest_key, upsert_keys
from planner.passes.multi_joins import common_keys, equal_fields
from planner.passes.push_filters import equi_keys, is_equi_key, null_filters
from planner.phased import GlobalAggregate, IncrementalAggregate, LocalAggregate
from planner.phased_lowering import agg_calls, nameless, phased_fields
from planner.physical import Deduplicate, Physical, changelog_mode, execution_type
from planner.python_operators import is_python
from planner.table_functions import FunctionCorrelate
from planner.time_algebra import LookupJoin, TemporalJoin, WatermarkAssigner

__all__ = ["lower"]

Json = dict[str, Any]

_TOP_N = (("table.exec.rank.topn-cache-size", "10000"),)

_CONFIGURATION: dict[type[Rel], tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(
        (Aggregate, ChangelogNormalize, GlobalAggregate, IncrementalAggregate, LocalAggregate),
        (("table.exec.mini-batch.enabled", "false"), ("table.exec.mini-batch.size", "-1")),
    ),
    Deduplicate: (
        ("table.exec.deduplicate.insert-update-after-sensitive-enabled", "true"),
        ("table.exec.deduplicate.mini-batch.compact-changes-enabled", "false"),
        ("table.exec.mini-batch.enabled", "false"),
        ("table.exec.mini-batch.size", "-1"),
    ),
    Rank: _TOP_N,
    Limit: _TOP_N,
    SortLimit: _TOP_N,
    Sink: (
        ("table.exec.sink.keyed-shuffle", "AUTO"),
        ("table.exec.sink.not-null-enforcer", "ERROR"),
        ("table.exec.sink.rowtime-inserter", "ENABLED"),
        ("table.exec.sink.type-length-enforcer", "IGNORE"),
        ("table.exec.sink.upsert-materialize", "AUTO"),
    ),
}
"""Options that a node consumes, with their defaults; their values are frozen in the plan."""

_UNKNOWN: Json = {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}


class _Lowering:
    """Makes the nodes of a plan."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.ttl = parse_ttl(options.get("table.exec.state.ttl", "0 ms"))
        self.catalog_objects = options.get("table.plan.compile.catalog-objects", "ALL").upper()
        self.share = options.get("table.optimizer.reuse-sub-plan-enabled", "true").lower() == "true"
        self.share_scans = self.share and options.get("table.optimizer.reuse-source-enabled", "true").lower() == "true"
        self.nodes: list[ExecNode] = []
        self.edges: list[tuple[int, int]] = []
        self.known: dict[str, int] = {}

    def lower(self, node: Physical) -> int:
        """Adds ``node`` and what is below it; returns its id."""
        inputs = [self.lower(i) for i in node.inputs]
        what = execution_type(node)
        kind, fields = _NODES[what]
        python = is_python(node.rel)
        if python:
            kind = kind.replace("-exec-", "-exec-python-")
        data: Json = {"type": kind}
        configuration = None if python else _CONFIGURATION.get(what)
        if configuration:
            data["configuration"] = {k: self.options.get(k, default) for k, default in configuration}
        data |= fields(self, node)
        if inputs:
            data["inputProperties"] = _input_properties(node.rel)
        data["outputType"] = rel_type(node.rel).to_json()
        data["description"] = describe(node)
        shareable = self.share_scans if isinstance(node.rel, Scan) else self.share and not isinstance(node.rel, Sink)
        key = json.dumps([nameless(data, node.rel), inputs, node.update])
        if shareable and key in self.known:
            return self.known[key]
        number = len(self.nodes) + 1
        made, _ = node_from_json({"id": number, **data})
        self.nodes.append(made)
        self.edges += [(i, number) for i in inputs]
        self.known[key] = number
        return number

    # nodes

    def scan(self, node: Physical) -> Json:
        assert isinstance(node.rel, Scan)
        return {"scanTableSource": self.source(node.rel)}

    def source(self, rel: Scan) -> Json:
        """A table to read, with what was pushed into it."""
        source: Json = {"table": self.table(rel.table)}
        abilities: list[Json] = []
        for ability in rel.abilities:
            if isinstance(ability, FilterAbility):
                abilities.append({"type": "FilterPushDown", "predicates": [p.to_json() for p in ability.predicates]})
            elif isinstance(ability, PartitionAbility):
                chosen = [dict(p) for p in ability.partitions]
                abilities.append({"type": "PartitionPushDown", "partitions": chosen})
            elif isinstance(ability, LimitAbility):
                abilities.append({"type": "LimitPushDown", "limit": ability.limit})
            else:
                abilities += _projection(ability)
        if abilities:
            source["abilities"] = abilities
        return source

    def calc(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, Calc)
        if rel.python:
            return {"projection": [e.to_json() for e in rel.exprs]}
        return {
            "projection": [e.to_json() for e in rel.exprs],
            "condition": None if rel.condition is None else rel.condition.to_json(),
        }

    def exchange(self, node: Physical) -> Json:
        return {}

    def temporal_join(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, TemporalJoin)
        width = rel.left.width
        pairs = equi_keys(rel.condition, width)
        rest: Rex = and_(t for t in conjunctions(rel.condition) if not is_equi_key(t, width))
        if not is_always_true(rest):
            # Flink has TRUE where it took out the condition on time.
            rest = call("AND", [*conjunctions(rest), TRUE], rest.type)
        return {
            "joinSpec": {
                "joinType": rel.join_type,
                "leftKeys": [k for k, _ in pairs],
                "rightKeys": [k for _, k in pairs],
                "filterNulls": null_filters(rel.condition, width),
                "nonEquiCondition": None if is_always_true(rest) else rest.to_json(),
            },
            "isTemporalFunctionJoin": False,
            "leftTimeAttributeIndex": rel.left_time,
            "rightTimeAttributeIndex": rel.right_time,
            "state": [self.state(0, rel.left_ttl, "leftState"), self.state(1, rel.right_ttl, "rightState")],
        }

    def lookup_join(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, LookupJoin)
        keys: dict[int, Json] = {f: {"type": "FieldRef", "index": k} for f, k in rel.keys}
        for f, constant in rel.constants:
            source = rel.table.types[f].to_json()
            keys.setdefault(f, {"type": "Constant", "sourceType": source, "literal": constant.to_json()})
        out: Json = {"joinType": rel.join_type}
        if rel.before is not None:
            out["preFilterCondition"] = rel.before.to_json()
        calc = rel.calc
        condition = None if calc is None else calc.condition
        primary = rel.table.key
        out |= {
            "joinCondition": None if rel.rest is None else rel.rest.to_json(),
            "temporalTable": {
                "lookupTableSource": self.source(rel.table),
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
            out["state"] = [self.state(0, rel.ttl, "lookupJoinState")]
        return out | {"preferCustomShuffle": False}

    def watermark(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, WatermarkAssigner)
        return {"watermarkExpr": rel.watermark.to_json(), "rowtimeFieldIndex": rel.rowtime}

    def drop_update_before(self, node: Physical) -> Json:
        return {}

    def aggregate(self, node: Physical) -> Json:
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
            out["state"] = [self.state(0, rel.ttl, "groupAggregateState")]
        return out

    def phased(self, node: Physical) -> Json:
        return phased_fields(node, self.state)

    def deduplicate(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, Rank)
        return {
            "uniqueKeys": list(rel.partition),
            "isRowtime": rel.fields[rel.order[0][0]][1].kind == "ROWTIME",
            "keepLastRow": rel.keeps_last,
            "outputInsertOnly": node.is_insert_only,
            "generateUpdateBefore": node.generates_update_before,
            "state": [self.state(0, None, "deduplicateState")],
        }

    def rank(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, Rank)
        given: Json = {"type": "Constant", "start": rel.start, "end": rel.end}
        if rel.end_index is not None:
            given = {"type": "Variable", "endIndex": rel.end_index}
        return self.ranking(node, rel.partition, rel.order, given, rel.strategy, rel.rank_name is not None)

    def limit(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, Sort)
        given: Json = {"type": "Constant", "start": rel.offset + 1, "end": rel.offset + (rel.fetch or 0)}
        if isinstance(rel, SortLimit):
            strategy = rel.strategy
        else:
            strategy = RankStrategy("AppendFast" if node.input.is_insert_only else "Retract")
        return self.ranking(node, (), rel.order, given, strategy, False)

    def ranking(
        self,
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
            "orderBy": _sort_spec(order),
            "rankRange": given,
            "rankStrategy": how,
            "outputRowNumber": numbered,
            "generateUpdateBefore": node.generates_update_before,
            "state": [self.state(0, None, "rankState")],
        }

    def temporal_sort(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, TemporalSort)
        return {"orderBy": _sort_spec(rel.order)}

    def join(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, Join)
        width = rel.left.width
        pairs = equi_keys(rel.condition, width)
        rest: Rex = and_(t for t in conjunctions(rel.condition) if not is_equi_key(t, width))
        spec = {
            "joinType": rel.join_type,
            "leftKeys": [k for k, _ in pairs],
            "rightKeys": [k for _, k in pairs],
            "filterNulls": null_filters(rel.condition, width),
            "nonEquiCondition": None if is_always_true(rest) else rest.to_json(),
        }
        out: Json = {"joinSpec": spec}
        for side, name in enumerate(("leftUpsertKeys", "rightUpsertKeys")):
            keys = join_input_keys(rel.inputs[side], [p[side] for p in pairs])
            if keys:
                out[name] = [list(k) for k in keys]
        out["state"] = [self.state(0, rel.left_ttl, "leftState"), self.state(1, rel.right_ttl, "rightState")]
        return out

    def function_correlate(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, FunctionCorrelate)
        out = {"joinType": rel.join_type, "functionCall": rel.plan_call.to_json()}
        return out if rel.condition is None else {**out, "condition": rel.condition.to_json()}

    def multi_join(self, node: Physical) -> Json:
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
        out["state"] = [self.state(i, ttl, f"input-state-{i}") for i, ttl in enumerate(rel.ttls)]
        return out

    def changelog_function(self, node: Physical) -> Json:
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

    def normalize(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, ChangelogNormalize)
        out: Json = {
            "uniqueKeys": list(rel.key),
            "generateUpdateBefore": node.generates_update_before,
            "state": [self.state(0, None, "changelogNormalizeState")],
        }
        if rel.condition is not None:
            out["filterCondition"] = rel.condition.to_json()
        return out

    def values(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, Values)
        return {"tuples": [[value.to_json() for value in row] for row in rel.tuples]}

    def expand(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, Expand)
        return {"projects": [[e.to_json() for e in row] for row in rel.projects]}

    def union(self, node: Physical) -> Json:
        return {}

    def sink(self, node: Physical) -> Json:
        rel = node.rel
        assert isinstance(rel, Sink)
        target: Json = {"table": self.table(rel.table)}
        abilities = _sink_abilities(rel)
        if abilities:
            target["abilities"] = abilities
        if rel.targets is not None:
            target["targetColumns"] = [[i] for i in rel.targets]
        out: Json = {"dynamicTableSink": target, "inputChangelogMode": changelog_mode(node)}
        key = rel.upsert_key or smallest_key(upsert_keys(rel.input))
        if key is not None:
            out["inputUpsertKey"] = list(key)
        if rel.materialize:
            out["requireUpsertMaterialize"] = True
            out["state"] = [self.state(0, None, "sinkMaterializeState")]
        strategy = value(self.options, "table.exec.sink.upsert-materialize-strategy.type")
        if strategy != "LEGACY":
            out["upsertMaterializeStrategy"] = strategy
        if rel.conflict is not None:
            out["conflictStrategy"] = {"behavior": rel.conflict}
        return out

    # parts

    def state(self, index: int, ttl: int | None, name: str) -> Json:
        return {"index": index, "ttl": format_ttl(self.ttl if ttl is None else ttl), "name": name}

    def table(self, table: CatalogTable) -> Json:
        """The table as the option ``table.plan.compile.catalog-objects`` wants it in the plan."""
        out: Json = {"identifier": str(table.identifier)}
        if table.temporary or self.catalog_objects == "IDENTIFIER":
            return out
        resolved: Json = {"schema": _schema(table.schema)}
        if table.distribution is not None:
            resolved["distribution"] = table.distribution.to_json()
        if table.partition_keys:
            resolved["partitionKeys"] = list(table.partition_keys)
        if self.catalog_objects == "ALL":
            if table.comment:
                resolved["comment"] = table.comment
            resolved["options"] = dict(sorted(table.options.items()))
        out["resolvedTable"] = resolved
        return out


_NODES: dict[type[Rel], tuple[str, Callable[[_Lowering, Physical], Json]]] = {
    Scan: ("stream-exec-table-source-scan_2", _Lowering.scan),
    Calc: ("stream-exec-calc_1", _Lowering.calc),
    ChangelogFunction: ("stream-exec-process-table-function_1", _Lowering.changelog_function),
    Exchange: ("stream-exec-exchange_1", _Lowering.exchange),
    Aggregate: ("stream-exec-group-aggregate_1", _Lowering.aggregate),
    LocalAggregate: ("stream-exec-local-group-aggregate_1", _Lowering.phased),
    GlobalAggregate: ("stream-exec-global-group-aggregate_1", _Lowering.phased),
    IncrementalAggregate: ("stream-exec-incremental-group-aggregate_1", _Lowering.phased),
    MiniBatchAssigner: ("stream-exec-mini-batch-assigner_1", _Lowering.phased),
    Deduplicate: ("stream-exec-deduplicate_1", _Lowering.deduplicate),
    Rank: ("stream-exec-rank_1", _Lowering.rank),
    Limit: ("stream-exec-limit_1", _Lowering.limit),
    SortLimit: ("stream-exec-sort-limit_1", _Lowering.limit),
    TemporalSort: ("stream-exec-temporal-sort_1", _Lowering.temporal_sort),
    Join: ("stream-exec-join_1", _Lowering.join),
    FunctionCorrelate: ("stream-exec-correlate_1", _Lowering.function_correlate),
    MultiJoin: ("stream-exec-multi-join_1", _Lowering.multi_join),
    Union: ("stream-exec-union_1", _Lowering.union),
    Values: ("stream-exec-values_1", _Lowering.values),
    Expand: ("stream-exec-expand_1", _Lowering.expand),
    ChangelogNormalize: ("stream-exec-changelog-normalize_1", _Lowering.normalize),
    TemporalJoin: ("stream-exec-temporal-join_1", _Lowering.temporal_join),
    LookupJoin: ("stream-exec-lookup-join_1", _Lowering.lookup_join),
    WatermarkAssigner: ("stream-exec-watermark-assigner_1", _Lowering.watermark),
    DropUpdateBefore: ("stream-exec-drop-update-before_1", _Lowering.drop_update_before),
    Sink: ("stream-exec-sink_2", _Lowering.sink),
}


def _sort_spec(order: Order) -> Json:
    return {"fields": [{"index": i, "isAscending": a, "nullIsLast": last} for i, a, last in order]}


def _input_properties(rel: Rel) -> list[Json]:
    if isinstance(rel, Exchange):
        return [{**_UNKNOWN, "requiredDistribution": _distribution(rel.keys)}]
    if isinstance(rel, MultiJoin):
        return [
            {**_UNKNOWN, "requiredDistribution": _distribution(keys), "priority": i}
            for i, keys in enumerate(common_keys(rel))
        ]
    return [_UNKNOWN] * len(rel.inputs)


def _distribution(keys: Sequence[int]) -> Json:
    return {"type": "HASH", "keys": list(keys)} if keys else {"type": "SINGLETON"}


def _attribute(left_input: int, left_field: int, right_input: int, right_field: int) -> Json:
    return {
        "leftInputId": left_input,
        "leftFieldIndex": left_field,
        "rightInputId": right_input,
        "rightFieldIndex": right_field,
    }


def _sink_abilities(rel: Sink) -> list[Json]:
    """What the table is told of how it is written, in Flink's order."""
    out: list[Json] = []
    if rel.table.distribution is not None:
        out.append({"type": "Bucketing"})
    if rel.overwrite:
        out.append({"type": "Overwrite", "overwrite": True})
    if rel.metadata:
        consumed = [(c.name, c.type) for c in rel.table.schema.physical] + [(key, t) for key, t in rel.metadata]
        out.append(
            {
                "type": "WritingMetadata",
                "metadataKeys": [key for key, _ in rel.metadata],
                "consumedType": row_type(consumed, nullable=False).to_json(),
            }
        )
    if rel.partition:
        out.append({"type": "Partitioning", "partition": dict(rel.partition)})
    return out


def _projection(ability: ProjectAbility) -> list[Json]:
    """``ProjectPushDown`` and ``ReadingMetadata``, as one projection of a source is written."""
    out: list[Json] = []
    if ability.projects:
        columns = list(ability.produced if ability.merged else ability.produced[: len(ability.physical)])
        out.append(
            {
                "type": "ProjectPushDown",
                "projectedFields": [[i] for i in ability.physical],
                "producedType": row_type(columns, nullable=False).to_json(),
            }
        )
    out.append(
        {
            "type": "ReadingMetadata",
            "metadataKeys": list(ability.metadata),
            "producedType": row_type(list(ability.produced), nullable=False).to_json(),
        }
    )
    return out


def _schema(schema: TableSchema) -> Json:
    out: Json = {"columns": [_column(c) for c in schema.columns]}
    if schema.watermarks:
        out["watermarkSpecs"] = [
            {"rowtimeAttribute": w.column, "expression": _expression(w.rex, w.expression_sql)}
            for w in schema.watermarks
        ]
    if schema.primary_key:
        name = schema.primary_key_name or "PK_" + "_".join(schema.primary_key)
        out["primaryKey"] = {"name": name, "type": "PRIMARY_KEY", "columns": list(schema.primary_key)}
    return out


def _column(column: Column) -> Json:
    out: Json = {"name": column.name}
    if column.comment is not None:
        out["comment"] = column.comment
    if column.is_computed:
        return out | {"kind": "COMPUTED", "expression": _expression(column.rex, column.expression_sql)}
    if column.is_metadata:
        out |= {"kind": "METADATA", "dataType": column.type.to_json()}
        if column.metadata_key is not None:
            out["metadataKey"] = column.metadata_key
        return out | {"isVirtual": column.virtual}
    return out | {"dataType": column.type.to_json()}


def _expression(rex: Rex | None, text: str | None) -> Json:
    return {"rexNode": None if rex is None else rex.to_json(), "serializableString": text or ""}


def lower(plans: Sequence[Physical], options: Mapping[str, str]) -> ExecGraph:
    """The exec graph of the sinks ``plans``, whose equal sub-plans become one."""
    lowering = _Lowering(options)
    for plan in plans:
        lowering.lower(plan)
    return ExecGraph(FLINK_VERSION, lowering.nodes, lowering.edges)
