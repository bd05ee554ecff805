"""The ``replay`` connector: recorded arrivals, played back on a virtual clock.

Each line is a JSON object of the table's format with one more field, ``"@at"``: when the row arrives, in
milliseconds as a whole number. Over all replay tables of a plan each distinct instant is one micro-batch, ascending,
and is the time its operators see as now. The table is bounded.

The options are the rows of :class:`Replay`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stateplan.common.changelog import INSERT_ONLY, KIND, column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import PATH, Role
from stateplan.common.types import BIGINT, LogicalType
from stateplan.connectors.datasets import Dataset, datasets_of_path
from stateplan.connectors.formats.base import Format, StampedDecoder
from stateplan.connectors.history import BACKFILL_FROM
from stateplan.connectors.listing import file_entries, require_path
from stateplan.connectors.protocol import Connector, InstantSource, Lookup, Source, SourceTable
from stateplan.connectors.splits import InstantSplit

if TYPE_CHECKING:
    import polars as pl

_AT = "@at"


class Replay(Connector):
    """Recorded arrivals."""

    name = "replay"
    history_gap = None
    description = "Recorded arrivals, played on a virtual clock. Each row has its arrival time."
    options = (replace(PATH, role=Role.SOURCE), BACKFILL_FROM)
    roles = (Role.SOURCE,)
    formatted = True
    can_look_up = True
    abilities = frozenset({"ProjectPushDown", "ReadingMetadata"})
    records_metadata = True
    reserved = {_AT: "the time of arrival"}  # noqa: RUF012 - declared ClassVar in the base

    def takes_format(self, fmt: Format, role: Role) -> bool:
        return fmt.is_lines

    def datasets(self, options: Mapping[str, str]) -> tuple[Dataset, ...]:
        return datasets_of_path(options.get("path"))

    def source(self, table: SourceTable) -> Source[Any]:
        return ReplayTable.of(table)

    def lookup(self, table: SourceTable) -> Lookup:
        return _LookedUp(ReplayTable.of(table))


@dataclass(frozen=True)
class ReplayTable(InstantSource):
    """The rows of a replay table by the instant of their arrival. Picklable.

    A process reads the files once, and again only when their paths, sizes or modification times change.

    Attributes:
        path: the path of the files.
        options: the table's options in order of their keys, to distinguish tables.
        columns: name and type of the columns that are read.
        decoder: returns their rows with the instants.
        changes: whether the format has kinds of changes.
    """

    path: str
    options: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, LogicalType], ...]
    decoder: StampedDecoder
    changes: bool

    @classmethod
    def of(cls, table: SourceTable) -> ReplayTable:
        """The rows of a table."""
        assert table.format is not None
        fields = (*table.fields, *((key, table.metadata_types[key]) for key in table.metadata))
        projection = (*table.projection, *range(len(table.fields), len(fields)))
        decoder = table.format.stamped_decoder(table.options, fields, projection, (_AT, BIGINT))
        return cls(
            table.options["path"],
            tuple(sorted(table.options.items())),
            tuple(fields[i] for i in projection),
            decoder,
            table.format.source_changes != INSERT_ONLY,
        )

    def check(self, name: str) -> None:
        require_path(self.path, name)

    def size(self) -> int:
        return sum(file.size for file in file_entries(self.path))

    def instants(self) -> list[int]:
        """The distinct instants of the table, ascending.

        Raises:
            DataError: DATA151 for an ``"@at"`` that is missing or not a whole number; DATA1xx for whatever else
                cannot be read; each names file and line.
        """
        from stateplan.connectors.replay_index import index_of

        return index_of(self.key, self.path, self.schema(), self.decoder).instants()

    def read_at(self, at: int) -> pl.DataFrame:
        """The rows that arrive at an instant, in file order: ``c0..``, with ``kind`` as the format's decoder has it.

        Raises:
            DataError: as :meth:`instants`.
        """
        from stateplan.connectors.replay_index import index_of

        return index_of(self.key, self.path, self.schema(), self.decoder).rows(at)

    def read(self, split: InstantSplit) -> Iterator[pl.DataFrame]:
        yield self.read_at(split.at)

    @property
    def key(self) -> tuple[object, ...]:
        """Tells tables, and ways to read them, apart."""
        return self.options, self.columns

    def schema(self) -> dict[str, pl.DataType]:
        """Of the frames."""
        import polars as pl

        schema = {column(i): data_type.polars() for i, (_, data_type) in enumerate(self.columns)}
        return schema if schema and not self.changes else {**schema, KIND: pl.Int8()}


@dataclass(frozen=True)
class _LookedUp(Lookup):
    """The rows that are due by the time of the micro-batch, which stands still."""

    table: ReplayTable
    is_final = True

    def size(self) -> int:
        return self.table.size()

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        frames = [self.table.read_at(at) for at in self.table.instants() if at <= now]
        return pl.concat(frames or [self.table.read_at(0)])
