"""Updates without their old rows. Source of the semantics: Flink's ``DropUpdateBeforeFunction``."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from stateplan.execnodes.changelog import KIND, RowKind
from stateplan.execnodes.runtime.kernel import Transform


@dataclass(frozen=True)
class DropUpdateBeforeTransform(Transform):
    """Keeps all changes but -U."""

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        if KIND not in frame.columns:
            return frame
        return frame.filter(pl.col(KIND) != RowKind.UPDATE_BEFORE)
