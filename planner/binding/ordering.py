"""ORDER BY, LIMIT, OFFSET and FETCH of a query.

Source: Calcite's ``SqlValidatorImpl.OrderExpressionExpander`` (what an item of ORDER BY means) and
``SqlToRelConverter`` (``gatherOrderExprs``, ``convertOrder``): an item is a column of the select list, or becomes one
that is dropped behind the sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.comparison import check_ordered
from stateplan.functions.rex import Rex
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import Order, Project, Rel, Sort, field_names, refs_to
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.scope import Scope
from stateplan.planner.catalog.functions import Functions
from stateplan.planner.expressions.normal import equal
from stateplan.planner.positions import place_of, text_of


@dataclass
class Ordering:
    """The clauses of one query, and the columns that its ORDER BY adds to the select list."""

    query: exp.Expr
    source: str
    top: bool
    order: list[tuple[int, bool, bool]] = field(default_factory=list)
    hidden_columns: list[tuple[str, Rex]] = field(default_factory=list)
    width: int = 0

    @classmethod
    def of(cls, query: exp.Expr, source: str, top: bool) -> Ordering:
        return cls(query, source, top)

    @property
    def fetch(self) -> int | None:
        limit = self.query.args.get("limit")
        return None if limit is None else int(limit.expression.name)

    @property
    def offset(self) -> int:
        offset = self.query.args.get("offset")
        return 0 if offset is None else int(offset.expression.name)

    @property
    def applies(self) -> bool:
        """Whether anything is to be done: without a limit the order of a subquery's rows is nothing."""
        limited = self.fetch is not None or self.offset > 0
        return limited or (self.top and self.query.args.get("order") is not None)

    def bind(
        self,
        bind: Callable[[exp.Expr], Rex],
        names: Sequence[str | None],
        nodes: Sequence[exp.Expr | None],
        exprs: Sequence[Rex],
        *,
        add: bool = True,
    ) -> None:
        """Binds ORDER BY.

        Args:
            bind: binds an expression as one of the select list.
            names: the names of the select list.
            nodes: the nodes of the select list; None for what a star stands for.
            exprs: the columns that the query returns, without those that are added here.
            add: whether columns may be added.

        Raises:
            SqlError: SQL101 (ambiguous), SQL117 (a number that is not a column), SQL118 (a column that cannot be
                added), SQL203 (a type without an order).
        """
        self.width = len(exprs)
        order = self.query.args.get("order")
        if order is None or not self.applies:
            return
        for item in order.expressions:
            node = self._meaning(item.this, names, nodes)
            index = node if isinstance(node, int) else self._column(bind(node), node, exprs, add)
            check_ordered([*exprs, *(r for _, r in self.hidden_columns)][index].type, self._place(item))
            if all(index != i for i, _, _ in self.order):
                self.order.append((index, not item.args.get("desc"), not item.args.get("nulls_first")))

    def _meaning(self, node: exp.Expr, names: Sequence[str | None], nodes: Sequence[exp.Expr | None]) -> exp.Expr | int:
        """The expression of an item of ORDER BY, its names of the select list and numbers replaced; a position for what
        a star stands for."""
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            number = int(node.name)
            if not 1 <= number <= len(names):
                raise SqlError("SQL117", number=number, names=names, place=self._place(node))
            item = nodes[number - 1]
            return number - 1 if item is None else _bare(item)
        if isinstance(node, exp.Column):
            position = _position_of_name(node, names, self.source)
            if position is not None:
                item = nodes[position]
                return position if item is None else _bare(item)
            return node
        return unaliased(node, names, nodes, self.source)

    def _column(self, rex: Rex, node: exp.Expr, exprs: Sequence[Rex], add: bool) -> int:
        for i, e in enumerate((*exprs, *(r for _, r in self.hidden_columns))):
            if equal(e, rex) and e.type == rex.type:
                return i
        if not add:
            raise SqlError("SQL118", text_of=text_of(node, self.source), place=self._place(node))
        at = len(exprs) + len(self.hidden_columns)
        self.hidden_columns.append((node.this.name if isinstance(node, exp.Column) else f"EXPR${at}", rex))
        return at

    def _place(self, node: exp.Expr) -> Place:
        return place_of(node, self.source)

    def sorted(self, rel: Rel, hint: InputHint | None = None) -> Rel:
        """``rel``, which gives the select list and the added columns, sorted and limited."""
        if not self.applies:
            return rel
        clause = self.query.args.get("order") or self.query.args.get("limit") or self.query.args.get("offset")
        assert clause is not None
        order: Order = tuple(self.order)
        sort = Sort(rel, order, self.offset, self.fetch, self._place(clause), hint)
        if not self.hidden_columns:
            return sort
        selected_fields = range(self.width)
        return Project(sort, tuple(refs_to(sort, selected_fields)), tuple(field_names(sort)[: self.width]))


def unaliased(node: exp.Expr, names: Sequence[str | None], nodes: Sequence[exp.Expr | None], source: str) -> exp.Expr:
    """``node`` with the names of the select list replaced by what they stand for.

    Args:
        node: an expression.
        names: the names of the select list.
        nodes: the nodes of the select list; None for what a star stands for.
        source: the text that positions point into.

    Raises:
        SqlError: SQL101, for a name of several columns of the select list.
    """
    around = exp.Paren(this=node.copy())
    for column in list(around.find_all(exp.Column)):
        position = _position_of_name(column, names, source)
        item = None if position is None else nodes[position]
        if item is not None and column.find_ancestor(exp.Subquery, exp.Exists) is None:
            column.replace(_bare(item).copy())
    meaning: exp.Expr = around.this
    return meaning


def _position_of_name(node: exp.Column, names: Sequence[str | None], source: str) -> int | None:
    """The position of the column of the select list that an unqualified name means."""
    if node.args.get("table") is not None or isinstance(node.this, exp.Star):
        return None
    positions = [i for i, n in enumerate(names) if n == node.this.name]
    if len(positions) > 1:
        raise SqlError("SQL101", name=node.this.name, place=place_of(node, source))
    return positions[0] if positions else None


def _bare(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def order_query(rel: Rel, query: exp.Expr, source: str, top: bool, functions: Functions) -> Rel:
    """ORDER BY and LIMIT of a query that is not a SELECT, such as a UNION. The sort keys are its own columns."""
    ordering = Ordering.of(query, source, top)
    names = field_names(rel)
    binder = ExpressionBinder(Scope.of_fields(source, rel.fields, functions), "ORDER BY")
    exprs = refs_to(rel)
    ordering.bind(binder.bind, names, [None] * len(names), exprs)
    if ordering.hidden_columns:
        rel = Project(
            rel, (*exprs, *(r for _, r in ordering.hidden_columns)), (*names, *(n for n, _ in ordering.hidden_columns))
        )
    return ordering.sorted(rel)
