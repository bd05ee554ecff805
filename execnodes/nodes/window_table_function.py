"""TUMBLE, HOP, CUMULATE and SESSION without an aggregate behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import TimeBoundNode, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.windows import (
    SessionWindow,
    TimeAttribute,
    Windowing,
    window_length,
    window_text,
)

_TIMESTAMP = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", nullable=False, precision=3)


@exec_node("window-table-function", states=("sessionWindowState",))
class WindowTableFunction(TimeBoundNode):
    """Emits each row once for every window that it is in, with start, end and last instant of the window. Rows of
    SESSION windows wait in state until the watermark has reached the end of their session.

    .. code-block:: sql

        INSERT INTO visits SELECT page, window_start
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
    """

    DROPS_LATE_ROWS: ClassVar[bool] = True

    windowing: Annotated[Windowing, Ref()]

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        last = self.windowing.time_attribute_type.not_null()
        return (*field_types(inputs[0]), _TIMESTAMP, _TIMESTAMP, last)

    @property
    def session_window(self) -> SessionWindow | None:
        return self.windowing.window if isinstance(self.windowing.window, SessionWindow) else None

    @property
    def keeps_state(self) -> bool:
        return self.session_window is not None

    @property
    def state_names(self) -> tuple[str, ...]:
        return self.STATE_NAMES if self.session_window is not None else ()

    def retention(self, index: int) -> int:
        return window_length(self.windowing.window)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        time = ""
        if isinstance(self.windowing, TimeAttribute):
            time = f" of {names_text([self.windowing.time_attribute_index], joined_names(inputs))}"
        return f"puts rows into {window_text(self.windowing.window)}{time}"
