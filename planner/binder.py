"""Binding of single expressions: computed columns, watermarks, options."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from stateplan.execnodes.rex import Rex
from stateplan.execnodes.types import LogicalType
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Scope
from stateplan.planner.catalog.functions import Functions


def bind_expression(
    ast: exp.Expr, fields: Sequence[tuple[str, LogicalType]], source: str, functions: Functions | None = None
) -> Rex:
    """The row expression of ``ast`` over a row with these fields.

    Args:
        ast: an expression as the dialect parses it.
        fields: name and type of what column names may mean; a reference is its position here.
        source: the text that the positions of ``ast`` point into.
        functions: finds user-defined functions.

    Raises:
        SqlError: SQL100 (no such column), SQL101 (ambiguous), SQL104 and SQL105 (aggregate or window function), SQL150,
            SQL2xx (functions, types, constants), each with its place.
    """
    return ExpressionBinder(Scope.of_fields(source, list(fields), functions), "an expression").bind(ast)
