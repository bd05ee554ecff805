"""JSON_EXECUTION_PLAN: the job of a plan as Flink's ``JSONGenerator`` writes a stream graph, for its plan visualizer.

Exchanges and unions are not operators of a job: they are how its operators are connected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stateplan.common.redaction import redacted
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.exchange import Exchange
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan

PARALLELISM = "parallelism.default"

_SHIPPED = {"HASH": "HASH", "SINGLETON": "GLOBAL", "BROADCAST": "BROADCAST"}


def job_graph(graph: ExecGraph, session: Mapping[str, str] | None = None) -> dict[str, Any]:
    """``{"nodes": [...]}``; ids are those of the plan.

    Args:
        graph: the plan.
        session: options of the session, for the parallelism; 1 when they do not say.
    """
    graph.check_ways(lambda node: not _connects(node), "an edge")
    parallelism = int((session or {}).get(PARALLELISM, "1"))
    nodes = [_node(graph, node, parallelism) for node in graph.nodes if not _connects(node)]
    return {"nodes": nodes}


def _connects(node: ExecNode) -> bool:
    return isinstance(node, Exchange) or node.name == "stream-exec-union"


def _node(graph: ExecGraph, node: ExecNode, parallelism: int) -> dict[str, Any]:
    source, sink = not graph.inputs(node), isinstance(node, Sink)
    name = node.description.partition("(")[0] or node.title
    table = _table(node)
    prefix = "Source: " if source else "Sink: " if sink else ""
    fields: dict[str, Any] = {
        "id": node.id,
        "type": f"{prefix}{table if table and prefix else name}[{node.id}]",
        "pact": "Data Source" if source else "Data Sink" if sink else "Operator",
        "contents": f"[{node.id}]:{redacted(node.description)}",
        "parallelism": parallelism,
    }
    predecessors = [
        {"id": origin.id, "ship_strategy": strategy, "side": "second"}
        for origin, strategy in _predecessors(graph, node)
    ]
    return fields | ({"predecessors": predecessors} if predecessors else {})


def _predecessors(graph: ExecGraph, node: ExecNode) -> Iterator[tuple[ExecNode, str]]:
    """The operators that feed ``node``, through any exchanges and unions, and how their rows get there."""
    open_paths = [(below, "FORWARD") for below in reversed(graph.inputs(node))]
    while open_paths:
        below, strategy = open_paths.pop()
        if isinstance(below, Exchange):
            strategy = _SHIPPED.get(below.distribution.type, "REBALANCE")
        if _connects(below):
            open_paths += [(source, strategy) for source in reversed(graph.inputs(below))]
        else:
            yield below, strategy


def _table(node: ExecNode) -> str | None:
    """The name of the table a source or a sink is for, without its database."""
    if isinstance(node, TableSourceScan):
        return node.scan_table_source.table.path[-1]
    return node.dynamic_table_sink.table.path[-1] if isinstance(node, Sink) else None
