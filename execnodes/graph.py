"""The exec graph: the nodes of a plan, their edges, and what must hold between them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from stateplan.common.errors import Place, PlanError, StateplanError, nearest
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import FieldRef
from stateplan.execnodes.model import value_text
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import node_from_json
from stateplan.execnodes.validation import PlanWarning, escape

FLINK_VERSION = "2.3"
"""The Flink version whose plans are written here."""

FLINK_VERSIONS = (*(f"1.{minor}" for minor in range(3, 21)), "2.0", "2.1", "2.2", "2.3")
"""Versions a plan may name (Flink's ``FlinkVersion``)."""

MAX_WAYS = 10_000
"""How many ways rows of one operator may take where each is worked out; see :meth:`ExecGraph.check_ways`."""

_TOP = ("flinkVersion", "nodes", "edges")
_EDGE = {"source", "target", "shuffle", "shuffleMode"}
_SINK = "stream-exec-sink"


class ExecGraph:
    """Nodes and edges of a plan.

    Args:
        flink_version: the Flink version whose format the plan has, such as ``2.3``.
        nodes: in any order; kept with inputs before their consumers, else as given.
        edges: (source id, target id); the order of the edges into a node is the order of its inputs.
        warnings: findings of reading the plan.

    Raises:
        PlanError: PLAN036 (an id twice), PLAN037 (an edge to a missing node), PLAN039 (a cycle).
    """

    def __init__(
        self,
        flink_version: str,
        nodes: Iterable[ExecNode],
        edges: Iterable[tuple[int, int]],
        warnings: Sequence[PlanWarning] = (),
    ) -> None:
        listed_nodes = tuple(nodes)
        self.flink_version = flink_version
        self.edges: tuple[tuple[int, int], ...] = tuple((source, target) for source, target in edges)
        self.warnings: tuple[PlanWarning, ...] = tuple(warnings)
        self._by_id: dict[int, ExecNode] = {}
        self._position = {node.id: position for position, node in enumerate(listed_nodes)}
        for position, node in enumerate(listed_nodes):
            if node.id in self._by_id:
                raise error_at("PLAN036", f"/nodes/{position}/id", first=self._by_id[node.id], node=node)
            self._by_id[node.id] = node
        self._inputs: dict[int, list[int]] = {node.id: [] for node in listed_nodes}
        self._consumers: dict[int, list[int]] = {node.id: [] for node in listed_nodes}
        for position, edge in enumerate(self.edges):
            for key, end in zip(("source", "target"), edge, strict=True):
                if end not in self._by_id:
                    raise error_at("PLAN037", f"/edges/{position}/{key}", edge=edge, end=end, some=_some(self._by_id))
            self._inputs[edge[1]].append(edge[0])
            self._consumers[edge[0]].append(edge[1])
        self.nodes: tuple[ExecNode, ...] = self._sorted(listed_nodes)

    def __repr__(self) -> str:
        return f"ExecGraph({len(self.nodes)} nodes, {len(self.edges)} edges)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecGraph) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment] # not hashable

    @property
    def sinks(self) -> tuple[ExecNode, ...]:
        """The nodes that write, in order."""
        return tuple(node for node in self.nodes if node.name == _SINK)

    def node(self, node_id: int) -> ExecNode:
        """The node with this id.

        Raises:
            PlanError: PLAN037, it does not exist.
        """
        node = self._by_id.get(node_id)
        if node is None:
            raise PlanError("PLAN037.no_such_node", node_id=node_id, some=_some(self._by_id))
        return node

    def inputs(self, node: ExecNode | int) -> tuple[ExecNode, ...]:
        """The nodes that feed ``node``, in the order of its inputs; one may appear twice."""
        return tuple(self._by_id[i] for i in self._inputs[node if isinstance(node, int) else node.id])

    def upstream(
        self, start: Iterable[ExecNode], beyond: Callable[[ExecNode], bool] = lambda node: True
    ) -> Iterator[ExecNode]:
        """Nodes, and those from which rows reach them, each once; not by way of nodes that ``beyond`` denies."""
        visited_ids, stack = set[int](), list(start)
        while stack:
            node = stack.pop()
            if node.id not in visited_ids:
                visited_ids.add(node.id)
                yield node
                if beyond(node):
                    stack.extend(reversed(self.inputs(node)))

    def consumers(self, node: ExecNode | int) -> tuple[ExecNode, ...]:
        """The nodes that ``node`` feeds, in the order of the edges; one may appear twice."""
        return tuple(self._by_id[i] for i in self._consumers[node if isinstance(node, int) else node.id])

    def check_ways(self, ends: Callable[[ExecNode], bool], reason: str) -> None:
        """Refuses a plan in which rows take very many ways, as in unions of one input twice, one behind the other.

        Args:
            ends: whether a way ends at an operator; through others it continues.
            what: what there would be one of for each way.

        Raises:
            PlanError: PLAN059, when the ways from one operator are more than :data:`MAX_WAYS`.
        """
        ways: dict[int, int] = {}
        for node in reversed(self.nodes):
            ways[node.id] = sum(1 if ends(reader) else ways[reader.id] for reader in self.consumers(node))
            if ways[node.id] > MAX_WAYS:
                raise error_at(
                    "PLAN059", self.pointer(node), id=node.id, title=node.title, max_ways=MAX_WAYS, what=reason
                )

    def input_types(self, node: ExecNode | int) -> tuple[LogicalType, ...]:
        """The ROW types of the inputs of ``node``."""
        return tuple(source.output_type for source in self.inputs(node))

    def describe(self, node: ExecNode | int) -> str:
        """What the node does, in words, with the names of its input fields."""
        target = self.node(node) if isinstance(node, int) else node
        return target.describe(self.input_types(target))

    def position(self, node: ExecNode | int) -> int:
        """Index of the node in ``nodes`` of the JSON."""
        return self._position[node if isinstance(node, int) else node.id]

    def pointer(self, node: ExecNode | int) -> str:
        """JSON pointer of the node."""
        return f"/nodes/{self.position(node)}"

    @contextlib.contextmanager
    def placing(self, node: ExecNode | int) -> Iterator[None]:
        """Within, an error without a place is one about ``node``."""
        try:
            yield
        except StateplanError as error:
            if error.place is None:
                error.place = Place(pointer=self.pointer(node))
            raise

    def replace(self, nodes: Iterable[ExecNode]) -> ExecGraph:
        """The same graph with these nodes instead of the ones with the same ids."""
        new = {node.id: node for node in nodes}
        return ExecGraph(
            self.flink_version, (new.get(node.id, node) for node in self._nodes_as_listed()), self.edges, self.warnings
        )

    def _nodes_as_listed(self) -> list[ExecNode]:
        return sorted(self.nodes, key=lambda node: self._position[node.id])

    def to_json(self) -> dict[str, Any]:
        """The plan as Flink writes it."""
        return {
            "flinkVersion": self.flink_version,
            "nodes": [node.to_json() for node in self._nodes_as_listed()],
            "edges": [
                {
                    "source": source,
                    "target": target,
                    "shuffle": {"type": "FORWARD"},
                    "shuffleMode": "PIPELINED",
                }
                for source, target in self.edges
            ],
        }

    @classmethod
    def from_json(cls, data: Any, *, strict_unknown: bool = True) -> ExecGraph:
        """The graph of a parsed plan, validated.

        Args:
            data: the plan's JSON.
            strict_unknown: refuse unknown keys in nodes; else they are kept and reported as ``warnings``.

        Raises:
            PlanError: with the JSON pointer of what is wrong as its place.
        """
        version, raw_nodes, raw_edges = _top_level(data)
        warnings: list[PlanWarning] = []
        nodes = []
        for position, raw in enumerate(raw_nodes):
            node, node_warnings = node_from_json(raw, f"/nodes/{position}", strict_unknown)
            nodes.append(node)
            warnings.extend(node_warnings)
        edges = [_edge(raw, position, strict_unknown, warnings) for position, raw in enumerate(raw_edges)]
        graph = cls(version, nodes, edges, warnings)
        graph.validate()
        return graph

    def validate(self) -> None:
        """Checks what a complete plan must have.

        Raises:
            PlanError: PLAN038 (a node that reaches no sink), PLAN047 (wrong number of inputs), PLAN048 (no
                sink), PLAN049 (a field that the input does not have), PLAN064 (an output of the wrong width),
                PLAN068 (a type that is not that of the field).
        """
        if not self.sinks:
            raise error_at("PLAN048", "/nodes", sink=_SINK, what="sink")
        for node in self.nodes:
            self._check_inputs(node)
        reached_ids = {node.id for node in self.upstream(self.sinks)}
        for node in self.nodes:
            if node.id not in reached_ids:
                raise error_at("PLAN038", self.pointer(node), id=node.id, title=node.title)
            self._check_fields(node)

    def _check_inputs(self, node: ExecNode) -> None:
        have, want = len(self._inputs[node.id]), node.input_count
        if have != want if want is not None else have == 0:
            raise error_at(
                "PLAN047",
                self.pointer(node),
                node=node,
                count=_count(have, "input"),
                expected="one or more edges to it" if want is None else f"{_count(want, 'edge')} to it",
            )
        if len(node.input_properties) != have:
            raise error_at(
                "PLAN047.input_properties",
                self.pointer(node) + "/inputProperties",
                node=node,
                count=_count(have, "input"),
            )

    def _check_fields(self, node: ExecNode) -> None:
        rows = [row.fields for row in self.input_types(node)]
        all_fields = [f for fields in rows for f in fields]
        for ref in node.field_refs():
            fields = all_fields if ref.input is None else rows[ref.input]
            if ref.field >= len(fields):
                raise self._bad_ref(node, ref, len(fields))
            if ref.type is not None and ref.type.root != fields[ref.field].type.root:
                field = fields[ref.field]
                raise error_at("PLAN068", self.pointer(node) + ref.pointer + "/type", node=node, ref=ref, found=field)
        self._check_output(node)

    def _check_output(self, node: ExecNode) -> None:
        fields, want = node.output_type.fields, node.computed_types(self.input_types(node))
        pointer = self.pointer(node) + "/outputType"
        subject = f"the outputType of node {node.id} ({node.title}) has"
        if want is not None and len(fields) != len(want):
            raise error_at(
                "PLAN064",
                pointer,
                what=subject,
                count=_count(len(fields), "field"),
                expected=_count(len(want), "field"),
            )
        for have, computed_type in zip(fields, want or (), strict=False):
            if computed_type is not None and have.type.root != computed_type.root:
                raise error_at("PLAN068.computed", pointer, what=subject, have=have, expected=computed_type.summary())

    def _bad_ref(self, node: ExecNode, ref: FieldRef, width: int) -> PlanError:
        one = len(self._inputs[node.id]) == 1
        side = "" if one else " of both inputs" if ref.input is None else f" of input {ref.input}"
        return error_at(
            "PLAN049",
            self.pointer(node) + ref.pointer,
            id=node.id,
            title=node.title,
            field=ref.field,
            side=side,
            count=_count(width, "field"),
            expected=f"a number from 0 to {width - 1}" if width else "no field, as the input has none",
        )

    def _sorted(self, listed_nodes: Sequence[ExecNode]) -> tuple[ExecNode, ...]:
        """Inputs before consumers; nodes keep their order where that already holds."""
        open_inputs = {node.id: len(self._inputs[node.id]) for node in listed_nodes}
        ready = [self._position[i] for i, count in open_inputs.items() if not count]
        heapify(ready)
        sorted_nodes: list[ExecNode] = []
        while ready:
            node = listed_nodes[heappop(ready)]
            sorted_nodes.append(node)
            for consumer in self._consumers[node.id]:
                open_inputs[consumer] -= 1
                if not open_inputs[consumer]:
                    heappush(ready, self._position[consumer])
        if len(sorted_nodes) < len(listed_nodes):
            cycle = self._cycle({i for i, count in open_inputs.items() if count})
            titles = [f"{i} ({self._by_id[i].title})" for i in (*cycle, cycle[0])]
            names = " -> ".join(
                titles if len(titles) <= 12 else [*titles[:8], f"{len(titles) - 10} more", *titles[-2:]]
            )
            raise error_at("PLAN039", f"/edges/{self._edge_on(cycle)}", names=names)
        return tuple(sorted_nodes)

    def _cycle(self, left: set[int]) -> list[int]:
        """One cycle among nodes that could not be sorted, in the direction of the edges."""
        path: list[int] = []
        current = min(left)
        while current not in path:
            path.append(current)
            current = next(i for i in self._inputs[current] if i in left)
        return path[path.index(current) :][::-1]

    def _edge_on(self, cycle: Sequence[int]) -> int:
        return self.edges.index((cycle[-1], cycle[0]))


def error_at(code: str, pointer: str, *, expected: str | None = None, **values: Any) -> PlanError:
    """An error at a JSON pointer of a plan."""
    return PlanError(code, place=Place(pointer=pointer), expected=expected, **values)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _some(ids: Iterable[int]) -> str:
    sorted_ids = sorted(ids)
    return (
        ", ".join(map(str, sorted_ids[:20])) + (", ..." if len(sorted_ids) > 20 else "")
        or "none, as the plan has no nodes"
    )


def _top_level(data: Any) -> tuple[str, list[Any], list[Any]]:
    if not isinstance(data, dict):
        raise error_at("PLAN065", "", top=", ".join(_TOP))
    for key in data:
        if key not in _TOP:
            raise PlanError(
                "PLAN045",
                key=key,
                known=", ".join(_TOP),
                place=Place(pointer=f"/{escape(key)}"),
                hint=nearest(key, _TOP),
            )
    for key, kind, name in zip(_TOP, (str, list, list), ('a text such as "2.3"', "a list", "a list"), strict=True):
        if key not in data:
            raise error_at("PLAN041", "", key=key)
        if not isinstance(data[key], kind):
            raise error_at("PLAN040", f"/{key}", shown=value_text(data[key]), what=f'"{key}"', expected=name)
    if data["flinkVersion"] not in FLINK_VERSIONS:
        raise PlanError(
            "PLAN066",
            shown=value_text(data["flinkVersion"]),
            versions=FLINK_VERSIONS,
            place=Place(pointer="/flinkVersion"),
            hint=nearest(data["flinkVersion"], FLINK_VERSIONS),
        )
    if not data["nodes"]:
        raise error_at("PLAN048", "/nodes", what="nodes")
    return data["flinkVersion"], data["nodes"], data["edges"]


def _edge(raw: Any, position: int, strict: bool, warnings: list[PlanWarning]) -> tuple[int, int]:
    pointer = f"/edges/{position}"
    if not isinstance(raw, dict):
        raise error_at("PLAN040", pointer, shown=value_text(raw), what="an edge")
    for key in ("source", "target"):
        if key not in raw:
            raise error_at("PLAN041", pointer, key=key)
        if not isinstance(raw[key], int) or isinstance(raw[key], bool):
            raise error_at(
                "PLAN040",
                f"{pointer}/{key}",
                shown=value_text(raw[key]),
                what=f"the {key} of an edge",
                expected="the id of a node",
            )
    for key in raw:
        if key not in _EDGE:
            if strict:
                raise PlanError(
                    "PLAN045",
                    key=key,
                    known=sorted(_EDGE),
                    place=Place(pointer=f"{pointer}/{escape(key)}"),
                    hint=nearest(key, _EDGE),
                )
            warnings.append(PlanWarning(f"{pointer}/{escape(key)}", f"unknown key '{key}'", nearest(key, _EDGE)))
    _require_value(raw, "shuffle", {"type": "FORWARD"}, pointer)
    _require_value(raw, "shuffleMode", "PIPELINED", pointer)
    return raw["source"], raw["target"]


def _require_value(raw: dict[str, Any], key: str, value: Any, pointer: str) -> None:
    if raw.get(key, value) != value:
        raise error_at("PLAN067", f"{pointer}/{key}", key=key, given=json.dumps(raw[key])[:60], value=json.dumps(value))
