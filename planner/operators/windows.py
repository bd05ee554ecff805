"""Window table functions, aggregates of windows, and joins within windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.errors import Place
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.window_aggregates import GlobalWindowAggregate as GlobalWindowAggregateNode
from stateplan.execnodes.nodes.window_aggregates import GroupWindowAggregate as GroupWindowAggregateNode
from stateplan.execnodes.nodes.window_aggregates import LocalWindowAggregate as LocalWindowAggregateNode
from stateplan.execnodes.nodes.window_aggregates import WindowAggregate as WindowAggregateNode
from stateplan.execnodes.nodes.window_deduplicate import WindowDeduplicate as WindowDeduplicateNode
from stateplan.execnodes.nodes.window_join import WindowJoin as WindowJoinNode
from stateplan.execnodes.nodes.window_rank import WindowRank as WindowRankNode
from stateplan.execnodes.nodes.window_table_function import WindowTableFunction
from stateplan.execnodes.ranking import ConstantRange, PartitionSpec
from stateplan.execnodes.windows import (
    NamedWindowProperty,
    SessionGroupWindow,
    SlidingGroupWindow,
    TimeField,
    TumblingGroupWindow,
    WindowProperty,
    WindowReference,
    format_duration,
)
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import Rel, field_names, rel_type, unique_names
from stateplan.planner.algebra.windows import (
    GlobalWindowAggregate,
    GroupWindowAggregate,
    LocalWindowAggregate,
    Property,
    WindowAggregate,
    WindowDeduplicate,
    WindowJoin,
    WindowPosition,
    WindowRank,
    WindowTable,
)
from stateplan.planner.digest.expressions import JOIN_NAMES, Notation, call_text, key_names, order_text
from stateplan.planner.operators.aggregates import accumulators, agg_calls, grouped, merge_text
from stateplan.planner.operators.base import INSERT, MINI_BATCH, TIME_ZONE, Lowering, Operator, exchanged
from stateplan.planner.operators.joins import by_join_keys, join_spec
from stateplan.planner.operators.ranking import sort_spec
from stateplan.planner.physical import Kinds, Physical
from stateplan.planner.positions import not_supported

_UPDATES: Kinds = frozenset({"INSERT", "UPDATE"})

_GROUP_WINDOWS = {"TUMBLE": "TumblingGroupWindow", "HOP": "SlidingGroupWindow", "SESSION": "SessionGroupWindow"}
_PROPERTIES = {"WindowStart": "start", "WindowEnd": "end", "Rowtime": "rowtime", "Proctime": "proctime"}


class WindowTableOperator(Operator[WindowTable], of=WindowTable, node=WindowTableFunction):
    options = TIME_ZONE

    def describe(self, rel: WindowTable, node: Physical, notation: Notation) -> list[str]:
        return [f"window=[{rel.position.text(field_names(rel.input))}]"]

    def lower(self, rel: WindowTable, node: Physical, lowering: Lowering) -> ExecNode:
        if rel.window.kind != "SESSION":
            _require_runnable(rel.position, rel.place)
        return WindowTableFunction(**self.common(rel, node, lowering), windowing=rel.position.windowing)

    def state_hints(self, rel: WindowTable) -> Sequence[InputHint | None]:
        return (rel.hint,) if rel.window.kind == "SESSION" else ()

    def distribute(self, rel: WindowTable, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, input=exchanged(inputs[0], rel.window.keys) if rel.window.kind == "SESSION" else inputs[0])

    def waits_for_watermarks(self, rel: WindowTable) -> bool:
        return rel.position.is_rowtime


class WindowAggregateOperator(Operator[WindowAggregate], of=WindowAggregate, node=WindowAggregateNode):
    options = TIME_ZONE
    hint_fields = ("hint",)
    key_field = "group"

    def describe(self, rel: WindowAggregate, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel.input)
        retract = not node.input.is_insert_only
        texts = [call_text(c, names, retract) for c in rel.calls]
        return _arguments(rel.group, rel, [names[g] for g in rel.group], [*texts, *_property_texts(rel.properties)])

    def lower(self, rel: WindowAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        return WindowAggregateNode(
            **self.common(rel, node, lowering),
            grouping=rel.group,
            agg_calls=agg_calls(rel.calls),
            windowing=rel.position.windowing,
            named_window_properties=_properties(rel),
            need_retraction=not node.input.is_insert_only,
        )

    def waits_for_watermarks(self, rel: WindowAggregate) -> bool:
        return rel.position.is_rowtime


class GroupWindowAggregateOperator(
    Operator[GroupWindowAggregate], of=GroupWindowAggregate, node=GroupWindowAggregateNode
):
    options = (*MINI_BATCH, *TIME_ZONE)
    stops_mini_batches = True
    hint_fields = ("hint",)
    key_field = "group"

    def describe(self, rel: GroupWindowAggregate, node: Physical, notation: Notation) -> list[str]:
        names, outputs = field_names(rel.input), field_names(rel)
        texts = [call_text(c, names, False) for c in rel.calls]
        property_kinds = [p for p, _ in rel.properties]
        texts += _property_texts(property_kinds)
        call_texts = (f"{text} AS {name}" for text, name in zip(texts, outputs[len(rel.group) :], strict=True))
        lengths = [rel.window.size, rel.window.step] if rel.window.kind == "HOP" else [rel.window.size]
        window = ", ".join(["'w$", rel.time_field[0], *map(str, lengths)])
        return [
            *grouped(rel.group, rel.input, ""),
            f"window=[{_GROUP_WINDOWS[rel.window.kind]}({window})]",
            *([f"properties=[{', '.join(name for name, _ in property_kinds)}]"] if property_kinds else []),
            f"select=[{', '.join([*(names[g] for g in rel.group), *call_texts])}]",
            *([f"emit=[{rel.emission.text}]"] if rel.emission is not None else []),
        ]

    def provided(self, rel: GroupWindowAggregate, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return _UPDATES if rel.emission is not None and rel.emission.updates else INSERT

    def lower(self, rel: GroupWindowAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        window, (name, place) = rel.window, rel.time_field
        alias = WindowReference(name="w$", type=rel.time_type)
        time = TimeField(field_name=name, field_index=place, input_index=0, field_type=rel.time_type)
        size = format_duration(window.size)
        group_window: TumblingGroupWindow | SlidingGroupWindow | SessionGroupWindow
        if window.kind == "SESSION":
            group_window = SessionGroupWindow(alias=alias, time_field=time, gap=size)
        elif window.kind == "HOP":
            slide = format_duration(window.step)
            group_window = SlidingGroupWindow(alias=alias, time_field=time, is_time_window=True, size=size, slide=slide)
        else:
            group_window = TumblingGroupWindow(alias=alias, time_field=time, is_time_window=True, size=size)
        named_properties = (
            NamedWindowProperty(name=n, property=WindowProperty(kind=k, reference=alias))
            for (n, k), _ in rel.properties
        )
        return GroupWindowAggregateNode(
            **self.common(rel, node, lowering),
            grouping=rel.group,
            agg_calls=agg_calls(rel.calls),
            window=group_window,
            named_window_properties=tuple(named_properties),
            need_retraction=not node.input.is_insert_only,
        )

    def waits_for_watermarks(self, rel: GroupWindowAggregate) -> bool:
        return rel.time_type.kind == "ROWTIME"


class LocalWindowAggregateOperator(
    Operator[LocalWindowAggregate], of=LocalWindowAggregate, node=LocalWindowAggregateNode
):
    options = TIME_ZONE
    named_calls = False

    def describe(self, rel: LocalWindowAggregate, node: Physical, notation: Notation) -> list[str]:
        parts = [field_names(rel.input)[g] for g in rel.group]
        parts += accumulators(rel.accumulators, rel.input)
        parts.append(f"slice_end('w$) AS {field_names(rel)[-1]}")
        window = f"window=[{rel.position.text(field_names(rel.input))}]"
        return [*grouped(rel.group, rel.input, ""), window, f"select=[{', '.join(parts)}]"]

    def lower(self, rel: LocalWindowAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        return LocalWindowAggregateNode(
            **self.common(rel, node, lowering),
            grouping=rel.group,
            agg_calls=agg_calls(rel.calls),
            windowing=rel.position.windowing,
            need_retraction=rel.retraction,
        )


class GlobalWindowAggregateOperator(
    Operator[GlobalWindowAggregate], of=GlobalWindowAggregate, node=GlobalWindowAggregateNode
):
    options = TIME_ZONE

    def describe(self, rel: GlobalWindowAggregate, node: Physical, notation: Notation) -> list[str]:
        below = rel.input.inputs[0]
        assert isinstance(below, LocalWindowAggregate)
        keys = field_names(rel.input)[: len(rel.group)]
        return _arguments(
            rel.group,
            rel,
            keys,
            [*map(merge_text, below.accumulators.calls), *_property_texts(rel.original.properties)],
        )

    def lower(self, rel: GlobalWindowAggregate, node: Physical, lowering: Lowering) -> ExecNode:
        return GlobalWindowAggregateNode(
            **self.common(rel, node, lowering),
            grouping=rel.group,
            agg_calls=agg_calls(rel.original.calls),
            windowing=rel.position.windowing,
            named_window_properties=_properties(rel.original),
            need_retraction=rel.retraction,
            local_agg_input_row_type=rel_type(rel.before),
        )

    def state_hints(self, rel: GlobalWindowAggregate) -> Sequence[InputHint | None]:
        return (rel.original.hint,)


class WindowJoinOperator(Operator[WindowJoin], of=WindowJoin, node=WindowJoinNode, clause="a join within windows"):
    options = TIME_ZONE
    hint_fields = ("left_hint", "right_hint")

    def describe(self, rel: WindowJoin, node: Physical, notation: Notation) -> list[str]:
        both = unique_names([*field_names(rel.left), *field_names(rel.right)])
        return [
            f"leftWindow=[{rel.left_position.text(field_names(rel.left))}]",
            f"rightWindow=[{rel.right_position.text(field_names(rel.right))}]",
            f"joinType=[{JOIN_NAMES[rel.join_type]}]",
            f"where=[{notation.expression(rel.condition, both)}]",
            f"select=[{', '.join(field_names(rel))}]",
        ]

    def lower(self, rel: WindowJoin, node: Physical, lowering: Lowering) -> ExecNode:
        _require_runnable(rel.left_position, rel.place)
        return WindowJoinNode(
            **self.common(rel, node, lowering),
            join_spec=join_spec(rel.join_type, rel.condition, rel.left.width),
            left_windowing=rel.left_position.windowing,
            right_windowing=rel.right_position.windowing,
        )

    def distribute(self, rel: WindowJoin, inputs: Sequence[Rel]) -> Rel:
        return by_join_keys(rel, inputs, rel.condition)

    def waits_for_watermarks(self, rel: WindowJoin) -> bool:
        return rel.left_position.is_rowtime


class WindowDeduplicateOperator(
    Operator[WindowDeduplicate],
    of=WindowDeduplicate,
    node=WindowDeduplicateNode,
    clause="a deduplication within windows",
):
    options = TIME_ZONE
    key_field = "partition"

    def describe(self, rel: WindowDeduplicate, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel.input)
        return [
            f"window=[{rel.position.text(names)}]",
            f"keep=[{'LastRow' if rel.keeps_last else 'FirstRow'}]",
            f"partitionKeys=[{key_names(rel.partition, rel.input)}]",
            f"orderKey=[{names[rel.order]}]",
            f"order=[{rel.fields[rel.order][1].kind}]",
        ]

    def lower(self, rel: WindowDeduplicate, node: Physical, lowering: Lowering) -> ExecNode:
        _require_runnable(rel.position, rel.place)
        return WindowDeduplicateNode(
            **self.common(rel, node, lowering),
            partition_keys=rel.partition,
            order_key=rel.order,
            keep_last_row=rel.keeps_last,
            windowing=rel.position.windowing,
        )

    def late_hints(self, rel: WindowDeduplicate) -> Sequence[InputHint | None]:
        return (rel.hint,)

    def waits_for_watermarks(self, rel: WindowDeduplicate) -> bool:
        return rel.position.is_rowtime


class WindowRankOperator(Operator[WindowRank], of=WindowRank, node=WindowRankNode, clause="a top-N within windows"):
    options = TIME_ZONE
    key_field = "partition"

    def describe(self, rel: WindowRank, node: Physical, notation: Notation) -> list[str]:
        return [
            f"window=[{rel.position.text(field_names(rel.input))}]",
            "rankType=[ROW_NUMBER]",
            f"rankRange=[rankStart={rel.start}, rankEnd={rel.end}]",
            f"partitionBy=[{key_names(rel.partition, rel.input)}]",
            f"orderBy=[{order_text(rel.order, rel.input)}]",
            f"select=[{', '.join(field_names(rel))}]",
        ]

    def lower(self, rel: WindowRank, node: Physical, lowering: Lowering) -> ExecNode:
        _require_runnable(rel.position, rel.place)
        return WindowRankNode(
            **self.common(rel, node, lowering),
            rank_type="ROW_NUMBER",
            partition_spec=PartitionSpec(fields=rel.partition),
            sort_spec=sort_spec(rel.order),
            rank_range=ConstantRange(start=rel.start, end=rel.end),
            output_row_number=rel.rank_name is not None,
            windowing=rel.position.windowing,
        )

    def late_hints(self, rel: WindowRank) -> Sequence[InputHint | None]:
        return (rel.hint,)

    def waits_for_watermarks(self, rel: WindowRank) -> bool:
        return rel.position.is_rowtime


def _require_runnable(position: WindowPosition, place: Place | None) -> None:
    """Raises SqlError SQL150, for windows of processing time, which only run below an aggregate."""
    if not position.is_rowtime:
        raise not_supported(
            "a window of processing time without an aggregate",
            place,
            "group its rows by window_start and window_end, or use event time",
        )


def _properties(rel: WindowAggregate) -> tuple[NamedWindowProperty, ...]:
    reference = WindowReference(name="w$", type=rel.position.time_type)
    return tuple(
        NamedWindowProperty(name=n, property=WindowProperty(kind=kind, reference=reference))
        for n, kind in rel.properties
    )


def _property_texts(properties: Sequence[Property]) -> list[str]:
    return [f"{_PROPERTIES[kind]}('w$)" for _, kind in properties]


def _arguments(
    group: Sequence[int], rel: WindowAggregate | GlobalWindowAggregate, keys: Sequence[str], texts: Sequence[str]
) -> list[str]:
    outputs = field_names(rel)[len(group) :]
    parts = [*keys, *(f"{text} AS {name}" for text, name in zip(texts, outputs, strict=False))]
    window = f"window=[{rel.position.text(field_names(rel.input))}]"
    return [*grouped(group, rel.input, ""), window, f"select=[{', '.join(parts)}]"]
