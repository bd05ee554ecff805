"""The parts of exec nodes: state metadata, distributions, aggregate calls, joins, tables and abilities.

Source: the classes of the same names in Flink's ``org.apache.flink.table.planner.plan.nodes.exec`` and its ``spec``
package. Keys are written as Flink 2.3 writes them: what is empty there is omitted here. Older plans, which wrote empty
lists, read the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator, PrivateAttr, WithJsonSchema, model_validator

from stateplan.common.errors import PlanError, StateplanError, nearest, one_of
from stateplan.common.ttl import StateVisibility, TtlConfig, TtlTimeCharacteristic, UpdateType, format_ttl, parse_ttl
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import ALL_INPUTS, Ref
from stateplan.execnodes.model import (
    ALWAYS,
    COSMETIC,
    NULL_IS_EMPTY,
    Flag,
    Index,
    JsonObject,
    OptionText,
    PlanModel,
    RexField,
    RowTypeField,
    Text,
    TypeField,
    custom_error,
    value_text,
)

if TYPE_CHECKING:
    from stateplan.functions.user import UserFunction

JoinType = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]
OuterJoinType = Literal["INNER", "LEFT"]
ConflictBehavior = Literal["ERROR", "NOTHING", "DEDUPLICATE"]
ChangelogKind = Literal["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "~DELETE"]
"""``~DELETE`` is a DELETE of which only the key is right."""


def _read_ttl(value: Any) -> int:
    try:
        return parse_ttl(value)
    except StateplanError as error:
        raise custom_error(error) from None


def _read_state_index(value: Any) -> int:
    if isinstance(value, str) and value.strip().isdecimal() and value.isascii() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise custom_error(PlanError("PLAN060", shown=value_text(value)))
    return value


def _read_state_name(value: Any) -> str:
    if not isinstance(value, str):
        raise custom_error(PlanError("PLAN058", shown=value_text(value)))
    return value


def _read_predicate(value: Any) -> str:
    if not isinstance(value, str) or value.lower() != "lookup_miss":
        names = "'lookup_miss'"
        raise custom_error(PlanError("PLAN046", what="the predicate", shown=value_text(value), names=names))
    return value


TtlField = Annotated[
    int,
    PlainValidator(_read_ttl),
    PlainSerializer(format_ttl),
    WithJsonSchema({"type": ["string", "integer"], "title": "TTL"}),
]


class StateMetadata(PlanModel):
    """How long one state of a node lives (FLIP-292), and how its age is counted (FLIP-25, not read by Flink).

    ``ttl`` is in milliseconds, 0 for never; the JSON has it as text such as ``1 h``. So is ``min_ttl``, the shortest
    one that a state budget may set.
    """

    index: Annotated[
        int, PlainValidator(_read_state_index), WithJsonSchema({"type": "integer", "minimum": 0}), ALWAYS
    ] = 0
    ttl: TtlField
    name: Annotated[str, PlainValidator(_read_state_name), WithJsonSchema({"type": "string"})]
    update_type: Literal["OnCreateAndWrite", "OnReadAndWrite"] | None = None
    visibility: Literal["NeverReturnExpired", "ReturnExpiredIfNotCleanedUp"] | None = None
    time_characteristic: Literal["ProcessingTime", "EventTime"] | None = None
    min_ttl: TtlField | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object, TTLs in the largest unit that divides them."""
        floor = {} if self.min_ttl is None else {"minTtl": format_ttl(self.min_ttl)}
        return {**super().to_json(), "ttl": format_ttl(self.ttl), **floor}

    def ttl_config(self, ttl: int) -> TtlConfig:
        """How the state ages that lives for ``ttl`` milliseconds."""
        default = TtlConfig()
        return TtlConfig(
            ttl,
            UpdateType(self.update_type or default.update_type),
            StateVisibility(self.visibility or default.visibility),
            TtlTimeCharacteristic(self.time_characteristic or default.time_characteristic),
        )


class RequiredDistribution(PlanModel):
    """How a node wants its input spread: by hash of the fields ``keys``, on one task, or as it is."""

    type: Literal["UNKNOWN", "ANY", "SINGLETON", "BROADCAST", "HASH", "KEEP_INPUT_AS_IS"] = Field(default=...)
    keys: Annotated[tuple[Index, ...], NULL_IS_EMPTY] = ()
    input_distribution: RequiredDistribution | None = None
    strict: Flag | None = None


class InputProperty(PlanModel):
    """What a node requires of one input."""

    required_distribution: Annotated[RequiredDistribution, ALWAYS] = RequiredDistribution(type="UNKNOWN")
    dam_behavior: Annotated[Literal["PIPELINED", "END_INPUT", "BLOCKING"], ALWAYS] = "PIPELINED"
    priority: Annotated[Index, ALWAYS] = 0


