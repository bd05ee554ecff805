"""How many bytes a row of a relation may have, for the choices that Flink makes by cost.

Source: Flink's ``FlinkRelMdSize``.
"""

from __future__ import annotations

from stateplan.common.types import LogicalType
from stateplan.functions.rex import Call, InputRef, Literal, Rex
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    Exchange,
    Filter,
    Join,
    Project,
    Rank,
    Rel,
    SetOperation,
    Sort,
    Union,
    Window,
)

_BYTES = {
    "TINYINT": 1,
    "SMALLINT": 2,
    "INTEGER": 4,
    "BIGINT": 8,
    "BOOLEAN": 1,
    "FLOAT": 4,
    "DOUBLE": 8,
    "VARCHAR": 12,
    "CHAR": 1,
    "DECIMAL": 12,
    "INTERVAL_YEAR_MONTH": 8,
    "INTERVAL_DAY_TIME": 4,
    "TIME_WITHOUT_TIME_ZONE": 12,
    "TIMESTAMP_WITHOUT_TIME_ZONE": 12,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": 12,
    "DATE": 12,
    "BINARY": 16,
    "VARBINARY": 16,
}
_OTHER = 128
_ELEMENTS = 16
_BYTES_PER_CHARACTER = 2


def row_size(rel: Rel) -> float:
    """The average size of a row, in bytes."""
    return sum(column_sizes(rel))


def column_sizes(rel: Rel) -> list[float]:
    """The average size of each field's values, in bytes."""
    if isinstance(rel, (Project, Calc)):
        below = column_sizes(rel.input)
        return [_size(e, below) for e in rel.exprs]
    if isinstance(rel, (Filter, Sort, Exchange)):
        return column_sizes(rel.input)
    if isinstance(rel, (Rank, Window)):
        below = column_sizes(rel.input)
        return below + [type_size(t) for _, t in rel.fields[len(below) :]]
    if isinstance(rel, Aggregate):
        below = column_sizes(rel.input)
        return [*(below[g] for g in rel.group), *(type_size(c.type) for c in rel.calls)]
    if isinstance(rel, Join):
        left = column_sizes(rel.left)
        return left if rel.join_type in ("SEMI", "ANTI") else left + column_sizes(rel.right)
    if isinstance(rel, Union):
        sides = [column_sizes(i) for i in rel.inputs]
        return [sum(sizes) / len(sizes) for sizes in zip(*sides, strict=True)]
    if isinstance(rel, SetOperation):
        return column_sizes(rel.left)
    return [type_size(t) for _, t in rel.fields]


def _size(rex: Rex, below: list[float]) -> float:
    """The size of an expression's values: of a call, that of its first operand of the same type."""
    if isinstance(rex, InputRef):
        return below[rex.index]
    if isinstance(rex, Literal):
        if rex.value is None:
            return 1
        if rex.type.is_string and isinstance(rex.value, str):
            return len(rex.value) * _BYTES_PER_CHARACTER
    if isinstance(rex, Call):
        alike = next((o for o in rex.operands if o.type.root == rex.type.root), None)
        if alike is not None:
            return _size(alike, below)
    return type_size(rex.type)


def type_size(of: LogicalType) -> float:
    """The average size of a value of a type."""
    parts = [type_size(t) for t in (*of.children, *(f.type for f in of.fields))]
    if of.root == "MULTISET":
        parts.append(_BYTES["INTEGER"])
    if of.root in ("ARRAY", "MAP", "MULTISET"):
        return sum(parts) * _ELEMENTS
    return sum(parts) if parts else _BYTES.get(of.root, _OTHER)
