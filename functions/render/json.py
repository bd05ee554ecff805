"""How JSON functions run: Python's json, and paths over what it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import polars as pl

from stateplan.common.errors import DataError
from stateplan.common.types import STRING, LogicalType
from stateplan.common.values.atomic import FieldStyle
from stateplan.common.values.codecs import codec, json_fields, json_items
from stateplan.common.values.floats import double_text
from stateplan.common.values.java_hash import java_order
from stateplan.common.values.variants import VariantError, first_json, no_constant, parse_variant
from stateplan.functions.json import is_json
from stateplan.functions.render.base import Renderer, renders
from stateplan.functions.render.jsonpath.compiler import compile_path
from stateplan.functions.render.jsonpath.cursor import JsonPathError
from stateplan.functions.render.rowwise import rowwise
from stateplan.functions.rex import Call, Literal, Rex

_ROWWISE_GROUP = "JSON_VALUE, JSON_QUERY, JSON_EXISTS, IS JSON"


class _MissingError(Exception):
    """The path leads nowhere, or the text is not JSON."""


_MODE = re.compile(r"\s*(lax|strict)\s+(.+)", re.I | re.S)


def _big_decimal(text: str) -> Decimal:
    """As Java's, which has no -0."""
    value = Decimal(text)
    return value if value else value.copy_abs()


_DECODER = json.JSONDecoder(parse_constant=no_constant, parse_float=_big_decimal)


@lru_cache(maxsize=16)
def _parse(text: str) -> Any:
    """JSON text; numbers with a fraction or exponent are Decimals, which keep their digits. What comes behind the first
    value is not read, as in Flink."""
    try:
        return first_json(_DECODER, text)
    except (ValueError, RecursionError, ArithmeticError) as cause:
        raise _MissingError from cause


def _lookup(text: str, path: str) -> tuple[Any, bool]:
    """What ``path`` leads to, and whether it is lax, where a path that leads nowhere is NULL, or [] if it may lead to
    several values.

    Raises:
        _MissingError: a strict path leads nowhere or to ``null``, the text is ``null`` or, for a strict path, no JSON,
            or the path is none.
    """
    mode = _MODE.fullmatch(path)
    lax = mode is not None and mode[1].lower() == "lax"
    try:
        document = _parse(text)
    except _MissingError:
        if lax:
            return None, lax
        raise
    if document is None:
        raise _MissingError
    try:
        result = compile_path(mode[2] if mode else path).read(document, lax)
    except (JsonPathError, LookupError, ArithmeticError, RecursionError) as cause:
        raise _MissingError from cause
    if result is None and not lax:
        raise _MissingError
    return result, lax


_TRUE_TEXT = {"true": True, "false": False}


def _scalar(value: Any, t: LogicalType) -> Any:
    """A JSON scalar as a value of type ``t``. Raises _MissingError."""
    if isinstance(value, dict | list):
        raise _MissingError
    if t.is_string:
        if isinstance(value, bool):
            return "true" if value else "false"
        return double_text(value) if isinstance(value, float) else str(value)
    try:
        if t.root == "BOOLEAN":
            return value if isinstance(value, bool) else _TRUE_TEXT[str(value).lower()]
        if isinstance(value, bool):
            raise _MissingError
        number = Decimal(value)
        if t.root == "DOUBLE":
            return float(number)
        if not -(2**31) <= number < 2**31:
            raise _MissingError
        return int(number)
    except (ValueError, KeyError, TypeError, ArithmeticError) as cause:
        raise _MissingError from cause


def _behaviours(operands: tuple[Rex, ...]) -> tuple[dict[str, tuple[str, int | None]], list[Rex]]:
    """``ON EMPTY`` and ``ON ERROR``: NULL, ERROR or DEFAULT, and which of the defaults; the defaults."""
    out: dict[str, tuple[str, int | None]] = {}
    defaults: list[Rex] = []
    behaviour, default = "NULL", None
    for operand in operands:
        if isinstance(operand, Literal) and operand.symbol == "JSON_EMPTY_OR_ERROR":
            out.setdefault(str(operand.value), (behaviour, default))
            behaviour, default = "NULL", None
        elif isinstance(operand, Literal) and operand.symbol is not None:
            behaviour = str(operand.value)
        else:
            default = len(defaults)
            defaults.append(operand)
    return out, defaults


