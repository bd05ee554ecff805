"""Text columns to values by vectors, strictly: what is not exactly right raises instead of being guessed at.

These expressions accept a part of what the parsers in :mod:`common.values.fields` accept, with the
same results; a reader that sees them fail asks those.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from stateplan.common.types import LogicalType
from stateplan.common.values.fields import INTEGER_BITS
from stateplan.common.values.nanoseconds import is_fine, of_text

_DAY = "(?:0[1-9]|[12][0-9]|3[01])"
_MONTH = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-(?:0[1-9]|1[0-2])"
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_FRACTION = r"(?:\.[0-9]{1,9})?"
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"


def require_match(expr: pl.Expr, pattern: str) -> pl.Expr:
    """``expr`` where it matches, an unreadable text where it does not, so that strict parsing fails there."""
    return pl.when(expr.is_null() | expr.str.contains(rf"\A{pattern}\z")).then(expr).otherwise(pl.lit("?"))


def strict_timestamp(expr: pl.Expr, data_type: LogicalType, standard: str) -> pl.Expr:
    """``yyyy-MM-dd HH:mm:ss[.fraction]`` (``T`` for ISO-8601; TIMESTAMP_LTZ with ``Z``), cut to the type's unit."""
    unit: Any = "us" if is_fine(data_type) else data_type.time_unit()
    separator = " " if standard == "SQL" else "T"
    zone = "Z" if data_type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else ""
    text = require_match(expr, f"{_MONTH}-{_DAY}{separator}{_CLOCK}{_FRACTION}{zone}")
    if zone:
        text = text.str.strip_suffix(zone)
    instants = text.str.to_datetime(f"%Y-%m-%d{separator}%H:%M:%S%.f", time_unit=unit, strict=True, exact=True)
    if is_fine(data_type):
        return of_text(instants, text)
    return instants.dt.replace_time_zone("UTC") if zone else instants


def strict_date(expr: pl.Expr) -> pl.Expr:
    """``yyyy-MM-dd``."""
    return require_match(expr, f"{_MONTH}-{_DAY}").str.to_date("%Y-%m-%d", strict=True)


def strict_time(expr: pl.Expr, digits: int = 3) -> pl.Expr:
    """``HH:mm:ss[.fraction]``, cut to ``digits`` digits of the second."""
    unit = 10 ** (9 - digits)
    nanos: pl.Expr = require_match(expr, _CLOCK + _FRACTION).str.to_time("%H:%M:%S%.f", strict=True).to_physical()
    cut: pl.Expr = nanos // unit * unit
    return cut.cast(pl.Time())


def strict_bytes(expr: pl.Expr) -> pl.Expr:
    """Base64 with padding."""
    return require_match(expr, _BASE64).str.decode("base64", strict=True)


def _strict_decimal(expr: pl.Expr, data_type: LogicalType) -> pl.Expr:
    """Plain decimals that fit, and whole numbers in the form ``1.2E+5``, which is how Flink writes multiples of 10."""
    scale = data_type.scale or 0
    digits_before = (data_type.precision or 10) - scale
    scientific = expr.str.contains(r"\A-?[1-9](?:\.[0-9]{1,12})?E\+[0-9]{1,2}\z")
    number = pl.when(scientific).then(expr).otherwise(pl.lit("0")).cast(pl.Float64, strict=True)
    exact = (number.abs() < 10.0 ** min(digits_before, 15)) & (number == number.floor())
    text = pl.when(scientific & exact).then(number.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(expr)
    digits = rf"-?(?:0|[1-9][0-9]{{0,{digits_before - 1}}})" if digits_before else "-?0"
    fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
    return require_match(text, digits + fraction).cast(data_type.polars(), strict=True)


def strict_value(expr: pl.Expr, data_type: LogicalType, standard: str) -> pl.Expr | None:
    """The values of a column of text; None for a type that has no strict expression."""
    root = data_type.root
    if data_type.is_string:
        return expr
    if root in INTEGER_BITS:
        return (
            require_match(expr, "-?[0-9]{1,19}")
            .str.to_integer(strict=True, dtype=pl.Int64)
            .cast(data_type.polars(), strict=True)
        )
    if root == "BOOLEAN":
        return expr.str.to_lowercase().replace_strict({"true": True, "false": False}, return_dtype=pl.Boolean)
    if root in ("FLOAT", "DOUBLE"):
        number = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,4})?"
        return require_match(expr, number).cast(data_type.polars(), strict=True)
    if root == "DECIMAL":
        return _strict_decimal(expr, data_type)
    if root == "DATE":
        return strict_date(expr)
    if root == "TIME_WITHOUT_TIME_ZONE":
        return strict_time(expr, min(data_type.precision or 0, 3))
    if data_type.is_timestamp:
        return strict_timestamp(expr, data_type, standard)
    if root in ("BINARY", "VARBINARY"):
        return strict_bytes(expr)
    return None
