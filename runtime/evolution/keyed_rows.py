"""State rows that come to another key group, or of which some are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from stateplan.functions.rex import Rex
from stateplan.runtime.evolution.conversion import Conversion, Converted, with_columns
from stateplan.runtime.evolution.groups import passing
from stateplan.runtime.kernels.common.topn import SEQUENCE, TopN


@dataclass(frozen=True)
class KeyedRows(Conversion):
    """The rows, each for the key group of its new key.

    Attributes:
        tables: per new table the name of the old one, and for each new column the old one.
        keys: columns of the new key, in its order; every table has them.
        filters: conditions on old columns.
        time_zone: of the session.
    """

    tables: tuple[tuple[str, Mapping[str, str]], ...]
    keys: tuple[str, ...]
    filters: tuple[Rex, ...] = ()
    time_zone: str = "UTC"

    def __call__(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[Converted]:
        for number, (name, columns) in enumerate(self.tables):
            rows = tables.get(name)
            if rows is None:
                continue
            rows = with_columns(passing(rows, self.filters, self.time_zone), columns)
            if rows.height:
                yield Converted(number, rows, self.keys)


@dataclass(frozen=True)
class FirstRows:
    """Of each partition of a ranking the first rows, as many as the new one keeps.

    Attributes:
        kernel: of the new operator.
    """

    kernel: TopN

    def __call__(self, tables: Sequence[pl.DataFrame | None]) -> Sequence[pl.DataFrame | None]:
        return [None if rows is None else self.kernel.within_range(rows) for rows in tables]


def ranked_columns(columns: Mapping[str, str], old_columns: Mapping[str, object]) -> Mapping[str, str]:
    """The columns of a ranking, with the order of arrival where the old one has it."""
    return {**columns, SEQUENCE: SEQUENCE} if SEQUENCE in old_columns else columns
