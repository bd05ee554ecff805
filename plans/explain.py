"""EXPLAIN PLAN: the tree of operators as Flink prints it, and below it the state each operator keeps.

With explain details more is said. Flink says nothing of changes or advice on a plan that is compiled: here the plan is
all there is, so the operators of its tree carry what EXPLAIN of a statement puts on those of the physical plan.

The tree is that of Flink's ``CompiledPlan.explain()`` (``ExecNodePlanDumper``): an operator that several
others read is shown once with a ``reuse_id`` and elsewhere as ``Reused``; when the plan has several sinks,
each shared operator gets a tree of its own. The state section is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateplan.common.changelog import ChangelogMode, RowKind
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import in_columns
from stateplan.common.redaction import redacted
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans import jackson
from stateplan.plans.advice import Advice, ExplainDetail, advice_of_plan, advice_text, explain_details
from stateplan.plans.document import PlanDocument
from stateplan.plans.job_graph import job_graph
from stateplan.plans.states import StateView, state_views

_LETTERS = {RowKind.INSERT: "I", RowKind.UPDATE_BEFORE: "UB", RowKind.UPDATE_AFTER: "UA", RowKind.DELETE: "D"}


@dataclass(frozen=True)
class TreeNode:
    """An operator in a tree.

    Attributes:
        id: the id of the node.
        description: its line.
        reuse_id: its number when others refer to it.
        reference_id: number of the operator shown elsewhere that is here; such a node has no inputs.
        inputs: the operators that feed it.
    """

    id: int
    description: str
    reuse_id: int | None = None
    reference_id: int | None = None
    inputs: tuple[TreeNode, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What EXPLAIN PLAN shows.

    Attributes:
        trees: in the order they are printed.
        states: of the plan.
        changes: the changelog mode of each operator by id, as Flink prints it; of those where it can be determined.
        advice: what could be done better.
        job: the stream graph. Each of the last three is None if it was not requested.
    """

    trees: tuple[TreeNode, ...]
    states: tuple[StateView, ...]
    changes: Mapping[int, str] | None = None
    advice: tuple[Advice, ...] | None = None
    job: Mapping[str, Any] | None = None


def explain(
    document: PlanDocument, session: Mapping[str, str] | None = None, details: Iterable[str] = ()
) -> Explanation:
    """The operators of a plan and their states.

    Args:
        document: the plan.
        session: options of the session, for states whose TTL neither the plan nor the node says.
        details: names of explain details, in small or capital letters.

    Raises:
        PlanError: PLAN180, PLAN181, for a detail that there is not; PLAN05x, when an option that decides about a TTL
            is not a duration.
    """
    graph, wanted_details = document.graph, explain_details(details)
    explanation = explain_graph(graph, document.uids, session)
    if ExplainDetail.CHANGELOG_MODE in wanted_details:
        modes = changelog_modes(graph).items()
        sinks = {node.id for node in graph.sinks}
        texts = {i: mode_text(None if i in sinks else mode) for i, mode in modes if i in sinks or mode is not None}
        explanation = replace(explanation, changes=texts)
    if ExplainDetail.PLAN_ADVICE in wanted_details:
        from stateplan.plans import lint

        explanation = replace(explanation, advice=(*advice_of_plan(graph, session), *lint.advice(document, session)))
    if ExplainDetail.JSON_EXECUTION_PLAN in wanted_details:
        with document.placing():
            explanation = replace(explanation, job=job_graph(graph, session))
    return explanation


def explain_graph(graph: ExecGraph, uids: Mapping[int, str], session: Mapping[str, str] | None = None) -> Explanation:
    """The operators of a graph and their states, without details.

    Args:
        graph: the compiled query.
        uids: the uids of its nodes, by id.
        session: as for :func:`explain`.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """
    return Explanation(tuple(_trees(graph)), state_views(graph, uids, session))


