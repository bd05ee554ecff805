"""Flink's explain details: their names, and what is said for those that have no meaning here."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from stateplan.execnodes.errors import PlanError, nearest


class ExplainDetail(StrEnum):
    """What EXPLAIN can say beside the operators (Flink's ``ExplainDetail``)."""

    ESTIMATED_COST = "ESTIMATED_COST"
    CHANGELOG_MODE = "CHANGELOG_MODE"
    PLAN_ADVICE = "PLAN_ADVICE"
    JSON_EXECUTION_PLAN = "JSON_EXECUTION_PLAN"


def explain_details(names: Iterable[str]) -> frozenset[ExplainDetail]:
    """The details of these names, in small or capital letters; ``-`` may stand for ``_``.

    Raises:
        PlanError: PLAN180, for a name that is none; PLAN181, for ESTIMATED_COST.
    """
    known = {detail.value: detail for detail in ExplainDetail if detail != ExplainDetail.ESTIMATED_COST}
    found = set()
    for name in names:
        word = name.strip().upper().replace("-", "_")
        if word == ExplainDetail.ESTIMATED_COST:
            raise PlanError("PLAN181", known=", ".join(known))
        if word not in known:
            raise PlanError("PLAN180", name=name.strip(), known=", ".join(known), hint=nearest(word, tuple(known)))
        found.add(known[word])
    return frozenset(found)
