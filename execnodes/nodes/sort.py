"""ORDER BY without a time attribute, over bounded input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.nodes.base import TimeBoundNode
from stateplan.execnodes.ranking import SortSpec, order_text
from stateplan.execnodes.registry import exec_node


@exec_node("sort", states=("sortState",))
class Sort(TimeBoundNode):
    """Emits all rows in order when bounded input ends. Over unbounded input, it emits nothing.

    .. code-block:: sql

        SET '__table.exec.sort.non-temporal.enabled__' = 'true';
        INSERT INTO ordered SELECT id, amount FROM orders ORDER BY amount
    """

    EMITS: ClassVar[ChangelogMode | None] = INSERT_ONLY
    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True
    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True

    order_by: Annotated[SortSpec, Ref()]

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"emits the rows at the end of the input by {order_text(self.order_by, joined_names(inputs))}"
