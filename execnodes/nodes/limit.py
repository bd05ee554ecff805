"""LIMIT without ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode
from stateplan.execnodes.nodes.rank import RankBase
from stateplan.execnodes.registry import exec_node


@exec_node("limit")
class Limit(RankBase):
    """Keeps the first rows that arrive. When one of them is retracted, another row takes its place.

    .. code-block:: sql

        INSERT INTO some_orders SELECT * FROM orders LIMIT 10
    """

    WRITTEN_LAST: ClassVar[tuple[str, ...]] = ("rank_type", "partition", "order_by", "output_row_number")

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return INSERT_ONLY if inputs[0] == INSERT_ONLY else super().changelog_mode(inputs, update_before)
