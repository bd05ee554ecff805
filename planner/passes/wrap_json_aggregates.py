"""Makes JSON text of the values of JSON_OBJECTAGG and JSON_ARRAYAGG before they are aggregated.

Source: Flink's ``WrapJsonAggFunctionArgumentsRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.functions import make_call
from stateplan.planner.algebra.relations import Aggregate, Project, Rel, field_names, refs_to
from stateplan.planner.binding.grouping import project_names
from stateplan.planner.expressions.ops import kind


def wrap_json_aggregates(rel: Rel) -> Rel | None:
    """The aggregate over its input's fields and, behind them, their JSON text."""
    if not isinstance(rel, Aggregate):
        return None
    values = list(dict.fromkeys(c.args[-1] for c in rel.calls if c.function.startswith("JSON_")))
    if not values or _wrapped(rel.input, values[0]):
        return None
    refs = refs_to(rel.input)
    exprs = [*refs, *(make_call("JSON_STRING", [refs[v]]) for v in values)]
    names = project_names(exprs, [*field_names(rel.input), *[None] * len(values)], rel.input)
    place = {v: len(refs) + i for i, v in enumerate(values)}
    calls = tuple(
        replace(c, args=(*c.args[:-1], place[c.args[-1]])) if c.function.startswith("JSON_") else c for c in rel.calls
    )
    return replace(rel, input=Project(rel.input, tuple(exprs), tuple(names)), calls=calls)


def _wrapped(rel: Rel, field: int) -> bool:
    return isinstance(rel, Project) and kind(rel.exprs[field]) == "JSON_STRING"
