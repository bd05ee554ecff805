"""Expand: several projections of each row, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from stateplan.execnodes.rex import Rex
from stateplan.execnodes.runtime.kernel import Transform
from stateplan.execnodes.runtime.transforms.calc import CalcTransform


@dataclass(frozen=True)
class ExpandTransform(Transform):
    """Every row once per projection; the rows of one row stand together, as in Flink."""

    projections: tuple[CalcTransform, ...]

    @classmethod
    def of(cls, projections: Sequence[tuple[Rex, ...]], time_zone: str = "UTC") -> ExpandTransform:
        """One :class:`CalcTransform` per projection."""
        return cls(tuple(CalcTransform(p, None, time_zone) for p in projections))

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """Raises as :class:`CalcTransform` does."""
        parts = [p(frame, now) for p in self.projections]
        whole = pl.concat(parts, how="vertical_relaxed", rechunk=True)
        order = np.arange(frame.height * len(parts)).reshape(len(parts), -1).T.ravel()
        return whole[order]
