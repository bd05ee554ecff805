"""Values of results as Python objects, from the JSON that a gateway writes.

Sources: PEP 249. Flink's ``RowDataToJsonConverters`` with ISO-8601 timestamps, which write rows for its JDBC driver.

Codes: DATA351.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

from stateplan.common.errors import DataError
from stateplan.common.types import LogicalType

Reader = Callable[[Any], Any]

_EXACT = Context(prec=38)
_NANOS = "has nanoseconds, and Python's classes microseconds"


def row_reader(names: Sequence[str], types: Sequence[LogicalType]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """From the values of a row in JSON to Python objects.

    ========================= ==============================================================================
    CHAR, VARCHAR             str
    BOOLEAN, whole numbers    bool, int
    FLOAT, DOUBLE, DECIMAL    float, float, Decimal of the type's scale
    BINARY, VARBINARY         bytes
    DATE, TIME, TIMESTAMP     date, time, datetime without a zone
    TIMESTAMP_LTZ             datetime in UTC
    INTERVAL DAY TO SECOND    timedelta
    INTERVAL YEAR TO MONTH    int, months
    ARRAY, ROW                list, tuple
    MAP, MULTISET             dict; of a MULTISET, to the number of times. In a key, a list is a tuple. JSON has the
                              text ``null`` for a NULL among keys that are strings
    ========================= ==============================================================================

    Args:
        names: the names of the columns, for errors.
        types: the types of the columns; an unknown one leaves its values as JSON has them.

    The function raises DataError DATA351, for a value that Python's classes do not have, such as the year 10000 or a
    nanosecond; its text says how to have the value as a string.
    """
    readers = [reader(kind) for kind in types]

    def read(row: Sequence[Any]) -> tuple[Any, ...]:
        try:
            return tuple([None if v is None else f(v) for f, v in zip(readers, row, strict=True)])
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as cause:
            raise _unreadable(names, types, row, cause) from cause

    return read


def _unreadable(names: Sequence[str], types: Sequence[LogicalType], row: Sequence[Any], cause: Exception) -> DataError:
    for name, kind, value in zip(names, types, row, strict=False):
        try:
            if value is not None:
                reader(kind)(value)
        except type(cause) as error:
            why = str(error) if str(error) == _NANOS else "is no value of Python's"
            return DataError("DATA351", name=name, kind=kind, value=str(value), why=why)
    return DataError("DATA351.row", wanted=len(types), found=len(row) if isinstance(row, Sequence) else 0)


def reader(kind: LogicalType) -> Reader:
    """From a value of this type in JSON to a Python object; neither is None."""
    if kind.root == "DECIMAL":
        unit = Decimal(1).scaleb(-(kind.scale or 0))
        return lambda value: Decimal(value).quantize(unit, context=_EXACT)
    if kind.root in ("ARRAY", "MULTISET", "MAP", "ROW"):
        return _NESTED[kind.root](kind)
    return _ATOMIC.get(kind.root, lambda value: value)


def _micros(text: str, most: int) -> str:
    """The text without zeros that fromisoformat would not take."""
    if len(text) > most:
        if text[most:].strip("0"):
            raise ValueError(_NANOS if text[most:].isdecimal() else text)
        return text[:most]
    return text


_ATOMIC: dict[str, Reader] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "INTERVAL_YEAR_MONTH"), int),
    **dict.fromkeys(("FLOAT", "DOUBLE"), float),
    **dict.fromkeys(("BINARY", "VARBINARY"), lambda value: base64.b64decode(value, validate=True)),
    "DATE": dt.date.fromisoformat,
    "TIME_WITHOUT_TIME_ZONE": lambda value: dt.time.fromisoformat(_micros(value, 15)),
    "TIMESTAMP_WITHOUT_TIME_ZONE": lambda value: dt.datetime.fromisoformat(_micros(value, 26)),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": lambda value: dt.datetime.fromisoformat(
        _micros(value.removesuffix("Z"), 26)
    ).replace(tzinfo=dt.UTC),
    "INTERVAL_DAY_TIME": lambda value: dt.timedelta(milliseconds=int(value)),
}
"""Of types whose values in JSON are not those of Python."""


def _list(kind: LogicalType) -> Reader:
    element = reader(kind.children[0])
    return lambda value: [None if v is None else element(v) for v in value]


def _tuple(kind: LogicalType) -> Reader:
    fields = [(field.name, reader(field.type)) for field in kind.fields]

    def read(value: Any) -> tuple[Any, ...]:
        readings = [(f, value[name]) for name, f in fields]
        return tuple([None if v is None else f(v) for f, v in readings])

    return read


def _dict(kind: LogicalType) -> Reader:
    key = _key(kind.children[0])
    value = int if kind.root == "MULTISET" else reader(kind.children[1])
    return lambda entries: {key(k): None if v is None else value(v) for k, v in entries.items()}


def _key(kind: LogicalType) -> Reader:
    """From the key of an object in JSON; the keys of a dict have to be hashable."""
    plain = reader(kind)
    if kind.is_string:
        return plain

    def read(text: str) -> Any:
        if text == "null":
            return None
        is_text = kind.is_timestamp or kind.root in ("BINARY", "VARBINARY", "DATE", "TIME_WITHOUT_TIME_ZONE")
        return _hashable(plain(text if is_text else json.loads(text, parse_float=str)))

    return read


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([_hashable(v) for v in value])
    if isinstance(value, dict):
        return tuple([(k, _hashable(v)) for k, v in value.items()])
    return value


_NESTED: dict[str, Callable[[LogicalType], Reader]] = {
    "ARRAY": _list,
    "ROW": _tuple,
    "MAP": _dict,
    "MULTISET": _dict,
}


class TypeObject:
    """A type object of PEP 249: equal to the text of every type whose first word is one of ``types``.

    >>> TypeObject("NUMBER", "INT", "DECIMAL") == "DECIMAL(10, 2)"
    True
    """

    def __init__(self, name: str, *types: str) -> None:
        self.name = name
        self._types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return re.split(r"[ (<]", other, maxsplit=1)[0].upper() in self._types
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


def type_code(kind: LogicalType) -> str:
    """A type for the description of a column: ``DECIMAL(10, 2)``, ``ARRAY<INT>``, ``MAP``.

    Without the types in a MAP, MULTISET or ROW, and without NOT NULL: who reads descriptions, as Polars does, takes the
    name of a type anywhere in the text for that of the column.
    """
    if kind.root == "ARRAY":
        return f"ARRAY<{type_code(kind.children[0])}>"
    return kind.root if kind.root in _NESTED else kind.as_nullable().summary()
