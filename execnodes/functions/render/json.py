"""How JSON functions run: Python's json over simple paths."""

from __future__ import annotations

import json
import re
from functools import lru_cache, partial
from typing import Any

import polars as pl

from stateplan.execnodes.errors import DataError, RunError
from stateplan.execnodes.functions.render.base import Renderer, renders
from stateplan.execnodes.functions.render.rowwise import rowwise
from stateplan.execnodes.rex import Call, Literal, Rex
from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.values.atomic import FieldStyle
from stateplan.execnodes.values.codecs import codec, json_fields, json_items
from stateplan.execnodes.values.floats import double_text

_LISTED = "JSON_VALUE, JSON_QUERY, JSON_EXISTS, IS JSON"


class _MissingError(Exception):
    """The path leads nowhere, or the text is not JSON."""


_STEP = re.compile(r"""\.([A-Za-z_$][\w$-]*)|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|(\[\*\]|\.\*)""")


@lru_cache(maxsize=512)
def _path(text: str) -> tuple[bool, tuple[str | int | None, ...]]:
    """Whether the path is lax, and its steps: names, indexes, None for all. Raises RunError RUN303."""
    mode = re.match(r"\s*(lax|strict)\s+", text, re.I)
    rest = text[mode.end() :].strip() if mode else text.strip()
    steps: list[str | int | None] = []
    pos = 1
    while pos < len(rest):
        match = _STEP.match(rest, pos)
        if match is None:
            break
        name = next((g for g in match.groups()[:3] if g is not None), None)
        steps.append(name if name is not None else int(match[4]) if match[4] else None)
        pos = match.end()
    if not rest.startswith("$") or pos != len(rest):
        raise RunError("RUN303.path", text=text)
    return bool(mode and mode[1].lower() == "lax"), tuple(steps)


def _reject(text: str) -> Any:
    raise ValueError(text)


@lru_cache(maxsize=16)
def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_reject)
    except (ValueError, RecursionError) as cause:
        raise _MissingError from cause


def _walk(value: Any, steps: tuple[str | int | None, ...]) -> Any:
    for i, step in enumerate(steps):
        if step is None:
            items = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
            found = []
            for x in items:
                try:
                    found.append(_walk(x, steps[i + 1 :]))
                except _MissingError:
                    continue
            return found
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                raise _MissingError
        elif not isinstance(value, dict) or step not in value:
            raise _MissingError
        value = value[step]
    return value


def _lookup(text: str, path: str) -> Any:
    lax, steps = _path(path)
    try:
        return _walk(_parse(text), steps)
    except _MissingError:
        if lax:
            return None
        raise


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
        return float(value) if t.root == "DOUBLE" else int(value)
    except (ValueError, KeyError, TypeError) as cause:
        raise _MissingError from cause


def _behaviours(operands: tuple[Rex, ...]) -> dict[str, tuple[str, Any]]:
    """``ON EMPTY`` and ``ON ERROR``: NULL, ERROR or DEFAULT, and the default."""
    out: dict[str, tuple[str, Any]] = {"EMPTY": ("NULL", None), "ERROR": ("NULL", None)}
    behaviour, default = "NULL", None
    for operand in operands:
        if isinstance(operand, Literal) and operand.symbol == "JSON_EMPTY_OR_ERROR":
            out[str(operand.value)] = (behaviour, default)
            behaviour, default = "NULL", None
        elif isinstance(operand, Literal) and operand.symbol is not None:
            behaviour = str(operand.value)
        elif isinstance(operand, Literal):
            default = operand.value
        else:
            raise RunError("RUN303.behaviours")
    return out


@renders("JSON_VALUE")
def json_value(r: Renderer, call: Call) -> pl.Expr:
    text, path = call.operands[:2]
    behaviours = _behaviours(call.operands[2:])

    def otherwise(event: str) -> Any:
        behaviour, default = behaviours[event]
        if behaviour == "ERROR":
            raise DataError("DATA302", wording="nothing" if event == "EMPTY" else "no value")
        return default if behaviour == "DEFAULT" else None

    def one(value: str, where: str) -> Any:
        try:
            found = _lookup(value, where)
            if isinstance(found, dict | list) and _path(where)[0]:
                return None
            return otherwise("EMPTY") if found is None else _scalar(found, call.type)
        except _MissingError:
            return otherwise("ERROR")

    return rowwise(one, [r.expr(text), r.expr(path)], call.type.polars(), _LISTED)


