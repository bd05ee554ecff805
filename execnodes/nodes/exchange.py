"""Redistribution of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from stateplan.common.types import LogicalType
from stateplan.execnodes.model import to_json
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import RequiredDistribution


@exec_node("exchange")
class Exchange(ExecNode):
    """Sends rows with equal keys to the same task; all rows to one task when there are no keys.

    Made in front of every operator that keeps state by key, here of the GROUP BY:

    .. code-block:: sql

        INSERT INTO totals SELECT product, SUM(amount) FROM orders GROUP BY product
    """

    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True
    FORWARDS_ROWS: ClassVar[bool] = True

    @property
    def distribution(self) -> RequiredDistribution:
        """How the rows are spread: the distribution required of the only input."""
        return (
            self.input_properties[0].required_distribution
            if self.input_properties
            else RequiredDistribution(type="ANY")
        )

    def meaning(self) -> dict[str, object]:
        return {"distribution": to_json(self.distribution)}

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        if self.distribution.type == "HASH":
            keys = names_text(self.distribution.keys, joined_names(inputs))
            return f"sends rows with the same {keys} to the same task"
        if self.distribution.type == "SINGLETON":
            return "sends all rows to one task"
        return f"spreads rows ({self.distribution.type.lower()})"
