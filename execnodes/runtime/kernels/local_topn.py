"""A top-N in front of the exchange: most rows of an insert-only input need not travel.

Flink's batch planner ranks locally and globally; its streams have the global rank alone, and plans show no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from stateplan.execnodes.changelog import KIND
from stateplan.execnodes.runtime.kernel import Transform
from stateplan.execnodes.runtime.kernels.common.topn import TopN


@dataclass(frozen=True)
class LocalTopN(Transform):
    """Leaves out the rows of a frame that have ``end`` rows of their partition before them in the same frame: they are
    never among the first, and change neither the rows nor their times of access.

    Attributes:
        kernel: says what the partitions and the order are.
        end: how many rows of a partition stay.
        share: frames are left alone whose partitions may keep more than this share of the rows.
    """

    kernel: TopN
    end: int
    share: float = 0.5

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        """The rows that may be among the first, in their order."""
        if KIND in frame.columns or not frame.height:
            return frame
        partitions = self.kernel.partitions(frame)
        if partitions.count * self.end > self.share * frame.height:
            return frame
        return frame[self.kernel.leading(frame, partitions.codes, self.end)]
