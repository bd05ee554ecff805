"""Window functions that are no top-N query: aggregates over frames.

Source: Flink's ``StreamPhysicalOverAggregateRule``, and what ``StreamExecOverAggregate`` refuses when a plan is run.
"""

from __future__ import annotations

from stateplan.execnodes.errors import SqlError
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.over_frames import SO_FAR
from stateplan.planner.algebra.relations import AggCall, Rel, Window
from stateplan.planner.binding.errors import not_supported


def window_to_over_aggregate(rel: Rel) -> Rel | None:
    """A row number that no condition bounds is counted for every row."""
    if not isinstance(rel, Window):
        return None
    if len(rel.order) != 1 or rel.input.fields[rel.order[0][0]][1].kind is None:
        raise not_supported(
            "ROW_NUMBER without a bound of its value and without the order of a time attribute",
            rel.place,
            "keep the first rows: SELECT ... FROM (SELECT *, ROW_NUMBER() OVER (...) AS row_num "
            "FROM ...) WHERE row_num <= 3",
        )
    call = AggCall(rel.function, (), rel.type, rel.name, internal_name=f"${rel.function}$1")
    return OverAggregate(rel.input, rel.partition, rel.order, SO_FAR, (call,), (), rel.place)


def check_over_aggregate(rel: Rel) -> Rel | None:
    """Raises SqlError SQL164, for a window that no stream can have; SQL150, for one in the order of other fields."""
    if not isinstance(rel, OverAggregate):
        return None
    if len(rel.order) != 1:
        raise _refused("is not ordered by one field", rel, "ORDER BY a time attribute")
    field, ascending, _ = rel.order[0]
    if not ascending:
        raise _refused("is ordered downwards", rel, "ORDER BY a time attribute, ascending")
    if rel.frame.upper.kind != "CURRENT_ROW" or rel.frame.lower.kind == "FOLLOWING":
        raise _refused("has rows after the current one", rel, "a frame that ends with CURRENT ROW")
    if rel.frame.lower.kind == "CURRENT_ROW":
        raise _refused("begins with the current row", rel, "0 PRECEDING")
    if rel.input.fields[field][1].kind is None:
        if rel.frame.lower.kind == "PRECEDING":
            raise _refused("has a bound and is not ordered by a time attribute", rel, "ORDER BY a time attribute")
        raise not_supported(
            "OVER in the order of a field that is not a time attribute",
            rel.place,
            "ORDER BY a processing time or rowtime attribute",
        )
    return None


def _refused(why: str, rel: OverAggregate, expected: str) -> SqlError:
    return SqlError("SQL164", why=why, place=rel.place, expected=expected)
