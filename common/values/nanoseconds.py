"""Timestamps of seven to nine digits: counts of nanoseconds since 1970 in 128 bits. Those of Polars and Arrow have 64
bits, which hold the years 1678 to 2261 only.

What Polars does with a Datetime is done with its microseconds; the rest is put back.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from stateplan.common.types import INT, LogicalType

PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}

_EPOCH = dt.datetime(1970, 1, 1)
_MICRO = dt.timedelta(microseconds=1)


def is_fine(t: LogicalType) -> bool:
    """Whether values of the type count nanoseconds in 128 bits."""
    return t.is_timestamp and t.time_unit() == "ns"


def coarse_type(t: LogicalType) -> pl.DataType:
    """The Datetime that holds a timestamp but for what is below its microsecond."""
    zone = "UTC" if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else None
    return pl.Datetime("us" if t.time_unit() == "ns" else t.time_unit(), zone)


def coarse(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """A timestamp as a Datetime of :func:`coarse_type`, rounded down."""
    return (e // 1000).cast(pl.Int64).cast(coarse_type(t)) if is_fine(t) else e


def below_micros(e: pl.Expr) -> pl.Expr:
    """What a count of nanoseconds has below its microsecond, as Int64."""
    return (e % 1000).cast(pl.Int64)


def fine(moment: pl.Expr, below: pl.Expr | None = None) -> pl.Expr:
    """The count of nanoseconds of a Datetime in microseconds, and of nanoseconds below."""
    count = moment.to_physical().cast(pl.Int128) * 1000
    return count if below is None else count + below.cast(pl.Int128)


def by_micros(e: pl.Expr, t: LogicalType, change: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """What ``change`` makes of the Datetime of a timestamp, another Datetime of its unit, and what is below."""
    return fine(change(coarse(e, t)), below_micros(e)) if is_fine(t) else change(e)


def count_in(e: pl.Expr, t: LogicalType, unit: str) -> pl.Expr:
    """The count of a timestamp in a unit, rounded down: Int128 for nanoseconds, and Int64 for others."""
    have, want = PER_SECOND[t.time_unit()], PER_SECOND[unit]
    count = e if is_fine(t) else e.to_physical()
    if unit == "ns":
        return count if have == want else count.cast(pl.Int128) * (want // have)
    return count * (want // have) if want >= have else (count // (have // want)).cast(pl.Int64)


def of_count(count: pl.Expr, t: LogicalType) -> pl.Expr:
    """The timestamp with a count of its own unit."""
    return count.cast(pl.Int128) if is_fine(t) else count.cast(pl.Int64).cast(t.polars())


def rescaled(e: pl.Expr, source: LogicalType, target: LogicalType) -> pl.Expr:
    """A timestamp in the unit of another type of its kind, rounded down."""
    if source.time_unit() == target.time_unit():
        return e
    return of_count(count_in(e, source, target.time_unit()), target)


def of_datetime(value: dt.datetime, below: int = 0) -> int:
    """The count of nanoseconds of a moment without zone, and nanoseconds below its microsecond."""
    return (value - _EPOCH) // _MICRO * 1000 + below


def to_datetime(count: int) -> dt.datetime:
    """The moment of a count of nanoseconds, cut to the microsecond. Raises OverflowError beyond the years 1 to 9999."""
    return _EPOCH + dt.timedelta(microseconds=count // 1000)


def has_fine(t: LogicalType) -> bool:
    """Whether a type is one of these timestamps, or has one within."""
    return is_fine(t) or any(map(has_fine, t.children)) or any(has_fine(f.type) for f in t.fields)


def _replace(dtype: Any, change: Callable[[Any], pl.DataType | None]) -> pl.DataType:
    """A Polars type with those within it that ``change`` gives another for."""
    new_dtype = change(dtype)
    if new_dtype is not None:
        return new_dtype
    if isinstance(dtype, pl.List):
        return pl.List(_replace(dtype.inner, change))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({f.name: _replace(f.dtype, change) for f in dtype.fields})
    return dtype  # type: ignore[no-any-return] # a class or an instance


ARROW_INT128 = pl.Decimal(38, 0)
"""What stands for 128-bit numbers in Arrow, which has none."""


def stored_dtype(dtype: pl.DataType) -> pl.DataType:
    """The type of a column on its way to Arrow: :data:`STORED` in place of 128-bit numbers."""
    return _replace(dtype, lambda inner: ARROW_INT128 if inner == pl.Int128 else None)


def with_counts(dtype: pl.DataType) -> pl.DataType:
    """A type with counts of nanoseconds in place of Polars' timestamps of them."""
    return _replace(
        dtype, lambda inner: pl.Int128() if isinstance(inner, pl.Datetime) and inner.time_unit == "ns" else None
    )


def portable(series: pl.Series) -> pl.Series:
    """The column in a type that Arrow accepts; see :func:`stored_dtype`."""
    dtype = stored_dtype(series.dtype)
    return series if dtype == series.dtype else series.cast(dtype)


def portable_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of a frame as Arrow takes them; see :func:`stored_dtype`."""
    return pl.DataFrame([portable(series) for series in frame], height=frame.height)


def of_datetimes(series: pl.Series, t: LogicalType) -> pl.Series:
    """A column with Datetimes of any unit in place of counts of nanoseconds, as the type ``t`` has it."""
    if not has_fine(t):
        return series
    return series.alias("x").to_frame().select(_to_counts(pl.col("x"), series.dtype, t)).to_series().alias(series.name)


def _to_counts(e: pl.Expr, dtype: Any, t: LogicalType) -> pl.Expr:
    if is_fine(t):
        if not isinstance(dtype, pl.Datetime):
            return e
        return e.to_physical().cast(pl.Int128) * (PER_SECOND["ns"] // PER_SECOND[dtype.time_unit])
    if not has_fine(t):
        return e
    if isinstance(dtype, pl.List) and t.root in ("MAP", "MULTISET"):
        return e.list.eval(
            _counted_fields(pl.element(), dtype.inner, zip(("key", "value"), (*t.children, INT), strict=False))
        )
    if isinstance(dtype, pl.List):
        return e.list.eval(_to_counts(pl.element(), dtype.inner, t.children[0]))
    fields = ((f.name, f.type) for f in t.fields)
    return pl.when(e.is_not_null()).then(_counted_fields(e, dtype, fields))


def _counted_fields(e: pl.Expr, dtype: Any, fields: Iterable[tuple[str, LogicalType]]) -> pl.Expr:
    dtypes = {f.name: f.dtype for f in dtype.fields}
    return pl.struct([_to_counts(e.struct.field(name), dtypes[name], t).alias(name) for name, t in fields])


def of_text(micros: pl.Expr, text: pl.Expr) -> pl.Expr:
    """The count of nanoseconds of a text, given the Datetime that it is but for what is below the microsecond."""
    below = text.str.extract(r"\.[0-9]{6}([0-9]{1,3})").str.pad_end(3, "0").cast(pl.Int64).fill_null(0)
    return fine(micros, below)
