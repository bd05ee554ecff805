"""Frames to Avro data: messages with one value each, container files, messages with the id of their schema.

Columns of numbers, texts, times and records of these are written all at once
(:mod:`connectors.formats.avro_pieces`), lists and maps one by one by fastavro.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import polars as pl

from stateplan.common.changelog import KIND, column
from stateplan.common.errors import DataError
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import shorten
from stateplan.common.types import LogicalType
from stateplan.common.values.fields import raw_dtype
from stateplan.connectors.extras import require
from stateplan.connectors.formats import avro_pieces
from stateplan.connectors.formats.avro_files import container_file
from stateplan.connectors.formats.avro_json import encoded
from stateplan.connectors.formats.avro_schema import Node, Schema, named_schemas, nullable_branch, standalone
from stateplan.connectors.formats.avro_values import MisfitError, writer
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.formats.schema_registry import Registry


class RowWriter:
    """Rows of a table as records of a schema.

    Args:
        node: the schema of the record, which fits the table.
        fields: name and type of the columns.
        user: the format, for messages.
    """

    def __init__(self, node: Node, fields: Fields, user: str) -> None:
        require("avro", "fastavro", f"the format '{user}'")
        self.fields = fields
        types = {field["name"]: field["type"] for field in node.fields}
        self._nodes = [node.inner(types[name]) for name, _ in fields]
        self._converters = [writer(n, data_type) for n, (_, data_type) in zip(self._nodes, fields, strict=True)]
        self._fast = [_fast(n, data_type) for n, (_, data_type) in zip(self._nodes, fields, strict=True)]

    def records(self, df: pl.DataFrame) -> list[dict[str, Any]]:
        """The records of rows, as fastavro takes them. Raises DataError DATA471."""
        names = [name for name, _ in self.fields]
        data = [self._values(df[column(i)], i) for i in range(len(self.fields))]
        if not data:
            return [{} for _ in range(df.height)]
        return [dict(zip(names, row, strict=True)) for row in zip(*data, strict=True)]

    def pieces(self, df: pl.DataFrame) -> avro_pieces.Pieces:
        """The bytes of rows, which are the same when they are joined. Raises DataError DATA471."""
        pieces: avro_pieces.Pieces = []
        if not df.height:
            return pieces
        for i, fast in enumerate(self._fast):
            self._check(df[column(i)], i)
            try:
                pieces += self._slow(df[column(i)], i) if fast is None else fast(df[column(i)], None)
            except avro_pieces.NotWrittenError:
                pieces += self._slow(df[column(i)], i)
        return pieces

    def _check(self, series: pl.Series, i: int) -> None:
        name, data_type = self.fields[i]
        if not data_type.nullable and data_type.root != "NULL" and series.null_count():
            raise cannot(None, name, "the column is NOT NULL")

    def _values(self, series: pl.Series, i: int) -> list[Any]:
        self._check(series, i)
        (name, data_type), convert = self.fields[i], self._converters[i]
        values = series.cast(raw_dtype(data_type)).to_list()
        if convert is None:
            return values
        out = []
        for value in values:
            try:
                out.append(None if value is None else convert(value))
            except MisfitError as error:
                raise cannot(value, name, f"the schema has no such value ({error})") from error
        return out

    def _slow(self, series: pl.Series, i: int) -> avro_pieces.Pieces:
        data = datums(standalone(self._nodes[i]), self._values(series, i))
        return [pl.Series(data, dtype=pl.Binary).to_arrow().cast("large_binary")]


def _fast(node: Node, data_type: LogicalType) -> avro_pieces.Write | None:
    try:
        return avro_pieces.writer(node, data_type)
    except avro_pieces.NotWrittenError:
        return None


def datums(schema: Schema, values: Sequence[Any]) -> list[bytes]:
    """The bytes of values of a schema without logical types, one by one."""
    from fastavro import schemaless_writer
    from fastavro.schema import parse_schema

    parsed_schema, out = parse_schema(schema), []
    for value in values:
        stream = io.BytesIO()
        schemaless_writer(stream, parsed_schema, value)
        out.append(stream.getvalue())
    return out


def record_of(schema: Schema) -> Node:
    """The record of a schema, or of a nullable one."""
    node = Node(schema, named_schemas(schema, {}))
    return next(branch for branch in node.branches if branch.kind == "record")


def cannot(value: Any, name: str, reason: str) -> DataError:
    """DATA471 for a value."""
    value_text = "NULL" if value is None else shorten(str(value), 80)
    return DataError("DATA471", value=value_text, name=name, reason=reason)


@dataclass
class AvroEncoder(FrozenDataclass):
    """Encoder of the ``avro`` format; see :class:`connectors.formats.base.Encoder` and
    :class:`connectors.formats.base.MessageEncoder`.

    Attributes:
        fields: name and type of the columns.
        schema: the schema of the table.
        codec: of files.
        as_json: whether messages are in Avro's JSON encoding.
    """

    fields: Fields
    schema: Schema
    codec: str = "null"
    as_json: bool = False

    @cached_property
    def _node(self) -> Node:
        return record_of(self.schema)

    @cached_property
    def _rows(self) -> RowWriter:
        return RowWriter(self._node, self.fields, "avro")

    def messages(self, df: pl.DataFrame) -> pl.Series:
        """A message for each row."""
        if self.as_json:
            return pl.Series([encoded(self._node, r) for r in self._rows.records(df)], dtype=pl.Binary)
        return avro_pieces.join_pieces(self._rows.pieces(df), df.height)

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file."""
        values = avro_pieces.join_pieces(self._rows.pieces(df), df.height).to_list()
        return container_file(self.schema, self.codec, values)


