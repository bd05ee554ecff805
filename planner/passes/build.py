"""Building nodes with the small simplifications of Calcite's ``RelBuilder``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from execnodes.rex import Rex
from planner.algebra import Filter, Project, Rel, Values
from planner.expressions.ops import conjunctions, is_always_false, is_always_true, is_null_literal
from planner.expressions.simplify import simplify_filter

__all__ = ["empty", "filtered", "projected"]


def empty(rel: Rel) -> Values:
    """No rows, with the fields of ``rel``."""
    return Values(rel.fields, ())


def filtered(rel: Rel, predicates: Iterable[Rex]) -> Rel:
    """``rel`` filtered by the simplified conjunction; ``rel`` itself where that is TRUE."""
    terms = [c for p in predicates for c in conjunctions(p)]
    if not terms:
        return rel
    condition = simplify_filter(terms)
    if is_always_true(condition):
        return rel
    if is_always_false(condition) or is_null_literal(condition):
        return empty(rel)
    if isinstance(rel, Filter) and rel.condition == condition:
        return rel
    return Filter(rel, condition)


def projected(rel: Rel, exprs: Sequence[Rex], names: Sequence[str]) -> Rel:
    """A projection, also where it is the identity."""
    return Project(rel, tuple(exprs), tuple(names))
