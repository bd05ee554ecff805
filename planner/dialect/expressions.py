"""The part of the parser that reads expressions, with Calcite's precedence.

From loose to tight: OR; AND; NOT; IS ...; ``= <> < <= > >=``, IS [NOT] DISTINCT FROM; BETWEEN, IN, LIKE, SIMILAR TO;
``+ -``; ``* / % ||``; signs; ``.`` and ``[]``.

**Every function call is** ``exp.Anonymous``: ``this`` is the name as written, ``expressions`` the arguments in the
order of the plain call form. So ``SUBSTRING(x FROM 2 FOR 3)`` and ``SUBSTRING(x, 2, 3)`` are the same tree, ``COUNT(*)``
has one ``exp.Star``, ``COUNT(DISTINCT a)`` one ``exp.Distinct``, words that are symbols (``EXTRACT(YEAR FROM t)``,
``TRIM(BOTH ..)``) are ``exp.Var``. Around a call may stand ``exp.Filter``, ``exp.Window`` (OVER) and
``exp.WithinGroup``. Exceptions, with sqlglot's own classes: CASE, CAST, TRY_CAST, EXISTS, IN, BETWEEN, LIKE, IS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from execnodes.errors import SqlError
from planner.dialect import nodes
from planner.dialect.errors import place_of_token
from planner.dialect.literals import check_interval, check_temporal
from planner.dialect.types import TypeParser

__all__ = ["NO_PARENTHESES", "ExpressionParser", "function_name"]

#: Functions that are called without parentheses.
NO_PARENTHESES = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP",
                            "CURRENT_CATALOG", "CURRENT_USER", "SESSION_USER", "USER"})

#: Reserved words that may be called as functions.
_CALLABLE = frozenset("""
    ABS AVG CARDINALITY CEIL CEILING CHARACTER_LENGTH CHAR_LENGTH COALESCE COLLECT CORR COUNT COVAR_POP COVAR_SAMP
    CUME_DIST CURRENT_TIMESTAMP DENSE_RANK ELEMENT EVERY EXP EXTRACT FIRST_VALUE FLOOR GROUPING HOUR INTERSECTION
    JSON_ARRAY JSON_ARRAYAGG JSON_EXISTS JSON_OBJECT JSON_OBJECTAGG JSON_QUERY JSON_VALUE LAG LAST_VALUE LEAD LEFT LN
    LOCALTIME LOCALTIMESTAMP LOWER MAX MIN MINUTE MOD MONTH NTH_VALUE NTILE NULLIF OCTET_LENGTH OVERLAY PERCENT_RANK
    POSITION POWER RANK REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY
    RIGHT ROW_NUMBER SECOND SOME SQRT STDDEV_POP STDDEV_SAMP SUBSTRING SUM TRANSLATE TRIM TRUNCATE UPPER VAR_POP VAR_SAMP
    YEAR GROUP_CONCAT STRING_AGG PERCENTILE_CONT PERCENTILE_DISC TRY_CAST IF CONVERT DATE_TRUNC TIMESTAMP_DIFF
    TIMESTAMP_TRUNC CONTAINS HASH DAY PERCENTILE
