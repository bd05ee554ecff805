"""MATCH_RECOGNIZE: from its syntax tree to a relation.

Source: Calcite's ``SqlValidatorImpl.validateMatchRecognize`` with its ``NavigationExpander`` and
``NavigationReplacer`` (where references to rows get FINAL, LAST and PREV), ``SqlToRelConverter.convertMatchRecognize``;
what is refused, Flink's ``CommonExecMatch``, ``MatchCodeGenerator`` and ``Pattern``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from sqlglot import exp

from stateplan.common.errors import Place, SqlError, nearest
from stateplan.common.types import BIGINT, LogicalType
from stateplan.functions.aggregates import find_aggregate
from stateplan.functions.builder import make_call
from stateplan.functions.rex import Call, InputRef, Literal, PatternInputRef, Rex
from stateplan.functions.typerules import same_type
from stateplan.planner.algebra.match import Match
from stateplan.planner.algebra.relations import Order, Rel
from stateplan.planner.binding.aggregate_operands import aggregate_operands, json_aggregate
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.match_aggregates import OF_ROWS, REFUSED_FUNCTIONS, aggregated
from stateplan.planner.binding.match_arguments import (
    ANY_VARIABLE,
    indivisible_name,
    is_constant,
    taken_for_variables,
)
from stateplan.planner.binding.scope import Scope, field_of
from stateplan.planner.binding.user_functions import user_function
from stateplan.planner.catalog.functions import Functions
from stateplan.planner.dialect import function_name, nodes
from stateplan.planner.dialect.calls import ignores_nulls
from stateplan.planner.expressions.ops import call, kind, walk
from stateplan.planner.positions import bare, not_supported, place_of

_NULL = LogicalType("NULL")
_INT, _BOOLEAN = LogicalType("INTEGER", False), LogicalType("BOOLEAN", False)
_SYMBOL = LogicalType("SYMBOL", False)
_ROWTIME = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", False, precision=3, kind="ROWTIME")
_PROCTIME = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", False, precision=3, kind="PROCTIME")
_LOGICAL, _PHYSICAL = ("LAST", "FIRST"), ("PREV", "NEXT")
_NEXT_ROW, _PAST_LAST = "SKIP_TO_NEXT_ROW", "SKIP_PAST_LAST_ROW"


def bind_match(node: nodes.MatchRecognize, rel: Rel, source: str, functions: Functions | None) -> Match:
    """The relation of a MATCH_RECOGNIZE clause over ``rel``.

    Raises:
        SqlError: SQL150 for what Flink compiles or not and does not run, SQL180 to SQL184 for clauses that are wrong,
            and what expressions raise.
    """
    return _Clause(node, rel, source, functions).bound()


class _Clause:
    """Binds one MATCH_RECOGNIZE clause."""

    def __init__(self, node: nodes.MatchRecognize, rel: Rel, source: str, functions: Functions | None) -> None:
        self.node, self.rel, self.source, self.functions = node, rel, source, functions
        self.variables: list[str] = []

    def place(self, node: exp.Expr) -> Place:
        return place_of(node, self.source)

    def bound(self) -> Match:
        args = self.node.args
        for subset in args.get("subsets") or ():
            raise not_supported(
                "SUBSET in MATCH_RECOGNIZE",
                self.place(subset),
                "Flink compiles it, and its columns are NULL; write the variables themselves",
            )
        partition = tuple(self._column(n, "PARTITION BY") for n in args.get("partition_by") or ())
        order = self._order(args.get("order"))
        pattern = self._pattern(args["pattern"])
        self._check_pattern(args["pattern"])
        defines = self._defines(args["defines"])
        measures = self._measures(args["measures"], partition)
        return Match(
            self.rel,
            pattern,
            tuple(defines),
            tuple(measures),
            self._after(args.get("after")),
            partition,
            order,
            self._within(args.get("within")),
            self.place(self.node),
        )

    # PARTITION BY, ORDER BY

    def _column(self, node: exp.Expr, clause: str) -> int:
        names = [n for n, _ in self.rel.fields]
        if not isinstance(node, exp.Column) or node.args.get("table") is not None:
            raise SqlError("SQL180", clause=clause, place=self.place(node))
        name = node.this.name
        if name not in names:
            place, hint = self.place(node), nearest(name, names)
            raise SqlError("SQL100", name=name, place=place, expected=f"one of {', '.join(names)}", hint=hint)
        return names.index(name)

    def _order(self, node: exp.Expr | None) -> Order:
        if node is None:
            raise SqlError("SQL181", problem="it has no ORDER BY", place=self.place(self.node))
        order: list[tuple[int, bool, bool]] = []
        for item in node.expressions:
            index = self._column(item.this, "ORDER BY")
            order.append((index, not item.args.get("desc"), not item.args.get("nulls_first")))
        index, ascending, _ = order[0]
        name, field_type = self.rel.fields[index]
        first = self.place(node.expressions[0])
        if field_type.kind is None:
            problem = f"the first column of its ORDER BY, '{name}', is no time attribute"
            raise SqlError("SQL181", problem=problem, place=first)
        if not ascending:
            raise SqlError("SQL181", problem="its ORDER BY begins with a time that descends", place=first)
        return tuple(order)

    # PATTERN

    def _pattern(self, node: exp.Expr) -> Rex:
        if isinstance(node, exp.Paren):
            return self._pattern(node.this)
        if isinstance(node, nodes.PatternSequence):
            pattern = self._pattern(node.expressions[0])
            for part in node.expressions[1:]:
                pattern = Call(_NULL, (pattern, self._pattern(part)), syntax="BINARY", sql_kind="PATTERN_CONCAT")
            return pattern
        if isinstance(node, nodes.PatternRepeat):
            numbers = (Literal(_INT, node.args["low"]), Literal(_INT, node.args["high"]))
            operands = (self._pattern(node.this), *numbers, Literal(_BOOLEAN, bool(node.args.get("reluctant"))))
            return Call(_NULL, operands, internal_name="$PATTERN_QUANTIFIER$1", syntax="SPECIAL")
        if node.name in self.variables:
            raise SqlError("SQL182", name=node.name, place=self.place(node))
        self.variables.append(node.name)
        return _variable(node.name)

    def _check_pattern(self, node: exp.Expr) -> None:
        """What Flink's patterns cannot be.

        Raises:
            SqlError: SQL182.
        """
        before: nodes.PatternRepeat | None = None
        every = list(_elements(node))
        for element in every:
            repeat = element if isinstance(element, nodes.PatternRepeat) else None
            if repeat is not None:
                self._check_bounds(repeat)
                optional = (repeat.args["low"], repeat.args["high"]) in ((0, 1), (0, -1))
                if optional and before is not None and _is_greedy(before):
                    text, place = before.args["text"], self.place(repeat)
                    raise SqlError("SQL182.optional_after_greedy", greedy=text, text=repeat.args["text"], place=place)
            before = repeat
        if before is not None and _is_greedy(before):
            raise SqlError("SQL182.greedy_end", text=before.args["text"], place=self.place(before))
        if all(isinstance(e, nodes.PatternRepeat) and e.args["low"] == 0 for e in every):
            raise SqlError("SQL182.matches_nothing", place=self.place(node))

    def _check_bounds(self, repeat: nodes.PatternRepeat) -> None:
        low, high, place = repeat.args["low"], repeat.args["high"], self.place(repeat)
        if high >= 0 and (high < low or high == 0):
            raise SqlError("SQL182.impossible_bounds", text=repeat.args["text"], place=place)
        if max(low, high) > 2**31 - 1:
            raise SqlError("SQL182.impossible_bounds", text=repeat.args["text"], place=place)
        if (low, high) == (0, 1) and repeat.args.get("reluctant"):
            raise not_supported(f"'{repeat.args['text']}', a reluctant optional variable,", place)

    # AFTER MATCH SKIP, WITHIN

    def _after(self, node: exp.Expr | None) -> Rex:
        strategy = "TO NEXT ROW" if node is None else node.args["kind"]
        if node is None or strategy in ("TO NEXT ROW", "PAST LAST ROW"):
            value = _NEXT_ROW if strategy == "TO NEXT ROW" else _PAST_LAST
            return Literal(_SYMBOL, value, "MATCH_RECOGNIZE_AFTER_OPTION")
        target = node.this
        self._check_variable(target)
        name = "$SKIP TO FIRST$1" if strategy == "TO FIRST" else "$SKIP TO LAST$1"
        return Call(_NULL, (_variable(target.name),), internal_name=name, syntax="PREFIX")

    def _check_variable(self, node: exp.Expr) -> None:
        if node.name not in self.variables:
            hint, expected = nearest(node.name, self.variables), ", ".join(self.variables)
            raise SqlError("SQL183", name=node.name, place=self.place(node), expected=expected, hint=hint)

    def _within(self, node: exp.Expr | None) -> Rex | None:
        if node is None:
            return None
        if isinstance(node, exp.Neg):
            raise SqlError("SQL184.interval", place=self.place(node), expected="an interval above zero")
        rex = ExpressionBinder(Scope(self.source), "WITHIN").bind(node)
        if rex.type.root != "INTERVAL_DAY_TIME" or not isinstance(rex, Literal):
            unsupported_clause = f"WITHIN an interval of type {rex.type.summary()}"
            raise not_supported(unsupported_clause, self.place(node), "an interval of days or smaller units")
        if int(rex.value) < 0:
            raise SqlError("SQL184.interval", place=self.place(node), expected="an interval above zero")
        if int(rex.value) == 0:
            raise SqlError("SQL184.interval", place=self.place(node))
        return rex

    # DEFINE, MEASURES

    def _defines(self, variables: Sequence[nodes.MatchVariable]) -> list[tuple[str, Rex]]:
        out: dict[str, Rex] = {}
        for define in variables:
            name = define.this.name
            self._check_variable(define.this)
            if name in out:
                raise SqlError("SQL183.defined_twice", name=name, place=self.place(define.this))
            out[name] = _flat(self._binder("DEFINE", name).condition(define.expression, "DEFINE"))
        return list(out.items())

    def _measures(self, items: Sequence[exp.Expr], partition: Sequence[int]) -> list[tuple[str, Rex]]:
        names_in_use = [self.rel.fields[k][0] for k in partition]
        out: list[tuple[str, Rex]] = []
        for measure in items:
            name = measure.args["alias"].name
            if name in (*names_in_use, *(n for n, _ in out)):
                raise SqlError("SQL184.repeated_column", name=name, place=self.place(measure.args["alias"]))
            rex = _flat(self._binder("MEASURES").bind(measure.this))
            if rex.type.root == "NULL":
                raise SqlError("SQL109", place=self.place(measure.this))
            out.append((name, rex if kind(rex) == "FINAL" else _final(rex)))
        return out

    def _binder(self, clause: str, variable: str | None = None) -> MatchBinder:
        return MatchBinder(self.rel, self.variables, self.source, self.functions, clause, variable)


class MatchBinder(ExpressionBinder):
    """Binds expressions of MEASURES and DEFINE.

    Args:
        rel: the rows that are matched.
        variables: the variables of the pattern.
        source: the text that positions point into.
        functions: finds user-defined functions.
        clause: MEASURES or DEFINE, for messages.
        variable: the pattern variable that the condition belongs to; None in MEASURES.
    """

    def __init__(
        self,
        rel: Rel,
        variables: Sequence[str],
        source: str,
        functions: Functions | None,
        clause: str,
        variable: str | None,
    ) -> None:
        super().__init__(Scope.of_fields(source, rel.fields, functions), clause)
        self.rel, self.variables, self.variable = rel, variables, variable
        self._bare = False
        """Whether columns are taken as they are."""
        self._calls: tuple[str, ...] = ()
        """The navigations and aggregates that are open, the outermost first."""
        self._move: tuple[str, int] | None = None
        """The navigation of each operand that is bound next."""

    def bind(self, node: exp.Expr) -> Rex:
        move, self._move = self._move, None
        if move is None:
            return super().bind(node)
        bound = super().bind(node)
        if bound.type.root == "NULL":
            raise SqlError("SQL109", place=self.place(node))
        self._move = move
        if move[0] in _PHYSICAL and isinstance(bare(node), exp.Column):
            return bound
        return _navigation(move, bound)

    @contextmanager
    def _within(self, name: str, is_bare: bool) -> Iterator[None]:
        """While the operands of a navigation or an aggregate are bound."""
        before = self._bare, self._calls, self._move
        self._bare, self._calls, self._move = self._bare or is_bare, (*self._calls, name), None
        try:
            yield
        finally:
            self._bare, self._calls, self._move = before

    def _binary(self, operator: str, node: exp.Expr) -> Rex:
        if operator in ("AND", "OR"):
            return make_call(operator, [self.bind(node.this), self.bind(node.expression)], self.place(node))
        return super()._binary(operator, node)

    # columns

    def _reference(self, node: exp.Expr) -> Rex:
        parts: list[exp.Expr] = [p for p in (node.args.get(k) for k in ("catalog", "db", "table", "this")) if p]
        if isinstance(node.this, exp.Star):
            raise SqlError("SQL106.star_in_expression", place=self.place(node))
        alpha = ANY_VARIABLE
        if len(parts) > 1 and parts[0].name in self.variables:
            alpha, parts = parts[0].name, parts[1:]
        elif len(parts) > 1 and parts[0].name not in [n for n, _ in self.rel.fields]:
            hint, variable_names = nearest(parts[0].name, self.variables), ", ".join(self.variables)
            raise SqlError("SQL183", name=parts[0].name, place=self.place(parts[0]), expected=variable_names, hint=hint)
        column = self.scope.find(parts[0].name, self.place(parts[0]))
        reference = self._navigated(
            PatternInputRef(column.type, alpha, column.index if isinstance(column, InputRef) else 0)
        )
        for part in parts[1:]:
            reference = field_of(reference, part.name, self.place(part))
        return reference

    def _navigated(self, ref: PatternInputRef) -> Rex:
        """A column; in DEFINE that of the row itself, or of the last row of another variable."""
        if self.variable is None or self._bare:
            return ref
        return _navigation(("PREV" if ref.alpha == self.variable else "LAST", 0), ref)

    # calls

    def _modifier(self, node: exp.Expr) -> Rex:
        word = node.args["kind"]
        if self.variable is not None:
            raise SqlError("SQL184.modifier_in_define", word=word, place=self.place(node))
        if word == "RUNNING":
            raise not_supported("RUNNING in MEASURES", self.place(node), "with ONE ROW PER MATCH all values are FINAL")
        return _final(self.bind(node.this))

    def _function_call(self, node: exp.Expr) -> Rex:
        name = function_name(node)
        if user_function(node, self.place(node), self.scope.functions) is not None:
            raise not_supported("a Python function in MATCH_RECOGNIZE", self.place(node))
        if name in ("CLASSIFIER", "MATCH_NUMBER"):
            raise not_supported(name, self.place(node))
        if name in (*_LOGICAL, *_PHYSICAL):
            return self._navigation_call(name, node)
        if name == "MATCH_PROCTIME":
            self._no_arguments(name, node)
            return Call(_PROCTIME, (), "$MATCH_PROCTIME$1")
        if name == "MATCH_ROWTIME":
            return self._rowtime(node)
        return self._call(node)

    def _no_arguments(self, name: str, node: exp.Expr) -> None:
        if node.expressions:
            raise SqlError("SQL202.takes", name=name, what="no arguments here", place=self.place(node))

    def _rowtime(self, node: exp.Expr) -> Rex:
        if self.variable is not None:
            raise not_supported("MATCH_ROWTIME in DEFINE", self.place(node))
        if not node.expressions:
            return Call(_ROWTIME, (), "$MATCH_ROWTIME$1")
        if len(node.expressions) > 1:
            raise SqlError("SQL202.takes", name="MATCH_ROWTIME", what="one argument here", place=self.place(node))
        argument = self.bind(node.expressions[0])
        if argument.type.kind != "ROWTIME" or not isinstance(argument, PatternInputRef):
            raise SqlError(
                "SQL184",
                why="is not an event time attribute",
                name="MATCH_ROWTIME",
                place=self.place(node.expressions[0]),
            )
        return Call(argument.type, (argument,), "$MATCH_ROWTIME$1")

    def _navigation_call(self, name: str, node: exp.Expr) -> Rex:
        arguments, place = list(node.expressions), self.place(node)
        if name in _PHYSICAL and self.variable is None:
            raise not_supported(f"{name} in MEASURES", place, "LAST(A.x, n) counts rows of a variable")
        if not 1 <= len(arguments) <= 2:
            raise SqlError("SQL184.navigation_arguments", name=name, place=place)
        offset = 0 if name in _LOGICAL else 1
        if len(arguments) == 2:
            number = arguments[1]
            if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
                raise SqlError("SQL184", name=name, why="is not a number of rows", place=self.place(number))
            offset = int(number.name)
        if name in _PHYSICAL and offset:
            raise not_supported(f"{name} of another row", place, "LAST(A.x, 1) is the row of A before the last one")
        inner = bare(arguments[0])
        if any(c in (*_LOGICAL, *_PHYSICAL) for c in self._calls) or (self._bare and name in _PHYSICAL):
            raise SqlError("SQL184.nested", name=name, place=place)
        if name == "PREV" and isinstance(inner, exp.Column):
            return self._reference(inner)
        self._check_argument(name, inner, place)
        with self._within(name, name in _LOGICAL):
            return self._navigate((name, offset), inner)

    def _navigate(self, move: tuple[str, int], inner: exp.Expr) -> Rex:
        """The navigation of a column; of a call, of each of its operands."""
        if is_constant(inner):
            return self.bind(inner)
        if isinstance(inner, exp.Column):
            return _navigation(move, self.bind(inner))
        if isinstance(inner, exp.Not) and isinstance(inner.this, (exp.Between, exp.Like, exp.SimilarTo)):
            return make_call("NOT", [self._navigate(move, inner.this)], self.place(inner))
        indivisible_call = indivisible_name(inner)
        if indivisible_call is not None:
            raise not_supported(
                f"{move[0]} around {indivisible_call}", self.place(inner), f"write {move[0]} around the columns"
            )
        self._move = move
        return super().bind(inner)

    def _check_argument(self, name: str, node: exp.Expr, place: Place) -> None:
        """Raises SqlError SQL184, where Flink does not see columns of just one variable."""
        argument_variables = taken_for_variables(node, self.variables)
        columns = [v for v in argument_variables if v in (*self.variables, ANY_VARIABLE)]
        if len(columns) > 1:
            raise SqlError("SQL184.several_variables", name=name, variables=" and ".join(columns), place=place)
        if len(argument_variables) > 1:
            constant = next(v for v in argument_variables if v not in columns)
            why = f"has the constant {constant!r:.40} in front of another operand"
            expected = "constants at the end of a call, such as A.x + 1"
            raise SqlError("SQL184", name=name, why=why, place=place, expected=expected)
        if not argument_variables:
            raise SqlError("SQL184", name=name, why="has no column", place=place)

    def aggregate(self, call: exp.Expr, condition: exp.Expr | None, full_node: exp.Expr) -> Rex:
        name, place = function_name(call), self.place(full_node)
        if condition is not None:
            raise not_supported("FILTER in MATCH_RECOGNIZE", place)
        if self._calls:
            navigated = self._calls[-1] in (*_LOGICAL, *_PHYSICAL)
            raise SqlError("SQL184.nested" if navigated else "SQL108", name=name, place=place)
        if name in REFUSED_FUNCTIONS:
            raise not_supported(f"{name} in MATCH_RECOGNIZE", place, REFUSED_FUNCTIONS[name])
        arguments = list(call.expressions)
        if name.startswith("JSON_"):
            name, arguments = json_aggregate(name, arguments, self.place)
        function = find_aggregate(name)
        assert function is not None
        if ignores_nulls(call):
            raise not_supported("IGNORE NULLS in MATCH_RECOGNIZE", place)
        for argument in arguments:
            if isinstance(argument, exp.Distinct):
                raise not_supported("DISTINCT in MATCH_RECOGNIZE", place)
            if isinstance(argument, exp.Star) and name != "COUNT":
                raise SqlError("SQL106.star_argument", name=name, place=self.place(argument))
        if name == "COUNT" and len(arguments) != 1:
            raise SqlError("SQL202.takes", name=name, what="one argument here", place=place)
        if name == "COUNT" and isinstance(arguments[0], exp.Star):
            return Call(BIGINT.not_null(), (), "$COUNT$1", "FUNCTION_STAR")
        with self._within(name, name in OF_ROWS):
            operands = [self.bind(a) for a in arguments]
        operands = aggregate_operands(name, operands, False, place, [self.place(a) for a in arguments])
        used_variables = dict.fromkeys(e.alpha for o in operands for e in walk(o) if isinstance(e, PatternInputRef))
        if len(used_variables) > 1:
            raise SqlError("SQL184.several_variables", name=name, variables=" and ".join(used_variables), place=place)
        rex = aggregated(function, operands, place)
        if not used_variables:
            raise SqlError("SQL184", name=name, why="has no column", place=place)
        if name.startswith("JSON_"):
            for argument, operand in zip(arguments, operands, strict=True):
                if not operand.type.is_string:
                    type_name = operand.type.summary()
                    raise SqlError(
                        "SQL203.no_json", name=function_name(call), type=type_name, place=self.place(argument)
                    )
        return rex

    def _query(self, node: exp.Expr) -> Rex:
        raise not_supported("a query in MATCH_RECOGNIZE", self.place(node))

    _READERS: ClassVar = {
        **ExpressionBinder._READERS,  # noqa: SLF001 - of the base class
        exp.Column: _reference,
        exp.Anonymous: _function_call,
        nodes.MatchModifier: _modifier,
        exp.Subquery: _query,
        exp.Exists: _query,
    }


def _elements(node: exp.Expr) -> Sequence[exp.Expr]:
    """The variables and repetitions of a pattern, in order."""
    if isinstance(node, exp.Paren):
        return _elements(node.this)
    if isinstance(node, nodes.PatternSequence):
        return [e for part in node.expressions for e in _elements(part)]
    return [node]


def _is_greedy(repeat: nodes.PatternRepeat) -> bool:
    """Whether Flink's pattern is greedy: one that is optional or of a fixed number is not, as it is written."""
    low, high = repeat.args["low"], repeat.args["high"]
    return not repeat.args.get("reluctant") and (low, high) != (0, 1) and low != high


