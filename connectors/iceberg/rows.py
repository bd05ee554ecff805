"""Reads and writes the rows in the files of an Iceberg table, by the ids of its columns."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from stateplan.common.changelog import column
from stateplan.common.errors import DataError, Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.common.values.arrow import arrow_column
from stateplan.connectors.formats.base import countable
from stateplan.connectors.formats.parquet_io import cast_column, file_array
from stateplan.connectors.iceberg.access import TableAccess
from stateplan.connectors.iceberg.files import IcebergSplit, ScanFile, TableFile, file_of

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

SNAPSHOT_ID, SNAPSHOT_TIMESTAMP = "_snapshot_id", "_snapshot_timestamp"
"""Metadata of each row: the snapshot that has brought its file, or that is read as it is."""

_TIMES = frozenset({"year", "month", "day", "hour"})
"""Transforms whose value is the same within an hour."""


# ---- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Reads files of an open table.

    Attributes:
        table: the table, for errors.
        handle: as the library has it.
        columns: name and type of those to read, in output order.
        ids: their ids.
    """

    table: TableAccess
    handle: Table
    columns: tuple[tuple[str, LogicalType], ...]
    ids: tuple[int, ...]

    def read(self, file: ScanFile) -> Iterator[pl.DataFrame]:
        """The rows of a file, ``c0, c1, ...``; a column that it does not have is NULL, or has its default.

        Raises:
            DataError: DATA477, the file is gone; DATA475, it cannot be read.
        """
        schema = _projection(self.handle.metadata.schemas, self.ids)
        for batch in batches_of(self.table, self.handle, file, schema):
            yield frame_of(batch, [column(i) for i in range(len(self.columns))], [t for _, t in self.columns])


def batches_of(table: TableAccess, handle: Table, file: ScanFile, schema: Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file in a schema. Raises as :meth:`Reader.read`."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    metadata = handle.metadata
    try:
        with table.reaching():
            scan = ArrowScan(metadata, handle.io, schema, AlwaysTrue())
            for batch in _with_absence(scan.to_record_batches([file.task(metadata)])):
                if batch.num_rows:
                    yield _plain(batch)
    except _AbsentError:
        raise DataError("DATA477.file", subject=table.label, place=Place(file=file.data.path)) from None


class _AbsentError(StateplanError):
    """A file is not there."""

    def __init__(self) -> None:
        Exception.__init__(self)


def _with_absence(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except FileNotFoundError as error:
        raise _AbsentError from error


def frame_of(batch: pa.RecordBatch, names: Sequence[str], types: Sequence[LogicalType]) -> pl.DataFrame:
    """Columns of a batch, by their names, in the types of SQL: ``c0, c1, ...``."""
    if not names:
        return countable(pl.DataFrame(height=batch.num_rows))
    data = pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch.select(list(names))])))
    return pl.DataFrame(
        {column(i): cast_column(data[name], t) for i, (name, t) in enumerate(zip(names, types, strict=True))}
    )


def read_split(
    table: TableAccess,
    columns: Sequence[tuple[str, LogicalType]],
    metadata: Sequence[str],
    split: IcebergSplit,
) -> Iterator[pl.DataFrame]:
    """The rows of a split of a source, with the metadata behind the columns. Raises as :meth:`Reader.read`."""
    reader = Reader(table, table.open_recent(split.snapshot, split.ids), tuple(columns), split.ids)
    stamps = {
        SNAPSHOT_ID: pl.lit(split.snapshot, pl.Int64),
        SNAPSHOT_TIMESTAMP: pl.lit(split.stamp, pl.Int64).cast(pl.Datetime("ms", "UTC")),
    }
    stamp_columns = [stamps[key].alias(column(len(columns) + i)) for i, key in enumerate(metadata)]
    names = [column(i) for i in range(len(columns) + len(metadata))]
    for frame in reader.read(split.file):
        yield frame.with_columns(stamp_columns).select(names) if stamp_columns else frame


