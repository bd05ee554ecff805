"""What kernels of joins of two inputs have in common: types, keys, the further condition, and rows side by side."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.specs import JoinSpec
from stateplan.runtime.kernel import Kernel
from stateplan.runtime.kernels.common.key_ids import Ints, frame_of, nulls, state_columns
from stateplan.runtime.transforms.calc import CalcTransform


@dataclass(frozen=True)
class TwoSides(Kernel):
    """A join of two inputs.

    Attributes:
        left_type, right_type: ROW types of the inputs.
        spec: the type of the join, the keys and the further condition.
        time_zone: the session's time zone, for the condition.
    """

    left_type: LogicalType
    right_type: LogicalType
    spec: JoinSpec
    time_zone: str = field(default="UTC", kw_only=True)

    @cached_property
    def _types(self) -> tuple[LogicalType, LogicalType]:
        return self.left_type, self.right_type

    @cached_property
    def _keys(self) -> tuple[list[str], list[str]]:
        return [column(k) for k in self.spec.left_keys], [column(k) for k in self.spec.right_keys]

    @cached_property
    def _condition(self) -> CalcTransform | None:
        rest = self.spec.non_equi_condition
        names = joined_names(self._types)
        return None if rest is None else CalcTransform((rest,), None, self.time_zone, names=names)

    def _beside(self, left: pl.DataFrame, right: pl.DataFrame, lefts: Ints | None, rights: Ints | None) -> pl.DataFrame:
        """Rows of both sides beside each other, NULLs for a side without rows."""
        count = max(len(rows) for rows in (lefts, rights) if rows is not None)
        series: list[pl.Series] = []
        for frame, row, rows in ((left, self.left_type, lefts), (right, self.right_type, rights)):
            types = state_columns(row)
            if rows is None:
                series += [nulls(name, dtype, count) for name, dtype in types.items()]
            else:
                series += frame[list(types)][rows].get_columns()
        return frame_of([s.alias(column(i)) for i, s in enumerate(series)], count)
