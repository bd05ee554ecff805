"""The rows of replay tables, ordered by arrival and kept per process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import KIND, column, columns
from stateplan.execnodes.connectors.filesystem import FileEntry, file_entries
from stateplan.execnodes.connectors.formats import (
    canal_decode,
    debezium_decode,
    json_decode,
    maxwell_decode,
    ogg_decode,
    op_decode,
)
from stateplan.execnodes.connectors.formats.base import frame_schema
from stateplan.execnodes.connectors.formats.changes import wanted
from stateplan.execnodes.connectors.formats.json_rows import BadEvent, Number
from stateplan.execnodes.connectors.registry import find_format
from stateplan.execnodes.connectors.replay import ReplayTable
from stateplan.execnodes.types import BIGINT

_AT = "@at"
_KEPT_TABLES = 64
_EVENTS = {
    "debezium-json": debezium_decode.EVENTS,
    "canal-json": canal_decode.EVENTS,
    "maxwell-json": maxwell_decode.EVENTS,
    "ogg-json": ogg_decode.EVENTS,
    "op-json": op_decode.EVENTS,
}
_EXPECTED = 'a field "@at" with the time of arrival in milliseconds, as a whole number'


def _guard(value: dict[str, Any]) -> BadEvent | None:
    if _AT not in value:
        return BadEvent('the field "@at" is missing', _EXPECTED)
    at = value[_AT]
    if not isinstance(at, Number) or not at.removeprefix("-").isdigit() or not -(1 << 63) <= int(at) < 1 << 63:
        shown = str(at) if isinstance(at, Number) else json.dumps(at, ensure_ascii=False)
        return BadEvent(f'the field "@at" is {shown[:80]}', _EXPECTED)
    return None


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


def index_of(table: ReplayTable) -> ReplayIndex:
    """The index of a table, read when this process does not have it yet or a file has changed."""
    entries = tuple(file_entries(table.options["path"]))
    key = (tuple(sorted(table.options.items())), table.fields, table.projection)
    found = _indexes.get(key)
    if found is None or found.entries != entries:
        found = _read(table, entries)
        while len(_indexes) >= _KEPT_TABLES:
            _indexes.pop(next(iter(_indexes)))
        _indexes[key] = found
    return found


def _read(table: ReplayTable, entries: tuple[FileEntry, ...]) -> ReplayIndex:
    fmt = find_format(table.options, "source")
    events = _EVENTS.get(fmt.name) if fmt is not None else None
    width = len(table.projection)
    schema = frame_schema(table.fields, table.projection, changes=events is not None)
    frames, arrivals = [pl.DataFrame(schema=schema)], [pl.Series([], dtype=pl.Int64)]
    if events is not None:
        lines = events.lines(table.options, wanted(table.fields, table.projection), [(_AT, BIGINT)])
    else:
        lines = json_decode.make_lines(table.options, [*(table.fields[i] for i in table.projection), (_AT, BIGINT)])
    lines.guard = _guard
    lines.check_frame = _Complete(lines.check_frame)
    for entry in entries:
        for df in lines.decode_file(entry.path):
            at = df[column(df.width - 1)]
            if events is not None:
                rows, origin = events.changes(df, max(width, 1))
                frames.append(rows.select(*columns(width), KIND))
                arrivals.append(at[origin])
            else:
                rows = df.select(columns(width))
                frames.append(rows if width else pl.DataFrame({KIND: pl.zeros(df.height, pl.Int8, eager=True)}))
                arrivals.append(at)
    arrival = pl.concat(arrivals).to_numpy()
    order = np.argsort(arrival, kind="stable")
    return ReplayIndex(entries, arrival[order], pl.concat(frames)[order])


@dataclass(frozen=True)
class _Complete:
    """Whether every row of a frame has its arrival, and passes the format's own check."""

    inner: Any

    def __call__(self, df: pl.DataFrame) -> bool:
        return not df[column(df.width - 1)].null_count() and (self.inner is None or self.inner(df))
