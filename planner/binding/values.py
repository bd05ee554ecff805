"""VALUES, and SELECT without FROM.

Source: Calcite's ``SqlToRelConverter.convertValues`` and ``convertRowValues``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import INT, LogicalType
from stateplan.functions.casting import cast_rex
from stateplan.functions.rex import Literal, Rex
from stateplan.functions.typerules import least_restrictive
from stateplan.planner.algebra.relations import Project, Rel, Union, Values
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Scope
from stateplan.planner.catalog.functions import Functions
from stateplan.planner.dialect import nodes
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.ops import call
from stateplan.planner.positions import place_of


@dataclass(frozen=True)
class Targets:
    """How an INSERT's column list and PARTITION lay out the rows of its query.

    ``columns[i]`` is the query column for sink column ``i``, or the constant that is written.
    """

    columns: tuple[int | Rex, ...]
    count: int
    place: Place


def one_row() -> Values:
    """What a SELECT without FROM selects from: one row of a field that nothing refers to."""
    zero = INT.not_null()
    return Values((("ZERO", zero),), ((Literal(zero, 0),),))


def bind_values(node: exp.Values, source: str, functions: Functions, targets: Targets | None = None) -> Rel:
    """The rows of ``VALUES (...), (...)``: constants as they are, else a union of one projection per row.

    Raises:
        SqlError: SQL109 (NULL without a type), SQL111 (rows of different length), SQL112 (types that do not mix), and
            what expressions raise.
    """
    binder = ExpressionBinder(Scope(source, functions=functions), "VALUES")
    rows = [[binder.bind(item) for item in row.expressions] for row in node.expressions]
    width = len(rows[0])
    for row, row_node in zip(rows, node.expressions, strict=True):
        if len(row) != width:
            raise SqlError("SQL111", left=width, right=row, what="VALUES", place=place_of(row_node, source))
        for rex, item in zip(row, row_node.expressions, strict=True):
            if rex.type.root == "NULL":
                raise SqlError("SQL109", place=place_of(item, source))
    literal = [[_is_literal(item) for item in row.expressions] for row in node.expressions]
    if targets is not None:
        if width != targets.count:
            raise SqlError("SQL130", returned=width, taker="the INSERT", taken=targets.count, place=targets.place)
        columns = targets.columns
        rows = [[row[c] if isinstance(c, int) else c for c in columns] for row in rows]
        literal = [[flags[c] if isinstance(c, int) else _is_value(c) for c in columns] for flags in literal]
        width = len(columns)
    types = [_common([row[i] for row in rows], i, node, source) for i in range(width)]
    fields = tuple((f"EXPR${i}", t) for i, t in enumerate(types))
    tuples = [[_constant(rex, t) for rex, t in zip(row, types, strict=True)] for row in rows]
    if all(all(flags) for flags in literal) and all(c is not None for row in tuples for c in row):
        return Values(fields, tuple(tuple(c for c in row if c is not None) for row in tuples))
    names = tuple(n for n, _ in fields)
    parts = [
        Project(one_row(), tuple(_coerced(rex, t) for rex, t in zip(row, types, strict=True)), names) for row in rows
    ]
    return parts[0] if len(parts) == 1 else Union(tuple(parts), True)


def _common(column: Sequence[Rex], position: int, node: exp.Values, source: str) -> LogicalType:
    t = least_restrictive([rex.type for rex in column])
    if t is None:
        type_names = " and ".join(dict.fromkeys(rex.type.summary() for rex in column))
        raise SqlError("SQL112.values_types", position=position + 1, shown=type_names, place=place_of(node, source))
    return t


def _is_literal(node: exp.Expr) -> bool:
    while isinstance(node, (exp.Paren, exp.Neg)):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Boolean, exp.HexString, exp.Interval, nodes.TypedLiteral))


def _is_value(rex: Rex) -> bool:
    """Whether a constant of an INSERT's PARTITION is a value that takes no cast."""
    return isinstance(rex, Literal) and rex.value is not None


def _constant(rex: Rex, t: LogicalType) -> Literal | None:
    """The value as one of the column; None if that takes a cast."""
    if not isinstance(rex, Literal) or rex.symbol is not None:
        return None
    if rex.type.as_nullable() == t.as_nullable() or (rex.type.is_string and t.is_string):
        return rex
    literal = fold.cast_literal(rex, t) if rex.type.is_numeric else rex
    if isinstance(literal, Literal) and t.root == "DECIMAL" and literal.value is not None:
        literal = Literal(t.as_nullable(literal.type.nullable), f"{Decimal(str(literal.value)):.{t.scale or 0}f}")
    return literal if isinstance(literal, Literal) and literal.type == t else None


def _coerced(rex: Rex, t: LogicalType) -> Rex:
    if rex.type.as_nullable() == t.as_nullable() or (rex.type.is_string and t.is_string):
        return rex
    target = t.as_nullable(rex.type.nullable)
    if isinstance(rex, Literal):
        return call("CAST", (rex,), target)
    return (
        replace(cast_value, type=target) if (cast_value := cast_rex(rex, target, None)).type != target else cast_value
    )
