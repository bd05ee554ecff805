"""ALTER TABLE of an Iceberg table: its columns by their ids, its partitions, its order and its properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stateplan.connectors.catalogs import ExternalColumn
from stateplan.connectors.iceberg.layout import (
    PARTITIONING,
    Term,
    check_terms,
    library_transform,
    partition_terms,
)
from stateplan.connectors.iceberg.schema import columns_of, iceberg_type

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.update.schema import UpdateSchema


def alter_columns(
    transaction: Transaction, table: Table, columns: Sequence[ExternalColumn], key: Sequence[str]
) -> None:
    """Changes the columns of a table to others. One that comes in the place of another one, with its type, is that one
    under another name.

    Args:
        transaction: makes the change.
        table: as it is.
        columns: after the change.
        key: the columns of the primary key.

    Raises:
        Exception: of the library, a change that Iceberg does not allow.
    """
    before = {c.name: c for c in columns_of(table.schema())}
    after = {c.name: c for c in columns}
    old_names = [name for name in before if name not in after]
    new_names = [name for name in after if name not in before]
    with transaction.update_schema() as update:
        if len(old_names) == len(new_names) == 1 and list(before).index(old_names[0]) == list(after).index(
            new_names[0]
        ):
            update.rename_column((old_names[0],), new_names[0])
            old_names, new_names = [], []
        sources = {f.source_id for f in table.spec().fields} | {f.source_id for f in table.sort_order().fields}
        for name in old_names:
            if before[name].field_id in sources:
                raise ValueError(f"the partitions or the order of rows need the column '{name}'")
            update.delete_column((name,))
        for name in new_names:
            column = after[name]
            update.add_column((name,), iceberg_type(column.type), column.comment, required=not column.type.nullable)
        for name, column in after.items():
            if name in before:
                _modify(update, name, column, before[name].declared_type, before[name].comment)
        order = [name for name in before if name in after] + new_names
        if order != list(after) and len(order) == len(after):
            for i, name in enumerate(after):
                if i:
                    update.move_after((name,), (list(after)[i - 1],))
                else:
                    update.move_first((name,))
        update.set_identifier_fields(*key)


def _modify(update: UpdateSchema, name: str, column: ExternalColumn, declared_type: Any, comment: str | None) -> None:
    if declared_type is None or column.type.not_null() != declared_type.not_null():
        update.update_column((name,), field_type=iceberg_type(column.type))
    if declared_type is not None and column.type.nullable != declared_type.nullable:
        if not column.type.nullable:
            raise ValueError(f"the column '{name}' may have NULLs")
        update.make_column_optional((name,))
    if column.comment != comment:
        update.update_column((name,), doc=column.comment or "")


def alter_partitions(transaction: Transaction, table: Table, terms: Sequence[Term]) -> None:
    """Changes the partitions of files that come. Raises OptionError OPT174; and as :func:`alter_columns`."""
    schema, spec = table.schema(), table.spec()
    check_terms(terms, schema, PARTITIONING)
    own_terms = partition_terms(schema, spec)
    names = {term.text: field.name for term, field in zip(own_terms, spec.fields, strict=True)}
    texts = [term.text for term in terms]
    with transaction.update_spec() as update:
        for text, name in names.items():
            if text not in texts:
                update.remove_field(name)
        for term in terms:
            if term.text not in names:
                update.add_field(term.column, library_transform(term.transform), term.field_name)


def alter_order(transaction: Transaction, terms: Sequence[Term]) -> None:
    """Changes the order of rows in files that come. Raises as :func:`alter_columns`."""
    from pyiceberg.table.sorting import NullOrder

    with transaction.update_sort_order() as update:
        for term in terms:
            nulls_last = term.descending if term.nulls_last is None else term.nulls_last
            place = NullOrder.NULLS_LAST if nulls_last else NullOrder.NULLS_FIRST
            add = update.desc if term.descending else update.asc
            add(term.column, library_transform(term.transform), place)


def alter_properties(transaction: Transaction, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Changes the properties of a table."""
    old_names = [key for key in before if key not in after]
    changes: dict[str, Any] = {key: text for key, text in after.items() if before.get(key) != text}
    if old_names:
        transaction.remove_properties(*old_names)
    if changes:
        transaction.set_properties(changes)
