"""From the physical plan to exec nodes: ids in Flink's order, equal sub-plans made once.

Source: Flink's ``ExecNodeGraphGenerator``, ``SubplanReuser`` and the ``translateToExecNode`` of its physical nodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from stateplan.common.errors import SqlError
from stateplan.common.settings import corrects_flink, value
from stateplan.execnodes.graph import FLINK_VERSION, ExecGraph
from stateplan.execnodes.model import JsonObject
from stateplan.execnodes.nodes.base import CompiledTtl, ExecNode
from stateplan.execnodes.side_outputs import late_tables, may_drop
from stateplan.execnodes.validation import plan_error
from stateplan.planner.algebra.relations import Scan, Sink
from stateplan.planner.endless_hints import compiled_entries, with_states_of_hints
from stateplan.planner.operators import operator_of
from stateplan.planner.operators.base import Lowering, Operator
from stateplan.planner.physical import Physical, execution_type


def lower(plans: Sequence[Physical], options: Mapping[str, str]) -> ExecGraph:
    """The exec graph of the sinks ``plans``, whose equal sub-plans become one.

    Raises:
        PlanError: for a state TTL in ``options`` that is none.
        SqlError: SQL216, an identifier that two operators have.
    """
    return lower_traced(plans, options)[0]


def lower_traced(plans: Sequence[Physical], options: Mapping[str, str]) -> tuple[ExecGraph, Mapping[int, Physical]]:
    """The exec graph of the sinks ``plans``, and the operator that each node was made of, by its id. Raises the same
    errors as :func:`lower`."""
    graph = _Graph(options)
    for plan in plans:
        graph.earlier = len(graph.nodes)
        graph.add(plan)
    return graph.exec_graph(), graph.origins


class _Graph:
    """Makes the nodes of a plan.

    Attributes:
        earlier: the number of nodes that sinks before the current one have made.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.lowering = Lowering(options)
        self.share = bool(value(options, "table.optimizer.reuse-sub-plan-enabled"))
        self.share_scans = self.share and bool(value(options, "table.optimizer.reuse-source-enabled"))
        self.nodes: list[ExecNode] = []
        self.edges: list[tuple[int, int]] = []
        self.ids_by_key: dict[str, int] = {}
        self.origins: dict[int, Physical] = {}
        self.identifiers: set[str] = set()
        self.earlier = 0

    def exec_graph(self) -> ExecGraph:
        """The graph of all that was added."""
        graph = ExecGraph(FLINK_VERSION, self.nodes, self.edges)
        return with_states_of_hints(graph) if corrects_flink(self.lowering.options) else graph

    def add(self, node: Physical) -> int:
        """Adds ``node`` and what is below it; returns its id."""
        inputs = [self.add(i) for i in node.inputs]
        kind = operator_of(execution_type(node))
        exec_node, compiled = self._lower_node(kind, node)
        shareable = self.share_scans if isinstance(node.rel, Scan) else self.share and not isinstance(node.rel, Sink)
        data = exec_node.to_json()
        late = self._late_tables(kind, node, exec_node, [self.nodes[i - 1] for i in inputs])
        key = json.dumps([data if kind.named_calls else _nameless(data), inputs, node.update, late])
        if shareable and key in self.ids_by_key:
            return self._existing_node(self.ids_by_key[key], exec_node)
        identifier = kind.identifier(node.rel)
        if identifier is not None and identifier in self.identifiers:
            raise SqlError("SQL216", uid=identifier, place=node.rel.written_at)
        if identifier is not None:
            self.identifiers.add(identifier)
        number = len(self.nodes) + 1
        ours = {"compiledTtl": compiled_entries(compiled)} if compiled else {}
        self.nodes.append(exec_node.replace(id=number, stateplan={**ours, **late} or None))
        self.origins[number] = node
        self.edges += [(i, number) for i in inputs]
        self.ids_by_key[key] = number
        return number

    def _existing_node(self, number: int, exec_node: ExecNode) -> int:
        """The id of a node that is there already. Of the names of its calls, Flink keeps the last ones in an INSERT,
        and the first ones among INSERTs."""
        if number > self.earlier:
            self.nodes[number - 1] = exec_node.replace(id=number, stateplan=self.nodes[number - 1].stateplan)
        return number

    @staticmethod
    def _late_tables(
        kind: Operator[Any], node: Physical, exec_node: ExecNode, inputs: Sequence[ExecNode]
    ) -> dict[str, list[str | None]]:
        """What the node says of its late rows, if it drops any."""
        names = [None if hint is None else hint.late for hint in kind.late_hints(node.rel)]
        return late_tables(names, len(inputs)) if any(names) and may_drop(exec_node, inputs) else {}

    def _lower_node(self, kind: Operator[Any], node: Physical) -> tuple[ExecNode, list[CompiledTtl]]:
        """The exec node without its id, and where the TTLs of its states come from.

        Raises:
            PlanError: for a node that cannot appear in a plan.
        """
        try:
            exec_node = kind.lower(node.rel, node, self.lowering)
        except ValidationError as error:
            raise plan_error(error) from error
        entries, compiled = self.lowering.states(exec_node, kind.state_hints(node.rel), kind.ttl_origin(node.rel))
        return exec_node.replace(state=entries) if entries else exec_node, compiled


def _nameless(data: JsonObject) -> JsonObject:
    """A node without the names of its aggregate calls."""
    return data | {k: [{**c, "name": None} for c in v] for k, v in data.items() if k.endswith("ggCalls")}
