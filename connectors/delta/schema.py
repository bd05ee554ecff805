"""Types of Delta tables and SQL types, each way.

Source: the schema serialization of Delta's protocol; ``Conversions`` of Delta's Flink connector. ``timestamp`` is an
instant, TIMESTAMP_LTZ(6), and ``timestamp_ntz`` is TIMESTAMP(6). Importing this loads no engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Sized
from dataclasses import field
from typing import Any

from stateplan.common.errors import CatalogError, Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_LENGTH,
    SMALLINT,
    STRING,
    TINYINT,
    LogicalType,
    row_type,
)
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.lake_columns import check_lake_columns

MICROSECONDS = 6
"""Digits of a second that a Delta timestamp has."""

_BYTES = LogicalType("VARBINARY", length=MAX_LENGTH)
_INSTANT = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=MICROSECONDS)
_WALL_TIME = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=MICROSECONDS)

_PLAIN: dict[str, LogicalType] = {
    "string": STRING,
    "long": BIGINT,
    "integer": INT,
    "short": SMALLINT,
    "byte": TINYINT,
    "float": FLOAT,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "binary": _BYTES,
    "date": DATE,
    "timestamp": _INSTANT,
    "timestamp_ntz": _WALL_TIME,
}
"""Delta types that are one word."""

_WORDS = {plain_type.root: word for word, plain_type in _PLAIN.items()} | {"CHAR": "string", "BINARY": "binary"}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")
"""Characters that the name of a column cannot have. Source: Delta's protocol, tables without column mapping."""

DeltaType = Any
"""The type of a column as a Delta log writes it: a word, or an object."""


@dataclass(frozen=True)
class DeltaColumn:
    """A column of a Delta table.

    Attributes:
        name: of it.
        type: as the log writes it.
        nullable: whether it may be NULL.
        metadata: what the log says of it besides.
    """

    name: str
    type: DeltaType
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def declared_type(self) -> LogicalType | None:
        """The SQL type of it; None for a type that SQL does not have."""
        data_type = sql_type(self.type)
        return None if data_type is None else data_type.as_nullable(self.nullable)

    @property
    def type_text(self) -> str:
        """The type for messages."""
        return type_text(self.type)


def columns_of(schema: dict[str, Any]) -> list[DeltaColumn]:
    """The columns of a schema as the log writes it."""
    return [
        DeltaColumn(f["name"], f["type"], bool(f.get("nullable", True)), f.get("metadata") or {})
        for f in schema["fields"]
    ]


def sql_type(stored_type: DeltaType) -> LogicalType | None:
    """The SQL type that holds all values of a Delta type; None if there is none."""
    if isinstance(stored_type, str):
        decimal = _DECIMAL.fullmatch(stored_type)
        if decimal is not None:
            return LogicalType("DECIMAL", precision=int(decimal[1]), scale=int(decimal[2]))
        return _PLAIN.get(stored_type)
    if stored_type.get("type") == "array":
        element = _part(stored_type["elementType"], stored_type.get("containsNull", True))
        return None if element is None else LogicalType("ARRAY", children=(element,))
    if stored_type.get("type") == "map":
        key = _part(stored_type["keyType"], False)
        value = _part(stored_type["valueType"], stored_type.get("valueContainsNull", True))
        return None if key is None or value is None else LogicalType("MAP", children=(key, value))
    if stored_type.get("type") == "struct":
        fields = [(f["name"], _part(f["type"], f.get("nullable", True))) for f in stored_type["fields"]]
        typed_fields = [(name, data_type) for name, data_type in fields if data_type is not None]
        return row_type(typed_fields) if typed_fields and len(typed_fields) == len(fields) else None
    return None


def _part(stored_type: DeltaType, nullable: bool) -> LogicalType | None:
    data_type = sql_type(stored_type)
    return None if data_type is None else data_type.as_nullable(nullable)


def type_text(stored_type: DeltaType) -> str:
    """A Delta type for messages: ``array<long>``."""
    if isinstance(stored_type, str):
        return stored_type
    if stored_type.get("type") == "array":
        return f"array<{type_text(stored_type['elementType'])}>"
    if stored_type.get("type") == "map":
        return f"map<{type_text(stored_type['keyType'])}, {type_text(stored_type['valueType'])}>"
    if stored_type.get("type") == "struct":
        return "struct<" + ", ".join(f"{f['name']}: {type_text(f['type'])}" for f in stored_type["fields"]) + ">"
    return str(stored_type.get("type"))


