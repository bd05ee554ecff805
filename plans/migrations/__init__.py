"""The steps that bring older plans to the current format, one module each, found and put in order by themselves.

FLIP-190 versions a plan twice, and so there are two kinds of steps:

- A :class:`Release` step brings a plan from one release's format to that of a later one: keys that the later release
  writes and the older one does not. It may skip releases whose format is the same.
- A :class:`NodeUpgrade` brings one node type to its next version.

A step works on the JSON as it was read and not on the node models, so that it means the same for good, whatever the
models become. It adds, drops or renames keys of nodes; it never adds, drops or reorders nodes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from stateplan.execnodes.graph import FLINK_VERSIONS
from stateplan.plans.diff import Verdict

__all__ = [
    "OLDEST",
    "Effect",
    "NodeUpgrade",
    "Release",
    "add",
    "is_before",
    "node_upgrades",
    "releases",
]

OLDEST = "1.15"
"""The oldest plans that can be migrated: the versions of nodes begin with Flink 1.15."""

JsonNode = dict[str, Any]


@dataclass(frozen=True)
class Effect:
    """One thing that a step changes in a node.

    Attributes:
        what: in words, with the JSON key.
        state: what happens to state in a checkpoint of stateplan.
        why: the reason, where it is not identical.
        flink_state: the same for a savepoint of Flink.
        flink_why: the reason, where it is not identical.
    """

    what: str
    state: Verdict = "identical"
    why: str = ""
    flink_state: Verdict = "identical"
    flink_why: str = ""


@dataclass(frozen=True)
class Release:
    """What plans of ``to`` have and plans of ``start`` and of the releases in between have not.

    Attributes:
        start, to: Flink versions.
        about: what changed, in words.
        state: what happens to state, in words.
        upgrade: changes one node in place and tells what it changed; it does nothing to a node that is current.
    """

    start: str
    to: str
    about: str
    state: str
    upgrade: Callable[[JsonNode], Iterator[Effect]]

    @property
    def name(self) -> str:
        return f"Flink {self.start} to {self.to}"


@dataclass(frozen=True)
class NodeUpgrade:
    """The next version of a node type.

    Attributes:
        node: the type without its version.
        start, to: versions of the node.
        since: the Flink version that has ``to``.
        about, state, upgrade: as for :class:`Release`; the version itself is raised by the caller.
    """

    node: str
    start: int
    to: int
    since: str
    about: str
    state: str
    upgrade: Callable[[JsonNode], Iterator[Effect]]

    @property
    def name(self) -> str:
        return f"{self.node}_{self.start} to _{self.to}"


def is_before(one: str, other: str) -> bool:
    """Whether a Flink version is older than another."""
    return FLINK_VERSIONS.index(one) < FLINK_VERSIONS.index(other)


@cache
def _steps() -> tuple[Release | NodeUpgrade, ...]:
    found = []
    for module in pkgutil.iter_modules(__path__):
        found.append(importlib.import_module(f"{__name__}.{module.name}").STEP)
    return tuple(found)


def releases() -> tuple[Release, ...]:
    """The steps from release to release, oldest first."""
    steps = [step for step in _steps() if isinstance(step, Release)]
    return tuple(sorted(steps, key=lambda step: FLINK_VERSIONS.index(step.to)))


def node_upgrades() -> dict[tuple[str, int], NodeUpgrade]:
    """The steps of nodes, by type and the version they start from."""
    steps = sorted((s for s in _steps() if isinstance(s, NodeUpgrade)), key=lambda step: (step.node, step.start))
    return {(step.node, step.start): step for step in steps}


def add(node: JsonNode, key: str, value: Any, before: tuple[str, ...]) -> None:
    """Puts ``key`` where Flink writes it: in front of the first key of ``before`` that the node has, else last."""
    later = next((k for k in before if k in node), None)
    if later is None:
        node[key] = value
        return
    members = list(node.items())
    node.clear()
    for name, member in members:
        if name == later:
            node[key] = value
        node[name] = member
