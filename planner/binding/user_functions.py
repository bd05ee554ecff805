"""Calls of user-defined functions: finding them, and fitting their operands."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import LogicalType
from stateplan.functions.aggregates import find_aggregate, is_aggregate
from stateplan.functions.casting import cast_rex
from stateplan.functions.rex import Rex
from stateplan.functions.table import find_scalar, wrong_count
from stateplan.functions.typerules import is_implicit
from stateplan.planner.catalog.functions import FoundFunction, Functions
from stateplan.planner.dialect import function_name, name_parts


def user_function(node: exp.Expr, place: Place | None, functions: Functions | None) -> FoundFunction | None:
    """The user-defined function that a call names; None if it is none. Raises SqlError SQL210 to SQL214."""
    if functions is None:
        return None
    name = node.name
    built_in = find_scalar(name) is not None or find_aggregate(name) is not None
    return functions(name_parts(node), place, built_in)


def is_aggregate_call(node: exp.Expr, functions: Functions | None) -> bool:
    """Whether ``node`` calls an aggregate function, a built-in or a user-defined one."""
    if not isinstance(node, exp.Anonymous):
        return False
    user = user_function(node, None, functions)
    return is_aggregate(function_name(node)) if user is None else user.function.kind == "AGGREGATE"


def fitted(user: FoundFunction, operands: Sequence[Rex], place: Place) -> list[Rex]:
    """``operands`` with the casts that Flink inserts, for the types the function was declared with.

    Raises:
        SqlError: SQL202 (their number), SQL203 (their types).
    """
    function = user.function
    if function.arguments is None:
        return list(operands)
    if len(operands) != len(function.arguments):
        raise wrong_count(function.name, len(operands), function.signature, place)
    out = []
    for i, (operand, expected_type) in enumerate(zip(operands, function.arguments, strict=True)):
        if _fits(operand.type, expected_type):
            out.append(operand)
            continue
        if operand.type.root != "NULL" and not is_implicit(operand.type, expected_type):
            type_names = ", ".join(o.type.summary() for o in operands)
            raise SqlError(
                "SQL203.operand",
                name=function.name,
                types=type_names,
                position=i + 1,
                type=operand.type,
                place=place,
                expected=function.signature,
            )
        out.append(cast_rex(operand, expected_type, place))
    return out


def _fits(actual_type: LogicalType, expected_type: LogicalType) -> bool:
    """Whether a value of the one type is one of the other as it is (``LogicalTypeCasts.supportsAvoidingCast``)."""
    if actual_type.as_nullable() == expected_type.as_nullable():
        return expected_type.nullable or not actual_type.nullable
    if expected_type.root == "VARCHAR" and actual_type.root in ("CHAR", "VARCHAR"):
        return (actual_type.length or 1) <= (expected_type.length or 1) and (
            expected_type.nullable or not actual_type.nullable
        )
    return False
