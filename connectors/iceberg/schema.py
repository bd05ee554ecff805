"""Types of Iceberg tables and SQL types, each way.

Source: the types of Iceberg's specification, and ``FlinkTypeToType`` and ``TypeToFlinkType`` of Iceberg's Flink module.
``timestamptz`` is an instant, TIMESTAMP_LTZ(6), and ``timestamp`` is TIMESTAMP(6). Importing this loads no library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import DataError, Place, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_LENGTH,
    STRING,
    LogicalType,
    row_type,
)
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.lake_columns import check_lake_columns

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField

MICROSECONDS = 6
"""Digits of a second that a timestamp of a table of format 2 has."""

_BYTES = LogicalType("VARBINARY", length=MAX_LENGTH)
_UUID = LogicalType("BINARY", length=16)

_PLAIN: dict[str, LogicalType] = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "timestamp": LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=MICROSECONDS),
    "timestamptz": LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=MICROSECONDS),
    "string": STRING,
    "uuid": _UUID,
    "binary": _BYTES,
}
"""Iceberg types that are one word."""

_WORDS = {
    **{plain_type.root: word for word, plain_type in _PLAIN.items() if word != "uuid"},
    "TINYINT": "int",
    "SMALLINT": "int",
    "CHAR": "string",
}

_WIDER = {"BIGINT": ("int", "long"), "DOUBLE": ("float", "double")}
"""Iceberg types whose values a SQL type holds, where there are several."""


@dataclass(frozen=True)
class IcebergColumn:
    """A column of a table, by its id.

    Attributes:
        field_id: its id, which a column keeps when it is renamed.
        name: of it.
        type: as Iceberg has it.
        nullable: whether it may be NULL.
        comment: of it.
    """

    field_id: int
    name: str
    type: IcebergType
    nullable: bool = True
    comment: str | None = None

    @property
    def declared_type(self) -> LogicalType | None:
        """The SQL type of it; None for a type that SQL does not have."""
        data_type = sql_type(self.type)
        return None if data_type is None else data_type.as_nullable(self.nullable)


def columns_of(schema: Schema) -> list[IcebergColumn]:
    """The columns of a schema."""
    return [IcebergColumn(f.field_id, f.name, f.field_type, not f.required, f.doc) for f in schema.fields]


def names_of(columns: Sequence[IcebergColumn]) -> list[str]:
    """The names of columns."""
    return [c.name for c in columns]


def ids_of(names: Sequence[str], metadata: TableMetadata, schema: Schema, subject: str) -> tuple[int, ...]:
    """The ids of columns. A name that is no longer there stands for the column that has had it last.

    Args:
        names: of the columns.
        metadata: of the table.
        schema: whose names count first.
        subject: the table, for the error.

    Raises:
        DataError: DATA478, no schema of the table has the column.
    """
    schemas = [schema, *sorted(metadata.schemas, key=lambda s: s.schema_id, reverse=True)]
    ids: list[int] = []
    for name in names:
        field_id = next((f.field_id for s in schemas for f in s.fields if f.name == name), None)
        if field_id is None:
            columns = names_of(columns_of(schema))
            hint = nearest(name, columns)
            raise DataError("DATA478.missing", subject=subject, column=name, columns=columns, hint=hint)
        ids.append(field_id)
    return tuple(ids)


def sql_type(stored_type: IcebergType) -> LogicalType | None:
    """The SQL type that holds all values of an Iceberg type; None if there is none."""
    from pyiceberg.types import DecimalType, FixedType, ListType, MapType, StructType

    if isinstance(stored_type, DecimalType):
        return LogicalType("DECIMAL", precision=stored_type.precision, scale=stored_type.scale)
    if isinstance(stored_type, FixedType):
        return LogicalType("BINARY", length=len(stored_type))
    if isinstance(stored_type, ListType):
        element = _part(stored_type.element_type, not stored_type.element_required)
        return None if element is None else LogicalType("ARRAY", children=(element,))
    if isinstance(stored_type, MapType):
        key, value = _part(stored_type.key_type, False), _part(stored_type.value_type, not stored_type.value_required)
        return None if key is None or value is None else LogicalType("MAP", children=(key, value))
    if isinstance(stored_type, StructType):
        fields = [(f.name, _part(f.field_type, not f.required)) for f in stored_type.fields]
        typed_fields = [(name, data_type) for name, data_type in fields if data_type is not None]
        return row_type(typed_fields) if typed_fields and len(typed_fields) == len(fields) else None
    return _PLAIN.get(str(stored_type))


def _part(stored_type: IcebergType, nullable: bool) -> LogicalType | None:
    data_type = sql_type(stored_type)
    return None if data_type is None else data_type.as_nullable(nullable)


def check_type(data_type: LogicalType) -> None:
    """Raises ValueError, with the reason, for a type that an Iceberg table does not have."""
    if data_type.is_timestamp and (data_type.precision or 0) > MICROSECONDS:
        raise ValueError("timestamps of Iceberg tables have microseconds")
    if data_type.root == "MAP" and data_type.children[0].nullable and data_type.children[0].children:
        raise ValueError("keys of maps in Iceberg are no NULL")
    if data_type.root in _WORDS or data_type.root in ("DECIMAL", "BINARY"):
        return
    parts = [f.type for f in data_type.fields] if data_type.root == "ROW" else list(data_type.children)
    if data_type.root not in ("ARRAY", "MAP", "ROW") or not parts:
        raise ValueError("Iceberg has no such type")
    for part in parts:
        check_type(part)


def check_columns(fields: Fields, place: Place | None = None) -> None:
    """Checks that an Iceberg table can have these columns.

    Raises:
        CatalogError: CAT102, a type that Iceberg does not have, or two names that differ by case only.
    """
    check_lake_columns(fields, "an Iceberg table", check_type, place=place)


class _Numbers:
    """Ids for the fields of a new schema. The library replaces them by its own."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


