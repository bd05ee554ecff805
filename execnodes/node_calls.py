"""The expressions of a plan, and replacing the calls of functions in it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.model import PlanModel
from stateplan.execnodes.nodes.base import ExecNode, own_values
from stateplan.execnodes.specs import AggCall
from stateplan.functions.rex import Call, Rex, with_new_calls


def expressions(node: ExecNode) -> Iterator[Rex]:
    """The expressions in the fields of a node."""
    return _expressions(list(own_values(node).values()))


def _expressions(value: object) -> Iterator[Rex]:
    if isinstance(value, Rex):
        yield value
    elif isinstance(value, PlanModel):
        yield from _expressions(list(dict(value).values()))
    elif isinstance(value, dict):
        yield from _expressions(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _expressions(inner)


def with_calls(
    node: ExecNode, change: Callable[[Call], Call], aggregate: Callable[[AggCall], AggCall] | None = None
) -> ExecNode:
    """The node with other calls; the node itself if all of them stay.

    Args:
        node: any node.
        change: returns another call for a call in an expression, once its operands are new.
        aggregate: the same for aggregate functions.
    """

    def new_value(value: Any) -> Any:
        if isinstance(value, Rex):
            return with_new_calls(value, change)
        if isinstance(value, AggCall):
            return value if aggregate is None else aggregate(value)
        if isinstance(value, PlanModel):
            parts = _new_values(dict(value), new_value)
            return value.model_copy(update=parts) if parts else value
        if isinstance(value, tuple):
            items = tuple(map(new_value, value))
            return value if all(map(operator.is_, items, value)) else items
        if isinstance(value, Mapping):
            return {**value, **parts} if (parts := _new_values(value, new_value)) else value
        return value

    parts = _new_values(own_values(node), new_value)
    return node.replace(**parts) if parts else node


def _new_values(values: Mapping[str, Any], new_value: Callable[[Any], Any]) -> dict[str, Any]:
    """The values that change."""
    new_values = {name: new_value(value) for name, value in values.items()}
    return {name: value for name, value in new_values.items() if value is not values[name]}


def with_calls_everywhere(graph: ExecGraph, change: Callable[[Call], Call]) -> ExecGraph:
    """The plan with other calls, as :func:`with_calls`."""
    nodes = [(node, with_calls(node, change)) for node in graph.nodes]
    changed_nodes = [new for old, new in nodes if new is not old]
    return graph.replace(changed_nodes) if changed_nodes else graph