@renders("JSON_EXISTS")
def json_exists(r: Renderer, call: Call) -> pl.Expr:
    flag = call.operands[2] if len(call.operands) > 2 else None
    on_error = str(flag.value) if isinstance(flag, Literal) else "FALSE"

    def one(value: str, where: str) -> bool | None:
        try:
            return _lookup(value, where) is not None
        except _MissingError:
            if on_error == "ERROR":
                raise DataError("DATA302.one") from None
            return {"TRUE": True, "FALSE": False}.get(on_error)

    return rowwise(one, r.args(call)[:2], pl.Boolean, _LISTED)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@renders("JSON_QUERY")
def json_query(r: Renderer, call: Call) -> pl.Expr:
    wrapper, *outcomes = [str(o.value) for o in call.operands[2:] if isinstance(o, Literal)] or ["WITHOUT_ARRAY"]
    on = dict(zip(("EMPTY", "ERROR"), outcomes, strict=False))
    empty = {"EMPTY_ARRAY": "[]", "EMPTY_OBJECT": "{}"}

    def otherwise(event: str) -> str | None:
        behaviour = on.get(event, "NULL")
        if behaviour == "ERROR":
            raise DataError("DATA302.otherwise")
        return empty.get(behaviour)

    def one(value: str, where: str) -> str | None:
        try:
            found = _lookup(value, where)
        except _MissingError:
            return otherwise("ERROR")
        container = isinstance(found, dict | list)
        if wrapper == "WITH_UNCONDITIONAL_ARRAY" or (wrapper == "CONDITIONAL_ARRAY" and not container):
            return _compact([found])
        if found is None:
            return otherwise("EMPTY")
        return _compact(found) if container else otherwise("ERROR")

    return rowwise(one, r.args(call)[:2], pl.String, _LISTED)


_KINDS: dict[str, tuple[type, ...]] = {"VALUE": (object,), "OBJECT": (dict,), "ARRAY": (list,)}


def _is_json(text: str, kind: str) -> bool:
    try:
        value = _parse(text)
    except _MissingError:
        return False
    return not isinstance(value, dict | list) if kind == "SCALAR" else isinstance(value, _KINDS[kind])


def _predicate(r: Renderer, call: Call, kind: str, negated: bool) -> pl.Expr:
    result = rowwise(lambda text: _is_json(text, kind), r.args(call), pl.Boolean, _LISTED).fill_null(False)
    return ~result if negated else result


for _kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR"):
    renders(f"IS JSON {_kind}")(partial(_predicate, kind=_kind, negated=False))
    renders(f"IS NOT JSON {_kind}")(partial(_predicate, kind=_kind, negated=True))


_STYLE = FieldStyle(standard="ISO-8601", decimals="plain", functions=True)


@renders("JSON_STRING")
def json_string(r: Renderer, call: Call) -> pl.Expr:
    return _json(r, call.operands[0])


def _json(r: Renderer, operand: Rex) -> pl.Expr:
    """A value as JSON. A call that makes JSON is put in as it is."""
    e = r.expr(operand)
    embedded = isinstance(operand, Call) and operand.name in ("JSON_OBJECT", "JSON_ARRAY", "JSON_QUERY")
    return e if embedded else codec(operand.type).json(e, _STYLE)


def _on_null(call: Call) -> bool:
    flag = call.operands[0]
    return isinstance(flag, Literal) and flag.value == "ABSENT"


@renders("JSON_OBJECT")
def json_object(r: Renderer, call: Call) -> pl.Expr:
    pairs = call.operands[1:]
    fields: dict[object, tuple[pl.Expr, pl.Expr]] = {}
    for key, value in zip(pairs[0::2], pairs[1::2], strict=True):
        label = codec(key.type).json(r.expr(key), _STYLE)
        fields[key.value if isinstance(key, Literal) else key] = (label, _json(r, value))
    return json_fields(list(fields.values()), _on_null(call))


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
            value = _parse(text)
        except _MissingError:
            return text
        return value if isinstance(value, str) else text
    return text


@renders("JSON_UNQUOTE")
def json_unquote(r: Renderer, call: Call) -> pl.Expr:
    text = r.expr(call.operands[0])
    within = text.str.starts_with('"') & text.str.ends_with('"')
    slow = rowwise(_unquote, [pl.when(within).then(text)], pl.String, "JSON_UNQUOTE")
    return pl.when(within).then(slow).otherwise(text)
