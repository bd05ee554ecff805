"""Python rows as columns: what types they have where nothing says it, and their values in those types.

Source: PyFlink's ``_infer_schema_from_data`` and ``_create_type_verifier``. Unlike there, a datetime without a zone is
a TIMESTAMP, and whole numbers beside others become DOUBLE.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from stateplan.common.changelog import column
from stateplan.common.errors import CatalogError, DataError
from stateplan.common.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    MAX_LENGTH,
    NULL,
    STRING,
    LogicalType,
    row_type,
)
from stateplan.planner.catalog.udf import Type, type_of

if TYPE_CHECKING:
    import polars as pl

Fields: TypeAlias = list[tuple[str, LogicalType]]
Schema: TypeAlias = "Type | Sequence[str] | None"
"""What may say the columns of in-memory rows: their names, or a ROW type, or the type of a single column."""

_CLASSES: tuple[tuple[type, LogicalType], ...] = (
    (bool, BOOLEAN),
    (int, BIGINT),
    (float, DOUBLE),
    (str, STRING),
    (Decimal, LogicalType("DECIMAL", precision=38, scale=18)),
    (dt.datetime, LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=6)),
    (dt.date, DATE),
    (dt.time, LogicalType("TIME_WITHOUT_TIME_ZONE", precision=6)),
    (dt.timedelta, LogicalType("INTERVAL_DAY_TIME", resolution="DAY(6) TO SECOND(3)")),
    (bytes, LogicalType("VARBINARY", length=MAX_LENGTH)),
    (bytearray, LogicalType("VARBINARY", length=MAX_LENGTH)),
)
"""Class to the type of its objects; the first that fits."""

_INSTANT = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=6)


def schema_columns(schema: Schema) -> tuple[list[str] | None, Fields | None]:
    """What a schema says: the names of the columns, or names and types.

    Raises:
        SqlError: SQL213, for what is not a type.
    """
    if schema is None:
        return None, None
    if isinstance(schema, (str, LogicalType)):
        kind = type_of(schema)
        return None, [(f.name, f.type) for f in kind.fields] if kind.root == "ROW" else [("value", kind)]
    return list(schema), None


def with_names(fields: Fields, names: Sequence[str] | None) -> Fields:
    """The columns under other names.

    Raises:
        CatalogError: CAT072, for another number of names than of columns; CAT030, for a name that is there twice.
    """
    if names is not None:
        if len(names) != len(fields):
            raise CatalogError("CAT072", names=list(names), fields=[name for name, _ in fields])
        fields = [(name, kind) for name, (_, kind) in zip(names, fields, strict=True)]
    names_so_far: set[str] = set()
    for name, _ in fields:
        if name in names_so_far:
            raise CatalogError("CAT030", name=name, where="in the table")
        names_so_far.add(name)
    return fields


def infer(rows: Sequence[Any], names: Sequence[str] | None) -> Fields:
    """The columns of rows: tuples, lists, dicts, or objects that are the one column's values.

    Raises:
        DataError: DATA341, for values of several types, or of none.
        CatalogError: CAT072.
    """
    if not rows:
        raise DataError("DATA341.no_values", what="the columns")
    row_type = reduce(lambda a, b: _common_type(a, b, "row"), (_type_of(_as_row(row), "row") for row in rows))
    fields = [(f.name, f.type) for f in row_type.fields]
    for name, kind in fields:
        if _has_null(kind):
            raise DataError("DATA341.no_values", what=f"'{name}'")
    return with_names(fields, names)


def _as_row(row: Any) -> Any:
    return row if isinstance(row, (tuple, list, dict)) else (row,)


def _type_of(value: Any, name: str, top: bool = True) -> LogicalType:
    if value is None:
        return NULL
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return _INSTANT
    for kind, logical_type in _CLASSES:
        if isinstance(value, kind):
            return logical_type
    if isinstance(value, Mapping) and top:
        return row_type([(str(key), _type_of(item, str(key), False)) for key, item in value.items()])
    if isinstance(value, tuple) or (isinstance(value, list) and top):
        names = getattr(value, "_fields", None) or getattr(value, "_names", None)
        names = names or [f"_{i + 1}" for i in range(len(value))]
        return row_type([(n, _type_of(item, n, False)) for n, item in zip(names, value, strict=True)])
    if isinstance(value, Mapping):
        keys, items = (_common(part, name) for part in (value.keys(), value.values()))
        return LogicalType("MAP", children=(keys, items))
    if isinstance(value, list):
        return LogicalType("ARRAY", children=(_common(value, name),))
    if hasattr(value, "item"):  # a scalar of NumPy
        return _type_of(value.item(), name, top)
    raise DataError("DATA341", name=name, found=type(value).__name__)


def _common(values: Any, name: str) -> LogicalType:
    return reduce(lambda a, b: _common_type(a, b, name), (_type_of(v, name, False) for v in values), NULL)


def _common_type(a: LogicalType, b: LogicalType, name: str) -> LogicalType:
    """The type that holds the values of both."""
    if a == b or b.root == "NULL":
        return a
    if a.root == "NULL":
        return b
    if {a.root, b.root} == {"BIGINT", "DOUBLE"}:
        return DOUBLE
    if a.root == b.root and a.children:
        pairs = zip(a.children, b.children, strict=True)
        return LogicalType(a.root, children=tuple(_common_type(x, y, name) for x, y in pairs))
    if a.root == b.root == "ROW":
        others = {f.name: f.type for f in b.fields}
        fields = [(f.name, _common_type(f.type, others.pop(f.name, NULL), f.name)) for f in a.fields]
        return row_type([*fields, *others.items()])
    raise DataError("DATA341.several", name=name, one=a.summary(), other=b.summary())


def _has_null(kind: LogicalType) -> bool:
    return kind.root == "NULL" or any(map(_has_null, (*kind.children, *(f.type for f in kind.fields))))


def frame_of(rows: Sequence[Any], fields: Fields) -> pl.DataFrame:
    """Rows as a frame ``c0, c1, ...``.

    Raises:
        DataError: DATA342, a row of another number of values; DATA343, a value that is none of its column's type.
    """
    import polars as pl

    from stateplan.common.values.codecs import codec

    names = [name for name, _ in fields]
    tuples = []
    for number, row in enumerate(rows):
        values = [row.get(name) for name in names] if isinstance(row, dict) else list(_as_row(row))
        if len(values) != len(fields):
            raise DataError("DATA342", number=number + 1, count=len(values), fields=names)
        tuples.append(values)
    columns = {}
    for i, (name, kind) in enumerate(fields):
        encode = codec(kind).encode
        cells = []
        for number, values in enumerate(tuples):
            try:
                cells.append(encode(values[i]))
            except (TypeError, ValueError, ArithmeticError):
                value_text = f"{values[i]!r:.80}"
                raise DataError(
                    "DATA343", shown=value_text, number=number + 1, name=name, type=kind.summary()
                ) from None
        columns[column(i)] = pl.Series(cells, dtype=kind.polars(), strict=False)
    return pl.DataFrame(columns, height=len(tuples))
