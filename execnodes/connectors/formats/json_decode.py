"""The vectorised JSON reader.

Lines are decoded by Arrow's JSON reader, which is strict: a number is not taken for a text, a key must not come twice,
a decimal must not lose digits. Whatever it refuses, and whatever it would read more generously than Flink, goes to
the line reader (:mod:`execnodes.connectors.formats.json_rows`), but only the lines around it: a piece that fails is
cut in halves until it is small.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.json

from execnodes.changelog import KIND, columns
from execnodes.connectors.files import line_chunks
from execnodes.connectors.formats import json as json_format
from execnodes.connectors.formats.base import Fields, check_types, frame_schema, with_metadata
from execnodes.connectors.formats.json_rows import BadEvent, RowReader
from execnodes.connectors.formats.strict import strict_bytes, strict_date, strict_time, strict_timestamp
from execnodes.connectors.formats.values import build_series
from execnodes.connectors.options import OptionValues
from execnodes.types import LogicalType

__all__ = ["ArrowLines", "JsonDecoder", "LineDecoder", "make_lines"]

_SMALL_PIECE = 16 << 10
_READ_OPTIONS = pa.json.ReadOptions(use_threads=False, block_size=1 << 20)
_NO_COLUMN = "\x00"

_ARROW: dict[str, Callable[[], Any]] = {
    "BOOLEAN": pa.bool_,
    "TINYINT": pa.int8,
    "SMALLINT": pa.int16,
    "INTEGER": pa.int32,
    "BIGINT": pa.int64,
    "FLOAT": pa.float32,
    "DOUBLE": pa.float64,
    "CHAR": pa.string,
    "VARCHAR": pa.string,
    "BINARY": pa.string,
    "VARBINARY": pa.string,
    "DATE": pa.string,
    "TIME_WITHOUT_TIME_ZONE": pa.string,
    "TIMESTAMP_WITHOUT_TIME_ZONE": pa.string,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": pa.string,
    "INTERVAL_YEAR_MONTH": pa.int32,
    "INTERVAL_DAY_TIME": pa.int64,
}


def _arrow_type(declared: LogicalType, decimal: Callable[[int, int], Any] = pa.decimal256) -> Any:
    """The Arrow type to read a column as; None when Arrow cannot read it (maps).

    Decimals are read as wide ones and made narrow after, because Arrow's JSON reader does not notice when a number
    like 1e25 has too many digits for a narrow one.
    """
    if declared.root in _ARROW:
        return _ARROW[declared.root]()
    if declared.root == "DECIMAL":
        return decimal(declared.precision or 10, declared.scale or 0)
    if declared.root == "ARRAY":
        inner = _arrow_type(declared.children[0], decimal)
        return None if inner is None else pa.list_(inner)
    if declared.root == "ROW":
        parts = [(f.name, _arrow_type(f.type, decimal)) for f in declared.fields]
        return pa.struct(parts) if parts and all(t is not None for _, t in parts) else None
    return None


def _convert(expr: pl.Expr, declared: LogicalType, standard: str) -> pl.Expr | None:
    """What turns a column as Arrow read it into the column's type; None for nothing to do."""
    root = declared.root
    if declared.is_timestamp:
        return strict_timestamp(expr, declared, standard)
    if root == "DATE":
        return strict_date(expr)
    if root == "TIME_WITHOUT_TIME_ZONE":
        return strict_time(expr)
    if root in ("BINARY", "VARBINARY"):
        return strict_bytes(expr)
    if root == "INTERVAL_DAY_TIME":
        return expr.cast(pl.Duration("ms"))
    if root == "ARRAY":
        inner = _convert(pl.element(), declared.children[0], standard)
        return None if inner is None else expr.list.eval(inner)
    if root == "ROW":
        parts = [(f.name, _convert(expr.struct.field(f.name), f.type, standard)) for f in declared.fields]
        if all(p is None for _, p in parts):
            return None
        built = pl.struct([(expr.struct.field(n) if p is None else p).alias(n) for n, p in parts])
        return pl.when(expr.is_null()).then(None).otherwise(built)
    return None


def _has_decimal(declared: LogicalType) -> bool:
    return (
        declared.root == "DECIMAL"
        or any(map(_has_decimal, declared.children))
        or any(_has_decimal(f.type) for f in declared.fields)
    )