@renders("JSON_VALUE")
def json_value(r: Renderer, call: Call) -> pl.Expr:
    """As all functions NULL if an operand is, so where a DEFAULT is NULL, too."""
    behaviours, defaults = _behaviours(call.operands[2:])

    def otherwise(event: str, values: tuple[Any, ...]) -> Any:
        behaviour, default = behaviours.get(event, ("NULL", None))
        if behaviour == "ERROR":
            raise DataError("DATA302", what="nothing" if event == "EMPTY" else "no value", name="JSON_VALUE")
        if behaviour == "NULL" or default is None:
            return None
        try:
            return _scalar(values[default], call.type)
        except _MissingError as cause:
            raise DataError("DATA302.default", type=call.type.summary()) from cause

    def one(value: str, path: str, *values: Any) -> Any:
        try:
            item, lax = _lookup(value, path)
            if item is None or (lax and isinstance(item, dict | list)):
                return otherwise("EMPTY", values)
            return _scalar(item, call.type)
        except _MissingError:
            return otherwise("ERROR", values)

    exprs = [r.expr(o) for o in (*call.operands[:2], *defaults)]
    return rowwise(one, exprs, call.type.polars(), _ROWWISE_GROUP)


@renders("JSON_EXISTS")
def json_exists(r: Renderer, call: Call) -> pl.Expr:
    flag = call.operands[2] if len(call.operands) > 2 else None
    on_error = str(flag.value) if isinstance(flag, Literal) else "FALSE"

    def one(value: str, path: str) -> bool | None:
        try:
            return _lookup(value, path)[0] is not None
        except _MissingError:
            if on_error == "ERROR":
                raise DataError("DATA302", name="JSON_EXISTS", what="no value") from None
            return {"TRUE": True, "FALSE": False}.get(on_error)

    return rowwise(one, r.args(call)[:2], pl.Boolean, _ROWWISE_GROUP)


