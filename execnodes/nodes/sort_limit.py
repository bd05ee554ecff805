"""ORDER BY with LIMIT."""

from __future__ import annotations

from typing import ClassVar

from stateplan.execnodes.nodes.rank import RankBase
from stateplan.execnodes.registry import exec_node


@exec_node("sort-limit")
class SortLimit(RankBase):
    """Keeps the first rows in an order, after the rows of the offset.

    .. code-block:: sql

        INSERT INTO largest SELECT * FROM orders ORDER BY amount DESC LIMIT 10 OFFSET 2
    """

    WRITTEN_LAST: ClassVar[tuple[str, ...]] = ("rank_type", "partition", "output_row_number")
