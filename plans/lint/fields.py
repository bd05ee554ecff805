"""Where the fields of an operator come from, as far as operators pass them on as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.rex import InputRef

_WHOLE = frozenset(
    {
        "exchange",
        "watermark-assigner",
        "mini-batch-assigner",
        "drop-update-before",
        "changelog-normalize",
        "deduplicate",
        "sort",
        "temporal-sort",
        "union",
    }
)
"""Operators whose fields are those of their (first) input."""

_IN_FRONT = frozenset(
    {"rank", "limit", "sort-limit", "window-table-function", "over-aggregate", "lookup-join", "correlate"}
)
"""Operators whose first fields are those of their input."""

_GROUPED = frozenset(
    {
        "group-aggregate",
        "python-group-aggregate",
        "local-group-aggregate",
        "global-group-aggregate",
        "group-table-aggregate",
    }
)
"""Operators whose first fields are their keys."""


def source_field(graph: ExecGraph, node: ExecNode, field: int) -> tuple[int, int] | None:
    """The input and its field that field ``field`` of ``node`` is; None where the node makes it."""
    if isinstance(node, OpaqueNode):  # its fields are unread JSON
        return None
    inputs = graph.input_types(node)
    if node.title in _WHOLE:
        return 0, field
    if node.title in _IN_FRONT:
        return (0, field) if field < len(inputs[0].fields) else None
    if node.title in _GROUPED:
        grouping: Sequence[int] = getattr(node, "grouping", ())
        return (0, grouping[field]) if field < len(grouping) else None
    if node.title in ("calc", "async-calc", "python-calc"):
        projection: Sequence[Any] = getattr(node, "projection", ())
        rex = projection[field] if field < len(projection) else None
        return (0, rex.index) if isinstance(rex, InputRef) else None
    if node.title in ("join", "multi-join", "interval-join", "temporal-join", "window-join"):
        for position, row in enumerate(inputs):
            if field < len(row.fields):
                return position, field
            field -= len(row.fields)
    return None


def origin(graph: ExecGraph, node: ExecNode, field: int) -> tuple[ExecNode, int]:
    """The operator that makes field ``field`` of ``node``, and which of its fields that is."""
    while (step := source_field(graph, node, field)) is not None:
        node, field = graph.inputs(node)[step[0]], step[1]
    return node, field


def keys(node: ExecNode, position: int) -> tuple[int, ...]:
    """The fields of an input by which ``node`` keeps its rows; empty where it keeps them together."""
    if isinstance(node, OpaqueNode):
        return ()
    for name in ("grouping", "unique_keys", "partial_agg_grouping"):
        found = getattr(node, name, None)
        if found is not None:
            return tuple(found)
    partition = getattr(node, "partition", None)
    if partition is not None:
        return tuple(partition.fields)
    spec = getattr(node, "join_spec", None)
    if spec is not None:
        return tuple(spec.right_keys if position else spec.left_keys)
    if node.title == "sink":
        return primary_key(node)
    properties = node.input_properties
    return tuple(properties[position].required_distribution.keys) if position < len(properties) else ()


def primary_key(sink: ExecNode) -> tuple[int, ...]:
    """The fields of a sink's input that its table has as primary key; empty where that is not known."""
    spec = getattr(sink, "dynamic_table_sink", None)
    table = spec.table.resolved_table if spec is not None else None
    key = table.table_schema.primary_key if table is not None else None
    if table is None or key is None:
        return ()
    names = [column.name for column in table.table_schema.columns if column.kind == "PHYSICAL"]
    return tuple(names.index(name) for name in key.columns)
