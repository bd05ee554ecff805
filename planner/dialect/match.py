"""The part of the parser that reads MATCH_RECOGNIZE."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.base import with_position
from stateplan.planner.dialect.expressions import ExpressionParser

_NAVIGATION = ("PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER")
"""Reserved words that are functions within MATCH_RECOGNIZE."""
_MODIFIERS = ("FINAL", "RUNNING")
_SKIPS = ("PAST LAST ROW", "TO NEXT ROW", "TO FIRST", "TO LAST", "TO")
_OPTIONAL = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}


class MatchParser(ExpressionParser):
    """The part of the parser that reads MATCH_RECOGNIZE. Table aliases and ORDER BY are those of queries."""

    _matching = 0
    """How many MATCH_RECOGNIZE clauses are open."""

    _table_alias: Callable[[], exp.TableAlias | None]  # in queries.py

    def _match_recognize(self, table: exp.Expr) -> nodes.MatchRecognize:
        start = self._curr
        self._expect("MATCH_RECOGNIZE", "(")
        self._matching += 1
        try:
            node = self._match_clauses(table)
        finally:
            self._matching -= 1
        self._expect(")", expected=", or )")
        alias = self._table_alias()
        if alias is not None:
            node.set("alias", alias)
        return self._mark(node, start)

    def _match_clauses(self, table: exp.Expr) -> nodes.MatchRecognize:
        node = nodes.MatchRecognize(this=table)
        if self._accept("PARTITION", "BY"):
            node.set("partition_by", self._csv(self._expression))
        node.set("order", self._order_by())
        if not self._accept("MEASURES"):
            raise self._unexpected("MEASURES", words=("PARTITION", "ORDER", "MEASURES"))
        node.set("measures", self._csv(self._match_measure))
        node.set("rows", self._rows_per_match())
        node.set("after", self._after_match())
        self._expect("PATTERN", "(")
        node.set("pattern", self._match_pattern())
        self._expect(")", expected="a variable, a quantifier or )")
        if self._accept("WITHIN"):
            if not self._is("INTERVAL"):
                raise self._unexpected("INTERVAL", words=("INTERVAL",))
            node.set("within", self._interval())
        if self._accept("SUBSET"):
            node.set("subsets", self._csv(self._match_subset))
        if not self._accept("DEFINE"):
            raise self._unexpected("DEFINE, SUBSET or WITHIN", words=("DEFINE", "SUBSET", "WITHIN"))
        node.set("defines", self._csv(self._match_definition))
        return node

    @with_position
    def _match_measure(self) -> exp.Alias:
        this = self._expression()
        self._expect("AS", expected="an operator, or AS and a name")
        return exp.Alias(this=this, alias=self._name("a name after AS"))

    def _rows_per_match(self) -> exp.Var | None:
        start = self._curr
        word = self._accept_any(("ONE", "ALL"))
        if word is None:
            return None
        self._expect(*(("ROW", "PER", "MATCH") if word == "ONE" else ("ROWS", "PER", "MATCH")))
        if word == "ALL":
            raise self._unsupported("ALL ROWS PER MATCH", start, "ONE ROW PER MATCH, as in Flink")
        return self._mark(exp.Var(this=word), start)

    def _after_match(self) -> nodes.MatchSkip | None:
        if not self._is("AFTER"):
            return None
        start = self._curr
        self._expect("AFTER", "MATCH", "SKIP")
        kind = self._accept_any(_SKIPS)
        if kind is None:
            raise self._unexpected("PAST LAST ROW, TO NEXT ROW, TO FIRST, TO LAST or TO", words=("PAST", "TO"))
        if kind == "TO" and self._accept("NEXT"):
            raise self._unexpected("ROW", words=("ROW",))
        this = self._name("a name of a variable") if kind in ("TO FIRST", "TO LAST", "TO") else None
        return self._mark(nodes.MatchSkip(kind=kind, this=this), start)

    @with_position
    def _match_subset(self) -> nodes.MatchVariable:
        name = self._name("a name")
        self._expect("=")
        return nodes.MatchVariable(this=name, expressions=self._parens(lambda: self._csv(self._name)))

    @with_position
    def _match_definition(self) -> nodes.MatchVariable:
        name = self._name("a name of a variable")
        self._expect("AS")
        return nodes.MatchVariable(this=name, expression=self._expression())

    # the pattern

    def _match_pattern(self) -> exp.Expr:
        return self._deeper(self._pattern_parts)

    def _pattern_parts(self) -> exp.Expr:
        start = self._curr
        items = [self._pattern_factor()]
        while not self._at_end() and not self._is(")"):
            items.append(self._pattern_factor())
        if len(items) == 1:
            return items[0]
        return self._mark(nodes.PatternSequence(expressions=items), start)

    def _pattern_factor(self) -> exp.Expr:
        start = self._curr
        inner = self._pattern_element()
        bounds = self._match_quantifier(start)
        if bounds is None:
            return inner
        low, high, exact = bounds
        reluctant = self._accept("?") and not exact  # Flink drops the ? of {n}?
        if self._is("{") or self._word_at(0) in _OPTIONAL:
            raise self._unexpected("one quantifier for each variable")
        text = self.sql[start.start : self._prev.end + 1]
        if not isinstance(inner, exp.Identifier):
            raise self._unsupported("a quantifier behind a group of a pattern", start, "one variable in front of it")
        repetition = nodes.PatternRepeat(this=inner, low=low, high=high, reluctant=reluctant, text=text)
        return self._mark(repetition, start)

    def _pattern_element(self) -> exp.Expr:
        token = self._curr
        unsupported_syntax = self._refused_in_pattern()
        if unsupported_syntax is not None:
            raise self._unsupported(unsupported_syntax, token)
        if self._accept("("):
            inner = self._match_pattern()
            self._expect(")", expected="a variable, a quantifier or )")
            return exp.Paren(this=inner) if isinstance(inner, nodes.PatternSequence) else inner
        return self._name("a name of a variable of the pattern")

    def _refused_in_pattern(self) -> str | None:
        """What is here and is not a pattern in Flink."""
        if self._is("{", "-") or self._is("{-"):
            return "an exclusion {- -} in a pattern"
        if self._is("|"):
            return "an alternative | in a pattern"
        if self._is("^") or self._is("$"):
            return "an anchor ^ or $ in a pattern"
        return "PERMUTE in a pattern" if self._is("PERMUTE") else None

    def _match_quantifier(self, start: Token) -> tuple[int, int, bool] | None:
        """The bounds of a quantifier, and whether it is written as one number."""
        word = self._word_at(0)
        if word in _OPTIONAL:
            self._advance()
            return (*_OPTIONAL[word], False)
        if not self._is("{") or self._is("{", "-"):
            return None
        self._advance()
        if self._is(","):
            raise self._unsupported(
                "a quantifier {,n} in a pattern", start, "write {0,n}: Flink compiles {,n} and then does not run it"
            )
        low = self._integer("a number of rows")
        high, exact = low, not self._accept(",")
        if not exact:
            high = -1 if self._is("}") else self._integer("a number of rows or }")
        self._expect("}", expected=", or }" if exact else "}")
        return low, high, exact

    # calls

    def _primary(self) -> exp.Expr:
        if self._matching and not self._at_end():
            token, word = self._curr, self._word_at(0)
            if word in _MODIFIERS and (self._name_ahead(1) or self._word_at(1)) and self._word_at(2) == "(":
                self._advance()
                return self._mark(nodes.MatchModifier(this=self._primary(), kind=word), token)
            if word in _NAVIGATION and self._followed_by("("):
                self._advance()
                return self._call(token)
        return super()._primary()
