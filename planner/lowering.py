"""From the physical plan to exec nodes: ids in Flink's order, equal sub-plans made once.

Source: Flink's ``ExecNodeGraphGenerator``, ``SubplanReuser`` and the ``translateToExecNode`` of its physical nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stateplan.execnodes.graph import FLINK_VERSION, ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import node_from_json
from stateplan.planner.algebra.relations import Rel, Scan, Sink, rel_type
from stateplan.planner.operators import describe, operator_of
from stateplan.planner.operators.base import Json, Lowering, Operator
from stateplan.planner.physical import Physical, execution_type
from stateplan.planner.python_operators import is_asynchronous, is_python

_UNKNOWN: Json = {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}


def lower(plans: Sequence[Physical], options: Mapping[str, str]) -> ExecGraph:
    """The exec graph of the sinks ``plans``, whose equal sub-plans become one.

    Raises:
        PlanError: for a state TTL in ``options`` that is none.
    """
    graph = _Graph(options)
    for plan in plans:
        graph.add(plan)
    return ExecGraph(FLINK_VERSION, graph.nodes, graph.edges)


def lower_traced(plan: Physical, options: Mapping[str, str]) -> tuple[ExecGraph, Mapping[int, Physical]]:
    """The exec graph of one sink, and the operator that each node was made of, by its id. Raises as :func:`lower`."""
    graph = _Graph(options)
    graph.add(plan)
    return ExecGraph(FLINK_VERSION, graph.nodes, graph.edges), graph.origins


class _Graph:
    """Makes the nodes of a plan."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.lowering = Lowering(options)
        self.share = options.get("table.optimizer.reuse-sub-plan-enabled", "true").lower() == "true"
        self.share_scans = self.share and options.get("table.optimizer.reuse-source-enabled", "true").lower() == "true"
        self.nodes: list[ExecNode] = []
        self.edges: list[tuple[int, int]] = []
        self.known: dict[str, int] = {}
        self.origins: dict[int, Physical] = {}

    def add(self, node: Physical) -> int:
        """Adds ``node`` and what is below it; returns its id."""
        inputs = [self.add(i) for i in node.inputs]
        kind = operator_of(execution_type(node))
        python = is_python(node.rel)
        prefix = "-exec-python-async-" if is_asynchronous(node.rel) else "-exec-python-"
        data: Json = {"type": kind.node.replace("-exec-", prefix) if python else kind.node}
        if kind.options and not python:
            data["configuration"] = self.lowering.configuration(kind.options)
        data |= kind.lower(node.rel, node, self.lowering)
        compiled = [{"ttl": entry["ttl"], "from": entry.pop("from")} for entry in data.get("state", ())]
        if inputs:
            data["inputProperties"] = _input_properties(kind, node.rel)
        data["outputType"] = rel_type(node.rel).to_json()
        data["description"] = describe(node)
        shareable = self.share_scans if isinstance(node.rel, Scan) else self.share and not isinstance(node.rel, Sink)
        key = json.dumps([data if kind.named_calls else _nameless(data), inputs, node.update])
        if shareable and key in self.known:
            return self.known[key]
        number = len(self.nodes) + 1
        ours = {"stateplan": {"compiledTtl": compiled}} if compiled else {}
        made, _ = node_from_json({"id": number, **data, **ours})
        self.nodes.append(made)
        self.origins[number] = node
        self.edges += [(i, number) for i in inputs]
        self.known[key] = number
        return number


def _nameless(data: Json) -> Json:
    """A node without the names of its aggregate calls."""
    return data | {k: [{**c, "name": None} for c in v] for k, v in data.items() if k.endswith("ggCalls")}


def _input_properties(kind: Operator[Any], rel: Rel) -> list[Json]:
    keys = kind.required_keys(rel)
    if keys is None:
        return [_UNKNOWN] * len(rel.inputs)
    return [{**_UNKNOWN, "requiredDistribution": _distribution(k), "priority": i} for i, k in enumerate(keys)]


def _distribution(keys: Sequence[int]) -> Json:
    return {"type": "HASH", "keys": list(keys)} if keys else {"type": "SINGLETON"}
