"""Moves what calls Python functions from the condition of an inner join to a filter above it.

Source: Flink's ``SplitPythonConditionFromJoinRule``. Joins of other types cannot have them, as in Flink.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.planner.algebra.relations import Calc, Join, Rel, field_names, refs_to
from stateplan.planner.binding.errors import not_supported
from stateplan.planner.expressions.ops import and_, conjunctions, has_user_call


def split_python_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, Join) or not has_user_call(rel.condition):
        return None
    if rel.join_type != "INNER":
        raise not_supported(
            f"a Python function in the condition of a {rel.join_type} join",
            rel.place,
            "compute it in a subquery below the join",
        )
    terms = conjunctions(rel.condition)
    below = replace(rel, condition=and_(t for t in terms if not has_user_call(t)))
    condition = and_(t for t in terms if has_user_call(t))
    return Calc(below, tuple(refs_to(below)), tuple(field_names(below)), condition)
