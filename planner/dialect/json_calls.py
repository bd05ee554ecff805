"""The part of the parser that reads the arguments of JSON functions, with the clauses behind them.

A clause is an ``exp.Var`` of its words: ``NULL ON NULL``, ``TRUE ON ERROR``, ``EMPTY ARRAY ON EMPTY``,
``WITH CONDITIONAL WRAPPER``. ``RETURNING type`` is a ``nodes.JsonReturning``, ``DEFAULT x ON EMPTY`` a
``nodes.JsonDefault``, and a key with its value an ``exp.JSONKeyValue``.

Source: ``JsonValueFunctionCall`` and its neighbours in Calcite's ``Parser.jj``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from sqlglot import exp

from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.base import alternatives, with_position
from stateplan.planner.dialect.types import TypeParser

_EXISTS = ("TRUE", "FALSE", "UNKNOWN", "ERROR")
_VALUE = ("NULL", "ERROR", "DEFAULT")
_QUERY = ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT")

#: What follows a column called ``key``; anything else follows the keyword KEY.
_AFTER_COLUMN = frozenset(("VALUE", ",", ":", ".", "[", "||", "*", "/", "%"))


class JsonCallParser(TypeParser):
    """The part of the parser that reads the arguments of JSON functions."""

    _expression: Callable[[], exp.Expr]  # in expressions.py

    # JSON_EXISTS, JSON_VALUE, JSON_QUERY

    def _json_exists_arguments(self) -> list[exp.Expr]:
        arguments = self._json_and_path()
        if not self._is(")"):
            arguments.append(self._json_behaviour(_EXISTS, ["ERROR"]))
        return arguments

    def _json_value_arguments(self) -> list[exp.Expr]:
        arguments, others = self._json_and_path(), "RETURNING, "
        if self._is("RETURNING"):
            arguments.append(self._json_returning())
            others = ""
        return [*arguments, *self._json_behaviours(_VALUE, others)]

    def _json_query_arguments(self) -> list[exp.Expr]:
        arguments, others = self._json_and_path(), "RETURNING, WITH or WITHOUT WRAPPER, "
        if self._is("RETURNING"):
            arguments.append(self._json_returning())
            others = "WITH or WITHOUT WRAPPER, "
        if self._is("WITH") or self._is("WITHOUT"):
            arguments.append(self._json_wrapper())
            others = ""
        return [*arguments, *self._json_behaviours(_QUERY, others)]

    def _json_and_path(self) -> list[exp.Expr]:
        text = self._json_input()
        self._expect(",", expected=", and a path such as '$.a'")
        path = self._expression()
        if self._is("PASSING"):
            raise self._unsupported("PASSING", self._curr)
        return [text, path]

    def _json_input(self) -> exp.Expr:
        value = self._expression()
        if self._is("FORMAT", "JSON"):
            raise self._unsupported("FORMAT JSON", self._curr)
        return value

    @with_position
    def _json_returning(self) -> nodes.JsonReturning:
        self._expect("RETURNING")
        return nodes.JsonReturning(this=self._type_before_null())

    @with_position
    def _json_wrapper(self) -> exp.Var:
        kind = self._either(("WITHOUT", "WITH"))
        if kind == "WITH":
            kind = f"WITH {self._accept_any(('CONDITIONAL', 'UNCONDITIONAL')) or 'UNCONDITIONAL'}"
        self._accept("ARRAY")
        self._expect("WRAPPER")
        return exp.Var(this=f"{kind} WRAPPER")

    def _json_behaviours(self, actions: Sequence[str], others: str) -> list[exp.Expr]:
        """``NULL ON EMPTY`` and ``ERROR ON ERROR``, each at most once and in any order; ``others`` may precede them."""
        events, behaviours = ["EMPTY", "ERROR"], []
        while events and not self._is(")"):
            behaviours.append(self._json_behaviour(actions, events, others))
            others = ""
        return behaviours

    @with_position
    def _json_behaviour(self, actions: Sequence[str], events: list[str], others: str = "") -> exp.Expr:
        """``action ON event``; the event is taken out of ``events``."""
        action = self._accept_any(actions)
        if action is None:
            raise self._unexpected(
                f"{others}{alternatives(actions)} ON {alternatives(events)}, or )",
                words=[*actions, *others.replace(",", "").upper().split()],
            )
        default = self._expression() if action == "DEFAULT" else None
        self._expect("ON", expected=f"ON {alternatives(events)}")
        event = self._either(events)
        events.remove(event)
        if default is not None:
            return nodes.JsonDefault(this=default, event=event)
        return exp.Var(this=f"{action} ON {event}")

    # JSON_OBJECT, JSON_ARRAY and their aggregates

    def _json_object_arguments(self) -> list[exp.Expr]:
        arguments: list[exp.Expr] = [] if self._json_pairs_end() else list(self._csv(self._json_pair))
        return [*arguments, *self._json_on_null()]

    def _json_array_arguments(self) -> list[exp.Expr]:
        arguments = [] if self._json_pairs_end() else self._csv(self._json_input)
        if self._is("ORDER", "BY"):
            raise self._unsupported("ORDER BY in JSON_ARRAYAGG", self._curr)
        return [*arguments, *self._json_on_null()]

    def _json_pairs_end(self) -> bool:
        return self._is(")") or self._is("NULL", "ON") or self._is("ABSENT", "ON")

    @with_position
    def _json_pair(self) -> exp.JSONKeyValue:
        """``[KEY] k VALUE v``, ``k, v`` or ``k : v``."""
        begins_with_key = self._is("KEY") and self._word_at(1) not in _AFTER_COLUMN
        if begins_with_key:
            self._advance()
        key = self._expression()
        if not self._accept("VALUE") and (begins_with_key or not (self._accept(",") or self._accept(":"))):
            raise self._unexpected("VALUE and a value", words=("VALUE",))
        return exp.JSONKeyValue(this=key, expression=self._json_input())

    def _json_on_null(self) -> list[exp.Var]:
        if self._is(")"):
            return []
        start = self._curr
        action = self._accept_any(("NULL", "ABSENT"))
        if action is None:
            raise self._unexpected("a comma, NULL ON NULL, ABSENT ON NULL or )", words=("NULL", "ABSENT"))
        self._expect("ON", "NULL")
        return [self._mark(exp.Var(this=f"{action} ON NULL"), start)]

    JSON_ARGUMENTS: ClassVar[dict[str, Callable[[JsonCallParser], list[exp.Expr]]]] = {
        "JSON_EXISTS": _json_exists_arguments,
        "JSON_VALUE": _json_value_arguments,
        "JSON_QUERY": _json_query_arguments,
        **dict.fromkeys(("JSON_OBJECT", "JSON_OBJECTAGG"), _json_object_arguments),
        **dict.fromkeys(("JSON_ARRAY", "JSON_ARRAYAGG"), _json_array_arguments),
    }
    """What reads the arguments of a function."""
