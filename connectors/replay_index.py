"""The rows of replay tables, ordered by arrival and kept per process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.formats.base import StampedDecoder
from stateplan.connectors.listing import FileEntry, file_entries

_KEPT_TABLES = 64


@dataclass(frozen=True)
class ReplayIndex:
    """The rows of a table ordered by arrival, rows of one instant in file order.

    Attributes:
        entries: the files they were read from.
        at: the arrival of each row, ascending.
        data: the rows.
    """

    entries: tuple[FileEntry, ...]
    at: np.ndarray[Any, np.dtype[np.int64]]
    data: pl.DataFrame

    def instants(self) -> list[int]:
        """The distinct arrivals, ascending."""
        return [int(at) for at in np.unique(self.at)]

    def rows(self, at: int) -> pl.DataFrame:
        """The rows of one instant."""
        start, stop = np.searchsorted(self.at, [at, at + 1])
        return self.data.slice(int(start), int(stop - start))


_indexes: dict[object, ReplayIndex] = {}


def index_of(
    key: tuple[object, ...], path: str, schema: Mapping[str, pl.DataType], decoder: StampedDecoder
) -> ReplayIndex:
    """The index of the table ``key``, read when this process does not have it yet or a file has changed."""
    entries = tuple(file_entries(path))
    index = _indexes.get(key)
    if index is None or index.entries != entries:
        index = _read(entries, schema, decoder)
        while len(_indexes) >= _KEPT_TABLES:
            _indexes.pop(next(iter(_indexes)))
        _indexes[key] = index
    return index


def _read(entries: tuple[FileEntry, ...], schema: Mapping[str, pl.DataType], decoder: StampedDecoder) -> ReplayIndex:
    frames, arrivals = [pl.DataFrame(schema=schema)], [pl.Series([], dtype=pl.Int64)]
    for entry in entries:
        for rows, at in decoder.stamped(entry.path):
            frames.append(rows)
            arrivals.append(at)
    arrival = pl.concat(arrivals).to_numpy()
    order = np.argsort(arrival, kind="stable")
    return ReplayIndex(entries, arrival[order], pl.concat(frames)[order])
