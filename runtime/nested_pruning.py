"""Texts within rows that a plan does not read.

A format that finds fields by name can leave them out, and nothing else changes: any JSON value is a text. Other fields
are decoded in any case, because in Flink a value of the wrong type fails the job even if nobody reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import marked_refs
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.calc import Calc
from stateplan.functions.rex import FieldAccess, InputRef, Rex
from stateplan.runtime.operators.base import Stateful, Stateless

Path: TypeAlias = tuple[str, ...]
"""Names of fields, each within the one before; none is the whole column."""

ALL: Path = ()


def read_paths(rex: Rex) -> Iterator[tuple[int, Path]]:
    """The position of each column that an expression reads, and what of it."""
    path, inner = ALL, rex
    while isinstance(inner, FieldAccess):
        path, inner = (inner.name, *path), inner.expr
    if isinstance(inner, InputRef):
        yield inner.index, path
        return
    for child in inner.children:
        yield from read_paths(child)


def read_fields(graph: ExecGraph, parts: Mapping[int, Stateful | Stateless]) -> dict[int, list[set[Path]]]:
    """What is read of each column of each node, by the node's id.

    Args:
        graph: the plan.
        parts: what nodes are translated to; those without are sources.
    """
    reads: dict[int, list[set[Path]]] = {n.id: [set() for _ in n.output_type.fields] for n in graph.nodes}
    for node in reversed(graph.nodes):
        inputs = [reads[i.id] for i in graph.inputs(node)]
        part, after = parts.get(node.id), reads[node.id]
        if isinstance(part, Stateless) and isinstance(node, Calc):
            before = inputs[0]
            for expression, uses in zip(node.projection, after, strict=False):
                if isinstance(expression, InputRef):
                    before[expression.index] |= uses
                else:
                    _note(expression, before)
            if node.condition is not None:
                _note(node.condition, before)
        elif isinstance(part, Stateless) and node.KEEPS_FIELDS and graph.consumers(node):
            fields = node.output_type.fields
            for before, input_node in zip(inputs, graph.inputs(node), strict=True):
                for reads_of_column, uses, left, came in zip(
                    before, after, fields, input_node.output_type.fields, strict=True
                ):
                    reads_of_column |= uses if left.type.as_nullable() == came.type.as_nullable() else {ALL}
            for ref in marked_refs(node):
                inputs[ref.input or 0][ref.field].add(ALL)
        else:
            for before in inputs:
                for reads_of_column in before:
                    reads_of_column.add(ALL)
    return reads


def _note(rex: Rex, columns: Sequence[set[Path]]) -> None:
    for index, path in read_paths(rex):
        columns[index].add(path)


def prune_type(data_type: LogicalType, paths: Collection[Path]) -> LogicalType:
    """A row type without the texts that may be NULL and that no path leads to; one field stays in any case.

    Args:
        data_type: any type; one that is not a row stays as it is.
        paths: what is read of it.
    """
    if data_type.root != "ROW" or ALL in paths:
        return data_type
    fields = []
    for field in data_type.fields:
        within = {path[1:] for path in paths if path[0] == field.name}
        if within or not (field.type.is_string and field.type.nullable):
            fields.append(replace(field, type=prune_type(field.type, within)))
    return replace(data_type, fields=tuple(fields or data_type.fields[:1]))
