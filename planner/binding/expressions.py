"""Expressions: from syntax trees to row expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import BOOLEAN, LogicalType
from stateplan.functions.aggregates import aggregate_names, is_aggregate
from stateplan.functions.arithmetic import datetime_difference
from stateplan.functions.builder import make_call, make_in
from stateplan.functions.casting import cast_rex
from stateplan.functions.collection import row_item
from stateplan.functions.literals import (
    binary_literal,
    boolean_literal,
    date_literal,
    interval_literal,
    interval_type,
    null_literal,
    number_literal,
    string_literal,
    time_literal,
    timestamp_literal,
    trim_flag,
    unit_literal,
)
from stateplan.functions.rex import Literal, Rex
from stateplan.functions.table import find_scalar, names, unknown_function
from stateplan.planner.binding.json_calls import JSON_CALLS, bind_json_call
from stateplan.planner.binding.over import WINDOW_ONLY, bind_over
from stateplan.planner.binding.scope import Scope, field_of
from stateplan.planner.binding.subqueries import exists, in_query, quantified, scalar_query
from stateplan.planner.binding.user_functions import fitted, is_aggregate_call, user_function
from stateplan.planner.catalog.functions import FoundFunction, Functions, require_kind
from stateplan.planner.dialect import function_name, logical_type, nodes
from stateplan.planner.expressions.approximate import Approximate
from stateplan.planner.expressions.ops import and_, compare
from stateplan.planner.positions import bare, not_supported, place_of, text_of

OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.Like: "LIKE",
    exp.SimilarTo: "SIMILAR TO",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
"""The names of operators with two operands."""
_TYPED_LITERALS = {"DATE": date_literal, "TIME": time_literal, "TIMESTAMP": timestamp_literal}


class ExpressionBinder:
    """Binds expressions over ``scope``.

    Args:
        scope: what column names mean.
        place_name: the clause, for the message about an aggregate that cannot appear in it.
        windows: whether OVER may be used.
    """

    grouped: ClassVar[bool] = False
    """Whether it binds over groups."""

    def __init__(
        self,
        scope: Scope,
        place_name: str = "an expression",
        *,
        windows: bool = False,
        named_windows: dict[str, exp.Expr] | None = None,
    ) -> None:
        self.scope = scope
        self.place_name = place_name
        self.windows = windows
        self.named_windows = named_windows or {}

    @property
    def source(self) -> str:
        return self.scope.source

    def place(self, node: exp.Expr) -> Place:
        return place_of(node, self.source)

    def bind(self, node: exp.Expr) -> Rex:
        """The row expression of ``node``.

        Raises:
            SqlError: SQL100 to SQL106 for names, SQL150 for what is not supported yet, SQL2xx for functions, types and
                constants; each with its place.
        """
        operator = OPERATORS.get(type(node))
        if operator is not None:
            return self._binary(operator, node)
        reader = self._READERS.get(type(node))
        if reader is None:
            raise not_supported(f"'{text_of(node, self.source) or type(node).__name__:.60}'", self.place(node))
        return reader(self, node)

    def condition(self, node: exp.Expr, clause: str) -> Rex:
        """``node`` as a condition. Raises SqlError SQL103 when it is not BOOLEAN."""
        rex = self.bind(node)
        if rex.type.root == "NULL":
            return Literal(BOOLEAN, None)
        if rex.type.root != "BOOLEAN":
            raise SqlError("SQL103", clause=clause, type=rex.type.summary(), place=self.place(node))
        return rex

    def _binary(self, operator: str, node: exp.Expr) -> Rex:
        if operator in ("AND", "OR"):
            operands = [self.bind(n) for n in _flat(node, type(node))]
        else:
            if isinstance(node.expression, (exp.Any, exp.All)):
                return quantified(self, operator, node)
            left, right = _row(node.this), _row(node.expression)
            if left is not None and right is not None and operator != "<>":
                return self._rows(operator, left, right, self.place(node))
            operands = [self.bind(node.this), self.bind(node.expression)]
        return make_call(operator, operands, self.place(node))

    def _rows(self, operator: str, left: Sequence[exp.Expr], right: Sequence[exp.Expr], place: Place) -> Rex:
        """``(a, b) = ROW(c, d)`` as ``a = c AND b = d``."""
        if operator != "=":
            raise not_supported(f"a comparison of rows with {operator}", place)
        if len(left) != len(right):
            raise SqlError("SQL106", left=left, right=right, place=place)
        pairs = [(self.bind(a), self.bind(b)) for a, b in zip(left, right, strict=True)]
        for pair in pairs:
            make_call("=", pair, place)
        return and_(compare("=", a, b) for a, b in pairs)

    # names and constants

    def _column(self, node: exp.Expr) -> Rex:
        if isinstance(node.this, exp.Star):
            raise SqlError("SQL106.star_in_expression", place=self.place(node))
        return self.scope.column(node)

    def _dot(self, node: exp.Expr) -> Rex:
        return field_of(self.bind(node.this), node.expression.name, self.place(node.expression))

    def _star(self, node: exp.Expr) -> Rex:
        raise SqlError("SQL106.star_in_expression", place=self.place(node))

    def _literal(self, node: exp.Expr) -> Rex:
        return string_literal(node.name) if node.args.get("is_string") else _number(node.name, self.place(node))

    def _typed_literal(self, node: exp.Expr) -> Rex:
        return _TYPED_LITERALS[node.args["kind"]](node.this.name, self.place(node))

    def _interval(self, node: exp.Expr) -> Rex:
        unit = node.args["unit"].name.upper()
        start, _, end = unit.partition(" TO ")
        start, precision, fraction = _precision(start)
        return interval_literal(
            node.this.name, start, _precision(end)[0] or None, precision, fraction, self.place(node)
        )

    def _difference(self, node: exp.Expr) -> Rex:
        start, _, end = node.args["unit"].name.partition(" TO ")
        start, precision, fraction = _precision(start)
        interval = interval_type(start, _precision(end)[0] or None, precision, fraction)
        minus = node.this.this
        return datetime_difference(self.bind(minus.this), self.bind(minus.expression), interval, self.place(node))

    def _var(self, node: exp.Expr) -> Rex:
        if node.name.upper() == "UNKNOWN":
            return Literal(BOOLEAN, None)
        raise not_supported(f"'{node.name}'", self.place(node))

    def _negative(self, node: exp.Expr) -> Rex:
        inner = bare(node.this)
        if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
            return _number("-" + inner.name, self.place(node))
        return make_call("NEGATE", [self.bind(node.this)], self.place(node))

    # predicates

    def _not(self, node: exp.Expr) -> Rex:
        inner = node.this
        if isinstance(inner, exp.Is) and not nodes.is_json(inner):
            return self._is(inner, negated=True)
        return make_call("NOT", [self.bind(inner)], self.place(node))

    def _is(self, node: exp.Expr, negated: bool = False) -> Rex:
        predicate = node.expression
        word = {exp.Null: "NULL", exp.Boolean: "TRUE" if predicate.args.get("this") else "FALSE"}.get(
            type(predicate), predicate.name
        )
        operand = self.bind(node.this)
        name = f"IS {'NOT ' if negated else ''}{word}"
        return make_call(name, [operand], self.place(node))

    def _between(self, node: exp.Expr) -> Rex:
        name = "BETWEEN SYMMETRIC" if node.args.get("symmetric") else "BETWEEN"
        return make_call(name, [self.bind(node.args[k]) for k in ("this", "low", "high")], self.place(node))

    def _in(self, node: exp.Expr) -> Rex:
        if node.args.get("query") is not None:
            return in_query(self, node.this, node.args["query"])
        row = _row(node.this)
        if row is not None and (isinstance(node.this, exp.Tuple) or all(_row(e) for e in node.expressions)):
            return self._row_in(row, node.expressions, self.place(node))
        return make_in(self.bind(node.this), [self.bind(e) for e in node.expressions], self.place(node))

    def _row_in(self, row: Sequence[exp.Expr], items: Sequence[exp.Expr], place: Place) -> Rex:
        """``(a, b) IN ((1, 2), ROW(3, 4))``: any item whose values are all equal."""
        values = [self.bind(e) for e in row]
        tests: list[Rex] = []
        for item in items:
            item_values = _row(item)
            if item_values is None or len(item_values) != len(values):
                raise not_supported(
                    "IN with rows and other values", self.place(item), f"rows of {len(values)} values on the right"
                )
            pairs = zip(values, item_values, strict=True)
            tests.append(make_call("AND", [make_in(v, [self.bind(e)], self.place(e)) for v, e in pairs], place))
        return tests[0] if len(tests) == 1 else make_call("OR", tests, place)

    def _overlaps(self, node: exp.Expr) -> Rex:
        ends: list[Rex] = []
        for period in (node.this, node.expression):
            if not isinstance(period, exp.Tuple) or len(period.expressions) != 2:
                raise SqlError("SQL203.no_period", given=text_of(period, self.source), place=self.place(period))
            ends += [self.bind(e) for e in period.expressions]
        return make_call("OVERLAPS", ends, self.place(node))

    def _escape(self, node: exp.Expr) -> Rex:
        like = node.this
        operands = [self.bind(like.this), self.bind(like.expression), self.bind(node.expression)]
        return make_call(OPERATORS[type(like)], operands, self.place(like))

    def _case(self, node: exp.Expr) -> Rex:
        subject = None if node.this is None else self.bind(node.this)
        operands: list[Rex] = []
        for branch in node.args["ifs"]:
            operands.append(self._when(subject, branch.this))
            operands.append(self.bind(branch.args["true"]))
        default = node.args.get("default")
        operands.append(null_literal() if default is None else self.bind(default))
        return make_call("CASE", operands, self.place(node))

    def _when(self, subject: Rex | None, node: exp.Expr) -> Rex:
        if subject is None:
            return self.condition(node, "WHEN")
        choices = node.expressions if isinstance(node, exp.Tuple) else [node]
        tests = [make_call("=", [subject, self.bind(c)], self.place(c)) for c in choices]
        return tests[0] if len(tests) == 1 else make_call("OR", tests, self.place(node))

    # casts, access, subqueries

    def _cast(self, node: exp.Expr) -> Rex:
        target = logical_type(node.args["to"])
        return cast_rex(self.bind(node.this), target, self.place(node), try_cast=isinstance(node, exp.TryCast))

    def _bracket(self, node: exp.Expr) -> Rex:
        container, index, place = self.bind(node.this), self.bind(node.expressions[0]), self.place(node)
        item = make_call("ITEM", [container, index], place)
        # Flink makes an access of a position in a ROW, and leaves that of a name.
        by_position = container.type.root == "ROW" and index.type.is_integer
        return field_of(container, row_item(container.type, index).name, place) if by_position else item

    def _tuple(self, node: exp.Expr) -> Rex:
        return make_call("ROW", [self.bind(e) for e in node.expressions], self.place(node))

    # calls

    def _call(self, node: exp.Expr) -> Rex:
        name = function_name(node)
        place = self.place(node)
        user = user_function(node, place, self.scope.functions)
        if user is not None:
            if user.function.kind == "AGGREGATE":
                return self.aggregate(node, None, node)
            return self._user_call(user, node, place)
        if is_aggregate(name):
            return self.aggregate(node, None, node)
        if name in WINDOW_ONLY:
            raise SqlError("SQL105", what=name, part="an OVER clause", place=place)
        if find_scalar(name) is None:
            raise unknown_function(name, [*names(), *aggregate_names()], place)
        if name in JSON_CALLS:
            return bind_json_call(self, name, node)
        if name == "JSON":
            raise SqlError("SQL201", name=name, reason=_INSIDE_JSON, place=place)
        arguments = node.expressions
        for a in arguments:
            if isinstance(a, exp.Star):
                raise SqlError("SQL106.star_argument", name=name, place=self.place(a))
            if isinstance(a, exp.Distinct):
                raise SqlError("SQL106.distinct_of_scalar", name=name, place=self.place(a))
            if isinstance(a, (exp.Kwarg, nodes.TableArgument)):
                raise not_supported("a named or table argument", self.place(a))
        return make_call(name, self._arguments(name, arguments), place)

    def _user_call(self, user: FoundFunction, node: exp.Expr, place: Place) -> Rex:
        require_kind(user, "SCALAR", place, f"in {self.place_name}")
        return user.call(self.user_operands(user, node, place))

    def user_operands(self, user: FoundFunction, node: exp.Expr, place: Place) -> list[Rex]:
        """The operands of a call of a user-defined function, cast to the types it was declared with."""
        for a in node.expressions:
            if isinstance(a, (exp.Star, exp.Distinct, exp.Kwarg, nodes.TableArgument)):
                raise SqlError("SQL106.takes_values", name=user.function.name, place=self.place(a))
        return fitted(user, [self.bind(a) for a in node.expressions], place)

    def _arguments(self, name: str, arguments: Sequence[exp.Expr]) -> list[Rex]:
        bound = [self._argument(name, a) for a in arguments]
        if name == "TRIM" and len(bound) == 1:
            return [trim_flag("BOTH"), string_literal(" "), bound[0]]
        return bound

    def _argument(self, name: str, node: exp.Expr) -> Rex:
        if isinstance(node, exp.Var):
            if name == "TRIM":
                return trim_flag(node.name)
            return unit_literal(node.name.removeprefix("SQL_TSI_"), self.place(node))
        return self.bind(node)

    def aggregate(self, call: exp.Expr, condition: exp.Expr | None, full_node: exp.Expr) -> Rex:
        """An aggregate call: an error here, as only a grouping has them."""
        name = function_name(call)
        raise SqlError(
            "SQL104", name=f"the aggregate function {name}", place_name=self.place_name, place=self.place(full_node)
        )

    def _filtered(self, node: exp.Expr) -> Rex:
        inner = node.this
        if not is_aggregate_call(inner, self.scope.functions):
            raise SqlError("SQL104.lone_filter", place=self.place(node))
        return self.aggregate(inner, node.expression.this, node)

    def _modified(self, node: exp.Expr) -> Rex:
        modifiers: dict[type[exp.Expr], str] = {
            exp.WithinGroup: "WITHIN GROUP",
            exp.IgnoreNulls: "IGNORE NULLS",
            exp.RespectNulls: "RESPECT NULLS",
        }
        raise not_supported(modifiers[type(node)], self.place(node))

    _READERS: ClassVar[dict[type[exp.Expr], Callable[..., Rex]]] = {
        exp.Column: _column,
        exp.Dot: _dot,
        exp.Star: _star,
        exp.Literal: _literal,
        nodes.TypedLiteral: _typed_literal,
        exp.Interval: _interval,
        nodes.Difference: _difference,
        exp.Var: _var,
        exp.Neg: _negative,
        exp.Null: lambda self, node: null_literal(),
        exp.Boolean: lambda self, node: boolean_literal(bool(node.args.get("this"))),
        exp.HexString: lambda self, node: binary_literal(node.name, self.place(node)),
        exp.Paren: lambda self, node: self.bind(node.this),
        exp.Alias: lambda self, node: self.bind(node.this),
        exp.Not: _not,
        exp.Is: _is,
        exp.Between: _between,
        exp.In: _in,
        exp.Overlaps: _overlaps,
        exp.Escape: _escape,
        exp.Case: _case,
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.Bracket: _bracket,
        exp.Subquery: lambda self, node: scalar_query(self, node),
        exp.Exists: lambda self, node: exists(self, node),
        exp.Tuple: _tuple,
        exp.Anonymous: _call,
        exp.Filter: _filtered,
        exp.WithinGroup: _modified,
        exp.IgnoreNulls: _modified,
        exp.RespectNulls: _modified,
        exp.Window: lambda self, node: bind_over(self, node),
    }


def _number(text: str, place: Place) -> Literal:
    literal = number_literal(text, place)
    return replace(literal, value=Approximate(literal.value)) if literal.type.root == "DOUBLE" else literal


def _row(node: exp.Expr) -> list[exp.Expr] | None:
    """The values of ``(a, b)`` or ``ROW(a, b)``; None for another expression."""
    node = bare(node)
    if isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and function_name(node) == "ROW"):
        return list(node.expressions)
    return None


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    out: list[exp.Expr] = []
    stack = [node]
    while stack:
        n = stack.pop()
        if type(n) is kind:
            stack += [n.expression, n.this]
        else:
            out.append(n)
    return out


_INSIDE_JSON = "Flink allows it only as an argument of JSON_OBJECT and JSON_ARRAY"


def _precision(unit: str) -> tuple[str, int | None, int | None]:
    name, _, rest = unit.strip().partition("(")
    if not rest:
        return name.strip(), None, None
    numbers = [int(n) for n in rest.rstrip(") ").split(",")]
    return name.strip(), numbers[0], numbers[1] if len(numbers) > 1 else None


def bind_expression(
    ast: exp.Expr, fields: Sequence[tuple[str, LogicalType]], source: str, functions: Functions | None = None
) -> Rex:
    """The row expression of ``ast`` over a row with these fields.

    Args:
        ast: an expression as the dialect parses it.
        fields: name and type of what column names may mean; a reference is its position here.
        source: the text that the positions of ``ast`` point into.
        functions: finds user-defined functions.

    Raises:
        SqlError: SQL100 (no such column), SQL101 (ambiguous), SQL104 and SQL105 (aggregate or window function), SQL150,
            SQL2xx (functions, types, constants), each with its place.
    """
    return ExpressionBinder(Scope.of_fields(source, list(fields), functions), "an expression").bind(ast)
