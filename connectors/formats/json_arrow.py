"""JSON lines to frames by Arrow's reader: strict, and refusing whatever it would read in another way than Flink."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.json

from stateplan.common.changelog import columns
from stateplan.common.files import Lines
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.common.values.strict import strict_bytes, strict_date, strict_time, strict_timestamp, strict_value
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.formats.json_rows import NotJsonError, Number, parse_objects

_READ_OPTIONS = pa.json.ReadOptions(use_threads=True, block_size=1 << 21)
"""Arrow has as many threads as there are cores, and one in a worker of Spark. A line that is longer than a block is for
the line reader."""
_NO_COLUMN = "\x00"

_Bytes: TypeAlias = npt.NDArray[np.uint8]

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


def _arrow_type(data_type: LogicalType, decimal: Callable[[int, int], Any] = pa.decimal256) -> Any:
    """The Arrow type to read a column as; None when Arrow cannot read it (maps).

    Decimals are read as wide ones and made narrow after, because Arrow's JSON reader does not notice when a number
    like 1e25 has too many digits for a narrow one.
    """
    if data_type.root in _ARROW:
        return _ARROW[data_type.root]()
    if data_type.root == "DECIMAL":
        return decimal(data_type.precision or 10, data_type.scale or 0)
    if data_type.root == "ARRAY":
        inner = _arrow_type(data_type.children[0], decimal)
        return None if inner is None else pa.list_(inner)
    if data_type.root == "ROW":
        parts = [(f.name, _arrow_type(f.type, decimal)) for f in data_type.fields]
        return pa.struct(parts) if parts and all(t is not None for _, t in parts) else None
    return None


def _convert(expr: pl.Expr, data_type: LogicalType, standard: str) -> pl.Expr | None:
    """What turns a column as Arrow read it into the column's type; None for nothing to do."""
    root = data_type.root
    if data_type.is_timestamp:
        return strict_timestamp(expr, data_type, standard)
    if root == "DATE":
        return strict_date(expr)
    if root == "TIME_WITHOUT_TIME_ZONE":
        return strict_time(expr)
    if root in ("BINARY", "VARBINARY"):
        return strict_bytes(expr)
    if root == "INTERVAL_DAY_TIME":
        return expr.cast(pl.Duration("ms"))
    if root == "ARRAY":
        inner = _convert(pl.element(), data_type.children[0], standard)
        return None if inner is None else expr.list.eval(inner)
    if root == "ROW":
        parts = [(f.name, _convert(expr.struct.field(f.name), f.type, standard)) for f in data_type.fields]
        if all(p is None for _, p in parts):
            return None
        struct = pl.struct([(expr.struct.field(n) if p is None else p).alias(n) for n, p in parts])
        return pl.when(expr.is_null()).then(None).otherwise(struct)
    return None


def _has_decimal(data_type: LogicalType) -> bool:
    return (
        data_type.root == "DECIMAL"
        or any(map(_has_decimal, data_type.children))
        or any(_has_decimal(f.type) for f in data_type.fields)
    )


_SAMPLE_LINES = 50
_FROM_TEXT = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"})
_MINUS_ZERO = re.compile(rb"[:\[,][ \t\r]*-0")
_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class _Layout:
    """How Arrow is to read the columns, and what makes them of the right types after."""

    options: Any
    narrow: Any
    conversions: list[pl.Expr]
    zeros: list[str]

    @classmethod
    def of(cls, fields: Fields, standard: str, text_fields: frozenset[int] = frozenset()) -> _Layout | None:
        """The layout of a table in which the columns ``text_fields`` are numbers for texts, or texts for others."""
        schema, narrow, conversions, zeros = [], [], [], []
        for i, (name, data_type) in enumerate(fields):
            field = f"c{i}"
            if i not in text_fields:
                arrow, value = _arrow_type(data_type), _convert(pl.col(field), data_type, standard)
            elif data_type.is_string:
                arrow, value = pa.int64(), pl.col(field).cast(pl.String)
                zeros.append(field)
            else:
                arrow, value = pa.string(), strict_value(pl.col(field), data_type, standard)
            if arrow is None:
                return None
            schema.append((name, arrow))
            narrow.append((name, arrow if i in text_fields else _arrow_type(data_type, pa.decimal128)))
            if value is not None:
                conversions.append(value.alias(field))
        options = pa.json.ParseOptions(
            explicit_schema=pa.schema(schema or [(_NO_COLUMN, pa.null())]), unexpected_field_behavior="ignore"
        )
        return cls(options, pa.schema(narrow) if any(_has_decimal(t) for _, t in fields) else None, conversions, zeros)


