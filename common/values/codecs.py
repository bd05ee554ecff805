"""One codec per logical type: every form that its values have outside of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from stateplan.common.errors import PlanError
from stateplan.common.types import INT, STRING, LogicalType
from stateplan.common.values.atomic import ATOMIC, Codec, FieldStyle, NoValueError, Opaque, json_string, of_class
from stateplan.common.values.java_hash import hash_map_order, java_order
from stateplan.common.values.row import Row


def _around(e: pl.Expr, start: str, body: pl.Expr, end: str) -> pl.Expr:
    """``body`` between two texts; NULL where ``e`` is."""
    return pl.when(e.is_not_null()).then(pl.concat_str(pl.lit(start), body, pl.lit(end)))


def _concat(texts: Sequence[pl.Expr], separator: str) -> pl.Expr:
    return pl.concat_str(texts, separator=separator) if texts else pl.lit("")


class _Array(Opaque):
    def __init__(self, t: LogicalType) -> None:
        super().__init__(t)
        self.element = codec(t.children[0])

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        return _around(e, "[", self._join(e, self.element.sql(pl.element(), zone), "NULL", ", "), "]")

    def display(self, e: pl.Expr, zone: str) -> pl.Expr:
        return _around(e, "[", self._join(e, self.element.display(pl.element(), zone), "NULL", ", "), "]")

    def legacy(self, e: pl.Expr, zone: str) -> pl.Expr:
        return _around(e, "[", self._join(e, self.element.legacy(pl.element(), zone), "null", ", "), "]")

    def java(self, e: pl.Expr) -> pl.Expr:
        return _around(e, "[", self._join(e, self.element.java(pl.element()), "null", ", "), "]")

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        body = self._join(e, self.element.field(pl.element(), style), style.null, style.separator)
        return pl.when(e.is_not_null()).then(body)

    def json(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        return _around(e, "[", self._join(e, self.element.json(pl.element(), style), "null", ","), "]")

    @staticmethod
    def _join(e: pl.Expr, text: pl.Expr, null: str, separator: str) -> pl.Expr:
        return e.list.eval(text.fill_null(null)).list.join(separator)

    def null_keys(self, e: pl.Expr) -> pl.Expr | None:
        inner = self.element.null_keys(pl.element())
        return None if inner is None else e.list.eval(inner).list.any()

    def decoder(self) -> Callable[[Any], Any] | None:
        inner = self.element.decoder()
        return None if inner is None else lambda v: [None if x is None else inner(x) for x in v]

    def of_object(self, value: Any) -> list[Any]:
        return [self.element.encode(x) for x in of_class(value, list, tuple)]


class _Map(Opaque):
    """MAP, and MULTISET as a map to the number of times."""

    def __init__(self, t: LogicalType) -> None:
        super().__init__(t)
        self.key, self.value = (codec(c) for c in (*t.children, INT)[:2])

    def _entries(self, e: pl.Expr, key: pl.Expr, between: str, value: pl.Expr, null: str) -> pl.Expr:
        return e.list.eval(pl.concat_str(key.fill_null(null), pl.lit(between), value.fill_null(null)))

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        return self._pairs(e, lambda part, x: part.sql(x, zone))

    def display(self, e: pl.Expr, zone: str) -> pl.Expr:
        return self._pairs(e, lambda part, x: part.display(x, zone))

    def legacy(self, e: pl.Expr, zone: str) -> pl.Expr:
        return self._pairs(e, lambda part, x: part.legacy(x, zone), "null")

    def _pairs(self, e: pl.Expr, text: Callable[[Codec, pl.Expr], pl.Expr], null: str = "NULL") -> pl.Expr:
        entry = pl.element().struct
        key, value = text(self.key, entry.field("key")), text(self.value, entry.field("value"))
        return _around(e, "{", self._entries(e, key, "=", value, null).list.join(", "), "}")

    def java(self, e: pl.Expr) -> pl.Expr:
        """In the order of a ``java.util.HashMap``."""
        entry = pl.element().struct
        key, value = self.key.java(entry.field("key")), self.value.java(entry.field("value"))
        entries = e.map_batches(self._hash_order, return_dtype=self.type.polars(), is_elementwise=True)
        return _around(e, "{", self._entries(entries, key, "=", value, "null").list.join(", "), "}")

    def _hash_order(self, series: pl.Series) -> pl.Series:
        series = _last_of_each_key(series)
        if (series.list.len() <= 1).all():
            return series
        keys = series.to_frame("v").select(pl.col("v").list.eval(pl.element().struct.field("key")))["v"].to_list()
        long = self.key.type.root == "BIGINT"
        order = [None if keys_of_map is None else hash_map_order(keys_of_map, long) for keys_of_map in keys]
        return series.list.gather(pl.Series(order, dtype=pl.List(pl.UInt32)))

    def json(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        entry = pl.element().struct
        key = entry.field("key")
        if style.null_key == "DROP":
            e = e.list.eval(pl.element().filter(key.is_not_null()))
        if self.key.type.is_string:
            key = key.fill_null(style.null_literal)
        text = self.key.json(key, style)
        if not self.key.has_quotes:  # a key of JSON is a text, which may hold the quotes of a nested key
            text = codec(STRING).json(text, style)
        text = text.fill_null(json_string(style.null_literal))
        if style.functions:
            e = e.list.eval(pl.element().sort_by(text))
        e = e.map_batches(_last_of_each_key, return_dtype=self.type.polars(), is_elementwise=True)
        body = self._entries(e, text, ":", self.value.json(entry.field("value"), style), "null")
        return _around(e, "{", body.list.join(","), "}")

    def null_keys(self, e: pl.Expr) -> pl.Expr | None:
        return e.list.eval(pl.element().struct.field("key").is_null()).list.any()

    def decoder(self) -> Callable[[Any], Any]:
        key, value = self.key.decoder() or _same, self.value.decoder() or _same

        def entries(cells: Any) -> dict[Any, Any]:
            pairs = ((e["key"], e["value"]) for e in cells)
            return {None if k is None else key(k): None if x is None else value(x) for k, x in pairs}

        return entries

    def of_object(self, value: Any) -> list[dict[str, Any]]:
        if self.type.root == "MULTISET":
            raise NoValueError
        items = of_class(value, dict).items()
        return [{"key": self.key.encode(k), "value": self.value.encode(x)} for k, x in items]


def _same(value: Any) -> Any:
    return value


def _last_of_each_key(series: pl.Series) -> pl.Series:
    """Maps with one entry per key."""
    key, maps = pl.element().struct.field("key"), pl.col("maps")
    frame = series.alias("maps").to_frame()
    if not frame.select((maps.list.eval(key).list.n_unique() < maps.list.len()).any()).item():
        return series
    return frame.select(maps.list.eval(pl.element().filter(key.is_last_distinct()))).to_series()


class _Row(Opaque):
    def __init__(self, t: LogicalType) -> None:
        super().__init__(t)
        self.names = [f.name for f in t.fields]
        self.parts = [codec(f.type) for f in t.fields]

    def _fields(self, e: pl.Expr) -> list[tuple[Codec, pl.Expr]]:
        return [(part, e.struct.field(name)) for name, part in zip(self.names, self.parts, strict=True)]

    def sql(self, e: pl.Expr, zone: str) -> pl.Expr:
        texts = [part.sql(field, zone).fill_null("NULL") for part, field in self._fields(e)]
        return _around(e, "(", _concat(texts, ", "), ")")

    def display(self, e: pl.Expr, zone: str) -> pl.Expr:
        texts = [part.display(field, zone).fill_null("NULL") for part, field in self._fields(e)]
        return _around(e, "(", _concat(texts, ", "), ")")

    def legacy(self, e: pl.Expr, zone: str) -> pl.Expr:
        texts = [part.legacy(field, zone).fill_null("null") for part, field in self._fields(e)]
        return _around(e, "(", _concat(texts, ","), ")")

    def java(self, e: pl.Expr) -> pl.Expr:
        texts = [part.java(field).fill_null("null") for part, field in self._fields(e)]
        return _around(e, "+I[", _concat(texts, ", "), "]")

    def field(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        texts = [part.field(field, style).fill_null(style.null) for part, field in self._fields(e)]
        return pl.when(e.is_not_null()).then(_concat(texts, style.separator))

    def json(self, e: pl.Expr, style: FieldStyle) -> pl.Expr:
        fields = list(zip(self.names, (part.json(field, style) for part, field in self._fields(e)), strict=True))
        if style.functions:
            fields.sort(key=lambda f: java_order(f[0]))
        return pl.when(e.is_not_null()).then(json_object([n for n, _ in fields], [v for _, v in fields], style))

    def null_keys(self, e: pl.Expr) -> pl.Expr | None:
        expressions = [x for x in (part.null_keys(field) for part, field in self._fields(e)) if x is not None]
        return pl.any_horizontal(expressions) if expressions else None

    def decoder(self) -> Callable[[Any], Any]:
        names, decoders = self.names, [part.decoder() or _same for part in self.parts]

        def row(fields: Any) -> Row:
            cells = [None if fields[n] is None else d(fields[n]) for n, d in zip(names, decoders, strict=True)]
            return Row.of(names, cells)

        return row

    def of_object(self, value: Any) -> dict[str, Any]:
        cells = [value.get(n) for n in self.names] if isinstance(value, dict) else of_class(value, tuple, list)
        if len(cells) != len(self.parts):
            raise NoValueError
        return {n: part.encode(x) for n, part, x in zip(self.names, self.parts, cells, strict=True)}


def json_object(names: Sequence[str], values: Sequence[pl.Expr], style: FieldStyle) -> pl.Expr:
    """A JSON object per row: a key for each name, with the JSON value of its column."""
    return json_fields([(pl.lit(json_string(n)), v) for n, v in zip(names, values, strict=True)], style.skip_nulls)


def json_fields(fields: Sequence[tuple[pl.Expr, pl.Expr]], skip_nulls: bool) -> pl.Expr:
    """A JSON object per row: keys from columns of names in quotes, values from columns of JSON values."""
    return _json_list("{", [(pl.concat_str(name, pl.lit(":")), value) for name, value in fields], "}", skip_nulls)


def json_items(values: Sequence[pl.Expr], skip_nulls: bool) -> pl.Expr:
    """A JSON list per row, of the JSON values in the columns."""
    return _json_list("[", [(pl.lit(""), value) for value in values], "]", skip_nulls)


def _json_list(start: str, items: Sequence[tuple[pl.Expr, pl.Expr]], end: str, skip_nulls: bool) -> pl.Expr:
    if skip_nulls:
        parts = [pl.concat_str(pl.lit(","), label, value).fill_null("") for label, value in items]
        return pl.concat_str(pl.lit(start), _concat(parts, "").str.strip_prefix(","), pl.lit(end))
    parts = [pl.lit(start)]
    for i, (label, value) in enumerate(items):
        parts += [pl.lit("," if i else ""), label, value.fill_null("null")]
    return pl.concat_str(*parts, pl.lit(end))


_NESTED: dict[str, type[Codec]] = {"ARRAY": _Array, "MAP": _Map, "MULTISET": _Map, "ROW": _Row}


@lru_cache(maxsize=1024)
def codec(t: LogicalType) -> Codec:
    """The codec of a type."""
    return (ATOMIC | _NESTED).get(t.root, Opaque)(t)


def plan_value(t: LogicalType, value: Any) -> Any:
    """A constant of a plan in the form that Polars takes: numbers, Decimal of the type's scale, datetime objects
    (nanoseconds as an int), timedelta, months.

    Raises:
        PlanError: PLAN079, for a value that does not fit the type, or a type without constants.
    """
    value_codec = codec(t)
    if not value_codec.atomic:
        raise PlanError("PLAN079.unreadable_type", t=t.summary())
    try:
        return value_codec.constant(value)
    except (ValueError, ArithmeticError, TypeError, AttributeError) as cause:
        raise PlanError("PLAN079.not_of_type", value=value, t=t.summary()) from cause
