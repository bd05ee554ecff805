"""The JSON Schema (draft 2020-12) of a plan, for editors: made from the node models, one branch per node type.

It says what the models say: keys, types, enumerations, how many states a node has, what a TTL looks like, with the
docstrings as descriptions. What holds between nodes (edges, field positions) only loading a plan can check. It is
stricter than loading where an editor had better ask: keys that Flink does not know, an index written as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from execnodes.flink import FLINK_NODES, FlinkNode
from execnodes.graph import FLINK_VERSIONS
from execnodes.nodes.base import ExecNode
from execnodes.nodes.opaque import OpaqueNode
from execnodes.registry import registered
from execnodes.specs import StateMetadata
from plans.jsontext import join_pointer

__all__ = ["SCHEMA_ID", "SchemaError", "plan_schema", "schema_errors"]

SCHEMA_ID = "urn:stateplan:plan:1"

Schema = dict[str, Any]

_UNITS = (
    "d", "day", "days", "h", "hour", "hours", "min", "m", "minute", "minutes", "s", "sec", "secs", "second", "seconds",
    "ms", "milli", "millis", "millisecond", "milliseconds", "µs", "micro", "micros", "microsecond", "microseconds",
    "ns", "nano", "nanos", "nanosecond", "nanoseconds",
)  # fmt: skip

_COMMON = {
    "id": "Unique in the plan; edges refer to it.",
    "type": "NAME_VERSION.",
    "configuration": "Options frozen when the plan was compiled; they win over the session's.",
    "inputProperties": "What the node requires of each input.",
    "outputType": "ROW type of the node's output.",
    "description": "Free text for people; Flink names operators by it.",
    "stateplan": "Additions of stateplan, which Flink ignores.",
    "state": "How long each state lives; without entries, the TTL of the configuration applies.",
}

_FACTS: Schema = {
    "formatVersion": {"type": "integer", "minimum": 1, "description": "Version of stateplan's additions."},
    "sql": {"type": "string", "description": "The statement that was compiled."},
    "sqlHash": {"type": "string", "description": "Hash of the statement without comments and blanks."},
    "schemaHashes": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Hash of each table's schema when the plan was compiled.",
    },
}

_REX_KINDS: Mapping[str, tuple[str, ...]] = {
    "INPUT_REF": ("inputIndex", "type"),
    "LITERAL": ("type",),
    "CALL": ("type",),
    "FIELD_ACCESS": ("name", "expr"),
    "CORREL_VARIABLE": ("correl", "type"),
    "PATTERN_INPUT_REF": ("alpha", "inputIndex", "type"),
}


class SchemaError(NamedTuple):
    """A place where JSON does not fit the schema."""

    pointer: str
    message: str


def _any_case(word: str) -> str:
    return "".join(f"[{c}{c.upper()}]" if c.isascii() else c for c in word)


def _ttl() -> Schema:
    units = "|".join(_any_case(unit) for unit in _UNITS)
    iso = r"\+?[pP]([+-]?[0-9]+[dD])?([tT]([+-]?[0-9]+[hH])?([+-]?[0-9]+[mM])?([+-]?[0-9]+([.,][0-9]{0,9})?[sS])?)?"
    return {
        "title": "TTL",
        "description": "How long a state lives after it was last written. 0 ms: it never expires. A whole number and "
        "a unit, or an ISO-8601 duration; a number without unit is milliseconds.",
        "anyOf": [
            {"type": "string", "pattern": rf"^\s*([0-9]+\s*({units})?|{iso})\s*$"},
            {"type": "integer", "minimum": 0},
        ],
        "examples": ["1 h", "36 h", "7 d", "90 min", "1500 ms", "PT1H", "0 ms"],
    }


def _rex() -> Schema:
    rex = {"$ref": "#/$defs/RexNode"}
    text: Schema = {"type": "string"}
    index = {"type": "integer", "minimum": 0}
    return {
        "title": "RexNode",
        "description": "A row expression.",
        "type": "object",
        "required": ["kind"],
        "additionalProperties": False,
        "properties": {
            "kind": {"enum": list(_REX_KINDS)},
            "inputIndex": index | {"description": "Position of the field in the input."},
            "value": {"description": "Value of a literal."},
            "sarg": {"type": "object"},
            "operands": {"type": "array", "items": rex},
            "expr": rex,
            "type": {"$ref": "#/$defs/LogicalType"},
            **dict.fromkeys(
                (
                    "syntax",
                    "internalName",
                    "systemName",
                    "catalogName",
                    "sqlKind",
                    "symbol",
                    "class",
                    "name",
                    "correl",
                    "alpha",
                ),
                text,
            ),
        },
        "allOf": [_when("kind", kind, {"required": list(needed)}) for kind, needed in _REX_KINDS.items()],
    }


def _logical_type() -> Schema:
    return {
        "title": "LogicalType",
        "description": "A type as text; as an object when a part of it is a time attribute or has no text.",
        "anyOf": [
            {"type": "string", "minLength": 1, "pattern": r"^\s*[A-Za-z]"},
            {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}},
        ],
        "examples": ["BIGINT NOT NULL", "VARCHAR(2147483647)", "ROW<`a` INT, `b` DECIMAL(10, 2)>"],
    }


def _when(key: str, value: str, then: Schema) -> Schema:
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then}


def _summary(doc: str | None) -> str:
    """The first paragraph of a docstring on one line, without markup."""
    first = (doc or "").strip().split("\n\n")[0]
    return re.sub(r"\s+", " ", first).replace("``", "'").replace("\\", "")


_REFERENCES = ("LogicalType", "RexNode", "TTL")


def _cleaned(schema: Any) -> Any:
    """A schema of pydantic without generated titles and defaults, with what we describe ourselves by reference."""
    if isinstance(schema, list):
        return [_cleaned(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("title") in _REFERENCES:
        return {"$ref": f"#/$defs/{schema['title']}"}
    out: Schema = {}
    for key, value in schema.items():
        if key in ("title", "default") and not isinstance(value, dict):
            continue
        if key == "properties":
            out[key] = {name: _cleaned(part) for name, part in value.items()}
        elif key == "description":
            out[key] = _summary(value)
        elif key != "default":
            out[key] = _cleaned(value)
    return out


def _states(names: tuple[str, ...], required: bool = True) -> Schema:
    """The ``state`` key of a node with these states: all of them or none; ``name-*`` is one per input."""
    if any(name.endswith("*") for name in names):
        return {
            "description": f"{_COMMON['state']} States: one per input, {', '.join(names)}.",
            "type": ["array", "null"],
            "items": {"allOf": [{"$ref": "#/$defs/StateMetadata"}]},
        }
    slots = ", ".join(f"{index} {name}" for index, name in enumerate(names))
    entry = {
        "allOf": [{"$ref": "#/$defs/StateMetadata"}],
        "properties": {"index": {"maximum": len(names) - 1}, "name": {"examples": list(names)}},
    }
    out: Schema = {
        "description": f"{_COMMON['state']} States: {slots}.",
        "type": ["array", "null"],
        "items": entry,
        "maxItems": len(names),
    }
    if required:
        out |= {"if": {"type": "array", "minItems": 1}, "then": {"minItems": len(names)}}
    return out


def _stateplan(sink: bool) -> Schema:
    uid = {
        "type": "string",
        "description": "Name of the operator that survives recompilation; its state belongs to it.",
    }
    suppress = {
        "type": "object",
        "additionalProperties": {"type": "string", "minLength": 1},
        "description": "Findings of plan lint that are accepted here: code of the rule, and the reason.",
    }
    return {
        "description": _COMMON["stateplan"],
        "type": "object",
        "additionalProperties": False,
        "properties": {"uid": uid, "suppress": suppress, **(_FACTS if sink else {})},
    }


def _finished(branch: Schema, type_name: str, sink: bool) -> Schema:
    """The branch of one node type: its ``type`` fixed, common keys described."""
    properties = branch["properties"]
    for key, text in _COMMON.items():
        if key in properties:
            properties[key] = {**properties[key], "description": properties[key].get("description", text)}
    properties["type"] = {"const": type_name}
    properties["stateplan"] = _stateplan(sink)
    branch["required"] = list(dict.fromkeys(["id", "type", *branch.get("required", ())]))
    branch["title"] = type_name
    return branch


def _branch(cls: type[ExecNode], definitions: Schema) -> Schema:
    raw = cls.model_json_schema(by_alias=True)
    for name, definition in raw.pop("$defs", {}).items():
        definitions[name] = _cleaned(definition)
    branch: Schema = _cleaned(raw)
    branch["description"] = _summary(cls.__doc__)
    if "state" in branch["properties"]:
        branch["properties"]["state"] = _states(cls.STATE_NAMES)
    return _finished(branch, cls.type_name(), "sink" in cls.NAME)


def _opaque_branch(node: FlinkNode, version: int, common: Schema) -> Schema:
    """The branch of a node type that Flink has and that does not run here: its keys, not what is in them."""
    properties: Schema = {key: dict(common["properties"][key]) for key in _COMMON if key in common["properties"]}
    del properties["state"]
    properties |= {key: {} for key in node.fields}
    if node.states and not node.states[0].endswith("*"):
        properties["state"] = _states(node.states)
    elif node.states:
        properties["state"] = {"type": ["array", "null"], "items": {"$ref": "#/$defs/StateMetadata"}}
    branch = {
        "description": f"{node.about}. Not supported yet: such a plan can be shown and edited, not run.",
        "type": "object",
        "properties": properties,
        "required": ["outputType"],
        "additionalProperties": False,
    }
    return _finished(branch, f"{node.name}_{version}", sink=False)


def _edge() -> Schema:
    return {
        "description": "Rows go from source to target. The order of the edges into a node is the order of its inputs.",
        "type": "object",
        "required": ["source", "target"],
        "additionalProperties": False,
        "properties": {
            "source": {"type": "integer", "minimum": 0, "description": "Id of the node that emits."},
            "target": {"type": "integer", "minimum": 0, "description": "Id of the node that receives."},
            "shuffle": {"type": "object", "properties": {"type": {"const": "FORWARD"}}, "additionalProperties": False},
            "shuffleMode": {"const": "PIPELINED"},
        },
    }


@cache
def plan_schema() -> Schema:
    """The schema. The result is shared: do not change it."""
    definitions: Schema = {}
    branches = {cls.type_name(): _branch(cls, definitions) for cls in registered().values()}
    raw = OpaqueNode.model_json_schema(by_alias=True)
    definitions |= {name: _cleaned(part) for name, part in raw.pop("$defs", {}).items()}
    common = _cleaned(raw)
    for node in FLINK_NODES.values():
        for version in node.versions:
            type_name = f"{node.name}_{version}"
            branches.setdefault(type_name, _opaque_branch(node, version, common))
    definitions |= {"LogicalType": _logical_type(), "RexNode": _rex(), "TTL": _ttl(), "Edge": _edge()}
    definitions["StateMetadata"] |= {"description": _summary(StateMetadata.__doc__)}
    definitions["Node"] = {
        "description": "An operator.",
        "type": "object",
        "required": ["id", "type"],
        "properties": {"type": {"enum": sorted(branches), "description": _COMMON["type"]}},
        "allOf": [_when("type", name, {"$ref": f"#/$defs/{name}"}) for name in sorted(branches)],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Compiled plan",
        "description": "A streaming query as Flink compiles it: operators, and the edges between them.",
        "type": "object",
        "required": ["flinkVersion", "nodes", "edges"],
        "additionalProperties": False,
        "properties": {
            "flinkVersion": {"enum": list(FLINK_VERSIONS), "description": "Version of Flink whose format this is."},
            "nodes": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Node"}},
            "edges": {"type": "array", "items": {"$ref": "#/$defs/Edge"}},
        },
        "$defs": dict(sorted({**definitions, **branches}.items())),
    }


def schema_errors(data: Any) -> tuple[SchemaError, ...]:
    """Where the JSON of a plan does not fit the schema, in the order of the document; empty when it fits."""
    from jsonschema import Draft202012Validator

    found: Iterable[Any] = map(_innermost, Draft202012Validator(plan_schema()).iter_errors(data))
    errors = [SchemaError(join_pointer(list(error.absolute_path)), error.message[:300]) for error in found]
    return tuple(sorted(errors))


def _innermost(error: Any) -> Any:
    """Of a value that fits none of several forms, what is wrong with it in the form it comes closest to."""
    while error.context:
        error = max(error.context, key=lambda inner: len(inner.absolute_path))
    return error
