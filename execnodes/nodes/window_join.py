"""Joins within windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.node_text import join_terms
from stateplan.execnodes.nodes.base import InsertOnlyNode, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import JoinSpec
from stateplan.execnodes.windows import Windowing, window_length, window_text


@exec_node("window-join", inputs=2, states=("leftState", "rightState"))
class WindowJoin(InsertOnlyNode):
    """Joins rows that are in the same window, when the watermark has reached its end.

    .. code-block:: sql

        INSERT INTO both SELECT l.id, r.id
        FROM (SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '5' MINUTE))) AS l
        JOIN (SELECT * FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '5' MINUTE))) AS r
        ON l.id = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end
    """

    DROPS_LATE_ROWS: ClassVar[bool] = True
    STORES_FIELDS: ClassVar[bool] = True
    CLOSES_WINDOWS: ClassVar[bool] = True
    EMITS_IN_ORDER: ClassVar[bool] = True

    join_spec: Annotated[JoinSpec, Ref()]
    left_windowing: Annotated[Windowing, Ref(0)]
    right_windowing: Annotated[Windowing, Ref(1)]

    def retention(self, index: int) -> int:
        return window_length(self.left_windowing.window)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        left, right = map(field_types, inputs)
        return left if self.join_spec.join_type in ("SEMI", "ANTI") else (*left, *right)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        spec = self.join_spec
        terms = join_terms(spec, inputs)
        outer = spec.join_type in ("LEFT", "RIGHT", "FULL")
        word = "joins" if spec.join_type == "INNER" else f"{spec.join_type.lower()} {'outer ' if outer else ''}joins"
        on = f" on {' and '.join(terms)}" if terms else ""
        return f"{word} left and right{on} within {window_text(self.left_windowing.window)}"
