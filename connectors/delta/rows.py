"""Reads and writes the rows in the files of a Delta table.

Reading adds the partition columns, applies deletion vectors and reads change data files. New files get statistics, with
which readers decide which files to skip.
"""

from __future__ import annotations

import io
import json
import math
import os
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.errors import DataError, Place, RunError
from stateplan.common.files import below_roots, rooted_path, safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import STRING, LogicalType
from stateplan.common.values.arrow import arrow_column
from stateplan.connectors.delta.bounds import inside, is_absolute
from stateplan.connectors.delta.log import ADDED_ROWS, DELETE, REMOVED_ROWS, DataFile, value_text
from stateplan.connectors.delta.table import Location
from stateplan.connectors.formats.base import countable
from stateplan.connectors.formats.parquet_io import ParquetDecoder, file_array, local_source
from stateplan.connectors.partitions import folder_of

COMMIT_VERSION, COMMIT_TIMESTAMP = "_commit_version", "_commit_timestamp"
"""Metadata of each row. Source: the columns of Delta's change data feed."""

_CHANGE_TYPE = "_change_type"
_KINDS = {
    "insert": RowKind.INSERT,
    "update_preimage": RowKind.UPDATE_BEFORE,
    "update_postimage": RowKind.UPDATE_AFTER,
    "delete": RowKind.DELETE,
}
_REMOVALS = [word for word, kind in _KINDS.items() if kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE)]
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_INDEXED = 32
"""Columns with statistics, and characters of a text in them. Source: defaults of Delta's writers."""

_PIECE = 1 << 20
"""Bytes that are given to an object store at a time."""

_KEPT_MASKS = 4
_masks: OrderedDict[tuple[str, int], dict[str, pl.Series]] = OrderedDict()
"""Per table and version: which rows of its files deletion vectors keep."""