def _projection(schemas: Sequence[Schema], ids: Sequence[int]) -> Schema:
    """The columns of these ids, ``c0, c1, ...``, as the latest schema that has each knows them. All are optional, for a
    file may be older than its columns. Without any, the first column, which says how many rows there are."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    latest: dict[int, NestedField] = {}
    for schema in sorted(schemas, key=lambda s: s.schema_id):
        latest |= {f.field_id: f for f in schema.fields}
    fields = [
        latest[field_id].model_copy(update={"name": column(i), "required": False})
        for i, field_id in enumerate(ids or [next(iter(latest))])
    ]
    return Schema(*fields)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without types of extensions, such as that of UUIDs."""
    arrays = [a.storage if isinstance(a.type, pa.BaseExtensionType) else a for a in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


# ---- writing ---------------------------------------------------------------------------------------------------


def _stored_array(array: Any, data_type: LogicalType) -> Any:
    """An array as Iceberg has it: timestamps in microseconds, integers of at least 32 bits."""
    if data_type.is_timestamp:
        return array.cast(pa.timestamp("us", array.type.tz))
    if data_type.root in ("TINYINT", "SMALLINT"):
        return array.cast(pa.int32())
    if data_type.root == "BINARY":
        return array.cast(pa.binary()).cast(pa.binary(data_type.length))
    return file_array(array, data_type)


@dataclass(frozen=True)
class Writer:
    """Writes new files of a table. Picklable.

    Attributes:
        table: the table.
        columns: name and type of the declared columns, in order.
    """

    table: TableAccess
    columns: tuple[tuple[str, LogicalType], ...]

    def write(self, frame: pl.DataFrame) -> list[TableFile]:
        """Writes rows (``c0, c1, ...``), each partition to files of its own, sorted as the table says.

        Raises:
            RunError: RUN031, the disk is full.
            DataError: DATA475, the store does not take a file.
        """
        return write_rows(self.table, self.table.open(), self.arrow(frame))

    def arrow(self, frame: pl.DataFrame) -> pa.Table:
        """The rows as an Arrow table of Iceberg's types."""
        triples = [(column(i), name, data_type) for i, (name, data_type) in enumerate(self.columns)]
        arrays = [arrow_column(frame[key], data_type, _stored_array) for key, _, data_type in triples]
        return pa.table(arrays, names=[name for _, name, _ in triples])

    def remove(self, files: Sequence[TableFile]) -> None:
        """Removes files that no commit will name. What cannot be removed stays, and no reader sees it."""
        files_of_table = self.table.open().io
        for file in files:
            try:
                files_of_table.delete(file.path)
            except Exception:  # whatever the store says
                continue


def write_rows(table: TableAccess, handle: Table, data: pa.Table) -> list[TableFile]:
    """Writes rows of a table, whose columns have the names of its columns. Raises as :meth:`Writer.write`."""
    from pyiceberg.io.pyarrow import bin_pack_arrow_table, pyarrow_to_schema, write_file
    from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
    from pyiceberg.table import TableProperties, WriteTask
    from pyiceberg.utils.properties import property_as_int

    metadata, order = handle.metadata, handle.sort_order()
    schema, spec = metadata.schema(), metadata.spec()
    default = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
    size = property_as_int(metadata.properties, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, default) or default
    write_id = uuid.uuid4()
    files: list[TableFile] = []
    with table.reaching():
        for values, rows in _partitions(data, spec.fields, schema):
            key = None
            if spec.fields:
                pairs = [PartitionFieldValue(f, v) for f, v in zip(spec.fields, values, strict=True)]
                key = PartitionKey(pairs, spec, schema)
            rows = _sorted(rows, order.fields, schema)
            batch_schema = pyarrow_to_schema(rows.schema, schema.name_mapping, format_version=metadata.format_version)
            for batches in bin_pack_arrow_table(rows, size):
                task = WriteTask(write_id, len(files), batch_schema, batches, partition_key=key)
                for data_file in write_file(handle.io, metadata, iter([task])):
                    file = file_of(data_file, metadata, is_new=True)
                    files.append(replace(file, sort_order=order.order_id if order.fields else None))
    return files


def _partitions(
    data: pa.Table, fields: Sequence[PartitionField], schema: Schema
) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each partition, with its values."""
    if not fields:
        yield (), data
        return
    names = [f"p{i}" for i in range(len(fields))]
    keys = [_transformed(data, f.source_id, f.transform, schema).alias(n) for f, n in zip(fields, names, strict=True)]
    numbered = pl.DataFrame(keys).with_row_index("row")
    for values, rows in numbered.group_by(names, maintain_order=True):
        yield values, data.take(rows["row"].to_arrow())


def _sorted(data: pa.Table, fields: Sequence[Any], schema: Schema) -> pa.Table:
    """The rows in a sort order of Iceberg."""
    if not fields or data.num_rows < 2:
        return data
    names = [f"s{i}" for i in range(len(fields))]
    keys = [_transformed(data, f.source_id, f.transform, schema).alias(n) for f, n in zip(fields, names, strict=True)]
    sorted_keys = (
        pl.DataFrame(keys)
        .with_row_index("row")
        .sort(
            names,
            descending=[field.direction.name == "DESC" for field in fields],
            nulls_last=[field.null_order.name == "NULLS_LAST" for field in fields],
            maintain_order=True,
        )
    )
    return data.take(sorted_keys["row"].to_arrow())


def _transformed(data: pa.Table, field_id: int, transform: Any, schema: Schema) -> pl.Series:
    """A column behind a transform of Iceberg. The library transforms each distinct value once."""
    name, source = str(schema.find_column_name(field_id)), schema.find_field(field_id).field_type
    parts = [name] if name in data.column_names else name.split(".")
    if parts[0] not in data.column_names:
        return pl.Series([None], dtype=pl.Int32).new_from_index(0, data.num_rows)
    values = pl.Series(pl.from_arrow(data[parts[0]]))
    for part in parts[1:]:
        values = values.struct.field(part)
    if str(transform) == "identity":
        return values
    dtype = values.dtype if str(transform).startswith("truncate") else pl.Int32()
    if isinstance(values.dtype, pl.Datetime):
        values = values.dt.truncate("1h") if str(transform) in _TIMES else values
        values = values.dt.cast_time_unit("us").to_physical()
    elif values.dtype == pl.Date:
        values = values.to_physical()
    apply = transform.transform(source)
    distinct = values.unique().drop_nulls()
    results = pl.DataFrame({"value": distinct, "result": pl.Series(map(apply, distinct.to_list()), dtype=dtype)})
    return values.to_frame("value").join(results, "value", "left", maintain_order="left")["result"]
