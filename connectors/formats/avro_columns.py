"""The vectorised reader of Avro: all messages at once, one field after the other.

Every message has a cursor. To read a field is to read it at all cursors and to move them. It takes what tables mostly
have: numbers, text, bytes, times, decimals, enums, nullable values and records of these. Whatever is not plainly good
(lists, maps, other unions, a value that does not fit, damaged bytes) it refuses as a whole, and fastavro reads the
messages one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from stateplan.common.changelog import column
from stateplan.common.types import LogicalType
from stateplan.common.values.nanoseconds import is_fine, of_datetimes
from stateplan.connectors.formats.avro_schema import Node, nullable_branch, timestamp_unit
from stateplan.connectors.formats.base import Fields

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_PAD = 32
_DAY = 86_400_000_000_000
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_RANGES = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_FLOATS = {"float": "<f4", "double": "<f8"}


class RefusedError(Exception):
    """Something that the reader does not take."""


class Cursors:
    """Where each message is read.

    Attributes:
        data: the bytes of all messages, and some more.
        at: the next byte of each.
        end: after its last byte.
    """

    def __init__(self, data: Bytes, at: Ints, end: Ints) -> None:
        self.data = data
        self.at = at
        self.end = end

    @classmethod
    def of(cls, messages: Sequence[bytes], skip: int) -> Cursors:
        """At the byte number ``skip`` of each message."""
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        ends = np.cumsum(sizes)
        data = np.frombuffer(b"".join(messages) + bytes(_PAD), np.uint8)
        return cls(data, ends - sizes + skip, ends)

    def some(self, chosen: Ints) -> Cursors:
        return Cursors(self.data, self.at[chosen], self.end[chosen])

    def moved(self, at: Ints) -> None:
        """Moves all cursors forward. Raises RefusedError, beyond the end of a message."""
        if (at > self.end).any() or (at < self.at).any():
            raise RefusedError("the bytes end too early")
        self.at = at

    def longs(self) -> Ints:
        """A number at each cursor."""
        at = self.at.copy()
        if (at >= self.end).any():
            raise RefusedError("the bytes end too early")
        first = self.data[at]
        value = (first & 0x7F).astype(np.uint64)
        at += 1
        more = np.flatnonzero(first > 0x7F)
        shift = 7
        while len(more):
            if shift > 63 or (at[more] >= self.end[more]).any():
                raise RefusedError("a number is too long")
            byte = self.data[at[more]]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more = more[byte > 0x7F]
            shift += 7
        self.at = at
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)

    def fixed(self, size: int) -> Bytes:
        """As many bytes at each cursor, a row each."""
        at = self.at
        self.moved(at + size)
        found: Bytes = self.data[at[:, None] + np.arange(size)]
        return found

    def slices(self) -> tuple[Ints, Ints]:
        """Where the bytes of a text begin, and how many there are."""
        sizes = self.longs()
        begin = self.at
        if (sizes < 0).any() or (sizes > self.end - begin).any():
            raise RefusedError("the bytes end too early")
        self.at = begin + sizes
        return begin, sizes


Read: TypeAlias = Callable[[Cursors], "pl.Series | None"]
"""Reads a value at all cursors and moves them; None for one that is only skipped."""


def frame_reader(found: Node, fields: Fields) -> Callable[[Sequence[bytes], int], pl.DataFrame] | None:
    """Reads messages with a record, or a nullable one, of a schema that fits the columns.

    Args:
        found: the schema that they were written with.
        fields: name and type of the columns.

    Returns:
        From messages, and the bytes to leave out of each, to the frame ``c0, ...``; it raises RefusedError. None for a
        schema that it does not take.
    """
    branch = nullable_branch(found)
    record = branch[0] if branch is not None else found
    wanted = dict(fields)
    if record.kind != "record" or len(wanted) != len(fields):
        return None
    try:
        parts = [(f["name"], _reader(record.inner(f["type"]), wanted.get(f["name"]))) for f in record.fields]
    except RefusedError:
        return None
    there = {name for name, _ in parts}

    def read(messages: Sequence[bytes], skip: int) -> pl.DataFrame:
        cursors = Cursors.of(messages, skip)
        if branch is not None and (cursors.longs() != branch[1]).any():
            raise RefusedError("null")
        made = {name: part(cursors) for name, part in parts}
        columns = []
        for i, (name, declared) in enumerate(fields):
            series = (
                made[name]
                if name in there
                else pl.Series([None], dtype=declared.polars()).new_from_index(0, len(messages))
            )
            assert series is not None
            columns.append(series.alias(column(i)))
        return pl.DataFrame(columns) if columns else pl.DataFrame(height=len(messages))

    return read


def _reader(node: Node, declared: LogicalType | None) -> Read:
    """For a field that is a column of a type, or that is skipped. Raises RefusedError."""
    branch = nullable_branch(node)
    if branch is not None:
        return _nullable(_reader(branch[0], declared), branch[1], branch[2], declared)
    kind = node.kind
    if kind == "record":
        return _record(node, declared)
    if kind in ("int", "long"):
        return _number(node, declared)
    if kind in _FLOATS:
        return _float(_FLOATS[kind], declared)
    if kind == "boolean":
        return _boolean
    if kind in ("string", "bytes"):
        return _slice(node, declared)
    if kind == "enum":
        return _enum(node.schema["symbols"], declared)
    if kind == "fixed" and (declared is None or declared.root in ("BINARY", "VARBINARY")):
        return _fixed(node.schema["size"])
    raise RefusedError(kind)


def _nullable(inner: Read, value: int, null: int, declared: LogicalType | None) -> Read:
    def read(cursors: Cursors) -> pl.Series | None:
        branch = cursors.longs()
        there = branch == value
        if there.all():
            return inner(cursors)
        if not (there | (branch == null)).all() or (declared is not None and not declared.nullable):
            raise RefusedError("a branch")
        chosen = np.flatnonzero(there)
        some = cursors.some(chosen)
        found = inner(some) if len(chosen) else None
        cursors.at[chosen] = some.at
        if declared is None:
            return None
        if found is None:
            return pl.Series([None], dtype=declared.polars()).new_from_index(0, len(there))
        spread = found.gather(np.maximum(np.cumsum(there) - 1, 0))
        return pl.select(pl.when(pl.Series(there)).then(spread)).to_series()

    return read


def _record(node: Node, declared: LogicalType | None) -> Read:
    if declared is not None and declared.root != "ROW":
        raise RefusedError("a record")
    wanted = {} if declared is None else {f.name: f.type for f in declared.fields}
    parts = [(f["name"], _reader(node.inner(f["type"]), wanted.get(f["name"]))) for f in node.fields]

    def read(cursors: Cursors) -> pl.Series | None:
        made = {name: part(cursors) for name, part in parts}
        if declared is None:
            return None
        empty = len(cursors.at)
        columns = [
            found.alias(name)
            if (found := made.get(name)) is not None
            else pl.Series(name, [None], dtype=kind.polars()).new_from_index(0, empty)
            for name, kind in wanted.items()
        ]
        return pl.DataFrame(columns).to_struct()

    return read


def _number(node: Node, declared: LogicalType | None) -> Read:
    if declared is None:

        def skip(cursors: Cursors) -> None:
            cursors.longs()

        return skip
    root, dtype = declared.root, declared.polars()
    if root in ("FLOAT", "DOUBLE"):
        return lambda cursors: pl.Series(cursors.longs().astype(np.float32 if root == "FLOAT" else np.float64))
    if root == "TIME_WITHOUT_TIME_ZONE":
        return _time(10**3 if node.logical == "time-micros" else 10**6)
    if declared.is_timestamp:
        return _timestamp(timestamp_unit(node.logical), declared)
    bits = 32 if root == "DATE" else _RANGES.get(root)
    if bits is None:
        raise RefusedError(root)
    limit = 1 << (bits - 1)

    def read(cursors: Cursors) -> pl.Series:
        values = cursors.longs()
        if bits < 64 and len(values) and not (-limit <= values.min() and values.max() < limit):
            raise RefusedError("a number does not fit")
        return pl.Series(values.astype(f"i{bits // 8}")).cast(dtype)

    return read


def _time(unit: int) -> Read:
    def read(cursors: Cursors) -> pl.Series:
        values = cursors.longs()
        if len(values) and not (values.min() >= 0 and values.max() < _DAY // unit):
            raise RefusedError("a time does not fit")
        return pl.Series(values * unit).cast(pl.Time)

    return read


def _timestamp(unit: Any, declared: LogicalType) -> Read:
    own = declared.time_unit()
    per, wanted = _PER_SECOND[unit or own], _PER_SECOND[own]
    if wanted > per and not is_fine(declared):
        raise RefusedError("a larger number")  # which might not fit

    def read(cursors: Cursors) -> pl.Series:
        values = cursors.longs()
        if wanted > per:
            return of_datetimes(pl.Series(values).cast(pl.Datetime(unit)), declared)
        return pl.Series(values if per == wanted else values // (per // wanted)).cast(declared.polars())

    return read


def _float(dtype: str, declared: LogicalType | None) -> Read:
    size = int(dtype[-1])

    def read(cursors: Cursors) -> pl.Series | None:
        data = cursors.fixed(size)
        if declared is None:
            return None
        return pl.Series(np.ascontiguousarray(data).view(dtype).reshape(-1)).cast(declared.polars())

    return read


def _boolean(cursors: Cursors) -> pl.Series:
    values = cursors.fixed(1)[:, 0]
    if (values > 1).any():
        raise RefusedError("a truth value")
    return pl.Series(values == 1)


def _slice(node: Node, declared: LogicalType | None) -> Read:
    if declared is None:

        def skip(cursors: Cursors) -> None:
            cursors.slices()

        return skip
    if declared.root == "DECIMAL":
        return _decimal(node, declared)
    if not declared.is_string and declared.root not in ("BINARY", "VARBINARY"):
        raise RefusedError(declared.root)
    text = declared.is_string

    def read(cursors: Cursors) -> pl.Series:
        begin, sizes = cursors.slices()
        found = pl.Series(pl.from_arrow(_gathered(cursors.data, begin, sizes)), dtype=pl.Binary)
        try:
            return found.cast(pl.String) if text else found
        except pl.exceptions.PolarsError as error:
            raise RefusedError("not UTF-8") from error

    return read


def _gathered(data: Bytes, begin: Ints, sizes: Ints) -> Any:
    """Slices of the bytes as an Arrow array."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    where = np.repeat(begin - offsets[:-1], sizes) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data[where]))]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def _decimal(node: Node, declared: LogicalType) -> Read:
    precision, scale = declared.precision or 10, declared.scale or 0
    if node.kind != "bytes" or (node.logical == "decimal" and int(node.schema.get("scale", 0)) != scale):
        raise RefusedError("another scale")

    def read(cursors: Cursors) -> pl.Series:
        begin, sizes = cursors.slices()
        if len(sizes) and not (sizes.min() > 0 and sizes.max() <= 16):
            raise RefusedError("a decimal")
        where = (begin + sizes)[:, None] - 1 - np.arange(16)
        filled = where >= begin[:, None]
        sign = np.where(cursors.data[begin] > 0x7F, 0xFF, 0).astype(np.uint8)
        whole = np.where(filled, cursors.data[np.maximum(where, 0)], sign[:, None])
        buffers = [None, pa.py_buffer(np.ascontiguousarray(whole))]
        found = pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.decimal128(38, 0), len(sizes), buffers)))
        limit = 10**precision
        if not found.is_between(-limit + 1, limit - 1).all():
            raise RefusedError("a decimal does not fit")
        typed = pa.Array.from_buffers(pa.decimal128(precision, scale), len(sizes), buffers)
        return pl.Series(pl.from_arrow(typed)).cast(declared.polars())

    return read


def _enum(symbols: Sequence[str], declared: LogicalType | None) -> Read:
    if declared is not None and not declared.is_string:
        raise RefusedError("an enum")
    names = pl.Series(symbols, dtype=pl.String)

    def read(cursors: Cursors) -> pl.Series:
        values = cursors.longs()
        if len(values) and not (values.min() >= 0 and values.max() < len(names)):
            raise RefusedError("an enum")
        return names.gather(values)

    return read


def _fixed(size: int) -> Read:
    def read(cursors: Cursors) -> pl.Series:
        begin = cursors.at
        cursors.moved(begin + size)
        return pl.Series(pl.from_arrow(_gathered(cursors.data, begin, np.full(len(begin), size))), dtype=pl.Binary)

    return read
