"""Arrow data as columns of SQL types, and columns as Arrow data.

A timestamp without a zone is TIMESTAMP and one with a zone is TIMESTAMP_LTZ, each way. What Arrow has and SQL does not
(unsigned and 16-bit floating-point numbers, dictionaries, views, fixed sizes) becomes the smallest SQL type that holds
all its values. Source of the types: PyFlink's ``from_arrow_type`` and ``to_arrow_type``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from stateplan.common.changelog import column
from stateplan.common.errors import DataError, StateplanError
from stateplan.common.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_LENGTH,
    SMALLINT,
    STRING,
    TINYINT,
    LogicalType,
    row_type,
)
from stateplan.common.values.nanoseconds import is_fine, of_datetimes, portable, to_datetime

if TYPE_CHECKING:
    import pandas as pd

ArrowType: TypeAlias = Any
"""A ``pyarrow.DataType``."""

_CHUNK = 1 << 17
"""Rows that are converted to Arrow at a time, so that texts stay below the 2 GiB of an Arrow array."""

_BYTES = LogicalType("VARBINARY", length=MAX_LENGTH)
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_PLAIN: dict[str, LogicalType] = {
    "bool": BOOLEAN,
    "int8": TINYINT,
    "int16": SMALLINT,
    "int32": INT,
    "int64": BIGINT,
    "uint8": SMALLINT,
    "uint16": INT,
    "uint32": BIGINT,
    "uint64": LogicalType("DECIMAL", precision=20, scale=0),
    "halffloat": FLOAT,
    "float": FLOAT,
    "double": DOUBLE,
    "date32[day]": DATE,
    "date64[ms]": DATE,
    **dict.fromkeys(("string", "large_string", "string_view"), STRING),
    **dict.fromkeys(("binary", "large_binary", "binary_view"), _BYTES),
}
"""Arrow types that are one word."""


def logical_type(source_type: ArrowType, nullable: bool = True) -> LogicalType | None:
    """The SQL type that holds all values of an Arrow type; None if there is none."""
    data_type = _logical_type(source_type)
    return None if data_type is None else data_type.as_nullable(nullable)


def _logical_type(source_type: ArrowType) -> LogicalType | None:
    types = pa.types
    if str(source_type) in _PLAIN:
        return _PLAIN[str(source_type)]
    if types.is_fixed_size_binary(source_type):
        return LogicalType("BINARY", length=source_type.byte_width) if source_type.byte_width else None
    if types.is_decimal(source_type):
        fits = 1 <= source_type.precision <= 38 and 0 <= source_type.scale <= source_type.precision
        return LogicalType("DECIMAL", precision=source_type.precision, scale=source_type.scale) if fits else None
    if types.is_time(source_type):
        return LogicalType("TIME_WITHOUT_TIME_ZONE", precision=_DIGITS[source_type.unit])
    if types.is_timestamp(source_type):
        root = "TIMESTAMP_WITHOUT_TIME_ZONE" if source_type.tz is None else "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        return LogicalType(root, precision=_DIGITS[source_type.unit])
    if types.is_duration(source_type):
        return LogicalType("INTERVAL_DAY_TIME", resolution="DAY(6) TO SECOND(3)")
    if types.is_dictionary(source_type) or types.is_run_end_encoded(source_type):
        return _logical_type(source_type.value_type)
    if types.is_map(source_type):
        key = logical_type(source_type.key_type, nullable=False)
        value = logical_type(source_type.item_type, source_type.item_field.nullable)
        return None if key is None or value is None else LogicalType("MAP", children=(key, value))
    if types.is_struct(source_type):
        return _row(source_type)
    if isinstance(source_type, pa.BaseExtensionType):
        return _logical_type(source_type.storage_type)
    if types.is_list(source_type) or types.is_large_list(source_type) or types.is_fixed_size_list(source_type):
        element = logical_type(source_type.value_type, source_type.value_field.nullable)
        return None if element is None else LogicalType("ARRAY", children=(element,))
    return None


def _row(source_type: ArrowType) -> LogicalType | None:
    fields = [
        (source_type.field(i).name, logical_type(source_type.field(i).type, source_type.field(i).nullable))
        for i in range(len(source_type))
    ]
    names = {name for name, _ in fields}
    if not fields or len(names) < len(fields) or any(kind is None for _, kind in fields):
        return None
    return row_type([(name, kind) for name, kind in fields if kind is not None])


def arrow_type(t: LogicalType, zone: str = "UTC") -> ArrowType:
    """The Arrow type of a SQL type.

    Args:
        t: the type.
        zone: the time zone of TIMESTAMP_LTZ; it says how instants are shown, and not which they are.

    Raises:
        StateplanError: TYPE002, for RAW and SYMBOL.
    """
    simple = {
        "BOOLEAN": pa.bool_(),
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "CHAR": pa.string(),
        "VARCHAR": pa.string(),
        "VARBINARY": pa.binary(),
        "VARIANT": pa.string(),
        "DATE": pa.date32(),
        "INTERVAL_DAY_TIME": pa.duration("ms"),
        "INTERVAL_YEAR_MONTH": pa.int32(),
        "NULL": pa.null(),
    }
    if t.root in simple:
        return simple[t.root]
    if t.root == "BINARY":
        return pa.binary(t.length or 1)
    if t.root == "DECIMAL":
        return pa.decimal128(t.precision, t.scale or 0)
    if t.root == "TIME_WITHOUT_TIME_ZONE":
        unit = _unit(t.precision or 0)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if t.is_timestamp:
        unit = _unit(6 if t.precision is None else t.precision)
        return pa.timestamp(unit, zone if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else None)
    if t.root == "ARRAY":
        return pa.list_(_field("item", t.children[0], zone))
    if t.root in ("MAP", "MULTISET"):
        value = t.children[1] if t.root == "MAP" else INT.not_null()
        return pa.map_(arrow_type(t.children[0], zone), _field("value", value, zone))
    if t.root == "ROW":
        return pa.struct([_field(f.name, f.type, zone) for f in t.fields])
    raise StateplanError("TYPE002", self_=t)


def _field(name: str, t: LogicalType, zone: str) -> Any:
    return pa.field(name, arrow_type(t, zone), t.nullable)


def _unit(precision: int) -> str:
    return "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


# ---- from Arrow ------------------------------------------------------------------------------------------------


def frames(batches: Any, types: Sequence[LogicalType], zone: str) -> Iterator[pl.DataFrame]:
    """The rows of record batches as frames ``c0, c1, ...`` of exactly the types of :meth:`LogicalType.polars`.

    Args:
        batches: a ``pyarrow.RecordBatchReader``.
        types: the types of its columns: those of :func:`logical_type`, or others that hold the values.
        zone: of timestamps without one in a column of TIMESTAMP_LTZ.

    Raises:
        DataError: DATA340, a value that is none of its column's type.
    """
    for batch in batches:
        yield pl.DataFrame(
            {
                column(i): _series(array, t, batches.schema.names[i], zone)
                for i, (array, t) in enumerate(zip(batch.columns, types, strict=True))
            },
            height=batch.num_rows,
        )


def _series(array: Any, t: LogicalType, name: str, zone: str) -> pl.Series:
    if array.null_count and not t.nullable:
        raise DataError("DATA340.null", name=name, type=t.summary())
    try:
        plain = _storage(array)
        target = arrow_type(t)
        if pa.types.is_timestamp(target) and target.tz and pa.types.is_timestamp(plain.type) and plain.type.tz is None:
            plain = pc.assume_timezone(plain, zone, ambiguous="earliest", nonexistent="latest")
        is_target = plain.type == target or (is_fine(t) and pa.types.is_timestamp(plain.type))
        series = of_datetimes(pl.Series(pl.from_arrow(plain if is_target else pc.cast(plain, target))), t)
        return series if series.dtype == t.polars() else series.cast(t.polars())
    except (pa.ArrowException, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError("DATA340", name=name, type=t.summary(), found=array.type, reason=reason) from None


def _storage(array: Any) -> Any:
    """The array without what Arrow does not cast: extension types, run ends, dictionaries of views."""
    if isinstance(array.type, pa.BaseExtensionType):
        return _storage(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    kind = logical_type(array.type.value_type) if pa.types.is_dictionary(array.type) else None
    return array if kind is None else pc.cast(array.dictionary, arrow_type(kind)).take(array.indices)


# ---- to Arrow --------------------------------------------------------------------------------------------------


def arrow_column(
    series: pl.Series, t: LogicalType, leaf: Callable[[Any, LogicalType], Any], marks_nulls: bool = False
) -> Any:
    """A column as an Arrow array in one piece; see :func:`arrow_array`.

    Raises:
        DataError: DATA345, a TIMESTAMP(7) to (9) that Arrow does not have.
    """
    return arrow_array(portable(series).rechunk().to_arrow(), t, leaf, marks_nulls)


def arrow_array(array: Any, t: LogicalType, leaf: Callable[[Any, LogicalType], Any], marks_nulls: bool = False) -> Any:
    """An array as Polars returns it to Arrow in the shape of a SQL type: maps as maps, lists with 32-bit offsets.

    Args:
        array: in one piece.
        t: the type.
        leaf: converts an array of a type without parts.
        marks_nulls: whether parts that cannot be NULL are marked so.
    """

    def part(inner: Any, of: LogicalType) -> Any:
        return arrow_array(inner, of, leaf, marks_nulls)

    def field(name: str, array_of_part: Any, of: LogicalType) -> Any:
        return pa.field(name, array_of_part.type, of.nullable or not marks_nulls)

    mask = array.is_null() if array.null_count else None
    if t.root in ("MAP", "MULTISET"):
        entries = array.values
        value = t.children[1] if t.root == "MAP" else INT.not_null()
        keys, values = part(entries.field(0), t.children[0]), part(entries.field(1), value)
        shape = pa.map_(keys.type, field("value", values, value))
        return pa.MapArray.from_arrays(array.offsets.cast(pa.int32()), keys, values, type=shape, mask=mask)
    if t.root == "ARRAY":
        values = part(array.values, t.children[0])
        shape = pa.list_(field("item", values, t.children[0]))
        return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, type=shape, mask=mask)
    if t.root == "ROW":
        parts = [part(array.field(i), f.type) for i, f in enumerate(t.fields)]
        fields = [field(f.name, array_of_part, f.type) for f, array_of_part in zip(t.fields, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    return leaf(_timestamps(array, t) if is_fine(t) else array, t)


def _timestamps(array: Any, t: LogicalType) -> Any:
    """Arrow's timestamps of counts of nanoseconds. Raises DataError DATA345 for one that 64 bits do not hold."""
    dtype = pa.timestamp("ns", "UTC" if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else None)
    try:
        return pc.cast(pc.cast(array, pa.int64()), dtype)
    except pa.ArrowInvalid:
        counts = (int(value) for value in array.to_pylist() if value is not None)
        far = next(n for n in counts if not -(1 << 63) <= n < 1 << 63)
        raise DataError("DATA345", value=to_datetime(far), type=t.as_nullable().summary()) from None


