"""UNION ALL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from stateplan.execnodes.nodes.base import ExecNode, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.kernel import Stateless


@exec_node
class Union(ExecNode):
    """Passes on the rows of all its inputs.

    .. code-block:: sql

        INSERT INTO all_orders SELECT id, amount FROM web_orders UNION ALL SELECT id, amount FROM shop_orders
    """

    NAME: ClassVar[str] = "stream-exec-union"
    VERSION: ClassVar[int] = 1
    INPUTS: ClassVar[int | None] = None
    ORDERED_INPUTS: ClassVar[bool] = False

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return field_types(inputs[0])

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateless:
        from stateplan.execnodes.runtime.kernel import Stateless

        return Stateless()

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"passes on the rows of its {len(inputs) or len(self.input_properties)} inputs"
