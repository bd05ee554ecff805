"""The first rows of each partition in an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from stateplan.execnodes.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import COSMETIC, Flag
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import Stateful, StatefulNode, StateList, field_types
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    ConstantRange,
    ConstantRangeWithoutEnd,
    PartitionSpec,
    RankRange,
    RankStrategy,
    RankType,
    SortSpec,
    UndefinedStrategy,
    UpdateFastStrategy,
    VariableRange,
    order_text,
    range_text,
)
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.types import BIGINT, LogicalType

_NO_END = 2**63 - 1
"""The end of a range where a query gave none."""


class RankBase(StatefulNode):
    """What nodes that rank rows share."""

    STATE_NAMES: ClassVar[tuple[str, ...]] = ("rankState",)
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

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateful:
        from stateplan.execnodes.runtime.kernels.common.topn import LocalTopN, TopN
        from stateplan.execnodes.runtime.kernels.rank import rank_kernel

        given = self.rank_range
        if self.rank_type != "ROW_NUMBER":
            raise self.not_supported(f"{self.rank_type}()")
        if isinstance(given, ConstantRangeWithoutEnd) or (
            not isinstance(given, VariableRange) and given.end >= _NO_END
        ):
            raise self.not_supported("a rank range without an end")
        if isinstance(self.rank_strategy, UndefinedStrategy):
            raise self.not_supported("a rank without a strategy")
        kernel = rank_kernel(
            inputs[0],
            self.partition.fields,
            self.order_by,
            given,
            self.rank_strategy,
            self.output_row_number,
            self.generate_update_before,
        )
        before: tuple[LocalTopN, ...] = ()
        append = isinstance(self.rank_strategy, AppendFastStrategy)
        # Rows that cannot be among the first are reads all the same.
        if (
            append
            and isinstance(given, ConstantRange)
            and isinstance(kernel, TopN)
            and not self._ages_by_reads(session)
        ):
            before = (LocalTopN(kernel, given.end),)
        return Stateful(kernel, (self.partition.fields,), before)

    def _ages_by_reads(self, session: Mapping[str, str]) -> bool:
        """Whether the event times of rows that are read and not kept count."""
        return any(c.reads_refresh and c.by_event_time for c in self.ttl_configs(session))

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
