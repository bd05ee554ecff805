"""Window functions: calls with an OVER clause.

Source: Calcite's ``SqlToRelConverter.convertOver`` and ``RexBuilder.makeOver``, which makes SUM of a count and a sum
that is 0 without values, and the ``AvgVarianceConvertlet`` of ``StandardConvertletTable``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from stateplan.common.errors import Place, SqlError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, LogicalType
from stateplan.functions.aggregates import VARIANCES, find_aggregate
from stateplan.functions.builder import make_call
from stateplan.functions.casting import cast_rex
from stateplan.functions.comparison import check_ordered
from stateplan.functions.literals import null_literal, number_literal
from stateplan.functions.rex import Literal, Rex
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.over_frames import CURRENT_ROW, DEFAULT, SO_FAR, WHOLE_PARTITION, Bound, Frame
from stateplan.planner.binding.aggregate_operands import aggregate_operands
from stateplan.planner.binding.scope import Binder
from stateplan.planner.binding.user_functions import fitted, user_function
from stateplan.planner.catalog.functions import FoundFunction, require_kind
from stateplan.planner.dialect import function_name
from stateplan.planner.dialect.calls import ignores_nulls
from stateplan.planner.expressions.ops import RANKING, Over, cast
from stateplan.planner.positions import not_supported

WINDOW_ONLY = (*RANKING, "LAG", "LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST", "NTH_VALUE")
"""Functions that need an OVER clause."""


@dataclass(frozen=True)
class _Window:
    """The window of a call; ``frame`` is None if none is written, ``ttl`` the lifetime of its state, ms."""

    partition: tuple[Rex, ...]
    order: tuple[tuple[Rex, bool, bool], ...]
    frame: Frame | None
    place: Place
    hint: InputHint | None

    @property
    def never_empty(self) -> bool:
        """Whether it is certain that a frame has a row: Calcite looks at frames without offsets only."""
        return self.frame is None or (self.frame.lower.offset is None and self.frame.upper.offset is None)

    def over(
        self, function: str, operands: Sequence[Rex], result: LogicalType, distinct: bool = False, rows: bool = False
    ) -> Over:
        frame = self.frame or (SO_FAR if rows else DEFAULT if self.order else WHOLE_PARTITION)
        keys = self.partition, self.order
        return Over(result, function, tuple(operands), *keys, distinct, frame, self.place, self.hint)


def bind_over(binder: Binder, node: exp.Expr) -> Rex:
    """The expression of a call with OVER.

    Raises:
        SqlError: SQL105 (no window function, no such window, a frame that makes no sense), SQL150, SQL162 (a function
            that no stream has), and what operands and functions raise.
    """
    place = binder.place(node)
    if not binder.windows:
        raise SqlError("SQL105.misplaced", place_name=binder.place_name, place=place)
    call = node.this
    if isinstance(call, (exp.IgnoreNulls, exp.RespectNulls)):
        raise not_supported("IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else "RESPECT NULLS", place)
    if not isinstance(call, exp.Anonymous):
        raise SqlError(
            "SQL105",
            what="OVER",
            part="a window function or an aggregate function in front of it",
            place=place,
            hint="FILTER and OVER do not go together: write SUM(CASE WHEN ... THEN a END) OVER (...)"
            if isinstance(call, exp.Filter)
            else None,
        )
    name = function_name(call)
    user = user_function(call, place, binder.scope.functions)
    if user is not None:
        return _user_aggregate(binder, user, call, _window(binder, node))
    if name in WINDOW_ONLY:
        return _window_function(binder, name, call, node)
    if find_aggregate(name) is None:
        raise SqlError("SQL105.refused_part", name=name, part="OVER", place=place)
    return _aggregate(binder, name, call, _window(binder, node))


def _window_function(binder: Binder, name: str, call: exp.Expr, node: exp.Expr) -> Rex:
    place = binder.place(node)
    if name not in (*RANKING, "LAG"):
        raise SqlError("SQL162", name=name, place=place, expected="LAG, ROW_NUMBER, or an aggregate function")
    window = _window(binder, node)
    if not window.order:
        raise SqlError("SQL105", what=name, part="ORDER BY in its OVER clause", place=place)
    if window.frame is not None:
        raise SqlError("SQL105.refused_part", name=name, part="ROWS or RANGE", place=place)
    if name in RANKING:
        if call.expressions:
            raise SqlError("SQL105.refused_part", name=name, part="arguments", place=binder.place(call.expressions[0]))
        return window.over(name, (), BIGINT.not_null(), rows=name == "ROW_NUMBER")
    operands = [binder.bind(a) for a in call.expressions]
    if not 1 <= len(operands) <= 3:
        raise SqlError("SQL202", count=len(operands), name="LAG", place=binder.place(call))
    if len(operands) > 1:
        offset = operands[1].value if isinstance(operands[1], Literal) else None
        if not isinstance(offset, int) or offset < 0:
            place = binder.place(call.expressions[1])
            raise SqlError("SQL203.not_constant", what="the offset of LAG", kind="number of rows", place=place)
    if len(operands) > 2 and not _is_default(operands[2].type, operands[0].type):
        raise SqlError(
            "SQL203.type",
            type=operands[2].type,
            what="the default of LAG",
            wanted=operands[0].type,
            place=binder.place(call.expressions[2]),
        )
    nullable = len(operands) < 3 or operands[2].type.nullable
    return window.over(name, operands, operands[0].type.as_nullable(nullable))


def _is_default(default: LogicalType, field: LogicalType) -> bool:
    """Whether LAG takes a default of this type for a field: one of the same root, or a text for a text
    (``AggFunctionFactory.createLagAggFunction``)."""
    return default.root == field.root or (default.is_string and field.is_string)


def _aggregate(binder: Binder, name: str, call: exp.Expr, window: _Window) -> Rex:
    arguments, distinct = list(call.expressions), False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments, distinct = arguments[0].expressions, True
    star = len(arguments) == 1 and isinstance(arguments[0], exp.Star)
    place = binder.place(call)
    if (star and name != "COUNT") or (not arguments and name == "COUNT"):
        raise SqlError("SQL106.takes_values", name=name, place=place, expected=f"{name}(column)")
    if name == "COUNT" and len(arguments) > 1:
        raise not_supported("COUNT of several columns", place)
    if name.startswith(("JSON_", "GROUP")):
        raise not_supported(f"{name} with OVER", place)
    function = find_aggregate(name)
    assert function is not None
    operands = [] if star else [binder.bind(a) for a in arguments]
    operands = aggregate_operands(name, operands, distinct, place, [binder.place(a) for a in arguments])
    result = function.infer([o.type for o in operands], place, grouped=window.never_empty)
    if name == "SUM":
        return _sum(window, operands[0], result, distinct)
    if name == "AVG":
        return _average(window, operands[0], result, distinct)
    if name in VARIANCES:
        return _variance(window, operands[0], result, *VARIANCES[name])
    over_call = window.over(name, operands, result, distinct and name not in ("MIN", "MAX"))
    return replace(over_call, ignore_nulls=ignores_nulls(call))


def _user_aggregate(binder: Binder, user: FoundFunction, call: exp.Expr, window: _Window) -> Rex:
    """A function of Python: one that takes columns, as Flink has it."""
    place = binder.place(call)
    function = require_kind(user, "AGGREGATE", place, "with OVER")
    if function.vector == "general":
        raise not_supported(
            f"OVER with the function {function.name}, which takes row by row",
            place,
            "declare it with func_type='pandas': it is given the rows of a frame as columns",
        )
    if len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Distinct):
        raise not_supported(f"DISTINCT with OVER and the function {function.name}", place)
    operands = fitted(user, [binder.bind(a) for a in call.expressions], place)
    over_call = window.over(function.name, operands, function.result)
    return replace(over_call, system_name=user.system_name, catalog_name=user.catalog_name)


def _count(window: _Window, operand: Rex, distinct: bool = False) -> Rex:
    return window.over("COUNT", [operand], BIGINT.not_null(), distinct)


def _sum(window: _Window, operand: Rex, result: LogicalType, distinct: bool = False) -> Rex:
    """The sum of no values is NULL, where there may be none."""
    if not result.nullable:
        return window.over("SUM", [operand], result, distinct)
    zero = Literal(BIGINT.not_null(), 0)
    total = window.over("$SUM0", [operand], result.not_null(), distinct)
    some = make_call(">", [_count(window, operand, distinct), zero], window.place)
    return make_call("CASE", [some, cast(total, result), Literal(result.as_nullable(), None)], window.place)


def _sum_of(window: _Window, operand: Rex, distinct: bool = False) -> Rex:
    function = find_aggregate("SUM")
    assert function is not None
    result = function.infer([operand.type], window.place, grouped=window.never_empty)
    return _sum(window, operand, result, distinct)


def _as(rex: Rex, target: LogicalType, place: Place) -> Rex:
    """``rex`` as a type, whether nullable or not."""
    if rex.type.as_nullable() == target.as_nullable():
        return rex
    return cast_rex(rex, target.as_nullable(rex.type.nullable), place)


def _average(window: _Window, operand: Rex, result: LogicalType, distinct: bool) -> Rex:
    total = _as(_sum_of(window, operand, distinct), result, window.place)
    divided = make_call("/", [total, _count(window, operand, distinct)], window.place)
    return _as(divided, result, window.place)


def _variance(window: _Window, operand: Rex, result: LogicalType, sample: bool, root: bool) -> Rex:
    place = window.place
    operand = _as(operand, result, place)
    square = make_call("*", [operand, operand], place)
    total = _as(_sum_of(window, operand), result, place)
    count = _count(window, operand)
    number = _as(count, result, place)
    mean = make_call("/", [make_call("*", [total, total], place), number], place)
    rest = make_call("-", [_sum_of(window, square), mean], place)
    if sample:
        one = number_literal("1", place)
        alone = make_call("=", [count, one], place)
        number = make_call("CASE", [alone, null_literal(), make_call("-", [count, one], place)], place)
    out = make_call("/", [rest, number], place)
    if root:
        out = make_call("POWER", [out, number_literal("0.5", place)], place)
    return _as(out, result, place)


# the window


def _window(binder: Binder, node: exp.Expr) -> _Window:
    parts = _parts(binder, node)
    partition = tuple(binder.bind(e) for e in parts.get("partition_by") or ())
    order = parts.get("order")
    keys = tuple(
        (binder.bind(o.this), not o.args.get("desc"), not o.args.get("nulls_first"))
        for o in (() if order is None else order.expressions)
    )
    for item, (key, _, _) in zip(() if order is None else order.expressions, keys, strict=True):
        check_ordered(key.type, binder.place(item))
    window_spec = parts.get("spec")
    frame = None if window_spec is None else _frame(binder, window_spec)
    return _Window(partition, keys, frame, binder.place(node), binder.scope.over_hint)


def named_windows(windows: Sequence[exp.Expr], place: Callable[[exp.Expr], Place]) -> dict[str, exp.Expr]:
    """The windows of a WINDOW clause by their names. Raises SqlError SQL105 for two of one name."""
    by_name: dict[str, exp.Expr] = {}
    for window in windows:
        if window.this.name in by_name:
            raise SqlError("SQL105.twice", name=window.this.name, place=place(window.this))
        by_name[window.this.name] = window
    return by_name


def _parts(binder: Binder, node: exp.Expr, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """PARTITION BY, ORDER BY and frame of a window, with those of the window that it builds on.

    Args:
        above: the names of the windows that build on it.
    """
    parts = {key: part for key in ("partition_by", "order", "spec") if (part := node.args.get(key))}
    base = node.args.get("alias")
    if base is None:
        return parts
    name, windows = base.name, binder.named_windows
    if name not in windows:
        raise SqlError("SQL105.no_window", name=name, place=binder.place(base), hint=nearest(name, windows))
    if name in above:
        raise SqlError("SQL105.own_base", name=name, place=binder.place(base))
    inherited_parts = _parts(binder, windows[name], (*above, name))
    problem = None
    if "partition_by" in parts:
        problem = "cannot have a PARTITION BY"
    elif "order" in parts and "order" in inherited_parts:
        problem = "cannot have a second ORDER BY"
    elif parts and "spec" in inherited_parts:
        problem = f"cannot have more parts, because '{name}' has ROWS or RANGE"
    if problem is not None:
        raise SqlError("SQL105.second_part", name=name, problem=problem, place=binder.place(node))
    return inherited_parts | parts


def _frame(binder: Binder, spec: exp.Expr) -> Frame:
    args = spec.args
    rows = args["kind"] == "ROWS"
    lower = _bound(binder, args["start"], args.get("start_side"), rows)
    upper = CURRENT_ROW
    if args.get("end") is not None:
        upper = _bound(binder, args["end"], args.get("end_side"), rows)
    order = ("UNBOUNDED_PRECEDING", "PRECEDING", "CURRENT_ROW", "FOLLOWING", "UNBOUNDED_FOLLOWING")
    first, last = order.index(lower.kind), order.index(upper.kind)
    if first > last or lower.kind == "UNBOUNDED_FOLLOWING" or upper.kind == "UNBOUNDED_PRECEDING":
        raise SqlError("SQL105.reversed_frame", text=lower.text, upper_text=upper.text, place=binder.place(spec))
    return Frame(rows, lower, upper)


def _bound(binder: Binder, value: object, side: str | None, rows: bool) -> Bound:
    if side is None:
        return CURRENT_ROW
    if not isinstance(value, exp.Expr):
        return Bound("UNBOUNDED_PRECEDING" if side == "PRECEDING" else "UNBOUNDED_FOLLOWING")
    offset = binder.bind(value)
    is_supported = offset.type.is_integer if rows else offset.type.root == "INTERVAL_DAY_TIME"
    negative = isinstance(offset, Literal) and str(offset.value).startswith("-")
    if not isinstance(offset, Literal) or not is_supported or negative:
        raise SqlError(
            "SQL105.frame_bound",
            unit="ROWS" if rows else "RANGE",
            kind="number of rows" if rows else "length of time",
            place=binder.place(value),
            expected="a constant: 2 PRECEDING" if rows else "a constant: INTERVAL '10' SECOND PRECEDING",
        )
    return Bound("PRECEDING" if side == "PRECEDING" else "FOLLOWING", offset)