def delta_type(data_type: LogicalType) -> DeltaType:
    """The Delta type of a SQL type that :func:`check_columns` lets pass.

    Raises:
        ValueError: it does not exist.
    """
    if data_type.is_timestamp and (data_type.precision or 0) > MICROSECONDS:
        raise ValueError("timestamps of Delta have microseconds")
    if data_type.root in _WORDS:
        return _WORDS[data_type.root]
    if data_type.root == "DECIMAL":
        return f"decimal({data_type.precision},{data_type.scale or 0})"
    if data_type.root == "ARRAY":
        element = data_type.children[0]
        return {"type": "array", "elementType": delta_type(element), "containsNull": element.nullable}
    if data_type.root == "MAP":
        key, value = data_type.children
        if key.nullable and key.root in ("ARRAY", "MAP", "ROW"):
            raise ValueError("keys of maps in Delta are no NULL")
        return {
            "type": "map",
            "keyType": delta_type(key),
            "valueType": delta_type(value),
            "valueContainsNull": value.nullable,
        }
    if data_type.root == "ROW" and data_type.fields:
        return {"type": "struct", "fields": schema_of([(f.name, f.type) for f in data_type.fields])}
    raise ValueError("Delta has no such type")


def schema_of(fields: Fields) -> list[dict[str, Any]]:
    """The fields of a schema as the log writes them. Raises the same errors as :func:`delta_type`."""
    return [
        {"name": name, "type": delta_type(data_type), "nullable": data_type.nullable, "metadata": {}}
        for name, data_type in fields
    ]


def check_partitions(columns: Sized, partitions: Sequence[str]) -> None:
    """Raises CatalogError CAT033, all columns are partition keys: files would hold no column, and so no row."""
    if partitions and len(partitions) == len(columns):
        raise CatalogError("CAT033.every_column", names=", ".join(partitions))


def check_columns(fields: Fields, place: Place | None = None) -> None:
    """Checks that a Delta table can have these columns.

    Raises:
        CatalogError: CAT102, a type that Delta does not have, or a name that it cannot have.
    """

    def check_names(name: str, data_type: LogicalType) -> None:
        for part in _names(name, data_type):
            if bad := _NOT_IN_NAMES & set(part):
                raise CatalogError("CAT102.characters_of_name", name=part, bad=sorted(bad), place=place)

    check_lake_columns(fields, "a Delta table", delta_type, check_names, place)


def _names(name: str, data_type: LogicalType) -> Iterator[str]:
    yield name
    for child in data_type.children:
        yield from (n for f in child.fields for n in _names(f.name, f.type))
    for inner in data_type.fields:
        yield from _names(inner.name, inner.type)


_WIDER = {
    "SMALLINT": ("byte", "short"),
    "INTEGER": ("byte", "short", "integer"),
    "BIGINT": ("byte", "short", "integer", "long"),
    "DOUBLE": ("float", "double"),
}
"""Delta types whose values a SQL type holds, where there are several."""


def holds(data_type: LogicalType, stored_type: DeltaType) -> bool:
    """Whether a column of this type can be read from a Delta column. A text is not checked for its length, and a
    timestamp loses the digits that the column does not have, as with Flink's file formats."""
    if isinstance(stored_type, str):
        decimal = _DECIMAL.fullmatch(stored_type)
        if decimal is not None:
            if data_type.root != "DECIMAL":
                return False
            precision, scale = data_type.precision or 10, data_type.scale or 0
            return scale >= int(decimal[2]) and precision - scale >= int(decimal[1]) - int(decimal[2])
        return stored_type in _WIDER.get(data_type.root, (_WORDS.get(data_type.root),))
    kind = stored_type.get("type")
    if kind == "array":
        return data_type.root == "ARRAY" and holds(data_type.children[0], stored_type["elementType"])
    if kind == "map":
        inner = (stored_type["keyType"], stored_type["valueType"])
        return data_type.root == "MAP" and all(map(holds, data_type.children, inner))
    if kind == "struct":
        stored_fields = {f["name"]: f["type"] for f in stored_type["fields"]}
        return data_type.root == "ROW" and all(
            f.name in stored_fields and holds(f.type, stored_fields[f.name]) for f in data_type.fields
        )
    return False


def fits(data_type: LogicalType, stored_type: DeltaType, nullable: bool) -> bool:
    """Whether all values of a column of this type can be written to a Delta column."""
    if data_type.nullable and not nullable:
        return False
    try:
        own = delta_type(data_type)
    except ValueError:
        return False
    return (
        own == stored_type
        if isinstance(own, str)
        else not isinstance(stored_type, str) and _parts_fit(data_type, stored_type)
    )


def _parts_fit(data_type: LogicalType, stored_type: dict[str, Any]) -> bool:
    kind = stored_type.get("type")
    if data_type.root == "ARRAY":
        return kind == "array" and fits(
            data_type.children[0], stored_type["elementType"], stored_type.get("containsNull", True)
        )
    if data_type.root == "MAP":
        key, value = data_type.children
        value_fits = kind == "map" and fits(value, stored_type["valueType"], stored_type.get("valueContainsNull", True))
        return value_fits and fits(key.not_null(), stored_type["keyType"], False)
    stored_fields = stored_type.get("fields", ()) if kind == "struct" else ()
    return len(stored_fields) == len(data_type.fields) and all(
        f.name == t["name"] and fits(f.type, t["type"], t.get("nullable", True))
        for f, t in zip(data_type.fields, stored_fields, strict=True)
    )


def names_of(columns: Sequence[DeltaColumn]) -> list[str]:
    """The names of columns."""
    return [c.name for c in columns]
