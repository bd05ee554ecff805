"""The source of the constant rows of a plan."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.protocol import RangeSource
from stateplan.connectors.splits import RangeSplit
from stateplan.functions.rex import Rex
from stateplan.runtime.transforms.calc import CalcTransform


@dataclass(frozen=True)
class ValuesSource(RangeSource):
    """Reads the constant rows of a plan, all at once; on a virtual clock at the instant 0, before all others."""

    rows: tuple[tuple[Rex, ...], ...]
    types: tuple[LogicalType, ...]
    total = 1
    any_clock = True

    def read(self, split: RangeSplit) -> Iterator[pl.DataFrame]:
        one = pl.DataFrame({"@one": [0]})
        if not self.types:
            yield pl.DataFrame(height=len(self.rows))
        elif self.rows:
            schema = {column(i): t.polars() for i, t in enumerate(self.types)}
            casts = [pl.col(name).cast(kind) for name, kind in schema.items()]
            yield pl.concat([CalcTransform(row)(one, 0).select(casts) for row in self.rows])

    def size(self) -> int:
        return 0
