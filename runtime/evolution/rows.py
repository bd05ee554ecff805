"""Rows of inputs that an operator has kept, for another operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from stateplan.functions.rex import Rex
from stateplan.runtime.evolution.conversion import Conversion, Converted
from stateplan.runtime.evolution.groups import passing
from stateplan.runtime.kernel import ACCESS_TIME
from stateplan.runtime.kernels.common.join_state import COPIES


@dataclass(frozen=True)
class InputRows(Conversion):
    """The rows of an input.

    Attributes:
        input: its number.
        table: the name of the old table that has its rows.
        columns: for each field the old column.
        keys: columns of the key of the input.
        filters: conditions on the old columns.
        time_zone: of the session.
    """

    input: int
    table: str
    columns: Mapping[str, str]
    keys: tuple[str, ...]
    filters: tuple[Rex, ...] = ()
    time_zone: str = "UTC"

    def __call__(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[Converted]:
        rows = tables.get(self.table)
        if rows is None:
            return
        rows = passing(rows, self.filters, self.time_zone)
        if COPIES in rows.columns:  # equal rows are kept once
            rows = rows[np.repeat(np.arange(rows.height), rows[COPIES].to_numpy())]
        if rows.height:
            fields = rows.select(*(pl.col(old).alias(new) for new, old in self.columns.items()), ACCESS_TIME)
            yield Converted(self.input, fields, self.keys, is_input=True)
