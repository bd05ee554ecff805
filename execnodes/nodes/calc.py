"""Projection and filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import ALWAYS, RexField
from stateplan.execnodes.node_text import joined_names, projection_text
from stateplan.execnodes.nodes.base import ExecNode, projected_types
from stateplan.execnodes.registry import exec_node
from stateplan.functions.rex_text import rex_text


@exec_node("calc")
class Calc(ExecNode):
    """Keeps the rows that meet the condition and computes the output fields from each.

    .. code-block:: sql

        INSERT INTO big_orders SELECT id, UPPER(product) AS product FROM orders WHERE amount > 100
    """

    projection: Annotated[tuple[RexField, ...], Ref()]
    condition: Annotated[RexField | None, ALWAYS, Ref()] = None

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return projected_types(self.projection, inputs[0])

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        condition = f"keeps rows where {rex_text(self.condition, names)} and " if self.condition is not None else ""
        return f"{condition}computes {projection_text(self.projection, names, self.output_type)}"