def _variable(name: str) -> Literal:
    return Literal(LogicalType("CHAR", False, length=len(name.encode("utf-16-le")) // 2), name)


def _final(rex: Rex) -> Rex:
    return Call(rex.type, (rex,), "$FINAL$1", "PREFIX")


def _navigation(move: tuple[str, int], rex: Rex) -> Rex:
    name, offset = move
    return Call(rex.type, (rex, Literal(_INT, offset)), f"${name}$1")


def _flat(rex: Rex) -> Rex:
    """``rex`` without AND in AND and OR in OR, and with a cast of each value of a CASE that is of another type than the
    CASE, even where only NOT NULL differs."""
    if not isinstance(rex, Call):
        return rex
    operands = [_flat(o) for o in rex.operands]
    if rex.name == "CASE":
        last = len(operands) - 1
        operands = [_value(o, rex.type) if i % 2 or i == last else o for i, o in enumerate(operands)]
    if rex.name in ("AND", "OR"):
        operands = [p for o in operands for p in (o.children if kind(o) == rex.name else (o,))]
    return Call(rex.type, tuple(operands), rex.internal_name, rex.syntax, rex.system_name, rex.catalog_name)


def _value(rex: Rex, of: LogicalType) -> Rex:
    if isinstance(rex, Literal) or rex.type == of:
        return rex
    is_cast = isinstance(rex, Call) and rex.name == "CAST" and same_type(rex.type, of)
    return call("CAST", rex.children if is_cast else (rex,), of)
