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

_WHOLE = ("int2", "int4", "int8", "oid")
_FITS: Mapping[str, tuple[str, ...]] = {
    "BOOLEAN": ("bool",),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), _WHOLE),
    **dict.fromkeys(("FLOAT", "DOUBLE"), ("float4", "float8", "numeric", *_WHOLE)),
    "DECIMAL": ("numeric", *_WHOLE),
    **dict.fromkeys(("BINARY", "VARBINARY"), ("bytea",)),
    "DATE": ("date",),
    "TIME_WITHOUT_TIME_ZONE": ("time",),
    "TIMESTAMP_WITHOUT_TIME_ZONE": ("timestamp",),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": ("timestamptz",),
}

_INFINITE = ("Infinity", "-Infinity")


_EXACT = Context(prec=MAX_PREC, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Rounds numbers of any length."""


def fits(type_name: str, declared: LogicalType) -> bool:
    """Whether the texts of a type can be values of a declared one. Text takes the text of any type.

    Args:
        type_name: internal name of the type; of a domain, that of its base.
        declared: type of the column.
    """
    if declared.is_string:
        return True
    if declared.root == "ARRAY":
        return type_name.startswith("_") and fits(type_name[1:], declared.children[0])
    return type_name in _FITS[declared.root]


def values(text: pl.Series, declared: LogicalType, column: str, table: str) -> pl.Series:
    """The values of a column.

    Args:
        text: as PostgreSQL writes them.
        declared: type of the column.
        column: for the error.
        table: for the error.

    Raises:
        DataError: DATA443, a value that the type does not have.
    """
    found = _array(text, declared) if declared.root == "ARRAY" else _scalar(text, declared)
    wrong = found.is_null() & text.is_not_null()
    if wrong.any():
        value = text.filter(wrong)[0]
        raise DataError("DATA443", column=column, table=table, declared=declared, value=value)
    return found


def _scalar(text: pl.Series, declared: LogicalType) -> pl.Series:
    """Values, NULL where a text is none of the type."""
    root, target = declared.root, declared.polars()
    if declared.is_string:
        return text
    if root == "BOOLEAN":
        words = {"t": True, "f": False}
        return text.replace_strict(words, default=None, return_dtype=pl.Boolean())
    if root == "DECIMAL":
        return _decimal(text, declared)
    if root in ("BINARY", "VARBINARY"):
        plain = text.str.starts_with("\\x")
        digits: pl.Series = text.str.slice(2).set(~plain.fill_null(True), "?")
        return digits.str.decode("hex", strict=False)
    if root == "DATE":
        return text.str.to_date("%Y-%m-%d", strict=False)
    if root == "TIME_WITHOUT_TIME_ZONE":
        unit = 10 ** (9 - min(declared.precision or 0, 3))
        nanos = text.str.to_time("%H:%M:%S%.f", strict=False).cast(pl.Int64())
        whole: pl.Series = nanos // unit * unit
        return whole.cast(pl.Time())
    if declared.is_timestamp:
        return _timestamp(text, declared)
    found = text.cast(target, strict=False)
    if root in ("FLOAT", "DOUBLE"):
        too_large = found.is_infinite() & ~text.is_in(_INFINITE)
        found = found.set(too_large.fill_null(False), None)
    return found


def _timestamp(text: pl.Series, declared: LogicalType) -> pl.Series:
    if declared.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        text = text.str.strip_suffix("+00")
    micros = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    if is_fine(declared):
        return of_datetimes(micros, declared)
    found = micros.cast(pl.Datetime(declared.time_unit()))
    return found.dt.replace_time_zone("UTC") if declared.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else found


def _decimal(text: pl.Series, declared: LogicalType) -> pl.Series:
    """Numbers, rounded half up to the scale as Flink's ``DecimalData.fromBigDecimal`` does it."""
    scale = declared.scale or 0
    long = text.str.contains(rf"\.[0-9]{{{scale + 1}}}").fill_null(False)
    if long.any():
        step = Decimal(1).scaleb(-scale)
        rounded = [f"{Decimal(t).quantize(step, context=_EXACT):f}" for t in text.filter(long)]
        text = text.clone().scatter(long.arg_true(), rounded)
    return text.cast(declared.polars(), strict=False)


def _array(text: pl.Series, declared: LogicalType) -> pl.Series:
    """Arrays of one dimension, NULL where a text is none."""
    rows = [None if t is None else elements(t) for t in text]
    flat = pl.Series([item for row in rows for item in row or ()], dtype=pl.String())
    found = _scalar(flat, declared.children[0])
    edges = np.concatenate([[0], np.cumsum([len(row or ()) for row in rows])]).astype(np.int64)
    wrong = (found.is_null() & flat.is_not_null()).to_numpy()
    broken = np.diff(np.concatenate([[0], np.cumsum(wrong)])[edges]) > 0
    nulls = pa.array(broken | np.array([row is None for row in rows], bool))
    lists = pl.from_arrow(pa.LargeListArray.from_arrays(pa.array(edges), portable(found).to_arrow(), mask=nulls))
    assert isinstance(lists, pl.Series)
    return lists.cast(declared.polars())


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
    found: list[str | None] = []
    at = 0
    while at <= len(body):
        if body[at : at + 1] == '"':
            part, at = _quoted(body, at + 1)
            found.append(part)
        else:
            end = body.find(",", at)
            end = len(body) if end < 0 else end
            part = body[at:end]
            if "{" in part:
                return None
            found.append(None if part.upper() == "NULL" else part)
            at = end
        at += 1
    return found


def _quoted(body: str, at: int) -> tuple[str, int]:
    """What stands between double quotes, and the place behind them."""
    part = []
    while at < len(body) and body[at] != '"':
        if body[at] == "\\":
            at += 1
        part.append(body[at : at + 1])
        at += 1
    return "".join(part), at + 1
