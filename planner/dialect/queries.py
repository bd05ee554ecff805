"""The part of the parser that reads queries: SELECT, VALUES, WITH, set operations, table references, hints,
INSERT.

Trees are sqlglot's: ``exp.Select`` (``hint``, ``distinct``, ``expressions``, ``from_``, ``joins``, ``where``,
``group``, ``having``, ``windows``, ``qualify``, ``order``, ``limit``, ``offset``, ``with_``), ``exp.Union`` /
``Intersect`` / ``Except`` (``distinct`` is False for ALL), ``exp.Values`` (rows are ``exp.Tuple``). Table
references:

- ``exp.Table`` with ``alias``, ``hints`` (a list of ``exp.Hint``), ``version`` (FOR SYSTEM_TIME AS OF);
- ``exp.Subquery`` around a query, with ``alias``;
- ``exp.TableFromRows`` around the call of a table function, ``TABLE(f(..))`` or ``f(..)`` alike, with
  ``alias``;
- ``exp.Unnest`` with ``alias`` (``offset`` True for WITH ORDINALITY);
- ``nodes.MatchRecognize`` around any of the above, with ``alias``;
- ``exp.Lateral`` around the last three where LATERAL is written, with ``alias``.

A join is an ``exp.Join`` in ``joins``: ``side`` LEFT, RIGHT or FULL, ``kind`` INNER, CROSS or nothing,
``method`` NATURAL, ``on`` or ``using``; a comma is a join without any of these. Joins in parentheses are
a ``nodes.JoinedTables``.

A hint is ``exp.Hint`` whose ``expressions`` are ``exp.Anonymous`` (``STATE_TTL``, ``OPTIONS``...); their
arguments are ``exp.EQ`` of two text literals (or of an ``exp.Identifier`` and a text literal, where the key
is written without quotes), or a single literal or identifier.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.base import with_position
from stateplan.planner.dialect.match import MatchParser
from stateplan.planner.dialect.tokenizer import HINT_END

_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT")
_CLAUSES = ("WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", *_SET_OPERATIONS)
_AFTER_TABLE = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ON", "USING", *_CLAUSES, "AS", "FOR")

# What may follow a query, by the words it starts with, and is not supported.
_REFUSED_CLAUSES = ("PIVOT", "UNPIVOT", "TABLESAMPLE")
_TABLE_OF_FILES = (
    "CREATE TABLE t (..) WITH ('connector' = 'filesystem', 'path' = '..', 'format' = 'json') makes a table of files"
)
_QUERY_ENDS = (")", ";", "END", "ON", *_CLAUSES, *_REFUSED_CLAUSES)
_GROUP_KEYS: dict[type[exp.Expr], str] = {
    exp.GroupingSets: "grouping_sets",
    exp.Cube: "cube",
    exp.Rollup: "rollup",
}
_CONFLICT = ("DEDUPLICATE", "NOTHING", "ERROR")


class QueryParser(MatchParser):
    """The part of the parser that reads queries and INSERT."""

    # queries

    def _query_ahead(self) -> bool:
        offset = 0
        while self._word_at(offset) == "(":
            offset += 1
        word = self._word_at(offset)
        return word in ("SELECT", "WITH", "VALUES") or (word == "TABLE" and self._word_at(offset + 1) != "(")

    def _query(self) -> exp.Expr:
        """A whole query: WITH, set operations, ORDER BY, LIMIT."""
        return self._deeper(self._whole_query)

    def _whole_query(self) -> exp.Expr:
        start = self._curr
        with_ = self._with() if self._is("WITH") else None
        query = self._set_operation()
        changes: dict[str, Any] = {"order": self._order_by()}
        changes |= self._limits()
        if any(query.args.get(key) for key, value in changes.items() if value is not None) or (
            with_ is not None and query.args.get("with_")
        ):
            query = self._mark(
                exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=query))), start
            )
        for key, value in changes.items():
            if value is not None:
                self._hold(query, key)
                query.set(key, value)
        if with_ is not None:
            query.set("with_", with_)
        return self._mark(query, start)

    def _hold(self, query: exp.Expr, key: str) -> None:
        if key not in query.arg_types:
            raise self._unexpected("the end of the query")

    @with_position
    def _with(self) -> exp.With:
        self._advance()
        recursive, token = self._accept("RECURSIVE"), self._prev
        queries = self._csv(self._cte)
        for cte in queries if recursive else ():
            if any(t.name == cte.alias and not t.args.get("db") for t in cte.this.find_all(exp.Table)):
                raise self._unsupported("a query that reads itself (WITH RECURSIVE)", token, "Flink has no plan for it")
        return exp.With(expressions=queries)

    def _cte(self) -> exp.CTE:
        start = self._curr
        name = self._name("a name")
        columns = self._parens(lambda: self._csv(self._name)) if self._is("(") else None
        alias = self._mark(exp.TableAlias(this=name, columns=columns), start)
        self._expect("AS")
        self._expect("(")
        query = self._query()
        self._expect(")")
        return self._mark(exp.CTE(this=query, alias=alias), start)

    def _set_operation(self) -> exp.Expr:
        start, left = self._curr, self._intersection()
        while word := self._accept_any(("UNION", "EXCEPT")):
            kind = exp.Union if word == "UNION" else exp.Except
            distinct = self._accept_any(("ALL", "DISTINCT")) != "ALL"
            left = self._mark(kind(this=left, expression=self._intersection(), distinct=distinct), start)
        return left

    def _intersection(self) -> exp.Expr:
        start, left = self._curr, self._query_term()
        while self._accept("INTERSECT"):
            distinct = self._accept_any(("ALL", "DISTINCT")) != "ALL"
            left = self._mark(exp.Intersect(this=left, expression=self._query_term(), distinct=distinct), start)
        return left

    def _query_term(self) -> exp.Expr:
        if self._is("SELECT"):
            return self._select()
        if self._is("VALUES"):
            return self._values()
        if self._is("("):
            return self._subquery()
        if self._is("TABLE") and self._name_ahead(1):
            start = self._curr
            self._advance()
            table = self._path("a name of a table")
            return self._mark(exp.Select(expressions=[exp.Star()], from_=exp.From(this=table)), start)
        raise self._unexpected("a query: SELECT, VALUES, WITH or (", words=("SELECT", "VALUES", "WITH"))

    @with_position
    def _values(self) -> exp.Values:
        self._advance()
        return exp.Values(expressions=self._csv(self._values_row))

    @with_position
    def _values_row(self) -> exp.Tuple:
        if self._accept("ROW") and not self._is("("):
            raise self._unexpected("(")
        if self._accept("("):
            items = self._csv(self._argument)
            self._expect(")", expected=", or )")
        else:
            items = [self._expression()]
        return exp.Tuple(expressions=items)

    @with_position
    def _select(self) -> exp.Select:
        self._advance()
        hint = self._hint()
        if self._is("STREAM"):
            raise self._unsupported("SELECT STREAM", self._curr, "leave STREAM out: every query is a stream")
        distinct = None
        if self._accept("DISTINCT"):
            distinct = self._mark(exp.Distinct(), self._prev)
        else:
            self._accept("ALL")
        select = exp.Select(hint=hint, distinct=distinct, expressions=self._csv(self._select_item))
        if self._is("FROM"):
            from_token = self._take()
            select.set("from_", self._mark(exp.From(this=self._table()), from_token))
            while (join := self._join()) is not None:
                select.append("joins", join)
        elif not self._ends_query():
            raise self._unexpected("FROM, a comma or the end of the query", words=("FROM", "AS"))
        if self._accept("WHERE"):
            token = self._prev
            select.set("where", self._mark(exp.Where(this=self._expression()), token))
        if self._is("GROUP"):
            select.set("group", self._group_by())
        if self._accept("HAVING"):
            token = self._prev
            select.set("having", self._mark(exp.Having(this=self._expression()), token))
        if self._accept("WINDOW"):
            select.set("windows", self._csv(self._named_window))
        if self._accept("QUALIFY"):
            token = self._prev
            select.set("qualify", self._mark(exp.Qualify(this=self._expression()), token))
        self._refuse_clause()
        if not self._ends_query():
            raise self._unexpected(
                "WHERE, GROUP BY, HAVING, ORDER BY, LIMIT or the end of the query", words=_AFTER_TABLE
            )
        return select

    def _refuse_clause(self) -> None:
        word = self._word_at(0)
        if word in _REFUSED_CLAUSES:
            raise self._unsupported(word, self._curr)

    def _ends_query(self) -> bool:
        return self._at_end() or self._word_at(0) in _QUERY_ENDS

    def _select_item(self) -> exp.Expr:
        start = self._curr
        if self._is("*"):
            return self._check_item(self._constant())
        node = self._check_item(self._expression())
        if self._accept("AS"):
            alias = self._name("a name after AS")
        elif self._name_ahead() and not self._keyword_ahead():
            alias = self._name()
        else:
            return node
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            raise self._unexpected("a comma or FROM: a star has no name", token=self._prev)
        return self._mark(exp.Alias(this=node, alias=alias), start)

    def _check_item(self, item: exp.Expr) -> exp.Expr:
        """An item of the select list. Refuses a star without some columns, and TOP."""
        star = isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
        less = self._word_at(0) in ("EXCEPT", "EXCLUDE", "REPLACE") and self._word_at(1) == "("
        if star and less and self._word_at(2) not in ("SELECT", "VALUES", "WITH", "TABLE", "("):
            raise self._unsupported(f"* {self._curr.text.upper()}", self._curr, "name the columns that are wanted")
        if isinstance(item, exp.Column) and item.name.upper() == "TOP" and self._curr.token_type.name == "NUMBER":
            raise self._unsupported("SELECT TOP", self._prev, f"write LIMIT {self._curr.text} at the end of the query")
        return item

    def _keyword_ahead(self) -> bool:
        """A word that is not reserved and yet continues with the clause here."""
        return self._word_at(0) == "CONFLICT"

    @with_position
    def _group_by(self) -> exp.Group:
        self._expect("GROUP", "BY")
        if self._accept("DISTINCT"):
            raise self._unsupported("GROUP BY DISTINCT")
        self._accept("ALL")
        group = exp.Group()
        for item in self._csv(self._group_item):
            group.append(_GROUP_KEYS.get(type(item), "expressions"), item)
        return group

    def _group_item(self) -> exp.Expr:
        start = self._curr
        if self._accept("GROUPING", "SETS"):
            return self._mark(exp.GroupingSets(expressions=self._parens(lambda: self._csv(self._group_item))), start)
        for word, kind in (("ROLLUP", exp.Rollup), ("CUBE", exp.Cube)):
            if self._accept(word):
                return self._mark(kind(expressions=self._parens(lambda: self._csv(self._expression))), start)
        if self._is("(", ")"):
            self._advance(2)
            return self._mark(exp.Tuple(expressions=[]), start)
        return self._expression()

    def _named_window(self) -> exp.Window:
        start = self._curr
        name = self._name("a name of a window")
        self._expect("AS")
        window = self._window(None, start)
        window.set("this", name)
        return self._mark(window, start)

    def _order_by(self) -> exp.Order | None:
        start = self._curr
        if not self._is("ORDER"):
            return None
        self._expect("ORDER", "BY")
        return self._mark(exp.Order(expressions=self._csv(self._order_item)), start)

    @with_position
    def _order_item(self) -> exp.Ordered:
        """``nulls_first`` is always set: Flink's nulls are small, ASC puts them first and DESC last."""
        return self._ordered_item(small_nulls=True)

    def _ordered_item(self, small_nulls: bool) -> exp.Ordered:
        this = self._expression()
        descending = self._accept_any(("ASC", "DESC")) == "DESC"
        nulls_first = descending != small_nulls
        if self._accept("NULLS"):
            word = self._accept_any(("FIRST", "LAST"))
            if word is None:
                raise self._unexpected("FIRST or LAST", words=("FIRST", "LAST"))
            nulls_first = word == "FIRST"
        return exp.Ordered(this=this, desc=descending, nulls_first=nulls_first)

    def _limits(self) -> dict[str, exp.Expr | None]:
        limit: exp.Expr | None = None
        offset: exp.Expr | None = None
        while True:
            start = self._curr
            if limit is None and self._accept("LIMIT"):
                if self._accept("ALL"):
                    continue
                limit = self._mark(exp.Limit(expression=self._count()), start)
                if self._is(","):
                    raise self._unsupported("LIMIT with two numbers", self._curr, "write LIMIT count OFFSET start")
            elif offset is None and self._accept("OFFSET"):
                offset = self._mark(exp.Offset(expression=self._count()), start)
                self._accept_any(("ROWS", "ROW"))
            elif limit is None and self._accept("FETCH"):
                if self._accept_any(("FIRST", "NEXT")) is None:
                    raise self._unexpected("FIRST or NEXT", words=("FIRST", "NEXT"))
                limit = self._mark(exp.Limit(expression=self._count()), start)
                if self._accept_any(("ROWS", "ROW")) is None:
                    raise self._unexpected("ROWS", words=("ROWS", "ROW"))
                self._expect("ONLY")
            else:
                return {"limit": limit, "offset": offset}

    def _count(self) -> exp.Literal:
        token = self._curr
        value = self._integer("a whole number of rows")
        return self._mark(exp.Literal(this=str(value), is_string=False), token)

    # tables

    def _table(self) -> exp.Expr:
        start = self._curr
        if self._accept("LATERAL"):
            if self._is("("):
                inner: exp.Expr = self._subquery()
            else:
                inner = self._table_function()
            return self._mark(exp.Lateral(this=inner, alias=self._table_alias()), start)
        if self._is("("):
            if not self._query_ahead():
                return self._joins_in_parentheses()
            node: exp.Expr = self._subquery()
        elif self._is("UNNEST"):
            node = self._unnest()
        elif self._is("TABLE", "(") or self._function_ahead():
            node = self._table_function()
        else:
            if self._curr is not None and self._curr.token_type == TokenType.STRING:
                raise self._unsupported("a path in place of a table", self._curr, _TABLE_OF_FILES)
            node = self._path("a name of a table or a subquery in parentheses")
            self._add_hints(node)
            if self._is("FOR"):
                node.set("version", self._system_time())
        while True:
            self._refuse_clause()
            alias = self._table_alias()
            if alias is not None:
                node.set("alias", alias)
            self._refuse_clause()
            node = self._mark(node, start)
            if not self._is("MATCH_RECOGNIZE"):
                return node
            node = self._match_recognize(node)

    @with_position
    def _joins_in_parentheses(self) -> exp.Expr:
        self._expect("(")
        first = self._table()
        joins = []
        while (join := self._join()) is not None:
            joins.append(join)
        self._expect(")")
        return nodes.JoinedTables(this=first, joins=joins)

    def _function_ahead(self) -> bool:
        offset = 0
        while self._name_ahead(offset) and self._word_at(offset + 1) == ".":
            offset += 2
        return self._name_ahead(offset) and self._word_at(offset + 1) == "("

    @with_position
    def _table_function(self) -> exp.TableFromRows:
        """``TABLE(f(..))`` or ``f(..)``."""
        has_table_keyword = self._accept("TABLE")
        if has_table_keyword:
            self._expect("(")
        token = self._curr
        if self._is("UNNEST"):
            raise self._unsupported("TABLE(UNNEST(..))", self._curr, "write UNNEST(..) without TABLE")
        name = self._path("a name of a table function")
        parts = [p for p in (name.args.get("catalog"), name.args.get("db"), name.this) if p is not None]
        call = self._call(token, parts)
        if has_table_keyword:
            self._expect(")")
        return exp.TableFromRows(this=call)

    @with_position
    def _unnest(self) -> exp.Unnest:
        self._advance()
        node = exp.Unnest(expressions=self._parens(lambda: self._csv(self._expression)))
        if self._accept("WITH", "ORDINALITY"):
            node.set("offset", True)
        return node

    @with_position
    def _system_time(self) -> exp.Version:
        self._expect("FOR", "SYSTEM_TIME", "AS", "OF")
        return exp.Version(this="SYSTEM_TIME", kind="AS OF", expression=self._sum())

    def _table_alias(self) -> exp.TableAlias | None:
        start = self._curr
        explicit = self._accept("AS")
        if not explicit and not (self._name_ahead() and not self._keyword_ahead()):
            return None
        name = self._name("a name after AS")
        columns = self._parens(lambda: self._csv(self._name)) if self._is("(") else None
        return self._mark(exp.TableAlias(this=name, columns=columns), start)

    def _join(self) -> exp.Join | None:
        start = self._curr
        if self._accept(","):
            return self._mark(exp.Join(this=self._table()), start)
        natural = self._accept("NATURAL")
        side = self._accept_any(("LEFT", "RIGHT", "FULL"))
        kind = None
        if side is not None:
            self._accept("OUTER")
            if self._is("SEMI") or self._is("ANTI"):
                raise self._unexpected("JOIN", words=("JOIN",))
        else:
            kind = self._accept_any(("INNER", "CROSS"))
        if not self._is("JOIN"):
            if natural or side or kind:
                raise self._unexpected("JOIN", words=("JOIN",))
            return None
        self._advance()
        table = self._table()
        on: exp.Expr | None = None
        using: list[exp.Identifier] | None = None
        bare = natural or kind == "CROSS"
        if not bare and self._accept("ON"):
            on = self._expression()
        elif not bare and self._accept("USING"):
            using = self._parens(lambda: self._csv(self._name))
        return self._mark(
            exp.Join(this=table, method="NATURAL" if natural else None, side=side, kind=kind, on=on, using=using),
            start,
        )

    @with_position
    def _table_argument(self) -> nodes.TableArgument:
        self._expect("TABLE")
        return self._clauses_of_table(self._subquery() if self._is("(") else self._path("a name of a table"))

    def _clauses_of_table(self, table: exp.Expr) -> nodes.TableArgument:
        """PARTITION BY and ORDER BY of a table in an argument. Lists are in parentheses, and nulls are large."""
        partition = None
        if self._accept("PARTITION", "BY"):
            if self._accept("("):
                partition = self._csv(self._expression)
                self._expect(")")
            else:
                partition = [self._expression()]
        start = self._curr
        order = None
        if self._accept("ORDER", "BY"):
            items = self._parens(lambda: self._csv(self._table_order)) if self._is("(") else [self._table_order()]
            order = self._mark(exp.Order(expressions=items), start)
        return nodes.TableArgument(this=table, partition_by=partition, order=order)

    @with_position
    def _table_order(self) -> exp.Ordered:
        return self._ordered_item(small_nulls=False)

    # hints

    def _add_hints(self, table: exp.Expr) -> None:
        """Takes the hints behind a table."""
        hints = list(iter(self._hint, None))
        if hints:
            table.set("hints", hints)

    def _hint(self) -> exp.Hint | None:
        start = self._curr
        if self._at_end() or start.token_type != TokenType.HINT:
            return None
        self._advance()
        items = self._csv(self._hint_item)
        if self._at_end() or self._curr.token_type != HINT_END:
            raise self._unexpected(", or */")
        self._advance()
        return self._mark(exp.Hint(expressions=items), start)

    @with_position
    def _hint_item(self) -> exp.Anonymous:
        name = self._name("a name of a hint, such as STATE_TTL or OPTIONS")
        arguments: list[exp.Expr] = []
        if self._accept("("):
            if not self._is(")"):
                arguments = self._csv(self._hint_argument)
            self._expect(")", expected=", or )")
        return exp.Anonymous(this=name.name, expressions=arguments)

    def _hint_argument(self) -> exp.Expr:
        start = self._curr
        key = self._hint_key()
        if not self._accept("="):
            return key
        return self._mark(exp.EQ(this=key, expression=self._string("a value in single quotes")), start)

    def _hint_key(self) -> exp.Expr:
        token = self._curr
        if not self._at_end() and token.token_type == TokenType.STRING:
            return self._string("a text")
        if not self._at_end() and token.token_type == TokenType.NUMBER:
            return self._number_literal()
        name = self._name("a key: a text or a name")
        while self._accept("."):
            name = exp.Identifier(this=f"{name.name}.{self._name().name}", quoted=False)
            self._mark(name, token)
        return name

    # INSERT

    @with_position
    def _insert(self) -> exp.Insert:
        """INSERT INTO | OVERWRITE t [hints] [PARTITION (..)] [(columns)] query [ON CONFLICT DO ..]."""
        self._advance()
        overwrite = self._accept("OVERWRITE")
        if not overwrite:
            self._expect("INTO", expected="INTO or OVERWRITE")
        table_start = self._curr
        table = self._path("a name of a table")
        self._add_hints(table)
        partition = self._partition() if self._is("PARTITION") else None
        target: exp.Expr = table
        if self._is("(") and not self._query_ahead():
            columns = self._parens(lambda: self._csv(lambda: self._name("a name of a column")))
            target = self._mark(exp.Schema(this=table, expressions=columns), table_start)
        if not self._query_ahead() and not self._is("TABLE"):
            raise self._unexpected("a query: SELECT, VALUES, WITH or (", words=("SELECT", "VALUES", "WITH"))
        query = self._query()
        conflict = self._conflict() if self._is("ON") else None
        return exp.Insert(
            this=target,
            partition=partition,
            overwrite=overwrite or None,
            expression=query,
            conflict=conflict,
        )

    @with_position
    def _partition(self) -> exp.Partition:
        self._advance()
        return exp.Partition(expressions=self._parens(lambda: self._csv(self._partition_value)))

    @with_position
    def _partition_value(self) -> exp.Expr:
        name = self._name("a name of a column")
        self._expect("=", expected="= and a text or number")
        return exp.EQ(this=name, expression=self._expression())

    @with_position
    def _conflict(self) -> exp.OnConflict:
        self._expect("ON", "CONFLICT", "DO")
        return exp.OnConflict(action=self._symbol(_CONFLICT, " or ".join(_CONFLICT)))
