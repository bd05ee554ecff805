"""UNION ALL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import exec_node


@exec_node("union", inputs=None)
class Union(ExecNode):
    """Passes on the rows of all its inputs.

    .. code-block:: sql

        INSERT INTO all_orders SELECT id, amount FROM web_orders UNION ALL SELECT id, amount FROM shop_orders
    """

    ORDERED_INPUTS: ClassVar[bool] = False
    KEEPS_FIELDS: ClassVar[bool] = True
    FORWARDS_ROWS: ClassVar[bool] = True

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"passes on the rows of its {len(inputs) or len(self.input_properties)} inputs"
