"""First or last row per key within windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import Flag, Index
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import InsertOnlyNode
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.windows import Windowing, window_length, window_text


@exec_node("window-deduplicate", states=("windowDeduplicateState",))
class WindowDeduplicate(InsertOnlyNode):
    """Keeps the first or the last row of each key in each window, and emits it when the watermark closes the window.

    .. code-block:: sql

        SELECT page, user_id, window_end FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, page ORDER BY ts DESC) AS n
          FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
        ) WHERE n = 1
    """

    KEEPS_FIELDS: ClassVar[bool] = True
    DROPS_LATE_ROWS: ClassVar[bool] = True
    CLOSES_WINDOWS: ClassVar[bool] = True
    EMITS_IN_ORDER: ClassVar[bool] = True

    partition_keys: Annotated[tuple[Index, ...], Ref()]
    order_key: Annotated[Index, Ref()]
    keep_last_row: Flag
    windowing: Annotated[Windowing, Ref()]

    def retention(self, index: int) -> int:
        return window_length(self.windowing.window)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        keys = names_text(self.partition_keys, joined_names(inputs))
        place = "last" if self.keep_last_row else "first"
        of = f" of each {keys}" if keys else ""
        return f"keeps the {place} row{of} within {window_text(self.windowing.window)}"
