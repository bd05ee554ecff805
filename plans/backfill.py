"""Which state can be made of the history of its inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from stateplan.connectors.history import BACKFILL_FROM
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_calls import expressions
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.functions.rex_text import rex_text
from stateplan.functions.varying import varying_calls

Input: TypeAlias = tuple[int, int]
"""The id of an operator, and the number of an input of it."""


def upstream(graph: ExecGraph, node: ExecNode, ends: Collection[Input] = ()) -> set[int]:
    """The ids of a node and of all from which rows reach it, not by way of the inputs ``ends``."""
    visited_ids, stack = set[int](), [node]
    while stack:
        current = stack.pop()
        if current.id not in visited_ids:
            visited_ids.add(current.id)
            stack.extend(n for i, n in enumerate(graph.inputs(current)) if (current.id, i) not in ends)
    return visited_ids


def obstacle(graph: ExecGraph, node: ExecNode, sources: Collection[int], ends: Collection[Input] = ()) -> str | None:
    """Why the state of a node cannot be made of the history of its inputs; None where it can.

    Args:
        graph: the new plan.
        node: of it.
        sources: its sources that continue from where the old plan has read. Others begin, and have no history.
        ends: inputs whose rows are there without history.
    """
    for node_id in sorted(upstream(graph, node, ends)):
        current = graph.node(node_id)
        if isinstance(current, TableSourceScan) and current.id in sources:
            table = current.scan_table_source.table
            connector = known_connector(_options(current))
            gap = "its connector is unknown" if connector is None else connector.history_gap
            if gap is not None:
                return f"the history of {table.summary} cannot be read again, because {gap}"
        for rex in expressions(current):
            for call in varying_calls(rex):
                if call.name == "PROCTIME":  # an attribute, which orders rows by their arrival
                    continue
                names = joined_names(graph.input_types(current))
                return f"{rex_text(call, names)} of {current.title} would give other values"
    return None


def history_begin(node: ExecNode) -> int | None:
    """When the history of a source begins by its options, ms since 1970; None for at its beginning."""
    options = _options(node)
    connector = known_connector(options) if BACKFILL_FROM.key in options else None
    return None if connector is None else connector.value(options, BACKFILL_FROM.key)


def late_begins(
    graph: ExecGraph, node: ExecNode, sources: Collection[int], ends: Collection[Input] = ()
) -> tuple[str, ...]:
    """What the state of a node lacks because the history of sources begins later than they do, in words. Arguments as
    of :func:`obstacle`."""
    scans = (graph.node(i) for i in sorted(upstream(graph, node, ends).intersection(sources)))
    return tuple(
        f"without the rows of {table.summary} before {_options(scan)[BACKFILL_FROM.key]} ('{BACKFILL_FROM.key}')"
        for scan in scans
        if history_begin(scan) is not None and (table := table_of(scan)) is not None
    )


def _options(node: ExecNode) -> Mapping[str, str]:
    table = node.scan_table_source.table.resolved_table if isinstance(node, TableSourceScan) else None
    return {} if table is None else table.options or {}
