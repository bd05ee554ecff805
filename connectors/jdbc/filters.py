"""Conditions of a query as conditions of PostgreSQL, which omit rows that do not matter.

The runtime applies every condition itself. So a condition here may be weaker than that of the query, and must never be
stronger: what differs between the two systems is not translated.
"""

from __future__ import annotations

import math

from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.columns import Column, TableInfo, is_plain
from stateplan.connectors.jdbc.postgres import literal, quote_name
from stateplan.functions.rex import Call, InputRef, Literal, Rex

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = ("int2", "int4", "int8")
_WHOLE_ROOTS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def condition_sql(condition: Rex, fields: Fields, table: TableInfo) -> str | None:
    """A condition of a query as SQL of the database, so that the database sends fewer rows.

    It holds for each row for which ``condition`` holds, and possibly for others: the parts that SQL of the database
    cannot express are omitted.

    Args:
        condition: the condition, over ``fields``.
        fields: name and type of the declared columns.
        table: the table of the database.

    Returns:
        None if no part can be expressed.
    """
    if not isinstance(condition, Call):
        return None
    if condition.name == "AND":
        parts = [condition_sql(c, fields, table) for c in condition.operands]
        return " AND ".join(f"({c})" for c in parts if c is not None) or None
    if condition.name == "OR":
        parts = [condition_sql(c, fields, table) for c in condition.operands]
        return " OR ".join(f"({c})" for c in parts if c is not None) if None not in parts else None
    if condition.name in ("IS NULL", "IS NOT NULL"):
        column = _column(condition.operands[0], fields, table)
        return None if column is None else f"{quote_name(column[0].name)} {condition.name}"
    if condition.name in _MIRRORED and len(condition.operands) == 2:
        left, right = condition.operands
        if isinstance(left, InputRef) and isinstance(right, Literal):
            return _comparison(_column(left, fields, table), condition.name, right)
        if isinstance(right, InputRef) and isinstance(left, Literal):
            return _comparison(_column(right, fields, table), _MIRRORED[condition.name], left)
    return None


def _column(rex: Rex, fields: Fields, table: TableInfo) -> tuple[Column, LogicalType] | None:
    """The column that an expression is, and what it is declared as."""
    if not isinstance(rex, InputRef):
        return None
    name, data_type = fields[rex.index]
    column = table.column(name)
    return None if column is None else (column, data_type)


def _comparison(column_and_type: tuple[Column, LogicalType] | None, operator: str, constant: Literal) -> str | None:
    if column_and_type is None or constant.value is None or not is_plain(*column_and_type):
        return None
    column, _ = column_and_type
    name, root = quote_name(column.name), constant.type.root
    if column.type in (*_INTEGERS, "numeric") and root in (*_WHOLE_ROOTS, "DECIMAL"):
        return (
            f"{name} {operator} {literal(str(constant.value))}::numeric"
            if root == "DECIMAL"
            else (f"{name} {operator} {int(constant.value)}")
        )
    if column.type == "float8" and root in (*_WHOLE_ROOTS, "DECIMAL", "DOUBLE"):
        if math.isnan(float(constant.value)):  # equal to itself there
            return None
        return f"{name} {operator} {literal(str(float(constant.value)))}::float8"
    if column.type == "bool" and root == "BOOLEAN":
        return f"{name} {operator} {bool(constant.value)}"
    if column.type == "date" and root == "DATE":
        return f"{name} {operator} {literal(str(constant.value))}::date"
    # Only equal texts are equal in every collation.
    if column.type in ("text", "varchar") and root in ("CHAR", "VARCHAR") and operator == "=":
        return f"{name} = {literal(str(constant.value))}" if "\0" not in str(constant.value) else None
    return None
