"""The part of the parser that reads calls of functions: arguments, FILTER, OVER, and calls with words inside.

**Every function call is** ``exp.Anonymous``: ``this`` is the name as written, ``expressions`` the arguments in the
order of the plain call form. So ``SUBSTRING(x FROM 2 FOR 3)`` and ``SUBSTRING(x, 2, 3)`` are the same tree,
``COUNT(*)`` has one ``exp.Star``, ``COUNT(DISTINCT a)`` one ``exp.Distinct``, words that are symbols (``EXTRACT(YEAR
FROM t)``, ``TRIM(BOTH ..)``) are ``exp.Var``, named arguments ``exp.Kwarg``. The clauses of JSON functions are
arguments too (json_calls.py). Around a call may appear ``exp.Filter``, ``exp.WithinGroup``, ``exp.IgnoreNulls`` and,
outermost, ``exp.Window`` (OVER).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from stateplan.common.errors import SqlError
from stateplan.functions.foreign_functions import REPLACEMENTS
from stateplan.functions.literals import CLOCK_UNITS, SPANS, TIME_UNITS
from stateplan.functions.table import functions, unknown_function
from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.base import with_position
from stateplan.planner.dialect.errors import place_of_token
from stateplan.planner.dialect.json_calls import JsonCallParser

NO_PARENTHESES = frozenset(function.name for function in functions() if function.syntax == "FUNCTION_ID")
"""Functions that are called without parentheses."""

#: Reserved words that stand for a column of that name, alone and unquoted: Flink has none of the functions that they
#: are in the standard.
CONTEXT_VARIABLES = frozenset(
    {
        "CURRENT_CATALOG",
        "CURRENT_DEFAULT_TRANSFORM_GROUP",
        "CURRENT_PATH",
        "CURRENT_ROLE",
        "CURRENT_SCHEMA",
        "CURRENT_USER",
        "SESSION_USER",
        "SYSTEM_USER",
        "USER",
    }
)

_ADD_UNITS = (*SPANS, *CLOCK_UNITS)
_SQL_UNITS = tuple(f"SQL_TSI_{unit}" for unit in _ADD_UNITS[:8])


PATH = "path"
"""The argument of a call that has the parts of its name, where these are several."""

NULL_TREATMENT = "nulls"
"""The argument of a call of ARRAY_AGG that says IGNORE or RESPECT, where it does."""


def ignores_nulls(call: exp.Expr) -> bool:
    """Whether a call is to pass over NULLs."""
    return call.args.get(NULL_TREATMENT) == "IGNORE"


def name_parts(call: exp.Expr) -> list[str]:
    """The parts of the name of a call, as written: catalog, database, function, or the last ones of them."""
    return [part.name for part in call.args.get(PATH) or ()] or [call.name]


def function_name(call: exp.Expr) -> str:
    """The name of a call (``exp.Anonymous``) in capitals, as the function tables key it."""
    return call.name.upper()


class CallParser(JsonCallParser):
    """The part of the parser that reads calls of functions."""

    # in queries.py
    _query: Callable[[], exp.Expr]
    _query_ahead: Callable[[], bool]
    _order_by: Callable[[], exp.Order | None]
    _table_argument: Callable[[], nodes.TableArgument]
    _clauses_of_table: Callable[[exp.Expr], nodes.TableArgument]
    # in expressions.py
    _sum: Callable[[], exp.Expr]
    _constant: Callable[[], exp.Expr]

    def _call(self, start: Token, parts: list[exp.Identifier] | None = None) -> exp.Expr:
        name = ".".join(p.name for p in parts) if parts else start.text
        word = name.upper()
        last = self._prev
        special = self._SPECIAL.get(word) if not parts or len(parts) == 1 else None
        self._expect("(")
        arguments = special(self) if special else self._arguments_of(start)
        nulls = self._null_treatment(word)
        self._expect(")", expected=", or )")
        nulls = nulls or self._null_treatment(word)
        node = exp.Anonymous(
            this=parts[0] if parts and len(parts) == 1 and parts[0].quoted else name, expressions=arguments
        )
        if nulls is not None:
            node.set(NULL_TREATMENT, nulls)
        if parts and len(parts) > 1:
            node.set(PATH, parts)
        node.meta.update(line=start.line, col=start.col, start=start.start, end=last.end)
        return self._after_call(node, start)

    def _arguments_of(self, name: Token) -> list[exp.Expr]:
        """Arguments. A reserved word among those of a function of other databases, as in ``DATEDIFF(DAY, a, b)``, is an
        unknown function."""
        try:
            return self._arguments()
        except SqlError as error:
            if error.code == "SQL008" and name.text.upper() in REPLACEMENTS:
                raise unknown_function(name.text, (), place_of_token(name, self.sql)) from error
            raise

    def _null_treatment(self, word: str) -> str | None:
        """IGNORE NULLS or RESPECT NULLS of ARRAY_AGG, which Flink takes behind the argument, too."""
        if word != "ARRAY_AGG":
            return None
        return next((treatment for treatment in ("IGNORE", "RESPECT") if self._accept(treatment, "NULLS")), None)

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
        argument = self._expression()
        if isinstance(argument, exp.Subquery) and (self._is("PARTITION", "BY") or self._is("ORDER", "BY")):
            return self._mark(self._clauses_of_table(argument), start)
        return argument

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
            condition = self._mark(exp.Where(this=self._expression()), where_token)
            self._expect(")")
            node = self._mark(exp.Filter(this=node, expression=condition), start)
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
        return self._mark(
            exp.Window(
                this=this,
                partition_by=partition or None,
                order=order,
                spec=spec,
                alias=base,
                over="OVER" if this is not None else None,
            ),
            start,
        )

    @with_position
    def _frame(self) -> exp.WindowSpec:
        kind = self._accept_any(("ROWS", "RANGE"))
        if self._accept("BETWEEN"):
            first = self._bound()
            self._expect("AND")
            last = self._bound()
            node = exp.WindowSpec(kind=kind, start=first[0], start_side=first[1], end=last[0], end_side=last[1])
        else:
            first = self._bound()
            node = exp.WindowSpec(kind=kind, start=first[0], start_side=first[1])
        return node

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
        unit = self._symbol(TIME_UNITS, "a unit: " + ", ".join(TIME_UNITS))
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

    def _substring_arguments(self) -> list[exp.Expr]:
        arguments = [self._expression()]
        for word in ("FROM", "FOR"):
            if self._accept(",") or self._accept(word):
                arguments.append(self._expression())
        return arguments

    def _overlay_arguments(self) -> list[exp.Expr]:
        arguments = [self._expression()]
        for word in ("PLACING", "FROM"):
            self._expect(word)
            arguments.append(self._expression())
        if self._accept("FOR"):
            arguments.append(self._expression())
        return arguments

    def _position_arguments(self) -> list[exp.Expr]:
        arguments = [self._sum()]
        self._expect("IN")
        arguments.append(self._sum())
        if self._accept("FROM"):
            arguments.append(self._expression())
        return arguments

    def _rounding_arguments(self) -> list[exp.Expr]:
        arguments = [self._expression()]
        if self._accept("TO"):
            arguments.append(self._symbol(TIME_UNITS, "a unit: " + ", ".join(TIME_UNITS)))
        else:
            while self._accept(","):
                arguments.append(self._expression())
        return arguments

    def _unit_first_arguments(self) -> list[exp.Expr]:
        arguments: list[exp.Expr] = [self._symbol((*_ADD_UNITS, *_SQL_UNITS), "a unit: " + ", ".join(_ADD_UNITS[:9]))]
        while self._accept(","):
            arguments.append(self._expression())
        return arguments

    _SPECIAL: ClassVar[dict[str, Callable[[CallParser], list[exp.Expr]]]] = {
        "EXTRACT": _extract_arguments,
        "TRIM": _trim_arguments,
        "SUBSTRING": _substring_arguments,
        "OVERLAY": _overlay_arguments,
        "POSITION": _position_arguments,
        "CEIL": _rounding_arguments,
        "CEILING": _rounding_arguments,
        "FLOOR": _rounding_arguments,
        "TIMESTAMPADD": _unit_first_arguments,
        "TIMESTAMPDIFF": _unit_first_arguments,
        **JsonCallParser.JSON_ARGUMENTS,
    }
