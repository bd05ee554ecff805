"""Where the fields of an operator come from, as far as operators pass them on as they are."""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.nodes.sink import Sink


def source_field(graph: ExecGraph, node: ExecNode, field: int) -> tuple[int, int] | None:
    """The input and its field that field ``field`` of ``node`` is; None if the node makes it.

    A field is passed on where its computed type is the very object of the field of an input.
    """
    rows = graph.input_types(node)
    inputs = [replace(r, fields=tuple(replace(f, type=replace(f.type)) for f in r.fields)) for r in rows]
    types = node.computed_types(inputs)
    if types is None or field >= len(types):
        return None
    places = ((i, k, f.type) for i, row in enumerate(inputs) for k, f in enumerate(row.fields))
    return next(((i, k) for i, k, t in places if t is types[field]), None)


def origin(graph: ExecGraph, node: ExecNode, field: int) -> tuple[ExecNode, int]:
    """The operator that makes field ``field`` of ``node``, and which of its fields that is."""
    while (step := source_field(graph, node, field)) is not None:
        node, field = graph.inputs(node)[step[0]], step[1]
    return node, field


def keys(node: ExecNode, position: int) -> tuple[int, ...]:
    """The fields of an input by which ``node`` keeps its rows; empty if it keeps them together."""
    if isinstance(node, OpaqueNode):
        return ()
    fields = vars(node)
    for name in ("grouping", "unique_keys", "partial_agg_grouping"):
        if fields.get(name) is not None:
            return tuple(fields[name])
    if fields.get("partition") is not None:
        return tuple(fields["partition"].fields)
    spec = fields.get("join_spec")
    if spec is not None:
        return tuple(spec.right_keys if position else spec.left_keys)
    if node.title == "sink":
        return primary_key(node)
    properties = node.input_properties
    return tuple(properties[position].required_distribution.keys) if position < len(properties) else ()


def primary_key(sink: ExecNode) -> tuple[int, ...]:
    """The fields of a sink's input that its table has as primary key; empty if that is not known."""
    table = sink.dynamic_table_sink.table.resolved_table if isinstance(sink, Sink) else None
    key = table.table_schema.primary_key if table is not None else None
    if table is None or key is None:
        return ()
    names = [column.name for column in table.table_schema.columns if column.kind == "PHYSICAL"]
    return tuple(names.index(name) for name in key.columns)
