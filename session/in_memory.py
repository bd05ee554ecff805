"""Rows of this process as tables: Arrow data, data frames of pandas and Polars, Python objects.

The rows are written to a file in the scratch folder of the process, for its jobs to read. The file is there until the
process ends; the same rows again take no other file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateplan.common.changelog import column
from stateplan.common.errors import CatalogError, DataError, StateplanError
from stateplan.connectors.arrow import keep_column
from stateplan.planner.catalog.objects import CatalogTable, Column, ObjectIdentifier, TableSchema
from stateplan.session.elements import Fields, Schema, frame_of, infer, schema_columns, with_names

if TYPE_CHECKING:
    import polars as pl

_folders: dict[int, Path] = {}
"""The folder for the files, by process: a forked one has another."""


def of_arrow(identifier: ObjectIdentifier, data: Any, schema: Schema, zone: str) -> CatalogTable:
    """A table of Arrow data.

    Args:
        identifier: its name.
        data: a ``pyarrow`` Table, RecordBatch or RecordBatchReader, several batches, or whatever has
            ``__arrow_c_stream__``.
        schema: names of the columns, or their names and types; None for those of the data.
        zone: the time zone of the session, for timestamps without one in a column of TIMESTAMP_LTZ.

    Raises:
        DataError: DATA340, a value that is none of its column's type; DATA344, for anything else than Arrow data.
        StateplanError: TYPE003, a column whose Arrow type is not an SQL type; others as :func:`declared` and
            :func:`named`.
    """
    from stateplan.common.values.arrow import frames, logical_type

    reader = _reader(data)
    names, fields = schema_columns(schema)
    if fields is None:
        columns = [(field.name, logical_type(field.type, field.nullable)) for field in reader.schema]
        for field, (_, kind) in zip(reader.schema, columns, strict=True):
            if kind is None:
                raise StateplanError("TYPE003", name=field.name, type=field.type, library="Arrow")
        fields = [(name, kind) for name, kind in columns if kind is not None]
    elif len(fields) != len(reader.schema):
        names = [name for name, _ in fields]
        raise CatalogError("CAT072", names=names, fields=reader.schema.names)
    fields = with_names(fields, names)
    return _table(identifier, fields, frames(reader, [kind for _, kind in fields], zone))


def of_pandas(identifier: ObjectIdentifier, data: Any, schema: Schema, zone: str) -> CatalogTable:
    """A table of a ``pandas.DataFrame``, without its index. Raises the same errors as :func:`of_arrow`."""
    import pyarrow as pa

    try:
        table = pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise DataError("DATA344", reason=str(error).partition("\n")[0], what="the pandas data frame") from None
    return of_arrow(identifier, table, schema, zone)


def of_polars(identifier: ObjectIdentifier, data: Any, schema: Schema, zone: str) -> CatalogTable:
    """A table of a ``polars.DataFrame``, or of what a ``polars.LazyFrame`` gives. Raises the same errors as
    :func:`of_arrow`."""
    import polars as pl

    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    if not isinstance(data, pl.DataFrame):
        raise DataError("DATA344", reason=f"it is a {type(data).__name__}", what="the Polars data frame")
    for name, kind in data.schema.items():
        if kind == pl.Object:
            raise StateplanError("TYPE003", name=name, type=kind, library="Polars")
    try:
        table = data.to_arrow()
    except (ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise DataError("DATA344", reason=str(error).partition("\n")[0], what="the Polars data frame") from None
    return of_arrow(identifier, table, schema, zone)


def of_elements(identifier: ObjectIdentifier, rows: Iterable[Any], schema: Schema) -> CatalogTable:
    """A table of Python rows.

    Args:
        identifier: its name.
        rows: tuples, lists, dicts or ``Row``; or the values of a single column.
        schema: names of the columns, or their names and types; None to infer both.

    Raises:
        DataError: DATA341, values whose types cannot be inferred; DATA342, a row of another number of values;
            DATA343, a value that is none of its column's type.
        StateplanError: as :func:`declared` and :func:`named`.
    """
    element_rows = list(rows)
    names, fields = schema_columns(schema)
    fields = with_names(infer(element_rows, names) if fields is None else fields, None)
    return _table(identifier, fields, [frame_of(element_rows, fields)])


def _reader(data: Any) -> Any:
    """A ``pyarrow.RecordBatchReader``."""
    import pyarrow as pa

    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        batches = [data] if isinstance(data, pa.RecordBatch) else list(data)
        return pa.Table.from_batches(batches).to_reader()
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise DataError("DATA344", reason=str(error).partition("\n")[0], what="this") from None


def _table(identifier: ObjectIdentifier, fields: Fields, frames: Iterable[pl.DataFrame]) -> CatalogTable:
    import polars as pl

    if not fields:
        raise DataError("DATA344.no_columns")
    empty = pl.DataFrame(schema={column(i): kind.polars() for i, (_, kind) in enumerate(fields)})
    options = keep_column(_folder(), frames, empty)
    columns = tuple(Column(name, kind) for name, kind in fields)
    return CatalogTable(identifier, TableSchema(columns), options, temporary=True)


def _folder() -> Path:
    from stateplan.runtime.scratch import scratch

    folder = _folders.get(os.getpid())
    if folder is None or not folder.is_dir():
        folder = _folders[os.getpid()] = scratch("tables")
    return folder
