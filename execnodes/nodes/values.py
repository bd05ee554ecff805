"""Constant rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import model_validator

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode
from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.model import RexField, custom_error
from stateplan.execnodes.nodes.base import ExecNode, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.functions.rex import Literal


@exec_node("values", inputs=0)
class Values(ExecNode):
    """Returns constant rows, once.

    .. code-block:: sql

        INSERT INTO colors VALUES (1, 'red'), (2, 'green')
    """

    EMITS: ClassVar[ChangelogMode | None] = INSERT_ONLY

    tuples: tuple[tuple[RexField, ...], ...]

    @model_validator(mode="after")
    def _constants(self) -> Self:
        width = len(self.output_type.fields)
        for position, row in enumerate(self.tuples):
            if len(row) != width or not all(isinstance(value, Literal) for value in row):
                raise custom_error(
                    PlanError("PLAN044.no_literals", position=position + 1, width=width),
                    f"/tuples/{position}",
                )
        return self

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return field_types(self.output_type)

    def meaning(self) -> dict[str, Any]:
        return {"tuples": [[value.to_json() for value in row] for row in self.tuples]}

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        n = len(self.tuples)
        return "gives no row" if n == 0 else f"gives {n} constant row{'' if n == 1 else 's'}"
