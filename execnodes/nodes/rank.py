"""The first rows of each partition in an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.common.types import BIGINT, LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import COSMETIC, Flag
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import StatefulNode, StateList, field_types
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    PartitionSpec,
    RankRange,
    RankStrategy,
    RankType,
    SortSpec,
    UpdateFastStrategy,
    order_text,
    range_text,
)
from stateplan.execnodes.registry import exec_node


class RankBase(StatefulNode):
    """What nodes that rank rows share."""

    STATE_NAMES: ClassVar[tuple[str, ...]] = ("rankState",)
    PASSES_ROWS: ClassVar[bool] = True
    RESTARTS: ClassVar[bool] = True

    rank_type: RankType
    partition: Annotated[PartitionSpec, Ref()]
    order_by: Annotated[SortSpec, Ref()]
    rank_range: Annotated[RankRange, Ref()]
    rank_strategy: Annotated[RankStrategy, Ref()]
    output_row_number: Flag
    generate_update_before: Annotated[Flag, COSMETIC]
    state: StateList = ()

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        types = field_types(inputs[0])
        return (*types, BIGINT.not_null()) if self.output_row_number else types

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return updating(self.generate_update_before)

    def needs_update_before(self, position: int, update_before: bool) -> bool:
        return not isinstance(self.rank_strategy, (AppendFastStrategy, UpdateFastStrategy))

    def takes(self, position: int) -> ChangelogMode | None:
        return INSERT_ONLY if isinstance(self.rank_strategy, AppendFastStrategy) else None

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        keys = names_text(self.partition.fields, names)
        order = order_text(self.order_by, names)
        text = f"keeps {range_text(self.rank_range, names)}" + (f" of each {keys}" if keys else "")
        return text + (f" by {order}" if order else "") + (", numbered" if self.output_row_number else "")


@exec_node("rank")
class Rank(RankBase):
    """Keeps the first rows of each partition in an order, with or without their numbers.

    .. code-block:: sql

        SELECT id, product, amount FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY amount DESC) AS n FROM orders
        ) WHERE n <= 3
    """

    STORES_FIELDS: ClassVar[bool] = True
    COUNTS_ROWS: ClassVar[bool] = True
