"""A table that holds the rows of another one, with their positions there: the option ``backfill.table``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stateplan.common.changelog import KIND, column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.history import HistoryLost, PositionedSource
from stateplan.connectors.protocol import FileSource, InstantSource, OffsetSource, RangeSource, Source, SourceTable
from stateplan.connectors.splits import FileSplit, InstantSplit, RangeSplit, Split

if TYPE_CHECKING:
    import polars as pl

PART, POSITION, TIME = "part", "position", "time"
"""Columns of :meth:`TableRows.read`, besides those of the rows: the name of the part of the other table, the position
in it, and when the row arrived, ms since 1970."""


@dataclass(frozen=True)
class HistoryTable:
    """A table that holds the rows of another one.

    Attributes:
        table: the table. It ends by itself.
        columns: for each column that the plan reads of the other one, the name of the column that has its values.
        keys: for each metadata key that identifies a row of the other one, the name of the column that has its values.
        ignores_gaps: whether positions that neither table has are positions without a row.
    """

    table: SourceTable
    columns: tuple[str, ...]
    keys: Mapping[str, str]
    ignores_gaps: bool = False


@dataclass(frozen=True)
class TableRows:
    """Reads a table as rows of another one. Picklable.

    Attributes:
        name: the name of the table, for errors.
        source: reads the columns that are needed.
        columns: for each column of the rows, its place in what the source yields, and its type.
        part: what the names of parts consist of: places in what the source yields, and texts.
        position: the place of the position.
        time: the place of the time; None for a table without.
    """

    name: str
    source: Source[Any]
    columns: tuple[tuple[int, LogicalType], ...]
    part: tuple[int | str, ...]
    position: int
    time: int | None

    @staticmethod
    def of(history: HistoryTable, reader: PositionedSource[Any], parts: list[str], with_values: bool) -> TableRows:
        """The rows of a source, as a table holds them.

        Args:
            history: the table.
            reader: the source.
            parts: the parts of the source.
            with_values: whether the columns of the rows are read, besides their positions and times.

        Raises:
            HistoryLost: no column says of which part a row is.
        """
        table = history.table
        columns = list(zip(history.columns, reader.row_types, strict=True)) if with_values else []
        part_columns = [history.keys.get(key) for key in reader.part_keys]
        position, time = history.keys[reader.position_key], history.keys.get(reader.time_key)
        own = [*(name for name, _ in columns), *part_columns, position, time]
        names = list(dict.fromkeys(name for name in own if name is not None))
        pruned_types = {name: data_type for name, data_type in columns if data_type.root == "ROW"}
        fields = tuple((name, pruned_types.get(name, data_type)) for name, data_type in table.fields)
        places = {name: place for place, (name, _) in enumerate(fields)}
        source = table.connector.source(replace(table, fields=fields, projection=tuple(places[name] for name in names)))
        texts = zip(*(part.rsplit("/", len(part_columns) - 1) for part in parts), strict=True)
        part: list[int | str] = []
        for key, name, values in zip(reader.part_keys, part_columns, texts, strict=True):
            if name is None and len(set(values)) > 1:
                raise HistoryLost(f"no column METADATA FROM '{key}' says from where the rows of '{table.name}' are")
            part.append(values[0] if name is None else names.index(name))
        return TableRows(
            table.name,
            source,
            tuple((names.index(name), data_type) for name, data_type in columns),
            tuple(part),
            names.index(position),
            None if time is None else names.index(time),
        )

    def splits(self) -> list[Split]:
        """On the driver: what the table consists of now. Raises StateplanError as the methods that plan."""
        source = self.source
        source.check(self.name)
        if isinstance(source, FileSource):
            return [FileSplit(file.path, file.size) for file in sorted(source.files(), key=lambda f: f.path)]
        if isinstance(source, InstantSource):
            return [InstantSplit(at) for at in source.instants()]
        if isinstance(source, RangeSource):
            return [RangeSplit(0, source.total or 0)]
        assert isinstance(source, OffsetSource)
        splits: list[Split] = []
        start = source.initial_offset()
        while (end := source.latest_offset(start)) != start:
            splits += source.plan(start, end)
            start = end
        return splits

    def read(self, split: Split) -> Iterator[pl.DataFrame]:
        """The rows of a split, as the other table yields them, with :data:`PART`, :data:`POSITION` and :data:`TIME`."""
        import polars as pl

        def field(place: int) -> pl.Expr:
            return pl.col(column(place))

        parts = [pl.lit(part) if isinstance(part, str) else field(part).cast(pl.String) for part in self.part]
        time = pl.lit(None, pl.Int64) if self.time is None else field(self.time).dt.epoch("ms")
        exprs = [
            *(
                field(place).cast(data_type.polars()).alias(column(i))
                for i, (place, data_type) in enumerate(self.columns)
            ),
            pl.concat_str(parts, separator="/").alias(PART),
            field(self.position).cast(pl.Int64).alias(POSITION),
            time.alias(TIME),
        ]
        for frame in self.source.read(split):
            yield frame.select(exprs)

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The columns of the rows alone, in the frames of :meth:`Source.read`."""
        import polars as pl

        rows = frame.select([column(i) for i in range(len(self.columns))])
        return rows if self.columns else pl.DataFrame([pl.zeros(frame.height, pl.Int8, eager=True).alias(KIND)])
