"""Changes by primary key, copy-on-write: files that have a row with one of the keys are written again without it.

The library writes no delete files (neither positions, nor equality, nor vectors), so there is no other way. Rows that
stay are Arrow data all the way: a column that is not declared, or of a type that SQL does not have, keeps its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.types import LogicalType
from stateplan.connectors.iceberg.access import TableAccess
from stateplan.connectors.iceberg.files import ScanFile, TableFile
from stateplan.connectors.iceberg.pruning import keys_expression
from stateplan.connectors.iceberg.rows import Reader, Writer, batches_of, frame_of, write_rows
from stateplan.connectors.iceberg.schema import ids_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

_POOL = 128 << 20
"""Bytes of rows that stay which are in memory before they are written. Those of small files become one file."""

Fields = Sequence[tuple[str, LogicalType]]


def merge(
    table: TableAccess, handle: Table, fields: Fields, key: Sequence[str], rows: pl.DataFrame, replaces: bool
) -> tuple[list[DataFile], list[TableFile]]:
    """Writes what a table has after some changes.

    Args:
        table: the table.
        handle: as the library has it.
        fields: name and type of the declared columns.
        key: the columns of the primary key.
        rows: the last change of each key, with its ``kind``.
        replaces: whether all files that there are go, so that none has to be looked at.

    Returns:
        The files that go, and those that come.
    """
    is_there = pl.col(KIND).is_in([int(RowKind.INSERT), int(RowKind.UPDATE_AFTER)])
    fresh = Writer(table, tuple(fields)).arrow(rows.filter(is_there).drop(KIND))
    names = [name for name, _ in fields]
    typed_key = [(name, fields[names.index(name)][1]) for name in key]
    keys = rows.select(pl.col(column(names.index(k))).alias(column(i)) for i, k in enumerate(key))
    pool: list[pa.Table] = [fresh] if fresh.num_rows else []
    files: list[TableFile] = []
    old_files: list[DataFile] = []
    for data_file, scan_file in [] if replaces else files_with(table, handle, typed_key, keys):
        old_files.append(data_file)
        for batch in batches_of(table, handle, scan_file, handle.schema()):
            own = frame_of(batch, list(key), [t for _, t in typed_key])
            stays = own.with_row_index("row").join(keys, keys.columns, "anti", maintain_order="left")["row"]
            pool.append(pa.Table.from_batches([batch.take(stays.to_arrow())]))
        if sum(part.nbytes for part in pool) > _POOL:
            files += _write(table, handle, pool)
            pool = []
    return old_files, files + _write(table, handle, pool)


def files_with(
    table: TableAccess, handle: Table, key: Fields, keys: pl.DataFrame
) -> Iterator[tuple[DataFile, ScanFile]]:
    """The files of the current snapshot that have a row with one of the keys.

    Args:
        table: the table.
        handle: as the library has it.
        key: name and type of the columns.
        keys: the values, in columns of that order.
    """
    ids = ids_of([name for name, _ in key], handle.metadata, handle.schema(), table.label)
    reader = Reader(table, handle, tuple(key), ids)
    for task in tasks_with(handle, key, keys):
        file = ScanFile.of(task, handle.metadata)
        if any(not frame.join(keys, keys.columns, "semi").is_empty() for frame in reader.read(file)):
            yield task.file, file


def tasks_with(handle: Table, key: Fields, keys: pl.DataFrame) -> list[FileScanTask]:
    """The files that may have such a row, by the partitions and statistics in the metadata."""
    values = [(n, t, keys[c].unique().drop_nulls().to_list()) for (n, t), c in zip(key, keys.columns, strict=True)]
    return list(handle.scan(keys_expression(values)).plan_files())


def _write(table: TableAccess, handle: Table, pool: Sequence[pa.Table]) -> list[TableFile]:
    data = pa.concat_tables(pool, promote_options="permissive") if pool else None
    return write_rows(table, handle, data) if data is not None and data.num_rows else []