def hash_distribution(keys: tuple[int, ...], priority: int = 0) -> InputProperty:
    """Hash distribution by ``keys``; on one task when there are none."""
    distribution = RequiredDistribution(type="HASH" if keys else "SINGLETON", keys=keys)
    return InputProperty(required_distribution=distribution, priority=priority)


class AggCall(PlanModel):
    """One aggregate function over the fields ``arg_list`` of the input (none for ``COUNT(*)``).

    Exactly one of ``internal_name`` (built-in, ``$NAME$VERSION``), ``system_name`` or ``catalog_name``
    identifies the function. ``filter_arg`` is a BOOLEAN field of the input, -1 for none."""

    name: Annotated[Text | None, ALWAYS, COSMETIC] = None
    syntax: Text | None = None
    internal_name: Text | None = None
    system_name: Text | None = None
    catalog_name: Text | None = None
    arg_list: Annotated[tuple[Index, ...], ALWAYS, Ref()] = ()
    filter_arg: Annotated[int, Field(strict=True, ge=-1), ALWAYS, Ref()] = -1
    distinct: Annotated[Flag, ALWAYS] = False
    approximate: Annotated[Flag, ALWAYS] = False
    ignore_nulls: Annotated[Flag, ALWAYS] = False
    type: TypeField

    @model_validator(mode="after")
    def _one_function(self) -> AggCall:
        if sum(n is not None for n in (self.internal_name, self.system_name, self.catalog_name)) != 1:
            raise custom_error(PlanError("PLAN044.unnamed_function"))
        return self

    _user: Any = PrivateAttr(default=None)

    @property
    def user_function(self) -> UserFunction | None:
        """The user-defined function of a system or catalog name, once it is known."""
        function: UserFunction | None = self._user
        return function

    def with_user_function(self, function: UserFunction) -> AggCall:
        """This call, of ``function``."""
        call = self.model_copy()
        call._user = function  # noqa: SLF001 - of the same class
        return call

    @property
    def function(self) -> str:
        """The plain function name: ``$COUNT$1`` is ``COUNT``, ``$$SUM0$1`` is ``$SUM0``."""
        if self.internal_name is not None:
            body = self.internal_name[1:]
            return body.rpartition("$")[0] or body
        return self.system_name or self.catalog_name or ""


class RetryOptions(PlanModel):
    """How rows that found nothing are looked up again: ``max_attempts`` times, ``fixed_delay`` ms before each.

    Source: FLIP-234, and Flink's ``RetryLookupOptions``, whose keys are those of the LOOKUP hint.
    """

    retry_predicate: Annotated[Text, PlainValidator(_read_predicate), Field(alias="retry-predicate")]
    retry_strategy: Annotated[Literal["FIXED_DELAY"], Field(alias="retry-strategy")]
    fixed_delay: Annotated[int, Field(strict=True, gt=0, alias="fixed-delay")]
    max_attempts: Annotated[int, Field(strict=True, gt=0, alias="max-attempts")]

    @property
    def summary(self) -> str:
        """``lookup_miss, FIXED_DELAY, 10000ms, 3``."""
        return f"{self.retry_predicate}, {self.retry_strategy}, {self.fixed_delay}ms, {self.max_attempts}"

    @property
    def text(self) -> str:
        """``3 times after 10 s``."""
        return f"{self.max_attempts} times after {format_ttl(self.fixed_delay)}"


class JoinSpec(PlanModel):
    """Equi-join keys by position, and a further condition over left ++ right.

    ``filter_nulls`` says per key whether a NULL key never matches.
    """

    join_type: JoinType
    left_keys: Annotated[tuple[Index, ...], Ref(0)]
    right_keys: Annotated[tuple[Index, ...], Ref(1)]
    filter_nulls: tuple[Flag, ...]
    non_equi_condition: Annotated[RexField | None, ALWAYS, Ref(ALL_INPUTS)] = None

    @model_validator(mode="after")
    def _same_length(self) -> JoinSpec:
        left, right, nulls = len(self.left_keys), len(self.right_keys), len(self.filter_nulls)
        if not left == right == nulls:
            counts = f"{left} left keys, {right} right keys and {nulls} filterNulls"
            raise custom_error(PlanError("PLAN044.counts", title="a join", counts=counts))
        return self


class ColumnExpression(PlanModel):
    """An expression of a table's schema: for execution, and as SQL text."""

    rex_node: RexField
    serializable_string: Text


