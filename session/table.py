"""A query, or a table, as a Python object: PyFlink's ``Table`` without its relational methods.

>>> env = TableEnvironment.create()
>>> orders = env.from_elements([(1, "tea"), (2, "oil")], ["id", "product"])
>>> env.sql_query(f"SELECT product FROM {orders} WHERE id > 1")
Table(product STRING)
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from stateplan.common.errors import CatalogError, SqlError
from stateplan.planner.catalog.ddl import create_view, parts_of
from stateplan.planner.catalog.objects import CatalogTable, CatalogView, Column, ObjectIdentifier, TableSchema
from stateplan.planner.dialect import nodes, parse_path
from stateplan.session.describe import type_text
from stateplan.session.habits import OF_TABLE, AttributeHints
from stateplan.session.notebook import html_table
from stateplan.session.results import TableResult
from stateplan.session.script import Insert, ScriptStatement, is_query, read_statement
from stateplan.session.session import Session

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_PLAIN = re.compile(r"UnnamedTable\$[0-9]+")


def _table_node(identifier: ObjectIdentifier) -> exp.Table:
    """A name of a table as a syntax tree."""
    parts = (identifier.name, identifier.database, identifier.catalog)
    name, database, catalog = (exp.to_identifier(part, quoted=True) for part in parts)
    return exp.Table(this=name, db=database, catalog=catalog)


class Table(AttributeHints):
    """A query of a session. Made by ``TableEnvironment.sql_query``, ``from_path``, ``from_arrow`` and the like.

    In a text it is for its name, so that SQL can use it: ``f"SELECT * FROM {table}"``.
    """

    _REPLACEMENTS = OF_TABLE

    def __init__(
        self,
        session: Session,
        statement: ScriptStatement,
        schema: TableSchema,
        name: ObjectIdentifier | None = None,
    ) -> None:
        self._session = session
        self._statement = statement
        self._schema = schema
        self._name = name
        self._database = session.catalog.current_catalog, session.catalog.current_database

    # running it

    def execute(self) -> TableResult:
        """Runs the query; its rows are collected from the result.

        Raises:
            StateplanError: when the job cannot be started.
        """
        self._session.check_no_open_set()
        with self._name_scope():
            return self._session.starter.query(self._statement.node, self._statement.source)

    def execute_insert(self, table_path: str, overwrite: bool = False) -> TableResult:
        """Writes the rows to a table; returns once the job has started.

        Args:
            table_path: the path of the table, as SQL writes it.
            overwrite: INSERT OVERWRITE.

        Raises:
            StateplanError: when the rows do not fit the table, or the job cannot be started.
        """
        insert = self.insert(table_path, overwrite)
        with self._name_scope():
            return self._session.insert(insert)

    def insert(self, table_path: str, overwrite: bool = False) -> Insert:
        """The INSERT of the rows into a table. Raises SqlError for what is no name."""
        read = self._statement
        return self._insert(table_path, overwrite, read.node.copy(), read.source, read.text)

    def insert_by_name(self, table_path: str, overwrite: bool = False) -> Insert:
        """The same as a query of the table's name, which has one meaning in any database. Raises SqlError for what is
        no name."""
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=_table_node(self.identifier)))
        return self._insert(table_path, overwrite, query, "", f"SELECT * FROM {self.identifier}")

    def _insert(self, table_path: str, overwrite: bool, query: exp.Expr, source: str, text: str) -> Insert:
        target = self._session.catalog.qualify(parts_of(parse_path(table_path)))
        node = exp.Insert(this=_table_node(target), expression=query, overwrite=overwrite)
        return Insert(node, source, f"INSERT {'OVERWRITE' if overwrite else 'INTO'} {target} {text}")

    def to_arrow(self, limit_rows: int | None = None, timeout_ms: int | None = None) -> Any:
        """Runs the query and gives its final rows; see :meth:`TableResult.to_arrow`."""
        with self.execute() as result:
            return result.to_arrow(limit_rows, timeout_ms)

    def to_pandas(self, limit_rows: int | None = None, timeout_ms: int | None = None) -> pd.DataFrame:
        """Runs the query and gives its final rows; see :meth:`TableResult.to_pandas`."""
        with self.execute() as result:
            return result.to_pandas(limit_rows, timeout_ms)

    def to_polars(self, limit_rows: int | None = None, timeout_ms: int | None = None) -> pl.DataFrame:
        """Runs the query and gives its final rows; see :meth:`TableResult.to_polars`."""
        with self.execute() as result:
            return result.to_polars(limit_rows, timeout_ms)

    @contextmanager
    def _name_scope(self) -> Iterator[None]:
        """Within the block, names are looked up as they were where the table was made, in catalogs as they are now."""
        self._session.catalog.refresh()
        with self._session.catalog.at(*self._database):
            yield

    # its name

    def is_of(self, session: Session) -> bool:
        """Whether it is a table of this session."""
        return self._session is session

    @property
    def identifier(self) -> ObjectIdentifier:
        """Its name in the catalog; a table that has none becomes a temporary view with a name of its own."""
        if self._name is None:
            catalog, database = self._database
            names = ((catalog, database, f"UnnamedTable${number}") for number in itertools.count())
            free = next(name for name in names if self._session.catalog.find(name) is None)
            self._name = ObjectIdentifier(*free)
            self._session.catalog.create(self.view(self._name))
        return self._name

    def view(self, identifier: ObjectIdentifier) -> CatalogView:
        """The query as a temporary view."""
        read = self._statement
        return CatalogView(
            identifier,
            read.node,
            read.text,
            TableSchema(tuple(Column(c.name, c.type) for c in self._schema.columns)),
            temporary=True,
            source=read.source,
            catalog=self._database[0],
            database=self._database[1],
            query_names=tuple(c.name for c in self._schema.columns),
        )

    def __str__(self) -> str:
        """Its name, for SQL: see :attr:`identifier`."""
        identifier, catalog = self.identifier, self._session.catalog
        is_current = (catalog.current_catalog, catalog.current_database) == (identifier.catalog, identifier.database)
        return identifier.name if is_current and _PLAIN.fullmatch(identifier.name) else str(identifier)

    # looking at it

    def explain(self, *details: str) -> str:
        """The plan of the query, for people. Raises as ``TableEnvironment.explain_sql``."""
        with self._name_scope():
            return self._session.compiler.explain_query(self._statement.node, self._statement.source, details)

    def get_schema(self) -> TableSchema:
        """Its columns."""
        return self._schema

    def print_schema(self) -> None:
        """Writes the columns to standard output, as Flink does."""
        sys.stdout.write(f"{self._schema}\n")

    def __repr__(self) -> str:
        return f"Table({', '.join(f'{c.name} {c.type.summary()}' for c in self._schema.columns)})"

    def _repr_html_(self) -> str:
        """The columns, for a notebook. Starts no job."""
        rows = [[c.name, type_text(c.type), "yes" if c.type.nullable else "no"] for c in self._schema.columns]
        return html_table(["column", "type", "NULL"], rows, self._statement.text)


def table_of(session: Session, query: str) -> Table:
    """The table of a query.

    Raises:
        SqlError: SQL013, for a statement that is not a query.
        StateplanError: whatever is wrong with it.
    """
    read = _read_query(query)
    fields = session.compiler.schema(read.node, read.source)
    return Table(session, read, TableSchema(tuple(Column(name, kind) for name, kind in fields)))


def _read_query(text: str) -> ScriptStatement:
    read = read_statement(text)
    if not is_query(read.node):
        raise SqlError("SQL013", place=read.place)
    return read


def table_at(session: Session, path: str) -> Table:
    """The table or view of a name, as SQL writes it.

    Raises:
        SqlError: SQL001 to SQL009, for what is not a name.
        CatalogError: CAT002 to CAT004, it does not exist.
    """
    relation = session.catalog.resolve(parts_of(parse_path(path)))
    return _table_of(session, relation.identifier, relation.schema)


def in_memory(session: Session, table: CatalogTable) -> Table:
    """A table that was made for this call, under its name, which no user knows."""
    session.catalog.create(table)
    return _table_of(session, table.identifier, table.schema)


def _table_of(session: Session, identifier: ObjectIdentifier, schema: TableSchema) -> Table:
    return Table(session, read_statement(f"SELECT * FROM {identifier}"), schema, identifier)


def view_of(session: Session, path: str, query: str | Table) -> None:
    """Makes a temporary view of a query or a table.

    Raises:
        SqlError: SQL013, for a statement that is not a query.
        CatalogError: CAT010, the name is taken; CAT030, two columns have one name; CAT071, the table is of another
            session.
    """
    name = parse_path(path)
    if isinstance(query, Table):
        if not query.is_of(session):
            raise CatalogError("CAT071", path=path)
        session.catalog.create(query.view(session.catalog.qualify(parts_of(name))))
        return
    session.check_no_open_set()
    read = _read_query(query)
    node = nodes.CreateView(this=name, expression=read.node, temporary=True)
    session.catalog.refresh()
    fields = session.compiler.schema(read.node, read.source)
    session.catalog.create(create_view(node, session.catalog, fields, read.source))