def _compact(value: Any) -> str:
    """JSON without blanks, its keys in Java's order."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_compact(k)}:{_compact(value[k])}" for k in sorted(value, key=java_order)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    if isinstance(value, float):
        return double_text(value)
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _texts(value: Any) -> list[str | None]:
    """The items of a JSON array as texts. Raises _MissingError for an object."""
    if isinstance(value, dict):
        raise _MissingError
    return [None if x is None else _compact(x) if isinstance(x, dict | list) else _scalar(x, STRING) for x in value]


@renders("JSON_QUERY")
def json_query(r: Renderer, call: Call) -> pl.Expr:
    wrapper, *outcomes = [str(o.value) for o in call.operands[2:] if isinstance(o, Literal)] or ["WITHOUT_ARRAY"]
    wrapper = wrapper.removeprefix("WITH_")
    on = dict(zip(("EMPTY", "ERROR"), outcomes, strict=False))
    of_array = call.type.root == "ARRAY"
    empty: dict[str, object] = {"EMPTY_ARRAY": [] if of_array else "[]", "EMPTY_OBJECT": "{}"}

    def otherwise(event: str) -> object:
        behaviour = on.get(event, "NULL")
        if behaviour == "ERROR":
            raise DataError("DATA302", name="JSON_QUERY", what="no array or object")
        return empty.get(behaviour)

    def one(value: str, path: str) -> object:
        try:
            item, lax = _lookup(value, path)
            unwrapped = item is None or wrapper == "WITHOUT_ARRAY"
            if not unwrapped and (wrapper == "UNCONDITIONAL_ARRAY" or not isinstance(item, list)):
                item = [item]
            if item is None or (lax and not isinstance(item, dict | list)):
                return otherwise("EMPTY")
            if not isinstance(item, dict | list):
                return otherwise("ERROR")
            return _texts(item) if of_array else _compact(item)
        except _MissingError:
            return otherwise("ERROR")

    return rowwise(one, r.args(call)[:2], call.type.polars(), _ROWWISE_GROUP)


_KINDS: dict[str, tuple[type, ...]] = {"VALUE": (object,), "OBJECT": (dict,), "ARRAY": (list,)}


def _is_json(text: str, kind: str) -> bool:
    try:
        value = _parse(text)
    except _MissingError:
        return False
    return not isinstance(value, dict | list) if kind == "SCALAR" else isinstance(value, _KINDS[kind])


def _predicate(r: Renderer, call: Call, kind: str, negated: bool) -> pl.Expr:
    result = rowwise(lambda text: _is_json(text, kind), r.args(call), pl.Boolean, _ROWWISE_GROUP).fill_null(False)
    return ~result if negated else result


for _kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR"):
    renders(f"IS JSON {_kind}")(partial(_predicate, kind=_kind, negated=False))
    renders(f"IS NOT JSON {_kind}")(partial(_predicate, kind=_kind, negated=True))


_STYLE = FieldStyle(standard="ISO-8601", decimals="plain", functions=True)


def _parses(r: Renderer, call: Call, otherwise: Callable[[str, VariantError], str | None]) -> pl.Expr:
    def one(text: str, duplicates: bool = False) -> str | None:
        try:
            return parse_variant(text, duplicates)
        except VariantError as cause:
            return otherwise(text, cause)

    return rowwise(one, r.args(call), pl.String, "PARSE_JSON, TRY_PARSE_JSON, VARIANT[key]")


def _fail(text: str, cause: VariantError) -> str:
    raise DataError("DATA302.invalid_json", text=text, cause=cause) from cause


renders("PARSE_JSON")(partial(_parses, otherwise=_fail))
renders("TRY_PARSE_JSON")(partial(_parses, otherwise=lambda text, cause: None))


@renders("JSON_STRING")
def json_string(r: Renderer, call: Call) -> pl.Expr:
    return _json(r, call.operands[0])


def _json_at_start(text: str) -> str | None:
    """The JSON that the text begins with; NULL for a text of blanks."""
    try:
        return _compact(_parse(text)) if text.strip() else None
    except _MissingError as error:
        raise DataError("DATA302.not_json", text=text, cause=error.__cause__) from error.__cause__


@renders("JSON")
def json_of_text(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(_json_at_start, r.args(call), pl.String, _ROWWISE_GROUP)


def _json(r: Renderer, operand: Rex) -> pl.Expr:
    """A value as JSON. A call that makes JSON is put in as it is. A map with a NULL key fails the job."""
    e = r.expr(operand)
    if is_json(operand):
        return e
    nulls = codec(operand.type).null_keys(e)
    if nulls is not None:
        r.fail_where(nulls, "JSON_STRING", "{} has a NULL as a key", e)
    return codec(operand.type).json(e, _STYLE)


def _on_null(call: Call) -> bool:
    flag = call.operands[0]
    return isinstance(flag, Literal) and flag.value == "ABSENT"


@renders("JSON_OBJECT")
def json_object(r: Renderer, call: Call) -> pl.Expr:
    """In the order of its keys, of which the last of those that are the same counts."""
    keys, values = call.operands[1::2], [_json(r, v) for v in call.operands[2::2]]
    absent = _on_null(call)
    constant = {str(k.value): v for k, v in zip(keys, values, strict=True) if isinstance(k, Literal)}
    if len(constant) == len(keys):
        return json_fields([(pl.lit(_compact(k)), constant[k]) for k in sorted(constant, key=java_order)], absent)

    def one(*cells: str | None) -> str:
        pairs = zip(cells[::2], cells[1::2], strict=True)
        fields = {str(k): v or "null" for k, v in pairs if v is not None or not absent}
        return "{" + ",".join(f"{_compact(k)}:{fields[k]}" for k in sorted(fields, key=java_order)) + "}"

    cells = [e for k, v in zip(keys, values, strict=True) for e in (r.expr(k), v)]
    return rowwise(one, cells, pl.String, "JSON_OBJECT", nulls=True)


@renders("JSON_ARRAY")
def json_array(r: Renderer, call: Call) -> pl.Expr:
    return json_items([_json(r, o) for o in call.operands[1:]], _on_null(call))


_SHORT = {c: "\\" + c for c in '"\\/'} | {
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def _quote(text: str) -> str:
    out = ['"']
    for c in text:
        if c in _SHORT:
            out.append(_SHORT[c])
        elif " " <= c <= "~":
            out.append(c)
        else:
            units = c.encode("utf-16-be")
            out.extend(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return "".join([*out, '"'])


@renders("JSON_QUOTE")
def json_quote(r: Renderer, call: Call) -> pl.Expr:
    text = r.expr(call.operands[0])
    plain = text.str.contains(r"^[ -~\x08\x0c\n\r\t]*$")
    escaped = text.str.replace_many(list(_SHORT), list(_SHORT.values()))
    slow = rowwise(_quote, [pl.when(~plain).then(text)], pl.String, "JSON_QUOTE")
    return pl.when(plain).then(pl.concat_str(pl.lit('"'), escaped, pl.lit('"'))).otherwise(slow)


def _unquote(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, str) else text
    return text


@renders("JSON_UNQUOTE")
def json_unquote(r: Renderer, call: Call) -> pl.Expr:
    text = r.expr(call.operands[0])
    within = text.str.starts_with('"') & text.str.ends_with('"')
    slow = rowwise(_unquote, [pl.when(within).then(text)], pl.String, "JSON_UNQUOTE")
    return pl.when(within).then(slow).otherwise(text)
