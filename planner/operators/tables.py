"""Tables as plans have them: their sources and sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stateplan.common.changelog import RowKind
from stateplan.common.options import WATERMARK_OPTIONS, parse_value
from stateplan.common.redaction import redacted_value
from stateplan.common.settings import value
from stateplan.common.types import row_type
from stateplan.connectors.registry import find_connector, source_changelog_mode, source_gives_key_deletes
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.sink import Sink as SinkNode
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import (
    Bucketing,
    ConflictStrategy,
    DynamicTableSink,
    DynamicTableSource,
    FilterPushDown,
    LimitPushDown,
    Overwrite,
    Partitioning,
    PartitionPushDown,
    ProjectPushDown,
    ReadingMetadata,
    SinkAbility,
    SourceAbility,
    WatermarkParams,
    WatermarkPushDown,
    WritingMetadata,
)
from stateplan.execnodes.windows import format_duration
from stateplan.planner.algebra.base import InputHint
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
    WatermarkAbility,
    field_names,
)
from stateplan.planner.catalog.resolved_tables import context_resolved_table
from stateplan.planner.digest.expressions import Notation, physical_expression
from stateplan.planner.metadata.unique_keys import smallest_key, upsert_keys
from stateplan.planner.operators.base import Lowering, Operator
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind, changelog_mode, kinds_of


def scan_arguments(scan: Scan) -> list[str]:
    """``filter=[...]``, ``project=[...]``, ``metadata=[...]`` and ``limit=[...]`` of a scan."""
    out = []
    for ability in scan.abilities:
        if isinstance(ability, FilterAbility):
            text = ""
            for p in ability.predicates:
                ability_text = physical_expression(p, ability.names)
                text = ability_text if not text else f"and({text}, {ability_text})"
            out.append(f"filter=[{text}]")
            continue
        if isinstance(ability, LimitAbility):
            out.append(f"limit=[{ability.limit}]")
            continue
        if isinstance(ability, PartitionAbility):
            ability_text = ", ".join(
                "{" + ", ".join(f"{k}={v or 'null'}" for k, v in p) + "}" for p in ability.partitions
            )
            out.append(f"partitions=[{ability_text}]")
            continue
        if isinstance(ability, WatermarkAbility):
            out += watermark_arguments(ability)
            continue
        columns = [c.name for c in scan.table.schema.physical]
        if ability.projects:
            read = [n for n, _ in ability.output_fields] if ability.is_union else [columns[i] for i in ability.physical]
            out.append(f"project=[{', '.join(read)}]")
        if reads_metadata(scan):
            out.append(f"metadata=[{', '.join(ability.metadata)}]")
    return out


def watermark_params(ability: WatermarkAbility) -> WatermarkParams:
    """What the options ``scan.watermark.*`` of a table say, as plans write it."""
    watermark_options = dict(ability.options)

    def millis(key: str, default: int) -> int:
        option = next(o for o in WATERMARK_OPTIONS if o.key == f"scan.watermark.{key}")
        duration = parse_value(option, watermark_options[key]) if key in watermark_options else default
        assert isinstance(duration, int)
        return duration

    return WatermarkParams(
        emit_strategy=watermark_options.get("emit.strategy", "on-periodic").upper().replace("-", "_"),
        align_group_name=watermark_options.get("alignment.group"),
        align_max_drift=format_duration(millis("alignment.max-drift", 0)),
        align_update_interval=format_duration(millis("alignment.update-interval", 1000)),
        source_idle_timeout=millis("idle-timeout", -1),
    )


def watermark_arguments(ability: WatermarkAbility) -> list[str]:
    """``watermark=[...]`` and what follows it in a scan that makes watermarks.

    Source: Flink's ``WatermarkPushDownSpec.getDigests``.
    """
    params = watermark_params(ability)
    out = [f"watermark=[{physical_expression(ability.watermark, ability.names)}]"]
    idle = params.source_idle_timeout if params.source_idle_timeout > 0 else ability.idle_timeout
    if idle > 0:
        out.append(f"idletimeout=[{idle}]")
    strategy = (params.emit_strategy or "").lower().replace("_", "-")
    out.append(f"watermarkEmitStrategy=[{strategy}]")
    if params.align_group_name is not None:
        drift, interval = params.align_max_drift, params.align_update_interval
        out.append(f"watermarkAlignment=[{params.align_group_name}, {drift}, {interval}]")
    return out


class ScanOperator(Operator[Scan], of=Scan, node=TableSourceScan):
    def describe(self, rel: Scan, node: Physical, notation: Notation) -> list[str]:
        out = [
            f"table=[[{', '.join([*rel.table.identifier.parts, *scan_arguments(rel)])}]]",
            f"fields=[{', '.join(rel.names)}]",
        ]
        hints = []
        if rel.hints:
            options = ", ".join(f"{k}={redacted_value(k, v)}" for k, v in rel.hints)
            hints.append(f"[OPTIONS options:{{{options}}}]")
        if rel.alias is not None:
            hints.append(f"[ALIAS options:[{rel.alias}]]")
        if hints:
            out.append(f"hints=[[{''.join(hints)}]]")
        return out

    def lower(self, rel: Scan, node: Physical, lowering: Lowering) -> ExecNode:
        return TableSourceScan(**self.common(rel, node, lowering), scan_table_source=table_source(lowering, rel))

    def provided(self, rel: Scan, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return kinds_of(source_changelog_mode(rel.table.options))

    def update(self, rel: Scan, node: Physical, required_kind: UpdateKind) -> Physical | None:
        if required_kind == "NONE":
            return replace(node, update=required_kind)
        old_rows = RowKind.UPDATE_BEFORE in source_changelog_mode(rel.table.options)
        if not old_rows:
            return replace(node, update=required_kind) if required_kind == "ONLY_UPDATE_AFTER" else None
        full_updates = replace(node, update="BEFORE_AND_AFTER")
        if required_kind == "BEFORE_AND_AFTER":
            return full_updates
        return Physical(DropUpdateBefore(rel), (full_updates,), node.kinds, required_kind)

    def delete(self, rel: Scan, node: Physical, required_kind: DeleteKind) -> Physical | None:
        kind: DeleteKind = "DELETE_BY_KEY" if source_gives_key_deletes(rel.table.options) else "FULL_DELETE"
        return replace(node, delete=kind if "DELETE" in node.kinds else "NONE")

    def distribute(self, rel: Scan, inputs: Sequence[Rel]) -> Rel:
        if rel.normalized is None:
            return rel
        assert rel.key is not None
        reads_metadata = rel.projection is not None and bool(rel.projection.metadata)
        needs_normalization = rel.normalized == "duplicates" or reads_metadata
        return ChangelogNormalize(Exchange(rel, rel.key), rel.key, is_required=needs_normalization)


def table_source(lowering: Lowering, rel: Scan) -> DynamicTableSource:
    """A table to read, with what was pushed into it."""
    abilities: list[SourceAbility] = []
    for ability in rel.abilities:
        if isinstance(ability, FilterAbility):
            abilities.append(FilterPushDown(predicates=ability.predicates))
        elif isinstance(ability, PartitionAbility):
            abilities.append(PartitionPushDown(partitions=tuple(dict(p) for p in ability.partitions)))
        elif isinstance(ability, LimitAbility):
            abilities.append(LimitPushDown(limit=ability.limit))
        elif isinstance(ability, WatermarkAbility):
            abilities.append(
                WatermarkPushDown(
                    watermark_expr=ability.watermark,
                    idle_timeout_millis=ability.idle_timeout,
                    produced_type=row_type(list(ability.output_fields), nullable=False),
                    watermark_params=watermark_params(ability),
                )
            )
        else:
            abilities += _projection(ability, reads_metadata(rel))
    table = context_resolved_table(rel.table, lowering.catalog_objects)
    return DynamicTableSource(table=table, abilities=tuple(abilities))


class SinkOperator(Operator[Sink], of=Sink, node=SinkNode):
    options = (
        "table.exec.sink.keyed-shuffle",
        "table.exec.sink.not-null-enforcer",
        "table.exec.sink.rowtime-inserter",
        "table.exec.sink.type-length-enforcer",
        "table.exec.sink.upsert-materialize",
    )

    def describe(self, rel: Sink, node: Physical, notation: Notation) -> list[str]:
        out = [f"table=[{rel.table.identifier.summary}]"]
        if rel.targets is not None:
            out.append("targetColumns=[" + ",".join(f"[{i}]" for i in rel.targets) + "]")
        out.append(f"fields=[{', '.join(field_names(rel.input))}]")
        if rel.materialize:
            out.append("upsertMaterialize=[true]")
        if rel.conflict is not None:
            out.append(f"conflictStrategy=[{rel.conflict}]")
        return out

    def lower(self, rel: Sink, node: Physical, lowering: Lowering) -> ExecNode:
        strategy = value(lowering.options, "table.exec.sink.upsert-materialize-strategy.type")
        return SinkNode(
            **self.common(rel, node, lowering),
            dynamic_table_sink=DynamicTableSink(
                table=context_resolved_table(rel.table, lowering.catalog_objects),
                abilities=tuple(_sink_abilities(rel)),
                target_columns=None if rel.targets is None else tuple((i,) for i in rel.targets),
            ),
            input_changelog_mode=changelog_mode(node),
            input_upsert_key=rel.upsert_key or smallest_key(upsert_keys(rel.input)),
            require_upsert_materialize=rel.materialize,
            upsert_materialize_strategy=None if strategy == "LEGACY" else strategy,
            conflict_strategy=None if rel.conflict is None else ConflictStrategy(behavior=rel.conflict),
        )

    def state_hints(self, rel: Sink) -> Sequence[InputHint | None]:
        return (None,) if rel.materialize else ()


def _sink_abilities(rel: Sink) -> Iterator[SinkAbility]:
    """The abilities with which a table is written, in Flink's order."""
    if rel.table.distribution is not None:
        yield Bucketing()
    if rel.overwrite:
        yield Overwrite(overwrite=True)
    if rel.metadata:
        consumed = [(c.name, c.type) for c in rel.table.schema.physical] + [(key, t) for key, t in rel.metadata]
        yield WritingMetadata(
            metadata_keys=tuple(key for key, _ in rel.metadata), consumed_type=row_type(consumed, nullable=False)
        )
    if rel.partition:
        yield Partitioning(partition=dict(rel.partition))


def reads_metadata(scan: Scan) -> bool:
    """Whether the source of a scan learns which metadata to read (``SupportsReadingMetadata``)."""
    return "ReadingMetadata" in find_connector(scan.table.options).abilities


def _projection(ability: ProjectAbility, metadata: bool) -> Iterator[SourceAbility]:
    """``ProjectPushDown`` and, with ``metadata``, ``ReadingMetadata``, as one projection of a source is written."""
    if ability.projects:
        columns = list(ability.output_fields if ability.is_union else ability.output_fields[: len(ability.physical)])
        yield ProjectPushDown(
            projected_fields=tuple((i,) for i in ability.physical), produced_type=row_type(columns, nullable=False)
        )
    if metadata:
        yield ReadingMetadata(
            metadata_keys=ability.metadata, produced_type=row_type(list(ability.output_fields), nullable=False)
        )
