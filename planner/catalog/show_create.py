"""The statements that would create tables, views and catalogs again, as Flink's SHOW CREATE writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stateplan.common.redaction import redacted, redacted_options
from stateplan.execnodes.specs import Distribution
from stateplan.planner.catalog.manager import CatalogDescriptor
from stateplan.planner.catalog.objects import CatalogObject, CatalogTable, CatalogView, Column, quote


def show_create(item: CatalogObject, name: str | None = None) -> str:
    """The statement that would create ``item`` again, under its full name or the one that is given, with stars for
    secrets; references to them stand as written."""
    name = str(item.identifier) if name is None else name
    return _show_table(item, name) if isinstance(item, CatalogTable) else _show_view(item, name)


def text_literal(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def show_create_catalog(name: str, catalog: CatalogDescriptor) -> str:
    """The statement that would create a catalog again, with stars for secrets."""
    comment = [] if catalog.comment is None else [f"COMMENT {text_literal(catalog.comment)}"]
    return "\n".join([f"CREATE CATALOG {quote(name)}", *comment, *options_clause(catalog.options)])


def options_clause(options: Mapping[str, str]) -> list[str]:
    """The lines of a WITH clause, with stars for secrets; none without options."""
    if not options:
        return []
    public_options = sorted(redacted_options(options).items())
    return ["WITH (", ",\n".join(f"  {text_literal(k)} = {text_literal(v)}" for k, v in public_options), ")"]


def _names(names: Iterable[str]) -> str:
    return ", ".join(quote(name) for name in names)


def _show_table(table: CatalogTable, name: str) -> str:
    schema = table.schema
    elements = [f"{quote(c.name)} {_column_text(c)}{_comment(c.comment)}" for c in schema.columns]
    elements += [f"WATERMARK FOR {quote(w.column)} AS {w.expression_sql}" for w in schema.watermarks]
    if schema.primary_key:
        constraint = quote(schema.primary_key_name or "")
        elements.append(f"CONSTRAINT {constraint} PRIMARY KEY ({_names(schema.primary_key)}) NOT ENFORCED")
    lines = [
        f"CREATE {'TEMPORARY ' if table.temporary else ''}TABLE {name} (",
        ",\n".join(f"  {e}" for e in elements),
        ")",
    ]
    if table.comment is not None:
        lines.append(f"COMMENT {text_literal(table.comment)}")
    if table.distribution:
        lines.append(_distribution(table.distribution))
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({_names(table.partition_keys)})")
    return "\n".join([*lines, *options_clause(table.options)])


def _distribution(distribution: Distribution) -> str:
    words = ["DISTRIBUTED"]
    if distribution.bucket_keys:
        kind = "" if distribution.kind == "UNKNOWN" else f" {distribution.kind}"
        words.append(f"BY{kind} ({_names(distribution.bucket_keys)})")
    if distribution.bucket_count is not None:
        words.append(f"INTO {distribution.bucket_count} BUCKETS")
    return " ".join(words)


def _column_text(column: Column) -> str:
    if column.is_computed:
        return f"AS {column.expression_sql}"
    text = str(replace(column.type, kind=None))
    return f"{text} {metadata_text(column)}" if column.is_metadata else text


def _comment(comment: str | None) -> str:
    return "" if comment is None else f" COMMENT {text_literal(comment)}"


def _show_view(view: CatalogView, name: str) -> str:
    lines = [
        f"CREATE {'TEMPORARY ' if view.temporary else ''}VIEW {name} (",
        ",\n".join(f"  {quote(c.name)}" for c in view.schema.columns),
        ")",
    ]
    if view.comment is not None:
        lines.append(f"COMMENT {text_literal(view.comment)}")
    return "\n".join([*lines, f"AS {redacted(view.sql)}"])


def metadata_text(column: Column) -> str:
    """What stands behind the type of a metadata column."""
    key = f" FROM {text_literal(column.metadata_key)}" if column.metadata_key is not None else ""
    return f"METADATA{key}{' VIRTUAL' if column.virtual else ''}"
