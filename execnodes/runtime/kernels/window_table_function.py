"""TUMBLE, HOP and CUMULATE: each row once for every window that it is in.

Source of the semantics: Flink's ``AlignedWindowTableFunctionOperator``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import KIND, column
from stateplan.execnodes.runtime.kernel import Frozen, Transform
from stateplan.execnodes.runtime.kernels.common.net import Ints
from stateplan.execnodes.runtime.kernels.window_slices import Slicing, instants, local_times


def timestamps(name: str, local: Ints) -> pl.Series:
    """Local times as TIMESTAMP(3)."""
    return pl.Series(name, local, dtype=pl.Int64).cast(pl.Datetime("ms"))


def window_time(name: str, ends: Ints, zone: str, dtype: pl.DataType) -> pl.Series:
    """The last instant of the windows with these ends, as a time attribute of type ``dtype``."""
    zone_of_type = dtype.time_zone if isinstance(dtype, pl.Datetime) else None
    return pl.Series(name, instants(ends - 1, zone), dtype=pl.Int64).cast(pl.Datetime("ms", zone_of_type)).cast(dtype)


@dataclass(frozen=True)
class WindowTableFunctionTransform(Frozen, Transform):
    """Rows with start, end and last instant of their windows as further fields. A row without a time is in none.

    Attributes:
        slicing: the windows.
        time: the field that is the time of a row.
        width: fields of a row.
        time_type: of the last instant.
    """

    slicing: Slicing
    time: int
    width: int
    time_type: pl.DataType

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        times = frame[column(self.time)]
        if times.null_count():
            frame = frame.filter(times.is_not_null())
            times = frame[column(self.time)]
        slicing = self.slicing
        rows, ends = slicing.windows(local_times(times, slicing.zone))
        out = frame if len(rows) == frame.height and (rows == np.arange(len(rows))).all() else frame[rows]
        added = [
            timestamps(column(self.width), slicing.window_starts(ends)),
            timestamps(column(self.width + 1), ends),
            window_time(column(self.width + 2), ends, slicing.zone, self.time_type),
        ]
        kind = [out[KIND]] if KIND in out.columns else []
        return out.drop(KIND, strict=False).hstack([*added, *kind])
