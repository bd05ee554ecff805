"""Writing values as character strings as Flink's CAST to STRING does."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from stateplan.execnodes.functions.render.base import Renderer, rowwise
from stateplan.execnodes.functions.render.moments import to_local
from stateplan.execnodes.types import MAX_LENGTH, LogicalType
from stateplan.execnodes.values.floats import floats_text


def _floats(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    return e.map_batches(floats_text, return_dtype=pl.String, is_elementwise=True)


def timestamp_text(e: pl.Expr, precision: int) -> pl.Expr:
    """``2024-01-31 10:00:00.123``, with ``precision`` digits after the point."""
    return _clock(e, "%Y-%m-%d %H:%M:%S", precision)


def _clock(e: pl.Expr, form: str, precision: int) -> pl.Expr:
    if precision == 0:
        return e.dt.to_string(form)
    if precision in (3, 6, 9):
        return e.dt.to_string(f"{form}%.{precision}f")
    return e.dt.to_string(f"{form}%.9f").str.head(-(9 - precision))


def _boolean(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    return pl.when(e).then(pl.lit("TRUE")).when(~e).then(pl.lit("FALSE"))


def _plain(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    return e.cast(pl.String)


def _same(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    return e


def _bytes(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    return rowwise(lambda b: b.decode("utf-8", "replace"), [e], pl.String())


def _zoned(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    return timestamp_text(to_local(e, r.time_zone), t.precision if t.precision is not None else 6)


def _day_interval(millis: int) -> str:
    sign, rest = ("-", -millis) if millis < 0 else ("+", millis)
    days, rest = divmod(rest, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{sign}{days} {hours:02}:{minutes:02}:{rest // 1000:02}.{rest % 1000:03}"


def _month_interval(months: int) -> str:
    return f"{'-' if months < 0 else '+'}{abs(months) // 12}-{abs(months) % 12:02}"


def _null_text(e: pl.Expr) -> pl.Expr:
    return e.fill_null("NULL")


def _list(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    parts = e.list.eval(_null_text(to_text(r, pl.element(), t.children[0])))
    return pl.when(e.is_not_null()).then(pl.format("[{}]", parts.list.join(", ")))


def _map(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    entry = pl.element()
    value_type = t.children[1] if t.root == "MAP" else LogicalType("INTEGER")
    key = _null_text(to_text(r, entry.struct.field("key"), t.children[0]))
    value = _null_text(to_text(r, entry.struct.field("value"), value_type))
    return pl.when(e.is_not_null()).then(
        pl.format("{{{}}}", e.list.eval(pl.concat_str(key, pl.lit("="), value)).list.join(", "))
    )


def _row(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    fields = [_null_text(to_text(r, e.struct.field(f.name), f.type)) for f in t.fields]
    return pl.when(e.is_not_null()).then(pl.concat_str(pl.lit("("), pl.concat_str(fields, separator=", "), pl.lit(")")))


_PRINTERS: dict[str, Callable[[Renderer, pl.Expr, LogicalType], pl.Expr]] = {
    "BOOLEAN": _boolean,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL"), _plain),
    "FLOAT": _floats,
    "DOUBLE": _floats,
    "CHAR": _same,
    "VARCHAR": _same,
    "BINARY": _bytes,
    "VARBINARY": _bytes,
    "DATE": lambda r, e, t: e.dt.to_string("%Y-%m-%d"),
    "TIME_WITHOUT_TIME_ZONE": lambda r, e, t: _clock(e, "%H:%M:%S", t.precision or 0),
    "TIMESTAMP_WITHOUT_TIME_ZONE": lambda r, e, t: timestamp_text(e, t.precision if t.precision is not None else 6),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": _zoned,
    "INTERVAL_DAY_TIME": lambda r, e, t: rowwise(_day_interval, [e.to_physical()], pl.String()),
    "INTERVAL_YEAR_MONTH": lambda r, e, t: rowwise(_month_interval, [e], pl.String()),
    "ARRAY": _list,
    "MAP": _map,
    "MULTISET": _map,
    "ROW": _row,
}


def to_text(r: Renderer, e: pl.Expr, t: LogicalType) -> pl.Expr:
    """The value as text, without a limit to its length."""
    return _PRINTERS[t.root](r, e, t)


def fit(e: pl.Expr, t: LogicalType, *, known: int | None = None) -> pl.Expr:
    """Text cut to the length of CHAR or VARCHAR ``t``, and filled up with blanks for CHAR. ``known`` is a length that
    the text is known not to exceed."""
    length = t.length or 1
    if length < MAX_LENGTH and (known is None or known > length):
        e = e.str.head(length)
    return e.str.pad_end(length) if t.root == "CHAR" else e
