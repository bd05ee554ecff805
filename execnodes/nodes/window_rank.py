"""The first rows of each partition within windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.types import BIGINT, LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import Flag
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import InsertOnlyNode, field_types
from stateplan.execnodes.ranking import (
    PartitionSpec,
    RankRange,
    RankType,
    SortSpec,
    order_text,
    range_text,
)
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.windows import Windowing, window_length, window_text


@exec_node("window-rank", states=("windowRankState",))
class WindowRank(InsertOnlyNode):
    """Keeps the first rows of each partition in each window, and emits them when the watermark closes the window.

    .. code-block:: sql

        SELECT product, total, window_end FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS n
          FROM totals_of_windows
        ) WHERE n <= 3
    """

    DROPS_LATE_ROWS: ClassVar[bool] = True
    CLOSES_WINDOWS: ClassVar[bool] = True
    EMITS_IN_ORDER: ClassVar[bool] = True

    rank_type: RankType
    partition_spec: Annotated[PartitionSpec, Ref()]
    sort_spec: Annotated[SortSpec, Ref()]
    rank_range: Annotated[RankRange, Ref()]
    output_row_number: Flag
    windowing: Annotated[Windowing, Ref()]

    def retention(self, index: int) -> int:
        return window_length(self.windowing.window)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        types = field_types(inputs[0])
        return (*types, BIGINT.not_null()) if self.output_row_number else types

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        keys, order = names_text(self.partition_spec.fields, names), order_text(self.sort_spec, names)
        text = f"keeps {range_text(self.rank_range, names)}" + (f" of each {keys}" if keys else "")
        return f"{text} by {order} within {window_text(self.windowing.window)}"
