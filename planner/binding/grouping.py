"""GROUP BY and aggregate functions: the projection below the aggregate, the aggregate, and what is above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.aggregates import find_aggregate
from stateplan.functions.builder import make_call
from stateplan.functions.rex import FieldAccess, InputRef, Literal, Rex
from stateplan.functions.table import unknown_function
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.groupings import Grouping
from stateplan.planner.algebra.relations import AggCall, Project, Rel, is_identity, unique_names
from stateplan.planner.algebra.windows import GroupWindowAggregate, group_window_properties
from stateplan.planner.binding.aggregate_operands import aggregate_operands, json_aggregate
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.group_windows import (
    PROPERTIES,
    GroupWindow,
    group_window,
    property_function,
    window_property,
)
from stateplan.planner.binding.grouping_sets import GROUPING_FUNCTIONS, aggregated, key_sets
from stateplan.planner.binding.scope import Scope
from stateplan.planner.binding.user_functions import fitted, is_aggregate_call, user_function
from stateplan.planner.catalog.functions import FoundFunction, Functions, require_kind
from stateplan.planner.dialect import function_name, to_sql
from stateplan.planner.dialect.calls import ignores_nulls
from stateplan.planner.expressions.normal import equal
from stateplan.planner.expressions.ops import call as rex_call
from stateplan.planner.expressions.ops import cast, kind
from stateplan.planner.positions import bare, not_supported, place_of, text_of


def contains_aggregate(node: exp.Expr, functions: Functions | None) -> bool:
    """Whether an aggregate function is called in ``node``, outside of OVER and of subqueries."""
    if isinstance(node, (exp.Subquery, exp.Exists, exp.Select)):
        return False
    if isinstance(node, exp.Window):
        inner = node.this
        parts = [
            *(inner.expressions if isinstance(inner, exp.Anonymous) else []),
            *(node.args.get("partition_by") or ()),
            *([node.args["order"]] if node.args.get("order") is not None else []),
        ]
        return any(contains_aggregate(p, functions) for p in parts)
    if is_aggregate_call(node, functions):
        return True
    return any(contains_aggregate(child, functions) for child in node.iter_expressions())


@dataclass
class _Input:
    """The projection below the aggregate, as it grows. ``window`` is the place of the time that windows are made of: it
    is a field of its own, since calls read the time as a timestamp."""

    exprs: list[Rex] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    window: int | None = None

    def add(self, rex: Rex, name: str | None = None) -> int:
        for i, e in enumerate(self.exprs):
            if i != self.window and equal(e, rex) and e.type == rex.type:
                return i
        self.exprs.append(rex)
        self.names.append(name)
        return len(self.exprs) - 1


class GroupingBinder(ExpressionBinder):
    """Binds the expressions of a grouped SELECT: over its group keys and aggregate calls.

    Args:
        rel: what is grouped.
        scope: its columns.
        group: the GROUP BY; None for none at all (one group).
        aliases: output name by select item, to name keys and calls.
    """

    grouped = True

    def __init__(
        self,
        rel: Rel,
        scope: Scope,
        group: exp.Expr | None,
        named_windows: dict[str, exp.Expr],
    ) -> None:
        super().__init__(scope, "this clause", windows=True, named_windows=named_windows)
        self.rel = rel
        self.input = _Input()
        self.calls: list[AggCall] = []
        self._positions: dict[AggCall, int] = {}
        self.names: list[tuple[str, Rex | AggCall]] = []
        self.base = ExpressionBinder(scope, "GROUP BY")
        self.inside = _Inside(scope)
        self.keys: list[Rex] = []
        self.window: GroupWindow | None = None
        self.tells = False
        self.sets: list[tuple[int, ...]] = [()] if group is None else key_sets(group, self._key)
        self.group_count = len(self.input.exprs)
        self._current: str | None = None

    def _key(self, node: exp.Expr) -> int:
        if contains_aggregate(node, self.scope.functions):
            raise SqlError("SQL104", name="an aggregate function", place_name="GROUP BY", place=self.place(node))
        window = group_window(node, self.base)
        if window is not None:
            return self._windowed(window)
        rex = self.base.bind(node)
        self.keys.append(rex)
        return self.input.add(rex)

    def _windowed(self, window: GroupWindow) -> int:
        """The key that a window is: its time attribute."""
        if self.window is not None:
            raise window.call.wrong("there is a second window in this GROUP BY", None, "one window")
        self.window = window
        self.input.exprs.append(window.time)
        self.input.names.append(None)
        window.key = self.input.window = len(self.input.exprs) - 1
        return window.key

    def _property_of_window(self, node: exp.Expr) -> Rex | None:
        """The property of the window that a function such as TUMBLE_START returns; None for other expressions."""
        number_and_type = window_property(node, self.base, self.window)
        if number_and_type is None or self.window is None:
            return None
        self.tells = True
        number, property_type = number_and_type
        ref = InputRef(property_type, self.group_count + number)
        certain = property_type.kind is not None and not self.window.time.type.nullable
        return cast(ref, property_type.not_null()) if certain else ref

    @property
    def _properties(self) -> int:
        """The number of fields with properties of the window; they are between keys and calls."""
        return 0 if self.window is None else len(group_window_properties(self.window.time.type))

    def key_ref(self, position: int) -> InputRef:
        """A key above the aggregate: NULL if a set of keys does not have it."""
        optional = any(position not in keys for keys in self.sets)
        t = self.input.exprs[position].type
        return InputRef(t.as_nullable() if optional else t, position)

    # binding above the aggregate

    def select_item(self, node: exp.Expr, name: str) -> Rex:
        """Binds a select item whose output is called ``name``: a key or call that it is takes the name."""
        inner = node.this if isinstance(node, exp.Alias) else node
        rex = self.bind(inner)
        if isinstance(rex, InputRef):
            if rex.index < self.group_count:
                if not isinstance(inner, exp.Column) or _is_part_of_column(self.input.exprs[rex.index]):
                    self.input.names[rex.index] = name
            elif self._is_call(inner) and rex.index >= self._position(0):
                position = rex.index - self._position(0)
                if self._may_share_name(position, inner):
                    self.calls[position] = replace(self.calls[position], name=name)
        return rex

    @staticmethod
    def _is_call(node: exp.Expr) -> bool:
        node = bare(node)
        return isinstance(node, (exp.Anonymous, exp.Filter))

    def _may_share_name(self, position: int, node: exp.Expr) -> bool:
        """Whether the call may take this item's name: it has none, or was written in the same words."""
        words = to_sql(node)
        first = self._words.setdefault(position, words)
        return self.calls[position].name is None or first == words

    @property
    def _words(self) -> dict[int, str]:
        words: dict[int, str] = self.__dict__.setdefault("_call_words", {})
        return words

    def bind(self, node: exp.Expr) -> Rex:
        inner = node
        while isinstance(inner, (exp.Paren, exp.Alias)):
            inner = inner.this
        if isinstance(inner, (exp.Anonymous, exp.Filter)) and self._aggregate_ahead(inner):
            return super().bind(inner)
        window_value = self._property_of_window(inner)
        if window_value is not None:
            return window_value
        if not contains_aggregate(inner, self.scope.functions) and not _has_window(inner) and not _has_property(inner):
            rex = self.base.bind(inner)
            for i, key in enumerate(self.input.exprs[: self.group_count]):
                if equal(key, rex) and (self.window is None or i != self.window.key):
                    return self.key_ref(i)
        if isinstance(owner(inner, exp.Dot, exp.Paren), exp.Column):
            raise SqlError(
                "SQL107", name=text_of(inner, self.source), place=self.place(inner), hint=self._position_hint()
            )
        return super().bind(inner)

    def _position_hint(self) -> str | None:
        numbers = (k for k in self.keys if isinstance(k, Literal) and k.type.root == "INTEGER")
        number = next(numbers, None)
        return None if number is None else f"GROUP BY {number.value} is the constant, not column {number.value}"

    def _aggregate_ahead(self, node: exp.Expr) -> bool:
        inner = node.this if isinstance(node, exp.Filter) else node
        return is_aggregate_call(inner, self.scope.functions)

    def aggregate(self, call: exp.Expr, condition: exp.Expr | None, full_node: exp.Expr) -> Rex:
        user = user_function(call, self.place(call), self.scope.functions)
        if user is not None:
            return self._user_aggregate(user, call, condition)
        name = function_name(call)
        function = find_aggregate(name)
        if function is None:
            raise unknown_function(name, [name], self.place(call))
        if name in GROUPING_FUNCTIONS:
            return self._grouping(name, call)
        arguments, distinct = list(call.expressions), False
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            arguments, distinct = arguments[0].expressions, True
        if name.startswith("JSON_"):
            name, arguments = json_aggregate(name, arguments, self.place)
            function = find_aggregate(name) or function
        distinct = distinct and name not in ("MIN", "MAX")
        star = len(arguments) == 1 and isinstance(arguments[0], exp.Star)
        if star and name != "COUNT":
            raise SqlError("SQL106.star_argument", name=name, place=self.place(arguments[0]))
        if name == "COUNT" and not arguments:
            raise SqlError("SQL106.count_arguments", place=self.place(call))
        if name == "COUNT" and len(arguments) > 1:
            raise SqlError(
                "SQL106.count_arguments",
                place=self.place(full_node),
                hint="COUNT(DISTINCT ROW(a, b)) counts different pairs" if distinct else None,
            )
        operands = [] if star else [self.inside.bind(a) for a in arguments]
        place = self.place(call)
        operands = aggregate_operands(name, operands, distinct, place, [self.place(a) for a in arguments])
        result = function.infer(
            [o.type for o in operands], place, grouped=self.group_count > 0, filtered=condition is not None
        )
        args = [self.input.add(o) for o in operands]
        if name == "COUNT" and not distinct:
            args = [a for a in args if self.input.exprs[a].type.nullable]
        aggregate_call = AggCall(
            function.plan_name,
            tuple(args),
            result,
            None,
            distinct,
            self._filter(condition),
            function.internal_name,
            "FUNCTION_STAR" if function.plan_name == "COUNT" else function.syntax,
            ignore_nulls=ignores_nulls(call),
        )
        return self._add(aggregate_call)

    def _filter(self, condition: exp.Expr | None) -> int:
        """The field that says which rows a call sees; -1 for all."""
        if condition is None:
            return -1
        rex = ExpressionBinder(self.scope, "FILTER").condition(condition, "FILTER")
        return self.input.add(make_call("IS TRUE", [rex]) if rex.type.nullable else rex)

    def _add(self, aggregate_call: AggCall) -> Rex:
        """A reference to the call, which is made once."""
        position = self._positions.setdefault(aggregate_call, len(self.calls))
        if position == len(self.calls):
            self.calls.append(aggregate_call)
        return InputRef(aggregate_call.type, self._position(position))

    def _user_aggregate(self, user: FoundFunction, call: exp.Expr, condition: exp.Expr | None) -> Rex:
        place = self.place(call)
        function = require_kind(user, "AGGREGATE", place, "as an aggregate")
        if not hasattr(function.instance(), "accumulate"):
            raise SqlError(
                "SQL212", name=function.name, kind_words="a function of all rows", clause="in GROUP BY", place=place
            )
        arguments = list(call.expressions)
        distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = arguments[0].expressions
            if len(arguments) != 1:
                raise not_supported(f"DISTINCT with {len(arguments)} operands of {function.name}", place)
        operands = fitted(user, [self.inside.bind(a) for a in arguments], place)
        args = tuple(self.input.add(o) for o in operands)
        return self._add(
            AggCall(
                function.name,
                args,
                function.result,
                None,
                distinct,
                self._filter(condition),
                system_name=user.system_name,
                catalog_name=user.catalog_name,
            )
        )

    def _grouping(self, name: str, call: exp.Expr) -> Rex:
        """GROUPING and the like: which keys the group of a row has."""
        args = []
        for node in call.expressions:
            rex = self.base.bind(node)
            position = next((i for i, k in enumerate(self.input.exprs[: self.group_count]) if equal(k, rex)), None)
            if position is None:
                raise SqlError("SQL107.argument", name=name, text_of=text_of(node, self.source), place=self.place(node))
            args.append(position)
        function = find_aggregate(name)
        assert function is not None
        result = function.infer([self.input.exprs[a].type for a in args], self.place(call))
        return self._add(AggCall(name, tuple(args), result))

    def _position(self, call: int) -> int:
        return self.group_count + self._properties + call

    # the relations

    def build(self, hint: InputHint | None, place: Place) -> Rel:
        """The aggregate over its projection, once all expressions are bound: its keys, then its calls."""
        below = self._projection()
        if self.window is not None:
            return self._of_windows(self.window, below, hint, place)
        return aggregated(below, self.group_count, self.sets, self.calls, hint, place)

    def _projection(self) -> Rel:
        """The keys and operands below the aggregate, without those that no call reads, such as the operand of COUNT(1).
        The other fields keep the numbers in their names (Calcite's ``RelBuilder``). Fields below a window are numbered
        anew (Flink's ``LogicalWindowAggregateRuleBase``). Where all fields are read as they are, a projection takes the
        names."""
        exprs, names = self.input.exprs, self.input.names
        if not exprs:
            return self.rel
        all_names = project_names(exprs, names, self.rel, through_casts=False)
        if self.window is None and is_identity(exprs, self.rel):
            return replace(self.rel, names=tuple(all_names)) if isinstance(self.rel, Project) else self.rel
        fields = {*range(self.group_count), *(a for c in self.calls for a in (*c.args, c.filter) if a >= 0)}
        places = {old: new for new, old in enumerate(sorted(fields))}
        self.calls = [
            replace(c, args=tuple(places[a] for a in c.args), filter=places.get(c.filter, -1)) for c in self.calls
        ]
        read = [exprs[i] for i in places]
        if not read:
            return self.rel
        if self.window is not None:
            all_names = project_names(read, [None] * len(read), self.rel, through_casts=False)
            return Project(self.rel, tuple(read), tuple(all_names))
        return Project(self.rel, tuple(read), tuple(all_names[i] for i in places))

    def _of_windows(self, window: GroupWindow, below: Rel, hint: InputHint | None, place: Place) -> Rel:
        """The aggregate by windows, and a projection to what expressions are bound over: keys, with the window in its
        place, properties of the window, and calls."""
        if self.sets != [tuple(range(self.group_count))]:
            raise not_supported("a window in GROUPING SETS, ROLLUP or CUBE", place)
        if any(c.is_user_defined for c in self.calls):
            raise not_supported(
                "a Python aggregate function over a window in GROUP BY",
                place,
                "group by window_start and window_end of TABLE(TUMBLE(TABLE t, ...))",
            )
        group = tuple(i for i in range(self.group_count) if i != window.key)
        # Without other keys there are no keys at all, as Flink sees it, so a result may be NULL.
        calls_of = self.calls if group else [replace(c, type=self._ungrouped(c, below)) for c in self.calls]
        aggregate = GroupWindowAggregate(
            below, group, tuple(calls_of), window.window, window.key, window.time.type, self.tells, place, hint
        )
        fields = aggregate.fields
        calls, first_property = len(group), len(group) + len(self.calls)

        def ref(i: int) -> Rex:
            return InputRef(fields[i][1], i)

        nobody = Literal(replace(window.time.type, kind=None, nullable=True), None)
        keys = [ref(group.index(i)) if i in group else nobody for i in range(self.group_count)]
        properties_of_window = group_window_properties(window.time.type)
        properties = [
            ref(first_property + i) if self.tells else Literal(t.as_nullable(), None)
            for i, (_, t) in enumerate(properties_of_window)
        ]
        results = [ref(calls + i) for i in range(len(self.calls))]
        pairs = zip(results, self.calls, strict=True)
        results = [r if r.type == c.type else rex_call("CAST", (r,), c.type) for r, c in pairs]
        exprs = (*keys, *properties, *results)
        names = [below.fields[i][0] for i in range(self.group_count)]
        names += [*(name for (name, _), _ in properties_of_window), *(n for n, _ in fields[calls:first_property])]
        functions = tuple(property_function(window.window.kind, kind) for (_, kind), _ in properties_of_window)
        at = window.key, window.as_call
        stands_for = Grouping(below, self.group_count, tuple(self.sets), tuple(self.calls), at, functions)
        return Project(aggregate, exprs, tuple(unique_names(names)), grouping=stands_for)

    @staticmethod
    def _ungrouped(c: AggCall, below: Rel) -> LogicalType:
        """The type of a call over all rows."""
        function = find_aggregate(c.function)
        if function is None or c.function == "COUNT":
            return c.type
        return function.infer([below.fields[a][1] for a in c.args], None, grouped=False, filtered=c.filter >= 0)


