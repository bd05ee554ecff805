"""The part of the parser that reads expressions, with Calcite's precedence.

From loose to tight: OR; AND; NOT; IS ...; ``= <> < <= > >=``, IS [NOT] DISTINCT FROM; BETWEEN, IN, LIKE,
SIMILAR TO, OVERLAPS; ``+ -``; ``* / % ||``; signs; ``.`` and ``[]``.

Calls of functions are ``exp.Anonymous`` (calls.py). Forms with a class of their own in sqlglot are of that
class: CASE, CAST, TRY_CAST, EXISTS, IN, BETWEEN, LIKE, IS, operators. NOT IN is ``exp.Not`` around
``exp.In``, and so on, but IS NOT JSON is one ``exp.Is``: its negation is another function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from stateplan.common.errors import SqlError
from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.base import with_position
from stateplan.planner.dialect.calls import CONTEXT_VARIABLES, NO_PARENTHESES, CallParser
from stateplan.planner.dialect.errors import place_of_token
from stateplan.planner.dialect.keywords import words
from stateplan.planner.dialect.literals import check_interval, check_temporal, unit_within
from stateplan.planner.dialect.types import logical_type

#: Reserved words that may be called as functions.
_CALLABLE = words("""
    ABS AVG CARDINALITY CEIL CEILING CHARACTER_LENGTH CHAR_LENGTH COALESCE COLLECT CONTAINS CONVERT CORR
    COUNT COVAR_POP COVAR_SAMP CUME_DIST CURRENT_TIMESTAMP DATE_TRUNC DAY DENSE_RANK ELEMENT EVERY EXP
    EXTRACT FIRST_VALUE FLOOR GROUPING GROUP_CONCAT HASH HOUR IF INTERSECTION JSON_ARRAY JSON_ARRAYAGG
    JSON_EXISTS JSON_OBJECT JSON_OBJECTAGG JSON_QUERY JSON_VALUE LAG LAST_VALUE LEAD LEFT LN LOCALTIME
    LOCALTIMESTAMP LOWER MAX MIN MINUTE MOD MONTH NTH_VALUE NTILE NULLIF OCTET_LENGTH OVERLAY PERCENTILE
    PERCENTILE_CONT PERCENTILE_DISC PERCENT_RANK POSITION POWER RANK REGR_AVGX REGR_AVGY REGR_COUNT
    REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY RIGHT ROW_NUMBER SECOND SOME SQRT
    STDDEV_POP STDDEV_SAMP STRING_AGG SUBSTRING SUM TIMESTAMP_DIFF TIMESTAMP_TRUNC TRANSLATE TRIM
    TRUNCATE TRY_CAST UPPER VAR_POP VAR_SAMP YEAR