def mode_text(mode: ChangelogMode | None) -> str:
    """A changelog mode as Flink prints it: ``[I,UB,UA,D]``; ``[NONE]`` for None, as of a sink."""
    return "[NONE]" if mode is None else f"[{','.join(text for kind, text in _LETTERS.items() if kind in mode)}]"


def node_line(description: str, advice: Sequence[int], changes: str | None) -> str:
    """An operator's line with what explain details add: ``Calc(advice=[1], select=[a], changelogMode=[I])``."""
    name, bracket, rest = description.partition("(")
    inside = rest.removesuffix(")") if bracket else ""
    first = f"advice=[{', '.join(map(str, advice))}]" if advice else ""
    last = f"changelogMode={changes}" if changes is not None else ""
    arguments = ", ".join(part for part in (first, inside, last) if part)
    return f"{name}({arguments})" if arguments else description


def _root_order(node_ids: Sequence[int]) -> dict[int, int]:
    """The order in which Flink visits nodes of these ids when it looks for the sinks of a plan it has read.

    It goes through a Java ``HashMap`` of all nodes by id; so for small ids it is ascending.
    """
    capacity = 16
    while len(node_ids) > capacity * 3 // 4:
        capacity *= 2
    sorted_ids = sorted(node_ids, key=lambda i: (i ^ (i >> 16)) & (capacity - 1))
    return {node_id: rank for rank, node_id in enumerate(sorted_ids)}


def _trees(graph: ExecGraph) -> Iterator[TreeNode]:
    nodes = sorted(graph.nodes, key=graph.position)
    rank = _root_order([node.id for node in nodes])
    roots = sorted((node for node in nodes if not graph.consumers(node)), key=lambda node: rank[node.id])
    reuse = _reuse_ids(graph, roots)
    tree_by_id: dict[int, TreeNode] = {}
    if len(roots) == 1:
        _build(graph, roots[0], reuse, tree_by_id)
        yield tree_by_id[roots[0].id]
        return
    for node in _inputs_first(graph, roots):
        if node.id in reuse or node in roots:
            _build(graph, node, reuse, tree_by_id)
            yield tree_by_id[node.id]


def _reuse_ids(graph: ExecGraph, roots: Sequence[ExecNode]) -> dict[int, int]:
    """Numbers of the shared operators, in the order a walk from the sinks meets them for the second time."""
    reuse_ids: dict[int, int] = {}
    visited_ids: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node.id in visited_ids:
            reuse_ids.setdefault(node.id, len(reuse_ids) + 1)
            continue
        visited_ids.add(node.id)
        stack.extend(reversed(graph.inputs(node)))
    return reuse_ids


def _inputs_first(graph: ExecGraph, roots: Sequence[ExecNode]) -> Iterator[ExecNode]:
    """All operators below ``roots``, each after its inputs, depth first."""
    visited_ids: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node.id in visited_ids:
            continue
        if ready:
            visited_ids.add(node.id)
            yield node
        else:
            stack.append((node, True))
            stack.extend((source, False) for source in reversed(graph.inputs(node)))


def _build(graph: ExecGraph, top: ExecNode, reuse: Mapping[int, int], tree_by_id: dict[int, TreeNode]) -> None:
    """Puts the tree of ``top`` into ``tree_by_id``; a shared operator that is there already is referred to."""
    entries: list[tuple[ExecNode, bool]] = []  # in the order of the lines, and whether a reference stands there
    children: list[list[int]] = []
    opened_ids = set(tree_by_id)
    stack: list[tuple[ExecNode, int]] = [(top, -1)]
    while stack:
        node, parent = stack.pop()
        reference = node.id in reuse and node.id in opened_ids
        if parent >= 0:
            children[parent].append(len(entries))
        if not reference:
            opened_ids.add(node.id)
            stack.extend((source, len(entries)) for source in reversed(graph.inputs(node)))
        entries.append((node, reference))
        children.append([])
    trees: dict[int, TreeNode] = {}
    for position in range(len(entries) - 1, -1, -1):
        node, reference = entries[position]
        if reference:
            trees[position] = TreeNode(node.id, "Reused", reference_id=reuse[node.id])
        else:
            inputs = tuple(trees[child] for child in children[position])
            trees[position] = TreeNode(node.id, redacted(node.description), reuse.get(node.id), None, inputs)
            tree_by_id[node.id] = trees[position]