""".split())

_COMPARISON: dict[TokenType, type[exp.Binary]] = {
    TokenType.EQ: exp.EQ, TokenType.NEQ: exp.NEQ, TokenType.LT: exp.LT, TokenType.LTE: exp.LTE, TokenType.GT: exp.GT,
    TokenType.GTE: exp.GTE,
}
_ADDITIVE: dict[TokenType, type[exp.Binary]] = {TokenType.PLUS: exp.Add, TokenType.DASH: exp.Sub}
_MULTIPLICATIVE: dict[TokenType, type[exp.Binary]] = {
    TokenType.STAR: exp.Mul, TokenType.SLASH: exp.Div, TokenType.MOD: exp.Mod, TokenType.DPIPE: exp.DPipe,
}

_EXTRACT_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "ISODOW", "ISOYEAR", "HOUR", "MINUTE", "SECOND",
                  "MILLISECOND", "MICROSECOND", "NANOSECOND", "EPOCH", "DECADE", "CENTURY", "MILLENNIUM")
_ADD_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND",
              "NANOSECOND", "SQL_TSI_YEAR", "SQL_TSI_QUARTER", "SQL_TSI_MONTH", "SQL_TSI_WEEK", "SQL_TSI_DAY",
              "SQL_TSI_HOUR", "SQL_TSI_MINUTE", "SQL_TSI_SECOND")

_NEXT = "an expression"
_OPERATORS = ("AND", "OR", "BETWEEN", "IN", "LIKE", "IS", "NOT", "OVER", "FILTER")


def function_name(call: exp.Expr) -> str:
    """The name of a call (``exp.Anonymous``) in capitals, as the function tables key it."""
    return call.name.upper()


class ExpressionParser(TypeParser):
    """The part of the parser that reads expressions."""

    def _query(self) -> exp.Expr:  # in queries.py
        raise NotImplementedError

    def _query_ahead(self) -> bool:  # in queries.py
        raise NotImplementedError

    def _order_by(self) -> exp.Order | None:  # in queries.py
        raise NotImplementedError

    def _table_argument(self) -> nodes.TableArgument:  # in queries.py
        raise NotImplementedError

    # operators, loose to tight

    def _expression(self) -> exp.Expr:
        return self._deeper(self._disjunction)

    def _binary(self, kind: type[exp.Binary], left: exp.Expr, right: exp.Expr, start: Token) -> exp.Expr:
        return self._mark(kind(this=left, expression=right), start)

    def _disjunction(self) -> exp.Expr:
        start, left = self._curr, self._conjunction()
        while self._accept("OR"):
            left = self._binary(exp.Or, left, self._conjunction(), start)
        return left

    def _conjunction(self) -> exp.Expr:
        start, left = self._curr, self._negation()
        while self._accept("AND"):
            left = self._binary(exp.And, left, self._negation(), start)
        return left

    def _negation(self) -> exp.Expr:
        start = self._curr
        if self._is("NOT"):
            self._advance()
            return self._mark(exp.Not(this=self._deeper(self._negation)), start)
        return self._truth()

    def _truth(self) -> exp.Expr:
        start, left = self._curr, self._comparison()
        while self._is("IS"):
            self._advance()
            negated = self._accept("NOT")
            word = self._accept_any(("NULL", "TRUE", "FALSE", "UNKNOWN"))
            if word is None:
                if self._is("JSON"):
                    raise self._unsupported("IS JSON", self._curr)
                raise self._unexpected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS",
                                       words=("NULL", "TRUE", "FALSE", "UNKNOWN", "NOT", "DISTINCT"))
            operand: exp.Expr = {"NULL": exp.Null(), "TRUE": exp.Boolean(this=True), "FALSE": exp.Boolean(this=False),
                                 "UNKNOWN": exp.Var(this="UNKNOWN")}[word]
            left = self._mark(exp.Is(this=left, expression=operand), start)
            if negated:
                left = self._mark(exp.Not(this=left), start)
        return left

    def _comparison(self) -> exp.Expr:
        start, left = self._curr, self._range()
        while True:
            kind = _COMPARISON.get(self._curr.token_type) if not self._at_end() else None
            if kind is not None:
                self._advance()
                left = self._binary(kind, left, self._compared(), start)
            elif self._accept("IS", "NOT", "DISTINCT", "FROM"):
                left = self._binary(exp.NullSafeEQ, left, self._range(), start)
            elif self._accept("IS", "DISTINCT", "FROM"):
                left = self._binary(exp.NullSafeNEQ, left, self._range(), start)
            else:
                return left

    def _compared(self) -> exp.Expr:
        quantifier = next((q for q in ("ANY", "SOME", "ALL") if self._is(q, "(")), None)
        if quantifier is None:
            return self._range()
        start = self._curr
        self._advance()
        query = self._subquery()
        return self._mark((exp.All if quantifier == "ALL" else exp.Any)(this=query), start)

    def _range(self) -> exp.Expr:
        start, left = self._curr, self._sum()
        while True:
            negated = self._is("NOT") and not self._at_end() and self._ahead(1) is not None and (
                self._ahead(1).text.upper() in ("BETWEEN", "IN", "LIKE", "SIMILAR"))  # type: ignore[union-attr]
            if negated:
                self._advance()
            if self._accept("BETWEEN"):
                symmetric = self._accept_any(("SYMMETRIC", "ASYMMETRIC")) == "SYMMETRIC"
                low = self._sum()
                self._expect("AND")
                found: exp.Expr = exp.Between(this=left, low=low, high=self._sum(), symmetric=symmetric or None)
            elif self._accept("IN"):
                found = self._in(left)
            elif self._accept("LIKE"):
                found = exp.Like(this=left, expression=self._sum())
            elif self._accept("SIMILAR", "TO"):
                found = exp.SimilarTo(this=left, expression=self._sum())
            elif self._is("OVERLAPS"):
                raise self._unsupported("OVERLAPS", self._curr)
            else:
                return left
            if isinstance(found, (exp.Like, exp.SimilarTo)) and self._accept("ESCAPE"):
                found = exp.Escape(this=self._mark(found, start), expression=self._sum())
            left = self._mark(found, start)
            if negated:
                left = self._mark(exp.Not(this=left), start)

    def _in(self, left: exp.Expr) -> exp.In:
        self._expect("(", expected="( after IN")
        if self._query_ahead():
            inner = self._curr
            query = self._mark(exp.Subquery(this=self._query()), inner)
            self._expect(")")
            return exp.In(this=left, query=query)
        values = self._csv(self._expression)
        self._expect(")", expected=", or )")
        return exp.In(this=left, expressions=values)

    def _sum(self) -> exp.Expr:
        start, left = self._curr, self._product()
        while not self._at_end() and (kind := _ADDITIVE.get(self._curr.token_type)):
            self._advance()
            left = self._binary(kind, left, self._product(), start)
        return left

    def _product(self) -> exp.Expr:
        start, left = self._curr, self._signed()
        while not self._at_end() and (kind := _MULTIPLICATIVE.get(self._curr.token_type)):
            self._advance()
            left = self._binary(kind, left, self._signed(), start)
        return left

    def _signed(self) -> exp.Expr:
        start = self._curr
        if self._accept("-"):
            return self._mark(exp.Neg(this=self._deeper(self._signed)), start)
        if self._accept("+"):
            return self._deeper(self._signed)
        return self._postfix()

    def _postfix(self) -> exp.Expr:
        start, left = self._curr, self._primary()
        while True:
            if self._accept("["):
                index = self._expression()
                self._expect("]")
                left = self._mark(exp.Bracket(this=left, expressions=[index]), start)
            elif self._is(".") and not isinstance(left, exp.Column):
                self._advance()
                left = self._mark(exp.Dot(this=left, expression=self._name("a name of a field")), start)
            elif self._is("AT") and (self._is("AT", "TIME") or self._is("AT", "LOCAL")):
                raise self._unsupported("AT TIME ZONE", self._curr, "use CONVERT_TZ")
            else:
                return left

    # what stands alone

    def _primary(self) -> exp.Expr:
        if self._at_end():
            raise self._unexpected(_NEXT)
        token = self._curr
        reader = self._BY_TOKEN.get(token.token_type)
        if reader is not None:
            return reader(self)
        word = token.text.upper()
        if token.token_type != TokenType.IDENTIFIER and word in self._BY_WORD:
            found = self._BY_WORD[word](self)
            if found is not None:
                return found
        if token.token_type == TokenType.IDENTIFIER or self._name_ahead():
            return self._reference()
        if word in _CALLABLE and self._followed_by("("):
            self._advance()
            return self._call(token)
        if token.token_type in (TokenType.VAR,) or word.isalpha():
            error = self._unexpected(_NEXT, words=())
            if self._name_ahead(1) or not self._followed_by(","):
                return self._raise_reserved(token, error)
            raise error
        raise self._unexpected(_NEXT)

    def _raise_reserved(self, token: Token, error: SqlError) -> exp.Expr:
        follows = self._ahead(1)
        ends = follows is None or follows.text.upper() in (",", ")", ";", ".", "=", "FROM", "AS", "+", "-", "*", "/", "<", ">")
        clauses = ("FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "SELECT", "ON", "AND", "OR", "THEN", "WHEN", "ELSE", "END",
                   "UNION", "AS", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "LIMIT", "WINDOW", "INTO", "BY", "SET", "IS",
                   "IN", "LIKE", "BETWEEN", "USING", "OFFSET", "VALUES")
        raise self._reserved(token) if ends and token.text.upper() not in clauses else error

    def _followed_by(self, text: str) -> bool:
        after = self._ahead(1)
        return after is not None and after.text == text and after.token_type not in (
            TokenType.STRING, TokenType.IDENTIFIER)

    def _number_literal(self) -> exp.Expr:
        token = self._curr
        self._advance()
        after = self._ahead(0)
        if after is not None and after.start == token.end + 1 and (after.text[:1].isalpha() or after.text[:1] == "_"):
            raise self._unexpected("a number, or a name that does not begin with a digit")
        return self._mark(exp.Literal(this=token.text, is_string=False), token)

    def _text_literal(self) -> exp.Expr:
        token = self._curr
        literal = self._string("a text")
        while not self._at_end() and self._curr.token_type == TokenType.STRING:
            literal.set("this", literal.this + self._curr.text)
            self._advance()
        return self._mark(literal, token)

    def _unicode_literal(self) -> exp.Expr:
        token = self._curr
        self._advance()
        escape = self._string("an escape character").name if self._accept("UESCAPE") else "\\"
        text, i = "", 0
        raw = token.text
        while i < len(raw):
            if raw[i] != escape:
                text, i = text + raw[i], i + 1
            elif raw[i + 1:i + 2] == escape:
                text, i = text + escape, i + 2
            else:
                digits = raw[i + 1:i + 5]
                try:
                    text, i = text + chr(int(digits, 16)), i + 5
                    if len(digits) != 4:
                        raise ValueError(digits)
                except ValueError:
                    raise SqlError("SQL006", f"'{escape}{digits}' is not a character", expected="four hexadecimal digits",
                                   place=place_of_token(token, self.sql)) from None
        return self._mark(exp.Literal(this=text, is_string=True), token)

    def _binary_literal(self) -> exp.Expr:
        token = self._curr
        self._advance()
        if len(token.text) % 2:
            raise SqlError("SQL006", "a binary literal has an odd number of digits", expected="two digits for each byte",
                           place=place_of_token(token, self.sql))
        return self._mark(exp.HexString(this=token.text), token)

    def _constant(self) -> exp.Expr:
        token = self._curr
        self._advance()
        node: exp.Expr = {"TRUE": exp.Boolean(this=True), "FALSE": exp.Boolean(this=False), "NULL": exp.Null(),
                          "UNKNOWN": exp.Var(this="UNKNOWN"), "*": exp.Star()}[token.text.upper()]
        return self._mark(node, token)

    def _misplaced_star(self) -> exp.Expr:
        raise self._unexpected(_NEXT)

    def _temporal(self) -> exp.Expr | None:
        after = self._ahead(1)
        if after is None or after.token_type != TokenType.STRING:
            return None
        token = self._curr
        kind = token.text.upper()
        self._advance()
        text = self._string("a text")
        check_temporal(kind, text.name, place_of_token(self._prev, self.sql))
        return self._mark(nodes.TypedLiteral(this=text, kind=kind), token)

    def _interval(self) -> exp.Expr:
        token = self._curr
        self._advance()
        sign = "-" if self._accept("-") else ""
        if not sign:
            self._accept("+")
        text = self._string("a text such as '5', then its unit: INTERVAL '5' SECOND")
        text_token = self._prev
        unit_token = self._curr
        unit, _ = self._interval_qualifier()
        check_interval(text.name, unit, place_of_token(text_token, self.sql))
        node = exp.Interval(this=text, unit=self._mark(exp.Var(this=unit), unit_token))
        result: exp.Expr = self._mark(node, token)
        return self._mark(exp.Neg(this=result), token) if sign else result

    def _case(self) -> exp.Expr:
        token = self._curr
        self._advance()
        subject = None if self._is("WHEN") else self._expression()
        branches = []
        while self._is("WHEN"):
            start = self._curr
            self._advance()
            when = self._expression()
            if self._is(",") and subject is not None:
                raise self._unsupported("CASE with several values in one WHEN", self._curr)
            self._expect("THEN")
            branches.append(self._mark(exp.If(this=when, true=self._expression()), start))
        if not branches:
            raise self._unexpected("WHEN", words=("WHEN",))
        default = self._expression() if self._accept("ELSE") else None
        self._expect("END", expected="WHEN, ELSE or END")
        return self._mark(exp.Case(this=subject, ifs=branches, default=default), token)

    def _cast(self) -> exp.Expr | None:
        token = self._curr
        if not self._followed_by("("):
            return None
        self._advance(2)
        this = self._expression()
        self._expect("AS")
        to = self._flink_type()
        self._expect(")")
        if token.text.upper() == "CAST":
            return self._mark(exp.Cast(this=this, to=to), token)
        return self._mark(exp.TryCast(this=this, to=to), token)

    def _exists(self) -> exp.Expr:
        token = self._curr
        self._advance()
        self._expect("(")
        query = self._query()
        self._expect(")")
        return self._mark(exp.Exists(this=query), token)

    def _constructor(self) -> exp.Expr | None:
        """``ARRAY[..]``, ``MAP[..]``, ``MULTISET[..]`` as calls, marked ``brackets``."""
        token = self._curr
        if not self._followed_by("["):
            if self._followed_by("("):
                raise self._unsupported(f"{token.text.upper()} of a query", token)
            return None
        self._advance(2)
        items = [] if self._is("]") else self._csv(self._expression)
        self._expect("]")
        call = exp.Anonymous(this=token.text, expressions=items)
        call.meta["brackets"] = True
        return self._mark(call, token)

    def _row_constructor(self) -> exp.Expr:
        token = self._curr
        self._advance()
        self._expect("(")
        items = [] if self._is(")") else self._csv(self._expression)
        self._expect(")")
        return self._mark(exp.Anonymous(this=token.text, expressions=items), token)

    def _parenthesised(self) -> exp.Expr:
        token = self._curr
        if self._query_ahead():
            return self._subquery()
        self._advance()
        items = self._csv(self._expression)
        self._expect(")", expected=", or )" if len(items) > 1 else "an operator or )")
        return self._mark(exp.Paren(this=items[0]) if len(items) == 1 else exp.Tuple(expressions=items), token)

    def _subquery(self) -> exp.Subquery:
        start = self._curr
        self._expect("(")
        query = self._query()
        self._expect(")")
        return self._mark(exp.Subquery(this=query), start)

    def _bare_call(self) -> exp.Expr | None:
        """CURRENT_TIMESTAMP and its like."""
        token = self._curr
        self._advance()
        if self._is("("):
            self._advance()
            arguments = [] if self._is(")") else [self._expression()]
            self._expect(")")
            return self._mark(exp.Anonymous(this=token.text, expressions=arguments), token)
        return self._mark(exp.Anonymous(this=token.text, expressions=[]), token)

    # names and calls

    def _reference(self) -> exp.Expr:
        """A column (``exp.Column`` of up to four parts, ``exp.Dot`` beyond), ``t.*``, or a call of a function."""
        start = self._curr
        parts = [self._name()]
        while self._accept("."):
            if self._is("*"):
                star = self._constant()
                return self._mark(exp.Column(this=star, **self._qualifiers(parts)), start)
            token = self._curr
            if not self._at_end() and not self._name_ahead() and token.text[:1].isalpha() \
                    and token.token_type not in (TokenType.STRING, TokenType.NUMBER):
                raise self._reserved(token)
            parts.append(self._name("a name after '.'"))
        if self._is("(") and len(parts) <= 3:
            return self._call(start, parts)
        head, rest = parts[:4], parts[4:]
        node: exp.Expr = self._mark(exp.Column(this=head[-1], **self._qualifiers(head[:-1])), start)
        for part in rest:
            node = self._mark(exp.Dot(this=node, expression=part), start)
        return node

    @staticmethod
    def _qualifiers(parts: list[exp.Identifier]) -> dict[str, exp.Identifier]:
        return dict(zip(("table", "db", "catalog"), reversed(parts), strict=False))

    def _call(self, start: Token, parts: list[exp.Identifier] | None = None) -> exp.Expr:
        name = ".".join(p.name for p in parts) if parts else start.text
        word = name.upper()
        last = self._prev
        special = self._SPECIAL.get(word) if not parts or len(parts) == 1 else None
        self._expect("(")
        arguments = special(self) if special else self._arguments()
        self._expect(")", expected=", or )")
        node = exp.Anonymous(this=parts[0] if parts and len(parts) == 1 and parts[0].quoted else name,
                             expressions=arguments)
        node.meta.update(line=start.line, col=start.col, start=start.start, end=last.end)
        return self._after_call(node, start)

    def _arguments(self) -> list[exp.Expr]:
        if self._is(")"):
            return []
        if self._is("*"):
            return [self._constant()]
        start = self._curr
        if self._accept("DISTINCT"):
            values = self._csv(self._expression)
            return [self._mark(exp.Distinct(expressions=values), start)]
        self._accept("ALL")
        return self._csv(self._argument)

    def _argument(self) -> exp.Expr:
        start = self._curr
        after = self._ahead(1)
        if after is not None and after.token_type == TokenType.FARROW:
            name = self._name("a name of an argument")
            self._advance()
            return self._mark(exp.Kwarg(this=name, expression=self._argument()), start)
        if self._is("TABLE"):
            return self._table_argument()
        if self._is("DEFAULT"):
            self._advance()
            return self._mark(exp.Var(this="DEFAULT"), start)
        if self._query_ahead() and not self._is("("):
            return self._mark(exp.Subquery(this=self._query()), start)
        return self._expression()

    def _after_call(self, node: exp.Expr, start: Token) -> exp.Expr:
        if self._accept("WITHIN", "GROUP"):
            self._expect("(")
            order = self._order_by()
            if order is None:
                raise self._unexpected("ORDER BY")
            self._expect(")")
            node = self._mark(exp.WithinGroup(this=node, expression=order), start)
        if self._is("FILTER", "("):
            self._advance(2)
            self._expect("WHERE")
            where_token = self._prev
            where = self._mark(exp.Where(this=self._expression()), where_token)
            self._expect(")")
            node = self._mark(exp.Filter(this=node, expression=where), start)
        for words, kind in ((("IGNORE", "NULLS"), exp.IgnoreNulls), (("RESPECT", "NULLS"), exp.RespectNulls)):
            if self._accept(*words):
                node = self._mark(kind(this=node), start)
        if self._accept("OVER"):
            if self._is("("):
                node = self._window(node, start)
            else:
                node = self._mark(exp.Window(this=node, alias=self._name("a window's name or ("), over="OVER"), start)
        return node

    def _window(self, this: exp.Expr | None, start: Token) -> exp.Window:
        self._expect("(")
        base = self._name() if self._name_ahead() else None
        partition = self._csv(self._expression) if self._accept("PARTITION", "BY") else []
        order = self._order_by()
        spec = self._frame() if self._is("ROWS") or self._is("RANGE") else None
        self._expect(")", expected="PARTITION BY, ORDER BY, ROWS, RANGE or )")
        return self._mark(exp.Window(this=this, partition_by=partition or None, order=order, spec=spec, alias=base,
                                     over="OVER" if this is not None else None), start)

    def _frame(self) -> exp.WindowSpec:
        start = self._curr
        kind = self._accept_any(("ROWS", "RANGE"))
        if self._accept("BETWEEN"):
            first = self._bound()
            self._expect("AND")
            last = self._bound()
            node = exp.WindowSpec(kind=kind, start=first[0], start_side=first[1], end=last[0], end_side=last[1])
        else:
            first = self._bound()
            node = exp.WindowSpec(kind=kind, start=first[0], start_side=first[1])
        return self._mark(node, start)

    def _bound(self) -> tuple[str | exp.Expr, str | None]:
        if self._accept("CURRENT", "ROW"):
            return "CURRENT ROW", None
        value: str | exp.Expr = "UNBOUNDED" if self._accept("UNBOUNDED") else self._sum()
        side = self._accept_any(("PRECEDING", "FOLLOWING"))
        if side is None:
            raise self._unexpected("PRECEDING or FOLLOWING", words=("PRECEDING", "FOLLOWING"))
        return value, side

    # calls with words inside

    def _symbol(self, words: tuple[str, ...], expected: str) -> exp.Var:
        token = self._curr
        word = self._accept_any(words)
        if word is None:
            raise self._unexpected(expected, words=words)
        return self._mark(exp.Var(this=word), token)

    def _extract_arguments(self) -> list[exp.Expr]:
        unit = self._symbol(_EXTRACT_UNITS, "a unit: " + ", ".join(_EXTRACT_UNITS))
        self._expect("FROM")
        return [unit, self._expression()]

    def _trim_arguments(self) -> list[exp.Expr]:
        """[flag, characters, text] for the form with FROM; [text] without."""
        token = self._curr
        flag = self._accept_any(("BOTH", "LEADING", "TRAILING"))
        symbol = self._mark(exp.Var(this=flag or "BOTH"), token)
        if flag is None:
            first = self._expression()
            if not self._accept("FROM"):
                return [first]
            return [symbol, first, self._expression()]
        if self._accept("FROM"):
            return [symbol, self._mark(exp.Literal(this=" ", is_string=True), token), self._expression()]
        characters = self._expression()
        self._expect("FROM")
        return [symbol, characters, self._expression()]

    def _keyword_arguments(self, *words: str) -> list[exp.Expr]:
        """Arguments parted by these words, or by commas all through; the last ones may be missing."""
        found = [self._expression()]
        if self._is(","):
            while self._accept(","):
                found.append(self._expression())
            return found
        for word in words:
            if not self._accept(word):
                break
            found.append(self._expression())
        return found

    def _position_arguments(self) -> list[exp.Expr]:
        found = [self._sum()]
        self._expect("IN")
        found.append(self._sum())
        if self._accept("FROM"):
            found.append(self._expression())
        return found

    def _rounding_arguments(self) -> list[exp.Expr]:
        found = [self._expression()]
        if self._accept("TO"):
            found.append(self._symbol(_EXTRACT_UNITS, "a unit: " + ", ".join(_EXTRACT_UNITS)))
        else:
            while self._accept(","):
                found.append(self._expression())
        return found

    def _unit_first_arguments(self) -> list[exp.Expr]:
        found: list[exp.Expr] = [self._symbol(_ADD_UNITS, "a unit: " + ", ".join(_ADD_UNITS[:9]))]
        while self._accept(","):
            found.append(self._expression())
        return found

    def _json_arguments(self) -> list[exp.Expr]:
        """Arguments of the JSON functions; their trailing clauses (RETURNING, ON EMPTY...) become one ``exp.Var`` each."""
        found: list[exp.Expr] = []
        if not self._is(")") and not self._is("NULL", "ON") and not self._is("ABSENT", "ON"):
            found = self._csv(self._json_argument)
        while not self._at_end() and not self._is(")"):
            found.append(self._json_clause())
        return found

    def _json_argument(self) -> exp.Expr:
        start = self._curr
        named = self._accept("KEY")
        key = self._expression()
        if self._accept("VALUE"):
            return self._mark(exp.JSONKeyValue(this=key, expression=self._expression()), start)
        if named:
            raise self._unexpected("VALUE")
        return key

    def _json_clause(self) -> exp.Var:
        start = self._curr
        if self._accept("RETURNING"):
            return self._mark(exp.Var(this=f"RETURNING {self._logical_type()}"), start)
        words = []
        while not self._at_end() and not self._is(")") and not self._is("RETURNING"):
            token = self._curr
            words.append(self.sql[token.start:token.end + 1] if token.token_type == TokenType.STRING
                         else token.text.upper())
            self._advance()
            if len(words) >= 2 and words[-1] in ("EMPTY", "ERROR", "NULL", "WRAPPER") and "ON" in (words[-2], words[0]):
                break
            if words[-1] == "WRAPPER":
                break
        return self._mark(exp.Var(this=" ".join(words)), start)

    _BY_TOKEN: ClassVar[dict[TokenType, Callable[[ExpressionParser], exp.Expr]]] = {
        TokenType.NUMBER: _number_literal,
        TokenType.STRING: _text_literal,
        TokenType.UNICODE_STRING: _unicode_literal,
        TokenType.HEX_STRING: _binary_literal,
        TokenType.L_PAREN: _parenthesised,
        TokenType.STAR: _misplaced_star,
    }
    _BY_WORD: ClassVar[dict[str, Callable[[ExpressionParser], exp.Expr | None]]] = {
        **dict.fromkeys(("TRUE", "FALSE", "NULL", "UNKNOWN"), _constant),
        **dict.fromkeys(("DATE", "TIME", "TIMESTAMP"), _temporal),
        **dict.fromkeys(NO_PARENTHESES, _bare_call),
        **dict.fromkeys(("ARRAY", "MAP", "MULTISET"), _constructor),
        **dict.fromkeys(("CAST", "TRY_CAST"), _cast),
        "INTERVAL": _interval,
        "CASE": _case,
        "EXISTS": _exists,
        "ROW": _row_constructor,
    }
    _SPECIAL: ClassVar[dict[str, Callable[[ExpressionParser], list[exp.Expr]]]] = {
        "EXTRACT": _extract_arguments,
        "TRIM": _trim_arguments,
        "SUBSTRING": lambda self: self._keyword_arguments("FROM", "FOR"),
        "OVERLAY": lambda self: self._keyword_arguments("PLACING", "FROM", "FOR"),
        "POSITION": _position_arguments,
        "CEIL": _rounding_arguments,
        "CEILING": _rounding_arguments,
        "FLOOR": _rounding_arguments,
        "TIMESTAMPADD": _unit_first_arguments,
        "TIMESTAMPDIFF": _unit_first_arguments,
        **dict.fromkeys(("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", "JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG",
                         "JSON_ARRAYAGG"), _json_arguments),
    }