""")

_COMPARISON: dict[TokenType, type[exp.Binary]] = {
    TokenType.EQ: exp.EQ,
    TokenType.NEQ: exp.NEQ,
    TokenType.LT: exp.LT,
    TokenType.LTE: exp.LTE,
    TokenType.GT: exp.GT,
    TokenType.GTE: exp.GTE,
}
_ADDITIVE: dict[TokenType, type[exp.Binary]] = {TokenType.PLUS: exp.Add, TokenType.DASH: exp.Sub}
_MULTIPLICATIVE: dict[TokenType, type[exp.Binary]] = {
    TokenType.STAR: exp.Mul,
    TokenType.SLASH: exp.Div,
    TokenType.MOD: exp.Mod,
    TokenType.DPIPE: exp.DPipe,
}

_TRUTH = ("NULL", "TRUE", "FALSE", "UNKNOWN")
_JSON_KINDS = ("VALUE", "SCALAR", "ARRAY", "OBJECT")
_NEXT = "an expression"
_OF_DIFFERENCES = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_OPERATORS = ("AND", "OR", "BETWEEN", "IN", "LIKE", "IS", "NOT", "OVER", "FILTER")


class ExpressionParser(CallParser):
    """The part of the parser that reads expressions."""

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
            if self._is("JSON") or self._is("NOT", "JSON"):
                left = self._mark(exp.Is(this=left, expression=self._json_kind()), start)
                continue
            negated = self._accept("NOT")
            operand = self._truth_value()
            left = self._mark(exp.Is(this=left, expression=operand), start)
            if negated:
                left = self._mark(exp.Not(this=left), start)
        return left

    def _truth_value(self) -> exp.Expr:
        """What follows IS; an ``exp.Var`` for UNKNOWN."""
        word = self._accept_any(_TRUTH)
        if word is None:
            raise self._unexpected(
                "NULL, TRUE, FALSE, UNKNOWN, JSON or DISTINCT FROM after IS",
                words=(*_TRUTH, "JSON", "NOT", "DISTINCT"),
            )
        if word == "NULL":
            return exp.Null()
        return exp.Var(this=word) if word == "UNKNOWN" else exp.Boolean(this=word == "TRUE")

    @with_position
    def _json_kind(self) -> exp.Var:
        """``[NOT] JSON [VALUE | SCALAR | ARRAY | OBJECT]``, with VALUE where no kind is written."""
        negation = "NOT " if self._accept("NOT") else ""
        self._expect("JSON")
        return exp.Var(this=f"{negation}JSON {self._accept_any(_JSON_KINDS) or 'VALUE'}")

    def _comparison(self) -> exp.Expr:
        start, left = self._curr, self._range()
        while True:
            kind = _COMPARISON.get(self._curr.token_type) if not self._at_end() else None
            if kind is not None:
                if self._curr.text == "!=":
                    raise self._unexpected("<>")
                if self._operator_follows("=="):
                    raise self._no_operator("==")
                self._advance()
                left = self._binary(kind, left, self._comparison_operand(), start)
            elif self._accept("IS", "NOT", "DISTINCT", "FROM"):
                left = self._binary(exp.NullSafeEQ, left, self._range(), start)
            elif self._accept("IS", "DISTINCT", "FROM"):
                left = self._binary(exp.NullSafeNEQ, left, self._range(), start)
            else:
                return left

    def _comparison_operand(self) -> exp.Expr:
        quantifier = next((q for q in ("ANY", "SOME", "ALL") if self._is(q, "(")), None)
        if quantifier is None:
            return self._range()
        start = self._curr
        self._advance()
        if self._query_ahead():
            operand: exp.Expr = self._subquery()
        else:
            opening = self._curr
            self._expect("(")
            values = self._csv(self._expression)
            self._expect(")", expected=", or )")
            operand = self._mark(exp.Tuple(expressions=values), opening)
        return self._mark((exp.All if quantifier == "ALL" else exp.Any)(this=operand), start)

    def _range(self) -> exp.Expr:
        start, left = self._curr, self._sum()
        while True:
            negated = self._is("NOT") and self._word_at(1) in ("BETWEEN", "IN", "LIKE", "SIMILAR")
            if negated:
                self._advance()
            if self._accept("BETWEEN"):
                symmetric = self._accept_any(("SYMMETRIC", "ASYMMETRIC")) == "SYMMETRIC"
                low = self._sum()
                self._expect("AND")
                predicate: exp.Expr = exp.Between(this=left, low=low, high=self._sum(), symmetric=symmetric or None)
            elif self._accept("IN"):
                predicate = self._in(left)
            elif self._accept("LIKE"):
                predicate = exp.Like(this=left, expression=self._sum())
            elif self._accept("SIMILAR", "TO"):
                predicate = exp.SimilarTo(this=left, expression=self._sum())
            elif self._accept("OVERLAPS"):
                predicate = exp.Overlaps(this=left, expression=self._sum())
            else:
                return left
            if isinstance(predicate, (exp.Like, exp.SimilarTo)) and self._accept("ESCAPE"):
                predicate = exp.Escape(this=self._mark(predicate, start), expression=self._sum())
            left = self._mark(predicate, start)
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
        start, left = self._curr, self._signed_operand()
        while not self._at_end() and (kind := _MULTIPLICATIVE.get(self._curr.token_type)):
            self._advance()
            left = self._binary(kind, left, self._signed_operand(), start)
        return left

    def _signed_operand(self) -> exp.Expr:
        start = self._curr
        if self._accept("-"):
            return self._mark(exp.Neg(this=self._deeper(self._signed_operand)), start)
        if self._accept("+"):
            return self._deeper(self._signed_operand)
        return self._postfix()

    def _postfix(self) -> exp.Expr:
        start, left = self._curr, self._primary()
        while True:
            if self._operator_follows("::"):
                raise self._no_operator("::")
            if self._accept("["):
                index = self._expression()
                self._expect("]")
                left = self._mark(exp.Bracket(this=left, expressions=[index]), start)
            elif self._is(".") and not isinstance(left, (exp.Column, exp.Literal)):
                self._advance()
                left = self._mark(exp.Dot(this=left, expression=self._name("a name of a field")), start)
            elif self._is("AT") and (self._is("AT", "TIME") or self._is("AT", "LOCAL")):
                raise self._unsupported("AT TIME ZONE", self._curr, "use CONVERT_TZ")
            else:
                return left

    # what is alone

    def _primary(self) -> exp.Expr:
        if self._at_end():
            raise self._unexpected(_NEXT)
        token = self._curr
        reader = self._BY_TOKEN.get(token.token_type)
        if token.token_type == TokenType.DOT and (after := self._ahead(1)) and after.token_type == TokenType.NUMBER:
            return self._number_literal()
        if reader is not None:
            return reader(self)
        word = token.text.upper()
        if token.token_type != TokenType.IDENTIFIER and word in self._BY_WORD:
            primary = self._BY_WORD[word](self)
            if primary is not None:
                return primary
        if token.token_type == TokenType.IDENTIFIER or self._name_ahead():
            return self._reference()
        if word in _CALLABLE and self._followed_by("("):
            self._advance()
            return self._call(token)
        if self._quotable(token):
            raise self._reserved(token)
        raise self._unexpected(_NEXT)

    def _followed_by(self, text: str) -> bool:
        after = self._ahead(1)
        return (
            after is not None
            and after.text == text
            and after.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        )

    def _number_literal(self) -> exp.Expr:
        token = self._curr
        fraction = self._accept(".")
        self._advance()
        if fraction:
            return self._mark(exp.Literal(this=f"0.{self._prev.text}", is_string=False), token)
        after = self._ahead(0)
        if after is not None and after.start == token.end + 1 and (after.text[:1].isalpha() or after.text[:1] == "_"):
            raise self._unexpected("a number, or a name that does not begin with a digit")
        return self._mark(exp.Literal(this=token.text.rstrip("."), is_string=False), token)

    def _text_literal(self) -> exp.Expr:
        token = self._curr
        literal = self._string("a text")
        while not self._at_end() and self._curr.token_type == TokenType.STRING:
            literal.set("this", literal.this + self._curr.text)
            self._advance()
        return self._mark(literal, token)

    def _national_literal(self) -> exp.Expr:
        token = self._take()
        return self._mark(exp.Literal(this=token.text, is_string=True), token)

    def _unicode_literal(self) -> exp.Expr:
        token = self._take()
        escape = self._string("an escape character").name if self._accept("UESCAPE") else "\\"
        text, i = "", 0
        raw = token.text
        while i < len(raw):
            if raw[i] != escape:
                text, i = text + raw[i], i + 1
            elif raw[i + 1 : i + 2] == escape:
                text, i = text + escape, i + 2
            else:
                digits = raw[i + 1 : i + 5]
                try:
                    text, i = text + chr(int(digits, 16)), i + 5
                    if len(digits) != 4:
                        raise ValueError(digits)
                except ValueError:
                    raise SqlError(
                        "SQL006", text=escape + digits, kind="a Unicode escape", place=place_of_token(token, self.sql)
                    ) from None
        return self._mark(exp.Literal(this=text, is_string=True), token)

    def _binary_literal(self) -> exp.Expr:
        token = self._take()
        if len(token.text) % 2:
            raise SqlError("SQL006", text=token.text, kind="a sequence of bytes", place=place_of_token(token, self.sql))
        return self._mark(exp.HexString(this=token.text), token)

    def _constant(self) -> exp.Expr:
        token = self._take()
        node: exp.Expr = {
            "TRUE": exp.Boolean(this=True),
            "FALSE": exp.Boolean(this=False),
            "NULL": exp.Null(),
            "UNKNOWN": exp.Var(this="UNKNOWN"),
            "*": exp.Star(),
        }[token.text.upper()]
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
        text.set("this", check_temporal(kind, text.name, place_of_token(self._prev, self.sql)))
        return self._mark(nodes.TypedLiteral(this=text, kind=kind), token)

    def _interval(self) -> exp.Expr:
        token = self._take()
        sign = "-" if self._accept("-") else ""
        if not sign:
            self._accept("+")
        text_token = self._curr
        if not self._at_end() and text_token.token_type == TokenType.NUMBER:
            self._advance()
            text = self._mark(exp.Literal(this=text_token.text, is_string=True), text_token)
        else:
            text = self._string("a text such as '5', then its unit: INTERVAL '5' SECOND")
        unit_token = self._curr
        try:
            unit, _ = self._interval_qualifier()
        except SqlError as error:
            error.hint = unit_within(text.name) or error.hint
            raise
        check_interval(text.name, unit, place_of_token(text_token, self.sql))
        node = exp.Interval(this=text, unit=self._mark(exp.Var(this=unit), unit_token))
        result: exp.Expr = self._mark(node, token)
        return self._mark(exp.Neg(this=result), token) if sign else result

    def _case(self) -> exp.Expr:
        token = self._take()
        subject = None if self._is("WHEN") else self._expression()
        branches = []
        while self._is("WHEN"):
            start = self._curr
            self._advance()
            when = self._expression()
            if subject is not None and self._accept(","):
                when = self._mark(exp.Tuple(expressions=[when, *self._csv(self._expression)]), start)
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
        if not logical_type(to).nullable:
            raise self._unexpected(")", token=self._tokens[self._index - 2])
        self._expect(")")
        if token.text.upper() == "CAST":
            return self._mark(exp.Cast(this=this, to=to), token)
        return self._mark(exp.TryCast(this=this, to=to), token)

    def _exists(self) -> exp.Expr:
        token = self._take()
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
        token = self._take()
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
        group = self._mark(exp.Paren(this=items[0]) if len(items) == 1 else exp.Tuple(expressions=items), token)
        if len(items) == 1 and isinstance(items[0], exp.Sub) and any(map(self._is, _OF_DIFFERENCES)):
            start = self._curr
            unit = self._mark(exp.Var(this=self._interval_qualifier()[0]), start)
            return self._mark(nodes.Difference(this=group, unit=unit), token)
        return group

    @with_position
    def _subquery(self) -> exp.Subquery:
        self._expect("(")
        query = self._query()
        self._expect(")")
        return exp.Subquery(this=query)

    def _bare_call(self) -> exp.Expr | None:
        """CURRENT_TIMESTAMP and its like."""
        token = self._take()
        if self._is("("):
            self._advance()
            arguments = [] if self._is(")") else [self._expression()]
            self._expect(")")
            return self._mark(exp.Anonymous(this=token.text, expressions=arguments), token)
        return self._mark(exp.Anonymous(this=token.text, expressions=[]), token)

    def _context_variable(self) -> exp.Expr | None:
        """USER and its like: a column."""
        token = self._take()
        name = self._mark(exp.to_identifier(token.text), token)
        return self._mark(exp.Column(this=name), token)

    # names and calls

    def _reference(self) -> exp.Expr:
        """A column (``exp.Column`` of up to four parts, ``exp.Dot`` beyond), ``t.*``, or a call of a
        function."""
        start = self._curr
        parts = [self._name()]
        while self._accept("."):
            if self._is("*"):
                star = self._constant()
                return self._mark(exp.Column(this=star, **self._qualifiers(parts)), start)
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

    _BY_TOKEN: ClassVar[dict[TokenType, Callable[[ExpressionParser], exp.Expr]]] = {
        TokenType.NUMBER: _number_literal,
        TokenType.STRING: _text_literal,
        TokenType.NATIONAL_STRING: _national_literal,
        TokenType.UNICODE_STRING: _unicode_literal,
        TokenType.HEX_STRING: _binary_literal,
        TokenType.L_PAREN: _parenthesised,
        TokenType.STAR: _misplaced_star,
    }
    _BY_WORD: ClassVar[dict[str, Callable[[ExpressionParser], exp.Expr | None]]] = {
        **dict.fromkeys(("TRUE", "FALSE", "NULL", "UNKNOWN"), _constant),
        **dict.fromkeys(("DATE", "TIME", "TIMESTAMP"), _temporal),
        **dict.fromkeys(NO_PARENTHESES, _bare_call),
        **dict.fromkeys(CONTEXT_VARIABLES, _context_variable),
        **dict.fromkeys(("ARRAY", "MAP", "MULTISET"), _constructor),
        **dict.fromkeys(("CAST", "TRY_CAST"), _cast),
        "INTERVAL": _interval,
        "CASE": _case,
        "EXISTS": _exists,
        "ROW": _row_constructor,
    }
