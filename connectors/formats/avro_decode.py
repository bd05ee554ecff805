"""Avro data to frames: messages with one value each, container files, messages with the id of their schema.

fastavro reads values with the schema that they were written with, without its logical types. What the columns make of
them is decided once per schema (:mod:`connectors.formats.avro_values`).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.changelog import KIND, column, columns
from stateplan.common.errors import DataError, Place
from stateplan.common.files import open_input
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import shorten
from stateplan.common.types import LogicalType
from stateplan.common.values.fields import build_series
from stateplan.connectors.extras import require
from stateplan.connectors.formats.avro_container import RefusedError, frame_reader
from stateplan.connectors.formats.avro_files import ContainerError, blocks, write_long
from stateplan.connectors.formats.avro_json import decoded
from stateplan.connectors.formats.avro_schema import (
    Names,
    Node,
    Schema,
    event_type,
    named_schemas,
    plain_schema,
    schema_text,
)
from stateplan.connectors.formats.avro_values import MisfitError, SchemaMismatchError, field_reader
from stateplan.connectors.formats.base import Fields, FileColumns, countable, frame_of
from stateplan.connectors.formats.change_events import changes_of
from stateplan.connectors.formats.json_rows import excerpt
from stateplan.connectors.formats.schema_registry import Registry

Messages = tuple[pl.DataFrame, npt.NDArray[np.int64]]
PlaceOf = Callable[[int], Place]
"""From the position of a value to its place."""

_ROWS = 100_000


class DatumReader:
    """Values of one schema.

    Args:
        schema: the schema that they were written with.
        before: schemas that it refers to, in the order in which they build on each other.
        user: the format, for messages.
        place: of what was written with it.

    Raises:
        DataError: DATA461, when it is not a schema; OptionError: OPT122.
    """

    def __init__(self, schema: Schema, before: Sequence[Schema], user: str, place: Place | None = None) -> None:
        require("avro", "fastavro", f"the format '{user}'")
        from fastavro import schemaless_reader

        self._read = schemaless_reader
        self.text = schema_text(schema)
        try:
            self._prepare(schema, before)
        except Exception as error:  # a schema of somebody else, in a library of somebody else
            reason = (str(error).partition("\n")[0] or type(error).__name__)[:200]
            raise DataError("DATA461.not_a_row", found=f"not an Avro schema: {reason}", place=place) from error

    def _prepare(self, schema: Schema, before: Sequence[Schema]) -> None:
        from fastavro.schema import parse_schema

        names: Names = {}
        for one in (*before, schema):
            named_schemas(one, names)
        self.node = Node(schema, names)
        schemas_by_name: dict[str, Any] = {}
        for one in before:
            parse_schema(plain_schema(one), named_schemas=schemas_by_name)
        self.parsed_schema = parse_schema(plain_schema(schema), named_schemas=schemas_by_name)
        self._many = None if before else parse_schema({"type": "array", "items": plain_schema(schema)})

    def values(self, data: Sequence[bytes], skip: int, place_of: PlaceOf) -> list[Any]:
        """The value of each message, after ``skip`` bytes. Raises DataError DATA460."""
        read, schema, stream = self._read, self.parsed_schema, io.BytesIO
        out: list[Any] = []
        try:
            if not skip:
                out.extend(read(stream(message), schema) for message in data)
            else:
                out.extend(read(stream(message[skip:]), schema) for message in data)
        except Exception as error:  # a library reads bytes of any kind
            raise self.bad("message", error, place_of(len(out))) from error
        return out

    def block(self, count: int, data: bytes, place: Place) -> list[Any]:
        """The values of a block of a file. Raises DataError DATA460."""
        stream = io.BytesIO(data)
        out: list[Any] = []
        try:
            if self._many is not None:
                out = self._read(io.BytesIO(write_long(count) + data + b"\0"), self._many)
            else:
                out.extend(self._read(stream, self.parsed_schema) for _ in range(count))
        except Exception as error:  # the same
            raise self.bad("file", error, place) from error
        return out

    def bad(self, problem: str, error: Exception, place: Place) -> DataError:
        return DataError("DATA460", what=problem, reason=reason_of(error), schema=shorten(self.text, 300), place=place)


def reason_of(error: Exception) -> str:
    """What is wrong with bytes, of an error of the library."""
    if isinstance(error, EOFError):
        return "the bytes end too early"
    if isinstance(error, UnicodeDecodeError):
        return f"a text is not UTF-8 (byte 0x{error.object[error.start]:02x})"
    if isinstance(error, IndexError):
        return "the number of a branch of a union is too large"
    return (str(error).partition("\n")[0] or type(error).__name__)[:200]


@dataclass(frozen=True)
class _Column:
    """A column: the field of a record it is made of, what stands for a field that is not there, and how."""

    name: str
    declared_type: LogicalType
    default: Any
    convert: Callable[[Any], Any]


class RowReader:
    """Records of one schema to columns.

    Args:
        node: the schema that the records were written with; of a union the record in it.
        fields: name and type of the columns.
        reader_node: the schema that a user wrote; None for none.

    Raises:
        DataError: DATA461, when the schema does not fit; ``place`` of what was written with it.
    """

    def __init__(self, node: Node, fields: Fields, reader_node: Node | None, place: Place) -> None:
        record = next((branch for branch in node.branches if branch.kind == "record"), None)
        if record is None:
            raise DataError("DATA461.not_a_row", found=node, place=place)
        self.columns = []
        for name, data_type in fields:
            try:
                default, convert = field_reader(record, name, data_type, reader_node)
            except SchemaMismatchError as error:
                if error.missing_field is not None:
                    raise DataError("DATA461.missing", name=_path(name, error.missing_field), place=place) from error
                at = "" if error.declared_type == data_type else f" (in {data_type.summary()})"
                raise DataError(
                    "DATA461", name=name, declared=error.declared_type.summary() + at, found=error.node, place=place
                ) from error
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise DataError(
                    "DATA461.not_a_row", found=f"not an Avro schema: {str(error)[:200]}", place=place
                ) from error
            self.columns.append(_Column(name, data_type, default, convert))
        self._fast = frame_reader(node, fields) if reader_node is None else None

    def messages(self, datum: DatumReader, data: Sequence[bytes], skip: int, place_of: PlaceOf) -> pl.DataFrame:
        """The rows ``c0, ...`` of messages, whose values begin after ``skip`` bytes.

        Raises:
            DataError: DATA460, DATA462.
        """
        if self._fast is not None:
            try:
                return self._fast(data, skip)
            except RefusedError:
                pass
        return self.frame(datum.values(data, skip, place_of), place_of)

    def frame(self, records: list[dict[str, Any]], place_of: PlaceOf) -> pl.DataFrame:
        """The same of records. Raises DataError DATA460, DATA462."""
        other = next((i for i, record in enumerate(records) if not isinstance(record, dict)), None)
        if other is not None:
            raise DataError("DATA460.record", place=place_of(other))
        series = [self._series(column(i), records, c, place_of) for i, c in enumerate(self.columns)]
        return pl.DataFrame(series) if series else pl.DataFrame(height=len(records))

    def _series(self, name: str, records: list[dict[str, Any]], col: _Column, place_of: PlaceOf) -> pl.Series:
        convert, key, default = col.convert, col.name, col.default
        try:
            values = [convert(record.get(key, default)) for record in records]
            return build_series(name, values, col.declared_type)
        except (MisfitError, TypeError, OverflowError, pl.exceptions.PolarsError) as error:
            for i, record in enumerate(records):
                value = record.get(key, default)
                try:
                    build_series(name, [convert(value)], col.declared_type)
                except (MisfitError, TypeError, OverflowError, pl.exceptions.PolarsError):
                    raise misfit(value, key, col.declared_type, place_of(i)) from error
            raise


def _path(name: str, inner: str) -> str:
    return name if name == inner else f"{name}.{inner}"


def misfit(value: Any, name: str, data_type: LogicalType, place: Place | None) -> DataError:
    """DATA462 for a value that a column does not hold."""
    value_text = "NULL" if value is None else excerpt(value, 80) if isinstance(value, bytes) else str(value)
    return DataError("DATA462", value=shorten(value_text, 80), name=name, declared=data_type.summary(), place=place)


@dataclass
class AvroDecoder(FrozenDataclass):
    """Decoder of the ``avro`` format; see :class:`connectors.formats.base.Decoder` and
    :class:`connectors.formats.base.MessageDecoder`.

    Attributes:
        fields: name and type of the columns to read.
        metadata: keys of metadata of files.
        schema: the schema of messages, which have none with them.
        as_json: whether messages are in Avro's JSON encoding.
    """

    fields: Fields
    metadata: tuple[str, ...]
    schema: Schema
    as_json: bool = False

    @cached_property
    def _datum(self) -> DatumReader:
        return DatumReader(self.schema, (), "avro")

    @cached_property
    def _rows(self) -> RowReader:
        return RowReader(self._datum.node, self.fields, None, Place())

    def messages(self, data: Sequence[bytes | None]) -> Messages:
        """The rows of some messages. What follows the value in a message does not count, as in Flink."""
        present = np.fromiter((i for i, message in enumerate(data) if message is not None), np.int64)
        some = [message for message in data if message is not None]

        def place_of(i: int) -> Place:
            return Place(line=int(present[i]) + 1)

        if not some:
            return countable(frame_of([], self.fields)), present
        if self.as_json:
            return countable(self._rows.frame(json_values(self._datum, some, place_of), place_of)), present
        return countable(self._rows.messages(self._datum, some, 0, place_of)), present

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file."""
        place = Place(file=path)
        try:
            with open_input(path) as stream:
                yield from self._read(stream, path, place)
        except ContainerError as error:
            raise DataError("DATA468", reason=str(error), place=place) from error

    def _read(self, stream: Any, path: str, place: Place) -> Iterator[pl.DataFrame]:
        of_file = FileColumns(path, self.metadata)
        rows: RowReader | None = None
        datum: DatumReader | None = None
        records: list[Any] = []
        for schema, count, data in blocks(stream):
            if datum is None or rows is None:
                datum = DatumReader(schema, (), "avro", place)
                rows = RowReader(datum.node, self.fields, None, place)
            records += datum.block(count, data, place)
            if len(records) >= _ROWS:
                yield self._framed(rows, records, of_file, place)
                records = []
        if records and rows is not None:
            yield self._framed(rows, records, of_file, place)

    def _framed(self, rows: RowReader, records: list[Any], of_file: FileColumns, place: Place) -> pl.DataFrame:
        return countable(of_file.behind(rows.frame(records, lambda _: place), len(self.fields)))


