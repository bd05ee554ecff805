"""Which operator of one plan was which of another: by what they mean, else by how much they have in common.

Operators are paired by their fingerprint, then by the lineage of what they keep or emit, then by similarity: of those
of one type the two that share most of what distinguishes operators are paired first. What counts is, from heavy to
light, the table, the keys, the expressions, the neighbours, and the names of fields; an operator is not paired with one
it shares too little with, as a wrong pair says less than none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans.changes import meaningful
from stateplan.plans.meanings import Lineage

LEAST = 0.25
"""Operators that are less similar than this are not paired."""

_TABLE, _KEY, _VALUE, _NEIGHBOUR, _NAME = 6.0, 3.0, 2.0, 1.5, 0.5
_KEYS = frozenset({"grouping", "uniqueKeys", "leftKeys", "rightKeys", "partition", "joinType", "primaryKey"})
_FEW = 48
"""Among more operators of one type than this, only those are compared that have something rare in common, or stand at
about the same place."""
_RARE, _NEAR = 6, 4

Features = Mapping[str, float]


def match(
    old: ExecGraph,
    new: ExecGraph,
    by: Sequence[tuple[Mapping[int, Hashable], Mapping[int, Hashable]]],
    lineages: tuple[Mapping[int, Lineage], Mapping[int, Lineage]],
) -> dict[int, int]:
    """The operator of ``old`` that each one of ``new`` was, by id; those without one are omitted.

    Args:
        old, new: the plans.
        by: names to pair by first, each as (of the old operators, of the new ones) by id; one that several bear pairs
            none of them, as nothing says which of them has which state.
        lineages: of both plans.
    """
    pairs: dict[int, int] = {}
    old_ids: set[int] = set()

    def pair(was: int, new_id: int) -> None:
        pairs[new_id] = was
        old_ids.add(was)

    for names in by:
        bearers = _bearers(names[0], old_ids), _bearers(names[1], pairs)
        for name, ids in bearers[1].items():
            candidates_of_name = bearers[0].get(name, ())
            if len(candidates_of_name) == 1 == len(ids):
                pair(candidates_of_name[0], ids[0])
    # Neighbours that have been paired say more than their types: what is left is compared once with and once again.
    for _ in range(2):
        left = (
            _by_type(n for n in old.nodes if n.id not in old_ids),
            _by_type(n for n in new.nodes if n.id not in pairs),
        )
        for kind, nodes in left[1].items():
            candidates = left[0].get(kind, [])
            if not candidates:
                continue
            features = (
                {n.id: _features(n, old, lineages[0], {i: i for i in old_ids}.get) for n in candidates},
                {n.id: _features(n, new, lineages[1], pairs.get) for n in nodes},
            )
            scored = sorted(_scores(candidates, nodes, features), reverse=True)
            for score, _, was, new_id in scored:
                if score >= LEAST and was not in old_ids and new_id not in pairs:
                    pair(was, new_id)
    return pairs


def _bearers(names: Mapping[int, Hashable], without: Container[int]) -> dict[Hashable, list[int]]:
    ids_by_name: dict[Hashable, list[int]] = defaultdict(list)
    for number, name in names.items():
        if number not in without:
            ids_by_name[name].append(number)
    return ids_by_name


def _by_type(nodes: Iterable[ExecNode]) -> dict[str, list[ExecNode]]:
    nodes_by_type: dict[str, list[ExecNode]] = defaultdict(list)
    for node in nodes:
        nodes_by_type[node.name].append(node)
    return nodes_by_type


def _scores(
    old: Sequence[ExecNode], new: Sequence[ExecNode], features: tuple[Mapping[int, Features], Mapping[int, Features]]
) -> Iterator[tuple[float, float, int, int]]:
    """(similarity, nearness in the plan, old id, new id) of the pairs worth a look."""
    bearers: dict[str, list[int]] = defaultdict(list)
    if len(old) > _FEW:
        for place, was in enumerate(old):
            for name in features[0][was.id]:
                bearers[name].append(place)
    for at, now in enumerate(new):
        middle = at * len(old) // len(new)
        places: Iterable[int] = range(len(old))
        if len(old) > _FEW:
            bearers_of_names = (bearers.get(name, ()) for name in features[1][now.id])
            rare = {place for some in bearers_of_names if len(some) <= _RARE for place in some}
            places = sorted({*rare, *range(max(0, middle - _NEAR), min(len(old), middle + _NEAR + 1))})
        for place in places:
            was = old[place]
            near = 1.0 if was.id == now.id else -abs(place - middle) / len(old)
            yield similarity(features[0][was.id], features[1][now.id]), near, was.id, now.id


def similarity(one: Features, other: Features) -> float:
    """The weight of what both have by the weight of what either has: 0 for nothing in common, 1 for the same."""
    common = sum(weight for name, weight in one.items() if name in other)
    return common / max(1e-9, sum(one.values()) + sum(other.values()) - common)


def _features(
    node: ExecNode, graph: ExecGraph, lineages: Mapping[int, Lineage], as_old: Callable[[int], int | None]
) -> Features:
    features: dict[str, float] = {}
    for key, value in meaningful(node).items():
        if key in ("scanTableSource", "dynamicTableSink"):
            features[f"table {value['table'].get('identifier')}"] = _TABLE
            options = (value["table"].get("resolvedTable") or {}).get("options") or {}
            features.update({f"option {k}={v}": _NAME for k, v in options.items()})
        elif key not in ("type", "configuration"):
            weight = _KEY if key in _KEYS else _VALUE
            features.update({f"{key} {part}": weight for part in _parts(value)})
    for field in node.output_type.fields:
        features[f"field {field.name}"] = _NAME
    for value_hash in lineages[node.id].fields:
        features[f"value {value_hash}"] = _NAME
    inputs = graph.inputs(node)
    for direction, neighbours in (("reads", inputs), ("read by", graph.consumers(node))):
        for neighbour in neighbours:
            old_id = as_old(neighbour.id)
            features[f"{direction} {neighbour.title if old_id is None else old_id}"] = _NEIGHBOUR
    return features


def _parts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield json.dumps(item, sort_keys=True)
    elif isinstance(value, dict) and "kind" not in value:
        for key, item in value.items():
            for part in _parts(item):
                yield f"{key} {part}"
    elif value is not None:
        yield json.dumps(value, sort_keys=True)