def _check_lengths(array: Any, t: LogicalType) -> None:
    """Raises DataError DATA346 for bytes of another length than BINARY ``t`` has."""
    length = t.length or 1
    lengths = pc.binary_length(array)
    others = lengths.filter(pc.not_equal(lengths, length))
    if len(others):
        raise DataError("DATA346", count=others[0].as_py(), length=length, type=t.as_nullable().summary())


def arrow_table(frame: pl.DataFrame, names: Sequence[str], types: Sequence[LogicalType], zone: str) -> Any:
    """A frame ``c0, c1, ...`` as a ``pyarrow.Table`` whose types are those of :func:`arrow_type`.

    Args:
        frame: the rows.
        names: the names of the columns; several may be the same.
        types: the types of these columns.
        zone: the time zone of the session.

    Raises:
        StateplanError: TYPE002, for RAW and SYMBOL; DATA345 and DATA346, for a value that Arrow does not have.
    """
    schema = pa.schema([_field(name, t, zone) for name, t in zip(names, types, strict=True)])
    if not types:
        return pa.table({})

    def leaf(array: Any, t: LogicalType) -> Any:
        if t.root == "BINARY":
            _check_lengths(array, t)
        return array.cast(arrow_type(t, zone))

    chunks: list[list[Any]] = [[] for _ in types]
    for part in frame.iter_slices(_CHUNK):
        for i, t in enumerate(types):
            chunks[i].append(arrow_column(part[column(i)], t, leaf, marks_nulls=True))
    arrays = [pa.chunked_array(chunk, field.type) for chunk, field in zip(chunks, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def pandas_frame(table: Any) -> pd.DataFrame:
    """A ``pyarrow.Table`` as a ``pandas.DataFrame``. Whole numbers and booleans have pandas' nullable types where there
    are NULLs, instead of becoming floats and objects; a map is a dict."""
    import pandas as pd

    nullable = {
        pa.bool_(): pd.BooleanDtype(),
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
    }
    columns = {
        i: array.to_pandas(types_mapper=nullable.get if array.null_count else None, maps_as_pydicts="strict")
        for i, array in enumerate(table.columns)
    }
    frame = pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows))
    frame.columns = pd.Index(table.column_names, dtype=object)
    return frame
