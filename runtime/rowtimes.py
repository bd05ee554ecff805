"""Which field of an operator's input has the event time of a row, for state that ages by event time.

That is the time attribute; or, where a regular join or an aggregate stands behind it, what the planner made of the
attribute: the same field cast to a plain timestamp, as those operators take none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateplan.common.changelog import column
from stateplan.common.errors import Place, PlanError
from stateplan.common.ttl import TtlConfig
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode, entries_of
from stateplan.execnodes.nodes.calc import Calc
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.multi_join import MultiJoin
from stateplan.execnodes.nodes.temporal_join import TemporalJoin
from stateplan.execnodes.nodes.union import Union
from stateplan.functions.rex import Call, InputRef, Rex

_JOINING = (Join, MultiJoin, TemporalJoin)

_SAME_VALUE = ("$CAST$1", "$REINTERPRET$1")


def event_time_columns(
    graph: ExecGraph, configs: Mapping[int, Sequence[TtlConfig]]
) -> dict[int, tuple[str | None, ...]]:
    """Per operator with state that ages by event time, the column of each input that has the time of a row; None for
    an input without one, whose rows leave the age of state unchanged.

    Args:
        configs: how the states of operators age, by node id.

    Raises:
        PlanError: PLAN190, when the rows that a state keeps have no event time; PLAN191, when they have several.
    """
    asking = {i: node_configs for i, node_configs in configs.items() if any(c.by_event_time for c in node_configs)}
    if not asking:
        return {}
    times: dict[int, tuple[int, ...]] = {}
    for node in graph.nodes:
        times[node.id] = _times(node, graph.inputs(node), times)
    out: dict[int, tuple[str | None, ...]] = {}
    for number, node_configs in asking.items():
        node = graph.node(number)
        inputs = graph.inputs(node)
        fields = [_candidates(source, times[source.id]) for source in inputs]
        for slot, config in enumerate(node_configs):
            if config.by_event_time:
                own = node.input_of_state(slot)
                if len(fields[own]) != 1:
                    raise _error(graph, node, slot, inputs[own], fields[own])
        out[number] = tuple(column(f[0]) if len(f) == 1 else None for f in fields)
    return out


def event_time_type(graph: ExecGraph, node: ExecNode) -> str | None:
    """The root of the type of the time attribute that reaches a node: that of the nearest one in front of it."""
    inputs = list(graph.inputs(node))
    for source in inputs:
        root = next((f.type.root for f in source.output_type.fields if f.type.kind == "ROWTIME"), None)
        if root is not None:
            return root
        inputs += graph.inputs(source)
    return None


def _candidates(source: ExecNode, fields: Sequence[int]) -> Sequence[int]:
    """The fields of the output that may be meant: its time attributes, if it has any."""
    attributes = [i for i in fields if source.output_type.fields[i].type.kind == "ROWTIME"]
    return attributes or fields


def _times(node: ExecNode, inputs: Sequence[ExecNode], times: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The fields of a node's output that have the event time of a row."""
    fields = node.output_type.fields
    out = {i for i, f in enumerate(fields) if f.type.kind == "ROWTIME"}
    input_times = [times[source.id] for source in inputs]
    if isinstance(node, Calc):
        out |= {i for i, rex in enumerate(node.projection) if _is_time(rex, input_times[0])}
    elif node.PASSES_ROWS:
        out |= set(input_times[0])
    elif isinstance(node, Union):
        out |= set(input_times[0]).intersection(*input_times[1:])
    elif isinstance(node, _JOINING):
        offset = 0
        for source, mine in zip(inputs, input_times, strict=True):
            out |= {offset + i for i in mine if offset + i < len(fields)}
            offset += len(source.output_type.fields)
    return tuple(sorted(out))


def _is_time(rex: Rex, time_fields: Sequence[int]) -> bool:
    """Whether an expression is a field with the time of a row, or that with another precision or without its being an
    attribute."""
    if isinstance(rex, Call) and rex.internal_name in _SAME_VALUE and len(rex.operands) == 1:
        return rex.operands[0].type.root == rex.type.root and _is_time(rex.operands[0], time_fields)
    return isinstance(rex, InputRef) and rex.index in time_fields


def _error(graph: ExecGraph, node: ExecNode, slot: int, source: ExecNode, fields: Sequence[int]) -> PlanError:
    name, operator = node.state_names[slot], f"the {node.title} {node.id}"
    entry = next((k for k, e in enumerate(entries_of(node)) if e.index == slot), slot)
    place = Place(pointer=f"{graph.pointer(node)}/state/{entry}/timeCharacteristic")
    hint = f'leave "timeCharacteristic" of {name} out, or make it "ProcessingTime"'
    if not fields:
        return PlanError("PLAN190", name=name, where=operator, title=source.title, id=source.id, place=place, hint=hint)
    names = ", ".join(source.output_type.fields[i].name or f"field {i}" for i in fields)
    return PlanError("PLAN191", name=name, where=operator, names=names, place=place, hint=hint)
