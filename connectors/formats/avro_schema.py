"""Avro schemas of tables, as Flink derives them, and what can be said of schemas without reading a value.

Source: Flink's ``AvroSchemaConverter``. A schema is its JSON: a text, a list (a union) or an object. Importing this
loads no engine and no library for Avro.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from stateplan.common.types import INT, STRING, LogicalType, row_type
from stateplan.connectors.formats.base import Fields

Schema: TypeAlias = Any
"""A schema as JSON: a text, a list or an object."""

Names: TypeAlias = dict[str, Any]
"""Full name of a record, enum or fixed to its schema."""

NAMESPACE = "org.apache.flink.avro.generated"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {"NULL": "null", "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INTEGER": "int"} | {
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "bytes",
    "VARBINARY": "bytes",
}
_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}
_TIMESTAMPS = {f"{kind}timestamp-{name}": unit for unit, name in _UNITS.items() for kind in ("", "local-")}
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class NotHeldError(Exception):
    """A column that Avro cannot hold.

    Attributes:
        column: its name.
        data_type: the type, or the part of it, that cannot be held.
        reason: why.
    """

    def __init__(self, column: str, data_type: LogicalType | None, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.declared_type = data_type
        self.reason = reason


def table_schema(fields: Fields, legacy: bool) -> Schema:
    """The schema of rows of a table.

    Args:
        fields: name and type of the columns.
        legacy: whether TIMESTAMP is ``timestamp-millis``; else TIMESTAMP is one of the ``local-timestamp`` types and
            TIMESTAMP_LTZ one of the ``timestamp`` types.

    Raises:
        NotHeldError: for a column that Flink refuses too.
    """
    return _Deriving(legacy).schema(row_type(list(fields), nullable=False), "record")


def event_schema(fields: Fields) -> Schema:
    """The schema of Debezium's events of a table: a nullable record with ``before``, ``after`` and ``op``. Raises as
    :func:`table_schema`."""
    return _Deriving(True).schema(event_type(fields), "record")


def event_type(fields: Fields) -> LogicalType:
    """The type of Debezium's events of a table. Source: Flink's ``DebeziumAvroDeserializationSchema``."""
    row = row_type(list(fields))
    return row_type([("before", row), ("after", row), ("op", STRING)])


class _Deriving:
    """Types to schemas. Records have names that are unique in the whole schema."""

    def __init__(self, legacy: bool) -> None:
        self.legacy = legacy
        self.column = ""
        self.schemas_by_name: dict[str, Schema] = {}

    def schema(self, data_type: LogicalType, name: str, legacy: bool | None = None) -> Schema:
        base = self._base(data_type, name, self.legacy if legacy is None else legacy)
        return ["null", base] if data_type.nullable and base != "null" else base

    def _base(self, data_type: LogicalType, name: str, legacy: bool) -> Schema:
        root = data_type.root
        if root in _PLAIN:
            return _PLAIN[root]
        if root == "DATE":
            return {"type": "int", "logicalType": "date"}
        if root == "TIME_WITHOUT_TIME_ZONE":
            if (data_type.precision or 0) > 3:
                raise NotHeldError(self.column, data_type, "Avro holds TIME with up to 3 digits of a second")
            return {"type": "int", "logicalType": "time-millis"}
        if data_type.is_timestamp:
            return self._timestamp(data_type, legacy)
        if root == "DECIMAL":
            digits = {"precision": data_type.precision or 10, "scale": data_type.scale or 0}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        # Flink forgets the mapping of timestamps within lists and maps.
        if root == "ARRAY":
            return {"type": "array", "items": self.schema(data_type.children[0], name, True)}
        if root in ("MAP", "MULTISET"):
            if not data_type.children[0].is_string:
                raise NotHeldError(self.column, data_type, "the keys of Avro's maps are text")
            value = data_type.children[1] if root == "MAP" else INT
            return {"type": "map", "values": self.schema(value, name, True)}
        if root == "ROW":
            return self._record(data_type, name, legacy)
        raise NotHeldError(self.column, data_type, "Avro has no such type")

    def _timestamp(self, data_type: LogicalType, legacy: bool) -> Schema:
        has_zone = data_type.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
        if legacy and (has_zone or data_type.time_unit() != "ms"):
            raise NotHeldError(self.column, data_type, "Flink's mapping of timestamps to Avro has TIMESTAMP(3) only")
        kind = "timestamp-" if has_zone or legacy else "local-timestamp-"
        return {"type": "long", "logicalType": kind + _UNITS[data_type.time_unit()]}

    def _record(self, data_type: LogicalType, name: str, legacy: bool) -> Schema:
        fields = []
        for field in data_type.fields:
            if name == "record":
                self.column = field.name
            if not _NAME.fullmatch(field.name):
                raise NotHeldError(self.column, None, f"'{field.name}' is not a name in Avro")
            field_schema = {"name": field.name, "type": self.schema(field.type, f"{name}_{field.name}", legacy)}
            fields.append(field_schema | ({"default": None} if field.type.nullable else {}))
        record = {"type": "record", "name": name, "fields": fields}
        if name == "record":
            return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}
        if name in self.schemas_by_name:
            if self.schemas_by_name[name] != record:
                raise NotHeldError(self.column, data_type, f"two records of the schema are called '{name}'")
            return name
        self.schemas_by_name[name] = record
        return record


def schema_text(schema: Schema) -> str:
    """The JSON of a schema without spaces, as Java's Avro writes it."""
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