class Column(PlanModel):
    """A column of a table.

    Computed columns have an expression, the others a type; ``is_virtual`` metadata columns cannot be written.
    """

    name: Text
    comment: Text | None = None
    kind: Literal["PHYSICAL", "COMPUTED", "METADATA"] = "PHYSICAL"
    data_type: TypeField | None = None
    expression: ColumnExpression | None = None
    metadata_key: Text | None = None
    is_virtual: Flag | None = None

    @model_validator(mode="after")
    def _complete(self) -> Column:
        key, value = ("expression", self.expression) if self.kind == "COMPUTED" else ("dataType", self.data_type)
        if value is None:
            raise custom_error(PlanError("PLAN041.key_of_column", name=self.name, what=f'"{key}"'))
        return self

    @property
    def type(self) -> LogicalType:
        """The column's type; that of its expression when it is computed."""
        if self.data_type is not None:
            return self.data_type
        if self.expression is None:
            raise PlanError("PLAN041.key_of_column", name=self.name, what="type or expression")
        return self.expression.rex_node.type


class WatermarkSpec(PlanModel):
    """WATERMARK FOR ``rowtime_attribute`` AS ``expression``."""

    rowtime_attribute: Text
    expression: ColumnExpression


class PrimaryKey(PlanModel):
    """A PRIMARY KEY NOT ENFORCED."""

    name: Annotated[Text | None, ALWAYS] = None
    type: Annotated[Literal["PRIMARY_KEY", "UNIQUE_KEY"], ALWAYS] = "PRIMARY_KEY"
    columns: tuple[Text, ...]


class TableSchema(PlanModel):
    """Columns, watermarks and primary key of a table."""

    columns: tuple[Column, ...]
    watermark_specs: Annotated[tuple[WatermarkSpec, ...], NULL_IS_EMPTY] = ()
    primary_key: PrimaryKey | None = None

    @model_validator(mode="after")
    def _key_is_of_columns(self) -> Self:
        """As Flink's ``DefaultSchemaResolver`` demands."""
        physical = [c.name for c in self.columns if c.kind == "PHYSICAL"]
        for position, name in enumerate(self.primary_key.columns if self.primary_key else ()):
            if name not in physical:
                raise custom_error(
                    PlanError(
                        "PLAN074",
                        shown=value_text(name),
                        expected=one_of(physical[:20]) or "a table with physical columns",
                        hint=nearest(name, physical),
                    ),
                    f"/primaryKey/columns/{position}",
                )
        return self

    def column(self, name: str) -> Column | None:
        """The column called ``name``, or None."""
        return next((c for c in self.columns if c.name == name), None)


class Distribution(PlanModel):
    """DISTRIBUTED BY of a table."""

    kind: Literal["UNKNOWN", "HASH", "RANGE"]
    bucket_count: Index | None = None
    bucket_keys: Annotated[tuple[Text, ...], ALWAYS] = ()


class ResolvedTable(PlanModel):
    """A table as the catalog knew it when the plan was made.

    ``options`` is None when the plan was compiled with ``table.plan.compile.catalog-objects`` = SCHEMA.
    """

    table_schema: TableSchema = Field(alias="schema")
    distribution: Distribution | None = None
    partition_keys: Annotated[tuple[Text, ...], NULL_IS_EMPTY] = ()
    comment: Text | None = None
    options: Annotated[dict[str, OptionText] | None, Field(repr=False)] = None


def split_identifier(identifier: str) -> tuple[str, ...]:
    """The parts of a dotted identifier, without their back quotes."""
    parts, rest = [], identifier
    while rest:
        if rest.startswith("`"):
            end = rest.find("`", 1)
            while end >= 0 and rest.startswith("``", end):
                end = rest.find("`", end + 2)
            if end < 0:
                end = len(rest)
            part, rest = rest[1:end].replace("``", "`"), rest[end + 1 :]
        else:
            end = rest.find(".") if "." in rest else len(rest)
            part, rest = rest[:end], rest[end:]
        parts.append(part)
        rest = rest.removeprefix(".")
    return tuple(parts)


class ContextResolvedTable(PlanModel):
    """A table by its identifier, quoted and with dots.

    The definition is missing when the plan was compiled with ``table.plan.compile.catalog-objects`` =
    IDENTIFIER, and for a temporary table.
    """

    identifier: Text
    resolved_table: ResolvedTable | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """Catalog, database and table name."""
        return split_identifier(self.identifier)

    @property
    def summary(self) -> str:
        """The identifier without back quotes, as in messages."""
        return ".".join(self.path)


class ProjectPushDown(PlanModel):
    """The source produces only these fields; each is a path of positions into the physical columns."""

    type: Literal["ProjectPushDown"] = Field(default="ProjectPushDown")
    projected_fields: tuple[tuple[Index, ...], ...]
    produced_type: TypeField


class ReadingMetadata(PlanModel):
    """The source appends these metadata fields to its rows."""

    type: Literal["ReadingMetadata"] = "ReadingMetadata"
    metadata_keys: tuple[Text, ...]
    produced_type: TypeField


