"""Queries: from syntax trees to relations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal as LiteralType
from typing import TypeAlias

from sqlglot import exp

from stateplan.common.errors import Place, SqlError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.rex import InputRef, Rex, input_refs
from stateplan.functions.typerules import least_restrictive
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import (
    Aggregate,
    Filter,
    Project,
    Rel,
    Scan,
    SetOperation,
    Union,
    Values,
    fresh_name,
    identity,
    is_identity,
    refs_to,
)
from stateplan.planner.binding.changelog_functions import CHANGELOG_FUNCTIONS, bind_changelog_function
from stateplan.planner.binding.column_names import with_scope_names, written_names
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.grouping import GroupingBinder, contains_aggregate, owner
from stateplan.planner.binding.hints import QUERY_STATES, TtlHints, read_options_hint, with_written_hints
from stateplan.planner.binding.joins import bind_join
from stateplan.planner.binding.lateral import bind_lateral, is_lateral_query
from stateplan.planner.binding.match import bind_match
from stateplan.planner.binding.ordering import Ordering, order_query
from stateplan.planner.binding.over import named_windows
from stateplan.planner.binding.process_tables import bind_process_table
from stateplan.planner.binding.qualify import bind_qualify, qualified
from stateplan.planner.binding.scope import Relation, Scope, first_repeated
from stateplan.planner.binding.table_aggregates import bind_table_aggregate
from stateplan.planner.binding.table_functions import bind_function_join, is_function_join
from stateplan.planner.binding.tables import scan_of
from stateplan.planner.binding.time_travel import AS_OF, as_of, with_versions
from stateplan.planner.binding.unnest import bind_unnest, nothing, with_names_of_scope, with_outer_rows
from stateplan.planner.binding.user_functions import user_function
from stateplan.planner.binding.values import Targets, bind_values, one_row
from stateplan.planner.binding.window_functions import WINDOW_FUNCTIONS, bind_window_function
from stateplan.planner.catalog.functions import FoundFunction
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogView
from stateplan.planner.dialect import function_name, nodes
from stateplan.planner.dialect.calls import NO_PARENTHESES
from stateplan.planner.expressions.ops import outer_field, rewrite
from stateplan.planner.positions import bare, not_supported, place_of

Operator: TypeAlias = LiteralType["INTERSECT", "EXCEPT"]


@dataclass
class _Item:
    """One item of a select list: a syntax node, or an expression that a star stands for."""

    name: str | None
    node: exp.Expr | None = None
    rex: Rex | None = None


@dataclass(frozen=True)
class QueryBinder:
    """Binds queries against a catalog.

    Args:
        catalog: where table names are looked up.
        source: the text that positions of the syntax tree point into.
        ctes: queries known by name (WITH), innermost last.
        outer: for a query inside an expression, what a column of the query around it means.
        numbers: gives each query inside an expression a number of its own.
        hinted: whether the statement has STATE_TTL hints.
        duplicates: whether change events of tables may come twice.
        batch: whether the query runs in batch mode.
        above: the hints of the SELECT that has the query in its FROM.
    """

    catalog: CatalogManager
    source: str
    ctes: Mapping[str, tuple[exp.Expr, QueryBinder]] = field(default_factory=dict)
    depth: int = 0
    outer: Callable[[exp.Expr], Rex] | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)
    hinted: bool = False
    duplicates: bool = False
    batch: bool = False
    above: TtlHints | None = None

    def place(self, node: exp.Expr) -> Place:
        return place_of(node, self.source)

    def bind(self, node: exp.Expr, targets: Targets | None = None, *, top: bool = False) -> Rel:
        """The relation of a query.

        Args:
            node: the query.
            targets: the column list of the INSERT that the query is of.
            top: whether it is not a subquery: the rows of a subquery without LIMIT have no order.

        Raises:
            SqlError: SQL100 to SQL150 and what expressions raise.
            CatalogError: a table that is not there or cannot be read.
        """
        if not self.hinted and any(s.args.get("hint") for s in node.find_all(exp.Select)):
            return replace(self, hinted=True).bind(node, targets, top=top)
        with_ = node.args.get("with_")
        if with_ is not None:
            return self._with(with_).bind(_without(node, "with_"), targets, top=top)
        if isinstance(node, exp.Subquery):
            return order_query(self.bind(node.this, targets, top=top), node, self.source, top, self.catalog.function)
        if isinstance(node, exp.Select):
            return self._select(node, targets, top)
        if isinstance(node, (exp.Union, exp.Intersect, exp.Except)):
            return order_query(self._set_operation(node, targets), node, self.source, top, self.catalog.function)
        if isinstance(node, exp.Values):
            rows = bind_values(node, self.source, self.catalog.function, targets)
            return order_query(rows, node, self.source, top, self.catalog.function)
        raise not_supported(type(node).__name__, self.place(node))

    def subquery(self, node: exp.Expr, around: Callable[[exp.Expr], Rex]) -> tuple[Rel, int]:
        """The relation of a query inside an expression, and its number; ``around`` binds columns outside of it."""
        number = next(self.numbers)

        def lifted(rex: Rex) -> Rex | None:
            return outer_field(number, rex.index, rex.type) if isinstance(rex, InputRef) else None

        def outer(column: exp.Expr) -> Rex:
            self.catalog.correlations.referred()
            return rewrite(around(column), lifted)

        return replace(self, outer=outer, above=None).bind(node), number

    def _with(self, with_: exp.Expr) -> QueryBinder:
        binder = replace(self, above=None)
        for cte in with_.expressions:
            alias = cte.args["alias"]
            query: exp.Expr = cte.this
            if alias.args.get("columns"):
                query = exp.Subquery(this=query, alias=alias)
                query.meta.update(cte.meta)
            binder = replace(binder, ctes={**binder.ctes, alias.this.name: (query, binder)})
        return replace(binder, above=self.above)

    # set operations

    def _set_operation(self, node: exp.Expr, targets: Targets | None) -> Rel:
        word = type(node).__name__.upper()
        left, right = self.bind(node.this, targets), self.bind(node.expression, targets)
        if left.width != right.width:
            raise SqlError("SQL111", what=word, left=left.width, right=right.width, place=self.place(node.expression))
        for i, ((name, a), (_, b)) in enumerate(zip(left.fields, right.fields, strict=True)):
            if least_restrictive([a, b]) is None:
                raise SqlError(
                    "SQL112", position=i + 1, name=name, word=word, a=a, b=b, place=self.place(node.expression)
                )
        if isinstance(node, (exp.Intersect, exp.Except)):
            operator: Operator = "INTERSECT" if isinstance(node, exp.Intersect) else "EXCEPT"
            return SetOperation(left, right, operator, not node.args.get("distinct"))
        return Union((left, right), not node.args.get("distinct"), last_place=self.place(node.expression))

    # SELECT

    def _select(self, node: exp.Select, targets: Targets | None, top: bool) -> Rel:
        from_ = node.args.get("from_")
        hints = TtlHints.read(node.args.get("hint"), self.source, self.above)
        if from_ is None:
            source: tuple[Rel, Scope] = (one_row(), self._scope())
        else:
            hints.look_at(node, self.catalog.function)
            source = self._from(from_.this, node.args.get("joins") or [], hints)
        rel, scope = source
        hints.check(scope.relations, _has_queries(node))
        hints.check_retries()
        read = rel
        scope = replace(scope, query_hints=(hints.of(QUERY_STATES[0]), hints.of(QUERY_STATES[1])))
        condition_node = node.args.get("where")
        if condition_node is not None:
            rel = Filter(rel, ExpressionBinder(scope, "WHERE").condition(condition_node.this, "WHERE"))
        windows = named_windows(node.args.get("windows") or (), self.place)
        items = self._laid_out(self._items(node.expressions, scope), targets)
        ordering = Ordering.of(node, self.source, top)
        only = hints.key_of(scope.relations)
        group, having = node.args.get("group"), node.args.get("having")
        aggregated = (
            group is not None
            or having is not None
            or any(i.node is not None and contains_aggregate(i.node, self.catalog.function) for i in items)
        )
        if aggregated:
            rel = self._grouped(node, rel, scope, items, windows, hints.of(only), ordering)
        else:
            over = replace(scope, over_hint=hints.of_ranks(scope.relations))
            binder = ExpressionBinder(over, "SELECT", windows=True, named_windows=windows)
            exprs = [i.rex if i.rex is not None else binder.bind(_value(i)) for i in items]
            self._check_nulls_have_types(items, exprs)
            exprs += _bind_order(ordering, binder.bind, items, exprs, node)
            condition = bind_qualify(binder, node, [i.name for i in items], [i.node for i in items])
            rel = qualified(rel, exprs, _names(items, ordering), condition)
        if node.args.get("distinct") is not None:
            rel = self._distinct(rel, hints.of(only), self.place(node.args["distinct"]))
        query_hints = hints.query_hints
        if query_hints is not None:
            rel = with_written_hints(rel, query_hints, read)
        ranked = not aggregated and node.args.get("distinct") is None
        return ordering.sorted(rel, hints.of_ranks(scope.relations) if ranked else None)

    def _check_nulls_have_types(self, items: Sequence[_Item], exprs: Sequence[Rex]) -> None:
        for item, e in zip(items, exprs, strict=True):
            if e.type.root == "NULL" and item.node is not None:
                raise SqlError("SQL109", place=self.place(item.node))

    def _grouped(
        self,
        node: exp.Select,
        rel: Rel,
        scope: Scope,
        items: Sequence[_Item],
        windows: dict[str, exp.Expr],
        hint: InputHint | None,
        ordering: Ordering,
    ) -> Rel:
        group = node.args.get("group")
        binder = GroupingBinder(rel, scope, group, windows)
        exprs = []
        for item in items:
            if item.node is None and item.rex is not None:
                exprs.append(self._grouped_star(binder, item, node))
            else:
                exprs.append(binder.select_item(_value(item), item.name or ""))
        having = node.args.get("having")
        condition = None
        if having is not None:
            binder.place_name = "HAVING"
            binder.windows = False
            condition = binder.condition(having.this, "HAVING")
        self._check_nulls_have_types(items, exprs)
        exprs += _bind_order(ordering, binder.bind, items, exprs, node)
        qualify = bind_qualify(binder, node, [i.name for i in items], [i.node for i in items])
        aggregate = binder.build(hint, self.place(group if group is not None else node))
        if condition is not None:
            aggregate = Filter(aggregate, condition)
        names = _names(items, ordering)
        if qualify is None and is_identity(exprs, aggregate) and names == [n for n, _ in aggregate.fields]:
            return aggregate
        return qualified(aggregate, exprs, names, qualify)

    def _grouped_star(self, binder: GroupingBinder, item: _Item, node: exp.Expr) -> Rex:
        from stateplan.planner.expressions.normal import equal

        for i, key in enumerate(binder.input.exprs[: binder.group_count]):
            if item.rex is not None and equal(key, item.rex):
                binder.input.names[i] = item.name
                return binder.key_ref(i)
        if item.rex is not None and not list(input_refs(item.rex)):
            return item.rex
        raise SqlError("SQL107", name=item.name, place=self.place(node))

    def _distinct(self, rel: Rel, hint: InputHint | None, place: Place) -> Rel:
        """SELECT DISTINCT: columns that repeat an earlier one are grouped only once."""
        if isinstance(rel, Project):
            from stateplan.planner.expressions.normal import equal

            kept_fields: list[int] = []
            positions: list[int] = []
            for i, e in enumerate(rel.exprs):
                twin = next(
                    (k for k, j in enumerate(kept_fields) if isinstance(e, InputRef) and equal(rel.exprs[j], e)), None
                )
                if twin is None:
                    kept_fields.append(i)
                    twin = len(kept_fields) - 1
                positions.append(twin)
            if len(kept_fields) < rel.width:
                below = Project(
                    rel.input, tuple(rel.exprs[i] for i in kept_fields), tuple(rel.names[i] for i in kept_fields)
                )
                aggregate = Aggregate(below, tuple(range(len(kept_fields))), (), hint, place)
                return Project(aggregate, tuple(InputRef(aggregate.fields[w][1], w) for w in positions), rel.names)
        return Aggregate(rel, tuple(range(rel.width)), (), hint, place)

    # the select list

    def _items(self, expressions: Sequence[exp.Expr], scope: Scope) -> list[_Item]:
        items: list[_Item] = []
        for node in expressions:
            if isinstance(node, exp.Star):
                scope.check_names(scope.relations, self.place(node))
                items += [_Item(n, rex=r) for n, r in scope.star()]
            elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
                items += [_Item(n, rex=r) for n, r in scope.star(node)]
            elif isinstance(node, exp.Alias):
                items.append(_Item(node.args["alias"].name, node))
            else:
                items.append(_Item(_own_name(node), node))
        return items

    def _laid_out(self, items: list[_Item], targets: Targets | None) -> list[_Item]:
        if targets is not None:
            if len(items) != targets.count:
                raise SqlError("SQL130", returned=items, taker="the INSERT", taken=targets.count, place=targets.place)
            items = [replace(items[c]) if isinstance(c, int) else _Item(None, rex=c) for c in targets.columns]
        for i, item in enumerate(items):
            if item.name is None:
                item.name = f"EXPR${i}"
        return items

    # FROM

    def _from(self, first: exp.Expr, joins: Sequence[exp.Expr], hints: TtlHints) -> tuple[Rel, Scope]:
        first, joins = with_versions(first, joins, self.catalog, self.ctes, self.source)
        out = self._first(first, hints)
        for join in joins:
            if is_function_join(join.this):
                out = bind_function_join(out, join, self.source, self.catalog.correlations)
            elif isinstance(join.this, exp.Unnest):
                out = bind_unnest(out, join, join.this, hints, self.source, self.catalog.correlations, self.depth > 0)
            elif is_lateral_query(join.this):
                left = with_names_of_scope(*out), out[1]
                out = bind_lateral(left, join, hints, self.source, self.subquery, self._with_alias)
            else:
                left = with_names_of_scope(*out), out[1]
                if join.this.args.get("version") is not None:
                    self.catalog.correlations.referred()
                out = bind_join(left, self._bind_joins(join.this, hints), join, hints, self.source)
        return with_names_of_scope(with_outer_rows(*out), out[1]), out[1]

    def _first(self, node: exp.Expr, hints: TtlHints) -> tuple[Rel, Scope]:
        """The item that a FROM begins with."""
        if isinstance(node, exp.Unnest):
            rel, scope = nothing(self.source, self.catalog.function)
            alone = rel, replace(scope, outer=None if self.outer is None else self._not_around)
            return bind_unnest(alone, node, node, hints, self.source, self.catalog.correlations, self.depth > 0)
        return self._bind_joins(node, hints)

    def _not_around(self, column: exp.Expr) -> Rex:
        """Refuses a column of the outer query in an UNNEST that comes first."""
        if self.outer is not None:
            self.outer(column)
        raise not_supported(
            "UNNEST of a column of the outer query", self.place(column), "FROM t CROSS JOIN UNNEST(t.items)"
        )

    def _bind_joins(self, node: exp.Expr, hints: TtlHints) -> tuple[Rel, Scope]:
        """A table reference, or joins in parentheses."""
        if isinstance(node, nodes.JoinedTables):
            return self._from(node.this, node.args["joins"], hints)
        return self._table(node, hints)

    def relation(self, node: exp.Expr) -> tuple[Rel, Scope]:
        """What one item of FROM stands for."""
        return self._table(node)

    def _table(self, node: exp.Expr, hints: TtlHints | None = None) -> tuple[Rel, Scope]:
        if isinstance(node, exp.Table):
            hints_of_query = None if hints is None else hints.of_query()
            cte = self._with_query(node, hints_of_query)
            if cte is not None:
                return self._aliased(cte[0], node.name, (), node.args.get("alias"), cte[1])
            rel, name, path = self._named_table(node, hints_of_query)
        elif isinstance(node, exp.Subquery):
            rel, name, path = replace(self, above=hints).bind(_without(node, "alias").this), "", ()
        elif isinstance(node, nodes.MatchRecognize):
            match = bind_match(node, with_scope_names(*self._table(node.this)), self.source, self.catalog.function)
            rel, name, path = replace(match, hint=_hinted(node, hints)), "", ()
        elif is_lateral_query(node):
            rel, name, path = self.bind(node.this), "", ()
        elif isinstance(node, exp.Lateral):
            raise not_supported("LATERAL TABLE as the first item of FROM", self.place(node), "put it behind a table")
        elif isinstance(node, exp.TableFromRows):
            call = node.this
            if not isinstance(call, exp.Anonymous):
                raise not_supported("a table function", self.place(node))
            user = user_function(call, self.place(call), self.catalog.function)
            if user is not None and user.function.kind != "PROCESS_TABLE":
                return self._table_aggregate(user, call, node.args.get("alias"), hints)
            if user is not None:
                rel = bind_process_table(user, call, self._argument, self._constant, self.source)
                rel = replace(rel, hint=_hinted(node, hints))
                return self._aliased(rel, "", (), node.args.get("alias"))
            call_and_binders = (call, self._argument_table, self._constant, self.source)
            if function_name(call) in WINDOW_FUNCTIONS:
                rel = replace(bind_window_function(*call_and_binders, self.batch), hint=_hinted(node, hints))
            elif function_name(call) in CHANGELOG_FUNCTIONS:
                rel = bind_changelog_function(*call_and_binders)
            else:
                raise not_supported(f"the table function {function_name(call)}", self.place(node))
            name, path = "", ()
        else:
            raise not_supported(type(node).__name__, self.place(node))
        return self._aliased(rel, name, path, node.args.get("alias"))

    def _table_aggregate(
        self, user: FoundFunction, call: exp.Anonymous, alias: exp.Expr | None, hints: TtlHints | None
    ) -> tuple[Rel, Scope]:
        """Hints know it by its alias, without one by the table that it is over."""
        rel, over = bind_table_aggregate(user, call, self._argument, self.source)
        name, path = ("", over.path or (over.name,)) if alias is None else (alias.this.name, ())
        key = hints.key_of([Relation(name, (), 0, path)]) if hints is not None else None
        if hints is not None:
            rel = replace(rel, hint=hints.of(key))
        return self._aliased(rel, name, path, alias)

    def _with_alias(self, rel: Rel, alias: exp.Expr | None) -> tuple[Rel, Scope]:
        return self._aliased(rel, "", (), alias)

    def _aliased(
        self,
        rel: Rel,
        name: str,
        path: tuple[str, ...],
        alias: exp.Expr | None,
        columns: Sequence[str] | None = None,
    ) -> tuple[Rel, Scope]:
        """``rel`` under its name. Columns that an alias renames have other names only for SQL: a projection above has
        the names of their fields, where it gives them none."""
        names = columns or written_names(rel)
        if alias is not None:
            name, path = alias.this.name, ()
            new_names = alias.args.get("columns")
            if new_names:
                if len(new_names) != rel.width:
                    raise SqlError("SQL115", name=name, width=rel.width, columns=new_names, place=self.place(alias))
                names = tuple(c.name for c in new_names)
                if isinstance(rel, Values):
                    rel = replace(rel, row=tuple((n, t) for n, (_, t) in zip(names, rel.row, strict=True)))
        if self.hinted and isinstance(rel, Scan):
            rel = replace(rel, alias=rel.alias if self.outer is None else name, alias_in_text=name)
        fields = tuple((n, t) for n, (_, t) in zip(names, rel.fields, strict=True))
        return rel, self._scope(Relation(name, fields, 0, path))

    def _scope(self, *relations: Relation) -> Scope:
        return Scope(
            self.source, list(relations), subqueries=self.subquery, outer=self.outer, functions=self.catalog.function
        )

    def _argument_table(self, node: exp.Expr) -> Rel:
        return self._argument(node)[0]

    def _argument(self, node: exp.Expr) -> tuple[Rel, Scope]:
        """The table of an argument ``TABLE t`` or ``TABLE (query)``."""
        if isinstance(node, exp.Column):
            parts = [p for p in (node.args.get("db"), node.args.get("table"), node.this) if p is not None]
            catalog, database, name = [None] * (3 - len(parts)) + parts
            node = exp.Table(this=name, db=database, catalog=catalog).update_positions(node.this)
        rel, scope = self._table(node)
        return with_scope_names(rel, scope), scope

    def _constant(self, node: exp.Expr) -> Rex:
        return ExpressionBinder(Scope(self.source, functions=self.catalog.function), "an argument").bind(node)

    def _with_query(self, node: exp.Expr, hints: TtlHints | None) -> tuple[Rel, list[str]] | None:
        """The query of WITH that ``node`` names, and the names of its columns; None where it names no such query."""
        if node.args.get("db") is not None or node.name not in self.ctes:
            return None
        if node.args.get("hints"):
            raise SqlError("SQL120.not_allowed_on", what="a WITH query", place=self.place(node.args["hints"][0]))
        query, binder = self.ctes[node.name]
        binder = replace(binder, above=hints)
        if isinstance(query, exp.Subquery) and query.args.get("alias") is not None:
            rel, scope = binder.relation(query)
            return rel, [n for n, _ in scope.relations[0].fields]
        rel = binder.bind(query)
        names = written_names(rel)
        repeated_name = first_repeated(names)
        if repeated_name is not None:
            raise SqlError(
                "SQL101.same_name",
                name=repeated_name,
                what=f"the query '{node.name}'",
                place=binder.place(query),
                hint=f"give them names with AS, or list all: WITH {node.name} (...) AS (...)",
            )
        return rel, names

    def _named_table(self, node: exp.Expr, hints: TtlHints | None) -> tuple[Rel, str, tuple[str, ...]]:
        parts = [p.name for p in (node.args.get(k) for k in ("catalog", "db", "this")) if p is not None]
        place = self.place(node)
        relation = self.catalog.resolve(parts, place)
        path = relation.identifier.parts
        if isinstance(relation, CatalogView):
            if node.args.get("hints"):
                raise SqlError(
                    "SQL120.not_allowed_on", what=f"the view '{parts[-1]}'", place=self.place(node.args["hints"][0])
                )
            return self._view(relation, place, hints), parts[-1], path
        options = read_options_hint(node.args.get("hints") or (), self.source)
        self.catalog.check_table(options, place)
        table = relation.with_options(options) if options else relation
        if node.args.get(AS_OF) is not None:
            table = as_of(node.args[AS_OF], table, self._constant, self.catalog.time_zone(), self.source)
        return scan_of(table, place, tuple(options.items()), self.duplicates), parts[-1], path

    def _view(self, view: CatalogView, place: Place, hints: TtlHints | None) -> Rel:
        if self.depth > 50:
            raise SqlError("SQL116", summary=view.identifier.summary, place=place)
        with self.catalog.at(view.catalog, view.database):
            binder = QueryBinder(
                self.catalog,
                view.source or self.source,
                depth=self.depth + 1,
                numbers=self.numbers,
                duplicates=self.duplicates,
                batch=self.batch,
                above=hints,
            )
            rel = replace(binder, hinted=self.hinted).bind(view.query)
        return _as_declared(rel, view, place)


def _as_declared(rel: Rel, view: CatalogView, place: Place) -> Rel:
    """The rows of a view's query with the columns that the view has. Tables that its query reads with ``*`` may have
    other columns by now.

    Raises:
        SqlError: SQL100, when the query lacks a column that the view has.
    """
    names, current = tuple(view.schema.names), [name for name, _ in rel.fields]
    own = list(view.query_names or (current if len(current) == len(names) else names))
    if current != own:
        for name in own:
            if name not in current:
                summary = view.identifier.summary
                raise SqlError("SQL100.old_view", name=name, view=summary, place=place, hint=nearest(name, current))
        refs = refs_to(rel)
        return Project(rel, tuple(refs[current.index(name)] for name in own), names)
    if own == list(names):
        return rel
    return replace(rel if isinstance(rel, Project) else identity(rel), names=names)


def _has_queries(node: exp.Select) -> bool:
    """Whether queries are in the expressions of a SELECT."""
    clauses = [c for c in (node.args.get("where"), node.args.get("having"), *node.expressions) if c is not None]
    return any(c.find(exp.Exists, exp.Subquery) is not None for c in clauses)


def _value(item: _Item) -> exp.Expr:
    if item.node is None:
        raise AssertionError("a select item without a node")
    return item.node


def _names(items: Sequence[_Item], ordering: Ordering) -> list[str]:
    """The names of a SELECT's columns, and of those that it is sorted by, as written: columns of a star are given other
    names where these are taken, ``a0`` for ``a`` (``SqlValidatorImpl.addToSelectList``)."""
    names: list[str] = []
    for item in items:
        name = item.name or ""
        names.append(fresh_name(name, names, "") if item.node is None and item.rex is not None else name)
    return [*names, *(n for n, _ in ordering.hidden_columns)]


def _bind_order(
    ordering: Ordering,
    bind: Callable[[exp.Expr], Rex],
    items: Sequence[_Item],
    exprs: Sequence[Rex],
    query: exp.Select,
) -> list[Rex]:
    """Binds the ORDER BY of a SELECT of ``items``; the columns that it adds."""
    distinct = query.args.get("distinct") is not None
    ordering.bind(bind, [i.name for i in items], [i.node for i in items], exprs, add=not distinct)
    return [rex for _, rex in ordering.hidden_columns]


def _own_name(node: exp.Expr) -> str | None:
    node = bare(node)
    if isinstance(node, exp.Column):
        return str(node.this.name)
    if isinstance(node, exp.Dot) and isinstance(owner(node, exp.Dot), exp.Column):
        return str(node.expression.name)
    if isinstance(node, exp.Anonymous) and not node.expressions and function_name(node) in NO_PARENTHESES:
        return function_name(node)
    return None


def _without(node: exp.Expr, key: str) -> exp.Expr:
    copy = node.copy()
    copy.set(key, None)
    return copy


def _hinted(node: exp.Expr, hints: TtlHints | None) -> InputHint | None:
    """What hints say of an item of FROM, by its alias."""
    alias = node.args.get("alias")
    return None if hints is None else hints.of(None if alias is None else alias.this.name)
