"""The tables that the nodes of a plan read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stateplan.common.secrets import Environment, Secrets
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import ContextResolvedTable


def table_of(node: ExecNode) -> ContextResolvedTable | None:
    """The table that a node reads or writes."""
    if isinstance(node, TableSourceScan):
        return node.scan_table_source.table
    if isinstance(node, LookupJoin):
        return node.temporal_table.lookup_table_source.table
    return node.dynamic_table_sink.table if isinstance(node, Sink) else None


def with_table(node: ExecNode, table: ContextResolvedTable) -> ExecNode:
    """The node over another table."""
    if isinstance(node, TableSourceScan):
        return node.replace(scan_table_source=node.scan_table_source.model_copy(update={"table": table}))
    if isinstance(node, Sink):
        return node.replace(dynamic_table_sink=node.dynamic_table_sink.model_copy(update={"table": table}))
    if isinstance(node, LookupJoin):
        temporal = node.temporal_table
        source = temporal.lookup_table_source.model_copy(update={"table": table})
        return node.replace(temporal_table=temporal.model_copy(update={"lookup_table_source": source}))
    raise TypeError(node.type)


def with_options(
    graph: ExecGraph, change: Callable[[ContextResolvedTable, Mapping[str, str]], Mapping[str, str]]
) -> ExecGraph:
    """The plan whose tables have other options.

    Args:
        graph: the plan.
        change: returns the options for a table of which the plan holds them. What it raises gets the place of the node.
    """
    changed_nodes = []
    for node in graph.nodes:
        table = table_of(node)
        if table is None or table.resolved_table is None or table.resolved_table.options is None:
            continue
        old_options = table.resolved_table.options
        with graph.placing(node):
            new_options = dict(change(table, old_options))
        if new_options != old_options:
            new_table = table.resolved_table.model_copy(update={"options": new_options})
            changed_nodes.append(with_table(node, table.model_copy(update={"resolved_table": new_table})))
    return graph.replace(changed_nodes) if changed_nodes else graph


def with_secrets(graph: ExecGraph, secrets: Secrets) -> ExecGraph:
    """The plan as it runs: with secrets in place of the references to the session. Nothing of it is written anywhere.

    Raises:
        OptionError: OPT123, a secret that is not known here.
    """
    return with_options(graph, lambda table, options: secrets.reveal(table.summary, options))


def environment_of(graph: ExecGraph) -> Environment | None:
    """The environment variables that the options of a plan's tables refer to; None if they refer to none."""
    tables = (table.resolved_table for node in graph.nodes if (table := table_of(node)) is not None)
    return Environment(r.options for r in tables if r is not None and r.options is not None) or None
