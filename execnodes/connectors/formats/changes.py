"""What the formats of change events share: lines to events, events to changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from execnodes.changelog import KIND, columns
from execnodes.connectors.formats.base import Fields, with_metadata
from execnodes.connectors.formats.json_decode import LineDecoder

__all__ = ["ChangeDecoder", "Events", "wanted"]


@dataclass(frozen=True)
class Events:
    """How a format writes changes. Picklable: the functions are those of a module.

    Attributes:
        lines: from a table's options, the columns to read and extra fields of an event, the decoder of its lines;
            the extra fields come last in what it gives.
        changes: from a frame of events and the number of columns of a row, ``c0..`` and ``kind`` of the changes in
            order, and for each the position of its event.
    """

    lines: Callable[[Mapping[str, str], Fields, Fields], LineDecoder]
    changes: Callable[[pl.DataFrame, int], tuple[pl.DataFrame, pl.Series]]


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
        return cls(events.lines(options, wanted(fields, projection), ()), events, len(projection), tuple(metadata))

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The changes of one file."""
        for df in self.lines.decode_file(path):
            rows, _ = self.events.changes(df, max(self.width, 1))
            kept = rows.select(*columns(self.width), KIND)
            if self.metadata:
                data = with_metadata(kept.drop(KIND) if self.width else kept, path, self.width, self.metadata)
                kept = data.with_columns(kept[KIND]).select(pl.exclude(KIND), KIND)
            yield kept


def wanted(fields: Fields, projection: Sequence[int]) -> Fields:
    """The columns to read. Without any column one is read all the same: a row that is there must be told from one
    that is not."""
    return [fields[i] for i in (projection or (0,))]
