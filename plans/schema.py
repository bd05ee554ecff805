"""The JSON Schema (draft 2020-12) of a plan, for editors: made from the node models, one branch per node type.

It says what the models say: keys, types, enumerations, how many states a node has, what a TTL looks like, with the
docstrings as descriptions. What holds between nodes (edges, field positions) only loading a plan can check. It is
stricter than loading where an editor had better ask: keys that Flink does not know, an index written as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from stateplan.execnodes.flink import FLINK_NODES, FlinkNode
from stateplan.execnodes.graph import FLINK_VERSIONS
from stateplan.execnodes.nodes.base import TTL_OPTIONS, ExecNode
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.execnodes.registry import node_classes
from stateplan.execnodes.shadows import SHADOW, SIDES
from stateplan.execnodes.specs import StateMetadata
from stateplan.functions.rex import DIRECTIONS
from stateplan.plans.schema_words import WORDS, attribute_words, summary

SCHEMA_ID = "urn:stateplan:plan:1"

Schema = dict[str, Any]

_UNITS = (
    "d", "day", "days", "h", "hour", "hours", "min", "m", "minute", "minutes", "s", "sec", "secs", "second", "seconds",
    "ms", "milli", "millis", "millisecond", "milliseconds", "µs", "micro", "micros", "microsecond", "microseconds",
    "ns", "nano", "nanos", "nanosecond", "nanoseconds",
)  # fmt: skip

_COMMON = ("id", "type", "configuration", "inputProperties", "outputType", "description", "stateplan", "state")

_STATE = (
    "How long each state of the operator lives: an entry for each. Without entries, the option table.exec.state.ttl "
    "counts."
)

_COMPILED: Schema = {
    "type": "array",
    "description": "What the compiler wrote as TTL of each state, and why. Leave it. It shows later edits.",
    "items": {
        "type": "object",
        "properties": {"ttl": {"$ref": "#/$defs/TTL"}, "from": {"enum": ["hint", "function", "option", "default"]}},
        "required": ["ttl", "from"],
        "additionalProperties": False,
    },
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
    "TABLE_ARG_CALL": ("inputIndex", "type"),
}
_REX_TEXTS = (
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
)


_TTLS = {
    "1 h": "An hour after it was last written.",
    "36 h": "A day and a half after it was last written.",
    "7 d": "A week after it was last written.",
    "90 min": "An hour and a half after it was last written.",
    "1500 ms": "A second and a half after it was last written.",
    "PT1H": "An hour after it was last written, as ISO-8601 says it.",
    "0 ms": "It never expires.",
}


def _any_case(word: str) -> str:
    return "".join(f"[{c}{c.upper()}]" if c.isascii() else c for c in word)


def _ttl() -> Schema:
    units = "|".join(_any_case(unit) for unit in _UNITS)
    iso = r"\+?[pP]([+-]?[0-9]+[dD])?([tT]([+-]?[0-9]+[hH])?([+-]?[0-9]+[mM])?([+-]?[0-9]+([.,][0-9]{0,9})?[sS])?)?"
    words = "How long a state lives after it was last written."
    return {
        "title": "TTL",
        "description": f"{words} 0 ms: it never expires. A whole number and a unit, or an ISO-8601 duration; a number "
        "without unit is milliseconds.",
        "markdownDescription": f"{words} `0 ms`: it never expires.\n\nA whole number and a unit (`d`, `h`, `min`, `s`, "
        "`ms` and their longer names), or an ISO-8601 duration such as `PT1H`; a number without unit is milliseconds.",
        "type": ["string", "integer"],
        "pattern": rf"^\s*([0-9]+\s*({units})?|{iso})\s*$",
        "patternErrorMessage": 'Not a duration: a whole number and one unit (d, h, min, s, ms), such as "36 h" or '
        '"90 min"; "0 ms" never expires.',
        "minimum": 0,
        "examples": list(_TTLS),
        "defaultSnippets": [{"label": f'"{ttl}"', "description": about, "body": ttl} for ttl, about in _TTLS.items()],
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
            "kind": {"enum": list(_REX_KINDS), "description": WORDS["kind"]},
            "inputIndex": index | {"description": "Position of the field in the input; of a table, of the input."},
            "partitionKeys": {"type": "array", "items": index, "description": "Fields of PARTITION BY."},
            "orderKeys": {"type": "array", "items": index, "description": "Fields of ORDER BY."},
            "orderDirections": {"type": "array", "items": {"enum": list(DIRECTIONS)}},
            "value": {"description": "Value of a literal."},
            "sarg": {"type": "object", "description": "The ranges of a search."},
            "operands": {"type": "array", "items": rex, "description": WORDS["operands"]},
            "expr": rex,
            "type": {"$ref": "#/$defs/LogicalType"},
            **{key: _describe(text, WORDS.get(key)) for key in _REX_TEXTS},
        },
        "allOf": [_when("kind", kind, {"required": list(needed_keys)}) for kind, needed_keys in _REX_KINDS.items()],
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


def _when(key: str, value: str, consequence: Schema) -> Schema:
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": consequence}


_REFERENCES = ("LogicalType", "RexNode", "TTL")


def _own_schema(schema: Any) -> Any:
    """A schema of pydantic without generated titles and defaults, with what we describe ourselves by reference."""
    if isinstance(schema, list):
        return [_own_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("title") in _REFERENCES:
        return {"$ref": f"#/$defs/{schema['title']}"}
    own_schema: Schema = {}
    words = attribute_words(schema["description"]) if isinstance(schema.get("description"), str) else {}
    for key, value in schema.items():
        if key in ("title", "default") and not isinstance(value, dict):
            continue
        if key == "properties":
            own_schema[key] = {
                name: _describe(_own_schema(part), words.get(name) or WORDS.get(name)) for name, part in value.items()
            }
        elif key == "description":
            own_schema[key] = summary(value)
        elif key != "default":
            own_schema[key] = _own_schema(value)
    return own_schema


def _describe(schema: Schema, words: str | None) -> Schema:
    """A schema with words for people, when it has none."""
    return {**schema, "description": words} if words and "description" not in schema else schema


def _states(names: tuple[str, ...]) -> Schema:
    """The ``state`` key of a node with these states: all of them or none; ``name-*`` is one per input."""
    several = any(name.endswith("*") for name in names)
    slots = ", ".join(names if several else (f"{index} {name}" for index, name in enumerate(names)))
    entry = _own_schema(StateMetadata.model_json_schema(by_alias=True))
    entry["properties"]["index"]["description"] = f"{WORDS['index']} States: {slots}."
    entry["properties"]["name"]["description"] = f"For people: the index says which state it is. States: {slots}."
    schema: Schema = {"description": f"{_STATE} States: {slots}.", "type": ["array", "null"], "items": entry}
    if several:
        return schema
    entry["properties"]["index"]["maximum"] = len(names) - 1
    entry["properties"]["name"]["examples"] = list(names)
    entries = [{"index": index, "ttl": f"${{{index + 1}:1 h}}", "name": name} for index, name in enumerate(names)]
    schema["maxItems"] = len(names)
    schema["defaultSnippets"] = [{"label": "an entry for each state", "description": slots, "body": entries}]
    return schema | {"if": {"type": "array", "minItems": 1}, "then": {"minItems": len(names)}}


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
    side = {
        "type": "string",
        "pattern": "^(late-rows( of .+)?|parse-errors of .+)$",
        "description": "What the sink gets: the rows that operators drop because they come late, or invalid input of a "
        "table.",
    }
    late = {
        "type": "array",
        "items": {"type": ["string", "null"]},
        "description": "Per input, the table of the LATE_ROWS hint: its late rows go to the sink of that table.",
    }
    shadow = {
        "enum": list(SIDES),
        "description": "The plan of a job with a shadow that the sink belongs to: the old plan writes its tables.",
    }
    own = {**_FACTS, "sideOutput": side, SHADOW: shadow} if sink else {"lateRows": late}
    return {
        "description": WORDS["stateplan"],
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "uid": uid,
            "compiledTtl": _COMPILED,
            "suppress": suppress,
            **own,
        },
    }


def _finished(branch: Schema, type_name: str, sink: bool) -> Schema:
    """The branch of one node type: its ``type`` fixed, common keys described."""
    properties = branch["properties"]
    for key in properties:
        properties[key] = _describe(properties[key], WORDS.get(key))
    properties["configuration"] = _configuration()
    properties["type"] = {"const": type_name, "description": branch["description"]}
    properties["stateplan"] = _stateplan(sink)
    branch["required"] = list(dict.fromkeys(["id", "type", *branch.get("required", ())]))
    branch["title"] = type_name
    return branch


def _configuration() -> Schema:
    ttl = {
        "allOf": [{"$ref": "#/$defs/TTL"}, {"type": "string"}],
        "description": "How long the states of this node live when it has no entries in its state list.",
    }
    return {
        "description": WORDS["configuration"],
        "type": ["object", "null"],
        "properties": dict.fromkeys(TTL_OPTIONS, ttl),
        "additionalProperties": {"type": "string"},
    }


def _branch(cls: type[ExecNode], raw: Schema) -> Schema:
    branch: Schema = _own_schema(raw)
    branch["description"] = summary(cls.__doc__)
    if "state" in branch["properties"]:
        branch["properties"]["state"] = _states(cls.STATE_NAMES)
    return _finished(branch, cls.type_name(), "sink" in cls.NAME)


def _opaque_branch(node: FlinkNode, version: int, common: Schema) -> Schema:
    """The branch of a node type that Flink has and that does not run here: its keys, not what is in them."""
    properties: Schema = {key: common["properties"][key] for key in _COMMON if key in common["properties"]}
    del properties["state"]
    properties |= {key: {} for key in node.fields}
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
            "shuffle": {
                "description": "Always FORWARD: rows are spread by exchange nodes.",
                "type": "object",
                "properties": {"type": {"const": "FORWARD"}},
                "additionalProperties": False,
            },
            "shuffleMode": {"const": "PIPELINED", "description": "Always PIPELINED."},
        },
    }


@cache
def plan_schema() -> Schema:
    """The schema. The result is shared: do not change it."""
    from pydantic.json_schema import models_json_schema

    # All in one go: what they have in common is worked out once.
    models: list[type[ExecNode]] = [*node_classes().values(), OpaqueNode]
    refs, generated_schema = models_json_schema([(cls, "validation") for cls in models], by_alias=True)
    parts = {cls: generated_schema["$defs"].pop(refs[cls, "validation"]["$ref"].rpartition("/")[2]) for cls in models}
    definitions = {name: _own_schema(part) for name, part in generated_schema["$defs"].items()}
    branches = {cls.type_name(): _branch(cls, parts[cls]) for cls in node_classes().values()}
    common = _own_schema(parts[OpaqueNode])
    for node in FLINK_NODES.values():
        for version in node.versions:
            type_name = f"{node.name}_{version}"
            branches.setdefault(type_name, _opaque_branch(node, version, common))
    definitions |= {"LogicalType": _logical_type(), "RexNode": _rex(), "TTL": _ttl(), "Edge": _edge()}
    definitions["Node"] = {
        "description": "An operator.",
        "type": "object",
        "required": ["id", "type"],
        "properties": {
            "type": {
                "description": "NAME_VERSION of the operator.",
                "enum": sorted(branches),
                "enumDescriptions": [branches[name]["description"] for name in sorted(branches)],
            }
        },
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
            "nodes": {
                "description": "The operators, in any order.",
                "type": "array",
                "minItems": 1,
                "items": {"$ref": "#/$defs/Node"},
            },
            "edges": {
                "description": "Which operator feeds which; several into one are its inputs, in this order.",
                "type": "array",
                "items": {"$ref": "#/$defs/Edge"},
            },
        },
        "$defs": dict(sorted({**definitions, **branches}.items())),
    }
