"""Tables as plans have them: their sources and sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.execnodes.changelog import RowKind
from stateplan.execnodes.connectors.registry import source_changelog_mode, source_gives_key_deletes
from stateplan.execnodes.rex import Rex
from stateplan.execnodes.settings import value
from stateplan.execnodes.types import row_type
from stateplan.planner.algebra.relations import (
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    FilterAbility,
    LimitAbility,
    PartitionAbility,
    ProjectAbility,
    Rel,
    Scan,
    Sink,
    field_names,
)
from stateplan.planner.catalog.objects import CatalogTable, Column, TableSchema
from stateplan.planner.digest.expressions import (
    physical_expression,
)
from stateplan.planner.metadata.unique_keys import smallest_key, upsert_keys
from stateplan.planner.operators.base import (
    Json,
    Lowering,
    Operator,
)
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind, changelog_mode, kinds_of


def scan_arguments(scan: Scan) -> list[str]:
    """``filter=[...]``, ``project=[...]``, ``metadata=[...]`` and ``limit=[...]`` of a scan."""
    out = []
    for ability in scan.abilities:
        if isinstance(ability, FilterAbility):
            text = ""
            for p in ability.predicates:
                shown = physical_expression(p, ability.names)
                text = shown if not text else f"and({text}, {shown})"
            out.append(f"filter=[{text}]")
            continue
        if isinstance(ability, LimitAbility):
            out.append(f"limit=[{ability.limit}]")
            continue
        if isinstance(ability, PartitionAbility):
            shown = ", ".join("{" + ", ".join(f"{k}={v or 'null'}" for k, v in p) + "}" for p in ability.partitions)
            out.append(f"partitions=[{shown}]")
            continue
        columns = [c.name for c in scan.table.schema.physical]
        if ability.projects:
            read = [n for n, _ in ability.produced] if ability.merged else [columns[i] for i in ability.physical]
            out.append(f"project=[{', '.join(read)}]")
        out.append(f"metadata=[{', '.join(ability.metadata)}]")
    return out


class ScanOperator(Operator[Scan], of=Scan):
    name = "TableSourceScan"
    node = "stream-exec-table-source-scan_2"

    def describe(self, rel: Scan, node: Physical) -> list[str]:
        out = [
            f"table=[[{', '.join([*rel.table.identifier.parts, *scan_arguments(rel)])}]]",
            f"fields=[{', '.join(rel.names)}]",
        ]
        hints = []
        if rel.hints:
            options = ", ".join(f"{k}={v}" for k, v in rel.hints)
            hints.append(f"[OPTIONS options:{{{options}}}]")
        if rel.alias is not None:
            hints.append(f"[ALIAS options:[{rel.alias}]]")
        if hints:
            out.append(f"hints=[[{''.join(hints)}]]")
        return out

    def lower(self, rel: Scan, node: Physical, lowering: Lowering) -> Json:
        return {"scanTableSource": table_source(lowering, rel)}

    def provided(self, rel: Scan, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return kinds_of(source_changelog_mode(rel.table.options))

    def update(self, rel: Scan, node: Physical, required: UpdateKind) -> Physical | None:
        if required == "NONE":
            return replace(node, update=required)
        old_rows = RowKind.UPDATE_BEFORE in source_changelog_mode(rel.table.options)
        if not old_rows:
            return replace(node, update=required) if required == "ONLY_UPDATE_AFTER" else None
        whole = replace(node, update="BEFORE_AND_AFTER")
        if required == "BEFORE_AND_AFTER":
            return whole
        return Physical(DropUpdateBefore(rel), (whole,), node.kinds, required)

    def delete(self, rel: Scan, node: Physical, required: DeleteKind) -> Physical | None:
        kind: DeleteKind = "DELETE_BY_KEY" if source_gives_key_deletes(rel.table.options) else "FULL_DELETE"
        return replace(node, delete=kind if "DELETE" in node.kinds else "NONE")

    def distribute(self, rel: Scan, inputs: Sequence[Rel]) -> Rel:
        if rel.normalized is None:
            return rel
        assert rel.key is not None
        reads_metadata = rel.projection is not None and bool(rel.projection.metadata)
        required = rel.normalized == "duplicates" or reads_metadata
        return ChangelogNormalize(Exchange(rel, rel.key), rel.key, required=required)


def table_source(lowering: Lowering, rel: Scan) -> Json:
    """A table to read, with what was pushed into it."""
    source: Json = {"table": _table(lowering, rel.table)}
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


class SinkOperator(Operator[Sink], of=Sink):
    name = "Sink"
    node = "stream-exec-sink_2"
    options = (
        ("table.exec.sink.keyed-shuffle", "AUTO"),
        ("table.exec.sink.not-null-enforcer", "ERROR"),
        ("table.exec.sink.rowtime-inserter", "ENABLED"),
        ("table.exec.sink.type-length-enforcer", "IGNORE"),
        ("table.exec.sink.upsert-materialize", "AUTO"),
    )
    waits_for_mini_batches = False

    def describe(self, rel: Sink, node: Physical) -> list[str]:
        out = [f"table=[{rel.table.identifier.summary}]"]
        if rel.targets is not None:
            out.append("targetColumns=[" + ",".join(f"[{i}]" for i in rel.targets) + "]")
        out.append(f"fields=[{', '.join(field_names(rel.input))}]")
        if rel.materialize:
            out.append("upsertMaterialize=[true]")
        if rel.conflict is not None:
            out.append(f"conflictStrategy=[{rel.conflict}]")
        return out

    def lower(self, rel: Sink, node: Physical, lowering: Lowering) -> Json:
        target: Json = {"table": _table(lowering, rel.table)}
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
            out["state"] = [lowering.state(0, None, "sinkMaterializeState")]
        strategy = value(lowering.options, "table.exec.sink.upsert-materialize-strategy.type")
        if strategy != "LEGACY":
            out["upsertMaterializeStrategy"] = strategy
        if rel.conflict is not None:
            out["conflictStrategy"] = {"behavior": rel.conflict}
        return out


def _table(lowering: Lowering, table: CatalogTable) -> Json:
    """The table as the option ``table.plan.compile.catalog-objects`` wants it in the plan."""
    out: Json = {"identifier": str(table.identifier)}
    if table.temporary or lowering.catalog_objects == "IDENTIFIER":
        return out
    resolved: Json = {"schema": _schema(table.schema)}
    if table.distribution is not None:
        resolved["distribution"] = table.distribution.to_json()
    if table.partition_keys:
        resolved["partitionKeys"] = list(table.partition_keys)
    if lowering.catalog_objects == "ALL":
        if table.comment:
            resolved["comment"] = table.comment
        resolved["options"] = dict(sorted(table.options.items()))
    out["resolvedTable"] = resolved
    return out


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