# ---- schemas of others -----------------------------------------------------------------------------------------


def named_schemas(schema: Schema, names: Names, namespace: str = "") -> Names:
    """Adds the records, enums and fixed of a schema to ``names``, and returns ``names``."""
    for full, node, _ in _with_names(schema, namespace):
        names[full] = node
    return names


def _with_names(schema: Schema, namespace: str) -> Iterator[tuple[str, Schema, str]]:
    if isinstance(schema, list):
        for branch in schema:
            yield from _with_names(branch, namespace)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            full, namespace = full_name(schema, namespace)
            yield full, schema, namespace
            for field in schema.get("fields", ()):
                yield from _with_names(field.get("type"), namespace)
        elif kind in ("array", "map"):
            yield from _with_names(schema.get("items", schema.get("values")), namespace)
        elif not isinstance(kind, str):
            yield from _with_names(kind, namespace)


def full_name(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """The full name of a named schema within a namespace, and the namespace of what is in it."""
    name = str(schema.get("name", ""))
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = str(schema.get("namespace", namespace))
    return (f"{inner}.{name}" if inner else name), inner


def plain_schema(schema: Schema) -> Schema:
    """A schema without logical types: a library that reads with it gives numbers and bytes as they are."""
    if isinstance(schema, list):
        return [plain_schema(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: v for k, v in schema.items() if k not in ("logicalType", "precision", "scale")}
    for key in ("type", "items", "values"):
        if isinstance(out.get(key), (dict, list)):
            out[key] = plain_schema(out[key])
    if "fields" in out:
        out["fields"] = [{**field, "type": plain_schema(field["type"])} for field in out["fields"]]
    return out


def timestamp_unit(logical: str | None) -> str | None:
    """``ms``, ``us`` or ``ns`` of a logical type of timestamps; None for another."""
    return _TIMESTAMPS.get(logical or "")


class Node:
    """A schema where it is in a larger one.

    Attributes:
        kind: ``record``, ``enum``, ``fixed``, ``array``, ``map``, ``union`` or a primitive type.
        schema: the JSON of it, with its name resolved.
        logical: its logical type, or None.
    """

    def __init__(self, schema: Schema, names: Names, namespace: str = "") -> None:
        while isinstance(schema, dict) and isinstance(schema.get("type"), (dict, list)):
            schema = schema["type"]
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            full = f"{namespace}.{schema}" if namespace and "." not in schema else schema
            schema = names.get(full, names.get(schema, schema))
            namespace = full.rpartition(".")[0]
        self.names = names
        self.namespace = namespace
        self.schema = schema
        self.logical: str | None = None
        if isinstance(schema, list):
            self.kind = "union"
        elif isinstance(schema, dict):
            self.kind = "record" if schema["type"] == "error" else str(schema["type"])
            self.logical = schema.get("logicalType")
            if self.kind in ("record", "enum", "fixed"):
                self.namespace = full_name(schema, namespace)[1]
        else:
            self.kind = str(schema)

    def inner(self, schema: Schema) -> Node:
        """A schema that is written within this one."""
        return Node(schema, self.names, self.namespace)

    @property
    def branches(self) -> list[Node]:
        """The schemas of a union; of another schema itself."""
        return [self.inner(branch) for branch in self.schema] if self.kind == "union" else [self]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The fields of a record."""
        return list(self.schema.get("fields", ()))

    def __str__(self) -> str:
        """The schema for messages."""
        if self.kind == "union":
            return "[" + ", ".join(map(str, self.branches)) + "]"
        if self.kind in ("array", "map"):
            return f"{self.kind} of {self.inner(self.schema['items' if self.kind == 'array' else 'values'])}"
        if self.logical == "decimal":
            return f"decimal({self.schema.get('precision')}, {self.schema.get('scale', 0)})"
        if self.kind in ("record", "enum", "fixed"):
            return f"{self.kind} {self.schema['name']}"
        return self.logical or self.kind


def nullable_branch(node: Node) -> tuple[Node, int, int] | None:
    """The schema of a union that is not null, and the positions of both; None for a schema that is not such a union."""
    branches = node.branches
    kinds = [branch.kind for branch in branches]
    if node.kind != "union" or len(branches) != 2 or kinds.count("null") != 1:
        return None
    at = 1 - kinds.index("null")
    return branches[at], at, 1 - at


def standalone(node: Node, names: set[str] | None = None) -> Schema:
    """A schema with the definitions of all names in it, and without logical types."""
    names = set() if names is None else names
    if node.kind == "union":
        return [standalone(branch, names) for branch in node.branches]
    if node.kind in ("array", "map"):
        key = "items" if node.kind == "array" else "values"
        return {"type": node.kind, key: standalone(node.inner(node.schema[key]), names)}
    if node.kind not in ("record", "enum", "fixed"):
        return node.kind
    name = full_name(node.schema, node.namespace)[0]
    if name in names:
        return name
    names.add(name)
    if node.kind != "record":
        return {"type": node.kind, "name": name} | {k: node.schema[k] for k in ("symbols", "size") if k in node.schema}
    fields = [{"name": f["name"], "type": standalone(node.inner(f["type"]), names)} for f in node.fields]
    return {"type": "record", "name": name, "fields": fields}


_TYPES = {
    "null": LogicalType("NULL"),
    "boolean": LogicalType("BOOLEAN", False),
    "int": LogicalType("INTEGER", False),
    "long": LogicalType("BIGINT", False),
    "float": LogicalType("FLOAT", False),
    "double": LogicalType("DOUBLE", False),
    "string": STRING.not_null(),
    "enum": STRING.not_null(),
    "bytes": LogicalType("VARBINARY", False, length=2147483647),
}


def type_of(node: Node) -> LogicalType:
    """The type that Flink gives a schema that a user wrote (with its first mapping of timestamps).

    Raises:
        ValueError: for one without a type, such as a union of several types.
    """
    kind, logical = node.kind, node.logical
    if kind == "union":
        branch = nullable_branch(node)
        if branch is not None:
            return type_of(branch[0]).as_nullable()
        if len(node.branches) == 1:
            return type_of(node.branches[0])
        raise ValueError(f"{node} is not a column type")
    if kind == "record":
        return row_type([(f["name"], type_of(node.inner(f["type"]))) for f in node.fields], nullable=False)
    if kind == "array":
        return LogicalType("ARRAY", False, children=(type_of(node.inner(node.schema["items"])),))
    if kind == "map":
        return LogicalType("MAP", False, children=(STRING.not_null(), type_of(node.inner(node.schema["values"]))))
    if logical == "decimal":
        digits = {"precision": node.schema["precision"], "scale": node.schema.get("scale", 0)}
        return LogicalType("DECIMAL", False, **digits)
    if kind == "fixed":
        return LogicalType("VARBINARY", False, length=node.schema["size"])
    if kind == "int" and logical == "date":
        return LogicalType("DATE", False)
    if kind == "int" and logical == "time-millis":
        return LogicalType("TIME_WITHOUT_TIME_ZONE", False, precision=3)
    if kind == "long" and logical in ("timestamp-millis", "timestamp-micros"):
        return LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", False, precision=3 if logical.endswith("millis") else 6)
    if kind == "long" and logical == "time-micros":
        return LogicalType("TIME_WITHOUT_TIME_ZONE", False, precision=6)
    if kind in _TYPES:
        return _TYPES[kind]
    raise ValueError(f"{node} is not a column type")