class FilterPushDown(PlanModel):
    """The source drops rows these predicates refuse; they refer to the produced row."""

    type: Literal["FilterPushDown"] = "FilterPushDown"
    predicates: tuple[RexField, ...]


class LimitPushDown(PlanModel):
    """The source may stop after this many rows."""

    type: Literal["LimitPushDown"] = "LimitPushDown"
    limit: Index


class PartitionPushDown(PlanModel):
    """The source reads only these partitions."""

    type: Literal["PartitionPushDown"] = "PartitionPushDown"
    partitions: tuple[dict[str, Text | None], ...]


class WatermarkParams(PlanModel):
    """Per-source watermark options, given by hint or table option."""

    emit_strategy: Annotated[Text | None, ALWAYS] = None
    align_group_name: Annotated[Text | None, ALWAYS] = None
    align_max_drift: Annotated[JsonObject | Text | int | None, ALWAYS] = None
    align_update_interval: Annotated[JsonObject | Text | int | None, ALWAYS] = None
    source_idle_timeout: Annotated[int, ALWAYS] = -1


class WatermarkPushDown(PlanModel):
    """The source makes the watermarks itself."""

    type: Literal["WatermarkPushDown"] = "WatermarkPushDown"
    watermark_expr: RexField
    idle_timeout_millis: int
    produced_type: TypeField
    watermark_params: WatermarkParams | None = None


class SourceWatermark(PlanModel):
    """The source emits the watermarks of its own system (``SOURCE_WATERMARK()``)."""

    type: Literal["SourceWatermark"] = "SourceWatermark"
    source_watermark_enabled: Flag
    produced_type: TypeField


class AggregatePushDown(PlanModel):
    """The source aggregates locally."""

    type: Literal["AggregatePushDown"] = "AggregatePushDown"
    input_type: TypeField
    grouping_sets: tuple[tuple[Index, ...], ...]
    aggregate_calls: tuple[AggCall, ...]
    produced_type: TypeField


class Overwrite(PlanModel):
    """INSERT OVERWRITE."""

    type: Literal["Overwrite"] = "Overwrite"
    overwrite: Flag


class Partitioning(PlanModel):
    """INSERT INTO ... PARTITION (...): the static partition."""

    type: Literal["Partitioning"] = "Partitioning"
    partition: dict[str, Text]


class WritingMetadata(PlanModel):
    """The sink takes these metadata fields after the physical ones."""

    type: Literal["WritingMetadata"] = "WritingMetadata"
    metadata_keys: tuple[Text, ...]
    consumed_type: TypeField


class Bucketing(PlanModel):
    """The sink distributes its rows over buckets (DISTRIBUTED BY of Flink's tables)."""

    type: Literal["Bucketing"] = "Bucketing"


class TargetColumnWriting(PlanModel):
    """The sink learns which columns the INSERT names."""

    type: Literal["TargetColumnWriting"] = "TargetColumnWriting"
    target_columns: tuple[tuple[Index, ...], ...]


_OfSource: TypeAlias = (
    ProjectPushDown
    | ReadingMetadata
    | FilterPushDown
    | LimitPushDown
    | PartitionPushDown
    | WatermarkPushDown
    | SourceWatermark
    | AggregatePushDown
)
_OfSink: TypeAlias = Overwrite | Partitioning | WritingMetadata | Bucketing | TargetColumnWriting
Ability: TypeAlias = _OfSource | _OfSink
SourceAbility = Annotated[_OfSource, Field(discriminator="type")]
SinkAbility = Annotated[_OfSink, Field(discriminator="type")]


class DynamicTableSource(PlanModel):
    """A table read, and what was pushed into its source, in order."""

    table: ContextResolvedTable
    abilities: Annotated[tuple[SourceAbility, ...], NULL_IS_EMPTY] = ()


class DynamicTableSink(PlanModel):
    """A table written. ``target_columns`` are the columns the INSERT names, None for all."""

    table: ContextResolvedTable
    abilities: Annotated[tuple[SinkAbility, ...], NULL_IS_EMPTY] = ()
    target_columns: tuple[tuple[Index, ...], ...] | None = None


class ConflictStrategy(PlanModel):
    """ON CONFLICT DO ERROR, NOTHING or DEDUPLICATE of an INSERT."""

    behavior: ConflictBehavior


class LookupKey(PlanModel):
    """What a field of a table is looked up by: a field of the input (FieldRef) or a constant (Constant)."""

    type: Literal["FieldRef", "Constant"]
    index: Annotated[Index | None, Ref()] = None
    source_type: TypeField | None = None
    literal: RexField | None = None


class TemporalTable(PlanModel):
    """A table whose rows are looked up, and the fields it gives."""

    lookup_table_source: DynamicTableSource
    output_type: RowTypeField
