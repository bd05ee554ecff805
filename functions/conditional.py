"""Rows of the function table: CASE, COALESCE, IF and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import BOOLEAN, LogicalType
from stateplan.functions.casting import cast_rex
from stateplan.functions.coercion import case_operands, equal_operands, to_common
from stateplan.functions.comparison import check_ordered
from stateplan.functions.literals import null_literal
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.table import ScalarFunction, argument, register
from stateplan.functions.typerules import common_type, family, least_restrictive


def _mixing(name: str, types: Sequence[LogicalType]) -> SqlError:
    return SqlError("SQL203.mixed", types=types, what=f"the values of {name}")


def _case_type(operands: Sequence[Rex]) -> LogicalType:
    values = [*operands[1:-1:2], operands[-1]]
    result_type = least_restrictive([v.type for v in values])
    if result_type is None:
        raise _mixing("CASE", [v.type for v in values])
    return result_type


def _case(operands: Sequence[Rex], place: Place | None) -> Rex:
    if len(operands) % 2 == 0:
        raise SqlError("SQL202.takes", name="CASE", what="(condition, value) pairs and an ELSE value", place=place)
    for condition in operands[:-1:2]:
        if condition.type.root != "BOOLEAN":
            raise SqlError("SQL203.type", type=condition.type, what="a WHEN condition", place=place)
    values = [*operands[1:-1:2], operands[-1]]
    if all(isinstance(v, Literal) and v.type.root == "NULL" for v in values):
        raise SqlError("SQL203.untyped", what="every value of CASE", place=place)
    return Call(_case_type(operands), tuple(case_operands(operands)), "$CASE$1", "SPECIAL")


def _common(operands: Sequence[Rex], name: str) -> LogicalType:
    result_type = common_type([o.type for o in operands])
    if result_type is None or result_type.root == "NULL":
        raise _mixing(name, [o.type for o in operands])
    return result_type


def _coalesce_type(operands: Sequence[Rex]) -> LogicalType:
    return _common(operands, "COALESCE").as_nullable(all(o.type.nullable for o in operands))


def _ifnull_type(operands: Sequence[Rex]) -> LogicalType:
    return _common(operands, "IFNULL").as_nullable(operands[1].type.nullable if operands[0].type.nullable else False)


def _if_type(operands: Sequence[Rex]) -> LogicalType:
    """Numbers and texts give their least restrictive type; others the type of the first value."""
    types = [o.type for o in operands[1:]]
    result_type = least_restrictive(types)
    if result_type is None:
        raise _mixing("IF", types)
    if family(result_type) not in ("NUMERIC", "CHARACTER"):
        result_type = types[0]
    return result_type.as_nullable(any(o.type.nullable for o in operands))


def _extreme_type(operands: Sequence[Rex]) -> LogicalType:
    for operand in operands:
        check_ordered(operand.type, None)
    return _common(operands, "GREATEST").as_nullable(any(o.type.nullable for o in operands))


def _nullif(operands: Sequence[Rex], place: Place | None) -> Rex:
    a, b = operands
    if isinstance(b, Literal) and b.type.root == "NULL":
        return a if a.type.nullable else Call(a.type.as_nullable(), (a,), "$CAST$1", "SPECIAL")
    sides = equal_operands((a, b))
    if sides is None:
        raise SqlError("SQL203.incomparable", left=a.type, right=b.type, name="NULLIF", place=place)
    equal = Call(BOOLEAN.as_nullable(any(s.type.nullable for s in sides)), tuple(sides), "$=$1", "BINARY")
    return Call(a.type.as_nullable(), (equal, null_literal(a.type), a), "$CASE$1", "SPECIAL")


def _cast(operands: Sequence[Rex], place: Place | None, try_cast: bool) -> Rex:
    return cast_rex(operands[0], operands[1].type, place, try_cast=try_cast)


_PAIR = ("ANY", "ANY")

register(
    [
        ScalarFunction(
            "CASE", ("BOOLEAN", "ANY", "ANY"), _case_type, variadic=True, syntax="SPECIAL", rewrite=_case, nulls=True
        ),
        ScalarFunction("COALESCE", ("ANY",), _coalesce_type, variadic=True, coerce=to_common, nulls=True),
        ScalarFunction("IFNULL", ("ANY", "ANY"), _ifnull_type, coerce=to_common, nulls=True),
        ScalarFunction("IF", ("BOOLEAN", "ANY", "ANY"), _if_type),
        ScalarFunction("NULLIF", ("ANY", "ANY"), argument(0, True), rewrite=_nullif, nulls=True),
        ScalarFunction("GREATEST", ("ANY",), _extreme_type, variadic=True),
        ScalarFunction("LEAST", ("ANY",), _extreme_type, variadic=True),
        *(
            ScalarFunction(name, _PAIR, argument(1, nullable), syntax="SPECIAL", nulls=True, rewrite=rewrite)
            for name, nullable, rewrite in (
                ("CAST", None, partial(_cast, try_cast=False)),
                ("TRY_CAST", True, partial(_cast, try_cast=True)),
            )
        ),
    ]
)
