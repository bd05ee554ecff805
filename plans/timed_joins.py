"""Whether a join of rows that wait for a time can continue from the rows that another one has kept: with further
conditions on these rows, with another type or condition, and for interval joins with narrower bounds.

Temporal joins and window joins keep rows until they join them. An interval join joins rows when they arrive. In an
outer one, rows are marked that have met another row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.interval_join import IntervalJoin
from stateplan.execnodes.nodes.temporal_join import TemporalJoin
from stateplan.execnodes.nodes.window_join import WindowJoin
from stateplan.plans.derivation import Outcome, StateMove, filters_over, left_out
from stateplan.plans.meanings import Lineage

Node: TypeAlias = IntervalJoin | TemporalJoin | WindowJoin


@dataclass(frozen=True)
class TimedJoin:
    """A join of rows that wait, with what it reads.

    Attributes:
        node: the join.
        meaning: its lineage.
        rows: the lineages of its inputs.
        types: the types of their fields.
        names: the names of these.
        has_ttl: whether its state may have expired.
    """

    node: Node
    meaning: Lineage
    rows: Sequence[Lineage]
    types: Sequence[Sequence[LogicalType]]
    names: Sequence[Sequence[str]]
    has_ttl: bool

    @property
    def outer_sides(self) -> list[int]:
        """The inputs whose rows come out alone where they have met nothing, of an interval join."""
        if not isinstance(self.node, IntervalJoin):
            return []
        kind = self.node.interval_join_spec.join_spec.join_type
        return [side for side, kinds in enumerate((("LEFT", "FULL"), ("RIGHT", "FULL"))) if kind in kinds]

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The bounds of an interval join, ms; None for another join."""
        if not isinstance(self.node, IntervalJoin):
            return None
        bounds = self.node.interval_join_spec.window_bounds
        return bounds.left_lower_bound, bounds.left_upper_bound


def compare_timed(old: TimedJoin, new: TimedJoin, fields: Outcome) -> Outcome | None:
    """What becomes of the rows that a join has kept; None where they are other rows.

    Args:
        old, new: the join before and now.
        fields: what becomes of their fields.
    """
    if not new.meaning.groups or old.meaning.groups != new.meaning.groups:
        return None
    if fields[0] == "reset":
        return fields
    parts = zip(old.rows, new.rows, old.types, strict=True)
    filters = [filters_over(b, a, range(len(types)), types) for b, a, types in parts]
    side_filters = [some for some in filters if some is not None]
    if len(side_filters) < len(filters):
        return None
    reason = _obstacle(old, new, [bool(some) for some in side_filters])
    if reason is not None:
        return "reset", [reason], None
    reasons = [
        text for some, names in zip(side_filters, old.names, strict=True) for text in left_out(some, names, "rows")
    ]
    reasons += ["rows leave it earlier"] if old.bounds != new.bounds else []
    reasons += ["rows that have met nothing do not come out"] if old.outer_sides != new.outer_sides else []
    move = fields[2] or StateMove(tuple(tuple(range(len(types))) for types in new.types))
    return "derive", [*fields[1], *reasons], replace(move, form="timed", filters=tuple(side_filters))


def _obstacle(old: TimedJoin, new: TimedJoin, is_filtered: Sequence[bool]) -> str | None:
    """Why rows that were kept do not say what the new join has kept; None where they do."""
    if isinstance(new.node, TemporalJoin) and is_filtered[1]:
        return "older versions of rows would hold for longer"
    if old.bounds is None or new.bounds is None:
        return None
    if not set(new.outer_sides) <= set(old.outer_sides):
        return "rows that have met nothing are not marked"
    narrows = old.bounds != new.bounds
    other_matches = narrows or old.meaning.row_conditions != new.meaning.row_conditions
    if any(other_matches or is_filtered[1 - side] for side in new.outer_sides):
        return "rows may have met others than before"
    if new.bounds[0] < old.bounds[0] or new.bounds[1] > old.bounds[1]:
        return "rows outside of the old bounds were not kept"
    bounds = new.node.interval_join_spec.window_bounds if isinstance(new.node, IntervalJoin) else None
    if narrows and bounds is not None and (not bounds.is_event_time or old.outer_sides or old.has_ttl or new.has_ttl):
        return "when rows arrived is not known"
    if new.bounds[0] > new.bounds[1]:
        return "it keeps no rows"
    return None