class _Inside(ExpressionBinder):
    """Operands of aggregate functions, which cannot hold another aggregate."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope, "an aggregate function")

    def aggregate(self, call: exp.Expr, condition: exp.Expr | None, full_node: exp.Expr) -> Rex:
        raise SqlError("SQL108", place=place_of(full_node, self.source))


def project_names(
    exprs: Sequence[Rex], names: Sequence[str | None], rel: Rel, *, through_casts: bool = True
) -> list[str]:
    """The names of the fields of a projection.

    A field without a name has the name of the field that it refers to, with ``through_casts`` also inside of CAST. Any
    other field is called ``$f`` and its position. A name that occurs again has a number behind it.
    """
    fields = rel.fields
    out = []
    for i, (e, n) in enumerate(zip(exprs, names, strict=True)):
        if n is None:
            inner = e
            while through_casts and kind(inner) == "CAST":
                inner = inner.children[0]
            n = fields[inner.index][0] if isinstance(inner, InputRef) else f"$f{i}"
        out.append(n)
    return unique_names(out)


def _has_property(node: exp.Expr) -> bool:
    """Whether ``node`` contains a property of a window in GROUP BY."""
    return any(function_name(call) in PROPERTIES for call in node.find_all(exp.Anonymous))


def _has_window(node: exp.Expr) -> bool:
    return node.find(exp.Window) is not None


def _is_part_of_column(key: Rex) -> bool:
    """Whether a key is a column, or a field of one."""
    while isinstance(key, FieldAccess) or kind(key) == "CAST":
        key = key.children[0]
    return isinstance(key, InputRef)


def owner(node: exp.Expr, *within: type[exp.Expr]) -> exp.Expr:
    """What a path of fields begins with: ``a`` of ``a.b.c``.

    Args:
        within: the classes of nodes to look into, ``exp.Dot`` among them; with ``exp.Paren``, ``(a.b).c`` begins
            with ``a`` too.
    """
    while isinstance(node, within):
        node = node.this
    return node
