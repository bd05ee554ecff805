"""Parquet files through Arrow: the reader of projected columns, and the writer."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from stateplan.common.changelog import column
from stateplan.common.errors import DataError, Place
from stateplan.common.files import below_roots, driver_errors, filesystem_of, local_path
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import current_roots
from stateplan.common.types import INT, LogicalType
from stateplan.common.values.arrow import arrow_column
from stateplan.common.values.nanoseconds import of_datetimes
from stateplan.connectors.formats.base import FileColumns, countable

_BATCH_ROWS = 250_000

_ACCEPTED: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("bool",),
    "TINYINT": ("int8", "int32"),
    "SMALLINT": ("int8", "int16", "int32"),
    "INTEGER": ("int8", "int16", "int32"),
    "BIGINT": ("int8", "int16", "int32", "int64"),
    "FLOAT": ("float",),
    "DOUBLE": ("float", "double"),
    "CHAR": ("string", "large_string"),
    "VARCHAR": ("string", "large_string"),
    "BINARY": ("binary", "large_binary", "fixed_size_binary"),
    "VARBINARY": ("binary", "large_binary", "fixed_size_binary"),
    "DATE": ("date32",),
    "DECIMAL": ("decimal",),
    "TIME_WITHOUT_TIME_ZONE": ("time32", "time64"),
    "TIMESTAMP_WITHOUT_TIME_ZONE": ("timestamp",),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": ("timestamp",),
    "ARRAY": ("list", "large_list"),
    "MAP": ("map", "list"),
    "MULTISET": ("map", "list"),
    "ROW": ("struct",),
    "INTERVAL_YEAR_MONTH": ("int32",),
    "INTERVAL_DAY_TIME": ("int64", "duration"),
}


def _fits(data_type: LogicalType, arrow_type: Any) -> bool:
    """Whether every value of an Arrow type of a file is a value of the column's type."""
    text = str(arrow_type)
    if not text.startswith(_ACCEPTED.get(data_type.root, ())):
        return False
    if data_type.root == "DECIMAL":
        integer_digits = (data_type.precision or 10) - (data_type.scale or 0)
        return bool(
            arrow_type.scale <= (data_type.scale or 0) and arrow_type.precision - arrow_type.scale <= integer_digits
        )
    if data_type.root == "ARRAY":
        return _fits(data_type.children[0], arrow_type.value_type)
    if data_type.root in ("MAP", "MULTISET") and text.startswith("map"):
        value = data_type.children[1] if data_type.root == "MAP" else INT
        return _fits(data_type.children[0], arrow_type.key_type) and _fits(value, arrow_type.item_type)
    if data_type.root == "ROW":
        inner = {arrow_type.field(i).name: arrow_type.field(i).type for i in range(arrow_type.num_fields)}
        return all(f.name in inner and _fits(f.type, inner[f.name]) for f in data_type.fields)
    return True


def cast_column(series: pl.Series, data_type: LogicalType) -> pl.Series:
    """A column as Arrow gave it in the column's own type; timestamps are cut, not rounded."""
    dtype = data_type.polars()
    series = of_datetimes(series, data_type)
    if isinstance(series.dtype, pl.Datetime) and isinstance(dtype, pl.Datetime):
        series = series.dt.replace_time_zone(None).dt.replace_time_zone(dtype.time_zone)
    return series if series.dtype == dtype else series.cast(dtype)


def local_source(local: str) -> Any:
    """A local file for PyArrow. Raises OSError, and GatewayError GW012."""
    if current_roots() is None:
        return pa.OSFile(local, "rb")
    return pa.PythonFile(open(local, "rb", opener=below_roots), "r")


@dataclass
class ParquetDecoder:
    """Decoder of the ``parquet`` format; see :class:`connectors.formats.base.Decoder`."""

    fields: list[tuple[str, LogicalType]]
    metadata: tuple[str, ...]

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file."""
        try:
            local = local_path(path)
            if local is not None:
                with local_source(local) as source:
                    yield from self.frames(source, path)
            else:
                fs, inner = filesystem_of(path)
                with driver_errors(), fs.open(inner, "rb") as source:
                    yield from self.frames(source, path)
        except (pa.ArrowInvalid, OSError) as error:
            code = "DATA102" if isinstance(error, FileNotFoundError) else "DATA131"
            reason = str(error).splitlines()[0]
            raise DataError(code, reason=reason, place=Place(file=path)) from error

    def frames(self, source: Any, path: str) -> Iterator[pl.DataFrame]:
        """The rows of an open file, whose path is for errors. Raises ArrowInvalid if it is not a Parquet file."""
        file = pq.ParquetFile(source)
        schema = file.schema_arrow
        present = [name for name, _ in self.fields if schema.get_field_index(name) >= 0]
        for name, data_type in self.fields:
            if name in present and not _fits(data_type, schema.field(name).type):
                raise DataError(
                    "DATA132",
                    name=name,
                    type=schema.field(name).type,
                    declared=data_type.summary(),
                    place=Place(file=path),
                )
        of_file = FileColumns(path, self.metadata)
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=present, use_threads=False):
            if not batch.num_rows:
                continue
            read = pl.DataFrame(pl.from_arrow(pa.table(batch))) if present else pl.DataFrame(height=batch.num_rows)
            data = {
                column(i): cast_column(read[name], data_type)
                if name in present
                else pl.Series([None], dtype=data_type.polars()).extend_constant(None, batch.num_rows - 1)
                for i, (name, data_type) in enumerate(self.fields)
            }
            yield countable(of_file.behind(pl.DataFrame(data) if data else read, len(self.fields)))


def file_array(array: Any, data_type: LogicalType) -> Any:
    """An array as the file has it: texts and bytes with 32-bit offsets, day-time intervals as numbers."""
    if data_type.is_string:
        return array.cast(pa.string())
    if data_type.root in ("BINARY", "VARBINARY"):
        return array.cast(pa.binary())
    return array.cast(pa.int64()) if data_type.root == "INTERVAL_DAY_TIME" else array


@dataclass
class ParquetEncoder:
    """Encoder of the ``parquet`` format; see :class:`connectors.formats.base.Encoder`."""

    fields: list[tuple[str, LogicalType]]
    compression: str

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file."""
        arrays = [arrow_column(df[column(i)], data_type, file_array) for i, (_, data_type) in enumerate(self.fields)]
        table = pa.table(arrays, names=[name for name, _ in self.fields])
        out = io.BytesIO()
        codec = "none" if self.compression == "uncompressed" else self.compression
        pq.write_table(table, out, compression=codec)
        return out.getvalue()