def json_values(datum: DatumReader, data: list[bytes], place_of: PlaceOf) -> list[Any]:
    """The values of messages in Avro's JSON encoding. Raises DataError DATA460."""
    out: list[Any] = []
    try:
        out.extend(decoded(datum.node, message) for message in data)
    except ValueError as error:
        raise datum.bad("message", error, place_of(len(out))) from error
    return out


# ---- with a schema registry ------------------------------------------------------------------------------------


@dataclass
class RegistryDecoder(FrozenDataclass):
    """Decoder of ``avro-confluent``: each message says which schema it was written with.

    Attributes:
        fields: name and type of the columns to read.
        registry: the registry that has the schemas.
        reader_schema: the schema that a user wrote for the table; None for none.
        user: the format, for messages.
    """

    fields: Fields
    registry: Registry
    reader_schema: Schema | None
    user: str
    _readers_by_id: dict[int, tuple[DatumReader, RowReader]] = field(default_factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_readers_by_id": {}}

    def messages(self, data: Sequence[bytes | None]) -> Messages:
        """The rows of some messages."""
        present = np.fromiter((i for i, message in enumerate(data) if message is not None), np.int64)
        some = [message for message in data if message is not None]
        frames, places = [], []
        for number, numbers in self._by_schema(some, present):
            at = present[numbers]

            def place_of(i: int, at: npt.NDArray[np.int64] = at) -> Place:
                return Place(line=int(at[i]) + 1)

            datum, rows = self._readers(number, self.fields, place_of(0))
            data_of = some if len(numbers) == len(some) else [some[i] for i in numbers.tolist()]
            frames.append(countable(rows.messages(datum, data_of, 5, place_of)))
            places.append(at)
        if not frames:
            return countable(frame_of([], self.fields)), present[:0]
        if len(frames) == 1:
            return frames[0], places[0]
        positions = np.concatenate(places)
        order = np.argsort(positions)
        return pl.concat(frames)[order], positions[order]

    @staticmethod
    def _by_schema(data: list[bytes], present: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """The ids of schemas, and the positions of the messages of each. Raises DataError DATA463."""
        heads = [message[:5] for message in data]
        kinds = {head: i for i, head in enumerate(dict.fromkeys(heads))}
        of_each = np.fromiter((kinds[head] for head in heads), np.int64, len(heads))
        for head, i in kinds.items():
            numbers = np.flatnonzero(of_each == i)
            first = data[int(numbers[0])]
            yield schema_id(first if len(head) == 5 else head, Place(line=int(present[numbers[0]]) + 1)), numbers

    def _readers(self, number: int, fields: Fields, place: Place) -> tuple[DatumReader, RowReader]:
        if number not in self._readers_by_id:
            datum = DatumReader(*self.registry.schema(number, place), self.user, place)
            own = (
                None
                if self.reader_schema is None
                else Node(self.reader_schema, named_schemas(self.reader_schema, {})).branches[-1]
            )
            self._readers_by_id[number] = datum, RowReader(datum.node, fields, own, place)
        return self._readers_by_id[number]


def schema_id(message: bytes, place: Place | None) -> int:
    """The id at the beginning of a message. Raises DataError DATA463."""
    if len(message) < 5 or message[0] != 0:
        reason = f"it has {len(message)} bytes" if len(message) < 5 else f"it begins with the byte 0x{message[0]:02x}"
        raise DataError("DATA463", reason=reason, place=place)
    return int(struct.unpack_from(">I", message, 1)[0])


_OPS = {"c": "INSERT", "r": "READ", "u": "UPDATE", "d": "DELETE"}


@dataclass
class EventDecoder(FrozenDataclass):
    """Decoder of ``debezium-avro-confluent``. A message without a value, or of no bytes, is skipped.

    Attributes:
        inner: reads the events.
        width: number of columns to read.
    """

    inner: RegistryDecoder
    width: int

    def messages(self, data: Sequence[bytes | None]) -> Messages:
        """The changes of some messages, with ``kind``."""
        events, places = self.inner.messages([message or None for message in data])
        if KIND in events.columns:
            events = events.drop(KIND)
        self._check(events, places)
        before, after, op = events.get_columns()
        update, delete = (op == "u").to_numpy(), (op == "d").to_numpy()
        rows, origin = changes_of(before.struct.unnest(), after.struct.unnest(), update, delete)
        return rows.select(*columns(self.width), KIND), places[origin]

    def _check(self, events: pl.DataFrame, places: npt.NDArray[np.int64]) -> None:
        before, after, op = events.get_columns()
        needs_before, needs_after = op.is_in(["u", "d"]), op.is_in(["c", "r", "u"])
        good = op.is_in(list(_OPS)) & ~(needs_before & before.is_null()) & ~(needs_after & after.is_null())
        if good.fill_null(False).all():
            return
        i = int(np.flatnonzero(~good.fill_null(False).to_numpy())[0])
        kind = op[i]
        if kind not in _OPS:
            reason = 'there is no "op"' if kind is None else f'unknown "op" value "{str(kind)[:80]}"'
        else:
            lacks = "before" if needs_before[i] and before[i] is None else "after"
            reason = f'the "{lacks}" field of the {_OPS[kind]} event is null'
        raise DataError("DATA470", reason=reason, place=Place(line=int(places[i]) + 1))


def event_fields(columns: Fields) -> Fields:
    """The fields of events whose rows have these columns."""
    return [(f.name, f.type) for f in event_type(columns).fields]
