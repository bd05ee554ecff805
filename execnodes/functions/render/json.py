"""How JSON functions run: Python's json over simple paths."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

import polars as pl

from stateplan.execnodes.errors import DataError, RunError
from stateplan.execnodes.functions.render.base import Renderer, renders, rowwise
from stateplan.execnodes.rex import Call, Literal, Rex
from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.values.floats import double_text

__all__: list[str] = []


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

    return rowwise(one, [r.expr(text), r.expr(path)], call.type.polars())


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

    return rowwise(one, r.args(call)[:2], pl.Boolean)


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

    return rowwise(one, r.args(call)[:2], pl.String)


_KINDS: dict[str, tuple[type, ...]] = {"VALUE": (object,), "OBJECT": (dict,), "ARRAY": (list,)}


def _is_json(text: str, kind: str) -> bool:
    try:
        value = _parse(text)
    except _MissingError:
        return False
    return not isinstance(value, dict | list) if kind == "SCALAR" else isinstance(value, _KINDS[kind])


def _predicate(name: str, kind: str, negated: bool) -> None:
    @renders(name)
    def render(r: Renderer, call: Call) -> pl.Expr:
        result = rowwise(lambda text: _is_json(text, kind), r.args(call), pl.Boolean).fill_null(False)
        return ~result if negated else result


for _kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR"):
    _predicate(f"IS JSON {_kind}", _kind, False)
    _predicate(f"IS NOT JSON {_kind}", _kind, True)


class _Raw(str):
    """Text that is JSON already."""


def _plain(value: Any, t: LogicalType) -> Any:
    """A value of type ``t`` as data that the JSON writer takes."""
    if value is None:
        return None
    if t.root == "ARRAY":
        return [_plain(x, t.children[0]) for x in value]
    if t.root in ("MAP", "MULTISET"):
        inner = t.children[1] if t.root == "MAP" else LogicalType("INTEGER")
        return {str(x["key"]): _plain(x["value"], inner) for x in sorted(value, key=lambda x: str(x["key"]))}
    if t.root == "ROW":
        return {f.name: _plain(value[f.name], f.type) for f in t.fields}
    if isinstance(value, float):
        return _Raw(double_text(value + 0.0).replace("E", "E+").replace("E+-", "E-"))
    if isinstance(value, Decimal):
        return _Raw(format(value, "f"))
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds").rstrip("0").rstrip(".")
        return text + ("Z" if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else "")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    return value


def _write(value: Any) -> str:
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_compact(k)}:{_write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_write(v) for v in value) + "]"
    return _compact(value)


@renders("JSON_STRING")
def json_string(r: Renderer, call: Call) -> pl.Expr:
    t = call.operands[0].type
    e = r.expr(call.operands[0])
    if t.is_timestamp and t.time_unit() == "ns":
        zone = "Z" if t.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else ""
        text = e.dt.to_string("%Y-%m-%dT%H:%M:%S%.9f").str.strip_chars_end("0").str.strip_suffix(".")
        return pl.format('"{}{}"', text, pl.lit(zone))
    return rowwise(lambda value: _write(_plain(value, t)), [e], pl.String)


def _embedded(operand: Rex) -> bool:
    """Whether an operand is a call that makes JSON, which is put in as it is."""
    return isinstance(operand, Call) and operand.name in ("JSON_OBJECT", "JSON_ARRAY", "JSON_QUERY")


def _item(value: Any, operand: Rex) -> Any:
    return _Raw(value) if _embedded(operand) and value is not None else _plain(value, operand.type)


def _on_null(call: Call) -> bool:
    flag = call.operands[0]
    return isinstance(flag, Literal) and flag.value == "ABSENT"


@renders("JSON_OBJECT")
def json_object(r: Renderer, call: Call) -> pl.Expr:
    absent, pairs = _on_null(call), call.operands[1:]
    if not pairs:
        return pl.lit("{}")

    def one(*values: Any) -> str:
        out = {}
        for i in range(0, len(values), 2):
            value = _item(values[i + 1], pairs[i + 1])
            if not (absent and value is None):
                out[str(values[i])] = value
        return _write(out)

    return rowwise(one, [r.expr(o) for o in pairs], pl.String, nulls=True)


@renders("JSON_ARRAY")
def json_array(r: Renderer, call: Call) -> pl.Expr:
    absent, items = _on_null(call), call.operands[1:]
    if not items:
        return pl.lit("[]")

    def one(*values: Any) -> str:
        found = [_item(v, o) for v, o in zip(values, items, strict=True)]
        return _write([v for v in found if not (absent and v is None)])

    return rowwise(one, [r.expr(o) for o in items], pl.String, nulls=True)


def _quote(text: str) -> str:
    out = ['"']
    for c in text:
        if c in '"\\/':
            out.append("\\" + c)
        elif c in "\b\f\n\r\t":
            out.append({"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}[c])
        elif " " <= c <= "~":
            out.append(c)
        else:
            units = c.encode("utf-16-be")
            out.extend(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return "".join([*out, '"'])


@renders("JSON_QUOTE")
def json_quote(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(_quote, r.args(call), pl.String)


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
    return rowwise(_unquote, r.args(call), pl.String)
