"""Values of PostgreSQL as text, to values of Flink's types: columns at once.

The texts are those of the output functions of PostgreSQL, in the settings of
:meth:`connectors.jdbc.postgres.Server.connect`. Which types go together follows Flink CDC's
``RowDataDebeziumDeserializeSchema``.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal

import numpy as np
import polars as pl
import pyarrow as pa

from stateplan.common.errors import DataError
from stateplan.common.types import LogicalType
from stateplan.common.values.nanoseconds import is_fine, of_datetimes, portable

_TYPES = (
    ("bool", 16, 1000),
    ("bytea", 17, 1001),
    ("name", 19, 1003),
    ("int8", 20, 1016),
    ("int2", 21, 1005),
    ("int4", 23, 1007),
    ("text", 25, 1009),
    ("oid", 26, 1028),
    ("json", 114, 199),
    ("xml", 142, 143),
    ("cidr", 650, 651),
    ("float4", 700, 1021),
    ("float8", 701, 1022),
    ("money", 790, 791),
    ("inet", 869, 1041),
    ("bpchar", 1042, 1014),
    ("varchar", 1043, 1015),
    ("date", 1082, 1182),
    ("time", 1083, 1183),
    ("timestamp", 1114, 1115),
    ("timestamptz", 1184, 1185),
    ("interval", 1186, 1187),
    ("timetz", 1266, 1270),
    ("numeric", 1700, 1231),
    ("uuid", 2950, 2951),
    ("jsonb", 3802, 3807),
)
TYPES: Mapping[int, str] = {
    **{oid: name for name, oid, _ in _TYPES},
    **{array: f"_{name}" for name, _, array in _TYPES},
}
"""OID of a built-in type to its internal name. OIDs of types that users create are of their database."""

_INTEGERS = ("int2", "int4", "int8", "oid")
_FITS: Mapping[str, tuple[str, ...]] = {
    "BOOLEAN": ("bool",),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), _INTEGERS),
    **dict.fromkeys(("FLOAT", "DOUBLE"), ("float4", "float8", "numeric", *_INTEGERS)),
    "DECIMAL": ("numeric", *_INTEGERS),
    **dict.fromkeys(("BINARY", "VARBINARY"), ("bytea",)),
    "DATE": ("date",),
    "TIME_WITHOUT_TIME_ZONE": ("time",),
    "TIMESTAMP_WITHOUT_TIME_ZONE": ("timestamp",),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": ("timestamptz",),
}

_INFINITE = ("Infinity", "-Infinity")


_EXACT = Context(prec=MAX_PREC, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Rounds numbers of any length."""


def fits(type_name: str, data_type: LogicalType) -> bool:
    """Whether the texts of a type can be values of a declared one. Text takes the text of any type.

    Args:
        type_name: internal name of the type; of a domain, that of its base.
        data_type: type of the column.
    """
    if data_type.is_string:
        return True
    if data_type.root == "ARRAY":
        return type_name.startswith("_") and fits(type_name[1:], data_type.children[0])
    return type_name in _FITS[data_type.root]


def values(text: pl.Series, data_type: LogicalType, column: str, table: str) -> pl.Series:
    """The values of a column.

    Args:
        text: as PostgreSQL writes them.
        data_type: type of the column.
        column: for the error.
        table: for the error.

    Raises:
        DataError: DATA443, a value that the type does not have.
    """
    parsed_values = _array(text, data_type) if data_type.root == "ARRAY" else _scalar(text, data_type)
    wrong = parsed_values.is_null() & text.is_not_null()
    if wrong.any():
        value = text.filter(wrong)[0]
        raise DataError("DATA443", column=column, table=table, declared=data_type, value=value)
    return parsed_values


