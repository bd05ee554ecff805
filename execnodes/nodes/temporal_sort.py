"""ORDER BY a time attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import custom_error
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.nodes.base import InsertOnlyNode
from stateplan.execnodes.ranking import SortSpec, order_text
from stateplan.execnodes.registry import exec_node


def _by_a_field(order: SortSpec) -> SortSpec:
    if not order.fields:
        raise custom_error(PlanError("PLAN044.no_order"), "/fields")
    return order


@exec_node("temporal-sort", states=("sortState",))
class TemporalSort(InsertOnlyNode):
    """Emits rows in the order of a time attribute, rows of the same time by further fields.

    .. code-block:: sql

        INSERT INTO ordered SELECT id, amount FROM orders ORDER BY ordered_at, amount
    """

    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True
    DROPS_LATE_ROWS: ClassVar[bool] = True
    EMITS_IN_ORDER: ClassVar[bool] = True

    order_by: Annotated[SortSpec, AfterValidator(_by_a_field), Ref()]

    @property
    def state_names(self) -> tuple[str, ...]:
        return self.STATE_NAMES if self.keeps_state else ()

    @property
    def keeps_state(self) -> bool:
        """Whether rows wait: those of a micro-batch have the same processing time."""
        index, fields = self.order_by.fields[0].index, self.output_type.fields
        return index >= len(fields) or fields[index].type.kind != "PROCTIME"

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"emits the rows by {order_text(self.order_by, joined_names(inputs))}"
