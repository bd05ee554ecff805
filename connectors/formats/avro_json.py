"""Avro's JSON encoding of values: values of a union are objects with the name of their type, bytes are texts.

Source: "JSON Encoding" in the specification of Avro 1.12, and Java's ``JsonEncoder`` and ``JsonDecoder``, which Flink
uses: an object must have every field of its record, and may have more.
"""

from __future__ import annotations

import json
import math
from typing import Any

from stateplan.connectors.formats.avro_schema import Node, full_name

_NUMBERS = {"int": 32, "long": 64}
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encoded(node: Node, value: Any) -> bytes:
    """The text of a value, as fastavro takes it, in UTF-8."""
    return json.dumps(_encode_value(node, value), ensure_ascii=False, separators=(",", ":")).encode()


def _encode_value(node: Node, value: Any) -> Any:
    kind = node.kind
    if kind == "union":
        if value is None:
            return None
        branch = next(branch for branch in node.branches if branch.kind != "null")
        return {_label(branch): _encode_value(branch, value)}
    if kind == "record":
        return {f["name"]: _encode_value(node.inner(f["type"]), value[f["name"]]) for f in node.fields}
    if kind == "array":
        items = node.inner(node.schema["items"])
        return [_encode_value(items, item) for item in value]
    if kind == "map":
        values = node.inner(node.schema["values"])
        return {key: _encode_value(values, inner) for key, inner in value.items()}
    if kind in ("bytes", "fixed"):
        return value.decode("latin-1")
    if kind in ("float", "double") and not math.isfinite(value):
        return next(
            name for name, number in _SPECIAL.items() if number == value or (number != number and value != value)
        )
    return value


def _label(node: Node) -> str:
    """The name of a type in a union."""
    if node.kind in ("record", "enum", "fixed"):
        return full_name(node.schema, node.namespace)[0]
    return node.kind


def decoded(node: Node, message: bytes) -> Any:
    """The value of a text, as fastavro returns it.

    Raises:
        ValueError: when it is not a value of the schema.
    """
    try:
        return _decode_value(node, json.loads(message.decode()))
    except RecursionError as error:
        raise ValueError("the values are nested too deeply") from error


def _decode_value(node: Node, value: Any) -> Any:
    kind = node.kind
    if kind == "union":
        return _of_union(node, value)
    if kind == "null" and value is None:
        return None
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind in _NUMBERS and isinstance(value, int) and not isinstance(value, bool):
        limit = 1 << (_NUMBERS[kind] - 1)
        if -limit <= value < limit:
            return value
    if kind in ("float", "double"):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and value in _SPECIAL:
            return _SPECIAL[value]
    if kind == "string" and isinstance(value, str):
        return value
    if kind == "enum" and value in node.schema["symbols"]:
        return value
    if kind in ("bytes", "fixed") and isinstance(value, str):
        return value.encode("latin-1")
    if kind == "array" and isinstance(value, list):
        items = node.inner(node.schema["items"])
        return [_decode_value(items, item) for item in value]
    if kind == "map" and isinstance(value, dict):
        values = node.inner(node.schema["values"])
        return {key: _decode_value(values, inner) for key, inner in value.items()}
    if kind == "record" and isinstance(value, dict):
        lacks = next((f["name"] for f in node.fields if f["name"] not in value), None)
        if lacks is not None:
            raise ValueError(f"the field '{lacks}' is missing")
        return {f["name"]: _decode_value(node.inner(f["type"]), value[f["name"]]) for f in node.fields}
    raise ValueError(f"{json.dumps(value)[:80]} is not a value of the type {node}")


def _of_union(node: Node, value: Any) -> Any:
    if value is None and any(branch.kind == "null" for branch in node.branches):
        return None
    if isinstance(value, dict) and len(value) == 1:
        ((label, inner),) = value.items()
        for branch in node.branches:
            if label == _label(branch):
                return _decode_value(branch, inner)
    names = [_label(branch) for branch in node.branches if branch.kind != "null"]
    raise ValueError(f"{json.dumps(value)[:80]} is not an object with the name of its type: {', '.join(names)}")