# ---- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Reads files of a table. Picklable.

    Attributes:
        location: the location of the table.
        columns: name and type of those to read, in output order.
        metadata: the metadata of :data:`COMMIT_VERSION` and :data:`COMMIT_TIMESTAMP`, which follows the columns.
        changes: whether rows have kinds.
    """

    location: Location
    columns: tuple[tuple[str, LogicalType], ...]
    metadata: tuple[str, ...] = ()
    changes: bool = False

    def read(self, file: DataFile) -> Iterator[pl.DataFrame]:
        """The rows of a file.

        Raises:
            DataError: DATA453, the file is gone; DATA131 or DATA132, it cannot be read or has other types.
        """
        in_file = [(name, data_type) for name, data_type in self.columns if name not in file.partition]
        file_columns = [*in_file, (_CHANGE_TYPE, STRING)] if file.rows in (REMOVED_ROWS, ADDED_ROWS) else in_file
        places = {name: column(i) for i, (name, _) in enumerate(file_columns)}
        constants = {
            name: pl.lit(self._value(name, file.partition[name], data_type, file.path), data_type.polars())
            for name, data_type in self.columns
            if name in file.partition
        }
        expressions = [
            (pl.col(places[name]) if name in places else constants[name]).alias(column(i))
            for i, (name, _) in enumerate(self.columns)
        ]
        stamps = {
            COMMIT_VERSION: pl.lit(file.version, pl.Int64),
            COMMIT_TIMESTAMP: pl.lit(file.stamp, pl.Int64).cast(pl.Datetime("ms", "UTC")),
        }
        expressions += [stamps[key].alias(column(len(self.columns) + i)) for i, key in enumerate(self.metadata)]
        if self.changes:
            expressions.append(self._kind(file, places).alias(KIND))
        as_read = not constants and not self.metadata and not self.changes
        mask = self._mask(file)
        row_count = 0
        with self._open_file(file.path) as source:
            folder = "" if is_absolute(file.path) else safe_url(self.location.path).rstrip("/") + "/"
            for frame in ParquetDecoder(file_columns, ()).frames(source, folder + file.path):
                rows, height = frame, frame.height
                if mask is not None:
                    rows = rows.filter(_fill_mask(mask.slice(row_count, height), height, file.was_masked is None))
                row_count += height
                if file.rows in (REMOVED_ROWS, ADDED_ROWS):
                    is_taken = pl.col(places[_CHANGE_TYPE]).is_in(_REMOVALS)
                    rows = rows.filter(is_taken if file.rows == REMOVED_ROWS else ~is_taken)
                if rows.height:
                    yield rows if as_read else countable(_select(rows, expressions))

    def _kind(self, file: DataFile, places: Mapping[str, str]) -> pl.Expr:
        if file.rows not in (REMOVED_ROWS, ADDED_ROWS):
            return pl.lit(int(RowKind.DELETE if file.rows == DELETE else RowKind.INSERT), pl.Int8)
        kinds = {word: int(kind) for word, kind in _KINDS.items()}
        return pl.col(places[_CHANGE_TYPE]).replace_strict(kinds, return_dtype=pl.Int8)

    def _value(self, name: str, text: str | None, data_type: LogicalType, path: str) -> Any:
        try:
            return None if text is None else _partition_value(text, data_type)
        except (ValueError, ArithmeticError):
            place = Place(file=path)
            raise DataError("DATA106.folder", text=text, name=name, declared=data_type.summary(), place=place) from None

    def _mask(self, file: DataFile) -> pl.Series | None:
        """Which rows of a file are meant; None for all. Rows beyond its end are."""
        now = self._kept_rows(file, file.version) if file.masked else None
        if file.was_masked is None:
            return now
        before = self._kept_rows(file, file.version - 1) if file.was_masked else None
        size = max(0 if mask is None else mask.len() for mask in (now, before))
        one, other = (_fill_mask(before, size), _fill_mask(now, size))
        return one & ~other if file.rows == DELETE else ~one & other

    def _kept_rows(self, file: DataFile, version: int) -> pl.Series | None:
        """Which rows of a file deletion vectors have left in a version."""
        key = (self.location.uri, version)
        if key not in _masks:
            table = self.location.open(version)
            with self.location.reaching():
                vectors = pa.table(table.deletion_vectors())
            paths, masks_of_files = vectors["filepath"].to_pylist(), vectors["selection_vector"]
            masks = (pl.Series(pl.from_arrow(masks_of_files[i].values)) for i in range(len(paths)))
            _masks[key] = dict(zip((f"/{inside(unquote(path))}" for path in paths), masks, strict=True))
            while len(_masks) > _KEPT_MASKS:
                _masks.popitem(last=False)
        ending = f"/{inside(file.path)}"
        return next((mask for path, mask in _masks[key].items() if path.endswith(ending)), None)

    @contextmanager
    def _open_file(self, path: str) -> Iterator[Any]:
        try:
            home, name = self.location.of_file(path)
            local = home.local_file(name)
            if local is not None:
                with local_source(local) as source:
                    yield source
            else:
                with home.files().open_input_file(name) as source:
                    yield source
        except FileNotFoundError:
            raise DataError("DATA453", name=self.location.name, place=Place(file=path)) from None
        except (pa.ArrowInvalid, OSError) as error:
            reason = self.location.error_text(error)
            raise DataError("DATA131", reason=reason, place=Place(file=path)) from None


def _fill_mask(mask: pl.Series | None, size: int, value: bool = True) -> pl.Series:
    """A mask of ``size`` rows; ``value`` for those of which it says nothing."""
    flags = pl.Series([], dtype=pl.Boolean) if mask is None else mask
    return flags.extend_constant(value, size - flags.len()) if flags.len() < size else flags


def _select(rows: pl.DataFrame, expressions: Sequence[pl.Expr]) -> pl.DataFrame:
    """The columns, with constants as long as the rows."""
    names = [expression.meta.output_name() for expression in expressions]
    return rows.with_columns(expressions).select(names) if expressions else rows.select(pl.col(KIND))


def _partition_value(text: str, data_type: LogicalType) -> Any:
    """The value of a partition column. Raises ValueError or ArithmeticError."""
    root = data_type.root
    if data_type.is_string:
        return text
    if data_type.is_integer:
        return int(text)
    if root in ("FLOAT", "DOUBLE"):
        return float(text)
    if root == "DECIMAL":
        return Decimal(text)
    if root == "DATE":
        return date.fromisoformat(text)
    if root == "BOOLEAN" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if data_type.is_timestamp:
        instant = datetime.fromisoformat(text)
        if root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
            return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
        return instant.replace(tzinfo=None)
    raise ValueError(text)


# ---- writing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewFile:
    """A file that has been written and that no commit has named yet. JSON-ready by :func:`vars`."""

    path: str
    size: int
    partition: dict[str, str | None]
    modified: int
    stats: str = field(repr=False, default="{}")


def refuse_empty_texts(
    frame: pl.DataFrame, columns: Sequence[tuple[str, LogicalType]], partitions: Sequence[str], location: Location
) -> None:
    """Raises DataError DATA459 for an empty text in a partition column, which Delta would read as NULL.

    Args:
        frame: rows, ``c0, c1, ...``.
        columns: name and type of all, in order.
        partitions: names of the partition columns.
        location: the location of the table.
    """
    for i, (name, data_type) in enumerate(columns):
        if name in partitions and data_type.is_string and (frame[column(i)] == "").any():
            raise DataError("DATA459", name=location.name, column=name)


@dataclass(frozen=True)
class Writer:
    """Writes new files of a table. Picklable.

    Attributes:
        location: the location of the table.
        columns: name and type of all, in order.
        partitions: names of the partition columns, in order.
        prefix: the prefix of the names of its files.
        compression: codec of Parquet.
    """

    location: Location
    columns: tuple[tuple[str, LogicalType], ...]
    partitions: tuple[str, ...]
    prefix: str
    compression: str = "snappy"

    def write(self, frame: pl.DataFrame) -> list[NewFile]:
        """Writes rows (``c0, c1, ...``), each partition to a file of its own.

        Raises:
            DataError: DATA459, an empty text in a partition column.
            RunError: RUN031, the disk is full; RUN174, the store does not take the file.
        """
        return [self._write(partition, rows) for partition, rows in self._parts(frame)]

    def _parts(self, frame: pl.DataFrame) -> Iterator[tuple[dict[str, str | None], pl.DataFrame]]:
        if not self.partitions:
            yield {}, frame
            return
        refuse_empty_texts(frame, self.columns, self.partitions, self.location)
        positions = {name: column(i) for i, (name, _) in enumerate(self.columns)}
        for values, rows in frame.group_by([positions[k] for k in self.partitions], maintain_order=True):
            texts = map(value_text, values)
            yield dict(zip(self.partitions, texts, strict=True)), rows

    def _write(self, partition: dict[str, str | None], frame: pl.DataFrame) -> NewFile:
        file_columns = [(column(i), *c) for i, c in enumerate(self.columns) if c[0] not in self.partitions]
        table = pa.table(arrays_of(frame, file_columns), names=[name for _, name, _ in file_columns])
        out = io.BytesIO()
        pq.write_table(table, out, compression=self.compression)
        data = out.getvalue()
        name = f"{self.prefix}-{uuid.uuid4()}.{self.compression}.parquet"
        path = f"{folder_of(partition, _NULL_PARTITION)}/{name}" if partition else name
        try:
            self._put(path, data)
        except OSError as error:
            place = safe_url(self.location.path)
            refusal = RunError("RUN174", name=self.location.name, path=place, reason=self.location.error_text(error))
            raise self.location.full(error) or refusal from None
        modified_at = int(time.time() * 1000)
        return NewFile(path, len(data), partition, modified_at, statistics(frame, file_columns))

    def _put(self, path: str, data: bytes) -> None:
        local = self.location.local_file(path)
        if local is not None:
            os.makedirs(rooted_path(os.path.dirname(local)), exist_ok=True)
            with open(local, "xb", opener=below_roots) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            return
        # The stream of the library takes bytes only, which a buffered one gives to it, of pieces that fit its buffer.
        with self.location.files().open_output_stream(path) as raw, pa.BufferedOutputStream(raw, 4 * _PIECE) as target:
            for start in range(0, len(data), _PIECE):
                target.write(data[start : start + _PIECE])

    def remove(self, files: Sequence[NewFile]) -> None:
        """Removes files that no commit will name. What cannot be removed is left to VACUUM."""
        fs = self.location.files()
        for file in files:
            try:
                fs.delete_file(file.path)
            except OSError:
                continue


FrameColumn = tuple[str, str, LogicalType]
"""A column: its name in a frame, its name in the table, its type."""


def arrays_of(frame: pl.DataFrame, columns: Sequence[FrameColumn]) -> list[Any]:
    """Columns of a frame as Arrow arrays of Delta's types."""
    return [arrow_column(frame[key], data_type, _stored_array) for key, _, data_type in columns]


