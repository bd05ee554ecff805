"""``TUMBLE``, ``HOP`` and ``SESSION`` in GROUP BY, and the functions that return properties of their windows.

Source: Flink's ``LogicalWindowAggregateRuleBase``, ``WindowPropertiesRules`` and ``FlinkSqlOperatorTable``; Calcite's
``SqlGroupedWindowFunction``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sqlglot import exp

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Call, InputRef, Rex
from stateplan.planner.algebra.windows import TimeWindow, group_window_properties
from stateplan.planner.binding.expressions import ExpressionBinder
from stateplan.planner.binding.table_calls import TableCall
from stateplan.planner.dialect import function_name
from stateplan.planner.expressions.normal import equal
from stateplan.planner.positions import bare

_LENGTHS: Mapping[str, tuple[str, ...]] = {"TUMBLE": ("size",), "HOP": ("slide", "size"), "SESSION": ("gap",)}
_KINDS: Mapping[str, Literal["TUMBLE", "HOP", "SESSION"]] = {"TUMBLE": "TUMBLE", "HOP": "HOP", "SESSION": "SESSION"}
_PROPERTY_KINDS = {"START": "WindowStart", "END": "WindowEnd", "ROWTIME": "Rowtime", "PROCTIME": "Proctime"}

PROPERTIES = {f"{window}_{part}": (window, kind) for window in _LENGTHS for part, kind in _PROPERTY_KINDS.items()}
"""The functions that return a property of a window: the function of the window, and the property."""


def property_function(window: str, kind: str) -> str:
    """The function that returns the property ``kind`` of a window, such as ``TUMBLE_START``."""
    return next(name for name, property_key in PROPERTIES.items() if property_key == (window, kind))


@dataclass
class GroupWindow:
    """A window in GROUP BY.

    Attributes:
        call: for errors.
        window: with its lengths.
        time: the time attribute.
        lengths: as they are written.
        key: its place among the keys.
    """

    call: TableCall
    window: TimeWindow
    time: InputRef
    lengths: tuple[Rex, ...] = ()
    key: int = -1

    @property
    def as_call(self) -> Call:
        """The call that Flink's logical plan has for it."""
        return Call(self.time.type, (self.time, *self.lengths), internal_name=f"$${self.window.kind}$1")

    def same(self, other: GroupWindow) -> bool:
        """Whether the windows are the same."""
        return self.window == other.window and equal(self.time, other.time)


def group_window(node: exp.Expr, binder: ExpressionBinder, name: str | None = None) -> GroupWindow | None:
    """The window that an expression of GROUP BY is; None for another expression.

    Args:
        node: the expression.
        binder: the binder of expressions over what is grouped.
        name: the name of the function of the window, if the call is of a function that returns a property of it.

    Raises:
        SqlError: SQL119, for arguments that the function does not take.
    """
    node = bare(node)
    if not isinstance(node, exp.Anonymous):
        return None
    name = name or function_name(node)
    if name not in _LENGTHS:
        return None
    lengths = _LENGTHS[name]
    call = TableCall(node, function_name(node), binder.source, f"a time attribute and the {' and the '.join(lengths)}")
    arguments = call.arguments(("time", *lengths))
    for key in ("time", *lengths):
        if key not in arguments:
            raise call.wrong(f"{call.name} in GROUP BY has no {key}", node)
    time = binder.bind(arguments["time"])
    if not isinstance(time, InputRef) or time.type.kind is None:
        raise call.wrong(
            f"{call.name} in GROUP BY needs a time attribute",
            arguments["time"],
            "a column with a WATERMARK, or AS PROCTIME()",
        )
    spans = {key: call.length(key, arguments[key], binder.bind) for key in lengths}
    for key, span in spans.items():
        if span <= 0:
            raise call.wrong(f"the {key} of {call.name} is {span} ms", arguments[key], "more than 0 ms")
    size = spans["gap"] if name == "SESSION" else spans["size"]
    length_exprs = tuple(binder.bind(arguments[key]) for key in lengths)
    return GroupWindow(call, TimeWindow(_KINDS[name], size, spans.get("slide", 0)), time, length_exprs)


def window_property(
    node: exp.Expr, binder: ExpressionBinder, window: GroupWindow | None
) -> tuple[int, LogicalType] | None:
    """The property of the window in GROUP BY that an expression returns: its number among the properties, and its type;
    None for another expression.

    Raises:
        SqlError: SQL119, there is no such window.
    """
    if not isinstance(node, exp.Anonymous) or function_name(node) not in PROPERTIES:
        return None
    name, property_kind = PROPERTIES[function_name(node)]
    own_window = group_window(node, binder, name)
    assert own_window is not None
    if window is None or not window.same(own_window):
        raise own_window.call.wrong(
            f"{function_name(node)} tells of a window that is not in GROUP BY",
            node,
            f"the same {name}(...) in GROUP BY",
        )
    properties = group_window_properties(window.time.type)
    for number, ((_, kind), t) in enumerate(properties):
        if kind == property_kind:
            return number, t
    raise own_window.call.wrong(
        f"{function_name(node)} needs a window of event time", node, "a column with a WATERMARK"
    )
