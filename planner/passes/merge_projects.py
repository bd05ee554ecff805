"""Merges a projection into the one below it, and drops projections that change nothing.

Source: Flink's ``FlinkProjectMergeRule`` and Calcite's ``ProjectRemoveRule``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stateplan.execnodes.rex import InputRef, Rex
from stateplan.planner.algebra.relations import Project, Rel, is_identity
from stateplan.planner.expressions.ops import Over, is_deterministic, substitute, walk


def mergeable(top: Iterable[Rex], bottom: Sequence[Rex]) -> bool:
    """Whether ``top`` may be computed in one step with ``bottom``: what is not deterministic must not be computed
    twice."""
    uses = Counter(e.index for t in top for e in walk(t) if isinstance(e, InputRef))
    return all(uses[i] <= 1 or is_deterministic(b) for i, b in enumerate(bottom))


def merge_projects(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project) or not isinstance(rel.input, Project):
        return None
    below = rel.input
    if any(isinstance(e, Over) for b in below.exprs for e in walk(b)) or not mergeable(rel.exprs, below.exprs):
        return None
    exprs = tuple(substitute(e, below.exprs) for e in rel.exprs)
    if exprs == below.exprs:
        return below
    return replace(rel, input=below.input, exprs=exprs)


def remove_trivial_project(rel: Rel) -> Rel | None:
    return rel.input if isinstance(rel, Project) and is_identity(rel.exprs, rel.input) else None
