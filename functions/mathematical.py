"""Rows of the function table: mathematics, and numbers written in other bases."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.errors import Place, SqlError, one_of
from stateplan.common.types import DOUBLE, INT, STRING, LogicalType
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.table import ScalarFunction, always, argument, forced_nullable, register
from stateplan.functions.typerules import decimal, decimal_round, varbinary

_DOUBLE = always(DOUBLE)
_LOGARITHMS = ("LN", "LOG10", "LOG2", "EXP")
_ANGLES = ("SIN", "COS", "TAN", "COT", "ASIN", "ACOS", "ATAN", "SINH", "COSH", "TANH", "DEGREES", "RADIANS")


ROUNDED_TO = (
    *("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER"),
    *("YEAR", "DECADE", "CENTURY", "MILLENNIUM"),
)
"""Units of FLOOR and CEIL."""


def _whole_number_type(operands: Sequence[Rex]) -> LogicalType:
    """FLOOR and CEIL: DECIMAL loses its fraction; dates and times keep their type, but not as a time attribute.

    Raises SqlError SQL203 for a number with a unit, and for a date or time without one or with another.
    """
    t = operands[0].type
    unit = operands[1].value if len(operands) > 1 and isinstance(operands[1], Literal) else None
    units = () if t.is_numeric else ROUNDED_TO
    if unit not in (units or (None,)):
        code = "SQL203.unknown_unit" if unit is not None else "SQL203.unit_missing"
        raise SqlError(code, what=f"FLOOR or CEIL of {t.summary()}", unit=unit, expected=one_of(units) or "no unit")
    if t.root == "DECIMAL":
        return decimal(t.precision or 10, 0, t.nullable)
    return LogicalType(t.root, t.nullable, precision=t.precision) if t.kind else t


def _rounding_type(operands: Sequence[Rex]) -> LogicalType:
    t = operands[0].type
    nullable = any(o.type.nullable for o in operands)
    if t.root != "DECIMAL":
        return t.as_nullable(nullable)
    if len(operands) == 1:
        return decimal_round(t, 0).as_nullable(nullable)
    places = operands[1]
    if isinstance(places, Literal) and isinstance(places.value, int):
        t = decimal_round(t, places.value)
    return t.as_nullable(nullable)


def _sqrt(operands: Sequence[Rex], place: Place | None) -> Rex:
    half = Literal(decimal(2, 1, nullable=False), "0.5")
    return Call(DOUBLE.as_nullable(operands[0].type.nullable), (operands[0], half), "$POWER$1")


def _alike(operands: Sequence[Rex]) -> Sequence[Rex]:
    """Raises SqlError SQL203, for a DECIMAL next to another number, which Flink does not compute with."""
    exact = [o.type.root == "DECIMAL" for o in operands]
    if any(exact) and not all(exact):
        raise SqlError("SQL203", name="ATAN2", types=[o.type for o in operands])
    return operands


register(
    [
        ScalarFunction("ABS", ("NUMERIC",), argument(0)),
        ScalarFunction("SIGN", ("NUMERIC",), argument(0)),
        ScalarFunction("CEIL", ("NUMERIC|DATETIME", "SYMBOL"), _whole_number_type, optional=1, aliases=("CEILING",)),
        ScalarFunction("FLOOR", ("NUMERIC|DATETIME", "SYMBOL"), _whole_number_type, optional=1),
        ScalarFunction("ROUND", ("NUMERIC", "INT"), _rounding_type, optional=1),
        ScalarFunction("TRUNCATE", ("NUMERIC", "INT"), _rounding_type, optional=1),
        ScalarFunction("POWER", ("NUMERIC", "NUMERIC"), _DOUBLE),
        ScalarFunction("SQRT", ("NUMERIC",), _DOUBLE, rewrite=_sqrt),
        ScalarFunction("LOG", ("NUMERIC", "NUMERIC"), _DOUBLE, optional=1),
        *(ScalarFunction(name, ("NUMERIC",), _DOUBLE) for name in (*_LOGARITHMS, *_ANGLES)),
        ScalarFunction("ATAN2", ("NUMERIC", "NUMERIC"), _DOUBLE, coerce=_alike),
        ScalarFunction("RAND", ("INT",), always(DOUBLE), optional=1, deterministic=False),
        ScalarFunction("RAND_INTEGER", ("INT", "INT"), always(INT), optional=1, deterministic=False),
        ScalarFunction("UUID", (), always(LogicalType("CHAR", length=36), False), deterministic=False),
        ScalarFunction("PI", (), always(DOUBLE, False)),
        ScalarFunction("E", (), always(DOUBLE, False)),
        ScalarFunction("BIN", ("INTEGER",), always(STRING)),
        ScalarFunction("HEX", ("INTEGER|CHARACTER",), always(STRING)),
        ScalarFunction("UNHEX", ("CHARACTER",), forced_nullable(varbinary())),
    ]
)
