"""What the names in a statement mean: tables, views, columns, names of WITH, functions and options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from sqlglot import exp

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.editor.positions import Span
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogObject, ObjectIdentifier
from stateplan.planner.dialect import nodes
from stateplan.planner.positions import span_of


@dataclass(frozen=True)
class Declaration:
    """A table, view or function of the script.

    Attributes:
        name: its name, in full.
        kind: ``table``, ``view``, ``function`` or ``catalog``.
        span: its name where it is declared, in the script.
        statement_span: the statement.
        columns: where its columns are declared.
    """

    name: str
    kind: str
    span: Span
    statement_span: Span
    columns: Mapping[str, Span] = field(default_factory=dict)


def name_span(node: exp.Expr, start: int) -> Span:
    """The span of a name in the script; ``start`` is where its statement begins."""
    span = span_of(node)
    return Span(start, start) if span is None else Span(*span).moved_by(start)


def declared_columns(node: exp.Expr, start: int) -> dict[str, Span]:
    """Where the columns of CREATE TABLE, CREATE VIEW and CREATE TABLE AS are declared."""
    if isinstance(node, nodes.CreateTableAs):
        return {**projections(node.expression, start), **declared_columns(node.this, start)}
    columns: dict[str, Span] = {}
    for column in node.args.get("columns") or ():
        name = column if isinstance(column, exp.Identifier) else column.this
        if isinstance(name, exp.Identifier):
            columns[name.name] = name_span(name, start)
    if isinstance(node, nodes.CreateView) and not columns:
        return projections(node.expression, start)
    return columns


def projections(query: exp.Expr | None, start: int) -> dict[str, Span]:
    """Where the columns of a query are named."""
    while isinstance(query, (exp.Subquery, exp.SetOperation)):
        query = query.this
    columns: dict[str, Span] = {}
    for item in query.expressions if isinstance(query, exp.Select) else ():
        name = (
            item.args.get("alias")
            if isinstance(item, exp.Alias)
            else item.this
            if isinstance(item, exp.Column)
            else None
        )
        if isinstance(name, exp.Identifier):
            columns.setdefault(name.name, name_span(name, start))
    return columns


def node_at(root: exp.Expr, offset: int) -> exp.Expr | None:
    """The smallest part of a syntax tree that a cursor at ``offset`` touches."""
    best: tuple[int, exp.Expr] | None = None
    for node in root.walk():
        start, end = node.meta.get("start"), node.meta.get("end")
        if isinstance(start, int) and isinstance(end, int) and start <= offset <= end + 1:
            size = end - start
            # Of a column and its name the name counts, and of two names that meet at the cursor the one behind it.
            if best is None or size <= best[0]:
                best = size, node
    return None if best is None else best[1]


def table_names(root: exp.Expr) -> Iterator[exp.Table]:
    """The tables and views that a statement names, without names of WITH."""
    for node in root.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and with_query(node) is None:
            yield node


def with_query(table: exp.Table) -> exp.CTE | None:
    """The query of WITH that a name of one part means; None if it is a table or a view."""
    if table.args.get("db") is not None:
        return None
    name = table.name
    inside: exp.Expr = table
    node = table.parent
    while node is not None:
        clause = node.args.get("with_")
        for cte in reversed(clause.expressions) if isinstance(clause, exp.With) else ():
            if cte.alias == name and cte is not inside:
                return cte if isinstance(cte, exp.CTE) else None
        if isinstance(node, exp.CTE):
            inside = node
        node = node.parent
    return None


def sources(select: exp.Select) -> Iterator[tuple[str, exp.Expr]]:
    """What a SELECT reads, each with the name that columns are prefixed with."""
    clause = select.args.get("from_")
    items = [clause.this] if isinstance(clause, exp.From) else []
    items += [join.this for join in select.args.get("joins") or ()]
    for item in items:
        if isinstance(item, (exp.Table, exp.Subquery)):
            yield item.alias_or_name, item


@dataclass(frozen=True)
class ColumnOwner:
    """What a column belongs to.

    Attributes:
        source: the table, or the subquery.
        item: the table or view of the catalog; None for a query.
        query: the query that has the column; None for a table.
    """

    source: exp.Expr
    item: CatalogObject | None
    query: exp.Expr | None


class Resolver:
    """Finds what names mean.

    Args:
        catalog: the catalog of the session.
    """

    def __init__(self, catalog: CatalogManager) -> None:
        self._catalog = catalog

    def identifier(self, table: exp.Table) -> ObjectIdentifier | None:
        """The full name of a table or view."""
        try:
            return self._catalog.qualify(ddl.parts_of(table))
        except StateplanError:
            return None

    def item(self, table: exp.Table) -> CatalogObject | None:
        """The table or view of a name; None if there is none that is at hand."""
        try:
            return self._catalog.find(ddl.parts_of(table))
        except StateplanError:
            return None

    def owner(self, column: exp.Column) -> ColumnOwner | None:
        """What a column belongs to, innermost query first."""
        qualifier = column.args.get("table")
        node = column.parent
        while node is not None:
            if isinstance(node, exp.Select):
                for alias, source in sources(node):
                    if qualifier is not None and alias != qualifier.name:
                        continue
                    owner = self._owner(source, column.name)
                    if owner is not None:
                        return owner
            node = node.parent
        return None

    def _owner(self, source: exp.Expr, name: str) -> ColumnOwner | None:
        query = self.query_of(source)
        if query is not None:
            return ColumnOwner(source, None, query) if name in projections(query, 0) else None
        item = self.item(source) if isinstance(source, exp.Table) else None
        if item is None or item.schema.column(name) is None:
            return None
        return ColumnOwner(source, item, None)

    def query_of(self, source: exp.Expr) -> exp.Expr | None:
        """The query of a subquery, or of a name of WITH."""
        if isinstance(source, exp.Subquery):
            return source.this if isinstance(source.this, exp.Expr) else None
        cte = with_query(source) if isinstance(source, exp.Table) else None
        return None if cte is None else cte.this
