"""EXPLAIN of a statement: Flink's sections, and the state of each operator.

First comes the statement as it was bound, then the physical plan, whose operators have expressions in prefix form and
the hints on state, and then the tree of exec nodes, which is that of the plan file. CHANGELOG_MODE and PLAN_ADVICE add
to the physical plan.

Source: Flink's ``StreamPlanner.explain``, ``FlinkRelOptUtil.toString`` and ``RelTreeWriterImpl``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stateplan.common.redaction import redacted
from stateplan.common.settings import is_batch
from stateplan.common.ttl import format_ttl
from stateplan.execnodes.fingerprint import uids
from stateplan.execnodes.graph import ExecGraph
from stateplan.planner.algebra.relations import Aggregate, Join, Rel, Sink
from stateplan.planner.compile import JointPlan
from stateplan.planner.logical_tree import logical_tree
from stateplan.planner.metadata.unique_keys import upsert_keys
from stateplan.planner.operators import describe_physical
from stateplan.planner.operators.base import update
from stateplan.planner.physical import Physical, changelog_mode
from stateplan.plans.advice import ExplainDetail, advice_text
from stateplan.plans.document import PlanDocument
from stateplan.plans.explain import explain, explain_graph, node_line, sections
from stateplan.session.advice import advice_of_statement, could_be_two

OF_PHYSICAL_PLAN = frozenset({ExplainDetail.CHANGELOG_MODE, ExplainDetail.PLAN_ADVICE})
"""The details that are in the section of the physical plan."""

_LETTERS = {
    "INSERT": "I",
    "UPDATE_BEFORE": "UB",
    "UPDATE_AFTER": "UA",
    "DELETE": "D",
    "~DELETE": "~D",
}


def explain_text(
    compilation: JointPlan,
    graph: ExecGraph,
    options: Mapping[str, str],
    details: frozenset[ExplainDetail] = frozenset(),
    query: bool = False,
) -> str:
    """What EXPLAIN shows of a statement.

    Args:
        compilation: its plans.
        graph: its exec graph, without secrets.
        options: the options of the session.
        details: what is requested beside the operators.
        query: the statement is a query, and the sink its results go to is not shown.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """
    of_plan = details - OF_PHYSICAL_PLAN
    if of_plan:
        explanation = explain(PlanDocument.from_graph(graph), options, of_plan)
    else:
        explanation = explain_graph(graph, uids(graph), options)
    plans, tops = compilation.physical, compilation.physical
    roots: Sequence[Rel] = compilation.bound
    if query:
        tops = [_for_nobody(below) for plan in plans for below in plan.inputs]
        roots = [below for sink in compilation.bound for below in sink.inputs]
        explanation = replace(explanation, trees=tuple(branch for tree in explanation.trees for branch in tree.inputs))
    text = "== Abstract Syntax Tree ==\n" + "\n".join(map(logical_tree, roots))
    physical = _physical(tops, plans, graph, options, details)
    return "\n".join([redacted(text), redacted(physical), *sections(explanation, not is_batch(options))])


def _for_nobody(top: Physical) -> Physical:
    """The plan of a query as Flink explains it: nobody asks its top for the rows before updates. Its results do."""
    return update(top, "ONLY_UPDATE_AFTER") or top


def _physical(
    plans: Sequence[Physical],
    sinks: Sequence[Physical],
    graph: ExecGraph,
    options: Mapping[str, str],
    details: frozenset[ExplainDetail],
) -> str:
    """The section of the physical plan."""
    advised = ExplainDetail.PLAN_ADVICE in details
    advice = advice_of_statement(sinks, graph, options, _related_trees) if advised else []
    first = bool(advice) and advice[0].level == "ADVICE"
    trees = ["".join(_tree(plan, first, ExplainDetail.CHANGELOG_MODE in details)) for plan in plans]
    section = f"== Optimized Physical Plan{' With Advice' if advised else ''} ==\n" + "\n".join(trees)
    return f"{section}\n{advice_text(advice)}" if advised else section


def _related_trees(top: Physical) -> str:
    """The operator that a warning is about, with all below it."""
    return "".join(_tree(top, advice=False, changes=True, keys=True))


def _tree(top: Physical, advice: bool, changes: bool, keys: bool = False) -> Iterator[str]:
    stack: list[tuple[Physical, tuple[bool, ...]]] = [(top, ())]
    while stack:
        node, lasts = stack.pop()
        above = "".join("   " if last else ":  " for last in lasts[:-1])
        branch = "" if not lasts else "+- " if lasts[-1] else ":- "
        number = [1] if advice and could_be_two(node) else []
        line = node_line(describe_physical(node), number, _mode(node) if changes else None)
        line = _with_keys(node, line) if keys else line
        yield f"{above}{branch}{_with_hints(node, line)}\n"
        end = len(node.inputs) - 1
        stack += [(node.inputs[i], (*lasts, i == end)) for i in range(end, -1, -1)]


def _with_keys(node: Physical, line: str) -> str:
    """The line with the keys by which the changes are in order, where there are any."""
    names = [name for name, _ in node.rel.fields]
    keys = sorted([names[i] for i in sorted(key)] for key in upsert_keys(node.rel) if key)
    keys_text = ", ".join(f"[{', '.join(key)}]" for key in keys)
    return f"{line.removesuffix(')')}, upsertKeys=[{keys_text}])" if keys_text else line


def _mode(node: Physical) -> str:
    kinds = [] if isinstance(node.rel, Sink) else [_LETTERS[kind] for kind in changelog_mode(node)]
    return f"[{','.join(kinds) or 'NONE'}]"


def _with_hints(node: Physical, line: str) -> str:
    """The line with the hints on the operator's state behind everything else."""
    rel = node.rel
    options = ""
    if isinstance(rel, Join) and any(rel.ttl_texts):
        sides = zip(("LEFT", "RIGHT"), rel.ttl_texts, strict=True)
        options = "{" + ", ".join(f"{side}={text}" for side, text in sides if text is not None) + "}"
    elif isinstance(rel, Aggregate) and rel.hint is not None and rel.hint.ttl is not None:
        options = f"[{rel.hint.text or format_ttl(rel.hint.ttl)}]"
    return f"{line.removesuffix(')')}, stateTtlHints=[[[STATE_TTL options:{options}]]])" if options else line