@dataclass
class RegistryEncoder(FrozenDataclass):
    """Encoder of ``avro-confluent``. The schema is registered before the first message, by each process.

    Attributes:
        fields: name and type of the columns.
        registry: where the schema is registered.
        subject: under which.
        schema: the schema of the table.
        user: the format, for messages.
    """

    fields: Fields
    registry: Registry
    subject: str
    schema: Schema
    user: str

    @cached_property
    def _rows(self) -> RowWriter:
        return RowWriter(record_of(self.schema), self.fields, self.user)

    def head(self) -> bytes:
        """What is before each value. Raises DataError DATA465 to DATA467."""
        return b"\0" + struct.pack(">I", self.registry.register(self.subject, self.schema))

    def messages(self, df: pl.DataFrame) -> pl.Series:
        """A message for each row."""
        if not df.height:
            return pl.Series([], dtype=pl.Binary)
        pieces = self._rows.pieces(df)
        return avro_pieces.join_pieces([avro_pieces.constant(self.head(), df.height), *pieces], df.height)


@dataclass
class EventEncoder(RegistryEncoder):
    """Encoder of ``debezium-avro-confluent``: +I and +U become an event that adds a row, -U and -D one that deletes
    it."""

    def messages(self, df: pl.DataFrame) -> pl.Series:
        """A message for each row."""
        kinds = df[KIND] if KIND in df.columns else pl.zeros(df.height, pl.Int8, eager=True)
        is_delete = kinds.is_in([1, 3])
        if is_delete.any() and not is_delete.all():
            parts = [self._alike(df.filter(is_delete), True), self._alike(df.filter(~is_delete), False)]
            order = pl.concat([is_delete.arg_true(), (~is_delete).arg_true()]).arg_sort()
            return pl.concat(parts).gather(order)
        return self._alike(df, bool(is_delete.any()))

    def _alike(self, df: pl.DataFrame, is_delete: bool) -> pl.Series:
        if not df.height:
            return pl.Series([], dtype=pl.Binary)
        before, after, rows = self._around[is_delete]
        pieces = rows.pieces(df)
        start, end = (avro_pieces.constant(text, df.height) for text in (self.head() + before, after))
        return avro_pieces.join_pieces([start, *pieces, end], df.height)

    @cached_property
    def _around(self) -> dict[bool, tuple[bytes, bytes, RowWriter]]:
        """For rows that are added, and for those that are gone: what is before and after the row, and its writer."""
        require("avro", "fastavro", f"the format '{self.user}'")
        event = record_of(self.schema)
        top = _branch(Node(self.schema, named_schemas(self.schema, {})), True)
        nodes = {f["name"]: event.inner(f["type"]) for f in event.fields}
        parts = {}
        for is_delete, own, op in ((False, "after", "c"), (True, "before", "d")):
            node = next(branch for branch in nodes[own].branches if branch.kind == "record")
            end = datums(standalone(nodes["op"]), [op])[0]
            mark = _branch(nodes[own], True)
            if is_delete:
                texts = top + mark, _branch(nodes["after"], False) + end
            else:
                texts = top + _branch(nodes["before"], False) + mark, end
            parts[is_delete] = (*texts, RowWriter(node, self.fields, self.user))
        return parts


def _branch(node: Node, value: bool) -> bytes:
    """The number of the branch of a value, or of null, in a nullable schema."""
    branch = nullable_branch(node)
    if branch is None:
        return b""
    _, own, null = branch
    return bytes([2 * (own if value else null)])
