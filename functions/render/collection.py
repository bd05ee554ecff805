"""How ARRAY, MAP and ROW functions run. A MAP is held as a list of (key, value) structs in insertion order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from stateplan.common.errors import DataError, RunError
from stateplan.common.types import LogicalType
from stateplan.common.values.variants import VariantError, variant_part
from stateplan.functions.collection import row_item
from stateplan.functions.render.base import Renderer, renders, renders_by_values
from stateplan.functions.render.casts import convert
from stateplan.functions.render.rowwise import rowwise
from stateplan.functions.rex import Call, FieldAccess, Literal, Rex


def _where_known(operands: Sequence[pl.Expr], result: pl.Expr) -> pl.Expr:
    """``result`` on rows where no operand is NULL."""
    return pl.when(*(e.is_not_null() for e in operands)).then(result)


@renders("ARRAY")
def array(r: Renderer, call: Call) -> pl.Expr:
    inner = call.type.children[0]
    return _list_of([convert(r.expr(o), o.type, inner).cast(inner.polars()) for o in call.operands], inner)


def _list_of(values: Sequence[pl.Expr], t: LogicalType) -> pl.Expr:
    """One list per row. Polars would join lists."""
    if not isinstance(t.polars(), pl.List):
        return pl.concat_list(values)
    return pl.concat_list([pl.struct(v=e) for e in values]).list.eval(pl.element().struct.field("v"))


@renders("MAP")
def map_(r: Renderer, call: Call) -> pl.Expr:
    key, value = call.type.children
    entries = [
        pl.struct(
            key=convert(r.expr(k), k.type, key).cast(key.polars()),
            value=convert(r.expr(v), v.type, value).cast(value.polars()),
        )
        for k, v in zip(call.operands[0::2], call.operands[1::2], strict=True)
    ]
    return pl.concat_list(entries)


def _last_wins(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """A later entry replaces an earlier one with the same key, in its place."""

    def run(s: pl.Series) -> pl.Series:
        duplicates = s.list.eval(pl.element().struct.field("key").is_duplicated()).list.any()
        if not duplicates.any():
            return s
        rows = [
            None if v is None else [{"key": k, "value": x} for k, x in {i["key"]: i["value"] for i in v}.items()]
            for v in s.to_list()
        ]
        return pl.Series(rows, dtype=s.dtype)

    return e.map_batches(run, return_dtype=t.polars(), is_elementwise=True)


@renders("ROW")
def row(r: Renderer, call: Call) -> pl.Expr:
    return pl.struct(
        [convert(r.expr(o), o.type, f.type).alias(f.name) for f, o in zip(call.type.fields, call.operands, strict=True)]
    )


@renders("ITEM")
def item(r: Renderer, call: Call) -> pl.Expr:
    container, index = call.operands
    if container.type.root == "ROW":
        return r.expr(FieldAccess(call.type, row_item(container.type, index).name, container))
    e, at = r.expr(container), r.expr(index)
    if container.type.root == "ARRAY":
        if isinstance(index, Literal) and isinstance(index.value, int) and index.value < 1:
            raise RunError("RUN303")
        position = at.cast(pl.Int64)
        return pl.when(position >= 1).then(e.list.get(position - 1, null_on_oob=True))
    if container.type.root == "VARIANT":
        return rowwise(_variant_part, [e, at], pl.String, "PARSE_JSON, TRY_PARSE_JSON, VARIANT[key]")
    return _map_value(e, container.type, at, index)


def _variant_part(value: str, key: str | int) -> str | None:
    try:
        return variant_part(value, key)
    except VariantError as cause:
        raise DataError("DATA302.missing_part", value=value, key=key, problem=cause) from cause


def _map_value(e: pl.Expr, t: LogicalType, key: pl.Expr, rex: Rex) -> pl.Expr:
    if isinstance(rex, Literal):
        entry = pl.element()
        hit = e.list.eval(
            pl.when(entry.struct.field("key") == key)
            .then(entry.struct.field("value"))
            .filter(entry.struct.field("key") == key)
        )
        return hit.list.get(0, null_on_oob=True)

    def find(entries: list[dict[str, Any]], wanted_key: Any) -> Any:
        return next((x["value"] for x in entries if x["key"] == wanted_key), None)

    return rowwise(find, [e, key], t.children[1].polars(), "MAP['key']")


renders_by_values(
    {
        "CARDINALITY": lambda e: e.list.len().cast(pl.Int32),
        "ARRAY_DISTINCT": lambda e: e.list.unique(maintain_order=True),
        "ARRAY_REVERSE": lambda e: e.list.reverse(),
        "ARRAY_MIN": lambda e: e.list.min(),
        "ARRAY_MAX": lambda e: e.list.max(),
        "MAP_KEYS": lambda e: e.list.eval(pl.element().struct.field("key")),
        "MAP_VALUES": lambda e: e.list.eval(pl.element().struct.field("value")),
        "MAP_ENTRIES": lambda e: e,
    }
)


@renders("ELEMENT")
def element(r: Renderer, call: Call) -> pl.Expr:
    e = r.expr(call.operands[0])
    r.fail_where(e.list.len() > 1, "ELEMENT", "{} has more than one element", e)
    return e.list.get(0, null_on_oob=True)


def _element_operand(r: Renderer, call: Call) -> tuple[pl.Expr, pl.Expr]:
    inner = call.operands[0].type.children[0]
    return r.expr(call.operands[0]), convert(r.expr(call.operands[1]), call.operands[1].type, inner)


@renders("ARRAY_CONTAINS")
def contains(r: Renderer, call: Call) -> pl.Expr:
    e, value = _element_operand(r, call)
    return _where_known([e], e.list.contains(value, nulls_equal=True))


@renders("ARRAY_POSITION")
def position(r: Renderer, call: Call) -> pl.Expr:
    def find(items: list[Any], value: Any) -> int:
        return items.index(value) + 1 if value in items else 0

    return rowwise(find, list(_element_operand(r, call)), pl.Int32, "ARRAY_POSITION, ARRAY_REMOVE")


@renders("ARRAY_APPEND", "ARRAY_PREPEND")
def append(r: Renderer, call: Call) -> pl.Expr:
    e, value = _element_operand(r, call)
    inner = call.type.children[0]
    addition = _list_of([value.cast(inner.polars())], inner)
    return _where_known([e], pl.concat_list([e, addition] if call.name == "ARRAY_APPEND" else [addition, e]))


@renders("ARRAY_REMOVE")
def remove(r: Renderer, call: Call) -> pl.Expr:
    def one(items: list[Any] | None, value: Any) -> list[Any] | None:
        return None if items is None else [x for x in items if x != value]

    return rowwise(one, list(_element_operand(r, call)), call.type.polars(), "ARRAY_POSITION, ARRAY_REMOVE", nulls=True)


def _distinct(items: list[Any]) -> list[Any]:
    out: list[Any] = []
    for x in items:
        if x not in out:
            out.append(x)
    return out


@renders("ARRAY_SORT")
def sort(r: Renderer, call: Call) -> pl.Expr:
    """Ascending by default. By default, NULL is first when ascending, and last when descending."""
    e, *flags = r.args(call)
    flag_values = [o.value if isinstance(o, Literal) else None for o in call.operands[1:]]
    if len(flag_values) == len(flags) and None not in flag_values:
        ascending = flag_values[0] if flag_values else True
        nulls_first = flag_values[1] if len(flag_values) > 1 else ascending
        return e.list.sort(descending=not ascending, nulls_last=not nulls_first)

    def one(items: list[Any], ascending: bool, nulls_first: bool | None = None) -> list[Any]:
        first = ascending if nulls_first is None else nulls_first
        values = sorted((x for x in items if x is not None), reverse=not ascending)
        nulls: list[Any] = [None] * (len(items) - len(values))
        return nulls + values if first else values + nulls

    return rowwise(one, [e, *flags], call.type.polars(), "ARRAY_SORT")


@renders("ARRAY_SLICE")
def slice_(r: Renderer, call: Call) -> pl.Expr:
    e, *bounds = r.args(call)
    size = e.list.len().cast(pl.Int64)

    def place(at: pl.Expr) -> pl.Expr:
        """From 1 on; negative ones count from the end, and 0 is 1."""
        at = at.cast(pl.Int64)
        return pl.when(at == 0).then(pl.lit(1, dtype=pl.Int64)).when(at < 0).then(at + size + 1).otherwise(at)

    first = pl.max_horizontal(place(bounds[0]), pl.lit(1, dtype=pl.Int64))
    last = place(bounds[1]) if len(bounds) > 1 else size
    count = pl.max_horizontal(last - first + 1, pl.lit(0, dtype=pl.Int64))
    return _where_known([e, *bounds], e.list.slice(first - 1, count))


def _converted_args(r: Renderer, call: Call) -> list[pl.Expr]:
    return [convert(r.expr(o), o.type, call.type) for o in call.operands]


@renders("ARRAY_CONCAT", "ARRAY_UNION", "MAP_UNION")
def concat(r: Renderer, call: Call) -> pl.Expr:
    parts = _converted_args(r, call)
    elements = pl.concat_list(parts)
    if call.name == "ARRAY_UNION":
        elements = elements.list.unique(maintain_order=True)
    return _where_known(parts, _last_wins(elements, call.type) if call.name == "MAP_UNION" else elements)


@renders("ARRAY_EXCEPT")
def except_(r: Renderer, call: Call) -> pl.Expr:
    def one(a: list[Any], b: list[Any]) -> list[Any]:
        return _distinct([x for x in a if x not in b])

    return rowwise(one, r.args(call), call.type.polars(), "ARRAY_EXCEPT, ARRAY_INTERSECT")


@renders("ARRAY_INTERSECT")
def intersect(r: Renderer, call: Call) -> pl.Expr:
    def one(a: list[Any], b: list[Any]) -> list[Any]:
        return _distinct([x for x in a if x in b])

    return rowwise(one, _converted_args(r, call), call.type.polars(), "ARRAY_EXCEPT, ARRAY_INTERSECT")


@renders("ARRAY_JOIN")
def join(r: Renderer, call: Call) -> pl.Expr:
    def one(items: list[str | None], between: str, null: str | None = None) -> str:
        texts = (null if x is None else x for x in items)
        return between.join(x for x in texts if x is not None)

    items, between, *null_text = call.operands
    if null_text and not (isinstance(null_text[0], Literal) and isinstance(null_text[0].value, str)):
        return rowwise(one, r.args(call), pl.String, "ARRAY_JOIN")
    e = r.expr(items)
    if null_text:
        e = e.list.eval(pl.element().fill_null(r.expr(null_text[0])))
    separator = r.expr(between)
    if not e.meta.root_names():
        e = pl.when(pl.lit(True) | separator.is_null()).then(e)  # a constant list would take the first separator alone
    return e.list.join(separator, ignore_nulls=True)


@renders("MAP_FROM_ARRAYS")
def from_arrays(r: Renderer, call: Call) -> pl.Expr:
    keys, values = r.args(call)
    r.fail_where(keys.list.len() != values.list.len(), "MAP_FROM_ARRAYS", "{} have different lengths", keys, values)

    def one(k: list[Any], v: list[Any]) -> list[dict[str, Any]]:
        return [{"key": a, "value": b} for a, b in dict(zip(k, v, strict=False)).items()]

    return rowwise(one, [keys, values], call.type.polars(), "MAP_FROM_ARRAYS")
