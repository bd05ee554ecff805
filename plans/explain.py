"""EXPLAIN PLAN: the tree of operators as Flink prints it, and below it the state each operator keeps.

The tree is that of Flink's ``CompiledPlan.explain()`` (``ExecNodePlanDumper``): an operator that several
others read is shown once with a ``reuse_id`` and elsewhere as ``Reused``; when the plan has several sinks,
each shared operator gets a tree of its own. The state section is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from execnodes.graph import ExecGraph
from execnodes.nodes.base import ExecNode
from plans.document import PlanDocument
from plans.states import StateView, state_views, table

__all__ = ["Explanation", "TreeNode", "explain", "to_json", "to_text", "tree_text"]


@dataclass(frozen=True)
class TreeNode:
    """An operator in a tree.

    Attributes:
        id: of the node.
        description: its line.
        reuse_id: its number when others refer to it.
        reference_id: number of the operator shown elsewhere that stands here; such a node has no inputs.
        inputs: the operators that feed it.
    """

    id: int
    description: str
    reuse_id: int | None = None
    reference_id: int | None = None
    inputs: tuple[TreeNode, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What EXPLAIN PLAN shows: trees in the order they are printed, and the states of the plan."""

    trees: tuple[TreeNode, ...]
    states: tuple[StateView, ...]


def explain(document: PlanDocument, session: Mapping[str, str] | None = None) -> Explanation:
    """The operators of a plan and their states.

    Args:
        document: the plan.
        session: options of the session, for states whose TTL neither the plan nor the node says.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """
    return Explanation(tuple(_trees(document.graph)), state_views(document, session))


def _root_order(node_ids: Sequence[int]) -> dict[int, int]:
    """The order in which Flink visits nodes of these ids when it looks for the sinks of a plan it has read.

    It goes through a Java ``HashMap`` of all nodes by id; so for small ids it is ascending.
    """
    capacity = 16
    while len(node_ids) > capacity * 3 // 4:
        capacity *= 2
    ordered = sorted(node_ids, key=lambda i: (i ^ (i >> 16)) & (capacity - 1))
    return {node_id: rank for rank, node_id in enumerate(ordered)}


def _trees(graph: ExecGraph) -> Iterator[TreeNode]:
    listed = sorted(graph.nodes, key=graph.position)
    rank = _root_order([node.id for node in listed])
    roots = sorted((node for node in listed if not graph.consumers(node)), key=lambda node: rank[node.id])
    reuse = _reuse_ids(graph, roots)
    shown: dict[int, TreeNode] = {}
    if len(roots) == 1:
        _build(graph, roots[0], reuse, shown)
        yield shown[roots[0].id]
        return
    for node in _inputs_first(graph, roots):
        if node.id in reuse or node in roots:
            _build(graph, node, reuse, shown)
            yield shown[node.id]


def _reuse_ids(graph: ExecGraph, roots: Sequence[ExecNode]) -> dict[int, int]:
    """Numbers of the shared operators, in the order a walk from the sinks meets them for the second time."""
    out: dict[int, int] = {}
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node.id in seen:
            out.setdefault(node.id, len(out) + 1)
            continue
        seen.add(node.id)
        stack.extend(reversed(graph.inputs(node)))
    return out


def _inputs_first(graph: ExecGraph, roots: Sequence[ExecNode]) -> Iterator[ExecNode]:
    """All operators below ``roots``, each after its inputs, depth first."""
    done: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node.id in done:
            continue
        if ready:
            done.add(node.id)
            yield node
        else:
            stack.append((node, True))
            stack.extend((source, False) for source in reversed(graph.inputs(node)))


def _build(graph: ExecGraph, top: ExecNode, reuse: Mapping[int, int], shown: dict[int, TreeNode]) -> None:
    """Puts the tree of ``top`` into ``shown``; a shared operator that is there already is referred to."""
    met: list[tuple[ExecNode, bool]] = []  # in the order of the lines, and whether a reference stands there
    children: list[list[int]] = []
    opened = set(shown)
    stack: list[tuple[ExecNode, int]] = [(top, -1)]
    while stack:
        node, parent = stack.pop()
        reference = node.id in reuse and node.id in opened
        if parent >= 0:
            children[parent].append(len(met))
        if not reference:
            opened.add(node.id)
            stack.extend((source, len(met)) for source in reversed(graph.inputs(node)))
        met.append((node, reference))
        children.append([])
    trees: dict[int, TreeNode] = {}
    for position in range(len(met) - 1, -1, -1):
        node, reference = met[position]
        if reference:
            trees[position] = TreeNode(node.id, "Reused", reference_id=reuse[node.id])
        else:
            inputs = tuple(trees[child] for child in children[position])
            trees[position] = TreeNode(node.id, node.description, reuse.get(node.id), None, inputs)
            shown[node.id] = trees[position]


def _walk(tree: TreeNode) -> Iterator[tuple[TreeNode, tuple[bool, ...]]]:
    """The operators of a tree, a line each, with whether it, and each above it, is a last input."""
    stack: list[tuple[TreeNode, tuple[bool, ...]]] = [(tree, ())]
    while stack:
        node, lasts = stack.pop()
        yield node, lasts
        end = len(node.inputs) - 1
        stack.extend((node.inputs[i], (*lasts, i == end)) for i in range(end, -1, -1))


def _line(node: TreeNode) -> str:
    if node.reference_id is not None:
        return f"{node.description}(reference_id=[{node.reference_id}])"
    return node.description + (f"(reuse_id=[{node.reuse_id}])" if node.reuse_id is not None else "")


def tree_text(tree: TreeNode) -> str:
    """A tree as Flink prints it, a line per operator."""
    lines = []
    for node, lasts in _walk(tree):
        above = "".join("   " if last else ":  " for last in lasts[:-1])
        lines.append(above + ("" if not lasts else "+- " if lasts[-1] else ":- ") + _line(node) + "\n")
    return "".join(lines)


def to_text(explanation: Explanation) -> str:
    """The whole explanation as text."""
    trees = "\n".join(tree_text(tree) for tree in explanation.trees)
    return f"== Optimized Execution Plan ==\n{trees}\n== State ==\n{_states_text(explanation.states)}"


def _states_text(states: Sequence[StateView]) -> str:
    if not states:
        return "no operator keeps state with a TTL\n"
    rows = [
        (f"{s.operator}[{s.node_id}]", s.name, s.ttl_text, "" if s.source == "plan" else f"({s.source_text})")
        for s in states
    ]
    return table(rows)


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The whole explanation as JSON-ready data.

    ``trees`` is a list of trees, each a list of operators in the order of the lines with their ``depth``;
    ``states`` is a list of states.
    """
    return {
        "trees": [[_node_json(node, len(lasts)) for node, lasts in _walk(tree)] for tree in explanation.trees],
        "states": [state.to_json() for state in explanation.states],
    }


def _node_json(node: TreeNode, depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {"id": node.id, "depth": depth, "description": node.description}
    numbers = {"reuse_id": node.reuse_id, "reference_id": node.reference_id}
    return out | {key: number for key, number in numbers.items() if number is not None}
