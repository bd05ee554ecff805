"""Joins of rows whose times are near each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.ttl import format_ttl
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import Flag, Index, PlanModel
from stateplan.execnodes.node_text import field_names, join_terms, names_text
from stateplan.execnodes.nodes.base import InsertOnlyNode, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import JoinSpec


class WindowBounds(PlanModel):
    """How far the times may be apart: lower <= left time - right time <= upper, in ms."""

    is_event_time: Flag
    left_lower_bound: int
    left_upper_bound: int
    left_time_index: Annotated[Index, Ref(0)]
    right_time_index: Annotated[Index, Ref(1)]


class IntervalJoinSpec(PlanModel):
    """Keys and further condition of an interval join, and its bounds."""

    join_spec: Annotated[JoinSpec, Ref()]
    window_bounds: Annotated[WindowBounds, Ref()]


@exec_node("interval-join", inputs=2, states=("leftState", "rightState"))
class IntervalJoin(InsertOnlyNode):
    """Joins rows whose times are near each other; a row is kept until no row that may come can meet it.

    .. code-block:: sql

        INSERT INTO shipped SELECT o.id, s.id
        FROM orders AS o JOIN shipments AS s
        ON o.id = s.order_id AND s.shipped_at BETWEEN o.ordered_at AND o.ordered_at + INTERVAL '4' HOUR
    """

    DROPS_LATE_ROWS: ClassVar[bool] = True
    STORES_FIELDS: ClassVar[bool] = True

    interval_join_spec: Annotated[IntervalJoinSpec, Ref()]

    def retention(self, index: int) -> int:
        bounds = self.interval_join_spec.window_bounds
        return max(bounds.left_upper_bound if index else -bounds.left_lower_bound, 0)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        left, right = map(field_types, inputs)
        return (*left, *right)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        spec, bounds = self.interval_join_spec.join_spec, self.interval_join_spec.window_bounds
        left, right = (field_names(row) for row in inputs) if len(inputs) == 2 else ((), ())
        times = names_text([bounds.left_time_index], left), names_text([bounds.right_time_index], right)
        lower, upper = (_bound_text(v) for v in (bounds.left_lower_bound, bounds.left_upper_bound))
        terms = join_terms(spec, inputs, f"left.{times[0]} between right.{times[1]} {lower} and {upper}")
        word = "joins" if spec.join_type == "INNER" else f"{spec.join_type.lower()} outer joins"
        return f"{word} left and right on {' and '.join(terms)}"


def _bound_text(millis: int) -> str:
    return f"{'-' if millis < 0 else '+'} {format_ttl(abs(millis))}"
