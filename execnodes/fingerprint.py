"""Stable names for operators: what a checkpoint's state belongs to.

The *fingerprint* of a node is a hash of what the operator means:

- its type's name, without the version;
- its own fields: keys, expressions, aggregate calls, join type, table name, pushed-down filters
  (:meth:`~execnodes.nodes.base.ExecNode.meaning`);
- the types of its output fields;
- the fingerprints of its inputs, in order (for a union in any order).

Not in it: ids, descriptions, state entries with their TTLs, configuration, names of output fields, table
options and comments, and flags that only say which changes are sent on (such as
``generateUpdateBefore``). So the fingerprint survives recompilation, renumbering, reordering and any
edit of a TTL.

The *uid* is the fingerprint, made distinct where a plan computes the same thing twice: such twins are distinguished by
what reads them, and by their order in the plan where that is the same too; the second gets the suffix ``-2``."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from typing import Any

from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode

_LENGTH = 12


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def fingerprints(graph: ExecGraph) -> dict[int, str]:
    """Fingerprint of each node by its id: 12 hexadecimal digits; equal for operators that mean the same."""
    prints: dict[int, str] = {}
    for node in graph.nodes:
        inputs = [prints[source.id] for source in graph.inputs(node)]
        prints[node.id] = _hash(
            [
                node.name,
                node.meaning(),
                [f.type.to_json() for f in node.output_type.fields],
                inputs if node.ORDERED_INPUTS else sorted(inputs),
            ]
        )
    return prints


def uids(graph: ExecGraph, prints: dict[int, str] | None = None) -> dict[int, str]:
    """The uid of each node by its id, distinct within the plan; ``prints`` are its fingerprints, if known."""
    prints = fingerprints(graph) if prints is None else prints
    twins: dict[str, list[ExecNode]] = defaultdict(list)
    for node in graph.nodes:
        twins[prints[node.id]].append(node)
    if len(twins) == len(graph.nodes):
        return prints
    read_by = readers(graph, prints)
    uid_by_id: dict[int, str] = {}
    for fingerprint, nodes in twins.items():
        nodes_in_order = sorted(nodes, key=lambda node: (read_by[node.id], graph.position(node)))
        for count, node in enumerate(nodes_in_order, start=1):
            uid_by_id[node.id] = fingerprint if count == 1 else f"{fingerprint}-{count}"
    return uid_by_id


def readers(graph: ExecGraph, prints: dict[int, str]) -> dict[int, str]:
    """Per node, a hash of all paths from it to the sinks."""
    hashes: dict[int, str] = {}
    for node in reversed(graph.nodes):
        paths = []
        for consumer in {reader.id: reader for reader in graph.consumers(node)}.values():
            sides = [i for i, source in enumerate(graph.inputs(consumer)) if source.id == node.id]
            paths.append((prints[consumer.id], hashes[consumer.id], sides if consumer.ORDERED_INPUTS else [len(sides)]))
        hashes[node.id] = _hash(sorted(paths))
    return hashes


def assign_uids(graph: ExecGraph) -> ExecGraph:
    """The graph with its uid in the ``stateplan`` object of every node; what else is there stays."""
    names = uids(graph)
    return graph.replace(
        node.replace(stateplan={**(node.stateplan or {}), "uid": names[node.id]}) for node in graph.nodes
    )