def iceberg_type(data_type: LogicalType, numbers: _Numbers | None = None) -> IcebergType:
    """The Iceberg type of a SQL type that :func:`check_columns` lets pass. Raises ValueError, it does not exist."""
    from pyiceberg import types

    check_type(data_type)
    ids = numbers or _Numbers()
    root = data_type.root
    if root == "DECIMAL":
        return types.DecimalType(data_type.precision or 10, data_type.scale or 0)
    if root == "BINARY":
        return types.FixedType(data_type.length or 1)
    if root == "ARRAY":
        element = data_type.children[0]
        return types.ListType(ids.next(), iceberg_type(element, ids), element_required=not element.nullable)
    if root == "MAP":
        key, value = data_type.children
        return types.MapType(
            ids.next(),
            iceberg_type(key, ids),
            ids.next(),
            iceberg_type(value, ids),
            value_required=not value.nullable,
        )
    if root == "ROW":
        return types.StructType(*_nested_fields([(f.name, f.type) for f in data_type.fields], ids))
    classes: dict[str, Any] = {
        "boolean": types.BooleanType,
        "int": types.IntegerType,
        "long": types.LongType,
        "float": types.FloatType,
        "double": types.DoubleType,
        "date": types.DateType,
        "timestamp": types.TimestampType,
        "timestamptz": types.TimestamptzType,
        "string": types.StringType,
        "binary": types.BinaryType,
    }
    plain_type: IcebergType = classes[_WORDS[root]]()
    return plain_type


def _nested_fields(fields: Fields, ids: _Numbers, comments: Sequence[str | None] = ()) -> list[NestedField]:
    from pyiceberg.types import NestedField

    docs = comments or [None] * len(fields)
    return [
        NestedField(ids.next(), name, iceberg_type(data_type, ids), required=not data_type.nullable, doc=doc)
        for (name, data_type), doc in zip(fields, docs, strict=True)
    ]


