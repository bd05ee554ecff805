"""The borders of mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from stateplan.common.types import LogicalType
from stateplan.execnodes.model import COSMETIC, Index, PlanModel
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import exec_node


class MiniBatchInterval(PlanModel):
    """How long mini-batches are: ``interval`` milliseconds of processing time or of event time."""

    interval: Index
    mode: Literal["None", "ProcTime", "RowTime"]


@exec_node("mini-batch-assigner")
class MiniBatchAssigner(ExecNode):
    """Marks the borders of mini-batches. Here every micro-batch is a mini-batch, so it passes rows on as they are.

    .. code-block:: sql

        SET 'table.exec.mini-batch.enabled' = 'true';
        INSERT INTO totals SELECT product, SUM(amount) FROM orders GROUP BY product
    """

    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True
    FORWARDS_ROWS: ClassVar[bool] = True

    mini_batch_interval: Annotated[MiniBatchInterval, COSMETIC]

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"marks mini-batches of {self.mini_batch_interval.interval} ms; every micro-batch is one"
