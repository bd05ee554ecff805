"""Columns as the Python values that user-defined functions take and give, type by type as in PyFlink.

NULL is None, MAP a dict, ROW a :class:`execnodes.functions.user.Row`, DECIMAL a ``Decimal``, TIMESTAMP_LTZ a datetime
in UTC. Going out, a value that does not fit its type is an error of the function.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import polars as pl

from stateplan.execnodes.functions.user import Row, UserFunction
from stateplan.execnodes.functions.vectors import plain_value
from stateplan.execnodes.types import LogicalType

_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "INTERVAL_YEAR_MONTH": 32}
_PLAIN: dict[str, tuple[type, ...]] = {
    "BOOLEAN": (bool,),
    "INTEGER": (int,),
    "BIGINT": (int,),
    "FLOAT": (float,),
    "DOUBLE": (float,),
    "CHAR": (str,),
    "VARCHAR": (str,),
    "BINARY": (bytes,),
    "VARBINARY": (bytes,),
}
"""Types whose columns hold values of these classes as they are."""


class _WrongError(Exception):
    """A value that is none of the type."""


def _decoder(t: LogicalType) -> Callable[[Any], Any] | None:
    """From a value as Polars gives it to a function's; None where they are the same."""
    if t.root == "ARRAY":
        inner = _decoder(t.children[0])
        return None if inner is None else lambda v: [None if x is None else inner(x) for x in v]
    if t.root in ("MAP", "MULTISET"):
        parts = [_decoder(c) or _same for c in t.children]
        key, value = parts[0], parts[1] if t.root == "MAP" else _same

        def entries(v: Any) -> dict[Any, Any]:
            pairs = ((e["key"], e["value"]) for e in v)
            return {None if k is None else key(k): None if x is None else value(x) for k, x in pairs}

        return entries
    if t.root == "ROW":
        names = [f.name for f in t.fields]
        fields = [_decoder(f.type) or _same for f in t.fields]

        def row(v: Any) -> Row:
            cells = [None if v[n] is None else d(v[n]) for n, d in zip(names, fields, strict=True)]
            return Row.named(names, cells)

        return row
    return None


def _same(value: Any) -> Any:
    return value


def python_values(series: pl.Series, t: LogicalType) -> list[Any]:
    """The values of a column, NULL as None."""
    found = series.to_list()
    decode = _decoder(t)
    return found if decode is None else [None if v is None else decode(v) for v in found]


def column_of(values: Sequence[Any], t: LogicalType, function: UserFunction) -> pl.Series:
    """The column of a function's results.

    Raises:
        DataError: DATA311, for a value that is none of type ``t``.
    """
    plain = _PLAIN.get(t.root)
    if plain is not None:
        classes = set(map(type, values))
        if classes <= {*plain, type(None)} and (t.nullable or type(None) not in classes):
            try:
                return pl.Series(values, dtype=t.polars(), strict=True)
            except (TypeError, OverflowError, pl.exceptions.PolarsError):
                pass
    encode = _encoder(t)
    out = []
    for value in values:
        try:
            out.append(encode(value))
        except (_WrongError, TypeError, ValueError, OverflowError):
            raise function.wrong_result(value, t) from None
    return pl.Series(out, dtype=t.polars(), strict=False)


def _encoder(t: LogicalType) -> Callable[[Any], Any]:
    """From a function's value to one that Polars takes; raises :class:`_WrongError`."""
    inner = _encoders(t)

    def encode(value: Any) -> Any:
        if value is None:
            if not t.nullable:
                raise _WrongError
            return None
        return inner(value)

    return encode


def _encoders(t: LogicalType) -> Callable[[Any], Any]:
    root = t.root
    if root in _INTEGERS:
        bits = _INTEGERS[root]
        return lambda v: _integer(v, bits)
    if root == "ARRAY":
        item = _encoder(t.children[0])
        return lambda v: [item(x) for x in _of(v, (list, tuple))]
    if root == "MAP":
        key, value = map(_encoder, t.children)
        return lambda v: [{"key": key(k), "value": value(x)} for k, x in _of(v, (dict,)).items()]
    if root == "ROW":
        names = [f.name for f in t.fields]
        fields = [_encoder(f.type) for f in t.fields]
        return lambda v: {n: e(x) for n, e, x in zip(names, fields, _cells(v, names), strict=True)}
    if root == "DECIMAL":
        return lambda v: _decimal(v, t.precision or 10, t.scale or 0)
    if root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        return _instant
    if root in ("FLOAT", "DOUBLE"):
        return lambda v: float(v) if not isinstance(v, (bool, str)) else _wrong()
    simple: dict[str, tuple[type, ...]] = {
        "BOOLEAN": (bool,),
        "CHAR": (str,),
        "VARCHAR": (str,),
        "BINARY": (bytes, bytearray),
        "VARBINARY": (bytes, bytearray),
        "DATE": (dt.date,),
        "TIME_WITHOUT_TIME_ZONE": (dt.time,),
        "TIMESTAMP_WITHOUT_TIME_ZONE": (dt.datetime,),
        "INTERVAL_DAY_TIME": (dt.timedelta,),
    }
    classes = simple.get(root)
    if classes is None:
        return lambda v: _wrong()
    if root == "DATE":
        return lambda v: v if not isinstance(v, dt.datetime) and isinstance(v, dt.date) else _wrong()
    if root == "TIMESTAMP_WITHOUT_TIME_ZONE":
        return lambda v: v if isinstance(v, dt.datetime) and v.tzinfo is None else _wrong()
    if "BINARY" in root:
        return lambda v: bytes(_of(v, classes))
    if root == "BOOLEAN":
        return lambda v: bool(v) if type(v).__name__ in ("bool", "bool_") else _wrong()
    return lambda v: _of(v, classes)


def _wrong() -> Any:
    raise _WrongError


def _of(value: Any, classes: tuple[type, ...]) -> Any:
    return value if isinstance(value, classes) else _wrong()


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        _wrong()
    number = int(value.__index__())
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else _wrong()


def _decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    """Rounded half up; NULL where it has too many digits, as in Flink."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        _wrong()
    with localcontext() as context:
        context.prec = 77
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
    return rounded if abs(rounded) < Decimal(10) ** (precision - scale) else None


def _instant(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        _wrong()
    found: dt.datetime = value
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)


def _cells(value: Any, names: Sequence[str]) -> Sequence[Any]:
    if isinstance(value, dict):
        return [value.get(n) for n in names]
    cells: Sequence[Any] = _of(value, (tuple, list))
    return cells if len(cells) == len(names) else _wrong()


def row_cells(found: Any, function: UserFunction, row: LogicalType) -> Sequence[Any]:
    """The fields of a row that a function gave for ``row``. Raises DataError DATA311."""
    count = len(row.fields)
    cells: Sequence[Any] = [found]
    if isinstance(found, dict) and row.fields[0].type.root != "MAP":
        cells = [found.get(f.name) for f in row.fields]
    elif count > 1 or (isinstance(found, tuple) and row.fields[0].type.root != "ROW"):
        if not isinstance(found, (tuple, list)) or len(found) != count:
            raise function.wrong_result(found, row)
        cells = found
    if function.vector == "general":
        return cells
    return [plain_value(c, f.type) for c, f in zip(cells, row.fields, strict=True)]