class ArrowLines:
    """The strict reader: pieces of lines to frames, or a refusal.

    Args:
        fields: name and type of the columns to read.
        standard: ``SQL`` or ``ISO-8601``.
        fail_on_missing: whether NULL must be looked at by the line reader, since it may be a missing field.
    """

    def __init__(self, fields: Fields, standard: str, fail_on_missing: bool) -> None:
        self.fields = fields
        self.standard = standard
        self.fail_on_missing = fail_on_missing
        names = [name for name, _ in fields]
        self.names = columns(len(fields))
        self.schema = pl.Schema({n: t.polars() for n, (_, t) in zip(self.names, fields, strict=True)})
        has_nested = any(t.root in ("ROW", "ARRAY") for _, t in fields)
        distinct = len(set(names)) == len(names) and _NO_COLUMN not in names
        self.layout = _Layout.of(fields, standard) if distinct and not (fail_on_missing and has_nested) else None

    @property
    def usable(self) -> bool:
        """Whether the types of the table can be read at all."""
        return self.layout is not None

    def read(self, lines: Lines) -> pl.DataFrame | None:
        """The rows of some lines, or None when the line reader must look at them."""
        rows, piece = _object_lines(lines), lines.data
        if self.layout is None or rows is None:
            return None
        if not piece.isascii():
            try:
                piece.decode()
            except UnicodeDecodeError:
                return None
        if rows == 0:
            return pl.DataFrame(schema=self.schema)
        df = self._parse(piece, rows, self.layout)
        if df is None:
            text_fields = self._swapped(piece)
            layout = _Layout.of(self.fields, self.standard, text_fields) if text_fields else None
            df = self._parse(piece, rows, layout) if layout is not None else None
        return df

    def _parse(self, piece: bytes, rows: int, layout: _Layout) -> pl.DataFrame | None:
        try:
            table = pa.json.read_json(pa.BufferReader(piece), read_options=_READ_OPTIONS, parse_options=layout.options)
            if layout.narrow is not None:
                table = table.cast(layout.narrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if table.num_rows != rows or contains_constant(piece):
            return None
        if not self.names:
            return pl.DataFrame(height=rows)
        df = pl.DataFrame(pl.from_arrow(table.rename_columns(self.names)))
        if self.fail_on_missing and any(s.null_count() for s in df):
            return None
        if any((df[name] == 0).any() for name in layout.zeros) and _MINUS_ZERO.search(piece) is not None:
            return None
        if layout.conversions:
            try:
                df = df.with_columns(layout.conversions)
            except pl.exceptions.PolarsError:
                return None
        return df.cast(self.schema) if df.schema != self.schema else df

    def _swapped(self, piece: bytes) -> frozenset[int]:
        """Columns whose first value is a whole number where a text is wanted, or a text where a number is.

        Flink takes both, Arrow only the type that was passed to it. It gets the other type, and remains strict.
        """
        open_columns, fields, start = set(range(len(self.fields))), set(), 0
        for _ in range(_SAMPLE_LINES):
            end = piece.find(b"\n", start)
            if end < 0 or not open_columns:
                break
            try:
                objects = parse_objects(piece[start:end])
            except NotJsonError:
                break
            for value in objects:
                for i in list(open_columns):
                    name, data_type = self.fields[i]
                    cell = value.get(name)
                    if cell is None:
                        continue
                    open_columns.discard(i)
                    number = isinstance(cell, Number) and _INTEGER.fullmatch(cell) is not None
                    text = isinstance(cell, str) and not isinstance(cell, Number)
                    if (number and data_type.is_string) or (text and data_type.root in _FROM_TEXT):
                        fields.add(i)
            start = end + 1
        return frozenset(fields)


_CONSTANT = re.compile(rb"[:\[,][ \t\r]*-?(?:NaN|Inf)")


def contains_constant(piece: bytes) -> bool:
    """Whether there may be a NaN or Infinity outside of texts: Arrow takes them, Flink does not."""
    return _has_word(np.frombuffer(piece, np.uint8)) and _CONSTANT.search(piece) is not None


_HALVES = [(np.frombuffer(word[at : at + 2], np.uint16)[0], at, word) for word in (b"NaN", b"Inf") for at in (0, 1)]
"""Of each word its first and its last two bytes as a number, where in the word they are, and the word."""


def _has_word(data: _Bytes) -> bool:
    """Whether ``NaN`` or ``Inf`` is in the data: one half of a word is a pair of bytes at an even place. To compare
    pairs is several times faster than ``in``."""
    pairs = data[: len(data) // 2 * 2].view(np.uint16)
    hit = np.zeros(len(pairs), np.bool_)
    for half, _, _ in _HALVES:
        hit |= pairs == half
    places = np.flatnonzero(hit)
    for half, at, word in _HALVES:
        starts = 2 * places[pairs[places] == half] - at
        starts = starts[(starts >= 0) & (starts + 3 <= len(data))]
        if ((data[starts] == word[0]) & (data[starts + 2] == word[2])).any():
            return True
    return False


def _object_lines(lines: Lines) -> int | None:
    """How many lines are not empty, when each of these starts with ``{`` and ends with ``}``; else None.

    Arrow's reader takes objects wherever they are, on one line or over several, so this keeps one row on one line. It
    also keeps it from a ``null`` at the start, which it does not survive.
    """
    data = np.frombuffer(lines.data, np.uint8)
    starts, ends = lines.starts, lines.ends
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
