"""Calls of JSON functions: the clauses in their arguments become symbols, defaults and a result type.

Source: Flink's ``SqlJsonValueFunctionWrapper`` and ``SqlJsonQueryFunctionWrapper``, Calcite's ``SqlJsonObjectFunction``
and ``StandardConvertletTable``; the types that RETURNING takes are those of Flink's ``JsonValueCallGen`` and
``JsonQueryCallGen``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from stateplan.common.errors import SqlError
from stateplan.common.types import STRING, LogicalType
from stateplan.functions.builder import make_call
from stateplan.functions.literals import symbol
from stateplan.functions.rex import Literal, Rex
from stateplan.planner.binding.scope import Binder
from stateplan.planner.dialect import function_name, logical_type, nodes

_SCALARS = ("VARCHAR", "BOOLEAN", "INTEGER", "DOUBLE")
_WRAPPERS = {
    "WITHOUT WRAPPER": "WITHOUT_ARRAY",
    "WITH CONDITIONAL WRAPPER": "CONDITIONAL_ARRAY",
    "WITH UNCONDITIONAL WRAPPER": "WITH_UNCONDITIONAL_ARRAY",
}
_ON_NULL = {"NULL ON NULL": "NULL", "ABSENT ON NULL": "ABSENT"}


def bind_json_call(binder: Binder, name: str, call: exp.Expr) -> Rex:
    """The expression of a call of one of :data:`JSON_CALLS`.

    Raises:
        SqlError: SQL203 (types of arguments, types that RETURNING or DEFAULT cannot have), and what arguments raise.
    """
    return JSON_CALLS[name](binder, call)


def _exists(binder: Binder, call: exp.Expr) -> Rex:
    operands = [binder.bind(a) for a in call.expressions[:2]]
    operands += [symbol("JSON_EXISTS_ON_ERROR", clause.name.partition(" ")[0]) for clause in call.expressions[2:]]
    return make_call("JSON_EXISTS", operands, binder.place(call))


def _value(binder: Binder, call: exp.Expr) -> Rex:
    clauses, result = _returning(binder, "JSON_VALUE", call, _is_scalar, "STRING, BOOLEAN, INT or DOUBLE")
    operands = [binder.bind(a) for a in call.expressions[:2]]
    for clause in clauses:
        if isinstance(clause, nodes.JsonDefault):
            action, event = "DEFAULT", clause.args["event"]
            values = [_default(binder, clause, result)]
        else:
            action, _, event = clause.name.split(" ")
            values = []
        operands += [symbol("JSON_VALUE_ON_EMPTY_OR_ERROR", action), *values, symbol("JSON_EMPTY_OR_ERROR", event)]
    return replace(make_call("JSON_VALUE", operands, binder.place(call)), type=result)


def _default(binder: Binder, clause: nodes.JsonDefault, result: LogicalType) -> Rex:
    value = binder.bind(clause.this)
    fits = {
        "VARCHAR": True,
        "BOOLEAN": value.type.root == "BOOLEAN",
        "INTEGER": value.type.is_integer,
        "DOUBLE": value.type.is_numeric,
    }
    if value.type.root != "NULL" and not fits[result.root]:
        raise SqlError(
            "SQL203.type",
            type=value.type,
            what="the DEFAULT of JSON_VALUE",
            place=binder.place(clause.this),
            expected=f"a value of the type {result.summary()}",
        )
    return value


def _query(binder: Binder, call: exp.Expr) -> Rex:
    clauses, result = _returning(binder, "JSON_QUERY", call, _is_text_or_texts, "STRING or ARRAY<STRING>")
    of_array = result.root == "ARRAY"
    wrapper, on = "WITHOUT WRAPPER", {"EMPTY": "NULL", "ERROR": "NULL"}
    for clause in clauses:
        if clause.name in _WRAPPERS:
            wrapper = clause.name
            continue
        action, _, event = clause.name.partition(" ON ")
        if of_array and action == "EMPTY OBJECT":
            raise SqlError("SQL203.result_type", type=result, name="EMPTY OBJECT", place=binder.place(clause))
        on[event] = action.replace(" ", "_")
    operands = [
        *(binder.bind(a) for a in call.expressions[:2]),
        symbol("JSON_QUERY_WRAPPER", _WRAPPERS[wrapper]),
        *(symbol("JSON_QUERY_ON_EMPTY_OR_ERROR", action) for action in on.values()),
    ]
    return replace(make_call("JSON_QUERY", operands, binder.place(call)), type=result)


def _is_scalar(result: LogicalType) -> bool:
    return result.root in _SCALARS


def _is_text_or_texts(result: LogicalType) -> bool:
    return result.root == "VARCHAR" or (result.root == "ARRAY" and result.children[0].is_string)


def _returning(
    binder: Binder, name: str, call: exp.Expr, fits: Callable[[LogicalType], bool], expected: str
) -> tuple[Sequence[exp.Expr], LogicalType]:
    """The clauses behind RETURNING, and the type of the result. Raises SqlError SQL203, for one that does not fit."""
    clauses = call.expressions[2:]
    if not clauses or not isinstance(clauses[0], nodes.JsonReturning):
        return clauses, STRING
    result = logical_type(clauses[0].this)
    if not fits(result):
        place = binder.place(clauses[0])
        raise SqlError("SQL203.result_type", name=name, type=result, place=place, expected=expected)
    return clauses[1:], result


def _object(binder: Binder, call: exp.Expr) -> Rex:
    pairs, operands = _on_null(call)
    for pair in pairs:
        key = binder.bind(pair.this)
        if not key.type.is_string:
            raise SqlError("SQL203.type", type=key.type, what="a key of JSON_OBJECT", place=binder.place(pair.this))
        if key.type.nullable:
            raise SqlError("SQL203.nullable_key", place=binder.place(pair.this))
        operands += [key, _part(binder, pair.expression)]
    return make_call("JSON_OBJECT", operands, binder.place(call))


def _part(binder: Binder, value: exp.Expr) -> Rex:
    """What JSON is made of: a value, or ``JSON(text)``, which is here only."""
    if isinstance(value, exp.Anonymous) and function_name(value) == "JSON" and len(value.expressions) == 1:
        return make_call("JSON", [binder.bind(value.expressions[0])], binder.place(value))
    return binder.bind(value)


def _array(binder: Binder, call: exp.Expr) -> Rex:
    values, operands = _on_null(call)
    operands += [_part(binder, v) for v in values]
    return make_call("JSON_ARRAY", operands, binder.place(call))


def _on_null(call: exp.Expr) -> tuple[Sequence[exp.Expr], list[Rex]]:
    """The arguments before the clause, and its symbol."""
    arguments = call.expressions
    last = arguments[-1] if arguments else None
    if isinstance(last, exp.Var) and last.name in _ON_NULL:
        flag: Literal = symbol("JSON_ON_NULL", _ON_NULL[last.name])
        return arguments[:-1], [flag]
    return arguments, []


JSON_CALLS: dict[str, Callable[[Binder, exp.Expr], Rex]] = {
    "JSON_EXISTS": _exists,
    "JSON_VALUE": _value,
    "JSON_QUERY": _query,
    "JSON_OBJECT": _object,
    "JSON_ARRAY": _array,
}
"""The functions whose arguments have clauses, with the function that binds a call."""