def schema_of(fields: Fields, key: Sequence[str] = (), comments: Sequence[str | None] = ()) -> Schema:
    """The schema of a new table.

    Args:
        fields: name and type of the columns.
        key: the columns of the primary key, which become the identifier fields of the table.
        comments: of the columns.
    """
    from pyiceberg.schema import Schema

    typed_columns = [(name, data_type.not_null() if name in key else data_type) for name, data_type in fields]
    columns = _nested_fields(typed_columns, _Numbers(), comments)
    return Schema(*columns, identifier_field_ids=[c.field_id for c in columns if c.name in key])


def holds(data_type: LogicalType, stored_type: IcebergType) -> bool:
    """Whether a column of this type can be read from an Iceberg column. A text is not checked for its length, and a
    timestamp loses the digits that the column does not have, as with Flink's file formats."""
    return _matches(data_type, stored_type, is_written=False)


def check_types(fields: Fields, ids: Sequence[int], schema: Schema, subject: str) -> None:
    """Checks that columns can be read under their declared types.

    Args:
        fields: name and declared type of the columns.
        ids: their ids. A column that the schema does not have is NULL.
        schema: of the table, or of a snapshot.
        subject: the table, for the error.

    Raises:
        DataError: DATA478, a column has values that its declared type does not hold.
    """
    stored_types = {f.field_id: f.field_type for f in schema.fields}
    for (name, data_type), field_id in zip(fields, ids, strict=True):
        own_type = stored_types.get(field_id)
        if own_type is not None and not holds(data_type, own_type):
            own = sql_type(own_type)
            raise DataError(
                "DATA478",
                subject=subject,
                column=name,
                declared=data_type.summary(),
                found=str(own_type),
                hint=None if own is None else f"declare it as {own.as_nullable().summary()}",
            )


def fits(data_type: LogicalType, stored_type: IcebergType, nullable: bool) -> bool:
    """Whether all values of a column of this type can be written to an Iceberg column."""
    return (nullable or not data_type.nullable) and _matches(data_type, stored_type, is_written=True)


def _matches(data_type: LogicalType, stored_type: IcebergType, is_written: bool) -> bool:
    from pyiceberg.types import DecimalType, FixedType, ListType, MapType, StructType

    def part(inner: LogicalType, inner_type: IcebergType, is_required: bool) -> bool:
        return (not is_written or not is_required or not inner.nullable) and _matches(inner, inner_type, is_written)

    root = data_type.root
    if isinstance(stored_type, DecimalType):
        precision, scale = data_type.precision or 10, data_type.scale or 0
        if root != "DECIMAL" or is_written:
            return root == "DECIMAL" and (precision, scale) == (stored_type.precision, stored_type.scale)
        return scale >= stored_type.scale and precision - scale >= stored_type.precision - stored_type.scale
    if isinstance(stored_type, FixedType):
        return root == "BINARY" and data_type.length == len(stored_type)
    if isinstance(stored_type, ListType):
        return root == "ARRAY" and part(data_type.children[0], stored_type.element_type, stored_type.element_required)
    if isinstance(stored_type, MapType):
        return (
            root == "MAP"
            and _matches(data_type.children[0], stored_type.key_type, is_written)
            and part(data_type.children[1], stored_type.value_type, stored_type.value_required)
        )
    if isinstance(stored_type, StructType):
        parts = {f.name: f for f in stored_type.fields}
        complete = not is_written or [f.name for f in data_type.fields] == list(parts)
        return (
            root == "ROW"
            and complete
            and all(
                f.name in parts and part(f.type, parts[f.name].field_type, parts[f.name].required)
                for f in data_type.fields
            )
        )
    word = str(stored_type)
    if word == "uuid":
        return data_type.as_nullable() == _UUID.as_nullable() and not is_written
    if is_written:
        return root != "BINARY" and root in _WORDS and _WORDS[root] == word
    return root not in ("TINYINT", "SMALLINT", "BINARY") and word in _WIDER.get(root, (_WORDS.get(root),))
