"""Messages of Avro read by Polars: they become the one block of a container file in memory.

Polars accepts what Avro does not allow, such as a branch that a union does not have. So the values are encoded again,
by :mod:`connectors.formats.avro_pieces`, and must give the same bytes. Polars therefore reads the columns that this
encoder writes: numbers, text, bytes, times, decimals, enums, nullable values and records of these. Lists, maps, other
unions, values that do not fit their column and damaged bytes are refused as a whole, and fastavro reads the messages
one by one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.types import LogicalType
from stateplan.common.values.nanoseconds import is_fine, of_datetimes
from stateplan.connectors.formats import avro_pieces
from stateplan.connectors.formats.avro_files import MAGIC, write_long
from stateplan.connectors.formats.avro_schema import Node, Schema, nullable_branch, timestamp_unit, type_of
from stateplan.connectors.formats.base import Fields

_SYNC = b"stateplan-blocks"
_DAY = 86_400_000_000_000
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_RANGES = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_DIGITS = 38

Convert: TypeAlias = Callable[[pl.Series], pl.Series]
"""From values as Polars reads them, none of them NULL, to those of a column. Raises RefusedError."""


class RefusedError(Exception):
    """Something that the reader does not accept."""


def frame_reader(node: Node, fields: Fields) -> Callable[[Sequence[bytes], int], pl.DataFrame] | None:
    """Reads messages with a record, or a nullable one, of a schema that fits the columns.

    Args:
        node: the schema that they were written with.
        fields: name and type of the columns.

    Returns:
        From messages, and the bytes to omit at the beginning of each, to the frame ``c0, ...``; it raises RefusedError.
        None for a schema that it does not accept.
    """
    branch = nullable_branch(node)
    record = branch[0] if branch is not None else node
    types = dict(fields)
    if record.kind != "record" or len(types) != len(fields) or not record.fields:
        return None
    try:
        schema = _record_schema(record, types, 0)
        plain = Node(schema, {})
        encode = avro_pieces.writer(plain, type_of(plain))
        inner = {f["name"]: record.inner(f["type"]) for f in record.fields}
        converters = {name: _converter(inner[name], data_type) for name, data_type in fields if name in inner}
    except (RefusedError, avro_pieces.NotWrittenError):
        return None
    head = _head(schema)
    mark = b"" if branch is None else bytes([2 * branch[1]])

    def read(messages: Sequence[bytes], skip: int) -> pl.DataFrame:
        if mark and not all(message.startswith(mark, skip) for message in messages):
            raise RefusedError("null")
        begin = skip + len(mark)
        values = [message[begin:] for message in messages] if begin else messages
        df = _decode_block(head, values)
        try:
            encoding = avro_pieces.join_pieces(encode(df.to_struct(), None), df.height)
            if not encoding.equals(pl.Series(values, dtype=pl.Binary)):
                raise RefusedError("other bytes")
            converted_columns = {name: convert(df[name]) for name, convert in converters.items()}
        except (avro_pieces.NotWrittenError, pl.exceptions.PolarsError) as error:
            raise RefusedError(str(error)) from error
        columns = [
            converted_columns[name]
            if name in converted_columns
            else pl.Series([None], dtype=data_type.polars()).new_from_index(0, len(messages))
            for name, data_type in fields
        ]
        renamed_columns = [series.alias(column(i)) for i, series in enumerate(columns)]
        return pl.DataFrame(renamed_columns) if renamed_columns else pl.DataFrame(height=len(messages))

    return read


def _head(schema: Schema) -> bytes:
    """The beginning of a container file without compression."""
    text = json.dumps(schema).encode()
    name = b"avro.schema"
    return b"".join(
        [MAGIC, write_long(1), write_long(len(name)), name, write_long(len(text)), text, b"\0", _SYNC],
    )


def _decode_block(head: bytes, values: Sequence[bytes]) -> pl.DataFrame:
    """The values as Polars reads them. Raises RefusedError."""
    data = b"".join(values)
    file = b"".join([head, write_long(len(values)), write_long(len(data)), data, _SYNC])
    try:
        df = pl.read_avro(io.BytesIO(file))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise RefusedError(str(error)) from error
    if df.height != len(values):
        raise RefusedError("another number of values")
    return df


# ---- the schema with which Polars reads ------------------------------------------------------------------------


def _record_schema(node: Node, types: dict[str, LogicalType], depth: int) -> Schema:
    """A record without references to names and without logical types, which Polars reads in its own way. ``types`` are
    those of the columns; other fields are read and dropped. Raises RefusedError."""
    if depth > _DIGITS or not node.fields:
        raise RefusedError("a record")
    fields = [
        {"name": f["name"], "type": _schema(node.inner(f["type"]), types.get(f["name"]), depth + 1)}
        for f in node.fields
    ]
    return {"type": "record", "name": f"r{depth}", "fields": fields}


def _schema(node: Node, data_type: LogicalType | None, depth: int) -> Schema:
    branch = nullable_branch(node)
    if branch is not None:
        pair: list[Schema] = ["null", "null"]
        pair[branch[1]] = _schema(branch[0], data_type, depth)
        return pair
    kind = node.kind
    if kind == "record":
        if data_type is not None and data_type.root != "ROW":
            raise RefusedError("a record")
        types = {} if data_type is None else {f.name: f.type for f in data_type.fields}
        return _record_schema(node, types, depth)
    if data_type is not None and data_type.root == "DECIMAL":
        scale = data_type.scale or 0
        if kind != "bytes" or (node.logical == "decimal" and int(node.schema.get("scale", 0)) != scale):
            raise RefusedError("another scale")
        return {"type": "bytes", "logicalType": "decimal", "precision": _DIGITS, "scale": scale}
    if kind in ("string", "bytes"):
        return "bytes"
    if kind == "enum":
        return "int"
    if kind in ("int", "long", "float", "double", "boolean"):
        return kind
    raise RefusedError(kind)


# ---- conversion to columns ----------------------------------------------------------------------------------------


def _converter(node: Node, data_type: LogicalType) -> Convert:
    """For a column, or a field of one. Raises RefusedError."""
    branch = nullable_branch(node)
    if branch is not None:
        return _nullable(_converter(branch[0], data_type), data_type)
    kind = node.kind
    if kind == "record":
        return _row(node, data_type)
    if kind in ("int", "long"):
        return _number(node, data_type)
    if kind == "enum":
        return _enum(node.schema["symbols"], data_type)
    if kind in ("string", "bytes"):
        if not (data_type.is_string or data_type.root in ("BINARY", "VARBINARY", "DECIMAL")):
            raise RefusedError(data_type.root)
        return _decimal(data_type) if data_type.root == "DECIMAL" else lambda series: series.cast(data_type.polars())
    if kind == "boolean":
        return lambda series: series
    return lambda series: series.cast(data_type.polars())


def _nullable(convert: Convert, data_type: LogicalType) -> Convert:
    def read(series: pl.Series) -> pl.Series:
        null_count = series.null_count()
        if not null_count:
            return convert(series)
        if not data_type.nullable:
            raise RefusedError("NULL")
        if null_count == len(series):
            return pl.Series([None], dtype=data_type.polars()).new_from_index(0, len(series))
        not_null = series.is_not_null()
        places = pl.select(pl.when(not_null).then(not_null.cum_sum() - 1)).to_series()
        return convert(series.drop_nulls()).gather(places)

    return read


def _row(node: Node, data_type: LogicalType) -> Convert:
    inner = {f["name"]: node.inner(f["type"]) for f in node.fields}
    parts = {f.name: _converter(inner[f.name], f.type) for f in data_type.fields if f.name in inner}

    def read(series: pl.Series) -> pl.Series:
        columns = [
            parts[f.name](series.struct.field(f.name)).alias(f.name)
            if f.name in parts
            else pl.Series(f.name, [None], dtype=f.type.polars()).new_from_index(0, len(series))
            for f in data_type.fields
        ]
        return pl.DataFrame(columns).to_struct()

    return read


def _number(node: Node, data_type: LogicalType) -> Convert:
    root, dtype = data_type.root, data_type.polars()
    if root in ("FLOAT", "DOUBLE"):
        return lambda series: series.cast(dtype)
    if root == "TIME_WITHOUT_TIME_ZONE":
        unit = 10**3 if node.logical == "time-micros" else 10**6
        return lambda series: (_within(series, 0, _DAY // unit).cast(pl.Int64) * unit).cast(pl.Time)
    if data_type.is_timestamp:
        return _timestamp(timestamp_unit(node.logical), data_type)
    bits = 32 if root == "DATE" else _RANGES.get(root)
    if bits is None:
        raise RefusedError(root)
    limit = 1 << (bits - 1)
    if root == "DATE":
        return lambda series: _within(series, -limit, limit).cast(pl.Int32).cast(dtype)
    return lambda series: series.cast(dtype)  # which refuses numbers that do not fit


def _within(series: pl.Series, least: int, end: int) -> pl.Series:
    """The numbers, if they are from ``least`` up to ``end``. Raises RefusedError."""
    if len(series) and not (int(series.min()) >= least and int(series.max()) < end):  # type: ignore[arg-type] # numbers
        raise RefusedError("a number does not fit")
    return series


def _timestamp(unit: Any, data_type: LogicalType) -> Convert:
    own = data_type.time_unit()
    per_second, own_per_second = _PER_SECOND[unit or own], _PER_SECOND[own]
    if own_per_second > per_second and not is_fine(data_type):
        raise RefusedError("a larger number")  # which might not fit

    def read(series: pl.Series) -> pl.Series:
        values = series.cast(pl.Int64)
        if own_per_second > per_second:
            return of_datetimes(values.cast(pl.Datetime(unit)), data_type)
        return (values // (per_second // own_per_second)).cast(data_type.polars())

    return read


def _decimal(data_type: LogicalType) -> Convert:
    limit = 10 ** (data_type.precision or 10)

    def read(series: pl.Series) -> pl.Series:
        if not series.to_physical().is_between(-limit + 1, limit - 1).all():
            raise RefusedError("a decimal does not fit")
        return series.cast(data_type.polars())

    return read


def _enum(symbols: Sequence[str], data_type: LogicalType) -> Convert:
    if not data_type.is_string:
        raise RefusedError("an enum")
    names = pl.Series(symbols, dtype=pl.String)
    return lambda series: names.gather(_within(series, 0, len(names)))
