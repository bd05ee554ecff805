"""Operands of aggregate functions, as the functions take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import DOUBLE, LogicalType
from stateplan.functions.casting import cast_rex
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.table import wrong_count
from stateplan.functions.typerules import family
from stateplan.planner.expressions.ops import kind
from stateplan.planner.positions import not_supported

_PERCENTAGES = LogicalType("ARRAY", False, children=(DOUBLE.not_null(),))


def aggregate_operands(
    name: str, operands: Sequence[Rex], distinct: bool, place: Place, places: Sequence[Place]
) -> list[Rex]:
    """The operands of the aggregate function ``name``, with their casts.

    Args:
        place: the place of the call.
        places: the places of its arguments.

    Raises:
        SqlError: SQL203, for a separator of LISTAGG that is not a constant, and for values, percentages and frequencies
            that PERCENTILE does not take; SQL202, for the number of these; SQL150, for PERCENTILE of DISTINCT values
            with a frequency or another percentage in each row.
    """
    if name == "LISTAGG" and len(operands) > 1 and not isinstance(operands[1], Literal):
        raise SqlError("SQL203.not_constant", what="the separator of LISTAGG", kind="text", place=places[1])
    if name == "PERCENTILE":
        return _percentile(operands, distinct, place, places)
    return list(operands)


def json_aggregate(
    name: str, arguments: Sequence[exp.Expr], place: Callable[[exp.Expr], Place]
) -> tuple[str, list[exp.Expr]]:
    """The aggregate that a JSON_OBJECTAGG or JSON_ARRAYAGG is, and its operands.

    Raises:
        SqlError: SQL150, for a clause that is not supported.
    """
    on_null = "NULL_ON_NULL" if name == "JSON_OBJECTAGG" else "ABSENT_ON_NULL"
    operands: list[exp.Expr] = []
    for a in arguments:
        if isinstance(a, exp.JSONKeyValue):
            operands += [a.this, a.expression]
        elif isinstance(a, exp.Var) and a.name in ("NULL ON NULL", "ABSENT ON NULL"):
            on_null = a.name.replace(" ", "_")
        elif isinstance(a, exp.Var):
            raise not_supported(f"{a.name} in a call of {name}", place(a))
        else:
            operands.append(a)
    return f"{name}_{on_null}", operands


def _percentile(operands: Sequence[Rex], distinct: bool, place: Place, places: Sequence[Place]) -> list[Rex]:
    """PERCENTILE's, the percentages as DOUBLE.

    Source: the input strategies of ``BuiltInFunctionDefinitions.PERCENTILE``; Flink looks at percentages in an ARRAY
    only when it runs.
    """
    if not 2 <= len(operands) <= 3:
        raise wrong_count("PERCENTILE", len(operands), "two arguments, or a frequency as the third", place)
    types = [o.type for o in operands]
    percentage = types[1]
    element = percentage.children[0] if percentage.root == "ARRAY" else percentage
    if (
        family(types[0]) != "NUMERIC"
        or family(element) != "NUMERIC"
        or percentage.nullable
        or element.nullable
        or not all(t.is_integer for t in types[2:])
    ):
        type_names = ", ".join(t.summary() for t in types)
        raise SqlError("SQL203", types=type_names, name="PERCENTILE", place=place)
    constants = _constants(operands[1])
    for value in constants or ():
        if not 0 <= float(str(value)) <= 1:
            raise SqlError("SQL203.out_of_range", value=value, what="the percentage of PERCENTILE", place=places[1])
    if distinct and (constants is None or len(operands) > 2):
        subject = "a frequency" if len(operands) > 2 else "a percentage that is no constant"
        raise not_supported(f"PERCENTILE of DISTINCT values with {subject}", place)
    target = _PERCENTAGES if percentage.root == "ARRAY" else DOUBLE
    return [operands[0], cast_rex(operands[1], target, places[1]), *operands[2:]]


def _constants(rex: Rex) -> list[object] | None:
    """The constants that a percentage is; None if it is another expression."""
    if isinstance(rex, Literal):
        return [rex.value]
    if not isinstance(rex, Call) or kind(rex) not in ("CAST", "ARRAY"):
        return None
    parts = [_constants(o) for o in rex.operands]
    return None if any(p is None for p in parts) else [v for p in parts for v in p or ()]
