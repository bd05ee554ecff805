"""Looking rows of an Iceberg table up by keys: in the snapshot that is the current one at the micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.iceberg.access import TableAccess
from stateplan.connectors.protocol import Lookup

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class IcebergLookup(Lookup):
    """Reads the files that may have rows with the keys, by their partitions and statistics.

    Attributes:
        table: the table.
        columns: name and type of the columns that are read, in output order.
    """

    table: TableAccess
    columns: tuple[tuple[str, LogicalType], ...]
    by_key: bool = True

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        from stateplan.connectors.iceberg.files import ScanFile
        from stateplan.connectors.iceberg.merge import tasks_with
        from stateplan.connectors.iceberg.rows import Reader
        from stateplan.connectors.iceberg.schema import check_types, ids_of

        handle = self.table.open()
        ids = ids_of([name for name, _ in self.columns], handle.metadata, handle.schema(), self.table.label)
        check_types(self.columns, ids, handle.schema(), self.table.label)
        reader = Reader(self.table, handle, self.columns, ids)
        places = [] if keys is None else [int(name.removeprefix("c")) for name in keys.columns]
        places = [i for i in places if self.columns[i][1].root not in ("ARRAY", "MAP", "ROW")]
        names = [column(i) for i in places]
        distinct_keys = None if keys is None or not places else keys.select(names).unique()
        with self.table.reaching():
            if distinct_keys is None:
                tasks = list(handle.scan().plan_files())
            else:
                named_keys = [(str(handle.schema().find_column_name(ids[i])), self.columns[i][1]) for i in places]
                tasks = tasks_with(handle, named_keys, distinct_keys)
            files = [ScanFile.of(task, handle.metadata) for task in tasks]
        frames = [frame for file in files for frame in reader.read(file)]
        if distinct_keys is not None:
            frames = [frame.join(distinct_keys, names, "semi") for frame in frames]
        empty = pl.DataFrame(schema={column(i): t.polars() for i, (_, t) in enumerate(self.columns)})
        return pl.concat([empty, *frames])