class ArrowLines:
    """The strict reader: pieces of lines to frames, or a refusal.

    Args:
        fields: name and type of the columns to read.
        standard: ``SQL`` or ``ISO-8601``.
        fail_on_missing: whether NULL must be looked at by the line reader, since it may be a missing field.
    """

    def __init__(self, fields: Fields, standard: str, fail_on_missing: bool) -> None:
        arrow = [(name, _arrow_type(declared)) for name, declared in fields]
        names = [name for name, _ in fields]
        self.usable = all(t is not None for _, t in arrow) and len(set(names)) == len(names) and _NO_COLUMN not in names
        self.width = len(fields)
        self.fail_on_missing = fail_on_missing
        self.nested = any(t.root in ("ROW", "ARRAY") for _, t in fields)
        self.narrow = (
            pa.schema([(name, _arrow_type(t, pa.decimal128)) for name, t in fields])
            if (self.usable and any(_has_decimal(t) for _, t in fields))
            else None
        )
        self.names = columns(self.width)
        self.schema = {n: t.polars() for n, (_, t) in zip(self.names, fields, strict=True)}
        self.conversions = [
            expr.alias(n)
            for n, (_, t) in zip(self.names, fields, strict=True)
            if (expr := _convert(pl.col(n), t, standard)) is not None
        ]
        if self.usable:
            self.parse_options = pa.json.ParseOptions(
                explicit_schema=pa.schema(arrow or [(_NO_COLUMN, pa.null())]), unexpected_field_behavior="ignore"
            )

    def read(self, piece: bytes) -> pl.DataFrame | None:
        """The rows of some lines, or None when the line reader must look at them."""
        rows = _object_lines(piece)
        if not self.usable or rows is None or (self.fail_on_missing and self.nested):
            return None
        if not piece.isascii():
            try:
                piece.decode()
            except UnicodeDecodeError:
                return None
        if rows == 0:
            return pl.DataFrame(schema=self.schema)
        try:
            table = pa.json.read_json(
                pa.BufferReader(piece), read_options=_READ_OPTIONS, parse_options=self.parse_options
            )
            if self.narrow is not None:
                table = table.cast(self.narrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != rows or _has_constant(piece):
            return None
        if not self.width:
            return pl.DataFrame(height=rows)
        df = pl.DataFrame(pl.from_arrow(table.rename_columns(self.names)))
        if self.fail_on_missing and any(s.null_count() for s in df):
            return None
        if self.conversions:
            try:
                df = df.with_columns(self.conversions)
            except pl.exceptions.PolarsError:
                return None
        return df.cast(pl.Schema(self.schema)) if df.schema != self.schema else df


_CONSTANT = re.compile(rb"[:\[,][ \t\r]*-?(?:NaN|Inf)")


def _has_constant(piece: bytes) -> bool:
    """Whether there may be a NaN or Infinity outside of texts: Arrow takes them, Flink does not."""
    return ((b"N" in piece and b"NaN" in piece) or (b"I" in piece and b"Inf" in piece)) and _CONSTANT.search(
        piece
    ) is not None


def _object_lines(piece: bytes) -> int | None:
    """How many lines that are not empty the piece has, when each starts with ``{`` and ends with ``}``; else None.

    Arrow's reader takes objects wherever they are, on one line or over several, so this keeps one row on one line. It
    also keeps it from a ``null`` at the start, which it does not survive.
    """
    data = np.frombuffer(piece, np.uint8)
    ends = np.flatnonzero(data == 10)
    starts = np.empty_like(ends)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    first, last = data[starts], data[np.maximum(ends, 1) - 1]
    if (first == 123).all() and (last == 125).all():
        return len(ends)
    if (last == 13).any():
        ends = np.where(last == 13, ends - 1, ends)
        last = data[np.maximum(ends, 1) - 1]
    empty = starts == ends
    if ((first == 123) & (last == 125) | empty).all():
        return int(len(ends) - empty.sum())
    return None


@dataclass
class LineDecoder:
    """Pieces of lines to frames: the strict reader where it can, the line reader where it must.

    Attributes:
        fields: name and type of the columns to read.
        format_name: for messages.
        standard: ``SQL`` or ``ISO-8601``.
        fail_on_missing: whether a missing field is an error.
        ignore_errors: whether what cannot be read is skipped.
        tree: as in :class:`RowReader`.
        check_frame: whether every row of a frame of the strict reader is good; None for no check.
        check_row: as ``check`` in :class:`RowReader`.
        guard: as in :class:`RowReader`.
    """

    fields: Fields
    format_name: str
    standard: str
    fail_on_missing: bool
    ignore_errors: bool
    tree: bool = False
    check_frame: Callable[[pl.DataFrame], bool] | None = None
    check_row: Callable[[list[Any]], BadEvent | None] | None = None
    guard: Callable[[dict[str, Any]], BadEvent | None] | None = None
    _readers: tuple[ArrowLines, RowReader] | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_readers": None}

    def readers(self) -> tuple[ArrowLines, RowReader]:
        if self._readers is None:
            self._readers = (
                ArrowLines(self.fields, self.standard, self.fail_on_missing),
                RowReader(
                    self.fields,
                    self.fail_on_missing,
                    self.ignore_errors,
                    self.standard,
                    self.tree,
                    self.check_row,
                    self.guard,
                ),
            )
        return self._readers

    def decode(self, piece: bytes, first_line: int, file: str | None) -> Iterator[pl.DataFrame]:
        """The rows of some whole lines, in order, without ``kind``.

        Raises:
            DataError: DATA111 to DATA114, DATA151.
        """
        fast, slow = self.readers()
        df = fast.read(piece)
        if df is not None and (self.check_frame is None or self.check_frame(df)):
            yield df
            return
        cut = piece.rfind(b"\n", 0, len(piece) // 2) + 1 if len(piece) > _SMALL_PIECE and fast.usable else 0
        if cut:
            yield from self.decode(piece[:cut], first_line, file)
            yield from self.decode(piece[cut:], first_line + piece.count(b"\n", 0, cut), file)
            return
        lines = piece.split(b"\n")[:-1]
        rows = slow.rows(lines, first_line, file, self.format_name)
        while batch := list(itertools.islice(rows, 50_000)):
            yield self.frame(batch)

    def decode_file(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of a file, one frame per piece of it, without those that are empty."""
        for first_line, piece in line_chunks(path):
            parts = list(self.decode(piece, first_line, path))
            df = parts[0] if len(parts) == 1 else pl.concat(parts) if parts else None
            if df is not None and df.height:
                yield df

    def frame(self, rows: list[list[Any]]) -> pl.DataFrame:
        """Rows of raw values as a frame."""
        if not self.fields:
            return pl.DataFrame(height=len(rows))
        data = zip(*rows, strict=True) if rows else ((),) * len(self.fields)
        names = columns(len(self.fields))
        return pl.DataFrame(
            [
                build_series(n, list(values), declared)
                for n, values, (_, declared) in zip(names, data, self.fields, strict=True)
            ]
        )


def make_lines(options: Mapping[str, str], fields: Fields) -> LineDecoder:
    """The line decoder of a table of the ``json`` format."""
    values = OptionValues.read(json_format.FORMAT.options, options, "json.")
    check_types(fields, json_format.FORMAT)
    return LineDecoder(
        fields,
        "json",
        values["timestamp-format.standard"],
        values["fail-on-missing-field"],
        values["ignore-parse-errors"],
    )


@dataclass
class JsonDecoder:
    """Decoder of the ``json`` format; see :class:`execnodes.connectors.formats.base.Decoder`."""

    lines: LineDecoder
    metadata: tuple[str, ...]
    with_kind: bool

    @classmethod
    def make(
        cls, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> JsonDecoder:
        """See :func:`execnodes.connectors.formats.json.make_decoder`."""
        lines = make_lines(options, [fields[i] for i in projection])
        return cls(lines, tuple(metadata), KIND in frame_schema(fields, projection, metadata))

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file."""
        for df in self.lines.decode_file(path):
            df = with_metadata(df, path, len(self.lines.fields), self.metadata)
            yield pl.DataFrame({KIND: pl.zeros(df.height, pl.Int8, eager=True)}) if self.with_kind else df
