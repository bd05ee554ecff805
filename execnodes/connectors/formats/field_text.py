"""Columns as the text that Flink's JSON and CSV writers give: numbers as Java's, timestamps with as many digits of the
second as they need."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import polars as pl

from stateplan.execnodes.connectors.formats.values import raw_dtype
from stateplan.execnodes.connectors.java_text import (
    date_text,
    in_four_digit_years,
    patched,
    time_text,
)
from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.values.floats import double_text, float_text, floats_text

_WIDE = Context(prec=1000)
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def decimal_field(value: Decimal, scientific: bool) -> str:
    """A decimal as Jackson writes it: with ``scientific`` without trailing zeros (100 as 1E+2), else plain."""
    return str(value.normalize(_WIDE)) if scientific else f"{value:f}"


def _fraction(text: str, count: int, width: int) -> str:
    return f"{text}.{count:0{width}d}".rstrip("0") if count else text


def time_field(nanos: int) -> str:
    """``HH:mm:ss[.fraction]`` of nanoseconds of the day."""
    rest, fraction = divmod(nanos, 10**9)
    return _fraction(time_text(rest * 10**9, seconds=True), fraction, 9)


def timestamp_field(count: int, declared: LogicalType, standard: str) -> str:
    """A timestamp in the SQL or ISO-8601 form; TIMESTAMP_LTZ in UTC with ``Z``."""
    per_second = _PER_SECOND[declared.time_unit()]
    seconds, fraction = divmod(count, per_second)
    days, second = divmod(seconds, 86400)
    separator = " " if standard == "SQL" else "T"
    text = f"{date_text(days)}{separator}{time_text(second * 10**9, seconds=True)}"
    zone = "Z" if declared.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else ""
    return _fraction(text, fraction, len(str(per_second)) - 1) + zone


def _timestamps(series: pl.Series, declared: LogicalType, standard: str) -> pl.Series:
    separator = " " if standard == "SQL" else "T"
    zone = "Z" if declared.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else ""
    naive = series.dt.replace_time_zone(None) if zone else series
    width = {"ms": 3, "us": 6, "ns": 9}[declared.time_unit()]
    fraction = pl.col("f").cast(pl.String).str.zfill(width).str.strip_chars_end("0")
    return (
        pl.DataFrame({"t": naive, "f": naive.to_physical() % 10**width})
        .select(
            pl.col("t").dt.to_string(f"%Y-%m-%d{separator}%H:%M:%S")
            + pl.when(pl.col("f") == 0).then(pl.lit("")).otherwise("." + fraction)
            + pl.lit(zone)
        )
        .to_series()
    )


def _decimals(series: pl.Series, declared: LogicalType) -> pl.Series:
    """:func:`decimal_field` of a column with ``scientific``; multiples of 10 and tiny numbers one by one."""
    plain = pl.col("v").cast(pl.String)
    if declared.scale:
        stripped = plain.str.strip_chars_end("0")
        whole = stripped.str.ends_with(".")
        text = stripped.str.strip_suffix(".")
        tiny = pl.col("v").abs() < pl.lit("0.000001").cast(series.dtype) if declared.scale > 6 else pl.lit(False)
        easy = (~whole & ~tiny) | (whole & ~text.str.ends_with("0")) | (pl.col("v") == 0)
    else:
        text = plain
        easy = ~plain.str.ends_with("0") | (pl.col("v") == 0)
    return patched(series, easy, text, lambda value: decimal_field(value, True))


def scalar_field(value: Any, declared: LogicalType, standard: str, scientific: bool) -> str:
    """The text of one raw value (see :mod:`execnodes.connectors.formats.values`) that is not a container."""
    root = declared.root
    if root == "BOOLEAN":
        return "true" if value else "false"
    if root == "DOUBLE":
        return double_text(value)
    if root == "FLOAT":
        return float_text(value)
    if root == "DECIMAL":
        return decimal_field(value, scientific)
    if root == "DATE":
        return date_text(value)
    if root == "TIME_WITHOUT_TIME_ZONE":
        return time_field(value)
    if declared.is_timestamp:
        return timestamp_field(value, declared, standard)
    if root in ("BINARY", "VARBINARY"):
        import base64

        return base64.b64encode(value).decode()
    return str(value)


def column_field(series: pl.Series, declared: LogicalType, standard: str, scientific: bool) -> pl.Series:
    """The texts of a column that is not of containers, NULL staying NULL; :func:`scalar_field` by vectors."""
    root = declared.root
    if declared.is_string:
        return series
    if declared.is_integer or root in ("BOOLEAN", "INTERVAL_YEAR_MONTH"):
        return series.cast(pl.String)
    if root == "INTERVAL_DAY_TIME":
        return series.to_physical().cast(pl.String)
    if root in ("BINARY", "VARBINARY"):
        return series.bin.encode("base64")
    if root in ("FLOAT", "DOUBLE"):
        return floats_text(series)
    if root == "DATE" and in_four_digit_years(series):
        return series.dt.to_string("%Y-%m-%d")
    if declared.is_timestamp and in_four_digit_years(series):
        return _timestamps(series, declared, standard)
    if root == "DECIMAL":
        return _decimals(series, declared) if scientific else series.cast(pl.String)
    raw = series.cast(raw_dtype(declared)).to_list()
    return pl.Series(
        [None if v is None else scalar_field(v, declared, standard, scientific) for v in raw], dtype=pl.String
    )
