"""The values of the ``datagen`` connector: functions of the row number, by vectors."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from stateplan.common.changelog import column
from stateplan.common.types import LogicalType
from stateplan.common.values.fields import build_series, fit_decimal
from stateplan.connectors.datagen_columns import ColumnPlan

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_PER_MILLI = {"ms": 1, "us": 1000, "ns": 1_000_000}
_DAY = 86_400_000
_WIDE = Context(prec=100)
_Words = np.ndarray[Any, np.dtype[np.uint64]]


def _mix(words: _Words) -> _Words:
    """SplitMix64's finaliser: a good 64-bit hash of each word."""
    words = words.copy()
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def _random(rows: _Words, salt: int) -> _Words:
    """A random word per row, another one for each salt."""
    offset = np.uint64((salt * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & (1 << 64) - 1)
    return _mix(_mix(rows + offset) + np.uint64(0x9E3779B97F4A7C15))


def _unit(words: _Words) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers from 0 to 1, 1 excluded."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _salt(salt: int, part: int) -> int:
    return (salt * 1_000_003 + part + 1) & (1 << 64) - 1


def make_frame(plans: Sequence[ColumnPlan], seed: int, now: int, start: int, end: int) -> pl.DataFrame:
    """The rows ``start`` to ``end`` of a table."""
    rows = np.arange(start, end, dtype=np.uint64)
    if not plans or not len(rows):
        return pl.DataFrame(schema={column(i): p.declared_type.polars() for i, p in enumerate(plans)}, height=len(rows))
    return pl.DataFrame([_series(plan, rows, _salt(seed, i), now).alias(column(i)) for i, plan in enumerate(plans)])


def _series(plan: ColumnPlan, rows: _Words, salt: int, now: int) -> pl.Series:
    if plan.sequence is not None:
        return _sequence(plan.declared_type, rows, plan.sequence[0])
    series = _values(plan, rows, salt, now)
    if plan.null_rate > 0:
        null = pl.Series(_unit(_random(rows, _salt(salt, -2))) < plan.null_rate)
        series = pl.select(pl.when(~null).then(series)).to_series()
    return series


def _sequence(data_type: LogicalType, rows: _Words, first: int) -> pl.Series:
    numbers = pl.Series(rows.astype(np.int64) + first)
    if data_type.is_string:
        return numbers.cast(pl.String)
    if data_type.root == "DECIMAL":
        return build_series(
            "",
            [fit_decimal(Decimal(n), data_type.precision or 10, data_type.scale or 0) for n in numbers.to_list()],
            data_type,
        )
    return numbers.cast(data_type.polars())


def _values(plan: ColumnPlan, rows: _Words, salt: int, now: int) -> pl.Series:
    data_type, words = plan.declared_type, _random(rows, salt)
    root = data_type.root
    if root == "BOOLEAN":
        return pl.Series((words & np.uint64(1)).astype(bool))
    if isinstance(plan.low, int):
        return _integers(plan, words)
    if isinstance(plan.low, float):
        share = _unit(words)
        values = plan.low * (1 - share) + plan.high * share
        return pl.Series(values).cast(data_type.polars())
    if isinstance(plan.low, Decimal):
        return _decimals(plan, words)
    if root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return _texts(plan, rows, salt)
    if root == "DATE":
        return pl.Series([now // _DAY] * len(rows), dtype=pl.Int32).cast(pl.Date)
    if root == "TIME_WITHOUT_TIME_ZONE":
        return pl.Series([now % _DAY * 1_000_000] * len(rows), dtype=pl.Int64).cast(pl.Time)
    if data_type.is_timestamp:
        past = (_unit(words) * plan.max_past).astype(np.int64)
        return pl.Series((now - past) * _PER_MILLI[data_type.time_unit()]).cast(data_type.polars())
    if root == "ROW":
        parts = [
            _series(part, rows, _salt(salt, i), now).alias(f.name)
            for i, (part, f) in enumerate(zip(plan.parts, data_type.fields, strict=True))
        ]
        return pl.DataFrame(parts).to_struct()
    return _collections(plan, rows, salt, now)


def _integers(plan: ColumnPlan, words: _Words) -> pl.Series:
    span = plan.high - plan.low + 1
    offsets = words if span >= 1 << 64 else words % np.uint64(span)
    values = (offsets + np.uint64(plan.low & (1 << 64) - 1)).astype(np.int64)
    return pl.Series(values).cast(plan.declared_type.polars())


def _decimals(plan: ColumnPlan, words: _Words) -> pl.Series:
    data_type = plan.declared_type
    scale = data_type.scale or 0
    low = int(plan.low.scaleb(scale, _WIDE))
    span = int(plan.high.scaleb(scale, _WIDE)) - low + 1
    values = [Decimal(low + int(w) * span // (1 << 64)).scaleb(-scale, _WIDE) for w in words.tolist()]
    return build_series("", values, data_type)


def _texts(plan: ColumnPlan, rows: _Words, salt: int) -> pl.Series:
    count, length = len(rows), plan.length
    binary = plan.declared_type.root in ("BINARY", "VARBINARY")
    per_word = 8 if binary else 16
    words = np.stack([_random(rows, _salt(salt, 16 + i)) for i in range(-(-length // per_word))], axis=1)
    data = words.view(np.uint8).reshape(count, -1)
    if not binary:
        data = np.stack([_HEX[data >> 4], _HEX[data & 15]], axis=2).reshape(count, -1)
    lengths = np.full(count, length, np.int64)
    if plan.variable:
        lengths = (_random(rows, _salt(salt, -3)) % np.uint64(length)).astype(np.int64) + 1
    letters = data[:, :length][np.arange(length) < lengths[:, None]]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(letters))]
    array = pa.Array.from_buffers(pa.large_binary() if binary else pa.large_string(), count, buffers)
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series


def _collections(plan: ColumnPlan, rows: _Words, salt: int, now: int) -> pl.Series:
    """Lists of ``length`` elements, or maps of at most that many entries with different keys."""
    inner = np.repeat(rows * np.uint64(plan.length), plan.length) + np.tile(
        np.arange(plan.length, dtype=np.uint64), len(rows)
    )
    parts = [_series(part, inner, _salt(salt, i), now) for i, part in enumerate(plan.parts)]
    owner = pl.Series(np.repeat(np.arange(len(rows)), plan.length))
    if plan.declared_type.root == "ARRAY":
        items = pl.DataFrame({"row": owner, "item": parts[0]})
    else:
        entries = pl.DataFrame({"key": parts[0], "value": parts[1]})
        items = pl.DataFrame({"row": owner, "item": entries.to_struct(), "key": parts[0]}).unique(
            ["row", "key"], keep="first", maintain_order=True
        )
    return items.group_by("row", maintain_order=True).agg("item")["item"].cast(plan.declared_type.polars())
