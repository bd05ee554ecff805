"""Applying rewrite rules to a tree until none of them changes it, as Calcite's ``HepPlanner`` does.

A rule is a function from a node to its replacement, None if it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.planner.algebra.relations import Rel, replace_inputs, walk
from stateplan.planner.passes.shared_names import share_names

Rule: TypeAlias = Callable[[Rel], "Rel | None"]


@dataclass(frozen=True)
class InTimeZone:
    """A rule that evaluates constants, which may depend on the session's time zone."""

    rule: Callable[[Rel, str], Rel | None]

    def of(self, time_zone: str) -> Rule:
        return lambda rel: self.rule(rel, time_zone)


_ROUNDS = 2000
_PER_NODE = 20
"""How many changes rules may make, in all and for each node of the tree, before they count as endless."""


def _apply_one(rel: Rel, rules: Sequence[Rule], settled: dict[int, Rel]) -> Rel | None:
    """``rel`` with the first applicable rule applied to its lowest applicable node; None if no rule applies.

    Args:
        rel: the tree.
        rules: in order.
        settled: trees that no rule applies to, by their identity: a rule sees nothing above its node, so they need no
            second look. It gets those that are found.
    """
    if id(rel) in settled:
        return None
    for i, below in enumerate(rel.inputs):
        new_input = _apply_one(below, rules, settled)
        if new_input is not None:
            return replace_inputs(rel, [new_input if k == i else other for k, other in enumerate(rel.inputs)])
    for rule in rules:
        new_rel = rule(rel)
        if new_rel is not None:
            return new_rel
    settled[id(rel)] = rel
    return None


def collection(rel: Rel, rules: Sequence[Rule]) -> Rel:
    """All rules together, bottom up, starting over after each change."""
    settled: dict[int, Rel] = {}
    for _ in range(_ROUNDS + _PER_NODE * sum(1 for _ in walk(rel))):
        new_rel = _apply_one(rel, rules, settled)
        if new_rel is None:
            return rel
        rel = share_names(new_rel, rel)
    raise AssertionError(f"the rules {rules} do not come to an end")


def sequence(rel: Rel, rules: Sequence[Rule]) -> Rel:
    """One rule after another, each until it changes nothing more."""
    for rule in rules:
        rel = collection(rel, [rule])
    return rel