def _walk(tree: TreeNode) -> Iterator[tuple[TreeNode, tuple[bool, ...]]]:
    """The operators of a tree, a line each, with whether it, and each above it, is a last input."""
    stack: list[tuple[TreeNode, tuple[bool, ...]]] = [(tree, ())]
    while stack:
        node, lasts = stack.pop()
        yield node, lasts
        end = len(node.inputs) - 1
        stack.extend((node.inputs[i], (*lasts, i == end)) for i in range(end, -1, -1))


def _line(node: TreeNode, explanation: Explanation | None) -> str:
    if node.reference_id is not None:
        return f"{node.description}(reference_id=[{node.reference_id}])"
    text = node.description
    if explanation is not None:
        numbers = [k for k, one in enumerate(explanation.advice or (), 1) if node.id in one.nodes]
        text = node_line(text, numbers, (explanation.changes or {}).get(node.id))
    return text + (f"(reuse_id=[{node.reuse_id}])" if node.reuse_id is not None else "")


def tree_text(tree: TreeNode, explanation: Explanation | None = None) -> str:
    """A tree as Flink prints it, a line per operator, with the details of ``explanation``."""
    lines = []
    for node, lasts in _walk(tree):
        above = "".join("   " if last else ":  " for last in lasts[:-1])
        lines.append(above + ("" if not lasts else "+- " if lasts[-1] else ":- ") + _line(node, explanation) + "\n")
    return "".join(lines)


def to_text(explanation: Explanation) -> str:
    """The whole explanation as text."""
    return "\n".join(sections(explanation))


def sections(explanation: Explanation, with_states: bool = True) -> Iterator[str]:
    """The parts of the text, which stand a line apart: operators, advice, job, states."""
    trees = "\n".join(tree_text(tree, explanation) for tree in explanation.trees)
    title = "Optimized Execution Plan" + (" With Advice" if explanation.advice is not None else "")
    yield f"== {title} ==\n{trees}"
    if explanation.advice is not None:
        yield advice_text(explanation.advice)
    if explanation.job is not None:
        yield f"== Physical Execution Plan ==\n{jackson.dumps(explanation.job)}\n"
    if with_states:
        yield f"== State ==\n{_states_text(explanation.states)}"


def _states_text(states: Sequence[StateView]) -> str:
    if not states:
        return "no operator has state with a TTL\n"
    rows = [
        (
            f"{s.operator}[{s.node_id}]",
            s.name,
            s.ttl_text,
            "" if s.source == "plan" else f"({s.source_text.removeprefix('from the ')})",
        )
        for s in states
    ]
    return in_columns(rows)


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The whole explanation as JSON-ready data.

    ``trees`` is a list of trees, each a list of operators in the order of the lines with their ``depth``;
    ``states`` is a list of states. With details, operators have a ``changelogMode``, and there are ``advice`` and
    ``executionPlan``.
    """
    changes = explanation.changes or {}
    fields: dict[str, Any] = {
        "trees": [[_node_json(node, len(lasts), changes) for node, lasts in _walk(tree)] for tree in explanation.trees],
        "states": [state.to_json() for state in explanation.states],
    }
    if explanation.advice is not None:
        fields["advice"] = [{"level": a.level, "text": a.text, "nodes": list(a.nodes)} for a in explanation.advice]
    if explanation.job is not None:
        fields["executionPlan"] = explanation.job
    return fields


def _node_json(node: TreeNode, depth: int, changes: Mapping[int, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": node.id, "depth": depth, "description": redacted(node.description)}
    if node.reference_id is None and node.id in changes:
        fields["changelogMode"] = changes[node.id].strip("[]").split(",")
    numbers = {"reuse_id": node.reuse_id, "reference_id": node.reference_id}
    return fields | {key: number for key, number in numbers.items() if number is not None}
