"""Emits several rows for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import model_validator

from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import RexField, custom_error
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import exec_node


@exec_node("expand")
class Expand(ExecNode):
    """Passes on each row once per projection: with the keys of each grouping set, the others NULL.

    .. code-block:: sql

        INSERT INTO totals SELECT product, day, SUM(amount) FROM orders GROUP BY ROLLUP (product, day)
    """

    projects: Annotated[tuple[tuple[RexField, ...], ...], Ref()]

    @model_validator(mode="after")
    def _same_width(self) -> Self:
        width = len(self.output_type.fields)
        for position, row in enumerate(self.projects):
            if len(row) != width:
                raise custom_error(
                    PlanError(
                        "PLAN044.counts", width=width, title="a projection of expand", counts=f"{len(row)} expressions"
                    ),
                    f"/projects/{position}",
                )
        return self

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return tuple(rex.type for rex in self.projects[0]) if self.projects else None

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"passes on each row {len(self.projects)} times, with the keys of one grouping set each"
