"""What SHOW CREATE and DESCRIBE say of a table, a view or a catalog, in Flink's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stateplan.execnodes.specs import Distribution
from stateplan.execnodes.types import LogicalType
from stateplan.planner.catalog.manager import CatalogDescriptor
from stateplan.planner.catalog.objects import CatalogObject, CatalogTable, CatalogView, Column, quote

DESCRIBE_COLUMNS = ("name", "type", "null", "key", "extras", "watermark")


def type_text(found: LogicalType) -> str:
    """A type as DESCRIBE shows it: STRING and BYTES by name, time attributes marked, no NOT NULL outside."""
    if found.root == "ROW":
        text = "ROW<" + ", ".join(f"{quote(f.name)} {_inner(f.type)}" for f in found.fields) + ">"
    elif found.children:
        text = f"{found.root}<" + ", ".join(_inner(c) for c in found.children) + ">"
    else:
        return found.as_nullable().summary()
    return text


def _inner(found: LogicalType) -> str:
    return type_text(found) + ("" if found.nullable else " NOT NULL")


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
    return _metadata(column) if column.is_metadata else None


def _metadata(column: Column) -> str:
    key = f" FROM {_text(column.metadata_key)}" if column.metadata_key is not None else ""
    return f"METADATA{key}{' VIRTUAL' if column.virtual else ''}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def show_create(item: CatalogObject) -> str:
    """The statement that would create ``item`` again."""
    return _show_table(item) if isinstance(item, CatalogTable) else _show_view(item)


def show_create_catalog(name: str, catalog: CatalogDescriptor) -> str:
    """The statement that would create a catalog again."""
    comment = [] if catalog.comment is None else [f"COMMENT {_text(catalog.comment)}"]
    return "\n".join([f"CREATE CATALOG {quote(name)}", *comment, *_with(catalog.options)])


def _with(options: Mapping[str, str]) -> list[str]:
    if not options:
        return []
    return ["WITH (", ",\n".join(f"  {_text(k)} = {_text(v)}" for k, v in sorted(options.items())), ")"]


def _names(names: Iterable[str]) -> str:
    return ", ".join(quote(name) for name in names)


def _show_table(table: CatalogTable) -> str:
    schema = table.schema
    elements = [f"{quote(c.name)} {_declared(c)}{_comment(c.comment)}" for c in schema.columns]
    elements += [f"WATERMARK FOR {quote(w.column)} AS {w.expression_sql}" for w in schema.watermarks]
    if schema.primary_key:
        name = quote(schema.primary_key_name or "")
        elements.append(f"CONSTRAINT {name} PRIMARY KEY ({_names(schema.primary_key)}) NOT ENFORCED")
    lines = [
        f"CREATE {'TEMPORARY ' if table.temporary else ''}TABLE {table.identifier} (",
        ",\n".join(f"  {e}" for e in elements),
        ")",
    ]
    if table.comment is not None:
        lines.append(f"COMMENT {_text(table.comment)}")
    if table.distribution:
        lines.append(_distribution(table.distribution))
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({_names(table.partition_keys)})")
    return "\n".join([*lines, *_with(table.options)])


def _distribution(found: Distribution) -> str:
    words = ["DISTRIBUTED"]
    if found.bucket_keys:
        kind = "" if found.kind == "UNKNOWN" else f" {found.kind}"
        words.append(f"BY{kind} ({_names(found.bucket_keys)})")
    if found.bucket_count is not None:
        words.append(f"INTO {found.bucket_count} BUCKETS")
    return " ".join(words)


def _declared(column: Column) -> str:
    if column.is_computed:
        return f"AS {column.expression_sql}"
    from dataclasses import replace

    text = str(replace(column.type, kind=None))
    return f"{text} {_metadata(column)}" if column.is_metadata else text


def _comment(comment: str | None) -> str:
    return "" if comment is None else f" COMMENT {_text(comment)}"


def _show_view(view: CatalogView) -> str:
    lines = [
        f"CREATE {'TEMPORARY ' if view.temporary else ''}VIEW {view.identifier} (",
        ",\n".join(f"  {quote(c.name)}" for c in view.schema.columns),
        ")",
    ]
    if view.comment is not None:
        lines.append(f"COMMENT {_text(view.comment)}")
    return "\n".join([*lines, f"AS {view.sql}"])
