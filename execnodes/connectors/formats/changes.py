"""What the formats of change events share: lines to events, events to changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.execnodes.changelog import KIND, RowKind, column, columns
from stateplan.execnodes.connectors.formats.base import Fields, with_metadata
from stateplan.execnodes.connectors.formats.json_decode import LineDecoder
from stateplan.execnodes.types import LogicalType

_OF_EVENT = "value."
"""What the metadata of events is called in a table, as tables of Flink's Kafka connector call it."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EventMetadata:
    """A metadata column that comes with every event: the event's ``field``, of ``type``, converted.

    ``convert`` is a function of a module, or None where the value is taken as it is.
    """

    field: str
    type: LogicalType
    convert: Callable[[pl.Series], pl.Series] | None = None


@dataclass(frozen=True)
class Events:
    """How a format writes changes. Picklable: the functions are those of a module.

    Attributes:
        lines: from a table's options, the columns to read and extra fields of an event, the decoder of its lines;
            the extra fields come last in what it gives.
        changes: from a frame of events and the number of columns of a row, ``c0..`` and ``kind`` of the changes in
            order, and for each the position of its event.
        metadata: by key, what can be read besides the columns.
    """

    lines: Callable[[Mapping[str, str], Fields, Fields], LineDecoder]
    changes: Callable[[pl.DataFrame, int], tuple[pl.DataFrame, pl.Series]]
    metadata: Mapping[str, EventMetadata] = field(default_factory=dict)


@dataclass
class ChangeDecoder:
    """Decoder of a format of change events; see :class:`execnodes.connectors.formats.base.Decoder`."""

    lines: LineDecoder
    events: Events
    width: int
    metadata: tuple[str, ...]

    @classmethod
    def make(
        cls,
        events: Events,
        options: Mapping[str, str],
        fields: Fields,
        projection: Sequence[int],
        metadata: Sequence[str] = (),
    ) -> ChangeDecoder:
        """See :func:`execnodes.connectors.formats.json.make_decoder`."""
        own = [events.metadata[key.removeprefix(_OF_EVENT)] for key in metadata if key.startswith(_OF_EVENT)]
        extra = [(source.field, source.type) for source in own]
        lines = events.lines(options, wanted(fields, projection), extra)
        return cls(lines, events, len(projection), tuple(metadata))

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The changes of one file."""
        own = [key for key in self.metadata if key.startswith(_OF_EVENT)]
        for df in self.lines.decode_file(path):
            rows, origin = self.events.changes(df, max(self.width, 1))
            kept = rows.select(*columns(self.width), KIND)
            if self.metadata:
                others = [key for key in self.metadata if key not in own]
                data = with_metadata(kept.drop(KIND) if self.width else kept, path, self.width, others)
                values = {key: data[column(self.width + i)] for i, key in enumerate(others)}
                values |= {key: self._value(key, df, len(own) - i)[origin] for i, key in enumerate(own)}
                named = [values[key].alias(column(self.width + i)) for i, key in enumerate(self.metadata)]
                kept = data.select(columns(self.width)).with_columns(named).with_columns(kept[KIND])
            yield kept

    def _value(self, key: str, df: pl.DataFrame, place: int) -> pl.Series:
        """The metadata of each event, which the decoder gave as the column ``place`` from the end."""
        source = self.events.metadata[key.removeprefix(_OF_EVENT)]
        series = df[column(df.width - place)]
        return series if source.convert is None else source.convert(series)


def wanted(fields: Fields, projection: Sequence[int]) -> Fields:
    """The columns to read. Without any column one is read all the same: a row that is there must be told from one
    that is not."""
    return [fields[i] for i in (projection or (0,))]


def changes_of(
    before: pl.DataFrame, after: pl.DataFrame, update: Bools, delete: Bools
) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
    """The changes of pairs of rows: an update is the row before as -U and the row after as +U, a deletion the row
    before as -D, all others the row after as +I.

    Returns:
        The rows with ``kind``, in order, and for each the position of its pair.
    """
    names = columns(after.width)
    pairs = np.arange(after.height)
    if not update.any() and not delete.any():
        rows = after.rename(dict(zip(after.columns, names, strict=True)))
        return rows.with_columns(pl.lit(RowKind.INSERT.value, pl.Int8).alias(KIND)), pairs
    before.columns = after.columns = names
    origin = np.repeat(pairs, 1 + update)
    old = np.zeros(len(origin), bool)
    first = np.concatenate(([0], np.cumsum(1 + update)[:-1]))
    old[first] = update | delete
    kind = np.where(
        old,
        np.where(update[origin], RowKind.UPDATE_BEFORE, RowKind.DELETE),
        np.where(update[origin], RowKind.UPDATE_AFTER, RowKind.INSERT),
    ).astype(np.int8)
    picked = pl.concat([before, after])[np.where(old, origin, origin + after.height)]
    return picked.with_columns(pl.Series(KIND, kind)), origin
