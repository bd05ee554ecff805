"""SINGLE_VALUE: the value of a query inside an expression, which may have one row.

Source of the semantics: Flink's ``SingleValueAggFunction``. Within a micro-batch a row may come before the one that it
replaces is taken back: only more than one row at its end is an error.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import polars as pl

from stateplan.execnodes.errors import DataError
from stateplan.execnodes.runtime.kernels.common.accumulators import Changes, Fold, aligned
from stateplan.execnodes.runtime.kernels.common.net import positions
from stateplan.execnodes.types import LogicalType


class SingleValue(Fold):
    """The value and the number of rows."""

    sees_nulls: ClassVar[bool] = True

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        assert argument is not None
        self._value, self._count = f"value{number}", f"count{number}"
        self.columns = {self._value: argument.polars(), self._count: pl.Int64()}
        self.initial = {self._value: None, self._count: 0}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        """Raises DataError DATA320, for more than one row."""
        count = np.maximum(before[self._count].to_numpy() + changes.counts(), 0)
        if (count > 1).any():
            raise DataError("DATA320")
        old = before[self._value]
        there = np.flatnonzero(before[self._count].to_numpy())
        signs = np.ones(len(changes.codes), np.int64) if changes.signs is None else changes.signs
        rows = pl.DataFrame(
            {
                "g": np.concatenate([there, changes.codes]),
                "v": pl.concat([old[there], changes.column.cast(old.dtype)]),
                "n": np.concatenate([np.ones(len(there), np.int64), signs]),
            }
        )
        left = rows.group_by("g", "v").agg(pl.col("n").sum()).filter(pl.col("n") > 0)
        place = positions(left["g"].to_numpy(), changes.groups)
        value = aligned(left["v"].alias(old.name), np.where(count == 1, place, -1))
        return [value, pl.Series(self._count, count)]

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self._value]
