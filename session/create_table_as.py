"""``CREATE TABLE ... AS query``, with OR REPLACE and REPLACE: a table with the columns of a query, and the INSERT into
it.

Source: Flink's ``CreateTableASOperation``, ``ReplaceTableAsOperation`` and ``MergeTableAsUtil``. Unlike there, no table
is created or replaced if its job cannot be planned or started.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from stateplan.common.errors import CatalogError
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.objects import CatalogObject, CatalogTable, CatalogView
from stateplan.planner.dialect import nodes
from stateplan.session.context import Context
from stateplan.session.results import TableResult, as_column, distinct_names
from stateplan.session.script import Inserts

if TYPE_CHECKING:
    from stateplan.session.compiler import Plan


def create_table_as(c: Context, node: nodes.CreateTableAs) -> TableResult:
    """Creates or replaces the table, and starts the INSERT. With IF NOT EXISTS, a table that is there gets the rows.

    Raises:
        CatalogError: CAT002, REPLACE of no table; CAT004, CAT010, CAT011, CAT012, a name that cannot be used; and as
            :func:`planner.catalog.ddl.create_table`.
        StateplanError: as an INSERT. Then the catalog is as before, but for a table that it cannot drop.
    """
    existing_object, replace_mode = _existing_object(c, node), node.args.get("replace")
    new_table, insert = _declared_table(c, node)
    existing_table = existing_object if replace_mode is None and isinstance(existing_object, CatalogTable) else None
    with c.catalog.creating(new_table, existing_table or _completed_table(c, new_table)):
        if existing_table is not None:
            result = c.session.starter.inserts(insert, "CREATE TABLE AS")
            summary = new_table.identifier.summary
            note = f"'{summary}' already exists; it keeps its columns and options, and the rows are inserted"
            return replace(result, notes=(note, *result.notes))
        with_table = _in_catalog(c, new_table, existing_object)
        return c.session.starter.inserts(insert, "CREATE TABLE AS", with_table)


def _existing_object(c: Context, node: nodes.CreateTableAs) -> CatalogObject | None:
    """What has the name of the table. Raises as :func:`create_table_as`, where it cannot stay or be replaced."""
    table, replace_mode = node.this, node.args.get("replace")
    parts, place = ddl.parts_of(table.this), c.place(table.this)
    identifier = c.catalog.qualify(parts, place)
    c.catalog.require_database(identifier.catalog, identifier.database, place)
    existing_object = c.catalog.lookup(identifier, False)
    if replace_mode is None and existing_object is not None and not table.args.get("exists"):
        summary = identifier.summary
        raise CatalogError("CAT010", sort="", kind=existing_object.kind.lower(), summary=summary, place=place)
    if replace_mode == "REPLACE" or (replace_mode is not None and existing_object is not None):
        c.catalog.require_droppable(parts, kind="TABLE", place=place)
    if replace_mode is None and isinstance(existing_object, CatalogView):
        raise CatalogError("CAT103", summary=identifier.summary, place=place)
    return existing_object


def declare_table_as(c: Context, node: nodes.CreateTableAs) -> Plan:
    """The plan of the INSERT. The table is in the catalog from then on, and no job starts. Raises StateplanError, as
    :func:`create_table_as`."""
    existing_object = _existing_object(c, node)
    new_table, insert = _declared_table(c, node)
    with c.catalog.creating(new_table, _completed_table(c, new_table)):
        plan = c.session.compiler.inserts(insert)
    if existing_object is None:
        c.catalog.create(new_table, place=c.place(node.this.this))
    elif node.args.get("replace") is not None:
        c.catalog.replace(new_table)
    return plan


def explain_create_table_as(c: Context, node: nodes.CreateTableAs, details: Sequence[str]) -> str:
    """What EXPLAIN shows of the INSERT; nothing is created. Raises StateplanError, as an INSERT."""
    new_table, insert = _declared_table(c, node)
    with c.catalog.creating(new_table, _completed_table(c, new_table)):
        return c.session.compiler.explain(insert, details)


def _declared_table(c: Context, node: nodes.CreateTableAs) -> tuple[CatalogTable, Inserts]:
    """The table that the statement declares, and the INSERT of its query."""
    fields = c.session.compiler.schema(node.expression, c.source)
    names = distinct_names([name for name, _ in fields])
    columns = [(name, as_column(kind)) for name, (_, kind) in zip(names, fields, strict=True)]
    new_table = ddl.create_table(node.this, c.catalog, c.source, c.file, columns)
    c.session.host.check_table(new_table.options, c.place(node.this.this))
    target: exp.Expr = node.this.this.copy()
    if names != [column.name for column in new_table.schema.persisted]:
        target = exp.Schema(this=target, expressions=[exp.to_identifier(name, quoted=True) for name in names])
    insert = exp.Insert(this=target, expression=node.expression.copy())
    insert.meta.update(node.meta)
    return new_table, Inserts.of(insert, c.source)


def _completed_table(c: Context, table: CatalogTable) -> CatalogTable:
    """The table with the options that its catalog will add. Raises CatalogError CAT110 and others, as the catalog does
    when it creates the table."""
    if table.temporary:
        return table
    return c.catalog.require_catalog(table.identifier.catalog).complete_table(table)


@contextmanager
def _in_catalog(c: Context, table: CatalogTable, old_object: CatalogObject | None) -> Iterator[None]:
    """The table is in the catalog from here on, unless the block fails. A catalog that drops no tables keeps it, and
    it is empty."""
    if old_object is None:
        c.catalog.create(table, place=c.place(c.statement.node.this.this))
    else:
        c.catalog.replace(table)
    try:
        yield
    except BaseException:
        if old_object is None:
            with suppress(CatalogError):  # what went wrong is the error of the block
                c.catalog.remove(table)
        else:
            c.catalog.replace(old_object)
        raise
