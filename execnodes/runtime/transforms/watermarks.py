"""Event time at runtime: the rows of a table tell how far it has come.

Source: Flink's ``WatermarkAssignerOperator``. A row without a time fails the job; the watermark starts at 0 and never
goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from stateplan.execnodes.changelog import column
from stateplan.execnodes.errors import DataError
from stateplan.execnodes.rex import Rex
from stateplan.execnodes.runtime.kernel import Transform
from stateplan.execnodes.runtime.transforms.calc import CalcTransform


@dataclass(frozen=True)
class WatermarkTransform(Transform):
    """Leaves rows as they are; :meth:`watermark` is how far event time has come with them.

    Args:
        expression: the watermark of a row, over its fields.
        rowtime: the field that is the time of a row.
        name: of that field, for errors.
        time_zone: the session's ``table.local-time-zone``.
    """

    makes_watermarks: ClassVar[bool] = True

    expression: Rex
    rowtime: int
    name: str
    time_zone: str = "UTC"

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The same frame. Raises DataError DATA330 for a row without a time."""
        if frame[column(self.rowtime)].null_count():
            raise DataError("DATA330", name=self.name)
        return frame

    def watermark(self, frame: pl.DataFrame, now: int) -> int | None:
        """The largest watermark of the rows, in milliseconds since 1970; None where no row has one."""
        values = CalcTransform((self.expression,), None, self.time_zone)(frame, now)[column(0)]
        top = values.cast(pl.Datetime("ms")).to_physical().max() if values.dtype.is_temporal() else values.max()
        return int(top) if isinstance(top, int) else None