def _stored_array(array: Any, data_type: LogicalType) -> Any:
    """An array as Delta has it: timestamps in microseconds."""
    if data_type.is_timestamp:
        return array.cast(pa.timestamp("us", array.type.tz))
    return file_array(array, data_type)


def statistics(frame: pl.DataFrame, columns: Sequence[FrameColumn]) -> str:
    """What the log says of a file's rows: how many, and per column its NULLs, its least and its greatest value.

    Args:
        frame: the rows.
        columns: name in the frame, name and type of those in the file.
    """
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for key, name, data_type in columns[:_INDEXED]:
        series = frame[key]
        if data_type.root in ("ARRAY", "MAP", "ROW"):
            continue
        nulls[name] = series.null_count()
        if data_type.root in ("BOOLEAN", "BINARY", "VARBINARY", "DECIMAL") or nulls[name] == series.len():
            continue
        low: Any = series.min()
        high: Any = series.max()
        if isinstance(low, float) and (not math.isfinite(low) or not math.isfinite(high) or series.is_nan().any()):
            continue
        if isinstance(low, str):
            # A shortened text is still a lower bound; it is not an upper one.
            least[name] = low[:_INDEXED]
            if len(high) <= _INDEXED:
                most[name] = high
            continue
        least[name], most[name] = (v if isinstance(v, (int, float)) else _stat(v) for v in (low, high))
    entry = {"numRecords": frame.height, "minValues": least, "maxValues": most, "nullCount": nulls}
    return json.dumps(entry, ensure_ascii=False)


def _stat(value: Any) -> str:
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat("T", "microseconds")
        return text if value.tzinfo is None else text + "Z"
    return str(value.isoformat())
