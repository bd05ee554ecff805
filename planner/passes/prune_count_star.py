"""COUNT(*) over all rows needs no column of its input.

Source: Flink's ``PruneCountStarInputRule``.
"""

from __future__ import annotations

from dataclasses import replace

from stateplan.execnodes.functions import number_literal
from stateplan.planner.algebra.relations import Aggregate, Project, Rel


def prune_count_star(rel: Rel) -> Rel | None:
    if not isinstance(rel, Aggregate) or rel.group or len(rel.calls) != 1 or rel.input.width <= 1:
        return None
    count = rel.calls[0]
    if count.function != "COUNT" or count.args or count.filter >= 0:
        return None
    return replace(rel, input=Project(rel.input, (number_literal("0"),), ("$f0",)))
