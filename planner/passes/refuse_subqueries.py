"""Refuses what is left of queries inside expressions."""

from __future__ import annotations

from planner.algebra import Rel
from planner.binding.errors import not_supported
from planner.expressions.ops import SubQuery, walk
from planner.passes.decorrelate_subqueries import expressions_of

__all__ = ["refuse_subqueries"]


def refuse_subqueries(rel: Rel) -> Rel | None:
    """Raises SqlError SQL150."""
    for e in expressions_of(rel):
        for part in walk(e):
            if isinstance(part, SubQuery):
                raise not_supported("this query inside an expression", part.place, "join with the query instead")
    return None
