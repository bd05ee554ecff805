"""Type arithmetic: least restrictive types, DECIMAL results, what may be cast to what.

Sources: Calcite's ``SqlTypeFactoryImpl.leastRestrictive`` as Flink configures it, Flink's ``LogicalTypeMerging``
(common types and DECIMAL results) and ``LogicalTypeCasts``; every rule was checked against plans Flink 2.3 wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stateplan.common.types import DOUBLE, MAX_LENGTH, LogicalType, RowField, type_from_json

_MAX_PRECISION = 38
_MIN_ADJUSTED_SCALE = 6

SYMBOL = type_from_json({"type": "SYMBOL", "nullable": False})

_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_CHARACTERS = ("CHAR", "VARCHAR")
_BINARIES = ("BINARY", "VARBINARY")
_APPROXIMATE = ("FLOAT", "DOUBLE")
_TIMESTAMPS = ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "TIMESTAMP_WITH_TIME_ZONE")
_INTERVALS = ("INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH")

_FAMILY = (
    dict.fromkeys((*_INTEGER_DIGITS, *_APPROXIMATE, "DECIMAL"), "NUMERIC")
    | dict.fromkeys(_CHARACTERS, "CHARACTER")
    | dict.fromkeys(_BINARIES, "BINARY")
    | dict.fromkeys(_TIMESTAMPS, "TIMESTAMP")
    | {"TIME_WITHOUT_TIME_ZONE": "TIME"}
)


def family(t: LogicalType) -> str:
    """The comparison family of a type: NUMERIC, CHARACTER, BINARY, TIMESTAMP, TIME, else the root itself."""
    return _FAMILY.get(t.root, t.root)


def decimal(precision: int, scale: int, nullable: bool = True) -> LogicalType:
    return LogicalType("DECIMAL", nullable, precision=precision, scale=scale)


def char(length: int, nullable: bool = True) -> LogicalType:
    return LogicalType("CHAR", nullable, length=length)


def varchar(length: int = MAX_LENGTH, nullable: bool = True) -> LogicalType:
    return LogicalType("VARCHAR", nullable, length=length)


def binary(length: int, nullable: bool = True) -> LogicalType:
    return LogicalType("BINARY", nullable, length=length)


def varbinary(length: int = MAX_LENGTH, nullable: bool = True) -> LogicalType:
    return LogicalType("VARBINARY", nullable, length=length)


def timestamp(precision: int, nullable: bool = True) -> LogicalType:
    return LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", nullable, precision=precision)


def timestamp_ltz(precision: int, nullable: bool = True) -> LogicalType:
    return LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", nullable, precision=precision)


def time(precision: int = 0, nullable: bool = True) -> LogicalType:
    return LogicalType("TIME_WITHOUT_TIME_ZONE", nullable, precision=precision)


_UNORDERED = frozenset({"MAP", "MULTISET", "VARIANT"})


def is_ordered(t: LogicalType) -> bool:
    """Whether values of a type have an order (Flink's ``GenerateUtils.generateCompare``)."""
    parts = (*t.children, *(f.type for f in t.fields))
    return t.root not in _UNORDERED and all(map(is_ordered, parts))


def same_type(a: LogicalType, b: LogicalType) -> bool:
    """Whether two types are the same apart from their own (not their parts') nullability."""
    return a.as_nullable() == b.as_nullable()


def as_decimal(t: LogicalType) -> tuple[int, int]:
    """Precision and scale of a DECIMAL, or of the DECIMAL that holds all values of an integer type."""
    if t.root == "DECIMAL":
        return t.precision or 10, t.scale or 0
    return _INTEGER_DIGITS[t.root], 0


def _adjusted(precision: int, scale: int) -> LogicalType:
    """DECIMAL(precision, scale), giving up fraction digits (but not the first six) to fit into 38."""
    if precision <= _MAX_PRECISION:
        return decimal(precision, scale)
    integer_digits = precision - scale
    return decimal(_MAX_PRECISION, max(_MAX_PRECISION - integer_digits, min(scale, _MIN_ADJUSTED_SCALE)))


def decimal_plus(a: LogicalType, b: LogicalType) -> LogicalType:
    """Type of a + b and a - b."""
    (p1, s1), (p2, s2) = as_decimal(a), as_decimal(b)
    scale = max(s1, s2)
    return _adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def decimal_times(a: LogicalType, b: LogicalType) -> LogicalType:
    """Type of a * b."""
    (p1, s1), (p2, s2) = as_decimal(a), as_decimal(b)
    return _adjusted(p1 + p2 + 1, s1 + s2)


def decimal_divide(a: LogicalType, b: LogicalType) -> LogicalType:
    """Type of a / b."""
    (p1, s1), (p2, s2) = as_decimal(a), as_decimal(b)
    scale = max(6, s1 + p2 + 1)
    return _adjusted(p1 - s1 + s2 + scale, scale)


def decimal_modulo(a: LogicalType, b: LogicalType) -> LogicalType:
    """Type of a % b where one side is a DECIMAL with a fraction."""
    (p1, s1), (p2, s2) = as_decimal(a), as_decimal(b)
    scale = max(s1, s2)
    return _adjusted(min(p1 - s1, p2 - s2) + scale, scale)


def decimal_round(t: LogicalType, places: int) -> LogicalType:
    """Type of ROUND(t, places)."""
    precision, scale = as_decimal(t)
    if places >= scale:
        return decimal(precision, scale)
    if places < 0:
        return decimal(min(_MAX_PRECISION, 1 + precision - scale), 0)
    return decimal(1 + precision - scale + places, places)


def least_restrictive(types: Sequence[LogicalType]) -> LogicalType | None:
    """The type that CASE, UNION, IN, ``=`` and array constructors give to values of these types.

    NULL takes the others' type and makes the result nullable. None if the types do not mix. Two approximate types give
    the first one, as do a time attribute of event time and a timestamp of its precision; an approximate and a DECIMAL
    give DOUBLE; CHARs of different lengths give VARCHAR of the longest.
    """
    result = _merge_all(types, _merge)
    if result is not None and result.kind == "PROCTIME" and any(t.kind is None and t.root != "NULL" for t in types):
        return replace(result, kind=None)
    return result


Merge = Callable[[LogicalType, LogicalType], LogicalType | None]


def _merge_all(types: Sequence[LogicalType], merge: Merge) -> LogicalType | None:
    """All types merged in turn; nullable where one is, or is NULL."""
    known_types = [t for t in types if t.root != "NULL"]
    if not known_types:
        return types[0] if types else None
    result: LogicalType | None = known_types[0]
    for t in known_types[1:]:
        result = result and merge(result, t)
    return result and result.as_nullable(any(t.nullable for t in types) or len(known_types) < len(types))


def _merge(a: LogicalType, b: LogicalType) -> LogicalType | None:
    if same_type(a, b):
        return a
    fa, fb = family(a), family(b)
    if fa == fb == "NUMERIC":
        return _merge_numeric(a, b)
    if fa == fb and fa in ("CHARACTER", "BINARY"):
        length = max(a.length or 1, b.length or 1)
        fixed_root = "CHAR" if fa == "CHARACTER" else "BINARY"
        same_length = a.root == b.root == fixed_root and a.length == b.length
        return replace(a, root=fixed_root if same_length else f"VAR{fixed_root}", length=length)
    if fa == fb and fa in ("TIMESTAMP", "TIME"):
        precision = max(a.precision or 0, b.precision or 0)
        keeps = a.kind == b.kind or (a.kind == "ROWTIME" and a.root == b.root and a.precision == precision)
        return replace(a, precision=precision, kind=a.kind if keeps else None)
    if a.root == b.root and a.root in _INTERVALS:
        return a
    if a.root == b.root and len(a.children) == len(b.children) > 0:
        children = [least_restrictive([x, y]) for x, y in zip(a.children, b.children, strict=True)]
        return None if None in children else replace(a, children=tuple(c for c in children if c is not None))
    if a.root == b.root == "ROW" and len(a.fields) == len(b.fields):
        merged_fields = [(x.name, least_restrictive([x.type, y.type])) for x, y in zip(a.fields, b.fields, strict=True)]
        if any(t is None for _, t in merged_fields):
            return None
        return replace(a, fields=tuple(RowField(n, t) for n, t in merged_fields if t is not None))
    return None


def _merge_numeric(a: LogicalType, b: LogicalType) -> LogicalType:
    approximate = [t for t in (a, b) if t.root in _APPROXIMATE]
    if approximate:
        if len(approximate) == 1 and "DECIMAL" in (a.root, b.root):
            return DOUBLE
        return approximate[0]
    if a.root in _INTEGER_DIGITS and b.root in _INTEGER_DIGITS:
        return a if _INTEGER_DIGITS[a.root] >= _INTEGER_DIGITS[b.root] else b
    return _decimal_union(a, b)


def _decimal_union(a: LogicalType, b: LogicalType) -> LogicalType:
    (p1, s1), (p2, s2) = as_decimal(a), as_decimal(b)
    integer_digits = min(max(p1 - s1, p2 - s2), _MAX_PRECISION)
    scale = min(max(s1, s2), _MAX_PRECISION - integer_digits)
    return decimal(integer_digits + scale, scale)


_APPROXIMATE_ORDER = {"FLOAT": 1, "DOUBLE": 2}


def common_type(types: Sequence[LogicalType]) -> LogicalType | None:
    """The type that COALESCE, IFNULL, GREATEST, LEAST and the array functions return (Flink's own merging).

    Differs from :func:`least_restrictive` in that the wider of FLOAT and DOUBLE wins, and that DATE and a TIMESTAMP
    mix.
    """
    result = _merge_all(types, _merge_common)
    return replace(result, kind=None) if result is not None and result.kind == "ROWTIME" else result


def _merge_common(a: LogicalType, b: LogicalType) -> LogicalType | None:
    if a.root in _APPROXIMATE_ORDER and b.root in _APPROXIMATE_ORDER:
        return a if _APPROXIMATE_ORDER[a.root] >= _APPROXIMATE_ORDER[b.root] else b
    if {a.root, b.root} == {"FLOAT", "DECIMAL"}:
        return DOUBLE
    if "DATE" in (a.root, b.root) and (a.is_timestamp or b.is_timestamp):
        return a if a.is_timestamp else b
    if a.is_timestamp and b.is_timestamp and a.root != b.root:
        precision = max(a.precision or 0, b.precision or 0)
        return timestamp_ltz(precision)
    return _merge(a, b)


_NUMERIC = frozenset({*_INTEGER_DIGITS, *_APPROXIMATE, "DECIMAL"})
_TEXT = frozenset(_CHARACTERS)
_TS, _LTZ = "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
_TIME = "TIME_WITHOUT_TIME_ZONE"

_CASTS: dict[str, frozenset[str]] = {
    **{root: _NUMERIC | _TEXT | {"BOOLEAN"} for root in _NUMERIC},
    **{root: _NUMERIC | _TEXT | {"BOOLEAN", "DATE", _TIME, _TS, _LTZ, *_BINARIES} for root in _TEXT},
    **{root: _TEXT | frozenset(_BINARIES) for root in _BINARIES},
    "BOOLEAN": _NUMERIC | _TEXT | {"BOOLEAN"},
    "DATE": _TEXT | {"DATE", _TS, _LTZ},
    _TIME: _TEXT | {_TIME, _TS, _LTZ},
    _TS: _TEXT | {_TS, _LTZ, "DATE", _TIME},
    _LTZ: _TEXT | {_TS, _LTZ, "DATE", _TIME},
    "INTERVAL_DAY_TIME": _TEXT | {"INTERVAL_DAY_TIME"},
    "INTERVAL_YEAR_MONTH": _TEXT | {"INTERVAL_YEAR_MONTH"},
}
"""Root to the roots it may be cast to; nested types are checked by their parts."""


def castable(source: LogicalType, target: LogicalType) -> bool:
    """Whether Flink runs CAST(source AS target)."""
    if source.root == "NULL":
        return True
    if source.children or source.fields:
        if target.root in _TEXT:
            return True
        parts = (len(source.children), len(source.fields))
        if source.root != target.root or parts != (len(target.children), len(target.fields)):
            return False
        pairs = [
            *zip(source.children, target.children, strict=True),
            *((f.type, g.type) for f, g in zip(source.fields, target.fields, strict=True)),
        ]
        return all(castable(a, b) for a, b in pairs)
    return target.root in _CASTS.get(source.root, ())


def is_implicit(source: LogicalType, target: LogicalType) -> bool:
    """Whether a value of ``source`` may appear where ``target`` is stored without an explicit CAST, as when a query is
    written into a sink (Flink's ``LogicalTypeCasts.supportsImplicitCast``). Nullability is not looked at."""
    a, b = source.root, target.root
    if a == "NULL" or same_type(source, target):
        return True
    if a == b and len(source.children) == len(target.children) > 0:
        return all(is_implicit(x, y) for x, y in zip(source.children, target.children, strict=True))
    if a == b == "ROW":
        pairs = zip(source.fields, target.fields, strict=False)
        return len(source.fields) == len(target.fields) and all(is_implicit(x.type, y.type) for x, y in pairs)
    if a in _INTEGER_DIGITS and b in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[a] <= _INTEGER_DIGITS[b]
    if family(source) == "NUMERIC" == family(target):
        return b == "DECIMAL" or (b in _APPROXIMATE and (a not in _APPROXIMATE or b == "DOUBLE"))
    if family(source) == family(target):
        return a == b or b not in ("CHAR", "BINARY")
    return a == _TS and b in ("DATE", _TIME)
