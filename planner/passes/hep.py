"""Applying rewrite rules to a tree until none of them changes it, as Calcite's ``HepPlanner`` does.

A rule is a function from a node to its replacement, None where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stateplan.planner.algebra.relations import Rel, replace_inputs

Rule: TypeAlias = Callable[[Rel], "Rel | None"]


@dataclass(frozen=True)
class InTimeZone:
    """A rule that evaluates constants, which may depend on the session's time zone."""

    rule: Callable[[Rel, str], Rel | None]

    def of(self, time_zone: str) -> Rule:
        return lambda rel: self.rule(rel, time_zone)


_MOST = 2000


def _apply_one(rel: Rel, rules: Sequence[Rule]) -> Rel | None:
    """``rel`` with the first applicable rule applied to its lowest applicable node; None when no rule applies."""
    for i, below in enumerate(rel.inputs):
        changed = _apply_one(below, rules)
        if changed is not None:
            return replace_inputs(rel, [changed if k == i else other for k, other in enumerate(rel.inputs)])
    for rule in rules:
        replaced = rule(rel)
        if replaced is not None:
            return replaced
    return None


def collection(rel: Rel, rules: Sequence[Rule]) -> Rel:
    """All rules together, bottom up, starting over after each change."""
    for _ in range(_MOST):
        changed = _apply_one(rel, rules)
        if changed is None:
            return rel
        rel = changed
    raise AssertionError(f"the rules {rules} do not come to an end")


def sequence(rel: Rel, rules: Sequence[Rule]) -> Rel:
    """One rule after another, each until it changes nothing more."""
    for rule in rules:
        rel = collection(rel, [rule])
    return rel
