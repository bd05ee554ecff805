"""PLAN_ADVICE on a statement: what Flink's analyzers say of its physical plan (FLIP-280), in their words; and, by the
rules of lint, where Flink's rows for the plan are wrong.

Source: Flink's ``GroupAggregationAnalyzer`` and ``NonDeterministicUpdateAnalyzer``, which has the messages of
``StreamNonDeterministicUpdatePlanVisitor``; checked against what Flink 2.3 printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stateplan.execnodes.graph import ExecGraph
from stateplan.planner.algebra.phased import merges
from stateplan.planner.algebra.relations import Aggregate, Calc
from stateplan.planner.digest.expressions import physical_expression
from stateplan.planner.lowering import lower_traced
from stateplan.planner.physical import Physical
from stateplan.plans.advice import Advice, two_phase_advice
from stateplan.plans.document import PlanDocument

if TYPE_CHECKING:
    from stateplan.plans.lint.determinism import Varying

_NILADIC = re.compile(r"\b(CURRENT_DATE|CURRENT_TIME|CURRENT_TIMESTAMP|LOCALTIME|LOCALTIMESTAMP)\(\)")
"""Functions that a condition is shown with as they are written in SQL, without brackets."""

_FAULTS = ("PLN005", "TTL016")
"""Rules of lint about what Flink makes of a plan."""

Tree = Callable[[Physical], str]
"""Prints an operator and all below it, with changelog modes and upsert keys."""


def could_be_two(node: Physical) -> bool:
    """Whether the node is an aggregate in one phase that could be made in two."""
    return isinstance(node.rel, Aggregate) and merges(node.rel)


def advice_of_statement(
    plans: Sequence[Physical], graph: ExecGraph, options: Mapping[str, str], tree: Tree
) -> list[Advice]:
    """Advice on a statement: first on aggregates, then at most one warning of each sink, then on faults of Flink.

    Args:
        plans: the physical plans, one for each sink.
        graph: their exec graph.
        options: the options of the session.
        tree: prints the operator that a warning is about.

    Raises:
        PlanError: PLAN05x, when an option that it depends on is not a duration.
    """
    from stateplan.plans.lint import choose, lint

    words = two_phase_advice(options)
    advice = []
    if words is not None and any(could_be_two(node) for plan in plans for node in plan.walk()):
        advice.append(Advice("ADVICE", words, ()))
    for plan in plans:
        warning = _warning(plan, options, tree)
        if warning is not None and warning not in advice:
            advice.append(warning)
    rules = choose(_FAULTS)
    findings = lint(PlanDocument.from_graph(graph), options, rules=rules).findings
    return [*advice, *(Advice("WARNING", f"{f.code} {f.message}; {f.hint}.", ()) for f in findings)]


def _warning(plan: Physical, options: Mapping[str, str], tree: Tree) -> Advice | None:
    """What varies in the updates of one sink, of the operator that is nearest to the sink."""
    from stateplan.plans.lint.determinism import varying
    from stateplan.plans.lint.subject import Subject

    graph, origins = lower_traced([plan], options)
    varying_by_node: dict[int, list[Varying]] = {}
    for one in varying(Subject(PlanDocument.from_graph(graph), options)):
        varying_by_node.setdefault(one.node.id, []).append(one)
    for node in graph.upstream(graph.sinks):
        if node.id in varying_by_node:
            return Advice("WARNING", _words(varying_by_node[node.id], origins[node.id], tree), ())
    return None


def _words(values: Sequence[Varying], origin: Physical, tree: Tree) -> str:
    """Flink's message on an operator; ``values`` are in the order of its columns."""
    if not origin.inputs:
        names = ", ".join(one.field or one.call for one in values)
        return (
            f"The metadata column(s): '{names}' in cdc source may cause wrong result or error on downstream operators, "
            "please consider removing these columns or use a non-cdc source that only has insert messages."
            f"\nsource node:\n{tree(origin)}"
        )
    tree_text = f"\nrelated rel plan:\n{tree(origin)}"
    condition = next((one for one in values if one.field is None), None)
    if condition is not None and isinstance(origin.rel, Calc) and origin.rel.condition is not None:
        text = physical_expression(origin.rel.condition, [f"${i}" for i in range(origin.rel.input.width)])
        text = _NILADIC.sub(r"\1", text)
        return (
            f"There exists non deterministic function: '{_name(condition)}' in condition: '{text}' which may cause "
            f"wrong result in update pipeline.{tree_text}"
        )
    if not values[0].call.endswith("()"):  # the row that is looked up: what Flink says of it is not known here
        return (
            f"The column {values[0].field} is {values[0].call}, which may be another when an update comes.\n{tree_text}"
        )
    by_column: dict[str | None, Varying] = {}
    for one in values:
        by_column.setdefault(one.field, one)
    parts = (f"{field}(generated by non-deterministic function: {_name(one)} )" for field, one in by_column.items())
    return (
        f"The column(s): {' '.join(parts)} can not satisfy the determinism requirement for correctly processing update "
        "message('UB'/'UA'/'D' in changelogMode, not 'I' only), this usually happens when input node has no "
        "upsertKey(upsertKeys=[{}]) or current node outputs non-deterministic update messages. Please consider "
        "removing these non-deterministic columns or making them deterministic by using deterministic functions."
        f"\n{tree_text}"
    )


def _name(one: Varying) -> str:
    """The function as Flink names it: the outermost of those that vary, which differs for processing time alone."""
    name = one.call.removesuffix("()")
    materialized = name == "PROCTIME" and "PROCTIME_MATERIALIZE(PROCTIME())" in one.node.description
    return "PROCTIME_MATERIALIZE" if materialized else name
