"""The vectorised writer of Avro: all rows at once, one column after the other.

A column becomes arrays of bytes, a value for each row: the branch of its union, the length of its text, the text. A row
is what they are when joined. Columns whose values are lists or maps are written by fastavro, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from stateplan.common.types import LogicalType
from stateplan.connectors.formats.avro_schema import Node, nullable_branch, timestamp_unit

Pieces: TypeAlias = list[Any]
"""Arrow arrays of bytes, each with a value for each row."""

Write: TypeAlias = Callable[[pl.Series, Any], Pieces]
"""From a column and where it counts (NumPy's truth values; None for everywhere) to its pieces, which are empty if it
does not count."""

_EMPTY = pa.scalar(b"", pa.large_binary())
_INTS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DATE"})


class NotWrittenError(Exception):
    """A column that this writer does not take."""


def join_pieces(pieces: Pieces, rows: int) -> pl.Series:
    """The bytes of each row."""
    if not pieces:
        return pl.Series([b""] * rows, dtype=pl.Binary)
    column = pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, _EMPTY)
    return pl.Series(pl.from_arrow(column), dtype=pl.Binary)


def constant(value: bytes, rows: int) -> Any:
    """The same bytes for each row."""
    return _fixed_bytes(np.broadcast_to(np.frombuffer(value, np.uint8), (rows, len(value))))


def writer(node: Node, data_type: LogicalType) -> Write:
    """For a column that is written with a schema that fits its type. Raises NotWrittenError."""
    branch = nullable_branch(node)
    if branch is not None:
        return _nullable(writer(branch[0], data_type), branch[1], branch[2])
    if node.kind == "union":
        raise NotWrittenError(str(node))
    return _writer(node, data_type)


def _nullable(inner: Write, value: int, null: int) -> Write:
    # The numbers of branches are 0 and 1, and are written doubled.
    codes = np.array([null * 2, value * 2], np.uint8)

    def write(series: pl.Series, counts: Any) -> Pieces:
        not_null = series.is_not_null().to_numpy()
        mark = codes[not_null.astype(np.int64)][:, None]
        if counts is None:
            marks = _fixed_bytes(mark)
        else:
            marks = _variable(mark, counts.astype(np.int64))
            not_null = not_null & counts
        return [marks, *inner(series, None if not_null.all() else not_null)]

    return write


def _writer(node: Node, data_type: LogicalType) -> Write:
    root, kind = data_type.root, node.kind
    if root in _INTS and kind in ("int", "long"):
        return lambda series, counts: [_longs(_ints(series), counts)]
    if root == "TIME_WITHOUT_TIME_ZONE" and kind == "int":
        return lambda series, counts: [_longs(_ints(series) // 10**6, counts)]
    if data_type.is_timestamp and kind == "long" and timestamp_unit(node.logical) in (None, data_type.time_unit()):
        return lambda series, counts: [_longs(_ints(_narrow(series)), counts)]
    if root in ("FLOAT", "DOUBLE") and kind == ("float" if root == "FLOAT" else "double"):
        return _floats("<f4" if root == "FLOAT" else "<f8")
    if root == "BOOLEAN" and kind == "boolean":
        return lambda series, counts: [_parts(series.fill_null(False).to_numpy().astype(np.uint8)[:, None], counts)]
    if (data_type.is_string and kind == "string") or (root in ("BINARY", "VARBINARY") and kind == "bytes"):
        return _texts
    if root == "DECIMAL" and kind == "bytes":
        return _decimals(data_type.scale or 0)
    if root == "ROW" and kind == "record":
        return _record(node, data_type)
    raise NotWrittenError(str(node))


def _narrow(series: pl.Series) -> pl.Series:
    """Counts in 64 bits. Raises NotWrittenError for those that need more."""
    if series.dtype != pl.Int128:
        return series
    numbers = series.cast(pl.Int64, strict=False)
    if numbers.null_count() > series.null_count():
        raise NotWrittenError("more than 64 bits")
    return numbers


def _record(node: Node, data_type: LogicalType) -> Write:
    types = {f["name"]: f["type"] for f in node.fields}
    if list(types) != [f.name for f in data_type.fields]:
        raise NotWrittenError("another order")
    parts = [(f.name, f.type, writer(node.inner(types[f.name]), f.type)) for f in data_type.fields]

    def write(series: pl.Series, counts: Any) -> Pieces:
        pieces: Pieces = []
        for name, kind, part in parts:
            inner = series.struct.field(name)
            if (
                not kind.nullable
                and inner.filter(pl.Series(counts) if counts is not None else series.is_not_null()).null_count()
            ):
                raise NotWrittenError("NULL")
            pieces += part(inner, counts)
        return pieces

    return write


def _ints(series: pl.Series) -> npt.NDArray[np.int64]:
    return np.asarray(series.to_physical().cast(pl.Int64).fill_null(0).to_numpy())


def _longs(values: npt.NDArray[np.int64], counts: Any) -> Any:
    """Numbers as Avro writes them: zigzag, seven bits a byte, the lowest first."""
    zigzag = (values.view(np.uint64) << np.uint64(1)) ^ (values >> 63).view(np.uint64)
    most = int(zigzag.max()) if len(zigzag) else 0
    width = max((most.bit_length() + 6) // 7, 1)
    parts = np.empty((len(values), width), np.uint8)
    sizes = np.ones(len(values), np.int64)
    rest = zigzag
    for i in range(width):
        parts[:, i] = (rest & np.uint64(0x7F)).astype(np.uint8)
        rest = rest >> np.uint64(7)
        more = rest > 0
        parts[:, i] |= more.astype(np.uint8) << 7
        sizes += more
    if counts is not None:
        sizes[~counts] = 0
    return _variable(parts, sizes)


def _variable(parts: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64]) -> Any:
    """The first ``sizes`` bytes of each row."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = parts[np.arange(parts.shape[1]) < sizes[:, None]]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _fixed_bytes(parts: npt.NDArray[np.uint8]) -> Any:
    """All bytes of each row."""
    offsets = np.arange(len(parts) + 1, dtype=np.int64) * parts.shape[1]
    data = np.ascontiguousarray(parts)
    return pa.Array.from_buffers(pa.large_binary(), len(parts), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _parts(parts: npt.NDArray[np.uint8], counts: Any) -> Any:
    return _fixed_bytes(parts) if counts is None else _variable(parts, counts.astype(np.int64) * parts.shape[1])


def _floats(dtype: str) -> Write:
    def write(series: pl.Series, counts: Any) -> Pieces:
        values = np.ascontiguousarray(series.fill_null(0).to_numpy()).astype(dtype)
        return [_parts(values.view(np.uint8).reshape(len(values), values.itemsize), counts)]

    return write


def _texts(series: pl.Series, counts: Any) -> Pieces:
    data = series.cast(pl.Binary).fill_null(b"")
    if counts is not None:
        data = pl.select(pl.when(pl.Series(counts)).then(data).otherwise(pl.lit(b""))).to_series()
    sizes = data.bin.size().cast(pl.Int64).to_numpy()
    return [_longs(sizes, counts), data.to_arrow().cast(pa.large_binary())]


def _decimals(scale: int) -> Write:
    """As few bytes as it takes, the highest first, as ``BigInteger.toByteArray`` gives them."""

    def write(series: pl.Series, counts: Any) -> Pieces:
        array = series.fill_null(0).to_arrow().cast(pa.decimal128(38, scale))
        words = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, 16)[array.offset : array.offset + len(array)]
        high, rows = words[:, ::-1], np.arange(len(array))
        sign = np.where(high[:, 0] > 0x7F, 0xFF, 0).astype(np.uint8)
        spare = np.cumprod(high[:, :15] == sign[:, None], axis=1).sum(axis=1)
        # The first bit that stays must be the sign's.
        first = high[rows, spare]
        spare = np.where((spare > 0) & ((first > 0x7F) != (sign > 0)), spare - 1, spare)
        sizes = 16 - spare
        digits = high[rows[:, None], np.minimum(spare[:, None] + np.arange(16), 15)]
        if counts is not None:
            sizes[~counts] = 0
        return [_longs(sizes, counts), _variable(digits, sizes)]

    return write
