"""Values as Avro has them to values as columns have them, and back, one at a time.

What is read was written with a schema of somebody else. It is resolved as Avro does: fields are found by name, numbers
are widened, text and bytes are each other's. Values of an enum are read as text. Where the schema says in which unit a
timestamp or a time is, or which scale a decimal has, it is converted; Flink takes the number as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, TypeAlias

from stateplan.common.types import INT, LogicalType
from stateplan.connectors.formats.avro_schema import Node, nullable_branch, timestamp_unit

Convert: TypeAlias = Callable[[Any], Any]
"""A function of one value that is not NULL."""

_NANOS = {"ms": 10**6, "us": 10**3, "ns": 1}
_WIDE = Context(prec=1000, Emax=10**6, Emin=-(10**6))
_KINDS = {
    "BOOLEAN": {"boolean"},
    "TINYINT": {"int"},
    "SMALLINT": {"int"},
    "INTEGER": {"int"},
    "BIGINT": {"int", "long"},
    "FLOAT": {"int", "long", "float"},
    "DOUBLE": {"int", "long", "float", "double"},
    "CHAR": {"string", "bytes", "enum"},
    "VARCHAR": {"string", "bytes", "enum"},
    "BINARY": {"bytes", "string", "fixed"},
    "VARBINARY": {"bytes", "string", "fixed"},
    "DATE": {"int"},
    "TIME_WITHOUT_TIME_ZONE": {"int", "long"},
    "TIMESTAMP_WITHOUT_TIME_ZONE": {"int", "long"},
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": {"int", "long"},
    "DECIMAL": {"bytes", "fixed", "string"},
    "ARRAY": {"array"},
    "MAP": {"map"},
    "MULTISET": {"map"},
    "ROW": {"record"},
    "NULL": {"null"},
}
"""Root of a type to the kinds of schemas that its values are read from."""

_PYTHON: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "string": (str,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}
"""Kind of a schema to the classes of its values."""


class SchemaMismatchError(Exception):
    """A schema whose values are not values of the column.

    Attributes:
        data_type: the type of the column, or of what is in it.
        node: the schema.
        missing_field: the field that the schema does not have; None for another mismatch.
    """

    def __init__(self, data_type: LogicalType, node: Node, missing_field: str | None = None) -> None:
        super().__init__(str(node))
        self.declared_type = data_type
        self.node = node
        self.missing_field = missing_field


class MisfitError(ValueError):
    """A value that is not a value of the column."""


def reader(node: Node, data_type: LogicalType, reader_node: Node | None = None) -> Convert | None:
    """From a value that was written with a schema to a raw value (see :mod:`common.values.fields`).

    Args:
        node: the schema that it was written with.
        data_type: the type of the column.
        reader_node: the schema of the column that a user wrote, for the defaults of its fields; None for none.

    Returns:
        The function; None for one that changes nothing. It raises MisfitError.

    Raises:
        SchemaMismatchError: when the schema does not fit.
    """
    reader_node = _not_null(reader_node)
    branches = [branch for branch in node.branches if branch.kind != "null"]
    if not branches and data_type.root == "NULL":
        return None
    if len(branches) == 1:
        return _reader(branches[0], data_type, reader_node)
    return _chooser(node, branches, data_type, reader_node)


def _not_null(reader_node: Node | None) -> Node | None:
    branch = nullable_branch(reader_node) if reader_node is not None else None
    return branch[0] if branch is not None else reader_node


def _chooser(union: Node, branches: list[Node], data_type: LogicalType, reader_node: Node | None) -> Convert:
    """For a union of several types: the class of a value says which it is."""
    by_class: dict[type, Convert | None] = {}
    for branch in branches:
        classes = _PYTHON[branch.kind]
        try:
            convert = _reader(branch, data_type, reader_node)
        except SchemaMismatchError:
            continue
        for cls in classes:
            if cls in by_class and by_class[cls] is not convert and branch.kind in ("record", "map"):
                raise SchemaMismatchError(data_type, union)
            by_class.setdefault(cls, convert)
    if not by_class:
        raise SchemaMismatchError(data_type, union)

    def read(value: Any) -> Any:
        if type(value) not in by_class:
            raise MisfitError(value)
        convert = by_class[type(value)]
        return value if convert is None else convert(value)

    return read


def _reader(node: Node, data_type: LogicalType, reader_node: Node | None) -> Convert | None:
    root, kind = data_type.root, node.kind
    if kind not in _KINDS.get(root, ()):
        raise SchemaMismatchError(data_type, node)
    if root in ("FLOAT", "DOUBLE"):
        return float if kind in ("int", "long") else None
    if data_type.is_string:
        return _text if kind == "bytes" else None
    if root in ("BINARY", "VARBINARY"):
        return str.encode if kind == "string" else None
    if root == "TIME_WITHOUT_TIME_ZONE":
        if kind == "long" and node.logical != "time-micros":
            raise SchemaMismatchError(data_type, node)
        unit = 10**3 if kind == "long" else 10**6
        return lambda value: _of_day(value * unit)
    if data_type.is_timestamp:
        return _scale_time(timestamp_unit(node.logical), data_type.time_unit())
    if root == "DECIMAL":
        return _decimal(node, data_type)
    if root == "ARRAY":
        return _list(node, data_type, reader_node)
    if root in ("MAP", "MULTISET"):
        return _map(node, data_type, reader_node)
    if root == "ROW":
        return _row(node, data_type, reader_node)
    return None


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise MisfitError(value) from error


def _of_day(nanos: int) -> int:
    if not 0 <= nanos < 86400 * 10**9:
        raise MisfitError(nanos)
    return nanos


def _scale_time(unit: str | None, target_unit: str) -> Convert | None:
    if unit is None or unit == target_unit:
        return None
    times, by = _NANOS[unit], _NANOS[target_unit]
    return lambda value: value * times // by


def _nanoseconds(unit: str) -> Convert:
    """From a count of ``unit`` to a long of nanoseconds."""

    def write(value: int) -> int:
        nanoseconds = value * _NANOS[unit]
        if not -(1 << 63) <= nanoseconds < 1 << 63:
            raise MisfitError("64 bits hold the nanoseconds of the years 1678 to 2261")
        return nanoseconds

    return write


def _decimal(node: Node, data_type: LogicalType) -> Convert:
    precision, scale = data_type.precision or 10, data_type.scale or 0
    node_scale = int(node.schema.get("scale", 0)) if node.logical == "decimal" else scale
    if node_scale > scale or node.kind == "string":
        raise SchemaMismatchError(data_type, node)
    factor, limit = 10 ** (scale - node_scale), 10**precision

    def read(value: bytes) -> Decimal:
        number = int.from_bytes(value, "big", signed=True) * factor
        if not -limit < number < limit:
            raise MisfitError(str(_WIDE.scaleb(Decimal(number), -scale)))
        return _WIDE.scaleb(Decimal(number), -scale)

    return read


def _inner(schema: Any, parent: Node, data_type: LogicalType, reader_schema: Any, outer: Node | None) -> Convert:
    """For values within others, which may be NULL."""
    node = parent.inner(schema)
    convert = reader(node, data_type, None if outer is None else outer.inner(reader_schema))

    def read(value: Any) -> Any:
        if value is None:
            if not data_type.nullable and data_type.root != "NULL":
                raise MisfitError(None)
            return None
        return value if convert is None else convert(value)

    return read


def _list(node: Node, data_type: LogicalType, reader_node: Node | None) -> Convert:
    items = None if reader_node is None else reader_node.schema["items"]
    element = _inner(node.schema["items"], node, data_type.children[0], items, reader_node)
    return lambda values: [element(value) for value in values]


def _map(node: Node, data_type: LogicalType, reader_node: Node | None) -> Convert:
    kind = data_type.children[1] if data_type.root == "MAP" else INT
    values = None if reader_node is None else reader_node.schema["values"]
    value_of = _inner(node.schema["values"], node, kind, values, reader_node)
    return lambda entries: [{"key": key, "value": value_of(value)} for key, value in entries.items()]


def _row(node: Node, data_type: LogicalType, reader_node: Node | None) -> Convert:
    parts = [(f.name, *field_reader(node, f.name, f.type, reader_node)) for f in data_type.fields]

    def read(record: dict[str, Any]) -> dict[str, Any]:
        return {name: convert(record.get(name, default)) for name, default, convert in parts}

    return read


def field_reader(
    node: Node, name: str, data_type: LogicalType, reader_node: Node | None
) -> tuple[Any, Callable[[Any], Any]]:
    """How the field of a record becomes a column.

    Returns:
        The value that stands for a field that is not there, and the function from a value, which may be None, to the
        raw value.

    Raises:
        SchemaMismatchError: when the field does not fit, or is not there and has no default.
    """
    field = next((f for f in node.fields if f["name"] == name), None)
    own = None if reader_node is None else next((f for f in reader_node.fields if f["name"] == name), None)
    if field is None:
        if own is not None and "default" in own and reader_node is not None:
            default = default_value(reader_node.inner(own["type"]), own["default"])
            return default, _inner(own["type"], reader_node, data_type, own["type"], reader_node)
        if not data_type.nullable:
            raise SchemaMismatchError(data_type, node, name)
        return None, lambda value: None
    return None, _inner(field["type"], node, data_type, None if own is None else own["type"], reader_node)


def default_value(node: Node, value: Any) -> Any:
    """The value that the JSON of a default stands for."""
    branch = node.branches[0]
    if branch.kind in ("bytes", "fixed") and isinstance(value, str):
        return value.encode("latin-1")
    if branch.kind == "record":
        fields = {f["name"]: f for f in branch.fields}
        return {
            name: default_value(branch.inner(f["type"]), value.get(name, f.get("default")))
            for name, f in fields.items()
        }
    return value


# ---- writing ---------------------------------------------------------------------------------------------------


def writer(node: Node, data_type: LogicalType) -> Convert | None:
    """From a raw value to a value that is written with a schema that fits the type; None for one that changes
    nothing. The function raises MisfitError."""
    branch = nullable_branch(node)
    node = branch[0] if branch is not None else node
    root = data_type.root
    if node.kind == "enum":
        return _symbol(frozenset(node.schema["symbols"]))
    if root in ("BINARY", "VARBINARY"):
        return _fixed_size(node.schema["size"]) if node.kind == "fixed" else None
    if root == "TIME_WITHOUT_TIME_ZONE":
        return lambda nanos: nanos // 10**6
    if data_type.is_timestamp:
        target_unit = timestamp_unit(node.logical) or data_type.time_unit()
        return (
            _nanoseconds(data_type.time_unit())
            if target_unit == "ns"
            else _scale_time(data_type.time_unit(), target_unit)
        )
    if root == "DECIMAL":
        return _unscaled_bytes(data_type.scale or 0, node.schema.get("size"))
    if root == "ARRAY":
        element = _writer_within(node, node.schema["items"], data_type.children[0])
        return lambda values: [element(value) for value in values]
    if root in ("MAP", "MULTISET"):
        return _entries(_writer_within(node, node.schema["values"], data_type.children[1] if root == "MAP" else INT))
    if root == "ROW":
        types = {f["name"]: f["type"] for f in node.fields}
        parts = [(f.name, _writer_within(node, types[f.name], f.type)) for f in data_type.fields]
        return lambda row: {name: convert(row[name]) for name, convert in parts}
    return None


def _writer_within(node: Node, schema: Any, data_type: LogicalType) -> Convert:
    convert = writer(node.inner(schema), data_type)

    def write(value: Any) -> Any:
        if value is None:
            if not data_type.nullable:
                raise MisfitError(None)
            return None
        return value if convert is None else convert(value)

    return write


def _symbol(symbols: frozenset[str]) -> Convert:
    def write(value: str) -> str:
        if value not in symbols:
            raise MisfitError(value)
        return value

    return write


def _fixed_size(size: int) -> Convert:
    def write(value: bytes) -> bytes:
        if len(value) != size:
            raise MisfitError(value)
        return value

    return write


def _unscaled_bytes(scale: int, size: int | None) -> Convert:
    """The bytes of a decimal: as few as it takes, as ``BigInteger.toByteArray`` gives them, or ``size``."""

    def write(value: Decimal) -> bytes:
        number = int(_WIDE.scaleb(value, scale))
        length = ((number if number >= 0 else ~number).bit_length()) // 8 + 1
        if size is not None and length > size:
            raise MisfitError(value)
        return number.to_bytes(length if size is None else size, "big", signed=True)

    return write


def _entries(value_of: Convert) -> Convert:
    def write(entries: list[dict[str, Any]]) -> dict[str, Any]:
        if any(entry["key"] is None for entry in entries):
            raise MisfitError("a NULL key")
        return {entry["key"]: value_of(entry["value"]) for entry in entries}

    return write