def _scalar(text: pl.Series, data_type: LogicalType) -> pl.Series:
    """Values, NULL if a text is none of the type."""
    root, target = data_type.root, data_type.polars()
    if data_type.is_string:
        return text
    if root == "BOOLEAN":
        words = {"t": True, "f": False}
        return text.replace_strict(words, default=None, return_dtype=pl.Boolean())
    if root == "DECIMAL":
        return _decimal(text, data_type)
    if root in ("BINARY", "VARBINARY"):
        plain = text.str.starts_with("\\x")
        digits: pl.Series = text.str.slice(2).set(~plain.fill_null(True), "?")
        return digits.str.decode("hex", strict=False)
    if root == "DATE":
        return text.str.to_date("%Y-%m-%d", strict=False)
    if root == "TIME_WITHOUT_TIME_ZONE":
        unit = 10 ** (9 - min(data_type.precision or 0, 3))
        nanos = text.str.to_time("%H:%M:%S%.f", strict=False).cast(pl.Int64())
        truncated_nanos: pl.Series = nanos // unit * unit
        return truncated_nanos.cast(pl.Time())
    if data_type.is_timestamp:
        return _timestamp(text, data_type)
    parsed_values = text.cast(target, strict=False)
    if root in ("FLOAT", "DOUBLE"):
        too_large = parsed_values.is_infinite() & ~text.is_in(_INFINITE)
        parsed_values = parsed_values.set(too_large.fill_null(False), None)
    return parsed_values


def _timestamp(text: pl.Series, data_type: LogicalType) -> pl.Series:
    if data_type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        text = text.str.strip_suffix("+00")
    micros = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    if is_fine(data_type):
        return of_datetimes(micros, data_type)
    times = micros.cast(pl.Datetime(data_type.time_unit()))
    return times.dt.replace_time_zone("UTC") if data_type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else times


def _decimal(text: pl.Series, data_type: LogicalType) -> pl.Series:
    """Numbers, rounded half up to the scale as Flink's ``DecimalData.fromBigDecimal`` does it."""
    scale = data_type.scale or 0
    long = text.str.contains(rf"\.[0-9]{{{scale + 1}}}").fill_null(False)
    if long.any():
        step = Decimal(1).scaleb(-scale)
        long_decimals = [f"{Decimal(t).quantize(step, context=_EXACT):f}" for t in text.filter(long)]
        text = text.clone().scatter(long.arg_true(), long_decimals)
    return text.cast(data_type.polars(), strict=False)


def _array(text: pl.Series, data_type: LogicalType) -> pl.Series:
    """Arrays of one dimension, NULL if a text is none."""
    rows = [None if t is None else elements(t) for t in text]
    flat = pl.Series([item for row in rows for item in row or ()], dtype=pl.String())
    parsed_elements = _scalar(flat, data_type.children[0])
    edges = np.concatenate([[0], np.cumsum([len(row or ()) for row in rows])]).astype(np.int64)
    wrong = (parsed_elements.is_null() & flat.is_not_null()).to_numpy()
    is_wrong = np.diff(np.concatenate([[0], np.cumsum(wrong)])[edges]) > 0
    nulls = pa.array(is_wrong | np.array([row is None for row in rows], bool))
    lists = pl.from_arrow(
        pa.LargeListArray.from_arrays(pa.array(edges), portable(parsed_elements).to_arrow(), mask=nulls)
    )
    assert isinstance(lists, pl.Series)
    return lists.cast(data_type.polars())


def elements(text: str) -> list[str | None] | None:
    """The elements of an array of one dimension, such as ``{1,NULL,"a b"}``; None for any other text. Source:
    PostgreSQL's documentation of arrays, "Array Input and Output Syntax"."""
    body = text.partition("=")[2] if text.startswith("[") else text
    if not (body.startswith("{") and body.endswith("}")):
        return None
    body = body[1:-1]
    if '"' not in body and "\\" not in body:
        if "{" in body:
            return None
        return [None if part.upper() == "NULL" else part for part in body.split(",")] if body else []
    parts: list[str | None] = []
    at = 0
    while at <= len(body):
        if body[at : at + 1] == '"':
            part, at = _quoted_item(body, at + 1)
            parts.append(part)
        else:
            end = body.find(",", at)
            end = len(body) if end < 0 else end
            part = body[at:end]
            if "{" in part:
                return None
            parts.append(None if part.upper() == "NULL" else part)
            at = end
        at += 1
    return parts


def _quoted_item(body: str, at: int) -> tuple[str, int]:
    """What is between double quotes, and the position after them."""
    part = []
    while at < len(body) and body[at] != '"':
        if body[at] == "\\":
            at += 1
        part.append(body[at : at + 1])
        at += 1
    return "".join(part), at + 1
