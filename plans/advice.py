"""Flink's explain details, and the one that gives advice: what its planner would advise (FLIP-280).

Source: Flink's ``GroupAggregationAnalyzer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from stateplan.common.errors import PlanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import parse_ttl
from stateplan.execnodes.graph import ExecGraph
from stateplan.functions.aggregates import is_mergeable

if TYPE_CHECKING:
    from stateplan.execnodes.nodes.group_aggregate import GroupAggregate

NONE = "No available advice..."

_ENABLED = "table.exec.mini-batch.enabled"
_LATENCY = "table.exec.mini-batch.allow-latency"
_SIZE = "table.exec.mini-batch.size"
_PHASES = "table.optimizer.agg-phase-strategy"


class ExplainDetail(StrEnum):
    """What EXPLAIN can say beside the operators (Flink's ``ExplainDetail``)."""

    ESTIMATED_COST = "ESTIMATED_COST"
    CHANGELOG_MODE = "CHANGELOG_MODE"
    PLAN_ADVICE = "PLAN_ADVICE"
    JSON_EXECUTION_PLAN = "JSON_EXECUTION_PLAN"


def explain_details(names: Iterable[str]) -> frozenset[ExplainDetail]:
    """The details of these names, in small or capital letters; ``-`` may appear for ``_``.

    Raises:
        PlanError: PLAN180, for a name that is none; PLAN181, for ESTIMATED_COST.
    """
    detail_by_name = {detail.value: detail for detail in ExplainDetail if detail != ExplainDetail.ESTIMATED_COST}
    details = set()
    for name in names:
        word = name.strip().upper().replace("-", "_")
        if word == ExplainDetail.ESTIMATED_COST:
            raise PlanError("PLAN181", known=", ".join(detail_by_name))
        if word not in detail_by_name:
            raise PlanError(
                "PLAN180", name=name.strip(), known=", ".join(detail_by_name), hint=nearest(word, tuple(detail_by_name))
            )
        details.add(detail_by_name[word])
    return frozenset(details)


@dataclass(frozen=True)
class Advice:
    """A piece of advice.

    Attributes:
        level: ``ADVICE`` or ``WARNING``.
        text: what to do.
        nodes: the operators that it is about.
    """

    level: str
    text: str
    nodes: tuple[int, ...]

    def __str__(self) -> str:
        return f"[{self.level}] {self.text}"


def two_phase_advice(options: Mapping[str, str]) -> str | None:
    """What to set so that aggregates are made in two phases; None when everything is set.

    Args:
        options: the options of the session, and those that were fixed when the plan was compiled.
    """
    positive = "to a positive long value"
    settings = []
    if options.get(_ENABLED, "false").lower() != "true":
        settings.append(f"'{_ENABLED}' to 'true'")
    if not parse_ttl(options.get(_LATENCY, "0 ms")):
        settings.append(f"'{_LATENCY}' {positive}")
    if not options.get(_SIZE, "-1").isdecimal() or int(options[_SIZE]) == 0:
        settings.append(f"'{_SIZE}' {positive}")
    if options.get(_PHASES, "AUTO").upper() == "ONE_PHASE":
        settings.append(f"'{_PHASES}' to 'AUTO'")
    if not settings:
        return None
    return f"You might want to enable local-global two-phase optimization by configuring ({', '.join(settings)})."


def advice_of_plan(graph: ExecGraph, session: Mapping[str, str] | None = None) -> tuple[Advice, ...]:
    """Advice on a plan, each once, with all operators it is about.

    Raises:
        PlanError: PLAN05x, when an option that it depends on is not a duration.
    """
    nodes_by_text: dict[str, list[int]] = {}
    for node in graph.nodes:
        if node.title == "group-aggregate" and _merges(cast("GroupAggregate", node)):
            text = two_phase_advice({**(session or {}), **(node.configuration or {})})
            if text is not None:
                nodes_by_text.setdefault(text, []).append(node.id)
    return tuple(Advice("ADVICE", text, tuple(nodes)) for text, nodes in nodes_by_text.items())


def _merges(node: GroupAggregate) -> bool:
    return all(is_mergeable(call.function) for call in node.agg_calls)


def advice_text(advice: Sequence[Advice]) -> str:
    """The lines below the operators: numbered, or that there is none."""
    if not advice:
        return f"{NONE}\n"
    return "".join(f"advice[{number}]: {one}\n" for number, one in enumerate(advice, 1))
