"""What DESCRIBE says of a table or a view, in Flink's form."""

from __future__ import annotations

from stateplan.common.types import LogicalType
from stateplan.planner.catalog.objects import CatalogObject, Column, quote
from stateplan.planner.catalog.show_create import metadata_text

DESCRIBE_COLUMNS = ("name", "type", "null", "key", "extras", "watermark")


def type_text(logical_type: LogicalType) -> str:
    """A type as DESCRIBE shows it: STRING and BYTES by name, time attributes marked, no NOT NULL outside."""
    if logical_type.root == "ROW":
        text = "ROW<" + ", ".join(f"{quote(f.name)} {_inner(f.type)}" for f in logical_type.fields) + ">"
    elif logical_type.children:
        text = f"{logical_type.root}<" + ", ".join(_inner(c) for c in logical_type.children) + ">"
    else:
        return logical_type.as_nullable().summary()
    return text


def _inner(logical_type: LogicalType) -> str:
    return type_text(logical_type) + ("" if logical_type.nullable else " NOT NULL")


def describe(item: CatalogObject) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Column names and rows of DESCRIBE; a column of comments only where there are any."""
    schema = item.schema
    commented = any(c.comment is not None for c in schema.columns)
    marks = {w.column: w.expression_sql for w in schema.watermarks}
    key = f"PRI({', '.join(schema.primary_key)})"
    rows: list[tuple[object, ...]] = []
    for column in schema.columns:
        row: tuple[object, ...] = (
            column.name,
            type_text(column.type),
            column.type.nullable,
            key if column.name in schema.primary_key else None,
            _extras(column),
            marks.get(column.name),
        )
        rows.append((*row, column.comment) if commented else row)
    return (*DESCRIBE_COLUMNS, "comment") if commented else DESCRIBE_COLUMNS, rows


def _extras(column: Column) -> str | None:
    if column.is_computed:
        return f"AS {column.expression_sql}"
    return metadata_text(column) if column.is_metadata else None
