"""Rows of the same processing time in an order.

Source of the semantics: Flink's ``ProcTimeSortOperator``, for which the rows of a micro-batch come at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from execnodes.changelog import columns
from execnodes.ranking import SortSpec
from execnodes.runtime.kernel import StateTable, Step
from execnodes.runtime.kernels._net import FrozenKernel
from execnodes.types import LogicalType

__all__ = ["ProctimeSortKernel"]


@dataclass(frozen=True)
class ProctimeSortKernel(FrozenKernel):
    """Sorts each micro-batch; it keeps nothing.

    Attributes:
        input_type: ROW type of the input.
        order: what comes after the time.
    """

    input_type: LogicalType
    order: SortSpec

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return ()

    def keys(self, inputs: Sequence[pl.DataFrame]) -> list[pl.DataFrame | None]:
        return []

    def process(
        self, inputs: Sequence[pl.DataFrame], state: Sequence[pl.DataFrame], now: int, ttl: Sequence[int]
    ) -> Step:
        """One micro-batch; see :class:`execnodes.runtime.kernel.Kernel`."""
        fields = self.order.fields
        ordered = inputs[0].sort(
            columns(self.order.indexes),
            descending=[not f.is_ascending for f in fields],
            nulls_last=[f.null_is_last for f in fields],
            maintain_order=True,
        )
        return Step(ordered, [], [])
